"""Parts of a small world by number; parts.pxd says what a number means."""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta._core cimport CoreStatus, core_status
from raftmeta.native.chunks cimport chunk_drop, chunk_hold
from raftmeta.native.intrinsics cimport hash64
from raftmeta.raft.log cimport log_record
from raftmeta.raft.quorum cimport Electorate, quorum_has
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport (ENTRY_MEMBERSHIP, HEARTBEAT, VOTER_INCOMING, VOTER_OUTGOING, Membership,
                                  Message, Record, index_t, member_mask_t)
from raftmeta.sim.small.exhaustive_state cimport (ACT_CHANGE, ACT_CRASH_AFTER_WRITE, ACT_DELIVER, ACT_HEARTBEAT,
                                                  ACT_PERSIST, ACT_PROPOSE, ACT_TIME_OUT, Exhaustive, SmallEntry,
                                                  SmallNodeState, SmallStep, small_action_t)
from raftmeta.sim.small.node cimport (SMALL_MEMBERSHIP, SMALL_TRACES, SmallNode, SmallOutcome, node_change, node_copy,
                                      node_crash, node_deliver, node_digest, node_heartbeat, node_persist, node_propose,
                                      node_release, node_time_out, outcome_clear)
from raftmeta.status cimport NO_MEMORY, OK, status_t


cdef status_t parts_create(Exhaustive* exhaustive) noexcept nogil:
    cdef SmallNodeState no_node
    cdef SmallEntry no_entry
    cdef Message no_message
    memset(&no_node, 0, sizeof(no_node))
    memset(&no_entry, 0, sizeof(no_entry))
    memset(&no_message, 0, sizeof(no_message))
    if (exhaustive.nodes.push(no_node) and exhaustive.entries.push(no_entry) and exhaustive.messages.push(no_message)
            and exhaustive.node_digests.resize(exhaustive.namings.size)
            and exhaustive.message_names.resize(exhaustive.namings.size)):
        return OK
    return NO_MEMORY


cdef void parts_release(Exhaustive* exhaustive) noexcept nogil:
    cdef size_t i
    for i in range(exhaustive.nodes.size):
        node_release(&exhaustive.nodes.data[i].node)
    for i in range(exhaustive.messages.size):
        chunk_drop(exhaustive.messages.data[i].records.chunk)
    outcome_clear(&exhaustive.outcome)
    exhaustive.outcome.messages.release()
    exhaustive.nodes.release()
    exhaustive.node_numbers.release()
    exhaustive.messages.release()
    exhaustive.message_numbers.release()
    exhaustive.entries.release()
    exhaustive.entry_numbers.release()
    exhaustive.steps.release()
    exhaustive.sent.release()
    exhaustive.node_digests.release()
    exhaustive.message_names.release()


# --- entries ----------------------------------------------------------------------------------------------------------
# The chain hash covers the entry and all before it, so it is the entry's name. 0: no memory.
cdef uint32_t _entry(Exhaustive* exhaustive, const Record* record, uint32_t previous) noexcept nogil:
    cdef uint32_t* number = exhaustive.entry_numbers.insert(record.chain)
    cdef SmallEntry entry
    if number == NULL or number[0] != 0:
        return number[0] if number != NULL else 0
    entry.chain = record.chain
    entry.term = record.term
    entry.index = record.index
    entry.previous = previous
    if not exhaustive.entries.push(entry):
        return 0
    number[0] = <uint32_t>exhaustive.entries.size - 1
    return number[0]


# --- nodes ------------------------------------------------------------------------------------------------------------
cdef uint32_t parts_node(Exhaustive* exhaustive, SmallNode* node) noexcept nogil:
    cdef uint32_t* number = exhaustive.node_numbers.insert(node_digest(node, exhaustive.namings.data[0].names))
    cdef SmallNodeState state
    if number == NULL or number[0] != 0:
        node_release(node)
        return number[0] if number != NULL else 0
    memset(&state, 0, sizeof(state))
    state.node = node[0]
    if not _describe(exhaustive, &state) or not _name_node(exhaustive, node) or not exhaustive.nodes.push(state):
        node_release(node)
        return 0
    number[0] = <uint32_t>exhaustive.nodes.size - 1
    return number[0]


