# The history: bodies.
from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc


cdef inline uint64_t _block_of(uint64_t revision) noexcept nogil:
    return revision // HISTORY_BLOCK_STEPS

cdef void history_release(History* history) noexcept nogil:
    if history.prepared != NULL:
        free(history.prepared.many)
    while history.trimmed < history.newest:
        history_drop_front(history)
    while history.blocks.size > 0:
        free(history.blocks.front())
        history.blocks.pop_front()
    history.blocks.release()

cdef void history_begin_at(History* history, uint64_t revision) noexcept nogil:
    history.trimmed = revision
    history.newest = revision
    history.first_block = _block_of(revision + 1)

cdef Step* history_prepare(History* history, uint32_t count, uint64_t wall_ms) noexcept nogil:
    cdef uint64_t revision = history.newest + 1
    cdef uint64_t block = _block_of(revision) - history.first_block
    cdef HistoryBlock* fresh
    if block == history.blocks.size:
        fresh = <HistoryBlock*>calloc(1, sizeof(HistoryBlock))
        if fresh == NULL or not history.blocks.push(fresh):
            free(fresh)
            return NULL
    cdef Step* step = &history.blocks.at(block).steps[revision % HISTORY_BLOCK_STEPS]
    step.wall_ms = wall_ms
    step.count = 0
    step.many = NULL
    step.bytes_through = history.bytes_through
    if count > 1:
        step.many = <Change*>malloc(count * sizeof(Change))
        if step.many == NULL:
            return NULL
    history.prepared = step
    return step

cdef void history_commit(History* history, Step* step) noexcept nogil:
    cdef const Change* changes = step_changes(step)
    cdef uint32_t i
    for i in range(step.count):
        step.bytes_through += FORMAT_CHANGE_BYTES + changes[i].after.key_length + changes[i].after.value_length
    history.bytes_through = step.bytes_through
    history.newest += 1
    history.prepared = NULL

cdef Step* history_step(History* history, uint64_t revision) noexcept nogil:
    return &history.blocks.at(_block_of(revision) - history.first_block).steps[revision % HISTORY_BLOCK_STEPS]

cdef uint64_t history_bytes(History* history, uint64_t compacted) noexcept nogil:
    if compacted >= history.newest:
        return 0
    # Bytes before the first step that counts: those through it, without its own.
    cdef Step* first = history_step(history, compacted + 1)
    cdef const Change* changes = step_changes(first)
    cdef uint64_t own_bytes = 0
    cdef uint32_t i
    for i in range(first.count):
        own_bytes += FORMAT_CHANGE_BYTES + changes[i].after.key_length + changes[i].after.value_length
    return history.bytes_through - (first.bytes_through - own_bytes)

cdef void history_drop_front(History* history) noexcept nogil:
    cdef Step* step
    history.trimmed += 1
    history.trimmed_changes = 0
    step = history_step(history, history.trimmed)
    free(step.many)
    step.many = NULL
    if _block_of(history.trimmed + 1) > history.first_block:
        free(history.blocks.front())
        history.blocks.pop_front()
        history.first_block += 1
