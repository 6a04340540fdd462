# Leases of the workload: one for each node's client, kept by its engine, and when the replicated state may end them.
from libc.stdint cimport uint64_t

from raftmeta.raft.types cimport index_t
from raftmeta.sim.world.world_state cimport SimLease, SimNode, World

# Next wish of the node's client: append the payload of a grant. False: it has a lease or no place is free.
cdef bint leases_want(World* world, SimNode* node, uint64_t sequence) noexcept nogil
cdef void leases_granted(World* world, SimNode* node, index_t index) noexcept nogil
cdef void leases_refused(SimNode* node) noexcept nogil
# The engine says how long the client may believe.
cdef void leases_kept(World* world, SimNode* node, SimLease* lease, uint64_t until_ns) noexcept nogil
# The client stops keeping it; the lease then ends by itself.
cdef void leases_drop(World* world, SimNode* node) noexcept nogil
cdef void leases_forget(SimNode* node) noexcept nogil
# I17: the node applied something; are all leases that are gone gone by right?
cdef void leases_check(World* world, SimNode* node) noexcept nogil
