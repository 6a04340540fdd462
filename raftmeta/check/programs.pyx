"""One function per operation; a transaction is read in one pass over its arguments, beside its result."""

from libc.stdint cimport int32_t, uint16_t, uint32_t
from libc.string cimport memset

from raftmeta.check.interner cimport interner_number
from raftmeta.check.json_text cimport (Elements, Text, elements_done, elements_next, elements_open, text_equals,
                                       text_is)
from raftmeta.check.loaded cimport Loaded, loaded_key, text_at
from raftmeta.check.meaning cimport (MEANING_CAS, MEANING_DELETE, MEANING_READ, MEANING_TRANSACTION, MEANING_WRITE,
                                     REASON_ARGUMENTS, REASON_OPERATION, REASON_RESULT)
from raftmeta.check.model cimport (EXPECTED_ANY, EXPECTED_FALSE, EXPECTED_TRUE, VALUE_ABSENT, Micro, Operation)

cdef enum:
    MICROS_MAX = 65535          # of one section of a transaction


cdef int32_t program_of(Loaded* loaded, Operation* operation, int32_t code, Text result,
                        bint is_crashed) noexcept nogil:
    cdef Text key = text_at(&loaded.columns.key, operation.called_at)
    cdef Text arguments = text_at(&loaded.columns.arguments, operation.called_at)
    cdef int32_t reason
    operation.micro = <uint32_t>loaded.model.micros.size
    operation.expected = EXPECTED_TRUE if not is_crashed else EXPECTED_ANY
    if loaded.meanings[code] == MEANING_READ:
        reason = 0 if is_crashed else _read(loaded, operation, key, result)
    elif loaded.meanings[code] == MEANING_WRITE:
        reason = _write(loaded, operation, key, arguments)
    elif loaded.meanings[code] == MEANING_DELETE:
        operation.then_count = 1
        reason = _push(loaded, key, VALUE_ABSENT, True)
    elif loaded.meanings[code] == MEANING_CAS:
        reason = _compare_and_set(loaded, operation, key, arguments, result, is_crashed)
    elif loaded.meanings[code] == MEANING_TRANSACTION:
        reason = _transaction(loaded, operation, arguments, result, is_crashed)
    else:
        reason = REASON_OPERATION
    if reason == 0:
        operation.can_change = _can_change(loaded, operation)
        operation.kind = _kind_of_program(loaded, operation) if is_crashed else 0
        return -1 if operation.kind < 0 else 0
    return reason


cdef inline bint _can_change(const Loaded* loaded, const Operation* operation) noexcept nogil:
    cdef uint32_t micro
    cdef uint32_t end = operation.micro + operation.guard_count + operation.then_count + operation.else_count
    for micro in range(operation.micro, end):
        if loaded.model.micros.data[micro].is_write:
            return True
    return False


# Crashed operations of one program do the same, whoever invoked them.
cdef int32_t _kind_of_program(Loaded* loaded, const Operation* operation) noexcept nogil:
    cdef uint16_t[4] counts
    cdef uint32_t length = operation.guard_count + operation.then_count + operation.else_count
    counts[0] = operation.guard_count
    counts[1] = operation.then_count
    counts[2] = operation.else_count
    counts[3] = 0
    loaded.scratch.clear()
    if (not loaded.scratch.append(<const unsigned char*>counts, sizeof(counts))
            or not loaded.scratch.append(<const unsigned char*>(loaded.model.micros.data + operation.micro),
                                         length * sizeof(Micro))):
        return -1
    return interner_number(&loaded.kinds, loaded.scratch.data, loaded.scratch.size)


cdef inline int32_t _value(Loaded* loaded, Text text) noexcept nogil:
    return interner_number(&loaded.values, text.bytes, text.length)


# 0, or -1: no memory.
cdef int32_t _push(Loaded* loaded, Text key, int32_t value, bint is_write) noexcept nogil:
    cdef Micro micro
    micro.slot = loaded_key(loaded, key)
    micro.value = value
    micro.is_write = is_write
    return 0 if micro.slot >= 0 and value >= 0 and loaded.model.micros.push(micro) else -1


cdef int32_t _read(Loaded* loaded, Operation* operation, Text key, Text result) noexcept nogil:
    if result.length == 0:
        return REASON_RESULT
    operation.then_count = 1
    return _push(loaded, key, _value(loaded, result), False)


cdef int32_t _write(Loaded* loaded, Operation* operation, Text key, Text arguments) noexcept nogil:
    if arguments.length == 0:
        return REASON_ARGUMENTS
    operation.then_count = 1
    return _push(loaded, key, _value(loaded, arguments), True)


cdef int32_t _compare_and_set(Loaded* loaded, Operation* operation, Text key, Text arguments, Text result,
                              bint is_crashed) noexcept nogil:
    cdef Elements elements
    cdef Text old
    cdef Text new
    if (not elements_open(&elements, arguments) or not elements_next(&elements, &old)
            or not elements_next(&elements, &new) or not elements_done(&elements)):
        return REASON_ARGUMENTS
    if not is_crashed:
        if text_is(result, "false", 5):
            operation.expected = EXPECTED_FALSE
        elif not text_is(result, "true", 4):
            return REASON_RESULT
    operation.guard_count = 1
    if _push(loaded, key, _value(loaded, old), False) != 0:
        return -1
    if operation.expected == EXPECTED_FALSE:
        return 0
    operation.then_count = 1
    return _push(loaded, key, _value(loaded, new), True)


