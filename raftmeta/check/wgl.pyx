"""The walk, the cache, and the exact form of its keys."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcmp, memset

from raftmeta.check.model cimport NEVER, STATE_ASKS, STATE_NO_MEMORY, model_bytes, model_step
from raftmeta.check.problem cimport Node
from raftmeta.check.status cimport (ANSWER_ASKS, ANSWER_ILLEGAL, ANSWER_LEGAL, ANSWER_MEMORY, ANSWER_RUNNING, NONE)
from raftmeta.native.intrinsics cimport next_random

cdef enum:
    CACHE_SLOTS_MIN = 1024
    CACHE_KEPT_MAX = 32768      # entries that survive a decisive operation: to wipe them costs more than to pass them


cdef bint wgl_begin(Wgl* wgl, const Problem* problem, int32_t state, size_t bytes_max, bint is_exact) noexcept nogil:
    wgl.stack.clear()
    wgl.linearized.clear()
    wgl.order.clear()
    wgl.is_exact = is_exact
    wgl.low = wgl.high = wgl.steps = 0
    wgl.node = problem.nodes.data[problem.nodes.size].next if problem.nodes.size else NONE
    wgl.state = state
    wgl.left = problem.completed
    wgl.lowest = 0
    wgl.highest = NONE
    wgl.bytes_max = bytes_max
    return wgl.linearized.resize(problem.operations.size // 64 + 1) and _forget(wgl)


cdef Answer wgl_run(Wgl* wgl, Problem* problem, Model* model, uint64_t steps) noexcept nogil:
    cdef Node* node
    cdef int32_t state
    cdef int32_t number
    cdef uint64_t last = wgl.steps + steps
    while wgl.left > 0:
        if wgl.steps == last:
            return ANSWER_RUNNING
        wgl.steps += 1
        # There is one: the completion of what is left stands in the list, and the walk does not pass it.
        node = &problem.nodes.data[wgl.node]
        number = node.operation
        if number < 0:
            if wgl.stack.size == 0:
                return ANSWER_ILLEGAL
            _take_back(wgl, problem)
            continue
        if not _may_be_tried(wgl, problem, number):
            wgl.node = node.next
            continue
        state = model_step(model, wgl.state, &problem.operations.data[number])
        if state < 0:
            if state == STATE_ASKS:
                wgl.steps -= 1
                return ANSWER_ASKS
            if state == STATE_NO_MEMORY:
                return ANSWER_MEMORY
            wgl.node = node.next
            continue
        if node.completion == NONE and state == wgl.state:
            wgl.node = node.next    # a crashed operation need not have happened: one that changes nothing is not tried
            continue
        if not _decide(wgl, problem, model, number, state):
            return ANSWER_MEMORY
    return ANSWER_LEGAL if _tell_order(wgl) else ANSWER_MEMORY


cdef inline bint _is_linearized(const Wgl* wgl, int32_t number) noexcept nogil:
    return wgl.linearized.data[number >> 6] >> (number & 63) & 1


cdef inline bint _may_be_tried(const Wgl* wgl, const Problem* problem, int32_t number) noexcept nogil:
    cdef int32_t earlier = problem.earlier_alike.data[number]
    if earlier != NONE and not _is_linearized(wgl, earlier):
        return False
    earlier = problem.must_follow.data[number] if problem.must_follow.size > 0 else NONE
    return earlier == NONE or _is_linearized(wgl, earlier)


# Two words that stand for an operation in the fingerprint.
cdef inline uint64_t _word(int32_t number, uint64_t seed) noexcept nogil:
    cdef uint64_t mixed = <uint64_t>number ^ seed
    return next_random(&mixed)


cdef inline void _flip(Wgl* wgl, int32_t number) noexcept nogil:
    wgl.linearized.data[number >> 6] ^= <uint64_t>1 << (number & 63)
    wgl.low ^= _word(number, <uint64_t>0x6C6F770000000000)
    wgl.high ^= _word(number, <uint64_t>0x6869676800000000)


# Let the operation take effect, unless that was tried before; then walk on behind it. False: no memory.
cdef bint _decide(Wgl* wgl, Problem* problem, Model* model, int32_t number, int32_t state) noexcept nogil:
    cdef Decision decision
    cdef int32_t is_new
    decision.operation = number
    decision.state = wgl.state
    decision.highest = wgl.highest
    _flip(wgl, number)
    if number > wgl.highest:
        wgl.highest = number
    is_new = _remember(wgl, problem, model, state)
    if is_new <= 0:
        _flip(wgl, number)
        wgl.highest = decision.highest
        wgl.node = problem.nodes.data[problem.invocation.data[number]].next
        return is_new == 0
    if not wgl.stack.push(decision):
        return False
    wgl.state = state
    _cut_out(problem, number)
    if problem.operations.data[number].completed_at != NEVER:
        wgl.left -= 1
    _advance_lowest(wgl, problem)
    wgl.node = problem.nodes.data[problem.nodes.size].next
    # Everything before it took effect, and the state is the same whatever the order was: no other decision before it
    # can lead anywhere else.
    if problem.is_decisive.data[number]:
        return _settle(wgl)
    return True


cdef void _take_back(Wgl* wgl, Problem* problem) noexcept nogil:
    cdef Decision decision = wgl.stack.back()
    wgl.stack.pop()
    _flip(wgl, decision.operation)
    wgl.state = decision.state
    wgl.highest = decision.highest
    if decision.operation < wgl.lowest:
        wgl.lowest = decision.operation
    if problem.operations.data[decision.operation].completed_at != NEVER:
        wgl.left += 1
    _put_back(problem, decision.operation)
    wgl.node = problem.nodes.data[problem.invocation.data[decision.operation]].next


cdef inline void _unlink(Problem* problem, int32_t position) noexcept nogil:
    cdef Node* node = &problem.nodes.data[position]
    problem.nodes.data[node.previous].next = node.next
    if node.next != NONE:
        problem.nodes.data[node.next].previous = node.previous


cdef inline void _relink(Problem* problem, int32_t position) noexcept nogil:
    cdef Node* node = &problem.nodes.data[position]
    problem.nodes.data[node.previous].next = position
    if node.next != NONE:
        problem.nodes.data[node.next].previous = position


cdef inline void _cut_out(Problem* problem, int32_t number) noexcept nogil:
    cdef int32_t position = problem.invocation.data[number]
    _unlink(problem, position)
    if problem.nodes.data[position].completion != NONE:
        _unlink(problem, problem.nodes.data[position].completion)


# In the reverse order of _cut_out, as the neighbours are those of that moment.
cdef inline void _put_back(Problem* problem, int32_t number) noexcept nogil:
    cdef int32_t position = problem.invocation.data[number]
    if problem.nodes.data[position].completion != NONE:
        _relink(problem, problem.nodes.data[position].completion)
    _relink(problem, position)


cdef inline void _advance_lowest(Wgl* wgl, const Problem* problem) noexcept nogil:
    while (wgl.lowest < <int32_t>problem.operations.size
           and (_is_linearized(wgl, wgl.lowest) or problem.operations.data[wgl.lowest].completed_at == NEVER)):
        wgl.lowest += 1


# --- the linearization ------------------------------------------------------------------------------------------------
# What is on the stack goes behind what was settled before.
cdef bint _tell_order(Wgl* wgl) noexcept nogil:
    cdef size_t position
    for position in range(wgl.stack.size):
        if not wgl.order.push(wgl.stack.data[position].operation):
            return False
    wgl.stack.clear()
    return True


cdef bint _settle(Wgl* wgl) noexcept nogil:
    if not _tell_order(wgl):
        return False
    return _forget(wgl) if wgl.cached > CACHE_KEPT_MAX else True


# --- the cache --------------------------------------------------------------------------------------------------------
cdef bint _forget(Wgl* wgl) noexcept nogil:
    wgl.cached = 0
    wgl.keys.clear()
    if wgl.cache.size < CACHE_SLOTS_MIN and not wgl.cache.resize(CACHE_SLOTS_MIN):
        return False
    memset(wgl.cache.data, 0, wgl.cache.size * sizeof(Hash128))
    return not wgl.is_exact or wgl.cache_keys.resize(wgl.cache.size)


# 1: the linearized operations with this state were not there; they are now. 0: they were. -1: no memory.
cdef int32_t _remember(Wgl* wgl, const Problem* problem, const Model* model, int32_t state) noexcept nogil:
    cdef uint64_t low = wgl.low ^ _word(state, <uint64_t>0x7374617465000000)
    cdef uint64_t high = wgl.high ^ _word(state, <uint64_t>0x5354415445000000)
    cdef size_t key = wgl.keys.size
    cdef size_t slot, mask
    if low == 0 and high == 0:
        low = 1                 # all zero is a free slot
    if (wgl.cached + 1) * 4 > wgl.cache.size * 3 and not _grow(wgl, model):
        return -1
    if wgl.is_exact and not _push_key(wgl, problem, state):
        return -1
    mask = wgl.cache.size - 1
    slot = <size_t>low & mask
    while wgl.cache.data[slot].low != 0 or wgl.cache.data[slot].high != 0:
        if wgl.cache.data[slot].low == low and wgl.cache.data[slot].high == high:
            if not wgl.is_exact or _is_same_key(wgl, wgl.cache_keys.data[slot] - 1, key):
                wgl.keys.size = key
                return 0
        slot = (slot + 1) & mask
    wgl.cache.data[slot].low = low
    wgl.cache.data[slot].high = high
    if wgl.is_exact:
        wgl.cache_keys.data[slot] = key + 1
    wgl.cached += 1
    return 1


# The linearized operations and the state, as words: how many follow, the state, where the bits begin, the bits. All
# completed operations before `lowest` are linearized; of the crashed ones before it the bits are needed too.
cdef bint _push_key(Wgl* wgl, const Problem* problem, int32_t state) noexcept nogil:
    cdef size_t first = 0 if problem.crashed > 0 else <size_t>_lowest_after(wgl, problem) >> 6
    cdef size_t end = (<size_t>wgl.highest >> 6) + 1
    cdef size_t key = wgl.keys.size
    if first > end:
        first = end
    if not wgl.keys.resize(key + 3):
        return False
    wgl.keys.data[key] = 2 + end - first
    wgl.keys.data[key + 1] = <uint64_t>state
    wgl.keys.data[key + 2] = first
    return wgl.keys.append(wgl.linearized.data + first, end - first)


# `lowest` as it will be when the operation that is being tried has been decided.
cdef int32_t _lowest_after(Wgl* wgl, const Problem* problem) noexcept nogil:
    cdef int32_t kept = wgl.lowest
    cdef int32_t after
    _advance_lowest(wgl, problem)
    after = wgl.lowest
    wgl.lowest = kept
    return after


cdef bint _is_same_key(const Wgl* wgl, size_t one, size_t other) noexcept nogil:
    return (wgl.keys.data[one] == wgl.keys.data[other]
            and memcmp(wgl.keys.data + one + 1, wgl.keys.data + other + 1,
                       <size_t>wgl.keys.data[one] * sizeof(uint64_t)) == 0)


cdef bint _grow(Wgl* wgl, const Model* model) noexcept nogil:
    cdef size_t count = wgl.cache.size
    cdef size_t bytes = 2 * count * (sizeof(Hash128) + (8 if wgl.is_exact else 0)) + wgl.keys.capacity * 8
    cdef Vec[Hash128] grown
    cdef Vec[uint64_t] grown_keys
    cdef size_t slot, target
    if bytes + model_bytes(model) > wgl.bytes_max:
        return False
    memset(&grown, 0, sizeof(grown))
    memset(&grown_keys, 0, sizeof(grown_keys))
    if not grown.resize(2 * count) or wgl.is_exact and not grown_keys.resize(2 * count):
        grown.release()
        return False
    for slot in range(count):
        if wgl.cache.data[slot].low == 0 and wgl.cache.data[slot].high == 0:
            continue
        target = <size_t>wgl.cache.data[slot].low & (2 * count - 1)
        while grown.data[target].low != 0 or grown.data[target].high != 0:
            target = (target + 1) & (2 * count - 1)
        grown.data[target] = wgl.cache.data[slot]
        if wgl.is_exact:
            grown_keys.data[target] = wgl.cache_keys.data[slot]
    wgl.cache.release()
    wgl.cache = grown
    if wgl.is_exact:
        wgl.cache_keys.release()
        wgl.cache_keys = grown_keys
    return True


cdef void wgl_release(Wgl* wgl) noexcept nogil:
    wgl.stack.release()
    wgl.linearized.release()
    wgl.cache.release()
    wgl.keys.release()
    wgl.cache_keys.release()
    wgl.order.release()
