# Record batches of Kafka's protocol, version 2 ("magic 2"): their fields, their checks, and batches with records left
# out.
#
# This module knows bytes and no log. Records of a compressed batch are never looked at: such a batch is opaque.
# Sources: the protocol guide of Apache Kafka 3.9, "Record Batch" and "Record"; the checks are those of its classes
# DefaultRecordBatch, DefaultRecord and LogValidator.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t

from raftmeta.wire.windows cimport Bytes

cdef enum:
    BATCH_HEADER_BYTES = 61         # base offset to count of records
    BATCH_LENGTH_BEGINS = 12        # the length counts from behind itself
    BATCH_BYTES_MAX = 1_048_588     # message.max.bytes of Kafka 3.9

# The batch may be kept, or Kafka's code (org.apache.kafka.common.protocol.Errors).
cdef enum BatchCode:
    BATCH_OK = 0
    BATCH_CORRUPT = 2
    BATCH_TOO_LARGE = 10
    BATCH_OLD_FORMAT = 43
    BATCH_UNKNOWN_COMPRESSION = 76
    BATCH_INVALID = 87

cdef struct BatchHeader:
    int64_t base_offset
    uint32_t length             # of the whole batch
    int8_t magic
    uint32_t checksum
    uint16_t attributes
    int32_t last_delta          # from the base offset to the last
    int64_t base_timestamp
    int64_t max_timestamp
    int64_t producer            # -1: not idempotent
    int16_t epoch
    int32_t base_sequence
    int32_t count               # of records

cdef struct RecordView:
    Bytes whole                 # its own length is the first part
    Bytes key
    bint has_key                # else the key is null
    bint has_value              # else the value is null: a tombstone
    int64_t timestamp_delta     # from the batch's first timestamp
    int32_t offset_delta

# Windows and fields of a batch; False: too short to have a header.
cdef bint batch_read(const Bytes* batch, BatchHeader* header) noexcept nogil
# Whether its records may be looked at.
cdef bint batch_is_open(const BatchHeader* header) noexcept nogil
# Whether a producer may send the bytes: exactly one batch. must_have_keys: a compacted log takes it.
cdef BatchCode batch_check(const Bytes* batch, bint must_have_keys) noexcept nogil
# Whether the bytes are a batch as it is kept, perhaps with records left out.
cdef bint batch_is_sound(const Bytes* batch) noexcept nogil
# The next record of an open batch; begin with *place = 0. False: there is no more, or the bytes are no record.
cdef bint batch_next(const Bytes* batch, uint32_t* place, RecordView* record) noexcept nogil
# The timestamp of a record. Foreign numbers may wrap around.
cdef int64_t batch_time(const BatchHeader* header, const RecordView* record) noexcept nogil
# Give the batch its place. Its checksum does not cover that.
cdef void batch_place(uint8_t* batch, int64_t base_offset) noexcept nogil
# Write an open batch without the records whose offsets are in `left_out` (ascending, of this batch); `out` has room for
# as many bytes as the batch has. Returns the bytes written; 0: no record is left.
cdef uint32_t batch_without(const Bytes* batch, const int64_t* left_out, uint32_t count, uint8_t* out) noexcept nogil