cdef bint _name_node(Exhaustive* exhaustive, const SmallNode* node) noexcept nogil:
    cdef size_t i
    for i in range(exhaustive.namings.size):
        if not exhaustive.node_digests.push(node_digest(node, exhaustive.namings.data[i].names)):
            return False
    return True


cdef bint _describe(Exhaustive* exhaustive, SmallNodeState* state) noexcept nogil:
    cdef CoreStatus status
    cdef const Membership* membership
    cdef const Record* record
    cdef index_t index
    core_status(state.node.core, &status)
    state.role = status.role
    state.term = status.term
    state.durable_term = state.node.hard.term
    state.committed = status.committed
    state.is_writing = state.node.core.write.id != 0
    state.log_length = <uint8_t>status.last
    state.durable_length = <uint8_t>state.node.records.size
    for index in range(1, status.last + 1):
        record = log_record(&state.node.core.log, index)
        state.log[index] = _entry(exhaustive, record, state.log[index - 1])
        state.memberships[index] = record.type == ENTRY_MEMBERSHIP
        if state.log[index] == 0:
            return False
    for index in range(1, state.node.records.size + 1):
        record = <const Record*>state.node.records.data[index - 1].data
        state.durable[index] = _entry(exhaustive, record, state.durable[index - 1])
        if state.durable[index] == 0:
            return False
    membership = &state.node.core.memberships.back()
    state.incoming = <uint8_t>_voters(membership, VOTER_INCOMING)
    state.outgoing = <uint8_t>_voters(membership, VOTER_OUTGOING)
    return True


# Voters as a set of positions in the world; the id of a member is its position + 1.
cdef member_mask_t _voters(const Membership* membership, uint8_t role) noexcept nogil:
    cdef member_mask_t voters = 0
    cdef uint32_t i
    for i in range(membership.count):
        if membership.members[i].roles & role and (role == VOTER_INCOMING or membership.is_joint):
            voters |= <member_mask_t>1 << (membership.members[i].id - 1)
    return voters


# I10: every two quorums of memberships that follow each other share a member, by trying all.
cdef bint _quorums_overlap(const Membership* one, const Membership* other) noexcept nogil:
    cdef Electorate first, second
    cdef member_mask_t a, b
    first.incoming = _voters(one, VOTER_INCOMING)
    first.outgoing = _voters(one, VOTER_OUTGOING)
    second.incoming = _voters(other, VOTER_INCOMING)
    second.outgoing = _voters(other, VOTER_OUTGOING)
    for a in range(<member_mask_t>32):
        for b in range(<member_mask_t>32):
            if a & b == 0 and quorum_has(&first, a) and quorum_has(&second, b):
                return False
    return True


cdef bint _memberships_are_sound(const SmallNode* node) noexcept nogil:
    cdef size_t i
    for i in range(1, node.core.memberships.size):
        if not _quorums_overlap(&node.core.memberships.data[i - 1], &node.core.memberships.data[i]):
            return False
    return True


# --- messages ---------------------------------------------------------------------------------------------------------
cdef uint64_t _digest(const Message* message) noexcept nogil:
    cdef uint64_t[10] words
    cdef uint64_t at = 0, digest
    cdef const Record* record
    words[0] = <uint64_t>message.type << 16 | message.reject << 8 | message.flags
    words[1] = message.source << 32 | message.target
    words[2] = message.term
    words[3] = message.index
    words[4] = message.log_term
    words[5] = message.commit
    words[6] = message.hint
    words[7] = message.context
    words[8] = message.count
    words[9] = message.lease_ms
    digest = hash64(0, words, sizeof(words))
    while at < message.records.length:
        record = <const Record*>(message.records.data + at)
        digest = hash64(digest, &record.chain, sizeof(record.chain))
        at += record_bytes(record.length)
    return digest


# A node of another name sends the same message under that name: all these messages get a number together.
cdef uint32_t _message(Exhaustive* exhaustive, const Message* message) noexcept nogil:
    cdef uint32_t* known = exhaustive.message_numbers.insert(_digest(message))
    cdef uint32_t number
    if known == NULL or known[0] != 0:
        return known[0] if known != NULL else 0
    number = <uint32_t>exhaustive.messages.size
    if not exhaustive.messages.push(message[0]):
        return 0
    chunk_hold(message.records.chunk)
    known[0] = number
    return number if _name_message(exhaustive, number) else 0


