# The members of a worker group as the entry under way sees them.
#
# group_scan reads all of them into machine.members, in order of ids; the other verbs search there. Nothing is decided
# here but who holds an id.
from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.group_records cimport MEMBER_PENDING, MemberView
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport NO_MEMORY, status_t
from raftmeta.wire.groups cimport GROUP_FENCED_INSTANCE, GROUP_OK, GROUP_UNKNOWN_MEMBER
from raftmeta.wire.windows cimport Bytes

cdef inline bint is_pending(const MemberView* member) noexcept nogil:
    return member.record.meta.flags & MEMBER_PENDING != 0

# All members of the group, pending ones too, into machine.members in order of ids. NO_MEMORY.
cdef status_t group_scan(Machine* machine, const Group* group) noexcept nogil
# The member with this id. NULL: there is none.
cdef MemberView* group_member(Machine* machine, const Bytes* id) noexcept nogil
# The member that holds this instance. NULL: nobody does, or it is empty.
cdef MemberView* group_holder(Machine* machine, const Bytes* instance) noexcept nogil
# Who holds this id, and this instance if one is named (GroupCoordinator.validateCurrentMember). GROUP_OK and *member,
# GROUP_UNKNOWN_MEMBER, GROUP_FENCED_INSTANCE.
cdef int group_check_member(Machine* machine, const Bytes* id, const Bytes* instance,
                            MemberView** member) noexcept nogil
