"""Changes of membership as an operator would ask for them (paper 6, thesis 4.2).

    add       whoever runs and is no member: as a learner or a standby, also a removed one, also a wiped one
    remove    any member, the leader too
    demote    a voter becomes a standby, or its new incarnation does and the voter is gone
    promote   one that does not vote gets a vote
    replace   one that does not vote takes the vote of another, in one change

It decides who is struck, by the faults' random stream. It must never judge whether that is safe. Every
change names the membership it was made from and is asked of any node (engine/members, as production does); the
leader's core refuses what would leave no quorum (raft/membership_change), so a refused change is no error here.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta._core cimport LEADER, core_membership
from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport SUBMIT_MEMBERSHIP, Submission, submission_create, submission_payload
from raftmeta.native.intrinsics cimport next_random
from raftmeta.raft.membership cimport membership_encode, membership_position, membership_voters_incoming
from raftmeta.raft.quorum cimport quorum_count
from raftmeta.raft.types cimport LEARNER, STANDBY, VOTER_INCOMING, Member, Membership
from raftmeta.sim.world.nodes cimport node_run
from raftmeta.sim.world.world_state cimport VIOLATION_FATAL, VIOLATION_NO_MEMORY, member_count, violate
from raftmeta.status cimport OK

cdef enum Wish:
    WISH_ADD
    WISH_REMOVE
    WISH_DEMOTE
    WISH_PROMOTE
    WISH_REPLACE
    WISH_COUNT


cdef bint _answers(World* world, const SimNode* node) noexcept nogil:
    return node.is_up and node.engine.state == ENGINE_RUNNING and node.paused_until_ns <= world.now_ns


cdef SimNode* operator_leader(World* world) noexcept nogil:
    cdef SimNode* node
    cdef uint32_t number
    for number in range(world.config.nodes):
        node = &world.nodes[number]
        if _answers(world, node) and node.engine.core_status.role == LEADER:
            return node
    return NULL


# --- one membership to another ----------------------------------------------------------------------------------------
cdef bint _has_name(const Member* member, const SimNode* node) noexcept nogil:
    return (member.name_length == node.engine.config.name_length
            and memcmp(member.name, node.engine.config.name, member.name_length) == 0)


cdef void _drop(Membership* membership, uint32_t position) noexcept nogil:
    membership.count -= 1
    membership.members[position] = membership.members[membership.count]


# In the place of an earlier incarnation that did not vote. False: a voter has that name; once it is silent, the
# leader takes the new one back.
cdef bint _add(Membership* membership, const SimNode* node, uint8_t roles) noexcept nogil:
    cdef Member* member
    cdef uint32_t i
    for i in range(membership.count):
        if _has_name(&membership.members[i], node):
            if membership.members[i].roles & VOTER_INCOMING:
                return False
            _drop(membership, i)
            break
    member = &membership.members[membership.count]
    memset(member, 0, sizeof(Member))
    member.id = node.id
    member.roles = roles
    member.name_length = node.engine.config.name_length
    memcpy(member.name, node.engine.config.name, member.name_length)
    member.address_length = node.engine.config.address_length
    memcpy(member.address, node.engine.config.address, member.address_length)
    membership.count += 1
    return True


cdef bint _add_missing(World* world, Membership* membership, uint8_t roles) noexcept nogil:
    cdef SimNode* node
    cdef uint32_t number
    for number in range(member_count(world)):
        node = &world.nodes[number]
        if (_answers(world, node) and membership_position(membership, node.id) < 0
                and _add(membership, node, roles)):
            return True
    return False


# Position of a member that votes, or of one that does not; -1: there is none.
cdef int _pick(const Membership* membership, bint votes, uint64_t draw) noexcept nogil:
    cdef uint32_t i, place
    for i in range(membership.count):
        place = <uint32_t>((draw + i) % membership.count)
        if (membership.members[place].roles & VOTER_INCOMING != 0) == votes:
            return <int>place
    return -1


# The other incarnation of a member: a name has two at most, of which one votes. -1: there is none.
cdef int _namesake(const Membership* membership, uint32_t position) noexcept nogil:
    cdef const Member* member = &membership.members[position]
    cdef const Member* other
    cdef uint32_t i
    for i in range(membership.count):
        other = &membership.members[i]
        if (i != position and other.name_length == member.name_length
                and memcmp(other.name, member.name, member.name_length) == 0):
            return <int>i
    return -1


# Is it another incarnation of a voter? The leader swaps it for its old self; two voters never have one name.
cdef bint _is_successor(const Membership* membership, uint32_t position) noexcept nogil:
    cdef int other = _namesake(membership, position)
    return other >= 0 and membership.members[other].roles & VOTER_INCOMING != 0


# As raftmeta/members/plans does: of two incarnations one is left, which does not vote.
cdef void _demote(Membership* target, uint32_t voter) noexcept nogil:
    cdef int heir = _namesake(target, voter)
    target.members[voter if heir < 0 else <uint32_t>heir].roles = LEARNER | STANDBY
    if heir >= 0:
        _drop(target, voter)


# Make target what the wish wants. False: nobody is there for it.
cdef bint _change(World* world, Membership* target, Wish wish, uint64_t draw) noexcept nogil:
    cdef uint32_t voters = quorum_count(membership_voters_incoming(target))
    cdef int voter = _pick(target, True, draw >> 16)
    cdef int other = _pick(target, False, draw >> 16)
    if wish == WISH_ADD:
        return _add_missing(world, target, LEARNER | STANDBY if draw >> 8 & 1 else LEARNER)
    if wish == WISH_REMOVE and other >= 0 and draw >> 8 & 1:
        _drop(target, other)
        return True
    if wish == WISH_PROMOTE or wish == WISH_REPLACE:
        if other < 0 or _is_successor(target, other):
            return False
        target.members[other].roles = VOTER_INCOMING
        if wish == WISH_REPLACE:
            _drop(target, voter)
        return True
    if voters < 2:
        return False
    if wish == WISH_REMOVE:
        _drop(target, voter)
    else:
        _demote(target, voter)
    return True


# --- asking -----------------------------------------------------------------------------------------------------------
# Nothing is under way that this node knows of: a change is made from a committed membership only.
cdef bint _is_settled(const SimNode* node) noexcept nogil:
    cdef const Membership* membership = core_membership(node.engine.core)
    return (membership.count != 0 and not membership.is_joint
            and membership.index <= node.engine.core_status.committed)


cdef void _submit(World* world, SimNode* node, const Membership* target) noexcept nogil:
    cdef Submission* submission
    world.scratch.clear()
    if membership_encode(target, &world.scratch) != OK:
        violate(world, VIOLATION_FATAL, node.number, 7, target.count)
        return
    submission = submission_create(SUBMIT_MEMBERSHIP, world.scratch.size)
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    submission.arguments.membership.made_from = core_membership(node.engine.core).index
    memcpy(submission_payload(submission), world.scratch.data, world.scratch.size)
    world.counts.changes += 1
    world.operator_ns = world.now_ns
    engine_submit(node.engine, submission)
    node_run(world, node)


cdef void operator_act(World* world) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_faults)
    cdef SimNode* node = operator_leader(world)
    cdef Membership target
    if node == NULL or draw & 3 == 0:
        node = &world.nodes[(draw >> 2) % member_count(world)]
    if not _answers(world, node) or not _is_settled(node):
        return
    target = core_membership(node.engine.core)[0]
    if _change(world, &target, <Wish>((draw >> 40) % WISH_COUNT), draw):
        _submit(world, node, &target)


# Everybody but a new incarnation, which the leader swaps for its old self.
cdef bint _give_votes(Membership* target) noexcept nogil:
    cdef bint is_new = False
    cdef uint32_t i
    for i in range(target.count):
        if target.members[i].roles & VOTER_INCOMING == 0 and not _is_successor(target, i):
            target.members[i].roles = VOTER_INCOMING
            is_new = True
    return is_new


cdef void operator_restore(World* world) noexcept nogil:
    cdef SimNode* leader = operator_leader(world)
    cdef Membership target
    if leader == NULL or not _is_settled(leader):
        return
    target = core_membership(leader.engine.core)[0]
    if _add_missing(world, &target, LEARNER) or _give_votes(&target):
        _submit(world, leader, &target)
