"""Operations read once, and one function for each kind of object."""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.check.interner cimport Interner, interner_number, interner_release
from raftmeta.check.json_text cimport Elements, Text, elements_done, elements_next, elements_open, text_is
from raftmeta.check.meaning cimport (MEANING_COUNTER_ADD, MEANING_COUNTER_READ, MEANING_LIST_APPEND, MEANING_LIST_READ,
                                     MEANING_LOCK_ACQUIRE, MEANING_LOCK_RELEASE, MEANING_QUEUE_DEQUEUE,
                                     MEANING_QUEUE_ENQUEUE, MEANING_SET_ADD, MEANING_SET_CONTAINS, MEANING_SET_READ,
                                     MEANING_SET_REMOVE, MEANING_TEXT_APPEND, MEANING_TEXT_READ, MEANING_TEXT_WRITE,
                                     REASON_ARGUMENTS, REASON_RESULT)
from raftmeta.check.model_state cimport (STATE_ILLEGAL, STATE_NO_MEMORY, TOLD_FALSE, TOLD_NOTHING, TOLD_TRUE, Model,
                                         ObjectCall)
from raftmeta.check.status cimport NONE

cdef enum:
    DIGITS_MAX = 18                     # of a whole number that surely fits into 64 bits
    NUMBER_MAX = 4000000000000000000    # of a counter, either way: beyond it a check ends as if without memory
    FORGET_BYTES = 67108864             # TUNE_: states of former components that are kept


# --- reading ----------------------------------------------------------------------------------------------------------
cdef bint _is_told(Text text) noexcept nogil:
    return text.length > 0 and not text_is(text, "null", 4)


# A whole number of at most 18 digits.
cdef bint _number_of(Text text, int64_t* number) noexcept nogil:
    cdef size_t at = 0
    cdef bint is_negative = text.length > 0 and text.bytes[0] == c"-"
    if is_negative:
        at = 1
    if at == text.length or text.length - at > DIGITS_MAX:
        return False
    number[0] = 0
    while at < text.length:
        if not c"0" <= text.bytes[at] <= c"9":
            return False
        number[0] = number[0] * 10 + (text.bytes[at] - c"0")
        at += 1
    if is_negative:
        number[0] = -number[0]
    return True


cdef bint _is_string(Text text) noexcept nogil:
    return text.length >= 2 and text.bytes[0] == c'"' and text.bytes[text.length - 1] == c'"'


# The values of a list as numbers, behind one another in model.object_scratch. 0, 1: no list, -1: no memory.
cdef int32_t _values_of(Model* model, Interner* values, Text text, bint is_sorted) noexcept nogil:
    cdef Elements elements
    cdef Text element
    cdef int32_t number
    model.object_scratch.clear()
    if not elements_open(&elements, text):
        return 1
    while elements_next(&elements, &element):
        number = interner_number(values, element.bytes, element.length)
        if number < 0 or not (_insert(model, number) if is_sorted
                              else model.object_scratch.append(<const uint8_t*>&number, sizeof(number))):
            return -1
    return 0 if elements_done(&elements) else 1


# Add a number to the ascending ones in model.object_scratch, unless it is there. False: no memory.
cdef bint _insert(Model* model, int32_t number) noexcept nogil:
    cdef int32_t* numbers
    cdef size_t count = model.object_scratch.size // sizeof(int32_t)
    cdef size_t place = _place_of(<const int32_t*>model.object_scratch.data, count, number)
    cdef size_t at = count
    if place < count and (<const int32_t*>model.object_scratch.data)[place] == number:
        return True
    if not model.object_scratch.append(<const uint8_t*>&number, sizeof(number)):
        return False
    numbers = <int32_t*>model.object_scratch.data
    while at > place:
        numbers[at] = numbers[at - 1]
        at -= 1
    numbers[place] = number
    return True


# The first place whose number is not smaller.
cdef size_t _place_of(const int32_t* numbers, size_t count, int32_t number) noexcept nogil:
    cdef size_t low = 0
    cdef size_t high = count
    cdef size_t middle
    while low < high:
        middle = (low + high) // 2
        if numbers[middle] < number:
            low = middle + 1
        else:
            high = middle
    return low


