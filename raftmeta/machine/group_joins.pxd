# Joins of a worker group: who becomes a member, who takes the place of another, and who is refused.
from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t

# Do the join of machine.group. *code: GROUP_OK, or why it is refused; then nothing counts that was planned. OK,
# LEASE_EXPIRED, TOO_MANY_CHANGES, NO_MEMORY.
cdef status_t group_join(Machine* machine, Group* group, int* code) noexcept nogil
