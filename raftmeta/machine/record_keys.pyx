"""The keys of a record log: bodies."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy

from raftmeta.native.intrinsics cimport big64
from raftmeta.native.sha256 cimport sha256
from raftmeta.wire.record_batches cimport BatchHeader, batch_is_sound, batch_read

cdef enum:
    NUMBER_BYTES = 8
    SHA256_BYTES = 32


# --- keys -------------------------------------------------------------------------------------------------------------
cdef void _make(RecordKey* made, const Bytes* log, uint8_t kind, const void* rest, uint32_t length) noexcept nogil:
    memcpy(made.data, log.data, log.length)
    made.data[log.length] = 0
    made.data[log.length + 1] = kind
    memcpy(made.data + log.length + 2, rest, length)
    made.key.data = made.data
    made.key.length = log.length + 2 + length

cdef void record_key_make(RecordKey* made, const Bytes* log, uint8_t kind, uint64_t number) noexcept nogil:
    cdef uint64_t big = big64(&number)
    _make(made, log, kind, &big, NUMBER_BYTES)

cdef void record_key_of_hash(RecordKey* made, const Bytes* log, const uint8_t* hash) noexcept nogil:
    _make(made, log, RECORD_KEY_KEY, hash, RECORD_HASH_BYTES)

cdef void record_hash(const Bytes* key, uint8_t* hash) noexcept nogil:
    cdef uint8_t[SHA256_BYTES] whole
    sha256(key.data, key.length, whole)
    memcpy(hash, whole, RECORD_HASH_BYTES)

cdef uint64_t record_key_number(const Bytes* key) noexcept nogil:
    return big64(key.data + key.length - NUMBER_BYTES)

# The log's part of a key: all of it, or what stands before the zero byte.
cdef void _log_of(const Bytes* key, Bytes* log) noexcept nogil:
    cdef const uint8_t* end = <const uint8_t*>memchr(key.data, 0, key.length)
    log.data = key.data
    log.length = key.length if end == NULL else <uint32_t>(end - key.data)


# --- values -----------------------------------------------------------------------------------------------------------
cdef bint record_log_read(const Bytes* value, RecordLogMeta* meta) noexcept nogil:
    if value.length != sizeof(RecordLogMeta):
        return False
    memcpy(meta, value.data, sizeof(RecordLogMeta))
    return True

cdef bint record_batch_read(const Bytes* value, RecordBatchMeta* meta, Bytes* batch) noexcept nogil:
    if value.length < sizeof(RecordBatchMeta):
        return False
    memcpy(meta, value.data, sizeof(RecordBatchMeta))
    batch.data = value.data + sizeof(RecordBatchMeta)
    batch.length = value.length - <uint32_t>sizeof(RecordBatchMeta)
    return True

cdef bint _is_sound_log(const Bytes* value) noexcept nogil:
    cdef RecordLogMeta meta
    return record_log_read(value, &meta) and meta.start <= meta.next and meta.opaque <= meta.batches

cdef bint _is_sound_batch(const Bytes* value, uint64_t last) noexcept nogil:
    cdef RecordBatchMeta meta
    cdef BatchHeader header
    cdef Bytes batch
    return (record_batch_read(value, &meta, &batch) and batch_is_sound(&batch) and batch_read(&batch, &header)
            and <uint64_t>header.base_offset + <uint64_t>header.last_delta == last)

cdef bint record_is_sound(const Bytes* key, const uint8_t* value, uint32_t length, uint64_t lease) noexcept nogil:
    cdef Bytes bytes, log
    cdef uint32_t rest
    cdef uint8_t kind
    bytes.data = value
    bytes.length = length
    _log_of(key, &log)
    if lease != 0 or log.length == 0:
        return False
    if log.length == key.length:
        return _is_sound_log(&bytes)
    rest = key.length - log.length
    kind = key.data[log.length + 1] if rest > 1 else 0
    if rest == 2 + RECORD_HASH_BYTES and kind == RECORD_KEY_KEY:
        return length == sizeof(RecordKeyMeta)
    if rest != 2 + NUMBER_BYTES:
        return False
    if kind == RECORD_KEY_BATCH:
        return _is_sound_batch(&bytes, record_key_number(key))
    if kind == RECORD_KEY_PRODUCER:
        return (length == sizeof(RecordProducerMeta)
                and 0 < (<const RecordProducerMeta*>value).count <= RECORD_PRODUCER_BATCHES)
    return kind == RECORD_KEY_TOMBSTONE and length == sizeof(RecordTombstoneMeta)
