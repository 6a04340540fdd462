# Memory of one tree: objects of every size from a few large chunks, cut into spans that hold one size each.
#
# One thread allocates and frees. Measured against malloc (docs/decisions/state-tree.md): a quarter faster and 25 bytes
# a key smaller. A span that is empty serves any other size; when many are, they go back to the
# system, all but their first page, and a chunk of nothing else goes whole. An object above
# TUNE_SLAB_OBJECT_BYTES_MAX comes from malloc and goes back at once. A zeroed Slab with bytes_max set is an empty one.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.pieces cimport PieceStore

cdef enum:
    TUNE_SLAB_OBJECT_BYTES_MAX = 2304   # holds a node of 64 children and a 2 KiB value with its header
    SLAB_CLASSES = 289                  # one list of spans for each 8 bytes of size

cdef struct SlabFree:
    SlabFree* next

# From the system, aligned to its spans.
cdef struct SlabChunk:
    SlabChunk* previous
    SlabChunk* next
    uint8_t* memory
    uint64_t length
    uint32_t spans_begun                # [0, spans_begun) were used at least once
    uint32_t spans_used                 # of these, those that hold an object or are open for some

# Stands at the beginning of its 64 KiB; one cache line, so that objects of whole lines share none.
cdef struct SlabSpan:
    SlabSpan* previous                  # in the list of spans with room for its size, or in that of the blank ones
    SlabSpan* next
    SlabFree* free                      # objects given back
    SlabChunk* chunk
    uint32_t object_bytes               # 0: blank
    uint32_t used                       # objects handed out and not given back
    uint32_t begun_bytes                # [begun_bytes, SPAN_BYTES) was never handed out since it was blank; 0: blank,
                                        # and given back to the system but for its first page
    uint32_t is_listed                  # it has room
    uint64_t _line_end[2]

# Stands before every object of malloc, so that destroy finds them all.
cdef struct SlabLarge:
    SlabLarge* previous
    SlabLarge* next

cdef struct Slab:
    SlabChunk* chunks                   # the newest first; only that one has spans that were never used
    SlabLarge* large
    PieceStore* store                   # where chunks lie ready; NULL: nowhere
    SlabSpan* blank                     # that were not given back
    uint64_t blank_bytes                # of the spans in `blank`
    uint64_t bytes_max                  # used_bytes never passes it
    uint64_t used_bytes                 # handed out and not given back
    uint64_t retained_bytes             # taken from the system
    SlabSpan* rooms[SLAB_CLASSES]       # spans with room, by size; the first: blank ones that were given back

# 8-byte aligned, not zeroed. NULL: no memory, or bytes_max reached.
cdef void* slab_allocate(Slab* slab, size_t length) noexcept nogil
# `length` must be that of the allocation.
cdef void slab_free(Slab* slab, void* memory, size_t length) noexcept nogil
# Gives back all chunks and large objects, whoever still points to them.
cdef void slab_destroy(Slab* slab) noexcept nogil
