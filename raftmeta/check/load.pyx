"""Row by row: pair, validate, translate; then group by component."""

from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.check.interner cimport interner_number, interner_release
from raftmeta.check.json_text cimport Text, text_equals
from raftmeta.check.loaded cimport loaded_grow_keys, loaded_key, text_at
from raftmeta.check.meaning cimport (MEANING_COUNTER_READ, MEANING_LIST_READ, MEANING_NONE, MEANING_OBSERVER,
                                     MEANING_SET_CONTAINS, MEANING_SET_READ, MEANING_TABLE, MEANING_TEXT_READ,
                                     MEANING_TRANSACTION, REASON_KIND, REASON_NOT_INVOKED, REASON_OPERATION,
                                     REASON_OTHER_KEY, REASON_OTHER_OPERATION, REASON_REVISION, REASON_SEQ,
                                     REASON_UNDER_WAY, Reason)
from raftmeta.check.model cimport NEVER, ObjectCall, Operation, model_release
from raftmeta.check.objects cimport object_call
from raftmeta.check.programs cimport program_of
from raftmeta.check.status cimport NONE
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, OK, status_t

cdef enum:
    NOT_UNDERSTOOD = 0          # in Loaded.under_way: the process invoked something that is in quarantine


cdef status_t load(Loaded* loaded) noexcept nogil:
    cdef int64_t row
    cdef status_t status = OK
    if interner_number(&loaded.values, <const uint8_t*>"null", 4) != 0:
        return NO_MEMORY
    if not loaded.operation_at.resize(loaded.columns.rows):
        return NO_MEMORY
    for row in range(loaded.columns.rows):
        loaded.operation_at.data[row] = NO_EVENT
        status = _read_row(loaded, <int32_t>row)
        if status != OK:
            return status
    status = _crash_under_way(loaded)
    if status == OK:
        status = _group(loaded)
    loaded.under_way.release()
    loaded.operation_at.release()
    loaded.first_key.release()
    loaded.parent.release()
    return status


# --- rows -------------------------------------------------------------------------------------------------------------
cdef status_t _read_row(Loaded* loaded, int32_t row) noexcept nogil:
    cdef const Columns* columns = &loaded.columns
    if row > 0 and columns.seq[row] <= columns.seq[row - 1]:
        return _misunderstood(loaded, row, REASON_SEQ)
    if columns.kind[row] == EVENT_INVOKE:
        return _read_invocation(loaded, row)
    if EVENT_OK <= columns.kind[row] <= EVENT_INFO:
        return _read_completion(loaded, row)
    return _misunderstood(loaded, row, REASON_KIND)


cdef status_t _read_invocation(Loaded* loaded, int32_t row) noexcept nogil:
    cdef int32_t code = loaded.columns.operation[row]
    cdef int32_t* open_ = loaded.under_way.find(<uint64_t>loaded.columns.process[row])
    cdef Operation operation
    if code < 0 or code >= loaded.code_count or loaded.meanings[code] == MEANING_NONE:
        return _misunderstood(loaded, row, REASON_OPERATION)
    if open_ != NULL:
        return _misunderstood(loaded, row, REASON_UNDER_WAY)
    memset(&operation, 0, sizeof(operation))
    operation.called_at = row
    operation.completed_at = NEVER
    operation.revision = NONE
    open_ = loaded.under_way.insert(<uint64_t>loaded.columns.process[row])
    if open_ == NULL or not loaded.operations.push(operation) or not loaded.first_key.push(NONE):
        return NO_MEMORY
    open_[0] = <int32_t>loaded.operations.size
    loaded.operation_at.data[row] = open_[0] - 1
    return OK


cdef status_t _read_completion(Loaded* loaded, int32_t row) noexcept nogil:
    cdef const Columns* columns = &loaded.columns
    cdef int32_t* open_ = loaded.under_way.find(<uint64_t>columns.process[row])
    cdef int32_t number, invocation, reason
    cdef Text key
    if open_ == NULL or open_[0] == NOT_UNDERSTOOD:
        if open_ != NULL:
            loaded.under_way.erase(<uint64_t>columns.process[row])
        return _malformed(loaded, row, REASON_NOT_INVOKED)
    number = open_[0] - 1
    invocation = loaded.operations.data[number].called_at
    loaded.under_way.erase(<uint64_t>columns.process[row])
    key = text_at(&columns.key, row)
    if columns.operation[row] >= 0 and columns.operation[row] != columns.operation[invocation]:
        reason = REASON_OTHER_OPERATION
    elif key.length > 0 and not text_equals(key, text_at(&columns.key, invocation)):
        reason = REASON_OTHER_KEY
    elif columns.kind[row] == EVENT_FAIL:
        loaded.failed += 1
        return OK
    elif columns.revision[row] < NONE:
        reason = REASON_REVISION
    else:
        reason = _finish(loaded, number, row)
        if reason == 0:
            return OK
    if reason < 0:
        return NO_MEMORY
    loaded.first_key.data[number] = NONE
    # Both sides may name a key: the one that was invoked and the one that was answered.
    if _taint(loaded, invocation) != OK or key.length > 0 and _taint(loaded, row) != OK:
        return NO_MEMORY
    return _note(loaded, row, <Reason>reason)


