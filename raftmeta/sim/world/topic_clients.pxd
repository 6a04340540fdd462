# Clients of topics: producers and consumers of other processes, as Kafka's door asks for them (I45-I50).
#
# A client has a session of the store and one command under way, which goes to any node until it is answered. It makes,
# extends and deletes topics, appends to record logs under the fence of a topic, trims and drops logs, and commits
# offsets of groups as nobody in particular. It also asks for what must be refused, or must not be done twice: a batch
# that it sent before, a sequence with a gap, an old epoch, the fence of a topic that has gone. Members of worker groups
# commit as members.
from libc.stdint cimport int32_t, uint8_t, uint32_t

from raftmeta.sim.world.world_state cimport SimCall, SimNode, World
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes, Command

# One of them does something; the nodes that were asked, as bits.
cdef uint32_t topic_clients_act(World* world) noexcept nogil
cdef void topic_clients_done(World* world, SimNode* node, const SimCall* call, status_t status, const uint8_t* body,
                             uint32_t length) noexcept nogil
# Make `command` a commit of some offsets. Its bytes stay until the next one is made. False: no memory.
cdef bint topic_commit_make(World* world, Command* command, uint32_t group, int32_t generation, const Bytes* member,
                            const Bytes* instance) noexcept nogil
