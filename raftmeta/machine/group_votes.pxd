# The protocols of a worker group: which ones all members speak, and which one their votes choose.
#
# A uniform group has members with the same protocols by name, in the same order: then one of them stands for all, and a
# join need not look at the others. Otherwise machine.members tells, as group_scan left it. Pending members and members
# that go have no vote.
from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t
from raftmeta.wire.groups cimport GroupRequest
from raftmeta.wire.windows cimport Bytes

# Whether a join is welcome with its protocols (GroupMetadata.supportsProtocols).
cdef bint group_supports(Machine* machine, const Group* group, const GroupRequest* request) noexcept nogil
# The protocol that the votes in machine.members choose (GroupMetadata.selectProtocol); empty: there is no candidate.
cdef Bytes group_elected(Machine* machine) noexcept nogil
# Learn what all members speak, before a join: group.spoken, and machine.members unless it is known. NO_MEMORY.
cdef status_t group_learn_spoken(Machine* machine, Group* group) noexcept nogil
# Say whether the members in machine.members are uniform.
cdef void group_judge_uniform(Machine* machine, Group* group) noexcept nogil
# Whether two lists have the same protocols by name, in the same order.
cdef bint are_alike(const Bytes* left, const Bytes* right) noexcept nogil