cdef bint _name_message(Exhaustive* exhaustive, uint32_t number) noexcept nogil:
    cdef size_t namings = exhaustive.namings.size
    cdef Message named
    cdef uint32_t other
    cdef size_t i
    if not exhaustive.message_names.resize((number + 1) * namings):
        return False
    for i in range(namings):
        named = exhaustive.messages.data[number]
        named.source = exhaustive.namings.data[i].names[named.source]
        named.target = exhaustive.namings.data[i].names[named.target]
        other = _message(exhaustive, &named)
        if other == 0:
            return False
        exhaustive.message_names.data[number * namings + i] = other
    return True


# --- steps ------------------------------------------------------------------------------------------------------------
cdef const SmallStep* parts_step(Exhaustive* exhaustive, uint32_t node, small_action_t action) noexcept nogil:
    cdef uint64_t key = <uint64_t>node << 32 | action
    cdef const SmallStep* known = exhaustive.steps.find(key)
    cdef SmallStep* step
    cdef SmallStep made
    if known != NULL:
        return known
    if not _make_step(exhaustive, node, action, &made):
        return NULL
    step = exhaustive.steps.insert(key)
    if step != NULL:
        step[0] = made
    return step


cdef bint _make_step(Exhaustive* exhaustive, uint32_t node, small_action_t action, SmallStep* step) noexcept nogil:
    cdef SmallNode after
    cdef SmallOutcome* outcome = &exhaustive.outcome
    cdef uint32_t i
    memset(step, 0, sizeof(SmallStep))
    outcome_clear(outcome)
    if node_copy(&after, &exhaustive.nodes.data[node].node) != OK:
        node_release(&after)
        return False
    step.is_possible = _act(exhaustive, &after, action, outcome)
    if step.is_possible and outcome.violation == 0 and not _memberships_are_sound(&after):
        outcome.violation = SMALL_MEMBERSHIP
    step.violation = outcome.violation
    step.broken = after.core.broken
    if not step.is_possible or step.violation != 0:
        step.node = node
        node_release(&after)
        return True
    for i in range(<uint32_t>SMALL_TRACES):
        exhaustive.traces[i] += (outcome.traces >> i) & 1
    step.node = parts_node(exhaustive, &after)
    return step.node != 0 and _keep_sent(exhaustive, outcome, step)


cdef bint _act(Exhaustive* exhaustive, SmallNode* node, small_action_t action, SmallOutcome* outcome) noexcept nogil:
    cdef uint32_t kind = action >> 28
    if kind == ACT_DELIVER:
        return node_deliver(node, &exhaustive.messages.data[action & 0x0FFFFFFF], outcome)
    if kind == ACT_TIME_OUT:
        return node_time_out(node, exhaustive.config.has_pre_votes, outcome)
    if kind == ACT_PERSIST:
        return node_persist(node, outcome)
    if kind == ACT_PROPOSE:
        return node_propose(node, outcome)
    if kind == ACT_HEARTBEAT:
        return node_heartbeat(node, outcome)
    if kind == ACT_CHANGE:
        return node_change(node, &exhaustive.config.target, &exhaustive.config.founding, outcome)
    return node_crash(node, &exhaustive.config.beginnings[node.core.config.id - 1], kind == ACT_CRASH_AFTER_WRITE,
                      outcome)


cdef bint _keep_sent(Exhaustive* exhaustive, const SmallOutcome* outcome, SmallStep* step) noexcept nogil:
    cdef uint32_t number
    cdef size_t i
    step.sent = <uint32_t>exhaustive.sent.size
    for i in range(outcome.messages.size):
        if outcome.messages.data[i].type == HEARTBEAT and not exhaustive.config.has_heartbeats:
            continue
        number = _message(exhaustive, &outcome.messages.data[i])
        if number == 0 or not exhaustive.sent.push(number):
            return False
        step.sent_count += 1
    return True
