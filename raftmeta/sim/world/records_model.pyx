"""A record log as a list of records: bodies."""
from libc.stdint cimport int64_t, uint32_t, uint64_t
from libc.string cimport memmove, memset

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport load64
from raftmeta.sim.world.topics_state cimport (SIM_PRODUCER_BATCHES, SIM_PRODUCERS, SimProducer, SimProducerBatch,
                                              SimRecord)
from raftmeta.wire.record_batches cimport (BATCH_HEADER_BYTES, BatchHeader, RecordView, batch_is_open, batch_next,
                                           batch_read)
from raftmeta.wire.records cimport (RECORDS_APPEND, RECORDS_COMPACT, RECORDS_DELETE, RECORDS_OK, RECORDS_OLD_EPOCH,
                                    RECORDS_OUT_OF_ORDER, RECORDS_OUT_OF_RANGE, RECORDS_TO_END, RECORDS_TRIM)

cdef enum:
    SEQUENCES = 0x80000000      # after the last one comes 0
    VALUE_BYTES = 8             # of each value; behind it stands a byte: no headers


# --- producers --------------------------------------------------------------------------------------------------------
# RECORDS_OK, or why the batch is refused; *at: where it stands already, or NULL.
cdef uint64_t _ask_producer(SimProducer* producer, const BatchHeader* header, SimProducerBatch** at) noexcept nogil:
    cdef int64_t last = (<int64_t>header.base_sequence + header.count - 1) % SEQUENCES
    cdef uint32_t i
    at[0] = NULL
    if not producer.exists:
        return RECORDS_OK
    if header.epoch < producer.epoch:
        return RECORDS_OLD_EPOCH
    if header.epoch > producer.epoch:
        return RECORDS_OUT_OF_ORDER if header.base_sequence else RECORDS_OK
    for i in range(producer.count):
        if producer.batches[i].first_sequence == header.base_sequence and producer.batches[i].last_sequence == last:
            at[0] = &producer.batches[i]
            return RECORDS_OK
    if (producer.batches[producer.count - 1].last_sequence + 1) % SEQUENCES != header.base_sequence:
        return RECORDS_OUT_OF_ORDER
    return RECORDS_OK


cdef void _know_batch(SimProducer* producer, const BatchHeader* header, uint64_t base) noexcept nogil:
    if header.epoch != producer.epoch or not producer.exists:
        producer.count = 0
    if producer.count == SIM_PRODUCER_BATCHES:
        producer.count -= 1
        memmove(&producer.batches[0], &producer.batches[1], producer.count * sizeof(SimProducerBatch))
    producer.exists = True
    producer.epoch = header.epoch
    producer.batches[producer.count].base = base
    producer.batches[producer.count].first_sequence = header.base_sequence
    producer.batches[producer.count].last_sequence = (<int64_t>header.base_sequence + header.count - 1) % SEQUENCES
    producer.count += 1


# --- what goes --------------------------------------------------------------------------------------------------------
# Records whose keys come again behind them.
cdef void _compact(SimLog* log, SimCounts* counts) noexcept nogil:
    cdef Vec[SimRecord]* records = &log.records
    cdef size_t i, later
    cdef size_t kept = 0
    cdef bint comes_again
    for i in range(records.size):
        comes_again = False
        for later in range(i + 1, records.size if records.data[i].is_keyed else 0):
            if records.data[later].is_keyed and records.data[later].key == records.data[i].key:
                comes_again = True
        if comes_again:
            counts.records_replaced += 1
            continue
        records.data[kept] = records.data[i]
        kept += 1
    records.size = kept


# No tombstone goes while an older value could be in a batch that nobody can look into.
cdef void _end_tombstones(SimLog* log, uint64_t tombstone_ms, uint64_t lease_ms, SimCounts* counts) noexcept nogil:
    cdef Vec[SimRecord]* records = &log.records
    cdef size_t kept = 0
    cdef size_t i
    for i in range(records.size):
        if not records.data[i].is_keyed:
            return
    for i in range(records.size):
        if records.data[i].value == 0 and records.data[i].appended_ms + tombstone_ms <= lease_ms:
            counts.tombstones_ended += 1
            continue
        records.data[kept] = records.data[i]
        kept += 1
    records.size = kept


cdef uint32_t model_log_batches(const SimLog* log) noexcept nogil:
    cdef uint32_t batches = 0
    cdef size_t i
    for i in range(log.records.size):
        batches += i == 0 or log.records.data[i].last != log.records.data[i - 1].last
    return batches


cdef uint64_t model_log_bytes(const SimLog* log) noexcept nogil:
    cdef uint64_t bytes = <uint64_t>model_log_batches(log) * BATCH_HEADER_BYTES
    cdef size_t i
    for i in range(log.records.size):
        bytes += log.records.data[i].bytes
    return bytes


