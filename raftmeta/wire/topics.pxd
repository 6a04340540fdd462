# Requests for topics, and for the offsets of groups in them, as msgpack (docs/formats.md "Topics and offsets"), and the
# codes of their answers.
#
# This module knows which bytes are a request. It knows no state: machine/topics and machine/offsets decide what a
# request does. Codes are Kafka's (org.apache.kafka.common.protocol.Errors), so that a door hands them on as they are.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

cdef enum:
    TOPIC_NAME_BYTES_MAX = 249      # Kafka's own limit (org.apache.kafka.common.internals.Topic)
    TOPIC_ROOT_BYTES_MAX = 200      # of what stands before the names: a key has room for both
    TOPIC_ID_BYTES = 16
    TOPIC_PARTITIONS_MAX = 10_000   # of one topic
    TOPIC_CONFIGS_MAX = 64          # of one topic
    TOPIC_CONFIG_BYTES_MAX = 4096   # of the name, and of the value
    TOPIC_CHANGES_MAX = 128         # of the configs of one topic, in one request
    TOPIC_ITEMS_MAX = 10_000        # of one request
    OFFSET_METADATA_BYTES_MAX = 4096    # Kafka's default of offset.metadata.max.bytes; more is answered
    OFFSET_RETENTION_MS_MAX = 0x100_0000_0000   # 34 years: machine/leases FORMAT_TTL_MS_MAX, of the timer's lease

# FORMAT_: numbers stand in the log.
cdef enum TopicVerb:
    TOPICS_CREATE = 1
    TOPICS_DELETE = 2
    TOPICS_PARTITIONS = 3
    OFFSETS_COMMIT = 4
    OFFSETS_DELETE = 5
    TOPICS_CONFIGS = 6

# FORMAT_: how one config is changed; Kafka's numbers (AlterConfigOp.OpType).
cdef enum TopicChangeKind:
    TOPIC_CONFIG_SET = 0
    TOPIC_CONFIG_DELETE = 1
    TOPIC_CONFIG_APPEND = 2         # words of a list with commas between
    TOPIC_CONFIG_SUBTRACT = 3

# FORMAT_: codes in results. Those of groups stand in wire/groups.
cdef enum TopicCode:
    TOPIC_OK = 0
    TOPIC_UNKNOWN = 3               # UNKNOWN_TOPIC_OR_PARTITION
    OFFSET_METADATA_TOO_LARGE = 12
    TOPIC_INVALID_NAME = 17         # INVALID_TOPIC_EXCEPTION
    OFFSET_NO_ROOM = 28             # INVALID_COMMIT_OFFSET_SIZE
    TOPIC_EXISTS = 36
    TOPIC_INVALID_PARTITIONS = 37
    TOPIC_INVALID_CONFIG = 40
    OFFSET_SUBSCRIBED = 86          # GROUP_SUBSCRIBED_TO_TOPIC
    TOPIC_UNKNOWN_ID = 100

# One request. Fields that its verb does not have are zero.
cdef struct TopicsRequest:
    uint8_t verb                # TopicVerb
    bint is_trial               # CREATE, PARTITIONS, CONFIGS: answer as if, and change nothing
    bint is_whole               # CONFIGS: what is not named is deleted
    Bytes group                 # COMMIT, DELETE of offsets: the key of the group
    int32_t generation          # COMMIT; -1: it comes from no member
    Bytes member                # COMMIT; empty: none
    Bytes instance              # COMMIT; empty: none
    uint64_t retention_ms       # COMMIT: offsets of a group without members live so long; 0: for ever
    Bytes list                  # of items, as msgpack that was looked through: topics_next walks it
    uint32_t count              # of items in it

# One topic, or one partition of one, in a list.
cdef struct TopicItem:
    Bytes name
    Bytes id                    # CREATE: 16 bytes; DELETE: 16 bytes, or empty: any
    int64_t partitions          # CREATE, PARTITIONS: how many
    Bytes configs               # CREATE: the msgpack array [name, value, ...], names ascending
    Bytes changes               # CONFIGS: the msgpack array [kind, name, value, fallback, ...], names ascending
    uint32_t partition          # of offsets
    int64_t offset
    int32_t epoch               # of the leader; -1: none
    Bytes metadata

# One change of a config. fallback: of an APPEND and SUBTRACT, the list where the topic has none of its own.
cdef struct TopicChange:
    uint8_t kind                # TopicChangeKind
    Bytes name
    Bytes value
    Bytes fallback

# Decode the `data` of a COMMAND_TOPICS; windows point into it. root: Command.name.
# BAD_FIELD, BAD_LENGTH: no node of ours wrote it. COMMAND_INVALID: a verb that there is not, or no root of topics.
cdef status_t topics_decode(const Bytes* root, const Bytes* data, TopicsRequest* request) noexcept nogil
# Append the `data` of a COMMAND_TOPICS to out. It refuses the same as topics_decode, and then `out` stays as it was.
cdef status_t topics_encode(const Bytes* root, const TopicsRequest* request, const TopicItem* items, uint32_t count,
                            Vec[uint8_t]* out) noexcept nogil
# The next item of a list that was looked through; begin with *place = 0. False: there is no more.
cdef bint topics_next(const TopicsRequest* request, uint32_t* place, TopicItem* item) noexcept nogil
# Whether the bytes are a list of configs as a create has it.
cdef bint topics_are_configs(const Bytes* configs) noexcept nogil
# The next config of such a list; begin with *place = 0. False: there is no more.
cdef bint topics_next_config(const Bytes* configs, uint32_t* place, Bytes* name, Bytes* value) noexcept nogil
# Append a list of configs. pairs: 2 x count, names ascending. BAD_FIELD, NO_MEMORY.
cdef status_t topics_encode_configs(const Bytes* pairs, uint32_t count, Vec[uint8_t]* out) noexcept nogil
# The next change of a list of changes; begin with *place = 0. False: there is no more.
cdef bint topics_next_change(const Bytes* changes, uint32_t* place, TopicChange* change) noexcept nogil
# Append a list of changes; their names ascend. BAD_FIELD, NO_MEMORY.
cdef status_t topics_encode_changes(const TopicChange* changes, uint32_t count, Vec[uint8_t]* out) noexcept nogil
