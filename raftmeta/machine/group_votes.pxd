# The protocols of a worker group: which ones all members speak, and which one their votes choose.
#
# Both look at machine.members as group_scan left them. Pending members and members that go have no vote.
from raftmeta.machine.group_keys cimport Group
from raftmeta.machine.state cimport Machine
from raftmeta.wire.groups cimport GroupRequest
from raftmeta.wire.windows cimport Bytes

# Whether a join is welcome with its protocols (GroupMetadata.supportsProtocols).
cdef bint group_supports(Machine* machine, const Group* group, const GroupRequest* request) noexcept nogil
# The protocol that the votes choose (GroupMetadata.selectProtocol); empty: there is no candidate.
cdef Bytes group_elected(Machine* machine) noexcept nogil