# The content of model.object_scratch becomes the state that a read returned.
cdef int32_t _expect(Model* model, ObjectCall* call) noexcept nogil:
    call.offset = model.object_results.size
    call.length = model.object_scratch.size
    call.told = TOLD_TRUE
    return 0 if model.object_results.append(model.object_scratch.data, model.object_scratch.size) else -1


cdef int32_t _read_list(Model* model, Interner* values, Text result, bint is_sorted, bint is_crashed,
                        ObjectCall* call) noexcept nogil:
    cdef int32_t reason
    if is_crashed:
        return 0
    model.object_scratch.clear()
    if is_sorted or _is_told(result):   # of a list, null is an empty one; an absent result is none
        reason = _values_of(model, values, result, is_sorted)
        if reason != 0:
            return REASON_RESULT if reason > 0 else -1
    elif result.length == 0:
        return REASON_RESULT
    return _expect(model, call)


cdef int32_t _read_text(Model* model, Text result, bint is_crashed, ObjectCall* call) noexcept nogil:
    if is_crashed:
        return 0
    if result.length == 0 or _is_told(result) and not _is_string(result):
        return REASON_RESULT
    model.object_scratch.clear()
    if _is_told(result) and not model.object_scratch.append(result.bytes + 1, result.length - 2):
        return -1
    return _expect(model, call)


cdef int32_t _keep_text(Model* model, Text arguments, ObjectCall* call) noexcept nogil:
    if not _is_string(arguments):
        return REASON_ARGUMENTS
    call.offset = model.object_results.size
    call.length = arguments.length - 2
    return 0 if model.object_results.append(arguments.bytes + 1, call.length) else -1


cdef int32_t object_call(Model* model, Interner* values, int32_t meaning, Text arguments, Text result, bint is_crashed,
                         ObjectCall* call) noexcept nogil:
    memset(call, 0, sizeof(ObjectCall))
    call.meaning = meaning
    call.told = TOLD_NOTHING
    if meaning == MEANING_SET_READ or meaning == MEANING_LIST_READ:
        return _read_list(model, values, result, meaning == MEANING_SET_READ, is_crashed, call)
    if meaning == MEANING_TEXT_READ:
        return _read_text(model, result, is_crashed, call)
    if meaning == MEANING_TEXT_WRITE or meaning == MEANING_TEXT_APPEND:
        return _keep_text(model, arguments, call)
    if meaning == MEANING_COUNTER_READ:
        if is_crashed:
            return 0
        call.told = TOLD_TRUE
        return 0 if _number_of(result, &call.number) else REASON_RESULT
    if meaning == MEANING_COUNTER_ADD:
        if not is_crashed and _number_of(result, &call.number):
            call.told = TOLD_TRUE
        return 0 if _number_of(arguments, &call.amount) else REASON_ARGUMENTS
    if meaning == MEANING_QUEUE_DEQUEUE:
        if is_crashed:
            return 0
        if result.length == 0:
            return REASON_RESULT
        call.told = TOLD_TRUE
        call.value = interner_number(values, result.bytes, result.length)
        return 0 if call.value >= 0 else -1
    if arguments.length == 0:
        return REASON_ARGUMENTS
    call.value = interner_number(values, arguments.bytes, arguments.length)
    if call.value < 0:
        return -1
    if is_crashed:
        return 0
    if text_is(result, "true", 4):
        call.told = TOLD_TRUE
    elif text_is(result, "false", 5):
        call.told = TOLD_FALSE
    elif meaning == MEANING_LOCK_ACQUIRE or meaning == MEANING_LOCK_RELEASE:
        call.told = TOLD_TRUE           # one that completed and told nothing succeeded
    elif meaning == MEANING_SET_CONTAINS and result.length > 0:
        return REASON_RESULT
    elif meaning == MEANING_LIST_APPEND and _number_of(result, &call.number):
        call.told = TOLD_TRUE
    return 0


