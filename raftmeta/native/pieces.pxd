# Declarations of pieces.hpp; what a piece is for is on its first page.


cdef extern from "pieces.hpp" namespace "raftmeta" nogil:
    const size_t PIECE_BYTES

    cdef cppclass PieceStore:
        void* ready
        void* take()
        bint start()
        void close()

    void* piece_create()
