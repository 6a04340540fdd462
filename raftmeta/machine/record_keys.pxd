# The keys of a record log and their values (docs/formats.md "Record logs").
#
# A log is a key with ENTRY_RECORDS; behind it, after a zero byte and the letter of their kind, stand its batches, its
# producers, and, if it is compacted, its keys and tombstones. All have ENTRY_RECORDS. This module knows how they are
# laid out. It decides nothing about them: machine/record_logs does.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.wire.windows cimport KEY_BYTES_MAX, Bytes

cdef enum:
    RECORD_HASH_BYTES = 16              # of a record's key: the beginning of its SHA-256
    RECORD_PRODUCER_BATCHES = 5         # that a duplicate is found among, as in Kafka

# FORMAT_: letters in keys.
cdef enum RecordKeyKind:
    RECORD_KEY_BATCH = 98               # 'b', last offset: big-endian, so that keys are in order of offsets
    RECORD_KEY_KEY = 107                # 'k', hash
    RECORD_KEY_PRODUCER = 112           # 'p', id of the producer
    RECORD_KEY_TOMBSTONE = 116          # 't', offset

# FORMAT_: values. These are whole but that of a batch, behind which its bytes stand.
cdef packed struct RecordLogMeta:
    uint64_t start                      # the first offset that may be read
    uint64_t next                       # the offset of the next record
    uint64_t bytes                      # of all batches
    uint32_t batches
    uint32_t opaque                     # batches without RECORD_BATCH_KEYED
    uint32_t producers
    uint32_t zero

cdef enum:
    RECORD_BATCH_KEYED = 1              # each of its records is the last of its key

cdef packed struct RecordBatchMeta:
    uint64_t appended_ms                # on the lease clock
    uint8_t flags
    uint8_t[7] zero

cdef packed struct RecordKeyMeta:
    uint64_t offset                     # of the last record with the key
    uint8_t is_tombstone
    uint8_t[7] zero

cdef packed struct RecordTombstoneMeta:
    uint64_t appended_ms
    uint8_t[RECORD_HASH_BYTES] hash     # of its key

cdef packed struct RecordProducerBatch:
    uint64_t base_offset
    int32_t first_sequence
    int32_t last_sequence

cdef packed struct RecordProducerMeta:
    int16_t epoch
    uint8_t count                       # of batches, the newest last
    uint8_t[5] zero
    RecordProducerBatch[RECORD_PRODUCER_BATCHES] batches

# A key behind that of a log, with room for it.
cdef struct RecordKey:
    uint8_t[KEY_BYTES_MAX] data
    Bytes key                           # windows `data`: a RecordKey does not move

# Make the key of a batch, a producer or a tombstone; of a record's key.
cdef void record_key_make(RecordKey* made, const Bytes* log, uint8_t kind, uint64_t number) noexcept nogil
cdef void record_key_of_hash(RecordKey* made, const Bytes* log, const uint8_t* hash) noexcept nogil
# The hash of a record's key.
cdef void record_hash(const Bytes* key, uint8_t* hash) noexcept nogil
# The number in a key of a batch, a producer or a tombstone.
cdef uint64_t record_key_number(const Bytes* key) noexcept nogil
# Windows and fields of values; False: the bytes are no such value.
cdef bint record_log_read(const Bytes* value, RecordLogMeta* meta) noexcept nogil
cdef bint record_batch_read(const Bytes* value, RecordBatchMeta* meta, Bytes* batch) noexcept nogil
# Whether the bytes are what the key may hold, as a dump brings them.
cdef bint record_is_sound(const Bytes* key, const uint8_t* value, uint32_t length, uint64_t lease) noexcept nogil
