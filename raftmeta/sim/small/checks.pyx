"""Checks of a whole small world; checks.pxd says when they are made."""
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.raft.quorum cimport quorum_count
from raftmeta.raft.ready cimport LEADER
from raftmeta.raft.types cimport index_t, member_mask_t, term_t
from raftmeta.sim.small.exhaustive_state cimport BITS_PER_TERM, Exhaustive, SmallNodeState, SmallWorld
from raftmeta.sim.small.node cimport (SMALL_COMMIT_NOT_DURABLE, SMALL_LEADER_INCOMPLETE, SMALL_LOG_MATCHING,
                                      SMALL_MEMBERSHIP, SMALL_STATE_MACHINE, SMALL_TWO_LEADERS)


cdef uint32_t checks_after(Exhaustive* exhaustive, uint32_t position) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef const SmallNodeState* state = &exhaustive.nodes.data[world.nodes[position]]
    cdef uint32_t violation = 0
    cdef uint32_t i
    if state.role == LEADER:
        violation = _check_leader(exhaustive, state, position)
    for i in range(exhaustive.config.nodes):
        if i != position and violation == 0:
            violation = _check_matching(exhaustive, state, &exhaustive.nodes.data[world.nodes[i]])
    if violation == 0 and state.committed:
        violation = _check_committed(exhaustive, state, position)
    for i in range(exhaustive.config.nodes):
        if violation == 0:
            violation = _check_completeness(exhaustive, &exhaustive.nodes.data[world.nodes[i]])
    if not exhaustive.config.is_plain:
        _forget_terms(exhaustive)
    return violation if violation else _check_changes(exhaustive, state)


# I1.
cdef uint32_t _check_leader(Exhaustive* exhaustive, const SmallNodeState* state, uint32_t position) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef uint32_t shift = <uint32_t>(state.term - 1) * BITS_PER_TERM
    cdef uint32_t known = world.leaders >> shift & 15
    if known != 0 and known != position + 1:
        return SMALL_TWO_LEADERS
    world.leaders |= (position + 1) << shift
    return 0


# Nobody is elected any more in a term that is behind every disk, and who leads does so in a later one.
cdef void _forget_terms(Exhaustive* exhaustive) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef term_t oldest = exhaustive.nodes.data[world.nodes[0]].durable_term
    cdef uint32_t i
    for i in range(1, exhaustive.config.nodes):
        oldest = min(oldest, exhaustive.nodes.data[world.nodes[i]].durable_term)
    if oldest > 1:
        world.leaders = world.leaders >> (oldest - 1) * BITS_PER_TERM << (oldest - 1) * BITS_PER_TERM
    if world.committed_term < oldest:
        world.committed_term = 0


# I3: leaders of later terms than the one in which an entry was committed.
cdef uint32_t _check_completeness(Exhaustive* exhaustive, const SmallNodeState* state) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef index_t index = exhaustive.entries.data[world.committed].index
    if state.role == LEADER and state.term > world.committed_term and state.log[index] != world.committed:
        return SMALL_LEADER_INCOMPLETE
    return 0


# I2: the last place where both have the same term is the same entry, and so is all before it.
cdef uint32_t _check_matching(Exhaustive* exhaustive, const SmallNodeState* one,
                              const SmallNodeState* other) noexcept nogil:
    cdef index_t index = min(one.log_length, other.log_length)
    while index > 0:
        if exhaustive.entries.data[one.log[index]].term == exhaustive.entries.data[other.log[index]].term:
            return 0 if one.log[index] == other.log[index] else SMALL_LOG_MATCHING
        index -= 1
    return 0


# I4; and I7 where an entry is committed for the first time.
cdef uint32_t _check_committed(Exhaustive* exhaustive, const SmallNodeState* state, uint32_t position) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef uint32_t known = world.committed
    while exhaustive.entries.data[known].index > state.committed:
        known = exhaustive.entries.data[known].previous
    if state.log[exhaustive.entries.data[known].index] != known:
        return SMALL_STATE_MACHINE
    if state.committed == exhaustive.entries.data[known].index:
        return 0
    world.committed = state.log[state.committed]
    world.committed_term = <uint8_t>state.term
    return 0 if _is_durable(exhaustive, state.committed, position) else SMALL_COMMIT_NOT_DURABLE


# By the voters that were in force for the node when it counted: what it appended since is decided by others.
cdef bint _is_durable(Exhaustive* exhaustive, index_t index, uint32_t position) noexcept nogil:
    cdef SmallWorld* world = &exhaustive.successor
    cdef const SmallNodeState* counted = &exhaustive.nodes.data[exhaustive.world.nodes[position]]
    cdef member_mask_t holders = 0
    cdef uint32_t i
    for i in range(exhaustive.config.nodes):
        if exhaustive.nodes.data[world.nodes[i]].durable[index] == world.committed:
            holders |= <member_mask_t>1 << i
    return _is_majority(counted.incoming, holders) and _is_majority(counted.outgoing, holders)


# Of no voters everything is one (paper 6: outside a change there is one electorate).
cdef bint _is_majority(member_mask_t voters, member_mask_t holders) noexcept nogil:
    return voters == 0 or 2 * quorum_count(voters & holders) > quorum_count(voters)


# I10: of the entries that are not committed at most one changes the membership.
cdef uint32_t _check_changes(Exhaustive* exhaustive, const SmallNodeState* state) noexcept nogil:
    cdef index_t index = exhaustive.entries.data[exhaustive.successor.committed].index + 1
    cdef uint32_t changes = 0
    while index <= state.log_length:
        changes += state.memberships[index]
        index += 1
    return SMALL_MEMBERSHIP if changes > 1 else 0
