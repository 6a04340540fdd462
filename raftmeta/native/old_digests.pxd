# Declarations of old_digests.hpp.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

cdef enum:
    MD5_BYTES = 16
    SHA1_BYTES = 20

cdef extern from "old_digests.hpp" namespace "raftmeta" nogil:
    void md5(const void* data, size_t length, uint8_t* out)
    void sha1(const void* data, size_t length, uint8_t* out)
    size_t base64(const uint8_t* data, size_t length, uint8_t* out)
    void hexadecimal(const uint8_t* data, size_t length, uint8_t* out)
