# ZooKeeper's rules over the model's tree: what one request for znodes does, and what goes when a lease ends.
#
# They are written from ZooKeeper 3.9 (PrepRequestProcessor.pRequest2Txn, DataTree.createNode, deleteNode, setData,
# setACL) and from docs/decisions/znodes.md where we depart from it. They share no code with machine/znodes: the tree is
# a plain list, and a request that is refused is taken back by a copy from before it.
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from raftmeta.raft.types cimport index_t
from raftmeta.sim.world.znodes_state cimport SimOwnerLease, SimZnode, SimZnodeAnswer, SimZnodesModel
from raftmeta.wire.commands cimport Command
from raftmeta.wire.znodes cimport Identity

# Where in the log a change happens.
cdef struct SimPlace:
    index_t index
    uint64_t wall_ms

cdef SimZnode* rules_find(SimZnodesModel* model, const uint8_t* key, uint32_t length) noexcept nogil
cdef SimOwnerLease* rules_lease(SimZnodesModel* model, uint64_t id) noexcept nogil
# Bytes of a key before its path.
cdef uint32_t rules_root_length(const uint8_t* key, uint32_t length) noexcept nogil
# May somebody with these identities do what needs one of these permissions?
cdef bint rules_may(const SimZnode* node, uint32_t permission, const Identity* identities, size_t count) noexcept nogil
cdef bint rules_is_plain(SimZnodesModel* model, const uint8_t* key, uint32_t length) noexcept nogil
# 0, and what each operation answers in SimZnodesModel.answers; else ZooKeeper's code, *position says whose it is, and
# nothing is changed.
cdef int32_t rules_request(SimZnodesModel* model, const Command* command, SimPlace place,
                           uint32_t* position) noexcept nogil
# The times of znodes follow from the entry as a whole. rules_request does this itself.
cdef void rules_settle(SimZnodesModel* model, SimPlace place) noexcept nogil
# A lease of an owner ends: its ephemerals go.
cdef void rules_end_lease(SimZnodesModel* model, uint64_t id, SimPlace place) noexcept nogil
# The own lease of a znode is due: with children, as they were in SimZnodesModel.before, it is renewed; else the znode
# goes.
cdef void rules_end_time(SimZnodesModel* model, SimZnode* node, SimPlace place) noexcept nogil
