"""The proofs that each node has of its lead; read_proofs.pxd has the rule.

Times are times of the world. Two events that matter for one read never have the same time, so equal times pass.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from raftmeta._core cimport LEADER, core_membership
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.native.intrinsics cimport hash64
from raftmeta.raft.membership cimport membership_voters_incoming, membership_voters_outgoing
from raftmeta.raft.types cimport (HEARTBEAT, HEARTBEAT_RESPONSE, MEMBERS_MAX, READ_INDEX, READ_INDEX_RESPONSE,
                                  Membership, member_id_t, member_mask_t)
from raftmeta.sim.world.world_state cimport VIOLATION_NO_MEMORY, VIOLATION_UNPROVEN_READ, SimHeard, violate

cdef enum:
    MILLION = 1_000_000


# --- what was sent when -----------------------------------------------------------------------------------------------
# When the number was used first, in this life of the node.
cdef void _note_round(World* world, SimNode* node, uint64_t number) noexcept nogil:
    cdef size_t before = node.rounds_sent.size
    if number < before:
        if node.rounds_sent.data[number] == 0:
            node.rounds_sent.data[number] = world.now_ns
        return
    if number > before + (1 << 20) or not node.rounds_sent.resize(number + 1):
        violate(world, VIOLATION_NO_MEMORY, node.number, number, before)
        return
    memset(node.rounds_sent.data + before, 0, (number - before) * sizeof(uint64_t))
    node.rounds_sent.data[number] = world.now_ns


cdef uint64_t _name(member_id_t member, uint64_t context) noexcept nogil:
    cdef uint64_t[2] words
    words[0] = member
    words[1] = context
    return hash64(0, words, sizeof(words))


cdef void _note_question(World* world, SimNode* node, uint64_t context) noexcept nogil:
    cdef uint64_t* asked_ns = world.truth.questions.insert(_name(node.id, context))
    if asked_ns == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    elif asked_ns[0] == 0:
        asked_ns[0] = world.now_ns


# --- what follows from it ---------------------------------------------------------------------------------------------
# When the newest round was sent that this member answered in the node's present term.
cdef uint64_t _heard_ns(World* world, SimNode* node, member_id_t member) noexcept nogil:
    cdef uint32_t i
    if member == node.id:
        return world.now_ns
    for i in range(<uint32_t>MEMBERS_MAX):
        if node.heard[i].member == member and node.heard[i].term == node.engine.core.hard.term:
            return node.heard[i].sent_ns
    return 0


# The greatest time such that a majority of these voters answered rounds sent then or later.
cdef uint64_t _quorum_ns(World* world, SimNode* node, const Membership* membership,
                         member_mask_t voters) noexcept nogil:
    cdef uint64_t[MEMBERS_MAX] times
    cdef uint64_t time_ns
    cdef uint32_t count = 0
    cdef uint32_t i, place
    for i in range(membership.count):
        if not voters >> i & 1:
            continue
        time_ns = _heard_ns(world, node, membership.members[i].id)
        place = count
        while place > 0 and times[place - 1] < time_ns:
            times[place] = times[place - 1]
            place -= 1
        times[place] = time_ns
        count += 1
    return times[count // 2] if count != 0 else 0


# For so long after a proven round nobody else can be elected, by the slowest of all clocks.
cdef uint64_t _lease_ns(const World* world) noexcept nogil:
    cdef uint64_t timeout_ns = <uint64_t>world.config.election_timeout_ticks * world.config.tick_ms * MILLION
    if not world.config.lease_reads:
        return 0
    return timeout_ns - timeout_ns // MILLION * world.config.faults.drift_ppm


cdef void _prove(World* world, SimNode* node) noexcept nogil:
    cdef const Membership* membership
    cdef member_mask_t outgoing
    cdef uint64_t proven_ns
    if node.engine.state != ENGINE_RUNNING or node.engine.core.role != LEADER:
        return
    membership = core_membership(node.engine.core)
    outgoing = membership_voters_outgoing(membership)
    proven_ns = _quorum_ns(world, node, membership, membership_voters_incoming(membership))
    if membership.is_joint and outgoing != 0:
        proven_ns = min(proven_ns, _quorum_ns(world, node, membership, outgoing))
    node.proven_ns = max(node.proven_ns, proven_ns)


# --- messages ---------------------------------------------------------------------------------------------------------
cdef void _check_answer(World* world, SimNode* node, const Message* message) noexcept nogil:
    cdef uint64_t* asked_ns = world.truth.questions.find(_name(message.target, message.context))
    _prove(world, node)
    if asked_ns == NULL or node.proven_ns + _lease_ns(world) < asked_ns[0]:
        violate(world, VIOLATION_UNPROVEN_READ, node.number, asked_ns[0] if asked_ns != NULL else 0, node.proven_ns)


cdef void proofs_said(World* world, SimNode* node, const Message* message) noexcept nogil:
    if message.type == HEARTBEAT:
        _note_round(world, node, message.context)
    elif message.type == READ_INDEX:
        _note_question(world, node, message.context)
    elif message.type == READ_INDEX_RESPONSE and not message.reject:
        _check_answer(world, node, message)


# The place of this member; without one, the place of the member that was heard longest ago.
cdef SimHeard* _place_of(SimNode* node, member_id_t member) noexcept nogil:
    cdef SimHeard* oldest = &node.heard[0]
    cdef uint32_t i
    for i in range(<uint32_t>MEMBERS_MAX):
        if node.heard[i].member == member:
            return &node.heard[i]
        if node.heard[i].sent_ns < oldest.sent_ns:
            oldest = &node.heard[i]
    memset(oldest, 0, sizeof(SimHeard))
    oldest.member = member
    return oldest


cdef void _heard_of_round(World* world, SimNode* node, const SimSaid* said) noexcept nogil:
    cdef SimHeard* heard
    if node.engine.core.role != LEADER or said.term != node.engine.core.hard.term:
        return
    if said.context >= node.rounds_sent.size:
        return
    heard = _place_of(node, said.member)
    if heard.term != said.term:
        heard.term = said.term
        heard.sent_ns = 0
    heard.sent_ns = max(heard.sent_ns, node.rounds_sent.data[said.context])


cdef void proofs_heard(World* world, SimNode* node, const SimSaid* said) noexcept nogil:
    cdef uint64_t* asked_ns
    if node.engine.state != ENGINE_RUNNING:
        return
    if said.type == HEARTBEAT_RESPONSE:
        _heard_of_round(world, node, said)
    elif said.type == READ_INDEX_RESPONSE and not said.is_refusal:
        # The member that answered had a proof as young as the question (_check_answer).
        asked_ns = world.truth.questions.find(_name(node.id, said.context))
        if asked_ns != NULL:
            node.proven_ns = max(node.proven_ns, asked_ns[0])
    _prove(world, node)


# How a good read looked like one that nothing proves:
#   1. a leader was the only voter; a question came, and the leader answered it at once   2. before the answer left, a
#   tick of the same turn promoted a learner   3. the answer left and was judged by the voters of 2, who had answered
#   no round since the question.
# A membership changes once in a turn at most, because the next change waits for the disk. So it is enough to look after
# each frame, before each turn and after it: one of these moments has the voters that decided.
cdef void proofs_look(World* world, SimNode* node) noexcept nogil:
    _prove(world, node)


cdef void proofs_check(World* world, SimNode* node, uint64_t asked_ns) noexcept nogil:
    _prove(world, node)
    if node.proven_ns + _lease_ns(world) < asked_ns:
        violate(world, VIOLATION_UNPROVEN_READ, node.number, asked_ns, node.proven_ns)


# --- life -------------------------------------------------------------------------------------------------------------
cdef void proofs_begin(SimNode* node) noexcept nogil:
    node.rounds_sent.clear()
    node.proven_ns = 0
    memset(node.heard, 0, sizeof(node.heard))


cdef void proofs_release(World* world) noexcept nogil:
    cdef uint32_t number
    for number in range(world.config.nodes):
        world.nodes[number].rounds_sent.release()
    world.truth.questions.release()
