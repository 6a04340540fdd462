# Memory of one tree. What it decides and promises is on the first page of slab.pxd.
from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport free, malloc

from raftmeta.native.pieces cimport PIECE_BYTES, piece_create
from raftmeta.native.prefetch cimport prefetch_to_write


cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t length)

cdef enum:
    TUNE_PIECE_BYTES_MIN = 64 * 1024            # a small store stays small; up to PIECE_BYTES


cdef inline size_t _rounded(size_t length) noexcept nogil:
    return (length + 7) & ~<size_t>7


cdef inline void _give(Slab* slab, void* memory, size_t rounded) noexcept nogil:
    cdef SlabFree* item = <SlabFree*>memory
    item.next = slab.free[rounded >> 3]
    slab.free[rounded >> 3] = item


cdef inline void* _new_piece(Slab* slab, uint64_t length) noexcept nogil:
    cdef void* piece = NULL
    if length != PIECE_BYTES:
        return aligned_alloc(4096, length)
    if slab.store != NULL:
        piece = slab.store.take()
    return piece if piece != NULL else piece_create()


# A new piece; what is left of the last one becomes one free object.
cdef bint _grow(Slab* slab) noexcept nogil:
    cdef uint64_t length = slab.piece_bytes * 2 if slab.piece_bytes else <uint64_t>TUNE_PIECE_BYTES_MIN
    if length > PIECE_BYTES:
        length = PIECE_BYTES
    cdef SlabPiece* piece = <SlabPiece*>_new_piece(slab, length)
    if piece == NULL:
        return False
    cdef size_t rest = slab.end - slab.next
    if rest >= sizeof(SlabFree):
        _give(slab, slab.next, rest)
    piece.next = slab.pieces
    slab.pieces = piece
    slab.piece_bytes = length
    slab.retained_bytes += length
    slab.next = <uint8_t*>piece + sizeof(SlabPiece)
    slab.end = <uint8_t*>piece + length
    return True


cdef void* _allocate_large(Slab* slab, size_t length) noexcept nogil:
    cdef SlabLarge* large = <SlabLarge*>malloc(sizeof(SlabLarge) + length)
    if large == NULL:
        return NULL
    large.previous = NULL
    large.next = slab.large
    if slab.large != NULL:
        slab.large.previous = large
    slab.large = large
    slab.used_bytes += length
    slab.retained_bytes += length
    return <uint8_t*>large + sizeof(SlabLarge)


cdef void _free_large(Slab* slab, void* memory, size_t length) noexcept nogil:
    cdef SlabLarge* large = <SlabLarge*>(<uint8_t*>memory - sizeof(SlabLarge))
    if large.previous == NULL:
        slab.large = large.next
    else:
        large.previous.next = large.next
    if large.next != NULL:
        large.next.previous = large.previous
    slab.used_bytes -= length
    slab.retained_bytes -= length
    free(large)


cdef void* slab_allocate(Slab* slab, size_t length) noexcept nogil:
    cdef size_t rounded = _rounded(length)
    if slab.used_bytes + rounded > slab.bytes_max:
        return NULL
    if rounded > TUNE_SLAB_OBJECT_BYTES_MAX:
        return _allocate_large(slab, rounded)
    cdef SlabFree* item = slab.free[rounded >> 3]
    cdef void* memory
    if item != NULL:
        slab.free[rounded >> 3] = item.next
        prefetch_to_write(item.next, 1)     # long out of use: the next allocation of this size would wait for it
        memory = item
    else:
        if <size_t>(slab.end - slab.next) < rounded and not _grow(slab):
            return NULL
        memory = slab.next
        slab.next += rounded
    slab.used_bytes += rounded
    return memory


cdef void slab_free(Slab* slab, void* memory, size_t length) noexcept nogil:
    cdef size_t rounded = _rounded(length)
    if rounded > TUNE_SLAB_OBJECT_BYTES_MAX:
        _free_large(slab, memory, rounded)
        return
    _give(slab, memory, rounded)
    slab.used_bytes -= rounded


cdef void slab_destroy(Slab* slab) noexcept nogil:
    cdef SlabPiece* piece = slab.pieces
    cdef SlabPiece* next_piece
    cdef SlabLarge* large = slab.large
    cdef SlabLarge* next_large
    while piece != NULL:
        next_piece = piece.next
        free(piece)
        piece = next_piece
    while large != NULL:
        next_large = large.next
        free(large)
        large = next_large
    slab.pieces = NULL
    slab.large = NULL
