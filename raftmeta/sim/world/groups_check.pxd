# Worker groups by the committed log: what each entry may do to a group, and to whom a resource belongs.
#
#     I34     a generation has one leader, and only the leader assigns; another holder of its instance takes its place
#     I35     a generation never falls, and its fence is its own
#     I36     a request of an old generation or of a fenced instance is refused, and what is refused changes nothing
#     I37     a write under the fence of an assignment is accepted only from the owner of the resource
#     I38     a member goes when it leaves, its lease ends in time, or its group goes on without it
#     I39     a stable group holds an assignment of each member, each instance once, and no resource twice
#     I51     a join that names a time to live grants its new member a lease of that, in its entry, and only then
#
# A machine of this file's own takes the log entry by entry, so that no state between two entries is missed; the nodes
# have the same states (I20), which is compared here too. The keys before and behind an entry and its request show
# whether the machine's verdict was right.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.machine.machine cimport ApplyResult
from raftmeta.raft.types cimport index_t
from raftmeta.sim.world.groups_state cimport SimGroups, SimGroupView
from raftmeta.sim.world.world_state cimport SimNode, World

cdef void groups_begin(World* world) noexcept nogil
# The entry is committed. node: it says so, and its machine's limits are those of all.
cdef void groups_take(World* world, SimNode* node, index_t index, uint64_t chain) noexcept nogil
# The node has applied up to an index: if that is the last one taken, its groups are looked at.
cdef void groups_check(World* world, SimNode* node) noexcept nogil
# I36: the request in groups.request of a group as it was before, and what the machine made of it.
cdef void groups_judge_request(World* world, SimGroups* groups, SimGroupView* before, uint8_t verb,
                               const ApplyResult* result) noexcept nogil
cdef void groups_release(World* world) noexcept nogil
