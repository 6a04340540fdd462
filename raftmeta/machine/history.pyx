"""The history: bodies."""
from libc.stdint cimport UINT32_MAX, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc


cdef inline uint64_t _block_of(uint64_t revision) noexcept nogil:
    return revision // HISTORY_BLOCK_STEPS

cdef void history_release(History* history) noexcept nogil:
    if history.prepared != NULL:
        _free_changes(history.prepared)
    history_free_kept(history, UINT32_MAX)
    history.kept.release()
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
        fresh.bytes_before = history.bytes_through
    cdef Step* step = &history.blocks.at(block).steps[revision % HISTORY_BLOCK_STEPS]
    step.wall_ms = wall_ms
    step.count = 0
    step.bytes = 0
    step.is_many = count > 1
    step.changes.many = NULL
    if step.is_many:
        step.changes.many = <Change*>malloc(count * sizeof(Change))
        if step.changes.many == NULL:
            return NULL
    history.prepared = step
    return step

cdef void history_commit(History* history, Step* step) noexcept nogil:
    cdef const Change* changes = step_changes(step)
    cdef uint32_t i
    for i in range(step.count):
        step.bytes += FORMAT_CHANGE_BYTES + changes[i].after.key_length + changes[i].after.value_length
    history.bytes_through += step.bytes
    history.newest += 1
    history.prepared = NULL

cdef Step* history_step(History* history, uint64_t revision) noexcept nogil:
    return &history.blocks.at(_block_of(revision) - history.first_block).steps[revision % HISTORY_BLOCK_STEPS]

cdef uint64_t history_bytes(History* history, uint64_t compacted) noexcept nogil:
    if compacted >= history.newest:
        return 0
    if history.measured != compacted + 1:
        _measure(history, compacted + 1)
    return history.bytes_through - history.measured_before

# Steps below the floor that were given back still say how many bytes they had, as long as their block stands.
cdef void _measure(History* history, uint64_t revision) noexcept nogil:
    cdef const HistoryBlock* block = history.blocks.at(_block_of(revision) - history.first_block)
    cdef uint32_t i
    history.measured = revision
    history.measured_before = block.bytes_before
    for i in range(<uint32_t>(revision % HISTORY_BLOCK_STEPS)):
        history.measured_before += block.steps[i].bytes


# --- giving back ------------------------------------------------------------------------------------------------------
cdef inline void _free_changes(Step* step) noexcept nogil:
    if step.is_many:
        free(step.changes.many)
        step.changes.many = NULL

cdef void _free_block(HistoryBlock* block) noexcept nogil:
    cdef size_t i
    for i in range(HISTORY_BLOCK_STEPS):
        _free_changes(&block.steps[i])
    free(block)

cdef bint _drop_block(History* history) noexcept nogil:
    if history.first_block * HISTORY_BLOCK_STEPS > history.kept_through:
        _free_block(history.blocks.front())
    elif not history.kept.push(history.blocks.front()):
        return False
    history.blocks.pop_front()
    history.first_block += 1
    return True

cdef bint history_drop_front(History* history) noexcept nogil:
    cdef uint64_t revision = history.trimmed + 1
    if revision > history.kept_through:
        _free_changes(history_step(history, revision))
    if _block_of(revision + 1) > history.first_block and not _drop_block(history):
        return False
    history.trimmed = revision
    history.trimmed_changes = 0
    return True

cdef void history_keep(History* history) noexcept nogil:
    history.kept_through = history.newest

cdef void history_free_kept(History* history, uint32_t blocks_max) noexcept nogil:
    cdef uint64_t revision
    if history.kept_through != 0 and history.blocks.size > 0:
        # Steps that were dropped and whose block is still in the ring.
        for revision in range(history.first_block * HISTORY_BLOCK_STEPS, history.trimmed + 1):
            _free_changes(history_step(history, revision))
    history.kept_through = 0
    while history.kept.size > 0 and blocks_max > 0:
        _free_block(history.kept.front())
        history.kept.pop_front()
        blocks_max -= 1