cdef int32_t object_begin(Model* model, Interner* values, Object object_, Text initial) noexcept nogil:
    cdef int32_t reason = 0
    cdef int64_t number = 0
    model.object_scratch.clear()
    if object_ == OBJECT_COUNTER:
        if _is_told(initial) and not _number_of(initial, &number):
            return 1
        if not model.object_scratch.append(<const uint8_t*>&number, sizeof(number)):
            return -1
    elif not _is_told(initial):
        reason = 0
    elif object_ == OBJECT_TEXT:
        if not _is_string(initial):
            return 1
        if not model.object_scratch.append(initial.bytes + 1, initial.length - 2):
            return -1
    elif object_ == OBJECT_LOCK:
        number = interner_number(values, initial.bytes, initial.length)
        if number < 0 or not model.object_scratch.append(<const uint8_t*>&number, sizeof(int32_t)):
            return -1
    else:
        reason = _values_of(model, values, initial, object_ == OBJECT_SET)
    if reason == 0 and (not model.object_initial.append(model.object_scratch.data, model.object_scratch.size)
                        or _state_of_scratch(model) != 0):
        return -1
    return reason


# --- stepping ---------------------------------------------------------------------------------------------------------
cdef inline int32_t _state_of_scratch(Model* model) noexcept nogil:
    cdef int32_t state = interner_number(&model.states, model.object_scratch.data, model.object_scratch.size)
    return state if state != NONE else STATE_NO_MEMORY


# Copied, since the bytes of states move when one is added.
cdef inline bint _copy_state(Model* model, int32_t state) noexcept nogil:
    model.object_scratch.clear()
    return model.object_scratch.append(model.states.bytes.data + model.states.texts.data[state].offset,
                                       model.states.texts.data[state].length)


cdef inline bint _contradicts(const ObjectCall* call, bint has_changed) noexcept nogil:
    return call.told != TOLD_NOTHING and (call.told == TOLD_TRUE) != has_changed


cdef int32_t _step_read(Model* model, int32_t state, const ObjectCall* call) noexcept nogil:
    cdef size_t length = model.states.texts.data[state].length
    if call.told == TOLD_NOTHING:
        return state
    if length != call.length or memcmp(model.states.bytes.data + model.states.texts.data[state].offset,
                                       model.object_results.data + call.offset, length) != 0:
        return STATE_ILLEGAL
    return state


cdef int32_t _step_set(Model* model, int32_t state, const ObjectCall* call) noexcept nogil:
    cdef const int32_t* numbers = <const int32_t*>(model.states.bytes.data + model.states.texts.data[state].offset)
    cdef size_t count = model.states.texts.data[state].length // sizeof(int32_t)
    cdef size_t place = _place_of(numbers, count, call.value)
    cdef bint is_there = place < count and numbers[place] == call.value
    cdef bint is_add = call.meaning == MEANING_SET_ADD
    if call.meaning == MEANING_SET_CONTAINS:
        return STATE_ILLEGAL if _contradicts(call, is_there) else state
    if _contradicts(call, is_there != is_add):
        return STATE_ILLEGAL
    if is_there == is_add:
        return state
    if not _copy_state(model, state):
        return STATE_NO_MEMORY
    if is_add:
        if not _insert(model, call.value):
            return STATE_NO_MEMORY
    else:
        _cut_out(model, place)
    return _state_of_scratch(model)


# Take the number at this place out of model.object_scratch.
cdef void _cut_out(Model* model, size_t place) noexcept nogil:
    cdef int32_t* numbers = <int32_t*>model.object_scratch.data
    cdef size_t count = model.object_scratch.size // sizeof(int32_t)
    while place + 1 < count:
        numbers[place] = numbers[place + 1]
        place += 1
    model.object_scratch.resize(model.object_scratch.size - sizeof(int32_t))


cdef int32_t _step_append(Model* model, int32_t state, const ObjectCall* call) noexcept nogil:
    cdef int64_t count = model.states.texts.data[state].length // sizeof(int32_t)
    if call.meaning == MEANING_LIST_APPEND and call.told == TOLD_TRUE and call.number != count + 1:
        return STATE_ILLEGAL
    if not _copy_state(model, state) or not model.object_scratch.append(<const uint8_t*>&call.value, sizeof(int32_t)):
        return STATE_NO_MEMORY
    return _state_of_scratch(model)


