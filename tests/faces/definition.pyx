"""The definition itself, executable: what the engines are compared with, on as many small histories as one likes.

A history is linearizable if its operations can be put in an order in which each returns what it returned, and in
which none stands before one that completed before it was invoked; crashed operations may be left out (Herlihy & Wing
1990). Here all such orders are tried, without a cache, a fingerprint, a window or a program: this file shares nothing
with the engines but the questions. Its histories are drawn from a seed by two registers at work, with results spoiled
on purpose.

It is for tests: it takes time that grows with the factorial of the operations.
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memset

from raftmeta.check.just_in_time cimport JustInTime, jit_begin, jit_release, jit_run
from raftmeta.check.model cimport (EXPECTED_ANY, EXPECTED_FALSE, EXPECTED_TRUE, NEVER, Micro, Model, Operation,
                                   model_begin, model_release)
from raftmeta.check.problem cimport Problem, problem_build, problem_link, problem_release
from raftmeta.check.status cimport ANSWER_ILLEGAL, ANSWER_LEGAL, ANSWER_NOT_SHOWN, NONE, Answer
from raftmeta.check.wgl cimport Wgl, wgl_begin, wgl_release, wgl_run
from raftmeta.check.witness cimport Witness, witness_begin, witness_release, witness_run
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.status cimport OK

cdef enum:
    OPERATIONS_MAX = 12
    KEYS = 2
    STEPS_MAX = 100000000
    BYTES_MAX = 1 << 28

cdef enum Verb:
    VERB_READ = 0
    VERB_WRITE = 1
    VERB_CAS = 2
    VERB_READ_AND_WRITE = 3     # read `key`, write the other one
    VERB_GUARDED = 4            # if `key` holds old: write the other one, else read it
    VERBS = 5

cdef struct Act:
    Verb verb
    int32_t process
    int32_t key
    int32_t old                 # to compare with
    int32_t new                 # to write
    int32_t read                # result: a value
    bint is_true                # result: did the comparison hold
    int32_t called_at
    int32_t completed_at        # NEVER: crashed
    int32_t revision            # in which order it really took effect; NONE: it did not

cdef struct Drawing:
    int32_t operations
    int32_t processes
    int32_t values
    int32_t keys                # 1 or 2
    int32_t crash_percent
    int32_t spoil_percent       # of the histories

cdef struct Bench:
    Act[OPERATIONS_MAX] acts
    int32_t count
    Vec[Operation] operations
    Vec[int32_t] events
    Model model
    Problem problem
    Wgl wgl
    JustInTime jit
    Witness witness

cdef struct Sweep:
    uint64_t legal
    uint64_t witnessed
    uint64_t unwitnessed        # as drawn, not spoiled, nothing crashed, and yet no witness: a fault
    int32_t blamed              # NONE, or which of the engines was wrong: bits of BLAME_
    uint64_t blamed_seed

cdef enum:
    BLAME_WGL = 1
    BLAME_EXACT = 2
    BLAME_JUST_IN_TIME = 4
    BLAME_WITNESS = 8
    BLAME_ORDER = 16


# --- the definition ---------------------------------------------------------------------------------------------------
# What an act does to the two registers; False: it cannot have returned what it returned.
cdef bint _happens(const Act* act, int32_t keys, int32_t* values) noexcept nogil:
    cdef int32_t other = keys - 1 - act.key
    cdef bint is_known = act.completed_at != NEVER
    cdef bint is_true = values[act.key] == act.old
    if act.verb == VERB_READ:
        return not is_known or act.read == values[act.key]
    if act.verb == VERB_WRITE:
        values[act.key] = act.new
        return True
    if act.verb == VERB_READ_AND_WRITE:
        if is_known and act.read != values[act.key]:
            return False
        values[other] = act.new
        return True
    if is_known and act.is_true != is_true:
        return False
    if act.verb == VERB_CAS:
        if is_true:
            values[act.key] = act.new
    elif is_true:
        values[other] = act.new
    elif is_known and act.read != values[other]:
        return False
    return True


cdef bint _has_order(const Act* acts, int32_t count, int32_t keys, uint64_t left, const int32_t* values) noexcept nogil:
    cdef int32_t[KEYS] after
    cdef int32_t next_, other
    cdef bint is_over = True
    cdef bint may_be_next
    for next_ in range(count):
        if left >> next_ & 1 and acts[next_].completed_at != NEVER:
            is_over = False
    if is_over:
        return True
    for next_ in range(count):
        if not left >> next_ & 1:
            continue
        may_be_next = True
        for other in range(count):
            if left >> other & 1 and acts[other].completed_at < acts[next_].called_at:
                may_be_next = False
        after[0] = values[0]
        after[1] = values[1]
        if (may_be_next and _happens(&acts[next_], keys, after)
                and _has_order(acts, count, keys, left & ~(<uint64_t>1 << next_), after)):
            return True
    return False


# Is this sequence, which an engine called a linearization, one?
cdef bint _is_order(const Bench* bench, int32_t keys, const Vec[int32_t]* order) noexcept nogil:
    cdef int32_t[KEYS] values
    cdef uint64_t left = (<uint64_t>1 << bench.count) - 1
    cdef size_t position
    cdef int32_t number, other
    values[0] = values[1] = 0
    for position in range(order.size):
        number = bench.problem.numbers.data[order.data[position]]
        if not left >> number & 1 or not _happens(&bench.acts[number], keys, values):
            return False
        left &= ~(<uint64_t>1 << number)
        for other in range(bench.count):
            if left >> other & 1 and bench.acts[other].completed_at < bench.acts[number].called_at:
                return False
    for number in range(bench.count):
        if left >> number & 1 and bench.acts[number].completed_at != NEVER:
            return False
    return True


# --- histories --------------------------------------------------------------------------------------------------------
cdef inline int32_t _below(uint64_t* seed, int32_t limit) noexcept nogil:
    return <int32_t>(next_random(seed) % <uint64_t>limit)


# The act takes effect on the real registers, and its results are those.
cdef void _take_effect(Act* act, int32_t keys, int32_t* values, int32_t* revision) noexcept nogil:
    cdef int32_t other = keys - 1 - act.key
    act.is_true = values[act.key] == act.old
    act.read = values[other if act.verb == VERB_GUARDED else act.key]
    act.revision = revision[0]
    revision[0] += 1
    if act.verb == VERB_WRITE or act.verb == VERB_CAS and act.is_true:
        values[act.key] = act.new
    elif act.verb == VERB_READ_AND_WRITE or act.verb == VERB_GUARDED and act.is_true:
        values[other] = act.new


cdef void _invoke(Act* act, const Drawing* drawing, int32_t process, int32_t now, uint64_t* seed) noexcept nogil:
    memset(act, 0, sizeof(Act))
    act.verb = <Verb>_below(seed, VERBS if drawing.keys == KEYS else 3)
    act.process = process
    act.key = _below(seed, drawing.keys)
    act.old = _below(seed, drawing.values)
    act.new = _below(seed, drawing.values)
    act.called_at = now
    act.completed_at = NEVER
    act.revision = NONE


# Processes take turns at random: invoke, take effect, complete or crash, each a step of its own.
cdef bint _draw(Bench* bench, const Drawing* drawing, uint64_t* seed) noexcept nogil:
    cdef int32_t[OPERATIONS_MAX] doing
    cdef int32_t[KEYS] values
    cdef int32_t now = 0
    cdef int32_t revision = 1
    cdef int32_t under_way = 0
    cdef int32_t process
    cdef Act* act
    bench.count = 0
    bench.events.clear()
    values[0] = values[1] = 0
    for process in range(drawing.processes):
        doing[process] = NONE
    while bench.count < drawing.operations or under_way > 0:
        process = _below(seed, drawing.processes)
        if doing[process] == NONE:
            if bench.count == drawing.operations:
                continue
            _invoke(&bench.acts[bench.count], drawing, process, now, seed)
            doing[process] = bench.count
            under_way += 1
            if not bench.events.push(bench.count):
                return False
            bench.count += 1
            now += 1
            continue
        act = &bench.acts[doing[process]]
        if _below(seed, 100) < drawing.crash_percent:
            doing[process] = NONE
            under_way -= 1
        elif act.revision == NONE:
            _take_effect(act, drawing.keys, values, &revision)
        else:
            act.completed_at = now
            if not bench.events.push(~doing[process]):
                return False
            doing[process] = NONE
            under_way -= 1
            now += 1
    return True


cdef bint _spoil(Bench* bench, const Drawing* drawing, uint64_t* seed) noexcept nogil:
    cdef Act* act
    if bench.count == 0 or _below(seed, 100) >= drawing.spoil_percent:
        return False
    act = &bench.acts[_below(seed, bench.count)]
    if _below(seed, 2):
        act.read = _below(seed, drawing.values)
    else:
        act.is_true = not act.is_true
    return True


# --- the same question for the engines --------------------------------------------------------------------------------
cdef bint _push_micro(Bench* bench, int32_t key, int32_t value, bint is_write) noexcept nogil:
    cdef Micro micro
    micro.slot = key
    micro.value = value
    micro.is_write = is_write
    return bench.model.micros.push(micro)


cdef bint _translate(Bench* bench, const Act* act, int32_t keys) noexcept nogil:
    cdef Operation operation
    cdef int32_t other = keys - 1 - act.key
    cdef bint is_known = act.completed_at != NEVER
    cdef bint is_pushed = True
    memset(&operation, 0, sizeof(operation))
    operation.called_at = act.called_at
    operation.completed_at = act.completed_at
    operation.revision = act.revision if is_known else NONE
    operation.micro = <unsigned int>bench.model.micros.size
    operation.expected = EXPECTED_TRUE if is_known else EXPECTED_ANY
    operation.can_change = act.verb != VERB_READ
    operation.kind = ((act.verb * KEYS + act.key) * 64 + act.old * (act.verb >= VERB_CAS)) * 64 + act.new
    if (act.verb == VERB_READ or act.verb == VERB_READ_AND_WRITE) and is_known:
        operation.then_count += 1
        is_pushed = _push_micro(bench, act.key, act.read, False)
    if act.verb == VERB_WRITE:
        operation.then_count += 1
        is_pushed = _push_micro(bench, act.key, act.new, True)
    elif act.verb == VERB_READ_AND_WRITE:
        operation.then_count += 1
        is_pushed = is_pushed and _push_micro(bench, other, act.new, True)
    elif act.verb >= VERB_CAS:
        if is_known and not act.is_true:
            operation.expected = EXPECTED_FALSE
        operation.guard_count = operation.then_count = 1
        is_pushed = (_push_micro(bench, act.key, act.old, False)
                     and _push_micro(bench, act.key if act.verb == VERB_CAS else other, act.new, True))
        if act.verb == VERB_GUARDED and is_known:
            operation.else_count = 1
            is_pushed = is_pushed and _push_micro(bench, other, act.read, False)
    return is_pushed and bench.operations.push(operation)


# Which engines do not say what the definition says; NONE: no memory.
cdef int32_t _compare(Bench* bench, int32_t keys, bint is_legal, bint* is_witnessed) noexcept nogil:
    cdef int32_t blamed = 0
    cdef int32_t number, state
    cdef Answer wanted = ANSWER_LEGAL if is_legal else ANSWER_ILLEGAL
    cdef Answer answer
    bench.operations.clear()
    bench.model.micros.clear()
    for number in range(bench.count):
        if not _translate(bench, &bench.acts[number], keys):
            return NONE
    state = model_begin(&bench.model, keys, 0)
    if (state < 0 or problem_build(&bench.problem, &bench.model, bench.operations.data, bench.count,
                                   bench.events.data, <int32_t>bench.events.size) != OK
            or not wgl_begin(&bench.wgl, &bench.problem, state, BYTES_MAX, False)
            or not jit_begin(&bench.jit, &bench.problem, &state, 1, BYTES_MAX)):
        return NONE
    if wgl_run(&bench.wgl, &bench.problem, &bench.model, STEPS_MAX) != wanted:
        blamed |= BLAME_WGL
    elif is_legal and not _is_order(bench, keys, &bench.wgl.order):
        blamed |= BLAME_ORDER
    problem_link(&bench.problem)
    if not wgl_begin(&bench.wgl, &bench.problem, state, BYTES_MAX, True):
        return NONE
    if wgl_run(&bench.wgl, &bench.problem, &bench.model, STEPS_MAX) != wanted:
        blamed |= BLAME_EXACT
    if jit_run(&bench.jit, &bench.problem, &bench.model, STEPS_MAX) != wanted:
        blamed |= BLAME_JUST_IN_TIME
    answer = witness_begin(&bench.witness, &bench.problem, state)
    if answer == ANSWER_LEGAL:
        answer = witness_run(&bench.witness, &bench.problem, &bench.model)
    is_witnessed[0] = answer == ANSWER_LEGAL
    if answer != ANSWER_LEGAL and answer != ANSWER_NOT_SHOWN or is_witnessed[0] and not is_legal:
        blamed |= BLAME_WITNESS
    elif is_witnessed[0] and not _is_order(bench, keys, &bench.witness.order):
        blamed |= BLAME_ORDER
    return blamed


cdef int32_t _sweep(Bench* bench, const Drawing* drawing, uint64_t seed, uint64_t count, Sweep* sweep) noexcept nogil:
    cdef uint64_t drawn, stream
    cdef int32_t[KEYS] values
    cdef bint is_spoiled, is_legal
    cdef bint is_witnessed = False
    values[0] = values[1] = 0
    for drawn in range(count):
        stream = seed + drawn
        next_random(&stream)
        if not _draw(bench, drawing, &stream):
            return NONE
        is_spoiled = _spoil(bench, drawing, &stream)
        is_legal = _has_order(bench.acts, bench.count, drawing.keys, (<uint64_t>1 << bench.count) - 1, values)
        sweep.blamed = _compare(bench, drawing.keys, is_legal, &is_witnessed)
        sweep.legal += is_legal
        sweep.witnessed += is_witnessed
        sweep.unwitnessed += drawing.crash_percent == 0 and not is_spoiled and not is_witnessed
        if sweep.blamed != 0:
            sweep.blamed_seed = seed + drawn
            return sweep.blamed
    return 0


cdef void _release(Bench* bench) noexcept nogil:
    bench.operations.release()
    bench.events.release()
    model_release(&bench.model)
    problem_release(&bench.problem)
    wgl_release(&bench.wgl)
    jit_release(&bench.jit)
    witness_release(&bench.witness)


def sweep(uint64_t seed, uint64_t count, *, int32_t operations=7, int32_t processes=3, int32_t values=3,
          int32_t keys=1, int32_t crash_percent=5, int32_t spoil_percent=50):
    cdef Bench bench
    cdef Drawing drawing
    cdef Sweep found
    cdef int32_t answer
    if not 0 <= operations <= OPERATIONS_MAX or not 1 <= processes <= OPERATIONS_MAX or keys not in (1, KEYS):
        raise ValueError(f"at most {OPERATIONS_MAX} operations and processes, 1 or {KEYS} keys")
    if not 1 <= values <= 64 or not 0 <= crash_percent < 100:
        raise ValueError("1 to 64 values, and not everything crashes")
    memset(&bench, 0, sizeof(bench))
    memset(&found, 0, sizeof(found))
    drawing.operations = operations
    drawing.processes = processes
    drawing.values = values
    drawing.keys = keys
    drawing.crash_percent = crash_percent
    drawing.spoil_percent = spoil_percent
    with nogil:
        answer = _sweep(&bench, &drawing, seed, count, &found)
        _release(&bench)
    if answer == NONE:
        raise MemoryError("no memory to search")
    return {
        "legal": found.legal,
        "witnessed": found.witnessed,
        "unwitnessed": found.unwitnessed,
        "blamed": found.blamed,
        "blamed_seed": found.blamed_seed if found.blamed else None,
    }
