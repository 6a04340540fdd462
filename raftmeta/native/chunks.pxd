# Declarations of chunks.hpp; the rule about threads is on its first page.
from libc.stdint cimport uint8_t, uint32_t


cdef extern from "chunks.hpp" namespace "raftmeta" nogil:
    cdef cppclass Chunk:
        uint32_t holders
        uint32_t capacity
        uint32_t used
        uint8_t* bytes()

    cdef cppclass Slice:
        Chunk* chunk
        uint8_t* data
        uint32_t length

    Chunk* chunk_create(uint32_t capacity)
    Chunk* chunk_create_image(uint32_t capacity)
    void chunk_hold(Chunk* chunk)
    void chunk_drop(Chunk* chunk)
