# Declarations of text.hpp.
from libc.stdint cimport uint8_t


cdef extern from "text.hpp" namespace "raftmeta" nogil:
    bint text_is_plain(const uint8_t* bytes, size_t length)