# The oldest batch goes: below the start, or beyond a limit. The newest stays.
cdef bint _is_over(const SimLog* log, const RecordsRequest* request, uint64_t lease_ms) noexcept nogil:
    cdef const SimRecord* oldest = log.records.data
    if oldest.last < log.start:
        return True
    if not request.flags & RECORDS_DELETE or oldest.last + 1 == log.next:
        return False
    if request.retention_ms and oldest.appended_ms + request.retention_ms <= lease_ms:
        return True
    if request.records_max and log.next - (oldest.last + 1) >= request.records_max:
        return True
    return request.bytes_max != 0 and model_log_bytes(log) > request.bytes_max


cdef void _sweep(SimLog* log, const RecordsRequest* request, uint64_t lease_ms, SimCounts* counts) noexcept nogil:
    cdef Vec[SimRecord]* records = &log.records
    cdef uint64_t last
    cdef size_t gone
    while records.size and _is_over(log, request, lease_ms):
        last = records.data[0].last
        gone = 0
        while gone < records.size and records.data[gone].last == last:
            gone += 1
        records.size -= gone
        memmove(records.data, records.data + gone, records.size * sizeof(SimRecord))
        log.start = max(log.start, last + 1)
        counts.records_swept += 1


# --- requests ---------------------------------------------------------------------------------------------------------
cdef bint _put(SimLog* log, const RecordsRequest* request, const BatchHeader* header, uint64_t base,
               uint64_t lease_ms) noexcept nogil:
    cdef RecordView view
    cdef SimRecord record
    cdef uint32_t place = 0
    memset(&record, 0, sizeof(SimRecord))
    record.base = base
    record.offset = base
    record.last = log.next - 1
    record.appended_ms = lease_ms
    if not batch_is_open(header):
        record.is_opaque = True
        record.bytes = header.length - BATCH_HEADER_BYTES
        return log.records.push(record)
    record.is_keyed = request.flags & RECORDS_COMPACT != 0
    while batch_next(&request.batch, &place, &view):
        record.offset = base + <uint64_t>view.offset_delta
        record.bytes = view.whole.length
        record.key = view.key.data[0] if view.has_key else 0
        record.value = load64(view.whole.data + view.whole.length - 1 - VALUE_BYTES) if view.has_value else 0
        if not log.records.push(record):
            return False
    return True


cdef bint _append(SimLog* log, const RecordsRequest* request, uint64_t lease_ms, SimCounts* counts,
                  SimVerdict* verdict) noexcept nogil:
    cdef BatchHeader header
    cdef SimProducer* producer
    cdef SimProducerBatch* at = NULL
    cdef uint64_t base = log.next
    batch_read(&request.batch, &header)
    producer = &log.producers[<uint64_t>header.producer % SIM_PRODUCERS]
    if header.producer >= 0:
        verdict.code = _ask_producer(producer, &header, &at)
    if verdict.code != RECORDS_OK:
        verdict.start = log.start
        return True
    if at != NULL:
        verdict.is_repeated = True
        verdict.number = at.base
        verdict.start = log.start
        return True
    log.exists = True
    log.next += <uint64_t>header.count
    if request.flags & RECORDS_COMPACT:
        _end_tombstones(log, request.tombstone_ms, lease_ms, counts)
    if not _put(log, request, &header, base, lease_ms):
        return False
    if request.flags & RECORDS_COMPACT:
        _compact(log, counts)
    if header.producer >= 0:
        _know_batch(producer, &header, base)
    _sweep(log, request, lease_ms, counts)
    verdict.number = base
    verdict.start = log.start
    return True


cdef void _trim(SimLog* log, const RecordsRequest* request, uint64_t lease_ms, SimCounts* counts,
                SimVerdict* verdict) noexcept nogil:
    cdef uint64_t offset = log.next if request.offset == RECORDS_TO_END else request.offset
    verdict.start = log.start
    if offset > log.next:
        verdict.code = RECORDS_OUT_OF_RANGE
        return
    if offset > log.start:
        log.start = offset
        _sweep(log, request, lease_ms, counts)
        counts.records_trimmed += 1
    verdict.number = verdict.start = log.start


cdef bint model_records(SimLog* log, const RecordsRequest* request, uint64_t lease_ms, SimCounts* counts,
                        SimVerdict* verdict) noexcept nogil:
    cdef int i
    memset(verdict, 0, sizeof(SimVerdict))
    if request.verb == RECORDS_APPEND:
        return _append(log, request, lease_ms, counts, verdict)
    if request.verb == RECORDS_TRIM:
        _trim(log, request, lease_ms, counts, verdict)
        return True
    counts.records_dropped += log.exists
    log.exists = False
    log.start = log.next = 0
    log.records.clear()
    for i in range(SIM_PRODUCERS):
        memset(&log.producers[i], 0, sizeof(SimProducer))
    return True
