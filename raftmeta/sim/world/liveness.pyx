"""Progress after healing, first of a core that is just enough, then of all (TigerBeetle's VOPR has these two phases).

It decides which nodes are enough. It must never help the core along; the operator acts in the second phase
only, where members may be missing that nobody but an operator brings back.
Sources: docs/invariants.md I22; docs/faults.md "The end of a run".
"""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta._core cimport LEADER, core_membership
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.types cimport VOTER_INCOMING, VOTER_OUTGOING, Membership
from raftmeta.sim.world.atlas cimport atlas_is_calm, atlas_is_whole
from raftmeta.sim.world.faults cimport faults_end
from raftmeta.sim.world.network cimport network_cut, network_heal
from raftmeta.sim.world.nodes cimport node_boot
from raftmeta.sim.world.operator cimport operator_leader, operator_restore
from raftmeta.sim.world.truth cimport truth_compare_all
from raftmeta.sim.world.user_copies cimport copies_are_done
from raftmeta.sim.world.workload cimport workload_final
from raftmeta.sim.world.world cimport world_run
from raftmeta.sim.world.world_state cimport NO_VIOLATION, VIOLATION_LIVENESS, SimNode, member_count, violate

cdef enum:
    STEP_EVENTS_MEAN = 100      # between two looks
    REST_TICKS = 200            # for links to come up, and damage to be found and mended, before a core is chosen
    FULL_TICKS = 200            # for a leader to notice that its disk is full: it keeps its session alive meanwhile
    LEADER_TICKS = 500          # a core has a leader: ten and more of the longest election time-outs of the swarm
    CORE_TICKS = 3_000          # and has answered everything
    RUIN_TICKS = 1_000          # for which a ruined cluster is watched


cdef uint64_t _ticks_ns(World* world, uint32_t ticks) noexcept nogil:
    return <uint64_t>ticks * world.config.tick_ms * 1_000_000


cdef bint _runs(const SimNode* node) noexcept nogil:
    return node.is_up and node.engine.state == ENGINE_RUNNING


# --- the core ---------------------------------------------------------------------------------------------------------
# Are the nodes of the core a majority of those who have this role? Nobody has it: nothing to decide.
cdef bint _decides(World* world, const Membership* membership, uint32_t core, uint32_t role) noexcept nogil:
    cdef uint32_t number, there = 0, voters = 0
    cdef uint32_t i
    cdef int position
    for i in range(membership.count):
        voters += membership.members[i].roles & role != 0
    for number in range(world.config.nodes):
        if core >> number & 1:
            position = membership_position(membership, world.nodes[number].id)
            there += position >= 0 and membership.members[position].roles & role != 0
    return voters == 0 or 2 * there > voters


# A majority of every electorate that may still be in force, by what each node knows.
cdef bint _is_enough(World* world, uint32_t core) noexcept nogil:
    cdef const Vec[Membership]* known
    cdef uint32_t number
    cdef size_t i
    for number in range(world.config.nodes):
        if not _runs(&world.nodes[number]):
            continue
        known = &world.nodes[number].engine.core.memberships
        for i in range(known.size):
            if known.data[i].index < world.truth.membership_index or known.data[i].count == 0:
                continue
            if not (_decides(world, &known.data[i], core, VOTER_INCOMING)
                    and _decides(world, &known.data[i], core, VOTER_OUTGOING)):
                return False
    return core != 0


# Whole voters in a random order until they are enough; 0: they never are.
cdef uint32_t _choose_core(World* world) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef uint32_t core = 0
    cdef uint32_t i, number
    for i in range(world.config.nodes):
        number = <uint32_t>((draw % world.config.nodes + i * (1 + (draw >> 32) % world.config.nodes))
                            % world.config.nodes)
        if core >> number & 1 or not atlas_is_whole(world, &world.nodes[number]):
            continue
        core |= <uint32_t>1 << number
        if _is_enough(world, core):
            return core
    return 0


cdef void _cut_off_others(World* world, uint32_t core) noexcept nogil:
    cdef uint32_t source, target
    for source in range(world.config.nodes):
        for target in range(world.config.nodes):
            if (core >> source & 1) != (core >> target & 1):
                network_cut(world, source, target)


# --- converged --------------------------------------------------------------------------------------------------------
# One leader among these nodes, whom all of them follow.
cdef bint _have_leader(World* world, uint32_t nodes) noexcept nogil:
    cdef uint32_t number
    cdef uint32_t leaders = 0
    cdef uint64_t leader = 0
    cdef SimNode* node
    for number in range(world.config.nodes):
        node = &world.nodes[number]
        if not nodes >> number & 1:
            continue
        if not _runs(node) or node.engine.core_status.leader == 0:
            return False
        if leader != 0 and node.engine.core_status.leader != leader:
            return False
        leader = node.engine.core_status.leader
        leaders += node.engine.core_status.role == LEADER
    return leaders == 1


# All of them have applied the same, which is all there is, and every call on them is answered.
cdef bint _have_applied(World* world, uint32_t nodes) noexcept nogil:
    cdef uint32_t number
    cdef uint64_t applied = 0
    cdef SimNode* node
    for number in range(world.config.nodes):
        node = &world.nodes[number]
        if not nodes >> number & 1:
            continue
        if (node.calls_open != 0 or node.engine.applying.applied != node.engine.core_status.last
                or not copies_are_done(world, node)):
            return False
        if applied != 0 and node.engine.applying.applied != applied:
            return False
        applied = node.engine.applying.applied
    return True


