# Syncs of a worker group: the leader's gives each member its assignment, a follower's asks for its own.
from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t

# Do the sync of machine.group (GroupCoordinator.validateSyncGroup, doSyncGroup). *code: GROUP_OK, or why it is refused.
# OK, TOO_MANY_CHANGES, NO_MEMORY.
cdef status_t group_sync(Machine* machine, Group* group, int* code) noexcept nogil
