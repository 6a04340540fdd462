"""Bodies of genesis.pxd, whose first page has the states and the numbered rules. Inputs write down what a peer said.
From that table and the record, `advance` alone decides what this node becomes.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove, memset

from raftmeta.native.containers cimport Vec
from raftmeta.native.marks cimport (MARK_FOUNDED_BY_ALL, MARK_FOUNDED_BY_ANOTHER, MARK_FOUNDING_ACCEPTED_AGAIN,
                                    MARK_FOUNDING_IS_OVER, MARK_FOUNDING_PROPOSED, MARK_FOUNDING_WHILE_PERSISTING,
                                    MARK_JOINED_FOUNDED_CLUSTER, MARK_JOINING_ENDED, MARK_LATE_ACCEPTANCE_ANSWERED,
                                    mark)
from raftmeta.raft.membership cimport membership_check, membership_voters_incoming
from raftmeta.raft.types cimport MEMBERS_MAX, NAME_BYTES_MAX, VOTER_INCOMING, Member, Membership, member_id_t
from raftmeta.status cimport (ALREADY, BAD_FIELD, BAD_LENGTH, FOREIGN_CLUSTER, FOREIGN_NODE, NO_MEMORY, NOT_FOUND, OK,
                              STALE, status_t)

cdef enum:
    FOUNDER = 0                 # position of the least name

# --- leaves -----------------------------------------------------------------------------------------------------------

# Order of names: bytes, a shorter one before its continuations.
cdef int compare_names(const uint8_t* first, uint8_t first_length, const uint8_t* second,
                       uint8_t second_length) noexcept nogil:
    cdef uint8_t common = first_length if first_length < second_length else second_length
    cdef int order = memcmp(first, second, common)
    return order if order != 0 else <int>first_length - <int>second_length


cdef int position_of_name(const Genesis* genesis, const uint8_t* name, uint8_t name_length) noexcept nogil:
    cdef const GenesisPeer* peer
    cdef uint32_t i
    for i in range(genesis.peer_count):
        peer = &genesis.peers[i]
        if compare_names(peer.name, peer.name_length, name, name_length) == 0:
            return <int>i
    return -1


cdef int position_of_id(const Genesis* genesis, member_id_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(genesis.peer_count):
        if genesis.peers[i].known != PEER_UNKNOWN and genesis.peers[i].id == id:
            return <int>i
    return -1


cdef bint same_cluster(const GenesisRecord* record, uint64_t low, uint64_t high) noexcept nogil:
    return record.cluster_low == low and record.cluster_high == high


cdef bint same_names(const Genesis* genesis, const Membership* membership) noexcept nogil:
    cdef const Member* member
    cdef uint32_t i
    if membership.count != genesis.peer_count:
        return False
    for i in range(genesis.peer_count):
        member = &membership.members[i]
        if compare_names(member.name, member.name_length, genesis.peers[i].name, genesis.peers[i].name_length) != 0:
            return False
    return True


cdef bint is_founding_membership(const Membership* membership) noexcept nogil:
    cdef uint64_t everyone = (<uint64_t>1 << membership.count) - 1
    return (membership_check(membership) == OK and not membership.is_joint
            and membership_voters_incoming(membership) == everyone)

# --- outputs ----------------------------------------------------------------------------------------------------------

cdef bint send(Vec[GenesisMessage]* queue, const Genesis* genesis, uint8_t type, member_id_t target) noexcept nogil:
    if not queue.resize(queue.size + 1):
        return False
    cdef GenesisMessage* message = &queue.back()
    message.type = type
    message.cluster_low = genesis.record.cluster_low
    message.cluster_high = genesis.record.cluster_high
    message.source = genesis.id
    message.target = target
    if type == GENESIS_PROPOSE or type == GENESIS_FOUNDED:
        memcpy(&message.membership, &genesis.record.membership, sizeof(Membership))
    elif type == GENESIS_REFUSE:
        tell_own_names(genesis, &message.membership)
    return True


# A refusal tells the people at the other end which names this node was started with. Ids mean nothing in it.
cdef void tell_own_names(const Genesis* genesis, Membership* membership) noexcept nogil:
    cdef const GenesisPeer* peer
    cdef Member* member
    cdef uint32_t i
    for i in range(genesis.peer_count):
        peer = &genesis.peers[i]
        member = &membership.members[i]
        member.id = i + 1
        member.roles = VOTER_INCOMING
        member.name_length = peer.name_length
        memcpy(member.name, peer.name, peer.name_length)
    membership.count = <uint8_t>genesis.peer_count


cdef bint add_told(GenesisPeer* peer, const uint8_t* bytes, uint32_t length) noexcept nogil:
    if peer.told_length + length > TOLD_NAMES_BYTES_MAX:
        return False
    memcpy(peer.told + peer.told_length, bytes, length)
    peer.told_length += <uint16_t>length
    return True


cdef void note_names(const Genesis* genesis, GenesisPeer* peer, const Membership* membership) noexcept nogil:
    cdef uint32_t i
    peer.told_length = 0
    if membership.count == 0 or same_names(genesis, membership):
        return
    for i in range(membership.count):
        if i and not add_told(peer, b", ", 2):
            return
        if not add_told(peer, membership.members[i].name, membership.members[i].name_length):
            return


cdef status_t send_to_others(Vec[GenesisMessage]* queue, const Genesis* genesis, uint8_t type) noexcept nogil:
    cdef const GenesisPeer* peer
    cdef uint32_t i
    for i in range(genesis.peer_count):
        peer = &genesis.peers[i]
        if i == genesis.self_position or peer.known == PEER_UNKNOWN:
            continue
        if type == GENESIS_PROPOSE and peer.has_accepted:
            continue
        if not send(queue, genesis, type, peer.id):
            return NO_MEMORY
    return OK


# The record has changed: nothing else may change until it is durable (rule 8).
cdef void become(Genesis* genesis, uint8_t state) noexcept nogil:
    genesis.record.state = state
    genesis.must_persist = True
    genesis.is_persisting = True

# --- decisions --------------------------------------------------------------------------------------------------------

# Is this node the founder that made the proposal in its record?
cdef bint is_own_proposal(const Genesis* genesis) noexcept nogil:
    return genesis.record.state == ACCEPTED and genesis.record.membership.members[FOUNDER].id == genesis.id


# Does a peer hold a proposal of another founder, or of another incarnation of this one (rule 1)? All proposals of one
# incarnation share their cluster_high.
cdef bint is_foreign(const Genesis* genesis, const GenesisPeer* peer) noexcept nogil:
    if peer.known <= PEER_BLANK:
        return False
    return genesis.record.state == BLANK or peer.cluster_high != genesis.record.cluster_high


cdef void find_refusal(Genesis* genesis) noexcept nogil:
    cdef const GenesisPeer* peer
    cdef bint is_founder = genesis.self_position == FOUNDER
    cdef uint32_t i
    if genesis.refusal == FOREIGN_NODE:
        return      # a second folder with this name does not go away because of a peer's words
    genesis.refusal = OK
    for i in range(genesis.peer_count):
        peer = &genesis.peers[i]
        if i == genesis.self_position:
            continue
        if peer.has_other_names:
            genesis.refusal = BAD_FIELD
        # In every founding, a BLANK node that is not the founder meets members that have accepted already.
        elif is_foreign(genesis, peer) and (is_founder or genesis.record.state != BLANK):
            genesis.refusal = FOREIGN_CLUSTER
        if genesis.refusal != OK:
            genesis.refusal_peer = i
            return


cdef bint everyone_is_known(const Genesis* genesis) noexcept nogil:
    cdef uint32_t i
    for i in range(genesis.peer_count):
        if genesis.peers[i].known == PEER_UNKNOWN:
            return False
    return True


cdef bint everyone_accepted(const Genesis* genesis) noexcept nogil:
    cdef uint32_t i
    for i in range(genesis.peer_count):
        if not genesis.peers[i].has_accepted:
            return False
    return True


# Does the proposal name the present names, and their living incarnations as far as they are known?
cdef bint proposal_is_current(const Genesis* genesis) noexcept nogil:
    cdef uint32_t i
    if not same_names(genesis, &genesis.record.membership):
        return False
    for i in range(genesis.peer_count):
        if genesis.peers[i].known != PEER_UNKNOWN and genesis.peers[i].id != genesis.record.membership.members[i].id:
            return False
    return True


cdef status_t propose(Genesis* genesis) noexcept nogil:
    cdef Membership* membership = &genesis.record.membership
    cdef GenesisPeer* peer
    cdef Member* member
    cdef uint32_t i
    if genesis.record.state == BLANK:
        # Half the range is left for later proposals; a cluster id is never (0, 0).
        mark(MARK_FOUNDING_PROPOSED)
        genesis.record.cluster_low = (genesis.cluster_low_drawn >> 1) | 1
        genesis.record.cluster_high = genesis.cluster_high_drawn
    else:
        genesis.record.cluster_low += 1     # rule 5
    memset(membership, 0, sizeof(Membership))
    membership.count = <uint8_t>genesis.peer_count
    for i in range(genesis.peer_count):
        peer = &genesis.peers[i]
        peer.has_accepted = False
        member = &membership.members[i]
        member.id = peer.id
        member.roles = VOTER_INCOMING
        member.name_length = peer.name_length
        member.address_length = peer.address_length
        memcpy(member.name, peer.name, peer.name_length)
        memcpy(member.address, peer.address, peer.address_length)
    become(genesis, ACCEPTED)
    return send_to_others(&genesis.held, genesis, GENESIS_PROPOSE)


cdef status_t found(Genesis* genesis) noexcept nogil:
    if genesis.refusal != OK:
        return OK
    if genesis.record.state == BLANK or (is_own_proposal(genesis) and not proposal_is_current(genesis)):
        return propose(genesis) if everyone_is_known(genesis) else OK
    if is_own_proposal(genesis) and everyone_accepted(genesis):
        mark(MARK_FOUNDED_BY_ALL)
        become(genesis, FOUNDED)
        return send_to_others(&genesis.held, genesis, GENESIS_FOUNDED)
    return OK


# Is it certain that nobody founds the accepted proposal (rule 7)? Its founder knows that itself. Others know it when
# that
# same incarnation has joined another cluster.
cdef bint may_give_up(const Genesis* genesis) noexcept nogil:
    cdef const GenesisPeer* founder = &genesis.peers[FOUNDER]
    if is_own_proposal(genesis):
        return True
    return (founder.id == genesis.record.membership.members[FOUNDER].id and is_foreign(genesis, founder)
            and (founder.known == PEER_JOINING or founder.known == PEER_FOUNDED))


cdef void join_cluster(Genesis* genesis, const GenesisPeer* peer) noexcept nogil:
    genesis.record.cluster_low = peer.cluster_low
    genesis.record.cluster_high = peer.cluster_high
    memset(&genesis.record.membership, 0, sizeof(Membership))
    become(genesis, JOINING)


cdef status_t advance(Genesis* genesis) noexcept nogil:
    cdef const GenesisPeer* peer
    cdef uint32_t i
    find_refusal(genesis)
    if genesis.is_persisting:
        return OK
    for i in range(genesis.peer_count):
        peer = &genesis.peers[i]
        if peer.known != PEER_FOUNDED or i == genesis.self_position:
            continue
        if genesis.record.state == ACCEPTED and same_cluster(&genesis.record, peer.cluster_low, peer.cluster_high):
            mark(MARK_FOUNDED_BY_ANOTHER)
            become(genesis, FOUNDED)    # rule 4
            return OK
        if genesis.record.state == BLANK or (genesis.record.state == ACCEPTED and may_give_up(genesis)):
            mark(MARK_JOINED_FOUNDED_CLUSTER)
            join_cluster(genesis, peer)
            return OK
    return found(genesis) if genesis.self_position == FOUNDER and not genesis.is_observer else OK

# --- life -------------------------------------------------------------------------------------------------------------

cdef void genesis_init(Genesis* genesis, const GenesisRecord* record, member_id_t id, uint64_t random_low,
                       uint64_t random_high) noexcept nogil:
    memset(genesis, 0, sizeof(Genesis))
    memcpy(&genesis.record, record, sizeof(GenesisRecord))
    genesis.claimed_state = record.state
    genesis.claimed_low = record.cluster_low
    genesis.claimed_high = record.cluster_high
    genesis.id = id
    genesis.cluster_low_drawn = random_low
    genesis.cluster_high_drawn = random_high


cdef void genesis_release(Genesis* genesis) noexcept nogil:
    genesis.messages.release()
    genesis.held.release()


cdef status_t genesis_add_peer(Genesis* genesis, const uint8_t* name, uint8_t name_length, const uint8_t* address,
                               uint8_t address_length, bint is_self) noexcept nogil:
    cdef GenesisPeer* peer
    cdef uint32_t at = 0
    if name_length == 0 or name_length > NAME_BYTES_MAX or genesis.peer_count == MEMBERS_MAX:
        return BAD_LENGTH
    if position_of_name(genesis, name, name_length) >= 0:
        return ALREADY
    while at < genesis.peer_count and compare_names(genesis.peers[at].name, genesis.peers[at].name_length, name,
                                                    name_length) < 0:
        at += 1
    memmove(&genesis.peers[at + 1], &genesis.peers[at], (genesis.peer_count - at) * sizeof(GenesisPeer))
    if genesis.peer_count > 0 and at <= genesis.self_position:
        genesis.self_position += 1
    genesis.peer_count += 1
    peer = &genesis.peers[at]
    memset(peer, 0, sizeof(GenesisPeer))
    peer.name_length = name_length
    peer.address_length = address_length
    memcpy(peer.name, name, name_length)
    memcpy(peer.address, address, address_length)
    if is_self:
        genesis.self_position = at
        peer.id = genesis.id
        peer.known = PEER_BLANK
        peer.has_accepted = genesis.record.state == ACCEPTED
    return OK

# --- inputs -----------------------------------------------------------------------------------------------------------

cdef void note_peer(GenesisPeer* peer, member_id_t id, uint8_t known, uint64_t low, uint64_t high) noexcept nogil:
    if peer.id != id:
        peer.has_accepted = False       # that was another incarnation's promise
    peer.id = id
    peer.known = known
    peer.cluster_low = low
    peer.cluster_high = high
    peer.has_other_names = False


cdef status_t genesis_hello(Genesis* genesis, const uint8_t* name, uint8_t name_length, member_id_t id, uint8_t state,
                            uint64_t cluster_low, uint64_t cluster_high) noexcept nogil:
    cdef int position = position_of_name(genesis, name, name_length)
    cdef int namesake
    # An observer joins what another one follows, too.
    if genesis.is_observer and state == OBSERVING:
        state = FOUNDED
    if id == 0 or state < BLANK or state > JOINING or (state == BLANK) != (cluster_low == 0 and cluster_high == 0):
        return BAD_FIELD
    if position < 0:
        return NOT_FOUND
    if <uint32_t>position == genesis.self_position:
        if id == genesis.id:
            return OK
        genesis.refusal = FOREIGN_NODE
        genesis.refusal_peer = genesis.self_position
        return FOREIGN_NODE
    namesake = position_of_id(genesis, id)
    if namesake >= 0 and namesake != position:
        return BAD_FIELD        # one folder under two names: no membership could hold both
    # From PEER_BLANK on, PeerKnown has the numbers of GenesisState.
    note_peer(&genesis.peers[position], id, state, cluster_low, cluster_high)
    return advance(genesis)


cdef status_t answer(Genesis* genesis, uint8_t type, member_id_t target) noexcept nogil:
    return OK if send(&genesis.messages, genesis, type, target) else NO_MEMORY


# A node that joined later does not know the founding membership; its HELLO says enough.
cdef status_t tell_founded(Genesis* genesis, member_id_t target) noexcept nogil:
    return answer(genesis, GENESIS_FOUNDED, target) if genesis.record.membership.count else OK


# May this node leave the proposal that it accepted for `message` (rule 5)?
cdef bint supersedes(const Genesis* genesis, const GenesisMessage* message) noexcept nogil:
    return (genesis.record.membership.members[FOUNDER].id == message.source
            and genesis.record.cluster_high == message.cluster_high
            and genesis.record.cluster_low < message.cluster_low)


cdef status_t accept(Genesis* genesis, const GenesisMessage* message) noexcept nogil:
    genesis.record.cluster_low = message.cluster_low
    genesis.record.cluster_high = message.cluster_high
    memcpy(&genesis.record.membership, &message.membership, sizeof(Membership))
    become(genesis, ACCEPTED)
    return OK if send(&genesis.held, genesis, GENESIS_ACCEPT, message.source) else NO_MEMORY


cdef status_t step_propose(Genesis* genesis, const GenesisMessage* message, uint32_t source) noexcept nogil:
    cdef const Membership* membership = &message.membership
    if genesis.is_observer:
        return STALE
    if genesis.is_persisting:
        mark(MARK_FOUNDING_WHILE_PERSISTING)
        return STALE                    # the record of this node is not durable yet; the founder repeats
    if genesis.record.state == FOUNDED and same_cluster(&genesis.record, message.cluster_low, message.cluster_high):
        mark(MARK_FOUNDING_IS_OVER)
        return tell_founded(genesis, message.source)
    if not is_founding_membership(membership) or message.cluster_low == 0:
        return BAD_FIELD
    note_names(genesis, &genesis.peers[source], membership)
    if source != FOUNDER or not same_names(genesis, membership) or genesis.self_position == FOUNDER:
        return answer(genesis, GENESIS_REFUSE, message.source)
    if membership.members[FOUNDER].id != message.source:
        return BAD_FIELD
    if membership.members[genesis.self_position].id != genesis.id:
        return STALE                    # for an earlier incarnation; the founder will see this one's HELLO
    if genesis.record.state == BLANK:
        return accept(genesis, message)
    if genesis.record.state == ACCEPTED:
        if same_cluster(&genesis.record, message.cluster_low, message.cluster_high):
            mark(MARK_FOUNDING_ACCEPTED_AGAIN)
            return answer(genesis, GENESIS_ACCEPT, message.source)
        if supersedes(genesis, message):
            return accept(genesis, message)
        if genesis.record.cluster_high == message.cluster_high:
            return STALE                # an earlier proposal of the same founder
    return answer(genesis, GENESIS_REFUSE, message.source)


cdef status_t step_accept(Genesis* genesis, const GenesisMessage* message, GenesisPeer* peer) noexcept nogil:
    if not same_cluster(&genesis.record, message.cluster_low, message.cluster_high):
        return STALE
    # A member that accepted and does not know the outcome asks every peer by repeating its acceptance.
    if genesis.record.state == FOUNDED and not genesis.is_persisting:
        mark(MARK_LATE_ACCEPTANCE_ANSWERED)
        return tell_founded(genesis, message.source)
    if not is_own_proposal(genesis):
        return STALE
    peer.has_accepted = True
    peer.has_other_names = False
    return advance(genesis)


cdef status_t step_refuse(Genesis* genesis, const GenesisMessage* message, GenesisPeer* peer) noexcept nogil:
    note_names(genesis, peer, &message.membership)
    if genesis.self_position != FOUNDER:
        return STALE
    if message.cluster_low == 0 or message.cluster_high == genesis.record.cluster_high:
        peer.has_other_names = True     # it would accept this founder's proposal if that had the peer's own names
    elif peer.known == PEER_BLANK:
        note_peer(peer, message.source, PEER_ACCEPTED, message.cluster_low, message.cluster_high)
    return advance(genesis)


cdef status_t genesis_step(Genesis* genesis, const GenesisMessage* message) noexcept nogil:
    cdef int source = position_of_id(genesis, message.source)
    if message.target != genesis.id:
        return FOREIGN_NODE
    if source < 0 or <uint32_t>source == genesis.self_position:
        return STALE
    if message.type == GENESIS_PROPOSE:
        return step_propose(genesis, message, <uint32_t>source)
    if message.type == GENESIS_ACCEPT:
        return step_accept(genesis, message, &genesis.peers[source])
    if message.type == GENESIS_REFUSE:
        return step_refuse(genesis, message, &genesis.peers[source])
    if message.type == GENESIS_FOUNDED and message.cluster_low != 0:
        note_peer(&genesis.peers[source], message.source, PEER_FOUNDED, message.cluster_low, message.cluster_high)
        return advance(genesis)
    return BAD_FIELD


cdef status_t genesis_tick(Genesis* genesis) noexcept nogil:
    cdef status_t status = advance(genesis)
    if status != OK or genesis.is_persisting or genesis.record.state != ACCEPTED:
        return status
    if not is_own_proposal(genesis):
        return send_to_others(&genesis.messages, genesis, GENESIS_ACCEPT)
    if proposal_is_current(genesis):
        return send_to_others(&genesis.messages, genesis, GENESIS_PROPOSE)
    return OK


cdef status_t genesis_persisted(Genesis* genesis) noexcept nogil:
    genesis.must_persist = False
    genesis.is_persisting = False
    genesis.claimed_state = genesis.record.state
    genesis.claimed_low = genesis.record.cluster_low
    genesis.claimed_high = genesis.record.cluster_high
    genesis.peers[genesis.self_position].has_accepted = genesis.record.state == ACCEPTED
    if not genesis.messages.append(genesis.held.data, genesis.held.size):
        return NO_MEMORY
    genesis.held.clear()
    return advance(genesis)


cdef status_t genesis_joined(Genesis* genesis) noexcept nogil:
    if genesis.record.state == JOINING and not genesis.is_persisting:
        mark(MARK_JOINING_ENDED)
        become(genesis, FOUNDED)
    return OK
