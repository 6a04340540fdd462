# Declarations of memory.hpp.


cdef extern from "memory.hpp" namespace "raftmeta" nogil:
    void give_back_memory()
