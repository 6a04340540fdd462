# Topics, offsets and record logs by the committed log, beside a model of each.
#
#     I45     offsets of a record log rise without a gap, and none is given twice
#     I46     a batch that was acknowledged is as it was, until a later record has its keys, a limit, or a trim
#     I47     of a producer's batch and its repetitions one is stored; a refused one changes nothing
#     I48     of the records of a compacted log that may be looked at, each key has the last one alone
#     I49     a topic is what its requests made of it; nothing is appended under the fence of one that has gone
#     I50     an offset is what the last accepted commit said, and goes with its group
#
# The machine that takes the log entry by entry is that of raftmeta/sim/world/groups_check. Its answer to each request
# and its keys are held against the models. So are the keys of each node, and the answers that clients get.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.machine cimport ApplyResult
from raftmeta.machine.state cimport Machine
from raftmeta.sim.world.groups_state cimport SimGroups
from raftmeta.sim.world.topics_state cimport SimTopicClient
from raftmeta.sim.world.world_state cimport World

cdef void topics_begin(World* world) noexcept nogil
# Before an entry is applied: the groups as they are.
cdef void topics_before(World* world, const SimGroups* groups) noexcept nogil
# The entry in groups.command was applied, and the views of groups are those behind it.
cdef void topics_take(World* world, SimGroups* groups, const ApplyResult* result) noexcept nogil
# Whether the time of the offsets of a group was over before this entry.
cdef bint topics_are_due(World* world, uint32_t group, uint64_t lease_ms) noexcept nogil
# The keys that the machine has published, beside the models. node: its number, for a violation.
cdef void topics_look(World* world, uint32_t node, Machine* machine) noexcept nogil
# A client was told the result of the command of its sequence.
cdef void topics_told(World* world, SimTopicClient* client, const uint8_t* body, uint32_t length) noexcept nogil
cdef void topics_release(World* world) noexcept nogil
