# Memory of one tree: objects of every size from a few large pieces, given back to free lists by size.
#
# One thread allocates and frees. Measured against malloc (docs/decisions/state-tree.md): a quarter faster and 25 bytes
# a key smaller. Pieces go back to the system only when the slab is destroyed; what is larger than SLAB_OBJECT_BYTES_MAX
# comes from malloc and goes back at once. A zeroed Slab with bytes_max set is an empty one.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.native.pieces cimport PieceStore

cdef enum:
    TUNE_SLAB_OBJECT_BYTES_MAX = 2304   # holds a node of 64 children and a 2 KiB value with its header
    SLAB_CLASSES = 289                  # one free list for each 8 bytes of size

cdef struct SlabFree:
    SlabFree* next

cdef struct SlabPiece:
    SlabPiece* next

# Stands before every object of malloc, so that destroy finds them all.
cdef struct SlabLarge:
    SlabLarge* previous
    SlabLarge* next

cdef struct Slab:
    uint8_t* next                       # [next, end): not yet handed out
    uint8_t* end
    SlabPiece* pieces
    SlabLarge* large
    PieceStore* store                   # where large pieces lie ready; NULL: nowhere
    uint64_t piece_bytes                # size of the newest piece
    uint64_t bytes_max                  # used_bytes never passes it
    uint64_t used_bytes                 # handed out and not given back
    uint64_t retained_bytes             # taken from the system, free lists included
    SlabFree* free[SLAB_CLASSES]

# 8-byte aligned, not zeroed. NULL: no memory, or bytes_max reached.
cdef void* slab_allocate(Slab* slab, size_t length) noexcept nogil
# `length` must be that of the allocation.
cdef void slab_free(Slab* slab, void* memory, size_t length) noexcept nogil
# Gives back all pieces and large objects, whoever still points to them.
cdef void slab_destroy(Slab* slab) noexcept nogil
