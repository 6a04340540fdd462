# The keys of a worker group as an entry reads and plans them: the group's own key, and one of each member behind it.
#
# This module knows how a group is opened, stored and removed as planned keys. It decides nothing about members and
# phases. A Group is the group of one request: functions change it, and group_store writes it once at the end.
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp

from raftmeta.machine.group_records cimport GroupRecord, MemberView
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport KeyView
from raftmeta.wire.windows cimport Bytes

# The group of a request, as the request leaves it.
cdef struct Group:
    Bytes key
    bint exists
    bint is_new_generation      # its key is deleted and made again, which ends the fence of the generation before
    GroupRecord record
    Bytes spoken                # protocols of one member that stands for all; empty: group_learn_spoken was not asked,
                                # or the group is not uniform

cdef inline bint equal_bytes(const Bytes* left, const Bytes* right) noexcept nogil:
    return left.length == right.length and (left.length == 0 or memcmp(left.data, right.data, left.length) == 0)

cdef inline Bytes no_bytes() noexcept nogil:
    cdef Bytes nothing
    nothing.data = NULL
    nothing.length = 0
    return nothing

# The generation that members join for.
cdef inline uint32_t next_generation(const Group* group) noexcept nogil:
    return group.record.meta.generation + 1

# GROUP_OK, or GROUP_INVALID_ID: another key stands there.
cdef int group_open(Machine* machine, const Bytes* key, Group* group) noexcept nogil
# Whether the join under way grants the lease that its member gets.
cdef bint group_grants(Machine* machine) noexcept nogil
# Plan the group's key as the record says; its offsets follow. NO_MEMORY, TOO_MANY_CHANGES.
cdef status_t group_store(Machine* machine, Group* group) noexcept nogil
# Plan the key of a member. is_new_assignment: the fence of the assignment before ends. LEASE_EXPIRED, and as above.
cdef status_t group_store_member(Machine* machine, const MemberView* member, bint is_new_assignment) noexcept nogil
cdef status_t group_delete_key(Machine* machine, const Bytes* key) noexcept nogil
# *key: the key of a group, one byte, and a member's id. False: no memory.
cdef bint group_key_behind(Machine* machine, const Bytes* group, uint8_t byte, const Bytes* id,
                           Bytes* key) noexcept nogil
# The name, '-', and 32 digits that nobody can know before. False: no memory.
cdef bint group_new_id(Machine* machine, const Bytes* name, Bytes* id) noexcept nogil
# *member: the member whose key was found. False: it is no member.
cdef bint group_view_member(const Bytes* group, const KeyView* found, MemberView* member) noexcept nogil
