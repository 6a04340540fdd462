# Requests for record logs as msgpack (docs/formats.md "Record logs"), and the codes of their answers.
#
# A record log is the batches of one partition of a Kafka topic. This module knows which bytes are a request. It knows
# no state: machine/record_logs decides what a request does. Codes are those of Kafka's class Errors.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

cdef enum:
    RECORD_LOG_KEY_BYTES_MAX = 400      # of the key of a log; it holds no zero byte

# FORMAT_: numbers stand in the log.
cdef enum RecordsVerb:
    RECORDS_APPEND = 1
    RECORDS_TRIM = 2
    RECORDS_DROP = 3

# FORMAT_: codes in results.
cdef enum RecordsCode:
    RECORDS_OK = 0
    RECORDS_OUT_OF_RANGE = 1            # OFFSET_OUT_OF_RANGE
    RECORDS_INVALID_REQUEST = 42        # another key stands there
    RECORDS_POLICY_VIOLATION = 44       # the log would be larger than a log may be
    RECORDS_OUT_OF_ORDER = 45           # OUT_OF_ORDER_SEQUENCE_NUMBER
    RECORDS_OLD_EPOCH = 47              # INVALID_PRODUCER_EPOCH

# FORMAT_: in the flags of an append, cleanup.policy of the topic.
cdef enum:
    RECORDS_COMPACT = 1                 # of the records with the same key only the last is kept
    RECORDS_DELETE = 2                  # the oldest batches go once a limit is passed

# One request. Fields that its verb does not have are zero.
cdef struct RecordsRequest:
    uint8_t verb                # RecordsVerb
    uint8_t flags               # APPEND: RECORDS_COMPACT, RECORDS_DELETE
    uint64_t retention_ms       # APPEND, DELETE: of the lease clock; 0: for ever
    uint64_t bytes_max          # ... of all batches; 0: the largest that a log may be
    uint64_t records_max        # ... offsets, from the newest on; 0: any
    uint64_t tombstone_ms       # APPEND, COMPACT: how long a tombstone stays
    uint64_t offset             # TRIM: the first that stays; RECORDS_TO_END: none stays
    Bytes batch                 # APPEND

cdef enum:
    RECORDS_TO_END = 0x7fffffffffffffff

# Decode the `data` of a COMMAND_RECORDS; windows point into it. key: Command.name.
# BAD_FIELD, BAD_LENGTH: no node of ours wrote it. COMMAND_INVALID: a verb that there is not, no key of a record log, or
# a batch that batch_check refuses.
cdef status_t records_decode(const Bytes* key, const Bytes* data, RecordsRequest* request) noexcept nogil
# Append the `data` of a COMMAND_RECORDS to out. It refuses the same as records_decode, and then `out` stays as it was.
cdef status_t records_encode(const Bytes* key, const RecordsRequest* request, Vec[uint8_t]* out) noexcept nogil