# An operation that is under way at the end has crashed.
cdef status_t _crash_under_way(Loaded* loaded) noexcept nogil:
    cdef size_t position = loaded.under_way.next(0)
    cdef int32_t number, reason
    cdef status_t status
    while position < loaded.under_way.end():
        number = loaded.under_way.value_at(position) - 1
        if number < 0:
            position = loaded.under_way.next(position + 1)
            continue
        reason = _finish(loaded, number, NONE)
        if reason < 0:
            return NO_MEMORY
        if reason > 0:
            loaded.first_key.data[number] = NONE
            status = _malformed(loaded, loaded.operations.data[number].called_at, <Reason>reason)
            if status != OK:
                return status
        position = loaded.under_way.next(position + 1)
    return OK


# The operation is complete, or crashed: translate it. 0, a Reason, or -1: no memory. row: of its completion, or NONE.
cdef int32_t _finish(Loaded* loaded, int32_t number, int32_t row) noexcept nogil:
    cdef Operation* operation = &loaded.operations.data[number]
    cdef const Columns* columns = &loaded.columns
    cdef bint is_crashed = row == NONE or columns.kind[row] == EVENT_INFO
    cdef int32_t code = columns.operation[operation.called_at]
    cdef Text result
    cdef int32_t reason
    result.bytes = NULL
    result.length = 0
    if row != NONE:
        operation.revision = columns.revision[row]
    if not is_crashed:
        operation.completed_at = row
        result = text_at(&columns.result, row)
    if loaded.meanings[code] >= MEANING_TABLE:
        reason = _kind_of(loaded, operation, code, result, is_crashed)
    else:
        reason = program_of(loaded, operation, code, result, is_crashed)
    if reason != 0:
        return reason
    if is_crashed and not operation.can_change or loaded.model.width > 0 and _has_no_micros(operation):
        loaded.unaffecting += 1
        return 0
    if not is_crashed:
        loaded.operation_at.data[row] = ~number
    return _join_keys(loaded, operation, number)


cdef inline bint _has_no_micros(const Operation* operation) noexcept nogil:
    return operation.guard_count + operation.then_count + operation.else_count == 0


# Kinds are equal when code, arguments and result are, and being crashed.
cdef int32_t _kind_of(Loaded* loaded, Operation* operation, int32_t code, Text result,
                      bint is_crashed) noexcept nogil:
    cdef Text arguments = text_at(&loaded.columns.arguments, operation.called_at)
    cdef int32_t[3] head
    head[0] = code
    head[1] = is_crashed
    head[2] = <int32_t>arguments.length
    loaded.scratch.clear()
    if (not loaded.scratch.append(<const uint8_t*>head, sizeof(head))
            or not loaded.scratch.append(arguments.bytes, arguments.length)
            or not loaded.scratch.append(result.bytes, result.length)):
        return -1
    operation.kind = interner_number(&loaded.kinds, loaded.scratch.data, loaded.scratch.size)
    operation.can_change = not _observes(loaded.meanings[code])
    if operation.kind < 0:
        return -1
    if loaded.meanings[code] <= MEANING_OBSERVER:
        return 0
    return _read_call(loaded, operation.kind, loaded.meanings[code], arguments, result, is_crashed)


cdef inline bint _observes(int8_t meaning) noexcept nogil:
    return (meaning == MEANING_OBSERVER or meaning == MEANING_SET_CONTAINS or meaning == MEANING_SET_READ
            or meaning == MEANING_LIST_READ or meaning == MEANING_COUNTER_READ or meaning == MEANING_TEXT_READ)


# Of a native object: what the operation is, read once for each kind. 0, a Reason, or -1: no memory.
cdef int32_t _read_call(Loaded* loaded, int32_t kind, int8_t meaning, Text arguments, Text result,
                        bint is_crashed) noexcept nogil:
    cdef ObjectCall call
    cdef int32_t reason
    if <size_t>kind < loaded.model.calls.size:
        return loaded.model.calls.data[kind].reason
    reason = object_call(&loaded.model, &loaded.values, meaning, arguments, result, is_crashed, &call)
    call.reason = reason
    return reason if reason >= 0 and loaded.model.calls.push(call) else -1


