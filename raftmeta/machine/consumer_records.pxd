# The part of a member's value that only members of consumer groups have (docs/formats.md "Consumer groups").
#
# It is the assignment of the member's record, and begins with a ConsumerMeta. The protocols of the record are one pair:
# the assignor that the member wishes for, and its subscription (wire/consumers). This module decides nothing.
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from raftmeta.wire.windows cimport Bytes

# FORMAT_: as KIP-848 "Reconciliation" has them.
cdef enum ConsumerState:
    CONSUMER_STABLE = 0         # it has all of its target, or does not know of a new one yet
    CONSUMER_UNREVOKED = 1      # it is to give partitions back, and has not said that it did
    CONSUMER_UNRELEASED = 2     # it is to get partitions that others still hold
    CONSUMER_STATE_END = 3

# FORMAT_: lists of partitions follow: the target, those that the member may use, those that it is to give back.
cdef packed struct ConsumerMeta:
    uint64_t seen               # hash of the topics it subscribes to, as its target knew them
    uint64_t since_ms           # lease clock when it was told to give partitions back
    int32_t epoch               # CONSUMER_PAUSES: a static member that will come back
    int32_t previous            # epoch before; a member whose answer was lost comes with it
    uint32_t target_length
    uint32_t assigned_length
    uint32_t revoking_length
    uint8_t state               # ConsumerState
    uint8_t[3] zero

cdef struct ConsumerRecord:
    ConsumerMeta meta
    Bytes target
    Bytes assigned
    Bytes revoking

# Windows point into the assignment. False: it is none of a member of a consumer group.
cdef bint consumer_read(const Bytes* assignment, ConsumerRecord* consumer) noexcept nogil
cdef uint32_t consumer_length(const ConsumerRecord* consumer) noexcept nogil
# Write so many bytes; the lengths in meta are those of the windows.
cdef void consumer_write(const ConsumerRecord* consumer, uint8_t* at) noexcept nogil
# Whether the two are those of a member, as a dump brings them.
cdef bint consumer_is_sound(const Bytes* protocols, const Bytes* assignment) noexcept nogil
# The assignor that the member wishes for, and its subscription, of the protocols of its record.
cdef void consumer_words(const Bytes* protocols, Bytes* assignor, Bytes* subscription) noexcept nogil
# ConsumerMeta.seen after one more topic; begin with 0. Topics come in the order of the subscription.
cdef uint64_t consumer_seen(uint64_t seen, const uint8_t* topic, uint32_t partitions) noexcept nogil
