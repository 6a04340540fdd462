# Words of the members of consumer groups (KIP-848) as msgpack: the verb GROUP_CONSUMER of a COMMAND_GROUPS
# (docs/formats.md "Consumer groups"), and the two lists of bytes that stand in it and in the values of members.
#
# A list of partitions is for each topic its id, a number in four bytes, and so many partitions of four bytes each, the
# least byte first. Topics ascend, and so do the partitions of a topic. A subscription is a ConsumerProtocol one of
# version 0 (org.apache.kafka.clients.consumer.internals.ConsumerProtocol): two bytes 0, a number in four bytes, and so
# many names with two bytes of length each, the greatest byte first. Names ascend.
#
# This module knows which bytes are a word. It knows no state: machine/consumer_groups decides.
from libc.stdint cimport int32_t, uint8_t, uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

cdef enum:
    CONSUMER_TOPICS_MAX = 10_000        # of one subscription
    CONSUMER_PARTITIONS_MAX = 100_000   # of all topics of one group
    CONSUMER_SUBSCRIPTION_BYTES = 6     # before the first name
    TOPIC_UUID_BYTES = 16

# FORMAT_: codes in results. Those of groups stand in wire/groups.
cdef enum ConsumerCode:
    CONSUMER_FENCED_EPOCH = 110         # FENCED_MEMBER_EPOCH
    CONSUMER_UNRELEASED_INSTANCE = 111
    CONSUMER_STALE_EPOCH = 113          # STALE_MEMBER_EPOCH, of a commit

# FORMAT_: in the place of an epoch.
cdef enum:
    CONSUMER_JOINS = 0
    CONSUMER_LEAVES = -1
    CONSUMER_PAUSES = -2                # a static member that will come back

# FORMAT_: which fields a word has; the others are as the member said before.
cdef enum:
    CONSUMER_HAS_SUBSCRIPTION = 1
    CONSUMER_HAS_ASSIGNOR = 2
    CONSUMER_HAS_OWNED = 4
    CONSUMER_HAS_REBALANCE = 8
    CONSUMER_WANTS_ASSIGNMENT = 16      # it is told its assignment, also if that did not change

cdef struct ConsumerRequest:
    Bytes member                        # id; empty, and it joins: the log makes one up
    Bytes instance                      # empty: none
    Bytes client
    Bytes root                          # of the topics' keys
    Bytes subscription
    Bytes assignor                      # empty: it has no wish
    Bytes owned                         # partitions that the member says it still has
    int32_t epoch                       # of the member, or CONSUMER_*
    uint32_t rebalance_ms
    uint32_t members_max
    uint8_t has                         # CONSUMER_HAS_*, CONSUMER_WANTS_ASSIGNMENT

# One topic of a list of partitions.
cdef struct PartitionsOf:
    const uint8_t* topic                # TOPIC_UUID_BYTES
    const uint8_t* partitions
    uint32_t count

# Decode the `data` of a COMMAND_GROUPS of this verb; windows point into it. key: Command.name. BAD_FIELD, BAD_LENGTH,
# COMMAND_INVALID as of groups_decode.
cdef status_t consumers_decode(const Bytes* key, const Bytes* data, ConsumerRequest* request) noexcept nogil
# Append the data to out. It refuses the same, and then `out` stays as it was.
cdef status_t consumers_encode(const ConsumerRequest* request, Vec[uint8_t]* out) noexcept nogil

# The next topic of a list that was looked through; begin with *place = 0. False: there is no more.
cdef bint partitions_next(const Bytes* list, uint32_t* place, PartitionsOf* found) noexcept nogil
cdef bint partitions_are_sound(const Bytes* list) noexcept nogil
# The next name of a subscription that was looked through; begin with *place = 0. False: there is no more.
cdef bint subscription_next(const Bytes* subscription, uint32_t* place, Bytes* name) noexcept nogil
cdef bint subscription_is_sound(const Bytes* subscription) noexcept nogil

cdef inline uint32_t partition_at(const PartitionsOf* found, uint32_t place) noexcept nogil:
    cdef const uint8_t* at = found.partitions + 4 * place
    return at[0] | <uint32_t>at[1] << 8 | <uint32_t>at[2] << 16 | <uint32_t>at[3] << 24
