# Members that leave a worker group by their own or an operator's request, and groups that are deleted.
from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t

# Do the leave of machine.group; the answer has a code for each (GroupCoordinator.handleLeaveGroup). TOO_MANY_CHANGES,
# NO_MEMORY, INVARIANT_BROKEN.
cdef status_t group_leave(Machine* machine, Group* group) noexcept nogil
# Delete an empty group, and its pending members with it (GroupCoordinator.handleDeleteGroups). *code: GROUP_OK, or why
# it is refused. TOO_MANY_CHANGES, NO_MEMORY.
cdef status_t group_delete(Machine* machine, Group* group, int* code) noexcept nogil
# An Empty group goes, with its pending members and its offsets. TOO_MANY_CHANGES, NO_MEMORY.
cdef status_t group_delete_empty(Machine* machine, const Group* group) noexcept nogil
