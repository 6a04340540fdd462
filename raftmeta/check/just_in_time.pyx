"""Events, continuations, and the sets that hold them."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.check.model cimport NEVER, STATE_ASKS, STATE_NO_MEMORY, model_bytes, model_step
from raftmeta.check.status cimport (ANSWER_ASKS, ANSWER_ILLEGAL, ANSWER_LEGAL, ANSWER_MEMORY, ANSWER_RUNNING, NONE)
from raftmeta.native.intrinsics cimport hash64


cdef bint jit_begin(JustInTime* jit, const Problem* problem, const int32_t* states, int32_t state_count,
                    size_t bytes_max) noexcept nogil:
    cdef int32_t position
    jit.crashed_word = 1 + (problem.concurrency + 63) // 64
    jit.stride = jit.crashed_word + (problem.crashed + 63) // 64
    jit.under_way.clear()
    jit.completing = jit.event = jit.row = jit.candidate = 0
    jit.steps = 0
    jit.bytes_max = bytes_max
    jit.window_event = 0
    jit.window_rows.clear()
    if not jit.row_scratch.resize(jit.stride) or not _empty(&jit.now) or not _empty(&jit.after):
        return False
    for position in range(state_count):
        memset(jit.row_scratch.data, 0, jit.stride * sizeof(uint64_t))
        jit.row_scratch.data[0] = <uint64_t>states[position]
        if not _add(jit, &jit.now, jit.row_scratch.data):
            return False
    jit.settled = jit.now.count
    return True


cdef Answer jit_run(JustInTime* jit, const Problem* problem, Model* model, uint64_t steps) noexcept nogil:
    cdef uint64_t last = jit.steps + steps
    cdef int32_t number
    cdef Answer answer
    while jit.event < <int32_t>problem.nodes.size:
        number = problem.nodes.data[jit.event].operation
        if number >= 0:
            if not _invoke(jit, problem, number):
                return ANSWER_MEMORY
        else:
            answer = _continue_all(jit, problem, model, ~number, last)
            if answer != ANSWER_LEGAL:
                return answer
            if jit.after.count == 0:
                return ANSWER_ILLEGAL
            if not _complete(jit, ~number):
                return ANSWER_MEMORY
        jit.event += 1
    return ANSWER_LEGAL


cdef bint _invoke(JustInTime* jit, const Problem* problem, int32_t number) noexcept nogil:
    if problem.operations.data[number].completed_at != NEVER:
        if jit.keeps_window and jit.completing == 0:
            jit.window_event = jit.event
            jit.window_rows.clear()
            if not jit.window_rows.append(jit.now.rows.data, <size_t>jit.now.count * jit.stride):
                return False
        jit.completing += 1
    return jit.under_way.push(number)


# The configurations after the completion become the present ones.
cdef bint _complete(JustInTime* jit, int32_t number) noexcept nogil:
    cdef Configurations passed = jit.now
    cdef size_t position = 0
    jit.now = jit.after
    jit.after = passed
    jit.settled = jit.now.count
    jit.row = jit.candidate = 0
    jit.completing -= 1
    while jit.under_way.data[position] != number:
        position += 1
    while position + 1 < jit.under_way.size:
        jit.under_way.data[position] = jit.under_way.data[position + 1]
        position += 1
    jit.under_way.pop()
    return _empty(&jit.after)


# Fill jit.after; ANSWER_LEGAL when all is done. A search that has begun goes on where it stopped.
cdef Answer _continue_all(JustInTime* jit, const Problem* problem, Model* model, int32_t number,
                          uint64_t last) noexcept nogil:
    cdef Answer answer
    cdef int32_t bit = problem.bit.data[number]
    cdef uint64_t mask = <uint64_t>1 << (bit & 63)
    cdef int32_t word = 1 + (bit >> 6)
    while jit.row < jit.now.count:
        memcpy(jit.row_scratch.data, _row(jit, &jit.now, jit.row), jit.stride * sizeof(uint64_t))
        if jit.row_scratch.data[word] & mask:
            jit.row_scratch.data[word] ^= mask
            if not _add(jit, &jit.after, jit.row_scratch.data):
                return ANSWER_MEMORY
        else:
            answer = _continue_row(jit, problem, model, number, last)
            if answer != ANSWER_LEGAL:
                return answer
        jit.row += 1
        jit.candidate = 0
    return ANSWER_LEGAL


# All operations under way that may take effect next in the row that is in row_scratch.
cdef Answer _continue_row(JustInTime* jit, const Problem* problem, Model* model, int32_t wanted,
                          uint64_t last) noexcept nogil:
    cdef uint64_t* row = jit.row_scratch.data
    cdef int32_t here = <int32_t>row[0]
    cdef int32_t number, word, state
    cdef uint64_t mask
    while jit.candidate < <int32_t>jit.under_way.size:
        if jit.steps == last:
            return ANSWER_RUNNING
        number = jit.under_way.data[jit.candidate]
        if _may_be_tried(jit, problem, row, number):
            jit.steps += 1
            state = model_step(model, here, &problem.operations.data[number])
            if state == STATE_ASKS:
                jit.steps -= 1
                return ANSWER_ASKS
            if state == STATE_NO_MEMORY or _bytes(jit) + model_bytes(model) > jit.bytes_max:
                return ANSWER_MEMORY
            # A crashed operation need not have happened: one that changes nothing is not tried.
            if state >= 0 and (state != here or problem.operations.data[number].completed_at != NEVER):
                row[0] = <uint64_t>state
                word = _word_of(jit, problem, number)
                mask = <uint64_t>1 << (problem.bit.data[number] & 63)
                if number != wanted:
                    row[word] |= mask
                if not _add(jit, &jit.after if number == wanted else &jit.now, row):
                    return ANSWER_MEMORY
                if number != wanted:
                    row[word] ^= mask
                row[0] = <uint64_t>here
        jit.candidate += 1
    return ANSWER_LEGAL


cdef inline int32_t _word_of(const JustInTime* jit, const Problem* problem, int32_t number) noexcept nogil:
    cdef bint is_crashed = problem.operations.data[number].completed_at == NEVER
    return (jit.crashed_word if is_crashed else 1) + (problem.bit.data[number] >> 6)


cdef inline bint _has(const JustInTime* jit, const Problem* problem, const uint64_t* row,
                      int32_t number) noexcept nogil:
    return row[_word_of(jit, problem, number)] >> (problem.bit.data[number] & 63) & 1


cdef inline bint _may_be_tried(const JustInTime* jit, const Problem* problem, const uint64_t* row,
                               int32_t number) noexcept nogil:
    cdef int32_t earlier = problem.earlier_alike.data[number]
    if _has(jit, problem, row, number):
        return False
    return earlier == NONE or _has(jit, problem, row, earlier)


# --- sets -------------------------------------------------------------------------------------------------------------
cdef inline uint64_t* _row(const JustInTime* jit, const Configurations* set_, int32_t row) noexcept nogil:
    return set_.rows.data + <size_t>row * jit.stride


cdef bint _empty(Configurations* set_) noexcept nogil:
    cdef int32_t row
    if set_.slots.size == 0:
        return set_.slots.resize(64)
    for row in range(set_.count):
        set_.slots.data[set_.home.data[row]] = 0
    set_.count = 0
    set_.rows.clear()
    set_.next_alike.clear()
    set_.home.clear()
    return True


# Add a row, unless one is there that stands for it. False: no memory.
cdef bint _add(const JustInTime* jit, Configurations* set_, const uint64_t* row) noexcept nogil:
    cdef size_t head_bytes = jit.crashed_word * sizeof(uint64_t)
    cdef uint32_t slot
    cdef int32_t other
    if <size_t>(set_.count + 1) * 2 > set_.slots.size and not _grow(jit, set_):
        return False
    slot = <uint32_t>(hash64(0, row, head_bytes) & (set_.slots.size - 1))
    other = set_.slots.data[slot] - 1
    while other != NONE:
        if (memcmp(_row(jit, set_, other), row, head_bytes) == 0
                and _is_subset(_row(jit, set_, other) + jit.crashed_word, row + jit.crashed_word,
                               jit.stride - jit.crashed_word)):
            return True
        other = set_.next_alike.data[other]
    if (not set_.rows.append(row, jit.stride) or not set_.next_alike.push(set_.slots.data[slot] - 1)
            or not set_.home.push(slot)):
        return False
    set_.count += 1
    set_.slots.data[slot] = set_.count
    return True


cdef inline bint _is_subset(const uint64_t* one, const uint64_t* other, int32_t words) noexcept nogil:
    cdef int32_t word
    for word in range(words):
        if one[word] & ~other[word]:
            return False
    return True


cdef bint _grow(const JustInTime* jit, Configurations* set_) noexcept nogil:
    cdef size_t size = set_.slots.size * 2
    cdef uint32_t slot
    cdef int32_t row
    set_.slots.clear()
    if not set_.slots.resize(size):
        return False
    for row in range(set_.count):
        slot = <uint32_t>(hash64(0, _row(jit, set_, row), jit.crashed_word * sizeof(uint64_t)) & (size - 1))
        set_.home.data[row] = slot
        set_.next_alike.data[row] = set_.slots.data[slot] - 1
        set_.slots.data[slot] = row + 1
    return True


cdef inline size_t _bytes(const JustInTime* jit) noexcept nogil:
    return (jit.now.rows.capacity + jit.after.rows.capacity) * 8 + (jit.now.slots.capacity
                                                                    + jit.after.slots.capacity) * 4


cdef void jit_release(JustInTime* jit) noexcept nogil:
    cdef int32_t which
    cdef Configurations* sets[2]
    sets[0] = &jit.now
    sets[1] = &jit.after
    for which in range(2):
        sets[which].rows.release()
        sets[which].next_alike.release()
        sets[which].home.release()
        sets[which].slots.release()
    jit.under_way.release()
    jit.row_scratch.release()
    jit.window_rows.release()
