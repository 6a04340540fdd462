# The structs of own logs: a host's program keeps the records of all topics, and the door asks it
# (docs/kafka-own-log.md).
#
# An ask goes from the door's thread to the host and comes back with its answer. It has one owner at a time: the door
# before it is handed over and after it came back, the host in between. Only `request` is the door's at any time.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.loop.tickets cimport Mail, Mailbox
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.native.threads cimport Handoff
from raftmeta.wire.topics cimport TOPIC_NAME_BYTES_MAX

cdef enum:
    LEADER_KEY_BYTES_MAX = 300
    LEADER_VALUE_BYTES_MAX = 64

cdef enum OwnKind:
    OWN_PRODUCE = 1
    OWN_FETCH = 2
    OWN_LIST = 3                    # of offsets
    OWN_NEWS = 4                    # of the host's own accord: a log has grown

# One partition of one request.
cdef struct OwnAsk:
    Mail mail                       # first: in OwnLogs.asked
    OwnAsk* next                    # in OwnLogs.told
    void* request                   # KafkaRequest that waits for it; NULL: none any more
    uint8_t kind                    # OwnKind
    uint8_t is_back
    int32_t partition
    int32_t epoch                   # of the leader, as the state said when it was handed over
    int64_t number                  # offset to fetch from; timestamp to look for
    uint32_t bytes_max              # of a Fetch's answer
    uint32_t name_length
    uint8_t[TOPIC_NAME_BYTES_MAX] name
    uint8_t* records                # malloc'ed; a batch to append, or batches that were fetched
    uint32_t records_length
    uint64_t counted                # in OwnLogs.bytes
    uint64_t news                   # OwnLogs.news when it was handed over
    # The answer.
    int16_t code
    int64_t offset                  # of the appended batch's first record; of the record that was looked for
    int64_t timestamp
    int64_t start                   # of the log
    int64_t end

# A partition that nobody leads yet, as this node would give it to a broker.
cdef struct OwnClaim:
    uint64_t seen                   # mod revision of the key; 0: there is none
    uint32_t key_length
    uint32_t value_length
    uint8_t[LEADER_KEY_BYTES_MAX] key
    uint8_t[LEADER_VALUE_BYTES_MAX] value

cdef struct OwnLogs:
    uint32_t holders                # the door, and the host's handle
    uint64_t bytes_max              # of asks that the host has
    uint64_t timeout_ns             # so long the host may take
    Mailbox* asked                  # asks for the host
    # Shared:
    uint32_t is_closing             # the door has ended: the host need not look any more
    uint32_t is_rung                # the door was woken, and did not look since
    int32_t broker                  # this node's; -1: it is not known yet
    int door_fd                     # that wakes the door
    Handoff[OwnAsk] told            # answers and news for the door
    # The door's thread alone:
    uint64_t bytes
    uint64_t news                   # counts what logs told
    bint has_asked                  # the host is to be woken
    Map64[uint64_t] newest          # news of each partition that told any, by its hash
    Vec[OwnClaim] claims
