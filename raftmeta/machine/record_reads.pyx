"""Record logs for readers: bodies."""
from libc.stdint cimport int64_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from raftmeta.machine.entry cimport ENTRY_RECORDS, entry_key, entry_value
from raftmeta.machine.plan cimport is_live
from raftmeta.machine.record_keys cimport (RECORD_KEY_BATCH, RecordBatchMeta, RecordKey, RecordLogMeta,
                                           record_batch_read, record_key_make, record_log_read)
from raftmeta.machine.tree cimport Cursor, Entry, cursor_next, cursor_seek, root_find
from raftmeta.status cimport NO_MEMORY, OK
from raftmeta.wire.record_batches cimport (BatchHeader, RecordView, batch_is_open, batch_next, batch_read, batch_time)

# A walk over the batches of a log.
cdef struct Walk:
    Cursor cursor
    RecordKey first             # where it began; up to the letter all its keys are alike
    Bytes batch
    BatchHeader header


cdef inline void _window(const Entry* entry, Bytes* value) noexcept nogil:
    value.data = entry_value(entry)
    value.length = entry.value_length

cdef void record_log_view(const Root* root, const Bytes* log, RecordLogView* view) noexcept nogil:
    cdef const Entry* entry = root_find(root, log.data, <uint16_t>log.length)
    cdef RecordLogMeta meta
    cdef Bytes value
    memset(view, 0, sizeof(RecordLogView))
    if not is_live(entry) or not entry.flags & ENTRY_RECORDS:
        return
    _window(entry, &value)
    if record_log_read(&value, &meta):
        view.start = meta.start
        view.next = meta.next
        view.bytes = meta.bytes
        view.batches = meta.batches

# From the batch on that has the offset, or follows it.
cdef void _begin(Walk* walk, const Root* root, const Bytes* log, uint64_t offset) noexcept nogil:
    record_key_make(&walk.first, log, RECORD_KEY_BATCH, offset)
    cursor_seek(&walk.cursor, root, walk.first.key.data, <uint16_t>walk.first.key.length)

cdef bint _next(Walk* walk) noexcept nogil:
    cdef uint32_t alike = walk.first.key.length - <uint32_t>sizeof(uint64_t)
    cdef RecordBatchMeta meta
    cdef const Entry* entry
    cdef Bytes value
    while walk.cursor.entry != NULL:
        entry = walk.cursor.entry
        if entry.key_length < alike or memcmp(entry_key(entry), walk.first.key.data, alike):
            return False
        cursor_next(&walk.cursor)
        if not is_live(entry):
            continue
        _window(entry, &value)
        return record_batch_read(&value, &meta, &walk.batch) and batch_read(&walk.batch, &walk.header)
    return False

cdef status_t record_log_fetch(const Root* root, const Bytes* log, uint64_t offset, uint32_t bytes_max,
                               bint must_have_one, Vec[uint8_t]* out) noexcept nogil:
    cdef uint64_t taken = 0
    cdef Walk walk
    _begin(&walk, root, log, offset)
    while _next(&walk):
        if taken + walk.batch.length > bytes_max and (taken or not must_have_one):
            break
        if not out.append(walk.batch.data, walk.batch.length):
            return NO_MEMORY
        taken += walk.batch.length
    return OK

cdef bint record_log_at_time(const Root* root, const Bytes* log, int64_t timestamp, uint64_t* offset,
                             int64_t* found) noexcept nogil:
    cdef RecordLogView view
    cdef RecordView record
    cdef uint32_t place
    cdef Walk walk
    record_log_view(root, log, &view)
    _begin(&walk, root, log, view.start)
    while _next(&walk):
        if walk.header.max_timestamp < timestamp:
            continue
        if not batch_is_open(&walk.header):
            offset[0] = max(<uint64_t>walk.header.base_offset, view.start)
            found[0] = walk.header.base_timestamp
            return True
        place = 0
        while batch_next(&walk.batch, &place, &record):
            offset[0] = <uint64_t>(walk.header.base_offset + record.offset_delta)
            found[0] = batch_time(&walk.header, &record)
            if found[0] >= timestamp and offset[0] >= view.start:
                return True
    return False

cdef bint record_log_latest(const Root* root, const Bytes* log, uint64_t* offset, int64_t* found) noexcept nogil:
    cdef bint is_found = False
    cdef RecordLogView view
    cdef RecordView record
    cdef uint32_t place = 0
    cdef Walk walk
    record_log_view(root, log, &view)
    _begin(&walk, root, log, view.start)
    while _next(&walk):
        if is_found and walk.header.max_timestamp <= found[0]:
            continue
        is_found = True
        found[0] = walk.header.max_timestamp
        offset[0] = <uint64_t>(walk.header.base_offset + walk.header.last_delta)
        place = 0
        while batch_is_open(&walk.header) and batch_next(&walk.batch, &place, &record):
            if batch_time(&walk.header, &record) >= found[0]:
                offset[0] = <uint64_t>(walk.header.base_offset + record.offset_delta)
                break
    return is_found
