# The members of a worker group as the entry under way sees them.
#
# A request looks up the members that it names, so that n joins do not look at n members each. group_scan reads all of
# them into machine.members, in order of ids, where a phase begins or ends. Nothing is decided here but who holds an id.
from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.group_records cimport MEMBER_PENDING, MemberView
from raftmeta.machine.leases cimport Lease
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

cdef inline bint is_pending(const MemberView* member) noexcept nogil:
    return member.record.meta.flags & MEMBER_PENDING != 0

# All members of the group, pending ones too, into machine.members in order of ids. NO_MEMORY.
cdef status_t group_scan(Machine* machine, const Group* group) noexcept nogil
# The member with this id. OK, NOT_FOUND, NO_MEMORY.
cdef status_t group_member(Machine* machine, const Group* group, const Bytes* id, MemberView* member) noexcept nogil
# The member that holds this instance. OK, NOT_FOUND: nobody does, or it is empty. NO_MEMORY.
cdef status_t group_holder(Machine* machine, const Group* group, const Bytes* instance,
                           MemberView* member) noexcept nogil
# The member without an instance, or with this one, that the lease holds; of several the one whose id sorts first. OK,
# NOT_FOUND, NO_MEMORY.
cdef status_t group_of_lease(Machine* machine, const Group* group, Lease* lease, const Bytes* instance,
                             MemberView* member) noexcept nogil
# Who holds this id, and this instance if one is named (GroupCoordinator.validateCurrentMember). *code: GROUP_OK and
# *member, GROUP_UNKNOWN_MEMBER, GROUP_FENCED_INSTANCE. OK, NO_MEMORY.
cdef status_t group_check_member(Machine* machine, const Group* group, const Bytes* id, const Bytes* instance,
                                 MemberView* member, int* code) noexcept nogil
