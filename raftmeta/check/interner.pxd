# Numbers for byte strings: equal bytes have equal numbers, and the first string gets 0. It never forgets and never
# compares by hash alone.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec

cdef struct InternedText:
    uint64_t hash
    uint64_t offset             # in Interner.bytes
    uint32_t length

# Zeroed is empty.
cdef struct Interner:
    Vec[InternedText] texts     # by number
    Vec[uint8_t] bytes
    Vec[int32_t] slots          # open addressing: number + 1, 0 is free; a power of two

# The number of these bytes; NONE when there is no memory.
cdef int32_t interner_number(Interner* interner, const uint8_t* bytes, size_t length) noexcept nogil
cdef void interner_release(Interner* interner) noexcept nogil