# A wiped node is a voter again, a damaged one mended, one that was removed is back.
cdef bint _are_all_voters(World* world) noexcept nogil:
    cdef uint32_t number
    if not atlas_is_calm(world):
        return False
    for number in range(world.config.nodes):
        if not atlas_is_whole(world, &world.nodes[number]):
            return False
        if core_membership(world.nodes[number].engine.core).count != member_count(world):
            return False
    return True


# --- phases -----------------------------------------------------------------------------------------------------------
cdef void _boot_all(World* world) noexcept nogil:
    cdef uint32_t number
    for number in range(world.config.nodes):
        if (not world.nodes[number].is_up and not world.nodes[number].has_halted
                and world.violation == NO_VIOLATION):
            node_boot(world, &world.nodes[number])


# Steps of one length fall in with what the cluster does at regular intervals: each look met the same keep-alive on
# its way, and nothing seemed ever done. So their lengths are drawn.
cdef void _step(World* world, uint64_t last_event) noexcept nogil:
    world_run(world, 1 + next_random(&world.random_faults) % (2 * STEP_EVENTS_MEAN - 1))
    if world.counts.events > last_event and not world.config.is_ruin:
        violate(world, VIOLATION_LIVENESS, 0, world.counts.events, last_event)


cdef void _rest(World* world, uint64_t time_ns, uint64_t last_event) noexcept nogil:
    cdef uint64_t until_ns = world.now_ns + time_ns
    while world.violation == NO_VIOLATION and world.now_ns < until_ns:
        _step(world, last_event)


cdef void _heal_core(World* world, uint64_t last_event) noexcept nogil:
    cdef uint32_t core = _choose_core(world)
    cdef uint64_t since_ns = world.now_ns
    if core == 0:
        return          # too many are missing that only the others can bring back
    world.counts.cores += 1
    _cut_off_others(world, core)
    while world.violation == NO_VIOLATION and not _have_leader(world, core):
        _step(world, last_event)
        if world.now_ns > since_ns + _ticks_ns(world, LEADER_TICKS):
            violate(world, VIOLATION_LIVENESS, 1, core, world.now_ns - since_ns)
    while world.violation == NO_VIOLATION and not (_have_leader(world, core) and _have_applied(world, core)):
        _step(world, last_event)
        if world.now_ns > since_ns + _ticks_ns(world, CORE_TICKS):
            violate(world, VIOLATION_LIVENESS, 2, core, world.now_ns - since_ns)
    network_heal(world)


cdef void _heal_all(World* world, uint64_t last_event) noexcept nogil:
    cdef uint32_t all = (<uint32_t>1 << world.config.nodes) - 1
    while world.violation == NO_VIOLATION:
        if _are_all_voters(world) and _have_leader(world, all) and _have_applied(world, all):
            return
        operator_restore(world)
        _step(world, last_event)


# Nothing more fits on the leader's disk.
cdef void _fill_disk(SimNode* node) noexcept nogil:
    cdef uint64_t stored = 1
    cdef size_t i
    for i in range(node.disk.files.size):
        if node.disk.files.data[i].in_use:
            stored += node.disk.files.data[i].cached.size
    node.disk.faults.capacity_bytes = stored


# A leader without room hands over to a member that has some, if most of the others have
# (decisions/README.md "Full disk").
cdef void _fill_leader(World* world, uint64_t last_event) noexcept nogil:
    cdef SimNode* leader = operator_leader(world)
    cdef uint64_t since_ns = world.now_ns
    cdef uint64_t full_ns = 0       # since when; it has room again when it lets go of a segment
    if leader == NULL or world.config.free_bytes_min == 0 or member_count(world) < 3:
        return
    _fill_disk(leader)
    while world.violation == NO_VIOLATION and _runs(leader) and leader.engine.core_status.role == LEADER:
        _step(world, last_event)
        if not _runs(leader):
            break
        if leader.engine.core.free_bytes >= world.config.free_bytes_min:
            full_ns = 0
            if world.now_ns > since_ns + _ticks_ns(world, FULL_TICKS):
                break
        elif full_ns == 0:
            full_ns = world.now_ns
            world.counts.full_leaders += 1
        elif world.now_ns > full_ns + _ticks_ns(world, LEADER_TICKS):
            violate(world, VIOLATION_LIVENESS, 3, leader.number, world.now_ns - full_ns)
    leader.disk.faults.capacity_bytes = 0


cdef void liveness_settle(World* world, uint64_t events_max) noexcept nogil:
    cdef uint64_t last_event = world.counts.events + events_max
    world.clients_are_on = False
    faults_end(world)
    _boot_all(world)
    _rest(world, _ticks_ns(world, RUIN_TICKS if world.config.is_ruin else REST_TICKS), last_event)
    if not world.config.is_ruin:
        if world.violation == NO_VIOLATION:
            _heal_core(world, last_event)
        _heal_all(world, last_event)
        if world.violation == NO_VIOLATION:
            _fill_leader(world, last_event)
            _heal_all(world, last_event)
    if world.violation == NO_VIOLATION:
        truth_compare_all(world)
        workload_final(world)
