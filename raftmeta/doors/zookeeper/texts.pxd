# Text that this room compares and writes: windows, words of the program, numbers. Leaves.
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, strlen

from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Bytes


cdef inline Bytes text_of(const char* word) noexcept nogil:
    cdef Bytes window
    window.data = <const uint8_t*>word
    window.length = <uint32_t>strlen(word)
    return window


cdef inline bint text_is(const Bytes* text, const char* word) noexcept nogil:
    cdef size_t length = strlen(word)
    return text.length == length and memcmp(text.data, word, length) == 0


cdef inline bint text_equals(const Bytes* one, const Bytes* other) noexcept nogil:
    return one.length == other.length and (one.length == 0 or memcmp(one.data, other.data, one.length) == 0)


# --- at the end of a Vec; False: no memory ----------------------------------------------------------------------------
cdef inline bint add_text(Vec[uint8_t]* out, const Bytes* text) noexcept nogil:
    return text.length == 0 or out.append(text.data, text.length)


cdef inline bint add_word(Vec[uint8_t]* out, const char* word) noexcept nogil:
    return out.append(<const uint8_t*>word, strlen(word))


# In digits of a base up to 16, without leading zeros.
cdef inline bint add_digits(Vec[uint8_t]* out, uint64_t number, unsigned int base) noexcept nogil:
    cdef uint8_t[64] digits
    cdef int first = 64
    cdef bint is_rest = True
    while is_rest:
        first -= 1
        digits[first] = <uint8_t>((c"0" if number % base < 10 else c"a" - 10) + number % base)
        number //= base
        is_rest = number != 0
    return out.append(digits + first, 64 - first)


cdef inline bint add_number(Vec[uint8_t]* out, int64_t number) noexcept nogil:
    if number < 0:
        return out.push(c"-") and add_digits(out, <uint64_t>0 - <uint64_t>number, 10)
    return add_digits(out, <uint64_t>number, 10)


cdef inline bint add_hex(Vec[uint8_t]* out, uint64_t number) noexcept nogil:
    return add_word(out, b"0x") and add_digits(out, number, 16)
