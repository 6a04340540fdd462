"""Record logs: bodies.

An append first looks whether it is refused, or was appended before. Then it plans, in this order: tombstones whose time
is over, the batch, the keys of its records and with them what they replace, its producer, batches beyond a limit.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcpy, memmove, memset

from raftmeta.machine.deadlines cimport deadline_after
from raftmeta.machine.entry cimport ENTRY_RECORDS
from raftmeta.machine.invariants cimport BROKEN_RECORD_LOG
from raftmeta.machine.plan cimport Plan, Planned, plan_delete, plan_put, plan_range, plan_room, plan_touch, plan_view
from raftmeta.machine.record_keys cimport (RECORD_BATCH_KEYED, RECORD_HASH_BYTES, RECORD_KEY_BATCH,
                                           RECORD_KEY_PRODUCER, RECORD_KEY_TOMBSTONE, RECORD_PRODUCER_BATCHES,
                                           RecordBatchMeta, RecordKey, RecordKeyMeta, RecordLogMeta,
                                           RecordProducerBatch, RecordProducerMeta, RecordTombstoneMeta,
                                           record_batch_read, record_hash, record_key_make, record_key_number,
                                           record_key_of_hash, record_log_read)
from raftmeta.native.containers cimport Vec
from raftmeta.native.invariants cimport broken
from raftmeta.status cimport COMMAND_INVALID, NO_MEMORY, OK
from raftmeta.wire.commands cimport CHANGES_MAX, Bytes, KeyView, result_array, result_unsigned
from raftmeta.wire.record_batches cimport (BatchHeader, RecordView, batch_is_open, batch_next, batch_place, batch_read,
                                           batch_without)
from raftmeta.wire.records cimport (RECORDS_APPEND, RECORDS_COMPACT, RECORDS_DELETE, RECORDS_INVALID_REQUEST,
                                    RECORDS_OK, RECORDS_OLD_EPOCH, RECORDS_OUT_OF_ORDER, RECORDS_OUT_OF_RANGE,
                                    RECORDS_POLICY_VIOLATION, RECORDS_TO_END, RECORDS_TRIM, RecordsRequest,
                                    records_decode)

cdef enum:
    SWEPT_MAX = 8_000           # batches that one request lets go; the next ones take the rest
    TOMBSTONES_MAX = 64         # that one append lets go
    SEQUENCE_MAX = 0x7fffffff
    OFFSET_MAX = 0x4000000000000000   # beyond it nothing is appended

# The log of a request, as the request leaves it.
cdef struct Log:
    Bytes key
    bint exists
    RecordLogMeta meta

# The producer of a batch.
cdef struct Producer:
    bint exists
    RecordProducerMeta meta
    int32_t last_sequence       # of the batch


# --- keys of the plan -------------------------------------------------------------------------------------------------
# False: another key stands there.
cdef bint _open(Machine* machine, const Bytes* key, Log* log) noexcept nogil:
    cdef KeyView view
    memset(log, 0, sizeof(Log))
    log.key = key[0]
    log.exists = plan_view(&machine.plan, key, &view)
    return not log.exists or view.flags & ENTRY_RECORDS and record_log_read(&view.value, &log.meta)

# Bytes that stay until the entry is made. NULL: no memory.
cdef uint8_t* _copied(Plan* plan, const void* bytes, uint32_t length) noexcept nogil:
    cdef uint8_t* room = plan_room(plan, length)
    if room != NULL:
        memcpy(room, bytes, length)
    return room

cdef status_t _touch(Plan* plan, const Bytes* key, Planned** planned) noexcept nogil:
    cdef Bytes copied
    copied.length = key.length
    copied.data = _copied(plan, key.data, key.length)
    return plan_touch(plan, &copied, planned) if copied.data != NULL else <status_t>NO_MEMORY

# `value` stays until the entry is made.
cdef status_t _put_room(Plan* plan, const Bytes* key, const uint8_t* value, uint32_t length) noexcept nogil:
    cdef Planned* planned = NULL
    cdef Bytes bytes
    cdef status_t status = NO_MEMORY if value == NULL else _touch(plan, key, &planned)
    if status == OK:
        bytes.data = value
        bytes.length = length
        plan_put(plan, planned, &bytes, 0, ENTRY_RECORDS)
    return status

cdef status_t _put(Plan* plan, const Bytes* key, const void* value, uint32_t length) noexcept nogil:
    return _put_room(plan, key, _copied(plan, value, length), length)

cdef status_t _delete(Plan* plan, const Bytes* key) noexcept nogil:
    cdef Planned* planned = NULL
    cdef status_t status = _touch(plan, key, &planned)
    if status == OK:
        plan_delete(plan, planned)
    return status

cdef status_t _store(Machine* machine, const Log* log) noexcept nogil:
    return _put(&machine.plan, &log.key, &log.meta, sizeof(RecordLogMeta))

# The first key of a kind with a number of at least `number`. False: there is none.
cdef bint _first(Machine* machine, const Log* log, uint8_t kind, uint64_t number, KeyView* view) noexcept nogil:
    cdef Vec[KeyView]* views = &machine.transaction.views
    cdef RecordKey start, end
    cdef uint32_t count = 0
    record_key_make(&start, &log.key, kind, number)
    record_key_make(&end, &log.key, kind + 1, 0)
    views.clear()               # records_run has made room for one
    if plan_range(&machine.plan, &start.key, &end.key, 1, 1, views, &count) != OK or count == 0:
        return False
    view[0] = views.data[0]
    return True


# --- producers (ProducerStateManager, ProducerAppendInfo) -------------------------------------------------------------
cdef inline int32_t _last_sequence(const BatchHeader* header) noexcept nogil:
    return <int32_t>((<int64_t>header.base_sequence + header.count - 1) & SEQUENCE_MAX)

# RECORDS_OK; *duplicate is the place of the batch as it was appended, or NULL.
cdef int _check_producer(Machine* machine, const Log* log, const BatchHeader* header, Producer* producer,
                         const RecordProducerBatch** duplicate) noexcept nogil:
    cdef RecordProducerMeta* meta = &producer.meta
    cdef RecordKey key
    cdef KeyView view
    cdef int i
    memset(producer, 0, sizeof(Producer))
    duplicate[0] = NULL
    producer.last_sequence = _last_sequence(header)
    record_key_make(&key, &log.key, RECORD_KEY_PRODUCER, <uint64_t>header.producer)
    producer.exists = plan_view(&machine.plan, &key.key, &view)
    if not producer.exists:
        return RECORDS_OK       # its records may have gone: any sequence is its next
    memcpy(meta, view.value.data, sizeof(RecordProducerMeta))
    if header.epoch < meta.epoch:
        return RECORDS_OLD_EPOCH
    if header.epoch > meta.epoch:
        return RECORDS_OK if header.base_sequence == 0 else RECORDS_OUT_OF_ORDER
    for i in range(meta.count):
        if (meta.batches[i].first_sequence == header.base_sequence
                and meta.batches[i].last_sequence == producer.last_sequence):
            duplicate[0] = &meta.batches[i]
            return RECORDS_OK
    if header.base_sequence == ((<int64_t>meta.batches[meta.count - 1].last_sequence + 1) & SEQUENCE_MAX):
        return RECORDS_OK
    return RECORDS_OUT_OF_ORDER

cdef status_t _store_producer(Machine* machine, Log* log, const BatchHeader* header, Producer* producer,
                              uint64_t base) noexcept nogil:
    cdef RecordProducerMeta* meta = &producer.meta
    cdef RecordProducerBatch* newest
    cdef RecordKey key
    cdef status_t status = OK
    if not producer.exists or header.epoch != meta.epoch:
        meta.count = 0
    if meta.count == RECORD_PRODUCER_BATCHES:
        meta.count -= 1
        memmove(&meta.batches[0], &meta.batches[1], meta.count * sizeof(RecordProducerBatch))
    newest = &meta.batches[meta.count]
    newest.base_offset = base
    newest.first_sequence = header.base_sequence
    newest.last_sequence = producer.last_sequence
    meta.count += 1
    memset(newest + 1, 0, (RECORD_PRODUCER_BATCHES - meta.count) * sizeof(RecordProducerBatch))
    meta.epoch = header.epoch
    if not producer.exists:
        if log.meta.producers >= FORMAT_RECORD_PRODUCERS_MAX:
            status = _forget_producer(machine, log)
        log.meta.producers += 1
    record_key_make(&key, &log.key, RECORD_KEY_PRODUCER, <uint64_t>header.producer)
    return _put(&machine.plan, &key.key, meta, sizeof(RecordProducerMeta)) if status == OK else status

# The producer whose last batch is the oldest.
cdef status_t _forget_producer(Machine* machine, Log* log) noexcept nogil:
    cdef Vec[KeyView]* views = &machine.transaction.views
    cdef const RecordProducerMeta* meta
    cdef const KeyView* oldest = NULL
    cdef uint64_t oldest_offset = 0
    cdef uint32_t count = 0
    cdef RecordKey start, end
    cdef status_t status
    cdef size_t i
    record_key_make(&start, &log.key, RECORD_KEY_PRODUCER, 0)
    record_key_make(&end, &log.key, RECORD_KEY_PRODUCER + 1, 0)
    views.clear()
    status = plan_range(&machine.plan, &start.key, &end.key, ~<uint32_t>0, ~<uint32_t>0, views, &count)
    for i in range(views.size if status == OK else 0):
        meta = <const RecordProducerMeta*>views.data[i].value.data
        if oldest == NULL or meta.batches[meta.count - 1].base_offset < oldest_offset:
            oldest = &views.data[i]
            oldest_offset = meta.batches[meta.count - 1].base_offset
    if status != OK or oldest == NULL:
        return status
    log.meta.producers -= 1
    return _delete(&machine.plan, &oldest.key)


# --- compaction -------------------------------------------------------------------------------------------------------
cdef int _ascending(const void* left, const void* right) noexcept nogil:
    cdef int64_t first = (<const int64_t*>left)[0]
    cdef int64_t second = (<const int64_t*>right)[0]
    return (first > second) - (first < second)

# The index of one record's key: *gone gets the record that had the key before.
cdef status_t _index(Machine* machine, const Log* log, const RecordView* record, uint64_t offset,
                     Vec[int64_t]* gone) noexcept nogil:
    cdef uint8_t[RECORD_HASH_BYTES] hash
    cdef RecordTombstoneMeta tombstone
    cdef RecordKeyMeta meta
    cdef RecordKey key, mark_key
    cdef KeyView view
    cdef status_t status = OK
    record_hash(&record.key, hash)
    record_key_of_hash(&key, &log.key, hash)
    if plan_view(&machine.plan, &key.key, &view):
        memcpy(&meta, view.value.data, sizeof(RecordKeyMeta))
        if not gone.push(<int64_t>meta.offset):
            return NO_MEMORY
        if meta.is_tombstone:
            record_key_make(&mark_key, &log.key, RECORD_KEY_TOMBSTONE, meta.offset)
            status = _delete(&machine.plan, &mark_key.key)
    memset(&meta, 0, sizeof(RecordKeyMeta))
    meta.offset = offset
    meta.is_tombstone = not record.has_value
    if status == OK:
        status = _put(&machine.plan, &key.key, &meta, sizeof(RecordKeyMeta))
    if status == OK and not record.has_value:
        tombstone.appended_ms = machine.lease_ms
        memcpy(tombstone.hash, hash, RECORD_HASH_BYTES)
        record_key_make(&mark_key, &log.key, RECORD_KEY_TOMBSTONE, offset)
        status = _put(&machine.plan, &mark_key.key, &tombstone, sizeof(RecordTombstoneMeta))
    return status

cdef status_t _index_all(Machine* machine, const Log* log, const Bytes* batch, uint64_t base,
                         Vec[int64_t]* gone) noexcept nogil:
    cdef uint32_t place = 0
    cdef RecordView record
    cdef status_t status = OK
    while status == OK and batch_next(batch, &place, &record):
        status = _index(machine, log, &record, base + <uint64_t>record.offset_delta, gone)
    return status

# Tombstones whose time is over. While a batch is opaque it may hold an older record of the same key, which a tombstone
# that went would bring back to life.
cdef status_t _end_tombstones(Machine* machine, const Log* log, const RecordsRequest* request,
                              Vec[int64_t]* gone) noexcept nogil:
    cdef RecordTombstoneMeta tombstone
    cdef RecordKey key
    cdef KeyView view
    cdef uint64_t offset = 0
    cdef status_t status = OK
    if log.meta.opaque != 0:
        return OK
    for _ in range(TOMBSTONES_MAX):
        if status != OK or not _first(machine, log, RECORD_KEY_TOMBSTONE, offset, &view):
            break
        memcpy(&tombstone, view.value.data, sizeof(RecordTombstoneMeta))
        if deadline_after(tombstone.appended_ms, request.tombstone_ms) > machine.lease_ms:
            break
        offset = record_key_number(&view.key)
        if not gone.push(<int64_t>offset):
            return NO_MEMORY
        status = _delete(&machine.plan, &view.key)
        if status == OK:
            record_key_of_hash(&key, &log.key, tombstone.hash)
            status = _delete(&machine.plan, &key.key)
    return status

# Take these records out of their batches.
cdef status_t _leave_out(Machine* machine, Log* log, Vec[int64_t]* gone) noexcept nogil:
    cdef size_t first = 0
    cdef size_t end
    cdef uint64_t last
    cdef KeyView view
    cdef status_t status = OK
    if gone.size:
        qsort(gone.data, gone.size, sizeof(int64_t), _ascending)
    while status == OK and first < gone.size:
        if not _first(machine, log, RECORD_KEY_BATCH, <uint64_t>gone.data[first], &view):
            return broken(&machine.broken, BROKEN_RECORD_LOG, <uint64_t>gone.data[first], log.meta.next)
        last = record_key_number(&view.key)
        end = first
        while end < gone.size and <uint64_t>gone.data[end] <= last:
            end += 1
        status = _shorten(machine, log, &view, gone.data + first, <uint32_t>(end - first))
        first = end
    return status

cdef status_t _shorten(Machine* machine, Log* log, const KeyView* view, const int64_t* left_out,
                       uint32_t count) noexcept nogil:
    cdef RecordBatchMeta meta
    cdef Bytes batch
    cdef uint8_t* room = plan_room(&machine.plan, view.value.length)
    cdef uint32_t length
    if room == NULL:
        return NO_MEMORY
    record_batch_read(&view.value, &meta, &batch)
    memcpy(room, &meta, sizeof(RecordBatchMeta))
    length = batch_without(&batch, left_out, count, room + sizeof(RecordBatchMeta))
    log.meta.bytes -= batch.length - length
    if length == 0:
        log.meta.batches -= 1
        return _delete(&machine.plan, &view.key)
    return _put_room(&machine.plan, &view.key, room, <uint32_t>sizeof(RecordBatchMeta) + length)


# --- retention --------------------------------------------------------------------------------------------------------
# Whether the oldest batch goes. Never the one that the request appends: `next` is behind it.
cdef bint _is_over(Machine* machine, const Log* log, const RecordsRequest* request, const RecordBatchMeta* meta,
                   uint64_t last) noexcept nogil:
    if last < log.meta.start:
        return True             # a trim left it to later requests
    if not request.flags & RECORDS_DELETE or last + 1 == log.meta.next:
        return False
    if request.retention_ms and deadline_after(meta.appended_ms, request.retention_ms) <= machine.lease_ms:
        return True
    if request.records_max and log.meta.next - last - 1 >= request.records_max:
        return True
    return log.meta.bytes > _bytes_max(request)

cdef inline uint64_t _bytes_max(const RecordsRequest* request) noexcept nogil:
    if request.bytes_max == 0:
        return FORMAT_RECORD_LOG_BYTES_MAX
    return min(request.bytes_max, <uint64_t>FORMAT_RECORD_LOG_BYTES_MAX)

cdef status_t _sweep(Machine* machine, Log* log, const RecordsRequest* request) noexcept nogil:
    cdef RecordBatchMeta meta
    cdef BatchHeader header
    cdef KeyView view
    cdef Bytes batch
    cdef uint64_t last
    cdef uint64_t place = 0
    cdef status_t status = OK
    for _ in range(SWEPT_MAX):
        if status != OK or not _first(machine, log, RECORD_KEY_BATCH, place, &view):
            break
        record_batch_read(&view.value, &meta, &batch)
        batch_read(&batch, &header)
        last = record_key_number(&view.key)
        if not _is_over(machine, log, request, &meta, last):
            break
        if machine.plan.changes.size + 2 * <size_t>(header.count if meta.flags & RECORD_BATCH_KEYED else 0) + 2 > (
                CHANGES_MAX):
            break
        status = _remove(machine, log, &view, &meta, &batch, &header)
        log.meta.start = max(log.meta.start, last + 1)
        place = last + 1
    return status

cdef status_t _remove(Machine* machine, Log* log, const KeyView* view, const RecordBatchMeta* meta,
                      const Bytes* batch, const BatchHeader* header) noexcept nogil:
    cdef uint8_t[RECORD_HASH_BYTES] hash
    cdef RecordView record
    cdef RecordKey key
    cdef uint32_t place = 0
    cdef status_t status = OK
    log.meta.batches -= 1
    log.meta.bytes -= batch.length
    if not meta.flags & RECORD_BATCH_KEYED:
        log.meta.opaque -= 1
        return _delete(&machine.plan, &view.key)
    while status == OK and batch_next(batch, &place, &record):
        record_hash(&record.key, hash)
        record_key_of_hash(&key, &log.key, hash)
        status = _delete(&machine.plan, &key.key)
        if status == OK and not record.has_value:
            record_key_make(&key, &log.key, RECORD_KEY_TOMBSTONE,
                            <uint64_t>(header.base_offset + record.offset_delta))
            status = _delete(&machine.plan, &key.key)
    return _delete(&machine.plan, &view.key) if status == OK else status


# --- append -----------------------------------------------------------------------------------------------------------
cdef status_t _append(Machine* machine, Log* log, const RecordsRequest* request) noexcept nogil:
    cdef const RecordProducerBatch* duplicate = NULL
    cdef uint64_t base = log.meta.next
    cdef bint is_keyed
    cdef BatchHeader header
    cdef Producer producer
    cdef Vec[int64_t] gone
    cdef status_t status
    cdef int code = RECORDS_OK
    batch_read(&request.batch, &header)
    if header.producer >= 0:
        code = _check_producer(machine, log, &header, &producer, &duplicate)
    if duplicate != NULL:
        return _answer(machine, RECORDS_OK, duplicate.base_offset, log.meta.start)
    if code == RECORDS_OK and not _has_room(log, request):
        code = RECORDS_POLICY_VIOLATION
    if code != RECORDS_OK:
        return _answer(machine, code, 0, log.meta.start)
    is_keyed = (request.flags & RECORDS_COMPACT and batch_is_open(&header)
                and header.count <= FORMAT_RECORD_KEYED_MAX)
    log.meta.next += <uint64_t>header.count
    memset(&gone, 0, sizeof(gone))
    status = _end_tombstones(machine, log, request, &gone) if request.flags & RECORDS_COMPACT else OK
    if status == OK:
        status = _put_batch(machine, log, &request.batch, base, is_keyed)
    if status == OK and is_keyed:
        status = _index_all(machine, log, &request.batch, base, &gone)
    if status == OK:
        status = _leave_out(machine, log, &gone)
    gone.release()
    if status == OK and header.producer >= 0:
        status = _store_producer(machine, log, &header, &producer, base)
    if status == OK:
        status = _sweep(machine, log, request)
    if status == OK:
        status = _store(machine, log)
    return _answer(machine, RECORDS_OK, base, log.meta.start) if status == OK else status

cdef inline bint _has_room(const Log* log, const RecordsRequest* request) noexcept nogil:
    if log.meta.next >= <uint64_t>OFFSET_MAX:
        return False
    # Where old batches go, they do so some at a time.
    return log.meta.bytes + request.batch.length <= (
        2 * <uint64_t>FORMAT_RECORD_LOG_BYTES_MAX if request.flags & RECORDS_DELETE else FORMAT_RECORD_LOG_BYTES_MAX)

cdef status_t _put_batch(Machine* machine, Log* log, const Bytes* batch, uint64_t base, bint is_keyed) noexcept nogil:
    cdef uint8_t* room = plan_room(&machine.plan, <uint32_t>sizeof(RecordBatchMeta) + batch.length)
    cdef RecordBatchMeta meta
    cdef RecordKey key
    if room == NULL:
        return NO_MEMORY
    memset(&meta, 0, sizeof(RecordBatchMeta))
    meta.appended_ms = machine.lease_ms
    meta.flags = RECORD_BATCH_KEYED if is_keyed else 0
    memcpy(room, &meta, sizeof(RecordBatchMeta))
    memcpy(room + sizeof(RecordBatchMeta), batch.data, batch.length)
    batch_place(room + sizeof(RecordBatchMeta), <int64_t>base)
    log.meta.batches += 1
    log.meta.bytes += batch.length
    log.meta.opaque += 0 if is_keyed else 1
    record_key_make(&key, &log.key, RECORD_KEY_BATCH, log.meta.next - 1)
    return _put_room(&machine.plan, &key.key, room, <uint32_t>sizeof(RecordBatchMeta) + batch.length)

# [code, number, start of the log]
cdef status_t _answer(Machine* machine, int code, uint64_t number, uint64_t start) noexcept nogil:
    cdef Vec[uint8_t]* body = &machine.transaction.body
    if (result_array(body, 3) != OK or result_unsigned(body, <uint64_t>code) != OK
            or result_unsigned(body, number) != OK or result_unsigned(body, start) != OK):
        return NO_MEMORY
    return OK


# --- trim, drop -------------------------------------------------------------------------------------------------------
# ReplicaManager.deleteRecords: the start moves at once; the batches before it go now, and the rest with later requests.
cdef status_t _trim(Machine* machine, Log* log, const RecordsRequest* request) noexcept nogil:
    cdef uint64_t offset = log.meta.next if request.offset == RECORDS_TO_END else request.offset
    cdef status_t status
    if offset > log.meta.next:
        return _answer(machine, RECORDS_OUT_OF_RANGE, 0, log.meta.start)
    if offset <= log.meta.start:
        return _answer(machine, RECORDS_OK, log.meta.start, log.meta.start)
    log.meta.start = offset
    status = _sweep(machine, log, request)
    if status == OK:
        status = _store(machine, log)
    return _answer(machine, RECORDS_OK, log.meta.start, log.meta.start) if status == OK else status

# As many keys as an entry may change; the log's own goes last. [code, whether there is more, 0]
cdef status_t _drop(Machine* machine, const Log* log) noexcept nogil:
    cdef Vec[KeyView]* views = &machine.transaction.views
    cdef RecordKey start, end
    cdef uint32_t count = 0
    cdef status_t status
    cdef size_t i
    record_key_make(&start, &log.key, 0, 0)
    record_key_make(&end, &log.key, 0xff, 0)
    views.clear()
    status = plan_range(&machine.plan, &start.key, &end.key, CHANGES_MAX - 1, CHANGES_MAX, views, &count)
    for i in range(views.size):
        if status == OK:
            status = _delete(&machine.plan, &views.data[i].key)
    if status == OK and log.exists and count < CHANGES_MAX:
        status = _delete(&machine.plan, &log.key)
    return _answer(machine, RECORDS_OK, count >= CHANGES_MAX, 0) if status == OK else status


# --- a request --------------------------------------------------------------------------------------------------------
cdef status_t records_run(Machine* machine) noexcept nogil:
    cdef RecordsRequest request
    cdef Log log
    if records_decode(&machine.command.name, &machine.command.data, &request) != OK:
        return COMMAND_INVALID
    if not machine.transaction.views.reserve(1):
        return NO_MEMORY
    if not _open(machine, &machine.command.name, &log):
        return _answer(machine, RECORDS_INVALID_REQUEST, 0, 0)
    if request.verb == RECORDS_APPEND:
        return _append(machine, &log, &request)
    return _trim(machine, &log, &request) if request.verb == RECORDS_TRIM else _drop(machine, &log)
