"""Memberships of nodes against the log; memberships.pxd has the rule."""

from libc.stddef cimport size_t
from libc.stdint cimport uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64
from raftmeta.raft.log cimport log_record
from raftmeta.raft.membership cimport membership_encode
from raftmeta.raft.record cimport record_payload
from raftmeta.raft.types cimport ENTRY_MEMBERSHIP, Membership
from raftmeta.sim.world.world_state cimport VIOLATION_MEMBERSHIP, VIOLATION_NO_MEMORY, SimMembership, violate
from raftmeta.status cimport OK


# Of its bytes in the log.
cdef uint64_t _hash(World* world, const Membership* membership) noexcept nogil:
    world.scratch.clear()
    if membership_encode(membership, &world.scratch) != OK:
        violate(world, VIOLATION_MEMBERSHIP, 0, membership.index, membership.count)
        return 0
    return hash64(0, world.scratch.data, world.scratch.size) | 1


cdef void memberships_note(World* world, const Record* record) noexcept nogil:
    cdef uint64_t* known
    if record.type != ENTRY_MEMBERSHIP:
        return
    known = world.truth.memberships.insert(record.chain)
    if known == NULL:
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
    else:
        known[0] = hash64(0, record_payload(record), record.length) | 1


cdef void memberships_committed(World* world, index_t index) noexcept nogil:
    cdef SimMembership fresh
    cdef uint64_t* known = world.truth.memberships.find(world.truth.chains.data[index])
    if known == NULL:
        return
    fresh.index = index
    fresh.hash = known[0]
    if not world.truth.committed_memberships.push(fresh):
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)


# Of the committed log up to this index; NULL: the founding one.
cdef const SimMembership* _newest(const World* world, index_t committed) noexcept nogil:
    cdef size_t i = world.truth.committed_memberships.size
    while i > 0:
        i -= 1
        if world.truth.committed_memberships.data[i].index <= committed:
            return &world.truth.committed_memberships.data[i]
    return NULL


cdef void _check_committed(World* world, SimNode* node, const Membership* membership, index_t committed) noexcept nogil:
    cdef const SimMembership* expected = _newest(world, committed)
    cdef index_t index = expected.index if expected != NULL else 0
    cdef uint64_t hash
    if membership.index != index:
        violate(world, VIOLATION_MEMBERSHIP, node.number, membership.index, index)
        return
    if expected == NULL or node.membership_checked == index:
        return
    node.membership_checked = index
    hash = _hash(world, membership)
    if hash != expected.hash:
        violate(world, VIOLATION_MEMBERSHIP, node.number, index, hash)


cdef void memberships_check(World* world, SimNode* node, index_t committed, bint is_repairing) noexcept nogil:
    cdef const Vec[Membership]* known = &node.engine.core.memberships
    cdef const Record* record
    cdef size_t i = known.size
    while i > 0:
        i -= 1
        if known.data[i].index <= committed:
            if not is_repairing:
                _check_committed(world, node, &known.data[i], committed)
            return
        record = log_record(&node.engine.core.log, known.data[i].index)
        # The node may have learnt this membership before its log was damaged, and cannot read it now.
        if record == NULL and is_repairing:
            continue
        if record == NULL or record.type != ENTRY_MEMBERSHIP:
            violate(world, VIOLATION_MEMBERSHIP, node.number, known.data[i].index, committed)


cdef void memberships_release(World* world) noexcept nogil:
    world.truth.memberships.release()
    world.truth.committed_memberships.release()