# From an empty queue null comes, whose number is 0.
cdef int32_t _step_dequeue(Model* model, int32_t state, const ObjectCall* call) noexcept nogil:
    cdef int32_t first = 0
    cdef bint is_empty = model.states.texts.data[state].length == 0
    if not is_empty:
        memcpy(&first, model.states.bytes.data + model.states.texts.data[state].offset, sizeof(first))
    if call.told == TOLD_TRUE and call.value != first:
        return STATE_ILLEGAL
    if is_empty:
        return state
    if not _copy_state(model, state):
        return STATE_NO_MEMORY
    _cut_out(model, 0)
    return _state_of_scratch(model)


cdef int32_t _step_lock(Model* model, int32_t state, const ObjectCall* call) noexcept nogil:
    cdef int32_t owner = NONE
    cdef bint is_acquire = call.meaning == MEANING_LOCK_ACQUIRE
    cdef bint succeeds
    if model.states.texts.data[state].length > 0:
        memcpy(&owner, model.states.bytes.data + model.states.texts.data[state].offset, sizeof(owner))
    succeeds = owner == (NONE if is_acquire else call.value)
    if _contradicts(call, succeeds):
        return STATE_ILLEGAL
    if not succeeds:
        return state
    model.object_scratch.clear()
    if is_acquire and not model.object_scratch.append(<const uint8_t*>&call.value, sizeof(int32_t)):
        return STATE_NO_MEMORY
    return _state_of_scratch(model)


cdef int32_t _step_counter(Model* model, int32_t state, const ObjectCall* call) noexcept nogil:
    cdef int64_t number = 0
    memcpy(&number, model.states.bytes.data + model.states.texts.data[state].offset, sizeof(number))
    if call.meaning == MEANING_COUNTER_ADD:
        number += call.amount           # both are far below 2^63
        if number > NUMBER_MAX or number < -NUMBER_MAX:
            return STATE_NO_MEMORY
    if call.told == TOLD_TRUE and call.number != number:
        return STATE_ILLEGAL
    if call.meaning == MEANING_COUNTER_READ:
        return state
    model.object_scratch.clear()
    if not model.object_scratch.append(<const uint8_t*>&number, sizeof(number)):
        return STATE_NO_MEMORY
    return _state_of_scratch(model)


cdef int32_t _step_text(Model* model, int32_t state, const ObjectCall* call) noexcept nogil:
    model.object_scratch.clear()
    if call.meaning == MEANING_TEXT_APPEND and not _copy_state(model, state):
        return STATE_NO_MEMORY
    if not model.object_scratch.append(model.object_results.data + call.offset, call.length):
        return STATE_NO_MEMORY
    return _state_of_scratch(model)


cdef int32_t object_step(Model* model, int32_t state, const ObjectCall* call) noexcept nogil:
    cdef int32_t meaning = call.meaning
    if meaning == MEANING_SET_READ or meaning == MEANING_LIST_READ or meaning == MEANING_TEXT_READ:
        return _step_read(model, state, call)
    if meaning == MEANING_SET_ADD or meaning == MEANING_SET_REMOVE or meaning == MEANING_SET_CONTAINS:
        return _step_set(model, state, call)
    if meaning == MEANING_QUEUE_DEQUEUE:
        return _step_dequeue(model, state, call)
    if meaning == MEANING_QUEUE_ENQUEUE or meaning == MEANING_LIST_APPEND:
        return _step_append(model, state, call)
    if meaning == MEANING_LOCK_ACQUIRE or meaning == MEANING_LOCK_RELEASE:
        return _step_lock(model, state, call)
    if meaning == MEANING_COUNTER_ADD or meaning == MEANING_COUNTER_READ:
        return _step_counter(model, state, call)
    return _step_text(model, state, call)


cdef void object_forget(Model* model) noexcept nogil:
    cdef size_t bytes = model.states.bytes.capacity + model.transitions.size * 24
    if model.calls.size == 0 or bytes < FORGET_BYTES:
        return      # also of a model written in Python, whose states have their numbers there
    model.transitions.release()
    interner_release(&model.states)
    # No memory for it: the first step says so.
    interner_number(&model.states, model.object_initial.data, model.object_initial.size)
