"""Sort by revision, replay, compare the times."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memset

from raftmeta.check.model cimport NEVER, STATE_ASKS, STATE_NO_BRIDGE, STATE_NO_MEMORY, Operation, model_step
from raftmeta.check.status cimport ANSWER_ASKS, ANSWER_LEGAL, ANSWER_MEMORY, ANSWER_NOT_SHOWN, NONE

cdef enum:
    DIGIT_BITS = 8
    DIGITS = 256


cdef Answer witness_begin(Witness* witness, const Problem* problem, int32_t state) noexcept nogil:
    cdef int32_t number
    cdef int64_t lowest = 0
    cdef Ordered one
    cdef const Operation* operation
    witness.ordered.clear()
    witness.crashed.clear()
    witness.order.clear()
    witness.position = witness.candidate = 0
    witness.invoked_latest = witness.bridge = NONE
    witness.state = state
    if (not witness.ordered.reserve(problem.operations.size) or not witness.crashed.reserve(problem.operations.size)
            or not witness.order.reserve(problem.operations.size)):
        return ANSWER_MEMORY
    for number in range(<int32_t>problem.operations.size):
        operation = &problem.operations.data[number]
        if operation.completed_at == NEVER and operation.revision < 0:
            witness.crashed.push(number)
        elif operation.revision < 0:
            return ANSWER_NOT_SHOWN
        else:
            one.operation = number
            one.key = <uint64_t>operation.revision * 2 + (not operation.can_change)
            witness.ordered.push(one)
            if operation.revision < lowest or witness.ordered.size == 1:
                lowest = operation.revision
    return _sort(witness, <uint64_t>lowest * 2)


# Stable, by digits, lowest first: what has the same key stays in the order of invocation.
cdef Answer _sort(Witness* witness, uint64_t lowest) noexcept nogil:
    cdef size_t[DIGITS] starts
    cdef size_t position, start, count
    cdef uint64_t highest = 0
    cdef int shift = 0
    cdef int digit
    cdef Vec[Ordered] sorted_
    for position in range(witness.ordered.size):
        witness.ordered.data[position].key -= lowest
        if witness.ordered.data[position].key > highest:
            highest = witness.ordered.data[position].key
    if not witness.scratch.resize(witness.ordered.size):
        return ANSWER_MEMORY
    while shift < 64 and highest >> shift:
        memset(starts, 0, sizeof(starts))
        for position in range(witness.ordered.size):
            starts[witness.ordered.data[position].key >> shift & (DIGITS - 1)] += 1
        start = 0
        for digit in range(DIGITS):
            count = starts[digit]
            starts[digit] = start
            start += count
        for position in range(witness.ordered.size):
            digit = witness.ordered.data[position].key >> shift & (DIGITS - 1)
            witness.scratch.data[starts[digit]] = witness.ordered.data[position]
            starts[digit] += 1
        sorted_ = witness.scratch
        witness.scratch = witness.ordered
        witness.ordered = sorted_
        shift += DIGIT_BITS
    return ANSWER_LEGAL


cdef Answer witness_run(Witness* witness, const Problem* problem, Model* model) noexcept nogil:
    cdef int32_t state
    cdef int32_t number
    cdef const Operation* operation
    while witness.position < <int32_t>witness.ordered.size:
        number = witness.ordered.data[witness.position].operation
        operation = &problem.operations.data[number]
        if operation.completed_at < witness.invoked_latest:
            return ANSWER_NOT_SHOWN
        state = model_step(model, witness.state if witness.bridge == NONE else witness.bridge, operation)
        if state == STATE_ASKS:
            return ANSWER_ASKS
        if state == STATE_NO_MEMORY:
            return ANSWER_MEMORY
        if state >= 0:
            if witness.bridge != NONE:
                _put_in(witness, problem)
            _put(witness, operation, number)
            witness.state = state
            witness.position += 1
            witness.candidate = 0
            continue
        if witness.bridge != NONE:      # not even behind this crashed operation
            witness.bridge = NONE
            witness.candidate += 1
        state = _next_bridge(witness, problem, model, operation)
        if state == STATE_ASKS:
            return ANSWER_ASKS
        if state == STATE_NO_MEMORY:
            return ANSWER_MEMORY
        if state < 0:
            return ANSWER_NOT_SHOWN
        witness.bridge = state
    return ANSWER_LEGAL


# The state after the next crashed operation that may stand before `operation` and changes the state; else a STATE_.
cdef int32_t _next_bridge(Witness* witness, const Problem* problem, Model* model,
                          const Operation* operation) noexcept nogil:
    cdef int32_t state = STATE_NO_BRIDGE
    cdef const Operation* crashed
    while witness.candidate < <int32_t>witness.crashed.size:
        crashed = &problem.operations.data[witness.crashed.data[witness.candidate]]
        if crashed.called_at > operation.completed_at:
            break               # they stand in the order of their invocations
        state = model_step(model, witness.state, crashed)
        if state == STATE_ASKS or state == STATE_NO_MEMORY or state >= 0 and state != witness.state:
            return state
        witness.candidate += 1
    return STATE_NO_BRIDGE


cdef inline void _put(Witness* witness, const Operation* operation, int32_t number) noexcept nogil:
    if operation.called_at > witness.invoked_latest:
        witness.invoked_latest = operation.called_at
    witness.order.push(number)


cdef void _put_in(Witness* witness, const Problem* problem) noexcept nogil:
    cdef int32_t number = witness.crashed.data[witness.candidate]
    cdef size_t position
    _put(witness, &problem.operations.data[number], number)
    for position in range(<size_t>witness.candidate + 1, witness.crashed.size):
        witness.crashed.data[position - 1] = witness.crashed.data[position]
    witness.crashed.pop()
    witness.bridge = NONE


cdef void witness_release(Witness* witness) noexcept nogil:
    witness.ordered.release()
    witness.scratch.release()
    witness.crashed.release()
    witness.order.release()
