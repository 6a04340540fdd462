# The effect of an operation on a state, in the two forms that the engines can run.
#
# A *program* is an operation on keys with values: guards that compare, then one of two branches of micro-operations,
# each of which writes a key or demands that a key has a value. The operation's answer is part of its program: a read of
# 3 demands 3. So registers, compare-and-set and transactions are one native interpreter (docs/checker.md "Models"). A
# *table* is any other model: its states and kinds of operations have numbers, and each transition is computed once and
# then looked up. raftmeta/check/objects.pxd computes transitions of native objects; a model written in Python is asked
# for its own.
#
# A state is one number. With one key it is the number of its value. With several it numbers a vector of values.
#
# It decides whether an operation is possible in a state and which state follows. It never knows about time or order.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t

from raftmeta.check.model_state cimport (
    EXPECTED_ANY, EXPECTED_FALSE, EXPECTED_TRUE, NEVER, STATE_ASKS, STATE_ILLEGAL, STATE_NO_BRIDGE, STATE_NO_MEMORY,
    TOLD_FALSE, TOLD_NOTHING, TOLD_TRUE, VALUE_ABSENT, Expected, Micro, Model, ObjectCall, Operation, Told)

# The state of a component in which every key has this value; with width > 1 all states before are forgotten.
cdef int32_t model_begin(Model* model, int32_t width, int32_t value) noexcept nogil
cdef int32_t model_step_vector(Model* model, int32_t state, const Operation* operation) noexcept nogil
cdef int32_t model_step_table(Model* model, int32_t state, const Operation* operation) noexcept nogil
# The answer to STATE_ASKS: what the asked kind makes of the asked state; STATE_ILLEGAL for nothing.
cdef bint model_answer(Model* model, int32_t state) noexcept nogil
cdef size_t model_bytes(const Model* model) noexcept nogil
cdef void model_release(Model* model) noexcept nogil


# The state after an operation, or one of STATE_ above.
cdef inline int32_t model_step(Model* model, int32_t state, const Operation* operation) noexcept nogil:
    if model.width == 1:
        return step_value(model.micros.data + operation.micro, state, operation)
    if model.width == 0:
        return model_step_table(model, state, operation)
    return model_step_vector(model, state, operation)


cdef inline int32_t step_value(const Micro* micro, int32_t value, const Operation* operation) noexcept nogil:
    cdef const Micro* end = micro + operation.guard_count
    cdef bint is_true = True
    while micro < end:
        is_true = is_true and micro.value == value
        micro += 1
    if operation.expected == EXPECTED_TRUE and not is_true or operation.expected == EXPECTED_FALSE and is_true:
        return STATE_ILLEGAL
    if not is_true:
        micro += operation.then_count
        end = micro + operation.else_count
    else:
        end = micro + operation.then_count
    while micro < end:
        if micro.is_write:
            value = micro.value
        elif micro.value != value:
            return STATE_ILLEGAL
        micro += 1
    return value
