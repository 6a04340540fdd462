"""From the events of a component to a problem: leave out, count, link."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t

from raftmeta.check.meaning cimport MEANING_LIST_APPEND, MEANING_LIST_READ
from raftmeta.check.model cimport EXPECTED_FALSE, EXPECTED_TRUE, NEVER, TOLD_TRUE, Micro, Model, ObjectCall, Operation
from raftmeta.check.status cimport NONE
from raftmeta.status cimport NO_MEMORY, OK, status_t


cdef status_t problem_build(Problem* problem, const Model* model, const Operation* operations, int32_t operation_count,
                            const int32_t* events, int32_t event_count) noexcept nogil:
    cdef status_t status = _reset(problem, operation_count, event_count)
    if status == OK and model.width == 1:
        status = _notice(problem, model, operations, operation_count)
    if status == OK and model.calls.size > 0:
        status = _notice_elements(problem, model, operations, operation_count)
    if status == OK:
        _take_operations(problem, model, operations, operation_count)
        _take_events(problem, events, event_count)
    if status == OK and model.calls.size > 0:
        status = _order_appends(problem, model)
        _make_appends_alike(problem, model)
    if status == OK:
        status = _name_alike(problem)
    if status != OK:
        return status
    _mark_decisive(problem, model)
    problem_link(problem)
    return OK


cdef status_t _reset(Problem* problem, int32_t operation_count, int32_t event_count) noexcept nogil:
    problem.operations.clear()
    problem.numbers.clear()
    problem.nodes.clear()
    problem.invocation.clear()
    problem.bit.clear()
    problem.free_bits.clear()
    problem.alike.clear()
    problem.appends.clear()
    problem.must_follow.clear()
    problem.completed = problem.crashed = problem.concurrency = 0
    problem.has_refusals = False
    problem.stamp += 1
    problem.is_decisive.clear()             # so that resize makes them all zero
    if (not problem.operations.reserve(operation_count) or not problem.numbers.reserve(operation_count)
            or not problem.invocation.reserve(operation_count) or not problem.bit.reserve(operation_count)
            or not problem.earlier_alike.resize(operation_count) or not problem.is_decisive.resize(operation_count)
            or not problem.local.resize(operation_count) or not problem.free_bits.reserve(operation_count)
            or not problem.nodes.reserve(<size_t>event_count + 1)):
        return NO_MEMORY
    return OK


# Which values a read or a comparison names. Only these can tell whether a crashed write took effect; and whoever found
# that a value was *not* there.
cdef status_t _notice(Problem* problem, const Model* model, const Operation* operations, int32_t count) noexcept nogil:
    cdef int32_t number, index
    cdef const Operation* operation
    cdef const Micro* micro
    for number in range(count):
        operation = &operations[number]
        if operation.expected == EXPECTED_FALSE:
            problem.has_refusals = True
        for index in range(operation.guard_count + operation.then_count + operation.else_count):
            micro = &model.micros.data[operation.micro + index]
            if micro.is_write:
                continue
            if not _note_value(problem, micro.value):
                return NO_MEMORY
    return OK


cdef inline const ObjectCall* _call(const Model* model, const Operation* operation) noexcept nogil:
    return &model.calls.data[operation.kind]


cdef bint _note_value(Problem* problem, int32_t value) noexcept nogil:
    if <size_t>value >= problem.noticed.size and not problem.noticed.resize(2 * <size_t>value + 1):
        return False
    problem.noticed.data[value] = problem.stamp
    return True


# Lists: which elements a read tells. An append that told how long the list became notices every append before it.
cdef status_t _notice_elements(Problem* problem, const Model* model, const Operation* operations,
                               int32_t count) noexcept nogil:
    cdef const ObjectCall* call
    cdef const int32_t* values
    cdef int32_t number
    cdef size_t place
    for number in range(count):
        call = _call(model, &operations[number])
        if call.meaning == MEANING_LIST_APPEND and call.told == TOLD_TRUE:
            problem.has_refusals = True
        if call.meaning != MEANING_LIST_READ or call.told != TOLD_TRUE:
            continue
        values = <const int32_t*>(model.object_results.data + call.offset)
        for place in range(call.length // sizeof(int32_t)):
            if not _note_value(problem, values[place]):
                return NO_MEMORY
    return OK


cdef inline bint _is_noticed(const Problem* problem, int32_t value) noexcept nogil:
    return <size_t>value < problem.noticed.size and problem.noticed.data[value] == problem.stamp


# Removing it from any linearization leaves one: see docs/checker.md "Crashed operations".
cdef bint _can_be_left_out(const Problem* problem, const Model* model, const Operation* operation) noexcept nogil:
    cdef const Micro* last
    if not operation.can_change:
        return True
    if model.calls.size > 0 and _call(model, operation).meaning == MEANING_LIST_APPEND:
        return not problem.has_refusals and not _is_noticed(problem, _call(model, operation).value)
    if model.width != 1 or problem.has_refusals or operation.else_count > 0:
        return False
    last = &model.micros.data[operation.micro + operation.guard_count + operation.then_count - 1]
    return not _is_noticed(problem, last.value)


cdef void _take_operations(Problem* problem, const Model* model, const Operation* operations,
                           int32_t count) noexcept nogil:
    cdef int32_t number
    for number in range(count):
        problem.local.data[number] = NONE
        if operations[number].completed_at == NEVER:
            if _can_be_left_out(problem, model, &operations[number]):
                continue
            problem.crashed += 1
        else:
            problem.completed += 1
        problem.local.data[number] = <int32_t>problem.operations.size
        problem.operations.push(operations[number])
        problem.numbers.push(number)
        problem.invocation.push(NONE)
        problem.bit.push(NONE)


cdef void _take_events(Problem* problem, const int32_t* events, int32_t count) noexcept nogil:
    cdef int32_t position, local
    cdef int32_t crashed = 0
    cdef Node node
    node.next = node.previous = NONE
    for position in range(count):
        local = problem.local.data[events[position] if events[position] >= 0 else ~events[position]]
        if local == NONE:
            continue
        node.completion = NONE
        if events[position] >= 0:
            node.operation = local
            problem.invocation.data[local] = <int32_t>problem.nodes.size
            if problem.operations.data[local].completed_at == NEVER:
                problem.bit.data[local] = crashed
                crashed += 1
            elif problem.free_bits.size > 0:
                problem.bit.data[local] = problem.free_bits.back()
                problem.free_bits.pop()
            else:
                problem.bit.data[local] = problem.concurrency
                problem.concurrency += 1
        else:
            node.operation = ~local
            problem.nodes.data[problem.invocation.data[local]].completion = <int32_t>problem.nodes.size
            problem.free_bits.push(problem.bit.data[local])
        problem.nodes.push(node)


# Crashed appends of values that no read tells differ in nothing that anybody notices: an append tells how long the list
# became, not what is in it. Each is taken for an append of the same value.
cdef void _make_appends_alike(Problem* problem, const Model* model) noexcept nogil:
    cdef const ObjectCall* call
    cdef Operation* operation
    cdef Operation* first = NULL
    cdef int32_t number
    for number in range(<int32_t>problem.operations.size):
        operation = &problem.operations.data[number]
        call = _call(model, operation)
        if (operation.completed_at != NEVER or call.meaning != MEANING_LIST_APPEND
                or _is_noticed(problem, call.value)):
            continue
        if first == NULL:
            first = operation
        operation.kind = first.kind


# Crashed operations of one kind are under way for ever and do the same: it is enough to try them in their order.
cdef status_t _name_alike(Problem* problem) noexcept nogil:
    cdef int32_t number
    cdef int32_t* latest
    for number in range(<int32_t>problem.operations.size):
        problem.earlier_alike.data[number] = NONE
        if problem.operations.data[number].completed_at != NEVER:
            continue
        latest = problem.alike.insert(<uint32_t>problem.operations.data[number].kind)
        if latest == NULL:
            return NO_MEMORY
        problem.earlier_alike.data[number] = latest[0] - 1
        latest[0] = number + 1
    return OK


# The latest of the longest ones; NONE: nothing was read.
cdef int32_t _longest_read(const Problem* problem, const Model* model) noexcept nogil:
    cdef int32_t longest = NONE
    cdef const ObjectCall* call
    cdef size_t length = 0
    cdef int32_t number
    for number in range(<int32_t>problem.operations.size):
        call = _call(model, &problem.operations.data[number])
        if call.meaning == MEANING_LIST_READ and call.told == TOLD_TRUE and call.length >= length:
            longest = number
            length = call.length
    return longest


# False: two append the same value, or there is no memory for knowing (status).
cdef bint _find_appends(Problem* problem, const Model* model, status_t* status) noexcept nogil:
    cdef const ObjectCall* call
    cdef int32_t number
    cdef int32_t* found
    for number in range(<int32_t>problem.operations.size):
        call = _call(model, &problem.operations.data[number])
        if call.meaning != MEANING_LIST_APPEND:
            continue
        found = problem.appends.insert(<uint32_t>call.value)
        if found == NULL:
            status[0] = NO_MEMORY
            return False
        if found[0] != 0:
            return False
        found[0] = number + 1
    return True


# A list only grows, and a read tells all of it. So in every linearization the elements of the longest read come first,
# in its order, then that read, then the other elements: a state that is shorter, and is not a beginning of what was
# read, can never become it (docs/checker.md "Lists").
cdef status_t _order_appends(Problem* problem, const Model* model) noexcept nogil:
    cdef int32_t longest = _longest_read(problem, model)
    cdef const ObjectCall* call
    cdef const int32_t* values
    cdef status_t status = OK
    cdef int32_t first = NONE
    cdef int32_t last = NONE
    cdef int32_t* found
    cdef int32_t number
    cdef size_t place
    if not problem.must_follow.resize(problem.operations.size):
        return NO_MEMORY
    for number in range(<int32_t>problem.operations.size):
        problem.must_follow.data[number] = NONE
    if longest == NONE or not _find_appends(problem, model, &status):
        return status
    call = _call(model, &problem.operations.data[longest])
    values = <const int32_t*>(model.object_results.data + call.offset)
    for place in range(call.length // sizeof(int32_t)):
        found = problem.appends.find(<uint32_t>values[place])
        if found == NULL:
            continue                # the list began with it, or the read is wrong
        problem.must_follow.data[found[0] - 1] = last
        last = found[0] - 1
        if first == NONE:
            first = last
    for number in range(<int32_t>problem.operations.size):
        if (_call(model, &problem.operations.data[number]).meaning == MEANING_LIST_APPEND and number != first
                and problem.must_follow.data[number] == NONE):
            problem.must_follow.data[number] = longest
    return OK


cdef bint _tells_the_state(const Operation* operation) noexcept nogil:
    if operation.expected == EXPECTED_FALSE:
        return operation.else_count > 0
    return operation.then_count > 0 or (operation.expected == EXPECTED_TRUE and operation.guard_count > 0)


# Only programs on one key: of several keys an operation tells only some.
cdef void _mark_decisive(Problem* problem, const Model* model) noexcept nogil:
    cdef int32_t position, local
    cdef int32_t under_way = 0
    cdef bint is_alone = False
    for position in range(<int32_t>problem.nodes.size):
        local = problem.nodes.data[position].operation
        if local < 0:
            problem.is_decisive.data[~local] = is_alone and _tells_the_state(&problem.operations.data[~local])
            under_way -= 1
            is_alone = False
        elif problem.nodes.data[position].completion == NONE:
            return              # it may take effect at any time from here on; is_decisive stays as it was cleared
        else:
            is_alone = under_way == 0 and model.width == 1
            under_way += 1


cdef void problem_link(Problem* problem) noexcept nogil:
    cdef int32_t count = <int32_t>problem.nodes.size
    cdef int32_t position
    problem.nodes.data[count].next = 0 if count > 0 else NONE   # the head; reserved, and not counted in size
    for position in range(count):
        problem.nodes.data[position].previous = position - 1 if position > 0 else count
        problem.nodes.data[position].next = position + 1 if position + 1 < count else NONE


cdef void problem_release(Problem* problem) noexcept nogil:
    problem.operations.release()
    problem.numbers.release()
    problem.nodes.release()
    problem.invocation.release()
    problem.earlier_alike.release()
    problem.bit.release()
    problem.is_decisive.release()
    problem.local.release()
    problem.free_bits.release()
    problem.noticed.release()
    problem.alike.release()
    problem.appends.release()
    problem.must_follow.release()
