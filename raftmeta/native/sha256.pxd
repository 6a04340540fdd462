# Declarations of sha256.hpp.
from libc.stdint cimport uint8_t


cdef extern from "sha256.hpp" namespace "raftmeta" nogil:
    void sha256(const void* data, size_t length, uint8_t* out)
    void hmac_sha256(const uint8_t* key, size_t key_length, const void* data, size_t length, uint8_t* out)
    bint are_equal_in_constant_time(const uint8_t* left, const uint8_t* right, size_t length)

    # Of bytes that come piece by piece; begin is called first.
    cppclass Sha256:
        void begin()
        void add(const void* data, size_t length)
        void end(uint8_t* out)
