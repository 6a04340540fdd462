# Just enough JSON to take canonical text apart: no blanks, keys of objects sorted, as raftmeta/check/history.py writes
# it. Values are not decoded: equal values have equal text. Every function stays within the bytes that it was given.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t
from libc.string cimport memcmp

cdef struct Text:
    const uint8_t* bytes
    size_t length

# The elements of an array that are still to come.
cdef struct Elements:
    const uint8_t* at
    const uint8_t* end          # the closing bracket


cdef inline bint text_is(Text text, const char* word, size_t length) noexcept nogil:
    return text.length == length and memcmp(text.bytes, word, length) == 0


cdef inline bint text_equals(Text one, Text other) noexcept nogil:
    return one.length == other.length and memcmp(one.bytes, other.bytes, one.length) == 0


# False: not an array.
cdef inline bint elements_open(Elements* elements, Text text) noexcept nogil:
    if text.length < 2 or text.bytes[0] != c"[" or text.bytes[text.length - 1] != c"]":
        return False
    elements.at = text.bytes + 1
    elements.end = text.bytes + text.length - 1
    return True


# True: `element` is the next one. False: there is none, or what comes is not JSON; then elements.at != elements.end.
cdef inline bint elements_next(Elements* elements, Text* element) noexcept nogil:
    cdef const uint8_t* at = elements.at
    cdef int depth = 0
    cdef bint is_string = False
    while at < elements.end:
        if is_string:
            if at[0] == c"\\":
                at += 1         # whatever is escaped ends no string
            elif at[0] == c'"':
                is_string = False
        elif at[0] == c'"':
            is_string = True
        elif at[0] == c"[" or at[0] == c"{":
            depth += 1
        elif at[0] == c"]" or at[0] == c"}":
            depth -= 1
            if depth < 0:
                return False
        elif at[0] == c"," and depth == 0:
            break
        at += 1
    if at > elements.end or at == elements.at or is_string or depth != 0:
        return False
    element.bytes = elements.at
    element.length = at - elements.at
    elements.at = at
    if at < elements.end:
        elements.at = at + 1
        if elements.at == elements.end:
            elements.at = at    # a comma before the bracket: not at the end, and nothing comes
            elements.end = at + 1
            return False
    return True


cdef inline bint elements_done(const Elements* elements) noexcept nogil:
    return elements.at == elements.end
