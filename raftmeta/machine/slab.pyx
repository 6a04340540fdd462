"""Memory of one tree. The first page of slab.pxd says what it decides and promises."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

from raftmeta.native.pieces cimport PIECE_BYTES, piece_create
from raftmeta.native.prefetch cimport prefetch_to_write


cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t length)

cdef extern from "<sys/mman.h>" nogil:
    int madvise(void* address, size_t length, int advice)
    int MADV_DONTNEED

cdef enum:
    SPAN_BYTES = 64 * 1024                      # a power of two; an object's span is found by its address
    SPAN_HEAD_BYTES = 64
    TUNE_CHUNK_BYTES_MIN = 4 * SPAN_BYTES       # a small store stays small: what is not touched takes no memory; up to
                                                # PIECE_BYTES
    # A span that is given back keeps its first page, where its head stands. A kernel with larger pages refuses it.
    KEPT_BYTES = 4096
    GIVEN_BACK = 0                              # such spans stand in the list of this size, which no object has
    # So much may be empty and stay: what one checkpoint or one cut of the history gives back is soon needed again, and
    # fresh memory costs a page fault.
    TUNE_BLANK_BYTES_MIN = 4 * 1024 * 1024
    TUNE_BLANK_SHARE = 8                        # of used_bytes: an eighth


cdef inline size_t _rounded(size_t length) noexcept nogil:
    return (length + 7) & ~<size_t>7


# --- chunks -----------------------------------------------------------------------------------------------------------

cdef inline void* _new_memory(Slab* slab, uint64_t length) noexcept nogil:
    cdef void* piece = NULL
    if length != PIECE_BYTES:
        return aligned_alloc(SPAN_BYTES, length)
    if slab.store != NULL:
        piece = slab.store.take()
    return piece if piece != NULL else piece_create()


cdef bint _grow(Slab* slab) noexcept nogil:
    cdef uint64_t length = slab.chunks.length * 2 if slab.chunks != NULL else <uint64_t>TUNE_CHUNK_BYTES_MIN
    cdef SlabChunk* chunk = <SlabChunk*>malloc(sizeof(SlabChunk))
    if chunk == NULL:
        return False
    if length > PIECE_BYTES:
        length = PIECE_BYTES
    memset(chunk, 0, sizeof(SlabChunk))
    chunk.length = length
    chunk.memory = <uint8_t*>_new_memory(slab, length)
    if chunk.memory == NULL:
        free(chunk)
        return False
    chunk.next = slab.chunks
    if slab.chunks != NULL:
        slab.chunks.previous = chunk
    slab.chunks = chunk
    slab.retained_bytes += length
    return True


# All its spans are blank, or were never used.
cdef void _release_chunk(Slab* slab, SlabChunk* chunk) noexcept nogil:
    cdef uint32_t i
    for i in range(chunk.spans_begun):
        _leave_blank(slab, <SlabSpan*>(chunk.memory + i * <size_t>SPAN_BYTES))
    slab.retained_bytes -= chunk.length
    if chunk.previous == NULL:
        slab.chunks = chunk.next
    else:
        chunk.previous.next = chunk.next
    if chunk.next != NULL:
        chunk.next.previous = chunk.previous
    # free() alone may keep it for the next chunk: what its allocator takes from the system by pieces stays resident.
    madvise(chunk.memory, chunk.length, MADV_DONTNEED)
    free(chunk.memory)
    free(chunk)


# --- spans ------------------------------------------------------------------------------------------------------------

cdef inline SlabSpan* _span_of(void* memory) noexcept nogil:
    return <SlabSpan*>(<uintptr_t>memory & ~<uintptr_t>(SPAN_BYTES - 1))


cdef inline void _join(SlabSpan** list, SlabSpan* span) noexcept nogil:
    span.previous = NULL
    span.next = list[0]
    if list[0] != NULL:
        list[0].previous = span
    list[0] = span


cdef inline void _leave(SlabSpan** list, SlabSpan* span) noexcept nogil:
    if span.previous == NULL:
        list[0] = span.next
    else:
        span.previous.next = span.next
    if span.next != NULL:
        span.next.previous = span.previous


cdef inline bint _is_given_back(const SlabSpan* span) noexcept nogil:
    return span.begun_bytes == 0


# A blank span leaves its list, as memory that may be used.
cdef void _leave_blank(Slab* slab, SlabSpan* span) noexcept nogil:
    if _is_given_back(span):
        _leave(&slab.rooms[<int>GIVEN_BACK], span)
        slab.retained_bytes += <uint64_t>(SPAN_BYTES - KEPT_BYTES)
    else:
        _leave(&slab.blank, span)
        slab.blank_bytes -= <uint64_t>SPAN_BYTES


# To the blank ones, or, when those are enough, back to the system.
cdef void _join_blank(Slab* slab, SlabSpan* span) noexcept nogil:
    cdef uint64_t enough = max(<uint64_t>TUNE_BLANK_BYTES_MIN, slab.used_bytes // <uint64_t>TUNE_BLANK_SHARE)
    if (slab.blank_bytes >= enough
            and madvise(<uint8_t*>span + KEPT_BYTES, <size_t>(SPAN_BYTES - KEPT_BYTES), MADV_DONTNEED) == 0):
        span.begun_bytes = 0
        slab.retained_bytes -= <uint64_t>(SPAN_BYTES - KEPT_BYTES)
        _join(&slab.rooms[<int>GIVEN_BACK], span)
    else:
        slab.blank_bytes += <uint64_t>SPAN_BYTES
        _join(&slab.blank, span)


# A blank span, or one that was never used. NULL: no memory.
cdef SlabSpan* _take_span(Slab* slab) noexcept nogil:
    cdef SlabSpan* span = slab.blank if slab.blank != NULL else slab.rooms[<int>GIVEN_BACK]
    cdef SlabChunk* chunk
    if span != NULL:
        _leave_blank(slab, span)
        span.chunk.spans_used += 1
        return span
    chunk = slab.chunks
    if chunk == NULL or chunk.spans_begun * <uint64_t>SPAN_BYTES == chunk.length:
        if not _grow(slab):
            return NULL
        chunk = slab.chunks
    span = <SlabSpan*>(chunk.memory + chunk.spans_begun * <size_t>SPAN_BYTES)
    span.chunk = chunk
    chunk.spans_begun += 1
    chunk.spans_used += 1
    return span


cdef SlabSpan* _open_span(Slab* slab, uint32_t object_bytes) noexcept nogil:
    cdef SlabSpan* span = _take_span(slab)
    if span == NULL:
        return NULL
    span.free = NULL
    span.object_bytes = object_bytes
    span.used = 0
    span.begun_bytes = SPAN_HEAD_BYTES
    span.is_listed = True
    _join(&slab.rooms[object_bytes >> 3], span)
    return span


# Its last object was given back. The only one of its size with room stays as it is: it would soon be opened again.
cdef void _close_span(Slab* slab, SlabSpan* span) noexcept nogil:
    cdef SlabChunk* chunk = span.chunk
    cdef SlabSpan** rooms = &slab.rooms[span.object_bytes >> 3]
    span.free = NULL
    span.begun_bytes = SPAN_HEAD_BYTES
    if not span.is_listed:
        span.is_listed = True
        _join(rooms, span)
    if span.previous == NULL and span.next == NULL:
        return
    _leave(rooms, span)
    span.is_listed = False
    span.object_bytes = 0
    _join_blank(slab, span)
    chunk.spans_used -= 1
    if chunk.spans_used == 0 and _is_given_back(span):
        _release_chunk(slab, chunk)


# --- large objects ----------------------------------------------------------------------------------------------------

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


# --- objects ----------------------------------------------------------------------------------------------------------

cdef void* slab_allocate(Slab* slab, size_t length) noexcept nogil:
    cdef size_t rounded = _rounded(length)
    if slab.used_bytes + rounded > slab.bytes_max:
        return NULL
    if rounded > TUNE_SLAB_OBJECT_BYTES_MAX:
        return _allocate_large(slab, rounded)
    cdef SlabSpan* span = slab.rooms[rounded >> 3]
    cdef SlabFree* item
    if span == NULL:
        span = _open_span(slab, <uint32_t>rounded)
        if span == NULL:
            return NULL
    item = span.free
    if item != NULL:
        span.free = item.next
        prefetch_to_write(item.next, 1)     # long out of use: the next allocation of this size would wait for it
    else:
        item = <SlabFree*>(<uint8_t*>span + span.begun_bytes)
        span.begun_bytes += <uint32_t>rounded
    span.used += 1
    if span.free == NULL and span.begun_bytes + rounded > <size_t>SPAN_BYTES:
        _leave(&slab.rooms[rounded >> 3], span)
        span.is_listed = False
    slab.used_bytes += rounded
    return item


cdef void slab_free(Slab* slab, void* memory, size_t length) noexcept nogil:
    cdef size_t rounded = _rounded(length)
    cdef SlabFree* item = <SlabFree*>memory
    cdef SlabSpan* span
    if rounded > TUNE_SLAB_OBJECT_BYTES_MAX:
        _free_large(slab, memory, rounded)
        return
    span = _span_of(memory)
    slab.used_bytes -= rounded
    span.used -= 1
    if span.used == 0:
        _close_span(slab, span)
        return
    item.next = span.free
    span.free = item
    if not span.is_listed:
        span.is_listed = True
        _join(&slab.rooms[rounded >> 3], span)


cdef void slab_destroy(Slab* slab) noexcept nogil:
    cdef SlabChunk* chunk = slab.chunks
    cdef SlabChunk* next_chunk
    cdef SlabLarge* large = slab.large
    cdef SlabLarge* next_large
    while chunk != NULL:
        next_chunk = chunk.next
        free(chunk.memory)
        free(chunk)
        chunk = next_chunk
    while large != NULL:
        next_large = large.next
        free(large)
        large = next_large
    slab.chunks = NULL
    slab.large = NULL
