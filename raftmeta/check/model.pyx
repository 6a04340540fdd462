"""Programs over several keys, whose states are interned vectors, and tables of transitions."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint64_t
from libc.string cimport memcmp, memcpy

from raftmeta.check.interner cimport interner_release
from raftmeta.check.objects cimport object_forget, object_step
from raftmeta.native.intrinsics cimport hash64

cdef enum:
    NATIVE_TRANSITION_BYTES = 64    # TUNE_: its slot, and where the state that it leads to is found
    TRANSITION_BYTES = 256      # TUNE_: its slot, and the Python object of the state that it leads to


cdef int32_t model_begin(Model* model, int32_t width, int32_t value) noexcept nogil:
    cdef int32_t slot
    model.width = width
    if width == 0:
        object_forget(model)
    if width <= 1:
        return value
    model.vectors.clear()
    model.vector_slots.clear()
    if not model.scratch.resize(width):
        return STATE_NO_MEMORY
    for slot in range(width):
        model.scratch.data[slot] = value
    return _state_of_scratch(model)


cdef int32_t model_step_vector(Model* model, int32_t state, const Operation* operation) noexcept nogil:
    cdef const Micro* micro = model.micros.data + operation.micro
    cdef const Micro* end = micro + operation.guard_count
    cdef const int32_t* values = model.vectors.data + <size_t>state * model.width
    cdef bint is_true = True
    cdef bint is_changed = False
    while micro < end:
        is_true = is_true and micro.value == values[micro.slot]
        micro += 1
    if operation.expected == EXPECTED_TRUE and not is_true or operation.expected == EXPECTED_FALSE and is_true:
        return STATE_ILLEGAL
    if not is_true:
        micro += operation.then_count
    end = micro + (operation.then_count if is_true else operation.else_count)
    while micro < end:
        if micro.is_write:
            if not is_changed:
                memcpy(model.scratch.data, values, model.width * sizeof(int32_t))
                values = model.scratch.data
                is_changed = True
            model.scratch.data[micro.slot] = micro.value
        elif values[micro.slot] != micro.value:
            return STATE_ILLEGAL
        micro += 1
    return _state_of_scratch(model) if is_changed else state


# The number of the vector in model.scratch.
cdef int32_t _state_of_scratch(Model* model) noexcept nogil:
    cdef size_t bytes = model.width * sizeof(int32_t)
    cdef size_t count = model.vectors.size // model.width
    cdef uint64_t hash = hash64(0, model.scratch.data, bytes)
    cdef size_t slot, mask
    cdef int32_t state
    if (count + 1) * 2 > model.vector_slots.size and not _grow_slots(model, count):
        return STATE_NO_MEMORY
    mask = model.vector_slots.size - 1
    slot = <size_t>hash & mask
    while model.vector_slots.data[slot] != 0:
        state = model.vector_slots.data[slot] - 1
        if memcmp(model.vectors.data + <size_t>state * model.width, model.scratch.data, bytes) == 0:
            return state
        slot = (slot + 1) & mask
    if count >= NEVER or not model.vectors.append(model.scratch.data, model.width):
        return STATE_NO_MEMORY
    model.vector_slots.data[slot] = <int32_t>count + 1
    return <int32_t>count


cdef bint _grow_slots(Model* model, size_t count) noexcept nogil:
    cdef size_t wanted = model.vector_slots.size * 2 if model.vector_slots.size else 64
    cdef size_t bytes = model.width * sizeof(int32_t)
    cdef size_t state, slot
    model.vector_slots.clear()
    if not model.vector_slots.resize(wanted):
        return False
    for state in range(count):
        slot = <size_t>hash64(0, model.vectors.data + state * model.width, bytes) & (wanted - 1)
        while model.vector_slots.data[slot] != 0:
            slot = (slot + 1) & (wanted - 1)
        model.vector_slots.data[slot] = <int32_t>state + 1
    return True


cdef int32_t model_step_table(Model* model, int32_t state, const Operation* operation) noexcept nogil:
    cdef int32_t* known = model.transitions.find(<uint64_t>state << 32 | <uint64_t>operation.kind)
    cdef int32_t after
    if known != NULL:
        return known[0] - 2
    if model.calls.size > 0:
        after = object_step(model, state, &model.calls.data[operation.kind])
        if after == STATE_NO_MEMORY:
            return after
        known = model.transitions.insert(<uint64_t>state << 32 | <uint64_t>operation.kind)
        if known == NULL:
            return STATE_NO_MEMORY
        known[0] = after + 2
        return after
    model.asked_state = state
    model.asked_kind = operation.kind
    return STATE_ASKS


cdef bint model_answer(Model* model, int32_t state) noexcept nogil:
    cdef int32_t* known = model.transitions.insert(<uint64_t>model.asked_state << 32 | <uint64_t>model.asked_kind)
    if known == NULL:
        return False
    known[0] = state + 2
    return True


cdef size_t model_bytes(const Model* model) noexcept nogil:
    return ((model.vectors.capacity + model.vector_slots.capacity) * sizeof(int32_t) + model.states.bytes.capacity
            + model.transitions.size * (TRANSITION_BYTES if model.calls.size == 0 else NATIVE_TRANSITION_BYTES))


cdef void model_release(Model* model) noexcept nogil:
    model.micros.release()
    model.vectors.release()
    model.vector_slots.release()
    model.scratch.release()
    model.transitions.release()
    model.calls.release()
    interner_release(&model.states)
    model.object_results.release()
    model.object_initial.release()
    model.object_scratch.release()
