# Requests for worker groups as msgpack (docs/formats.md "Groups"), and the codes of their answers.
#
# This module knows which bytes are a request. It knows no state: machine/groups decides what a request does. Codes are
# Kafka's (org.apache.kafka.common.protocol.Errors), so that a door hands them on as they are.
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

cdef enum:
    GROUP_KEY_BYTES_MAX = 300       # of the key of a group; it holds no zero byte
    GROUP_NAME_BYTES_MAX = 128      # of the client's name and of an instance
    GROUP_ID_BYTES_MAX = 161        # of a member's id: one of these, '-' and 32 digits
    GROUP_PROTOCOL_BYTES_MAX = 255  # of the type, and of the name of a protocol
    GROUP_PROTOCOLS_MAX = 64        # of one member
    GROUP_METADATA_BYTES_MAX = 262_144      # of one member: all its protocols, encoded
    GROUP_MEMBERS_MAX = 5_000       # of one group, pending ones counted: the sync of a leader writes each of them
    GROUP_TIME_MS_MAX = 0x7fffffff

# FORMAT_: numbers stand in the log.
cdef enum GroupVerb:
    GROUP_JOIN = 1
    GROUP_SYNC = 2
    GROUP_LEAVE = 3
    GROUP_DELETE = 4
    GROUP_CONSUMER = 5              # wire/consumers has its fields; of doors only

# FORMAT_: codes in results.
cdef enum GroupCode:
    GROUP_OK = 0
    GROUP_ILLEGAL_GENERATION = 22
    GROUP_INCONSISTENT_PROTOCOL = 23
    GROUP_INVALID_ID = 24
    GROUP_UNKNOWN_MEMBER = 25
    GROUP_REBALANCE_IN_PROGRESS = 27
    GROUP_NON_EMPTY = 68
    GROUP_ID_NOT_FOUND = 69
    GROUP_MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    GROUP_FENCED_INSTANCE = 82

# One request. Fields that its verb does not have are zero. Lists are windows of msgpack that were looked through:
# groups_next walks them.
cdef struct GroupRequest:
    uint8_t verb                # GroupVerb
    Bytes member                # JOIN, SYNC: the id, empty: none yet
    Bytes instance              # JOIN, SYNC: empty: none
    Bytes client                # JOIN: begins the id of a member without an instance
    Bytes type                  # JOIN; SYNC, empty: any
    Bytes protocol              # SYNC, empty: any
    Bytes list                  # JOIN: [name, metadata, ...]; SYNC: [member, assignment, ...], members ascending;
                                # LEAVE: [member, instance, ...]
    uint32_t count              # of pairs in it
    uint32_t rebalance_ms       # JOIN: time-out
    uint32_t initial_ms         # JOIN: delay of the first generations
    uint32_t members_max        # JOIN
    uint32_t generation         # SYNC
    bint must_know              # JOIN: two steps

# Decode the `data` of a COMMAND_GROUPS; windows point into it. key: Command.name.
# BAD_FIELD, BAD_LENGTH: no node of ours wrote it. COMMAND_INVALID: a verb that there is not, or no key of a group.
cdef status_t groups_decode(const Bytes* key, const Bytes* data, GroupRequest* request) noexcept nogil
# The verb of a request that was decoded.
cdef uint8_t groups_verb(const Bytes* data) noexcept nogil
# Append the `data` of a COMMAND_GROUPS to out. pairs: 2 x count. It refuses the same as groups_decode, and then `out`
# stays as it was.
cdef status_t groups_encode(const GroupRequest* request, const Bytes* pairs, uint32_t count,
                            Vec[uint8_t]* out) noexcept nogil
# The next pair of a list that was looked through; begin with *place = 0. False: there is no more.
cdef bint groups_next(const Bytes* list, uint32_t* place, Bytes* first, Bytes* second) noexcept nogil
# Whether the bytes are a list of protocols as a join has it.
cdef bint groups_are_protocols(const Bytes* list, uint32_t count) noexcept nogil