# --- keys that belong together ----------------------------------------------------------------------------------------
cdef int32_t _root(Loaded* loaded, int32_t key) noexcept nogil:
    while loaded.parent.data[key] != key:
        loaded.parent.data[key] = loaded.parent.data[loaded.parent.data[key]]
        key = loaded.parent.data[key]
    return key


# All keys of an operation get one root: the key that was seen first.
cdef int32_t _join_keys(Loaded* loaded, const Operation* operation, int32_t number) noexcept nogil:
    cdef uint32_t micro
    cdef uint32_t end = operation.micro + operation.guard_count + operation.then_count + operation.else_count
    cdef int32_t one, other
    if loaded.model.width == 0:
        one = loaded_key(loaded, text_at(&loaded.columns.key, operation.called_at))
        loaded.first_key.data[number] = one
        return 0 if one >= 0 else -1
    if not loaded_grow_keys(loaded):
        return -1
    one = _root(loaded, loaded.model.micros.data[operation.micro].slot)
    for micro in range(operation.micro + 1, end):
        other = _root(loaded, loaded.model.micros.data[micro].slot)
        if other < one:
            one, other = other, one
        loaded.parent.data[other] = one
    loaded.first_key.data[number] = one
    return 0


# --- what makes no sense ----------------------------------------------------------------------------------------------
cdef status_t _malformed(Loaded* loaded, int32_t row, Reason reason) noexcept nogil:
    cdef status_t status = _note(loaded, row, reason)
    return status if status != OK else _taint(loaded, row)


# The same, of a row that may have invoked or completed an operation of its process. The process has at most one
# operation under way, so the next completion may belong to this row instead of to the operation that is under way: the
# keys of both are tainted.
cdef status_t _misunderstood(Loaded* loaded, int32_t row, Reason reason) noexcept nogil:
    cdef uint64_t process = <uint64_t>loaded.columns.process[row]
    cdef int32_t* open_ = loaded.under_way.find(process)
    if open_ != NULL:
        if open_[0] != NOT_UNDERSTOOD and _taint(loaded, loaded.operations.data[open_[0] - 1].called_at) != OK:
            return NO_MEMORY
    elif loaded.columns.kind[row] == EVENT_INVOKE:
        open_ = loaded.under_way.insert(process)
        if open_ == NULL:
            return NO_MEMORY
        open_[0] = NOT_UNDERSTOOD
    return _malformed(loaded, row, reason)


cdef status_t _note(Loaded* loaded, int32_t row, Reason reason) noexcept nogil:
    cdef Malformed malformed
    malformed.row = row
    malformed.reason = reason
    return OK if loaded.malformed.push(malformed) else NO_MEMORY


# The key that a row names belongs to an event that is not understood; without a key it may have been any. A transaction
# names its keys in its arguments, which may be the part that makes no sense.
cdef status_t _taint(Loaded* loaded, int32_t row) noexcept nogil:
    cdef Text key = text_at(&loaded.columns.key, row)
    cdef int32_t code = loaded.columns.operation[row]
    cdef int32_t number
    if key.length == 0 or 0 <= code < loaded.code_count and loaded.meanings[code] == MEANING_TRANSACTION:
        loaded.is_all_tainted = True
        return OK
    number = loaded_key(loaded, key)
    if number < 0:
        return NO_MEMORY
    loaded.key_is_tainted.data[number] = 1
    return OK


# --- components -------------------------------------------------------------------------------------------------------
cdef status_t _group(Loaded* loaded) noexcept nogil:
    cdef status_t status
    if not loaded_grow_keys(loaded):
        return NO_MEMORY
    status = _name_components(loaded)
    if status == OK:
        status = _move_operations(loaded)
    return status


# Components and, within each, slots are numbered in the order in which keys were first seen.
cdef status_t _name_components(Loaded* loaded) noexcept nogil:
    cdef int32_t count = <int32_t>loaded.keys.texts.size
    cdef int32_t key, number
    cdef Component component
    cdef Component* known
    cdef Vec[int32_t] latest    # by component: the key of it that was seen last
    memset(&latest, 0, sizeof(latest))
    memset(&component, 0, sizeof(component))
    if (not loaded.component_of_key.resize(count) or not loaded.slot_of_key.resize(count)
            or not loaded.key_after.resize(count) or not loaded.components.reserve(count)
            or not latest.reserve(count)):
        latest.release()
        return NO_MEMORY
    for key in range(count):
        loaded.key_after.data[key] = NONE
        if loaded.parent.data[key] == key:
            number = <int32_t>loaded.components.size
            component.key = key
            loaded.components.push(component)
            latest.push(key)
        else:
            number = loaded.component_of_key.data[_root(loaded, key)]   # a root is the first of its keys
            loaded.key_after.data[latest.data[number]] = key
            latest.data[number] = key
        known = &loaded.components.data[number]
        loaded.component_of_key.data[key] = number
        loaded.slot_of_key.data[key] = known.width
        known.width += 1
        known.is_tainted = known.is_tainted or loaded.is_all_tainted or loaded.key_is_tainted.data[key]
    latest.release()
    return OK


