# Declarations of intrinsics.hpp. All numbers in files and frames are little-endian; keys compare as unsigned bytes.
from libc.stdint cimport uint32_t, uint64_t


cdef extern from "intrinsics.hpp" namespace "raftmeta" nogil:
    cdef cppclass Hash128:
        uint64_t low
        uint64_t high
    uint32_t crc32c(uint32_t seed, const void* bytes, size_t length)
    uint64_t hash64(uint64_t seed, const void* bytes, size_t length)
    Hash128 hash128(uint64_t seed, const void* bytes, size_t length)
    uint64_t load64(const void* p)
    uint32_t load32(const void* p)
    uint64_t big64(const void* p)
    uint64_t load_short(const void* p, size_t length)
    uint64_t big_short(const void* p, size_t length)
    void clear_struct(void* p, size_t size)
    uint64_t next_random(uint64_t* state)
