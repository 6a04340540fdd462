# A window in decoded bytes, and the bound on keys that every codec of keys knows.
from libc.stdint cimport uint8_t, uint32_t

cdef enum:
    KEY_BYTES_MAX = 480

# Valid as long as the bytes are that it shows.
cdef struct Bytes:
    const uint8_t* data
    uint32_t length
