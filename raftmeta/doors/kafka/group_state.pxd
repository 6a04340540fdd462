# Worker groups as the pinned state shows them (docs/groups.md). It decides nothing: machine/groups does.
from libc.stdint cimport int16_t, uint8_t, uint32_t

from raftmeta.doors.kafka.state cimport KafkaDoor
from raftmeta.machine.entry cimport Entry
from raftmeta.machine.group_records cimport GroupRecord, MemberRecord
from raftmeta.machine.tree cimport Cursor
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes

# A walk over the members of a group in order of ids.
cdef struct GroupWalk:
    Cursor cursor
    uint32_t length             # of `prefix`
    uint8_t[KEY_BYTES_MAX + 1] prefix

# The key of a group; `into` has KEY_BYTES_MAX bytes. Its length is 0: there can be no such group.
cdef Bytes group_key_of(const Bytes* group, uint8_t* into) noexcept nogil
# The prefix of all groups' keys.
cdef Bytes group_root() noexcept nogil
cdef bint group_find(KafkaDoor* door, const Bytes* key, GroupRecord* group) noexcept nogil
# NULL: the group has no such member, or it is pending.
cdef const Entry* group_member(KafkaDoor* door, const Bytes* key, const Bytes* id, MemberRecord* member) noexcept nogil
# Why a member that is not there is not: 82 if another one holds its instance, else 25.
cdef int16_t group_lost(KafkaDoor* door, const Bytes* key, const Bytes* instance) noexcept nogil
cdef void group_walk(KafkaDoor* door, const Bytes* key, GroupWalk* walk) noexcept nogil
# Pending members are passed over. False: there are no more.
cdef bint group_next(GroupWalk* walk, Bytes* id, MemberRecord* member) noexcept nogil
# The words of the member under this protocol; empty: none.
cdef Bytes member_said(const MemberRecord* member, const Bytes* protocol) noexcept nogil
