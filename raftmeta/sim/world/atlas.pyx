"""Which disks may fail: the rule that keeps every fault survivable, and every violation a bug (TigerBeetle's
StorageFaultAtlas is the model).

    1. Only a whole voter of the newest committed membership may be struck, while no change of it is under way.
    2. Those struck and not whole again yet stay fewer than half of its voters. Every committed entry is on a majority
       (I7), so on one that was never struck; and those elect a leader who has it.
    3. Meanwhile nobody's vote is taken by the operator: the majority of 2 is one of this membership. A request that he
       sent before may wait in front of a paused leader, or come once more: it is lost (sim/world/network).
    4. No disk fails before an entry is committed. Those who accepted a founding wait for one who knows that all did;
       if the founder loses its disk before it told anybody who keeps his, they wait for ever, and rightly so.
In ruin there is no rule: more may be lost than can be repaired. The cluster may halt then, and its members join anew;
what it must never do is say something wrong.
"""

from libc.stdint cimport uint32_t

from raftmeta._core cimport core_membership
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.raft.membership cimport membership_position, membership_voters_incoming
from raftmeta.raft.quorum cimport quorum_count
from raftmeta.raft.types cimport VOTER_INCOMING, Membership
from raftmeta.sim.world.world_state cimport member_count

cdef enum:
    # After a change was asked for. It proves nothing, but where disks fail often the operator would find no other
    # moment: of 6,000 changes 450 would be left.
    QUIET_NS = 3_000_000_000


cdef bint atlas_is_whole(const World* world, const SimNode* node) noexcept nogil:
    cdef const Membership* membership
    cdef int position
    if not node.is_up or node.engine.state != ENGINE_RUNNING or node.engine.core_status.is_repairing:
        return False
    if node.number >= member_count(world):
        return True             # an observer: nobody counts on its disk
    membership = core_membership(node.engine.core)
    position = membership_position(membership, node.id)
    return (position >= 0 and membership.members[position].roles & VOTER_INCOMING != 0 and not membership.is_joint
            and membership.index >= world.truth.membership_index
            and membership.index <= node.engine.core_status.committed)


# Is the sealed file that lost a bit still there? A restart would pass it over.
cdef bint _is_rotten(const SimNode* node) noexcept nogil:
    cdef size_t i
    if node.rotten_index == 0:
        return False
    for i in range(node.engine.snapshots.files.size):
        if node.engine.snapshots.files.data[i].point.index == node.rotten_index:
            return True
    return False


cdef void _forgive(World* world) noexcept nogil:
    cdef uint32_t number
    cdef SimNode* node
    for number in range(world.config.nodes):
        node = &world.nodes[number]
        if (node.is_suspect and node.life > node.suspect_life and atlas_is_whole(world, node)
                and not _is_rotten(node)):
            node.is_suspect = False
            node.rotten_index = 0


cdef bint atlas_is_calm(World* world) noexcept nogil:
    cdef uint32_t number
    _forgive(world)
    for number in range(world.config.nodes):
        if world.nodes[number].is_suspect:
            return False
    return True


# Of the operator, or of the members themselves: a swap, a promotion. Its entry may be in any log, also of a node that
# is down, and on its way in a frame. It is over once an entry at or above its index is committed, or one of a later
# term: no log that holds it is elected then (paper 5.4.1).
cdef bint _is_change_under_way(const World* world) noexcept nogil:
    if world.operator_ns != 0 and world.now_ns < world.operator_ns + QUIET_NS:
        return True
    return (world.truth.change_index > world.truth.committed
            and world.truth.change_term >= world.truth.terms.data[world.truth.committed])


cdef void atlas_note_membership(World* world, index_t index, term_t term) noexcept nogil:
    if index > world.truth.committed:
        world.truth.change_index = max(world.truth.change_index, index)
        world.truth.change_term = max(world.truth.change_term, term)


cdef bint atlas_allows(World* world, SimNode* node) noexcept nogil:
    cdef const Membership* membership
    cdef uint32_t number, voters
    cdef uint32_t suspects = 1
    if world.config.is_ruin:
        return node.is_up and node.engine.state == ENGINE_RUNNING
    _forgive(world)
    if world.truth.committed == 0 or node.is_suspect or not atlas_is_whole(world, node):
        return False
    if node.number >= member_count(world):
        return True
    if _is_change_under_way(world):
        return False
    membership = core_membership(node.engine.core)
    voters = quorum_count(membership_voters_incoming(membership))
    for number in range(member_count(world)):
        suspects += world.nodes[number].is_suspect
    return 2 * suspects < voters


cdef void atlas_note(SimNode* node) noexcept nogil:
    node.is_suspect = True
    node.suspect_life = node.life


cdef void atlas_note_rot(SimNode* node, index_t index) noexcept nogil:
    node.is_suspect = True
    node.suspect_life = 0
    node.rotten_index = index


cdef void atlas_end(World* world) noexcept nogil:
    cdef uint32_t number
    for number in range(world.config.nodes):
        if world.nodes[number].rotten_index != 0:
            world.nodes[number].is_suspect = False
            world.nodes[number].rotten_index = 0
