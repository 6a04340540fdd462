# The values of a group's keys: one of the group, one of each member (docs/formats.md "Groups").
#
# This module knows how a group and a member are laid out as bytes, and how the members' keys are named. It decides
# nothing about them: machine/groups does.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.wire.windows cimport Bytes

# FORMAT_: in the value of a group.
cdef enum GroupState:
    GROUP_EMPTY = 0
    GROUP_PREPARING = 1
    GROUP_COMPLETING = 2
    GROUP_STABLE = 3
    GROUP_STATE_END = 4

cdef enum:
    GROUP_WAITS_FOR_TIMER = 1   # the join phase is an initial delay: it ends by its timer alone
    GROUP_HAS_NEW_MEMBER = 2    # ... one came since the timer began
    GROUP_IS_UNIFORM = 4        # all members have the same protocols by name, in the same order. Without it nothing is
                                # said about them; from feature level 6
    GROUP_IS_CONSUMER = 8       # the log assigns (machine/consumer_records); from feature level 7

cdef enum:
    MEMBER_PENDING = 1
    MEMBER_IS_CONSUMER = 2      # of such a group: its assignment begins with a ConsumerMeta

# FORMAT_: the beginning of a group's value. The type, the protocol and the leader's id follow.
cdef packed struct GroupMeta:
    uint32_t generation         # of a consumer group: its epoch
    uint32_t members            # without the pending ones
    uint32_t pending
    uint32_t joined             # members that have joined for the next generation
    uint32_t initial_ms         # PREPARING, initial delay: by how much it is extended. Of a consumer group: the epoch
                                # of the target, see group_target
    uint32_t left_ms            # ... and by how much at most
    uint32_t timer_ms           # of the timer that runs; 0: none
    uint64_t timer_revision     # that began it
    uint8_t state               # GroupState
    uint8_t flags               # GROUP_*
    uint16_t type_length
    uint16_t protocol_length
    uint16_t leader_length

# FORMAT_: the beginning of a member's value. The instance, the client's name, the protocols as the join has them, and
# the assignment follow.
cdef packed struct MemberMeta:
    uint64_t since              # revision that made it a member; the oldest member leads
    uint32_t joined             # the generation that it joined for last
    uint32_t assigned           # the generation of its assignment; 0: it has none
    uint32_t rebalance_ms
    uint32_t protocols_length
    uint32_t protocols          # how many
    uint32_t assignment_length
    uint16_t instance_length
    uint16_t client_length
    uint8_t flags               # MEMBER_*
    uint8_t[3] zero

cdef struct GroupRecord:
    GroupMeta meta
    Bytes type
    Bytes protocol              # that the votes chose; of a consumer group: the assignor
    Bytes leader                # id; empty: none

cdef struct MemberRecord:
    MemberMeta meta
    Bytes instance              # empty: a dynamic member
    Bytes client
    Bytes protocols
    Bytes assignment

# A member as the entry under way sees it.
cdef struct MemberView:
    Bytes key
    Bytes id
    uint64_t lease
    bint is_gone                # the entry removed it
    MemberRecord record

cdef inline bint group_is_consumer(const GroupRecord* group) noexcept nogil:
    return group.meta.flags & GROUP_IS_CONSUMER != 0

# The epoch whose members and topics the target of a consumer group is for.
cdef inline uint32_t group_target(const GroupRecord* group) noexcept nogil:
    return group.meta.initial_ms

# Windows point into value. False: the bytes are no value of a group (of a member).
cdef bint group_read(const Bytes* value, GroupRecord* group) noexcept nogil
cdef bint member_read(const Bytes* value, MemberRecord* member) noexcept nogil
cdef uint32_t group_length(const GroupRecord* group) noexcept nogil
cdef uint32_t member_length(const MemberRecord* member) noexcept nogil
# Write so many bytes; the lengths in meta are those of the windows.
cdef void group_write(const GroupRecord* group, uint8_t* at) noexcept nogil
cdef void member_write(const MemberRecord* member, uint8_t* at) noexcept nogil
# Whether the bytes are the value of a group (of a member) with such a lease, as a dump brings them. knows_consumers: it
# may be that of a consumer group.
cdef bint group_is_sound(const uint8_t* value, uint32_t length, uint64_t lease, bint knows_consumers) noexcept nogil
cdef bint member_is_sound(const uint8_t* value, uint32_t length, uint64_t lease, bint knows_consumers) noexcept nogil

# The key of a member is that of its group, a zero byte, and its id.
# The group's part of a member's key. False: it is no key of a member.
cdef bint group_of_member(const Bytes* key, Bytes* group) noexcept nogil