# Operations and events of a component side by side, in their order; keys become slots.
cdef status_t _move_operations(Loaded* loaded) noexcept nogil:
    cdef Vec[Operation] moved
    cdef Vec[int32_t] local     # operation -> its number in its component, or NONE
    cdef status_t status = NO_MEMORY
    memset(&moved, 0, sizeof(moved))
    memset(&local, 0, sizeof(local))
    if local.resize(loaded.operations.size) and moved.resize(_lay_out(loaded)):
        _fill_operations(loaded, moved.data, local.data)
        if loaded.events.resize(_event_count(loaded)):
            _fill_events(loaded, local.data)
            status = OK
    loaded.operations.release()
    loaded.operations = moved
    local.release()
    return status


# The places of all components; returns how many operations there are.
cdef size_t _lay_out(Loaded* loaded) noexcept nogil:
    cdef size_t number
    cdef int32_t operations = 0
    cdef int32_t events = 0
    cdef Component* component
    for number in range(loaded.operations.size):
        if loaded.first_key.data[number] != NONE:
            component = &loaded.components.data[loaded.component_of_key.data[loaded.first_key.data[number]]]
            component.operation_count += 1
            component.event_count += 1 if loaded.operations.data[number].completed_at == NEVER else 2
    for number in range(loaded.components.size):
        component = &loaded.components.data[number]
        component.operation = operations
        component.event = events
        operations += component.operation_count
        events += component.event_count
        component.operation_count = component.event_count = 0   # counted again while they are filled
        if loaded.model.width == 0:
            component.width = 0
    return operations


cdef void _fill_operations(Loaded* loaded, Operation* moved, int32_t* local) noexcept nogil:
    cdef size_t number
    cdef uint32_t micro, end
    cdef Operation* operation
    cdef Component* component
    for number in range(loaded.operations.size):
        local[number] = NONE
        if loaded.first_key.data[number] == NONE:
            continue
        component = &loaded.components.data[loaded.component_of_key.data[loaded.first_key.data[number]]]
        operation = &loaded.operations.data[number]
        end = operation.micro + operation.guard_count + operation.then_count + operation.else_count
        for micro in range(operation.micro, end):
            loaded.model.micros.data[micro].slot = loaded.slot_of_key.data[loaded.model.micros.data[micro].slot]
        local[number] = component.operation_count
        moved[component.operation + component.operation_count] = operation[0]
        component.operation_count += 1


cdef size_t _event_count(const Loaded* loaded) noexcept nogil:
    cdef size_t count = 0
    cdef size_t row, number
    for row in range(loaded.operation_at.size):
        if loaded.operation_at.data[row] == NO_EVENT:
            continue
        number = loaded.operation_at.data[row] if loaded.operation_at.data[row] >= 0 else ~loaded.operation_at.data[row]
        count += loaded.first_key.data[number] != NONE
    return count


cdef void _fill_events(Loaded* loaded, const int32_t* local) noexcept nogil:
    cdef size_t row
    cdef int32_t event, number
    cdef Component* component
    for row in range(loaded.operation_at.size):
        event = loaded.operation_at.data[row]
        if event == NO_EVENT:
            continue
        number = event if event >= 0 else ~event
        if local[number] == NONE:
            continue
        component = &loaded.components.data[loaded.component_of_key.data[loaded.first_key.data[number]]]
        loaded.events.data[component.event + component.event_count] = local[number] if event >= 0 else ~local[number]
        component.event_count += 1


cdef void load_release(Loaded* loaded) noexcept nogil:
    model_release(&loaded.model)
    interner_release(&loaded.keys)
    interner_release(&loaded.values)
    interner_release(&loaded.kinds)
    loaded.operations.release()
    loaded.events.release()
    loaded.components.release()
    loaded.component_of_key.release()
    loaded.slot_of_key.release()
    loaded.key_after.release()
    loaded.malformed.release()
    loaded.under_way.release()
    loaded.operation_at.release()
    loaded.first_key.release()
    loaded.parent.release()
    loaded.key_is_tainted.release()
    loaded.scratch.release()
