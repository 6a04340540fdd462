"""The engine's side of the network: identity of connections, frames in, frames out.

It decides whether a HELLO or a frame belongs here. It must never interpret a message (the core does), wait,
or answer a frame that it refused: the connection is closed and counted, nothing else (docs/invariants.md I18, I19).
Sources: decisions/README.md "Identity and genesis"; docs/formats.md "Frame", "HELLO".
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta._core cimport (PEER_CONNECTED, PEER_REFUSED, PEER_UNREACHABLE, CoreStatus, PeerEvent, core_membership,
                             core_peer_event, core_set_time, core_step)
from raftmeta.engine.callers cimport callers_doubt_lease
from raftmeta.engine.deaths cimport (DEATH_BYTES, deaths_answered, deaths_heard, deaths_hung_up, deaths_refused,
                                     deaths_speaks)
from raftmeta.engine.feeding cimport feeding_heard_feeders, feeding_heard_observers
from raftmeta.engine.links cimport find_name, link_of_name
from raftmeta.engine.snapshots.transfer cimport transfer_step
from raftmeta.engine.state cimport (ASKED_RUNS, ASKED_STEP_MAX, EVENT_LINK_DOWN, EVENT_LINK_UP, EVENT_PEER_REFUSED,
                                    EVENT_QUORUM_LOST, ENGINE_GENESIS, ENGINE_RUNNING, AskedRun, Engine, Inbound, Link,
                                    Links)
from raftmeta.engine.state_check cimport state_check_heard
from raftmeta.machine.machine cimport machine_level_of
from raftmeta.machine.state cimport FORMAT_FEATURE_LEVEL_MAX
from raftmeta.native.chunks cimport Slice
from raftmeta.native.marks cimport (MARK_BOOT_CONTRADICTED, MARK_FRAME_BEFORE_FOUNDING, MARK_FRAME_OF_REMOVED,
                                    MARK_HELLO_OF_REMOVED, MARK_LINK_LOST, MARK_LINK_STILL_DOWN,
                                    MARK_PROPOSAL_FOR_EARLIER_LIFE, MARK_PROPOSAL_TWICE, MARK_QUORUM_OF_DISKS_LOST,
                                    mark)
from raftmeta.raft.genesis cimport (BLANK, FOUNDED, JOINING, OBSERVING, GenesisMessage, genesis_hello,
                                    genesis_step)
from raftmeta.raft.membership cimport membership_position
from raftmeta.raft.quorum cimport quorum_count
from raftmeta.raft.types cimport (MEMBERS_MAX, MEMBERSHIP_PROPOSE, PROPOSE, PROPOSE_RESPONSE, READ_INDEX,
                                  VOTER_INCOMING, Member, Membership, Message, index_t, member_id_t)
from raftmeta.security.tls_state cimport TLS_NOT_SPOKEN
from raftmeta.status cimport (BAD_FIELD, BAD_VERSION, COMMAND_INVALID, FOREIGN_CLUSTER, FOREIGN_NODE, NO_MEMORY,
                              NODE_CLOSED, NOT_READY, OK, OLD_BOOT, OVERLOADED, REMOVED, STALE, is_fatal, status_t)
from raftmeta.wire.commands cimport command_decode
from raftmeta.wire.frame cimport (FORMAT_FRAME_VERSION, FRAME_FEEDERS, FRAME_GENESIS, FRAME_HEADER_BYTES, FRAME_MESSAGE,
                                  FRAME_OBSERVERS, FRAME_PING, FRAME_SNAPSHOT, FRAME_STATE, FrameHeader, FrameIdentity,
                                  frame_check_identity)
from raftmeta.wire.genesis_messages cimport genesis_message_decode
from raftmeta.wire.hello cimport HELLO_PEER, Hello, hello_negotiate
from raftmeta.wire.messages cimport FORMAT_MESSAGE_VERSION, message_decode
from raftmeta.wire.snapshot_messages cimport SnapshotMessage, snapshot_message_decode

cdef enum:
    PLACES_KEPT = 2     # links that observers leave to others
    MEET_TIMEOUTS = 10  # election time-outs for which a connection is kept to one whom no log here names yet


# --- who is there -----------------------------------------------------------------------------------------------------
cdef void _make_hello(const Engine* engine, Hello* hello) noexcept nogil:
    memset(hello, 0, sizeof(Hello))
    hello.purpose = HELLO_PEER
    hello.version_min = FORMAT_FRAME_VERSION
    hello.version_max = FORMAT_MESSAGE_VERSION
    hello.genesis_state = engine.genesis.claimed_state
    if engine.config.core.is_observer and hello.genesis_state in (FOUNDED, JOINING):
        hello.genesis_state = OBSERVING
    hello.cluster.low = engine.genesis.claimed_low
    hello.cluster.high = engine.genesis.claimed_high
    hello.id = engine.id
    hello.boot = engine.boot
    hello.feature_level_max = FORMAT_FEATURE_LEVEL_MAX
    hello.name_length = engine.config.name_length
    memcpy(hello.name, engine.config.name, engine.config.name_length)
    hello.cluster_name_length = engine.config.cluster_name_length
    memcpy(hello.cluster_name, engine.config.cluster_name, engine.config.cluster_name_length)
    hello.address_length = engine.config.address_length
    memcpy(hello.address, engine.config.address, engine.config.address_length)
    if engine.core != NULL and core_membership(engine.core) != NULL:
        hello.membership = core_membership(engine.core).index


cdef void peers_own_hello(Engine* engine, uint32_t link, Hello* hello) noexcept nogil:
    _make_hello(engine, hello)
    if link < MEMBERS_MAX:
        engine.links.table[link].was_asked = engine.links.table[link].was_claim_asked = True


# The address that a member gives itself is newer than the one in the log.
cdef int _follow_member(Engine* engine, const Member* member) noexcept nogil:
    cdef int place = find_name(&engine.links, member.name, member.name_length)
    if place >= 0 and engine.links.table[place].is_told and engine.links.table[place].id == member.id:
        return place
    return link_of_name(&engine.links, member.name, member.name_length, member.address, member.address_length)


cdef status_t peers_follow_membership(Engine* engine, const Membership* membership) noexcept nogil:
    cdef bint[MEMBERS_MAX] named
    cdef int i, place
    memset(named, 0, sizeof(named))
    for i in range(MEMBERS_MAX):
        engine.links.table[i].was_asked = engine.links.table[i].is_fresh = False
    for i in range(membership.count):
        place = _follow_member(engine, &membership.members[i])
        if place < 0:
            return NO_MEMORY
        named[place] = True
        engine.links.table[place].is_wanted = True
    for i in range(MEMBERS_MAX):
        # A joining node without a membership knows only the names it was given.
        # An observer may be fed by any of them, members or not.
        if (membership.count != 0 and engine.links.table[i].is_used and not named[i]
                and not (engine.config.core.is_observer and engine.links.table[i].is_initial)):
            engine.links.table[i].is_wanted = False
            engine.links.table[i].is_initial = False      # its place may be given to another name
    _look_for_lost(engine)
    return OK


cdef void _meet_for(Engine* engine, uint32_t link, uint64_t timeouts) noexcept nogil:
    cdef uint64_t until = engine.ticks + timeouts * engine.config.core.election_timeout_ticks
    engine.links.table[link].met_until = max(engine.links.table[link].met_until, until)


cdef void peers_meet(Engine* engine, uint32_t link) noexcept nogil:
    _meet_for(engine, link, MEET_TIMEOUTS)


cdef bint peers_wants_link(const Engine* engine, uint32_t link) noexcept nogil:
    cdef const Link* at = &engine.links.table[link]
    return (at.is_used and not at.is_self and at.address_length != 0 and not at.must_reopen
            and (at.is_wanted or engine.ticks < at.met_until) and not _is_spare(engine, at))


# An observer that a member other than the leader, or another observer, feeds needs no connection but to that one and to
# those that it feeds. So a member has few connections, however many observers there are.
cdef bint _is_spare(const Engine* engine, const Link* link) noexcept nogil:
    cdef const CoreStatus* core = &engine.core_status
    cdef uint32_t i
    if not engine.config.core.is_observer or core.feeder == 0 or core.feeder == core.leader or link.id == core.feeder:
        return False
    for i in range(core.feed_count):
        if core.feeds[i].id == link.id:
            return False
    return link.id != 0


# --- voters whose disks are gone --------------------------------------------------------------------------------------
# Its folder was blank when it last answered, and no log has named it since. Who only claims to be it proves nothing:
# the operator would be told to give the cluster up.
cdef bint _was_wiped(const Engine* engine, const Link* link) noexcept nogil:
    if link.is_self:
        return engine.genesis.record.state == JOINING
    return link.genesis_state in (BLANK, JOINING) and not link.is_boot_claimed


cdef bint _has_lost_its_vote(const Engine* engine, const Membership* membership, const Member* voter,
                             const Link* link) noexcept nogil:
    cdef member_id_t id = engine.id if link.is_self else link.id
    return id != 0 and id != voter.id and membership_position(membership, id) < 0 and _was_wiped(engine, link)


cdef void _count_lost(Engine* engine, const Membership* membership) noexcept nogil:
    cdef int i, place
    for i in range(membership.count):
        if not membership.members[i].roles & VOTER_INCOMING:
            continue
        engine.links.voter_count += 1
        place = find_name(&engine.links, membership.members[i].name, membership.members[i].name_length)
        if place >= 0 and _has_lost_its_vote(engine, membership, &membership.members[i], &engine.links.table[place]):
            engine.links.lost |= <uint32_t>1 << place


# A blank node that joins has no membership yet; the names that it was given are the best it knows.
cdef void _count_lost_by_names(Engine* engine) noexcept nogil:
    cdef int i
    for i in range(MEMBERS_MAX):
        if engine.links.table[i].is_used and engine.links.table[i].is_initial:
            engine.links.voter_count += 1
            if _was_wiped(engine, &engine.links.table[i]):
                engine.links.lost |= <uint32_t>1 << i


cdef void _look_for_lost(Engine* engine) noexcept nogil:
    cdef Links* links = &engine.links
    cdef uint32_t before = links.lost
    if engine.core == NULL or engine.config.core.is_observer:
        return
    links.lost = links.voter_count = 0
    if core_membership(engine.core).count != 0:
        _count_lost(engine, core_membership(engine.core))
    else:
        _count_lost_by_names(engine)
    links.lost_count = quorum_count(links.lost)
    # A majority of the voters must still have its disk.
    if links.lost != before and 2 * (links.voter_count - links.lost_count) <= links.voter_count:
        mark(MARK_QUORUM_OF_DISKS_LOST)
        engine.callers.event(engine.callers.self, EVENT_QUORUM_LOST, links.lost, links.lost_count, links.voter_count)


# --- HELLO ------------------------------------------------------------------------------------------------------------
# What both directions of a connection refuse alike.
cdef status_t _check_hello(const Engine* engine, const Hello* hello) noexcept nogil:
    cdef Hello own
    cdef uint8_t version
    _make_hello(engine, &own)
    cdef status_t status = hello_negotiate(&own, hello, &version)
    if status != OK:
        return status
    if hello.id == 0 or hello.id == engine.id:
        return FOREIGN_NODE
    # The log of this cluster would stop it (raftmeta/machine: an unknown entry is fatal): it is told before.
    if engine.machine != NULL and hello.feature_level_max < engine.machine.feature_level:
        return BAD_VERSION
    if (hello.cluster_name_length != own.cluster_name_length
            or memcmp(hello.cluster_name, own.cluster_name, own.cluster_name_length) != 0):
        return FOREIGN_CLUSTER
    # Two founded (or accepted) nodes must be of one cluster; a blank one may talk to anybody, to learn or to found.
    if (own.genesis_state in (FOUNDED, OBSERVING) and hello.genesis_state != BLANK
            and hello.cluster.low | hello.cluster.high != 0
            and (hello.cluster.low != own.cluster.low or hello.cluster.high != own.cluster.high)):
        return FOREIGN_CLUSTER
    return FOREIGN_NODE if hello.genesis_state == OBSERVING and _has_place(engine, hello) else OK


# Does the membership name that node? Then it is no observer: whoever is one gave its place up before.
cdef bint _has_place(const Engine* engine, const Hello* hello) noexcept nogil:
    cdef const Membership* membership = core_membership(engine.core) if engine.core != NULL else NULL
    cdef int i
    if membership == NULL:
        return False
    for i in range(membership.count):
        if (membership.members[i].id == hello.id or membership.members[i].name_length == hello.name_length
                and memcmp(membership.members[i].name, hello.name, hello.name_length) == 0):
            return True
    return False


# A member once, and a later membership than the last it knew does not name it: it would go on asking for votes.
# A node that is added again hears of it on our connection to it. A membership that is not committed may be taken
# back, and is no reason.
cdef bint _was_removed(const Engine* engine, member_id_t id, index_t membership) noexcept nogil:
    cdef const Membership* current = core_membership(engine.core)
    return (current != NULL and current.index > membership and current.index <= engine.core_status.committed
            and not current.is_joint and membership_position(current, id) < 0)


# Another incarnation of that name answers us at this moment, and two folders cannot have one name. When the other
# one's process is gone its connection breaks, and this one is heard when it asks again (docs/divergence.md).
cdef bint _is_held_by_another(const Engine* engine, const Hello* hello) noexcept nogil:
    cdef int place = find_name(&engine.links, hello.name, hello.name_length)
    return place >= 0 and engine.links.table[place].is_up and engine.links.table[place].id != hello.id


# Another boot of that incarnation answers us at this moment, and two processes cannot have one folder. It is heard
# when the connection is gone; where no reset told us of a process that ended, only a new connection finds that.
cdef bint _contradicts_the_answer(Engine* engine, const Hello* hello) noexcept nogil:
    cdef int place = find_name(&engine.links, hello.name, hello.name_length)
    cdef Link* link
    if place < 0:
        return False
    link = &engine.links.table[place]
    if not link.is_up or link.id != hello.id or hello.boot <= link.boot:
        return False
    mark(MARK_BOOT_CONTRADICTED)
    if engine.ticks >= link.doubted_until:
        link.must_reopen = True
        link.doubted_until = engine.ticks + engine.config.core.election_timeout_ticks
    return True


# This process answered at its address and told all about itself. A process that says the same on a connection to us can
# only repeat it or lie: a false address would go into the membership (engine/housekeeping), and everybody would dial
# it.
cdef bint _has_answered(const Link* link, const Hello* hello) noexcept nogil:
    return link.id == hello.id and link.boot == hello.boot and not link.is_boot_claimed


# Observers are many, and a connection to each takes a place. Some places stay for others that nobody knows yet.
cdef bint _is_crowded(const Engine* engine, const Hello* hello) noexcept nogil:
    cdef const Link* link
    cdef uint32_t taken = 0
    cdef int i
    if hello.genesis_state != OBSERVING or find_name(&engine.links, hello.name, hello.name_length) >= 0:
        return False
    for i in range(MEMBERS_MAX):
        link = &engine.links.table[i]
        taken += link.is_used and (link.is_self or link.is_initial or link.is_wanted or link.is_up
                                   or engine.ticks < link.met_until)
    return taken + PLACES_KEPT >= MEMBERS_MAX


cdef bint _is_known(const Links* links, const Hello* hello) noexcept nogil:
    cdef int place = find_name(links, hello.name, hello.name_length)
    return place >= 0 and _has_answered(&links.table[place], hello)


# A lower boot number of the same incarnation is an older image of that disk: refuse it. But the answer at the
# address of a member disproves a boot that was only said on a connection to us, and by anybody (defect C9):
#     1. the connection on which it was said is older than our HELLO, so its process was there before the answer's,
#     2. the processes of one folder follow each other, and their boots grow,
#     3. so a true claim is never followed by a lower answer, but from an older image.
cdef status_t _note_boot(Engine* engine, int place, const Hello* hello, bint is_answer) noexcept nogil:
    cdef Link* link = &engine.links.table[place]
    cdef bint is_disproved = is_answer and link.is_boot_claimed and link.was_claim_asked
    cdef bint repeats = not is_answer and _has_answered(link, hello)
    if link.id == hello.id and hello.boot < link.boot and not is_disproved:
        return OLD_BOOT
    if link.id != hello.id or link.boot != hello.boot:
        memset(link.asked, 0, sizeof(link.asked))
        link.asked_next = 0
        link.is_boot_claimed = True
        link.was_claim_asked = False
    if is_answer:
        link.is_boot_claimed = False
    link.is_told = link.is_told and link.id == hello.id
    link.id = hello.id
    link.boot = hello.boot
    link.genesis_state = hello.genesis_state
    link.is_observer = hello.genesis_state == OBSERVING
    if not repeats:
        link.version = min(hello.version_max, <uint8_t>FORMAT_MESSAGE_VERSION)
        link.feature_level_max = hello.feature_level_max
    _look_for_lost(engine)
    return OK


cdef status_t _tell_genesis(Engine* engine, const Hello* hello) noexcept nogil:
    if engine.state != ENGINE_GENESIS:
        return OK
    cdef status_t status = genesis_hello(&engine.genesis, hello.name, hello.name_length, hello.id, hello.genesis_state,
                                         hello.cluster.low, hello.cluster.high)
    return status if is_fatal(status) else OK


cdef status_t peers_hello(Engine* engine, const Hello* hello, Inbound* inbound) noexcept nogil:
    cdef status_t status = _check_hello(engine, hello)
    cdef int place
    if status == OK and hello.purpose != HELLO_PEER:
        status = BAD_FIELD
    if (status == OK and engine.state == ENGINE_RUNNING and hello.genesis_state == FOUNDED
            and _was_removed(engine, hello.id, hello.membership)):
        mark(MARK_HELLO_OF_REMOVED)
        return REMOVED
    if status == OK and _is_held_by_another(engine, hello):
        status = FOREIGN_NODE
    if status == OK and _contradicts_the_answer(engine, hello):
        engine.counters.frames_refused += 1
        return NOT_READY
    if status == OK and _is_crowded(engine, hello):
        status = OVERLOADED
    if status == OK:
        place = link_of_name(&engine.links, hello.name, hello.name_length, hello.address,
                             0 if _is_known(&engine.links, hello) else hello.address_length)
        status = OVERLOADED if place < 0 else _note_boot(engine, place, hello, False)
    if status == OK:
        engine.links.table[place].is_told = True
        if hello.genesis_state == OBSERVING:        # it has a question in a moment
            _meet_for(engine, place, 1)
    if status == OK:
        status = _tell_genesis(engine, hello)
    if status != OK:
        engine.counters.frames_refused += 1
        peers_note_refusal(engine, find_name(&engine.links, hello.name, hello.name_length), status)
        engine.callers.event(engine.callers.self, EVENT_PEER_REFUSED, status, 0, 0)
        return status
    inbound.is_bound = True
    inbound.peer = hello.id
    inbound.peer_boot = hello.boot
    inbound.link = place
    inbound.tenancy = engine.links.table[place].tenancy
    inbound.was_member = hello.genesis_state not in (JOINING, OBSERVING)
    inbound.membership = hello.membership
    deaths_speaks(engine, inbound)
    return OK


cdef status_t peers_link_up(Engine* engine, uint32_t link, const Hello* hello) noexcept nogil:
    cdef Link* at = &engine.links.table[link]
    cdef status_t status = _check_hello(engine, hello)
    if status == OK and (hello.name_length != at.name_length or memcmp(hello.name, at.name, at.name_length) != 0):
        status = FOREIGN_NODE       # another node answers at that address
    if status == OK:
        status = _note_boot(engine, link, hello, True)
    if status == OK:
        link_of_name(&engine.links, hello.name, hello.name_length, hello.address, hello.address_length)
        at.is_told = True
        status = _tell_genesis(engine, hello)
    if status != OK:
        engine.counters.frames_refused += 1
        peers_note_refusal(engine, <int>link, status)
        engine.callers.event(engine.callers.self, EVENT_PEER_REFUSED, status, link, 0)
        return status
    deaths_answered(at, hello.id, hello.boot)
    at.is_up = True
    at.is_fresh = at.was_asked
    at.was_refused = False
    at.refusal = 0
    at.sequence = 0
    engine.callers.event(engine.callers.self, EVENT_LINK_UP, link, hello.id, 0)
    if engine.state == ENGINE_RUNNING:
        return core_peer_event(engine.core, PEER_CONNECTED, hello.id)
    return OK


cdef void peers_note_refusal(Engine* engine, int place, status_t status) noexcept nogil:
    cdef bint is_told = status == TLS_NOT_SPOKEN or not is_fatal(status)
    if 0 <= place < <int>MEMBERS_MAX and status > 0 and is_told and status != NOT_READY:
        engine.links.table[place].refusal = <uint8_t>status
        engine.links.table[place].refused_tick = engine.ticks


cdef void peers_link_down(Engine* engine, uint32_t link, bint was_refused) noexcept nogil:
    cdef Link* at = &engine.links.table[link]
    cdef PeerEvent event = PEER_REFUSED if was_refused else PEER_UNREACHABLE
    at.must_reopen = at.is_fresh = False
    if not at.is_up and not (was_refused and not at.was_refused):
        mark(MARK_LINK_STILL_DOWN)
        return      # nothing new: still down
    mark(MARK_LINK_LOST)
    at.is_up = False
    at.was_refused = was_refused
    engine.callers.event(engine.callers.self, EVENT_LINK_DOWN, link, was_refused, 0)
    if engine.state == ENGINE_RUNNING and at.id != 0:
        core_peer_event(engine.core, event, at.id)


cdef void peers_address_refused(Engine* engine, uint32_t link) noexcept nogil:
    deaths_refused(&engine.links.table[link])


cdef void peers_hung_up(Engine* engine, Inbound* inbound) noexcept nogil:
    deaths_hung_up(engine, inbound)


# --- frames in --------------------------------------------------------------------------------------------------------
# A command that some member could not apply must never reach the log, for at apply it would stop that member.
# COMMAND_INVALID: no node of ours wrote this. NOT_READY: a member of this cluster may not know the command. An honest
# sender can be that far ahead, if it applied the entry that raises the level before this node did: it asks again. Only
# a leader raises the level, and not by a request to another node.
cdef status_t _check_commands(Engine* engine, const Slice* payloads) noexcept nogil:
    cdef status_t status = OK
    cdef uint32_t offset = 0
    cdef uint32_t length
    while offset + sizeof(uint32_t) <= payloads.length:
        memcpy(&length, payloads.data + offset, sizeof(uint32_t))
        offset += sizeof(uint32_t)
        if command_decode(payloads.data + offset, length, &engine.scratch) != OK:
            return COMMAND_INVALID
        if engine.machine == NULL or machine_level_of(&engine.scratch) > engine.machine.feature_level:
            status = NOT_READY
        offset += length
    return status


# May this request for an entry have been looked at before? Then it is dropped without an answer, because a refusal
# says "in no log", and only who sees each request once can say that:
#     1. the network delivers a PROPOSE twice; the leader appends the first copy and steps down,
#     2. it would refuse the second copy, as it leads no more,
#     3. its sender would tell the caller "certainly not executed", and the first copy is committed.
# Contexts of one boot grow (Calls.next_batch; 0: nobody waits, engine/housekeeping). One that was overtaken is
# dropped too, and one for an earlier life of this node, which may have answered it: the sender asks again under a new
# context (docs/divergence.md "Forwarded proposals"). A context far above the others is a run of its own. So one that
# somebody made up, who only claims to be this peer, does not make all later ones of the peer look old for ever.
cdef bint _was_asked(Link* link, uint64_t context) noexcept nogil:
    cdef AskedRun* below = NULL
    cdef AskedRun* run
    cdef int i
    for i in range(ASKED_RUNS):
        run = &link.asked[i]
        if run.high == 0:
            continue
        if run.low <= context <= run.high:
            return True
        if (run.high < context and context - run.high <= ASKED_STEP_MAX
                and (below == NULL or below.high < run.high)):
            below = run
    if below == NULL:
        below = &link.asked[link.asked_next]
        below.low = context
        link.asked_next = (link.asked_next + 1) % ASKED_RUNS
    below.high = context
    return False


cdef bint _is_asked_twice(Engine* engine, Link* link, const FrameHeader* header, const Message* message) noexcept nogil:
    if header.target_boot != engine.boot:
        mark(MARK_PROPOSAL_FOR_EARLIER_LIFE)
        return True
    if _was_asked(link, message.context):
        mark(MARK_PROPOSAL_TWICE)
        return True
    return False


cdef status_t _step_message(Engine* engine, uint32_t link, const FrameHeader* header,
                            const Slice* frame) noexcept nogil:
    cdef const uint8_t* body = frame.data + FRAME_HEADER_BYTES
    cdef Slice records
    cdef Message message
    records.chunk = frame.chunk
    records.data = frame.data + FRAME_HEADER_BYTES + header.body_length
    records.length = header.records_length
    memset(&message, 0, sizeof(Message))
    cdef status_t status = message_decode(body, header.body_length, &records, &message)
    if status != OK:
        return status
    message.source = header.source
    message.target = header.target
    if message.type == PROPOSE_RESPONSE and header.target_boot != engine.boot:
        # Contexts of batches begin anew with each boot: a refusal that was late would be taken for one of a batch of
        # this boot, which may be in the log, and its callers would be told "certainly not executed".
        mark(MARK_PROPOSAL_FOR_EARLIER_LIFE)
        return OK
    if message.type == PROPOSE:
        status = _check_commands(engine, &message.records)
        if status != OK:
            return OK if status == NOT_READY else status
    if (message.type in (PROPOSE, MEMBERSHIP_PROPOSE) and message.context != 0
            and _is_asked_twice(engine, &engine.links.table[link], header, &message)):
        return OK
    core_set_time(engine.core, engine.clock.now_ns(engine.clock.self))
    if message.type == READ_INDEX:
        status = callers_doubt_lease(engine)
        if status != OK:
            return status
    status = core_step(engine.core, &message)
    if status == STALE or 0 < status < 64:
        return OK       # ignored or refused by the protocol: not the connection's fault
    return status


cdef status_t _step_genesis(Engine* engine, const FrameHeader* header, const Slice* frame) noexcept nogil:
    cdef GenesisMessage message
    cdef status_t status
    if engine.state != ENGINE_GENESIS and engine.genesis.record.state != FOUNDED:
        return OK
    memset(&message, 0, sizeof(GenesisMessage))
    status = genesis_message_decode(frame.data + FRAME_HEADER_BYTES, header.body_length, &message)
    if status != OK:
        return status
    if message.source != header.source or message.target != engine.id:
        return FOREIGN_NODE
    status = genesis_step(&engine.genesis, &message)
    return status if is_fatal(status) else OK


cdef status_t _step_snapshot(Engine* engine, uint32_t link, const FrameHeader* header,
                             const Slice* frame) noexcept nogil:
    cdef SnapshotMessage message
    cdef Slice piece
    cdef status_t status = snapshot_message_decode(frame.data + FRAME_HEADER_BYTES, header.body_length,
                                                   header.records_length, &message)
    if status != OK:
        return status
    piece.chunk = frame.chunk
    piece.data = frame.data + FRAME_HEADER_BYTES + header.body_length
    piece.length = header.records_length
    return transfer_step(engine, link, &message, &piece)


cdef status_t peers_frame(Engine* engine, Inbound* inbound, const Slice* frame) noexcept nogil:
    cdef const FrameHeader* header = <const FrameHeader*>frame.data
    cdef Link* link = &engine.links.table[inbound.link]
    cdef FrameIdentity identity
    cdef status_t status
    if inbound.tenancy != link.tenancy:
        return NODE_CLOSED      # another name has its place by now: it connects again, and is given one
    identity.cluster = engine.cluster
    identity.peer = inbound.peer
    identity.self = engine.id
    identity.peer_boot = inbound.peer_boot
    if header.type == FRAME_GENESIS:        # before the founding there is no common id yet
        identity.cluster.low = header.cluster_low
        identity.cluster.high = header.cluster_high
    if inbound.peer_boot != link.boot and inbound.peer == link.id:
        status = OLD_BOOT       # a later boot of this peer has introduced itself since, or its own was disproved
    elif header.type in (FRAME_MESSAGE, FRAME_SNAPSHOT) and engine.state == ENGINE_GENESIS:
        mark(MARK_FRAME_BEFORE_FOUNDING)
        status = NOT_READY
    elif (engine.state == ENGINE_RUNNING and inbound.was_member
            and _was_removed(engine, inbound.peer, inbound.membership)):
        mark(MARK_FRAME_OF_REMOVED)
        return NODE_CLOSED      # it connects again, and hears why it is not welcome
    else:
        status = frame_check_identity(header, &identity)
    if status == NOT_READY:
        return OK               # one side does not know its cluster yet: the protocol repeats it
    if status == OK:
        link.bytes_in += frame.length
        engine.counters.frames_received += 1
        if not link.is_wanted and header.type in (FRAME_MESSAGE, FRAME_SNAPSHOT):
            peers_meet(engine, inbound.link)    # what it sends is to be answered, and may be the entry that names it
        if header.type == FRAME_MESSAGE:
            status = _step_message(engine, inbound.link, header, frame)
        elif header.type == FRAME_GENESIS:
            status = _step_genesis(engine, header, frame)
        elif header.type == FRAME_STATE:
            status = state_check_heard(engine, header.source, frame.data + FRAME_HEADER_BYTES, header.body_length)
        elif header.type == FRAME_FEEDERS:
            status = feeding_heard_feeders(engine, header.source, frame.data + FRAME_HEADER_BYTES, header.body_length)
        elif header.type == FRAME_OBSERVERS:
            status = feeding_heard_observers(engine, header.source, frame.data + FRAME_HEADER_BYTES,
                                             header.body_length)
        elif header.type == FRAME_SNAPSHOT:
            status = _step_snapshot(engine, inbound.link, header, frame)
        elif header.type != FRAME_PING:
            status = BAD_FIELD
        elif header.body_length == DEATH_BYTES:
            deaths_heard(engine, inbound, frame.data + FRAME_HEADER_BYTES)
    if status != OK and not is_fatal(status):
        engine.counters.frames_refused += 1
        engine.callers.event(engine.callers.self, EVENT_PEER_REFUSED, status, inbound.link, header.type)
    return status