# --- transactions -----------------------------------------------------------------------------------------------------
cdef enum Section:
    SECTION_GUARDS = 0
    SECTION_THEN = 1
    SECTION_ELSE = 2

cdef struct Transaction:
    Loaded* loaded
    Operation* operation
    bint is_crashed
    Elements results            # of one that is not crashed
    Section section

# An element of a transaction or of its result: ["r","x",null].
cdef struct Step:
    Text name
    Text key
    Text value
    int32_t parts


cdef int32_t _transaction(Loaded* loaded, Operation* operation, Text arguments, Text result,
                          bint is_crashed) noexcept nogil:
    cdef Transaction transaction
    cdef Elements steps
    cdef Text element
    cdef Step step
    cdef int32_t reason = 0
    memset(&transaction, 0, sizeof(transaction))
    transaction.loaded = loaded
    transaction.operation = operation
    transaction.is_crashed = is_crashed
    if not elements_open(&steps, arguments):
        return REASON_ARGUMENTS
    if not is_crashed and not elements_open(&transaction.results, result):
        return REASON_RESULT
    while elements_next(&steps, &element):
        reason = REASON_ARGUMENTS
        if _read_step(&step, element):
            reason = _add_step(&transaction, &step)
        if reason != 0:
            return reason
    if not elements_done(&steps):
        return REASON_ARGUMENTS
    if transaction.section == SECTION_GUARDS:
        reason = _end_guards(&transaction)
    if reason == 0 and not is_crashed and not elements_done(&transaction.results):
        reason = REASON_RESULT
    return reason


cdef bint _read_step(Step* step, Text element) noexcept nogil:
    cdef Elements parts
    memset(step, 0, sizeof(Step))
    if not elements_open(&parts, element):
        return False
    if elements_next(&parts, &step.name):
        step.parts = 1
    if elements_next(&parts, &step.key):
        step.parts = 2
    if elements_next(&parts, &step.value):
        step.parts = 3
    return step.parts > 0 and elements_done(&parts)


cdef int32_t _add_step(Transaction* transaction, const Step* step) noexcept nogil:
    cdef Operation* operation = transaction.operation
    cdef int32_t reason = 0
    if text_is(step.name, '"if"', 4):
        if step.parts != 3 or transaction.section != SECTION_GUARDS or operation.guard_count == MICROS_MAX:
            return REASON_ARGUMENTS
        operation.guard_count += 1
        return _push(transaction.loaded, step.key, _value(transaction.loaded, step.value), False)
    if transaction.section == SECTION_GUARDS:
        reason = _end_guards(transaction)
        if reason != 0:
            return reason
    if text_is(step.name, '"else"', 6):
        if step.parts != 1 or transaction.section == SECTION_ELSE or operation.guard_count == 0:
            return REASON_ARGUMENTS
        transaction.section = SECTION_ELSE
        return 0
    if step.parts != 3 or not text_is(step.name, '"r"', 3) and not text_is(step.name, '"w"', 3):
        return REASON_ARGUMENTS
    return _add_access(transaction, step)


# The outcome of the comparisons stands first in the result.
cdef int32_t _end_guards(Transaction* transaction) noexcept nogil:
    cdef Text element
    cdef Step said
    transaction.section = SECTION_THEN
    if transaction.is_crashed or transaction.operation.guard_count == 0:
        return 0
    if (not elements_next(&transaction.results, &element) or not _read_step(&said, element)
            or said.parts != 2 or not text_is(said.name, '"if"', 4)):
        return REASON_RESULT
    if text_is(said.key, "false", 5):
        transaction.operation.expected = EXPECTED_FALSE
    elif not text_is(said.key, "true", 4):
        return REASON_RESULT
    return 0


# A read or a write of a branch; of the branch that did not run nothing is kept.
cdef int32_t _add_access(Transaction* transaction, const Step* step) noexcept nogil:
    cdef Operation* operation = transaction.operation
    cdef uint16_t* count = &operation.then_count if transaction.section == SECTION_THEN else &operation.else_count
    cdef bint is_write = text_is(step.name, '"w"', 3)
    cdef Text value = step.value
    cdef Text element
    cdef Step ran
    if transaction.is_crashed:
        if not is_write:
            return 0
    else:
        if (operation.expected == EXPECTED_FALSE) != (transaction.section == SECTION_ELSE):
            return 0
        if (not elements_next(&transaction.results, &element) or not _read_step(&ran, element) or ran.parts != 3
                or not text_equals(ran.name, step.name) or not text_equals(ran.key, step.key)):
            return REASON_RESULT
        if not is_write:
            value = ran.value
    if count[0] == MICROS_MAX:
        return REASON_ARGUMENTS
    count[0] += 1
    return _push(transaction.loaded, step.key, _value(transaction.loaded, value), is_write)
