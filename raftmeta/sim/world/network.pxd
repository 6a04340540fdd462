# The simulated network: connections with real HELLO bytes, frames with real frame bytes, and every fault between them.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.ports cimport NetworkPort
from raftmeta.sim.world.events cimport SimEvent
from raftmeta.sim.world.world_state cimport SimNode, World

cdef NetworkPort network_port(SimNode* node) noexcept nogil
# A node's engine was booted: everybody's connections to it begin anew.
cdef void network_node_up(World* world, SimNode* node) noexcept nogil
# It is gone: peers learn by a reset and a refused reconnect, unless a partition stands between.
cdef void network_node_down(World* world, SimNode* node) noexcept nogil
# It hangs up on whom its engine wants to reach no more, and dials whom it wants to reach now.
cdef void network_look(World* world, SimNode* node) noexcept nogil
cdef void network_connect(World* world, const SimEvent* event) noexcept nogil
cdef void network_deliver(World* world, const SimEvent* event) noexcept nogil
# A frame of long ago, chosen by the fault's random stream, arrives once more (N8).
cdef void network_replay(World* world, uint64_t draw) noexcept nogil
cdef void network_release(World* world) noexcept nogil
# Partitions: one-way cuts too. Both directions of a pair are set by hand.
cdef void network_cut(World* world, uint32_t source, uint32_t target) noexcept nogil
cdef void network_heal(World* world) noexcept nogil
