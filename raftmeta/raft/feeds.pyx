"""Feeds of observers; feeds.pxd has the rules."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.chunks cimport Chunk, Slice, chunk_create, chunk_hold
from raftmeta.native.intrinsics cimport next_random
from raftmeta.native.marks cimport (MARK_FEED_BEHIND, MARK_FEED_CUT_OFF, MARK_FEED_DOES_NOT_MEET, MARK_FEED_FROM_FILES,
                                    MARK_FEED_FULL, MARK_FEED_LATE, MARK_FEED_MEMBERSHIP_TOLD, MARK_FEED_NEEDS_SNAPSHOT,
                                    MARK_FEED_OF_OBSERVER, MARK_FEEDER_LOST, MARK_FEEDER_SILENT,
                                    MARK_FEEDING_LEADER_RELIEVED, mark)
from raftmeta.raft.election cimport become_follower
from raftmeta.raft.invariants cimport BROKEN_TRUNCATED_COMMITTED
from raftmeta.raft.log cimport log_bytes_between, log_chain, log_slice, log_term
from raftmeta.raft.membership cimport membership_decode, membership_encode, membership_position
from raftmeta.raft.membership_change cimport membership_set
from raftmeta.raft.outbox cimport message_init, outbox_send, trace
from raftmeta.raft.ready cimport TRACE_SNAPSHOT_NEEDED, LogRead
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.replication cimport commit_to, take_records
from raftmeta.raft.state cimport (FEED_DEPTH_MAX, FEEDS_MAX, Core, Feed, history_lost, in_force, is_repairing,
                                  out_of_memory)
from raftmeta.raft.types cimport (ENTRY_REQUEST, ENTRY_RESPONSE, FEED, FEED_BEHIND, FEED_CUT_OFF, FEED_DEPTH_SHIFT,
                                  FEED_FULL, FEED_MEMBERSHIP, FEED_NEEDS_MEMBERSHIP, FEED_OTHER_HISTORY, FEED_REASONS,
                                  FEED_REQUEST, FEED_SNAPSHOT, MEMBERS_MAX, PROPOSE, PROPOSE_RESPONSE, READ_INDEX,
                                  READ_INDEX_RESPONSE, Membership, Message, Record, index_t, member_id_t, term_t)
from raftmeta.status cimport BAD_FIELD, NO_MEMORY, NOT_FOUND, OK, STALE, status_t

cdef enum:
    TUNE_FORGET_TIMEOUTS = 2    # x election time-out: an observer that asked nothing for so long is fed no more
    TUNE_RELIEF_TIMEOUTS = 4    # x election time-out, on average: an observer that the leader feeds looks for another
    TUNE_DEPTH_USUAL = 3        # two members have room for 16 + 128 + 1024 observers in so many rows
    TUNE_RISE_TIMEOUTS = 16     # x election time-out, on average: an observer below these looks for a place further up
    TUNE_OFFER_TIMEOUTS = 3     # x election time-out: a snapshot is offered again


cdef bint feeds_may_take(const Core* core, uint8_t type) noexcept nogil:
    if not core.config.is_observer:
        return type not in (FEED, FEED_MEMBERSHIP)
    return type in (PROPOSE, PROPOSE_RESPONSE, READ_INDEX, READ_INDEX_RESPONSE, ENTRY_REQUEST, ENTRY_RESPONSE,
                    FEED_REQUEST, FEED, FEED_MEMBERSHIP)


# --- the feeder -------------------------------------------------------------------------------------------------------
cdef bint _may_feed(const Core* core) noexcept nogil:
    if is_repairing(<Core*>core):
        return False
    return not core.config.is_observer or (core.feeder != 0 and core.feed_depth < FEED_DEPTH_MAX)


cdef Feed* _find(Core* core, member_id_t id) noexcept nogil:
    cdef int i
    for i in range(FEEDS_MAX):
        if core.feeds[i].id == id:
            return &core.feeds[i]
    return NULL


cdef void _forget(Core* core, Feed* feed) noexcept nogil:
    memset(feed, 0, sizeof(Feed))
    core.feed_count -= 1


cdef void _answer_init(Core* core, Message* message, member_id_t target, uint64_t number) noexcept nogil:
    message_init(core, message, FEED, target)
    message.context = core.leader
    message.hint = number
    message.flags = <uint8_t>(<uint32_t>core.feed_depth << FEED_DEPTH_SHIFT)


cdef void _refuse(Core* core, member_id_t target, uint64_t number, uint8_t reason) noexcept nogil:
    cdef Message message
    _answer_init(core, &message, target, number)
    message.reject = True
    message.flags |= reason
    outbox_send(core, &message)


cdef status_t feeds_on_request(Core* core, const Message* message) noexcept nogil:
    cdef Feed* feed = _find(core, message.source)
    if membership_position(in_force(core), message.source) >= 0:
        return STALE            # a member hears from its leader, and nobody counts twice
    if not _may_feed(core) or message.source == core.feeder:
        mark(MARK_FEED_CUT_OFF)
        if feed != NULL:
            _forget(core, feed)
        _refuse(core, message.source, message.hint, FEED_CUT_OFF)
        return OK
    if feed == NULL:
        feed = _find(core, 0)
        if feed == NULL or core.feed_count >= core.config.feeds_max:
            mark(MARK_FEED_FULL)
            _refuse(core, message.source, message.hint, FEED_FULL)
            return OK
        feed.id = message.source
        core.feed_count += 1
    if _is_other_history(core, message):
        _refuse(core, message.source, message.hint, FEED_OTHER_HISTORY)
        feed.is_asking = False
        return OK
    feed.index = message.index
    feed.number = message.hint
    feed.is_asking = True
    feed.heard_tick = core.now
    feed.due_tick = core.now + core.config.heartbeat_ticks
    core.must_feed = True
    return _give_membership(core, feed) if message.flags & FEED_NEEDS_MEMBERSHIP else OK


# The committed one, unless its entry is still to come there. The first that is known is always committed.
cdef status_t _give_membership(Core* core, const Feed* feed) noexcept nogil:
    cdef const Membership* membership = &core.memberships.data[0]
    cdef Message message
    cdef Chunk* chunk
    cdef status_t status
    if membership.count == 0 or membership.index > feed.index:
        return OK
    core.scratch.clear()
    status = membership_encode(membership, &core.scratch)
    if status != OK:
        return status
    chunk = chunk_create(<uint32_t>core.scratch.size)
    if chunk == NULL:
        out_of_memory(core)
        return NO_MEMORY
    chunk.used = chunk.capacity
    memcpy(chunk.bytes(), core.scratch.data, chunk.used)
    message_init(core, &message, FEED_MEMBERSHIP, feed.id)
    message.term = 0
    message.index = membership.index
    message.hint = feed.number
    message.records.chunk = chunk
    message.records.data = chunk.bytes()
    message.records.length = chunk.used
    mark(MARK_FEED_MEMBERSHIP_TOLD)
    outbox_send(core, &message)
    return OK


# Do the two logs have different committed entries at the observer's last index?
cdef bint _is_other_history(Core* core, const Message* message) noexcept nogil:
    cdef uint64_t chain = 0
    if message.index > core.log.committed or message.index < core.log.compacted or message.index == 0:
        return False            # it cannot be said yet, or no more
    if log_term(&core.log, message.index) != message.log_term:
        return True
    return log_chain(&core.log, message.index, &chain) and message.context != 0 and chain != message.context


cdef void feeds_serve(Core* core) noexcept nogil:
    cdef int i
    core.must_feed = False
    for i in range(FEEDS_MAX if core.feed_count else 0):
        if core.feeds[i].id != 0 and core.feeds[i].is_asking and not core.feeds[i].is_log_read:
            _serve(core, &core.feeds[i])


cdef void _serve(Core* core, Feed* feed) noexcept nogil:
    cdef bint is_due = core.now >= feed.due_tick
    cdef bint is_new = feed.leader_told != core.leader or feed.term_told != core.hard.term
    cdef Slice slice
    cdef index_t last
    if not _may_feed(core):
        if is_due:              # an observer that changes its feeder has another one in a moment
            _refuse(core, feed.id, feed.number, FEED_CUT_OFF)
            _forget(core, feed)
    elif feed.index > core.log.committed:
        if is_due:
            mark(MARK_FEED_BEHIND)
            _end_request(core, feed, FEED_BEHIND)
    elif feed.index < core.log.compacted:
        _offer(core, feed)
        if is_due:
            _end_request(core, feed, FEED_SNAPSHOT)
    elif feed.index == core.log.committed:
        if is_due or is_new:
            _send(core, feed, feed.index, NULL)
    elif feed.index < core.log.offset:
        _read_log(core, feed)
    else:
        last = log_slice(&core.log, feed.index + 1, core.log.committed, core.config.append_bytes_max, &slice)
        _send(core, feed, last, &slice)


cdef void _end_request(Core* core, Feed* feed, uint8_t reason) noexcept nogil:
    feed.is_asking = False
    _refuse(core, feed.id, feed.number, reason)


# Send the records (feed.index, last], which stand in slice. NULL: none.
cdef void _send(Core* core, Feed* feed, index_t last, const Slice* slice) noexcept nogil:
    cdef Message message
    _answer_init(core, &message, feed.id, feed.number)
    message.index = feed.index
    message.log_term = log_term(&core.log, feed.index)
    message.commit = last
    if slice != NULL:
        message.records = slice[0]
        message.count = <uint32_t>(last - feed.index)
        chunk_hold(slice.chunk)
    feed.is_asking = False
    feed.leader_told = core.leader
    feed.term_told = core.hard.term
    if message.count != 0 and core.config.is_observer:
        mark(MARK_FEED_OF_OBSERVER)
    outbox_send(core, &message)


# A snapshot is committed state: any node may give it.
cdef void _offer(Core* core, Feed* feed) noexcept nogil:
    if feed.offered_tick != 0 and core.now - feed.offered_tick < TUNE_OFFER_TIMEOUTS * <uint64_t>(
            core.config.election_timeout_ticks):
        return
    mark(MARK_FEED_NEEDS_SNAPSHOT)
    feed.offered_tick = max(core.now, <uint64_t>1)
    trace(core, TRACE_SNAPSHOT_NEEDED, feed.id, core.log.snapshotted)
    if not core.snapshots.push(feed.id):
        out_of_memory(core)


cdef void _read_log(Core* core, Feed* feed) noexcept nogil:
    cdef LogRead read
    read.peer = feed.id
    read.first = feed.index + 1
    read.bytes_max = core.config.append_bytes_max
    feed.is_log_read = True
    if not core.log_reads.push(read):
        out_of_memory(core)


cdef status_t feeds_on_log_read(Core* core, const LogRead* read, const Slice* records, status_t status) noexcept nogil:
    cdef Feed* feed = _find(core, read.peer)
    cdef Slice slice
    cdef index_t last = 0
    cdef term_t term = 0
    if feed == NULL or not feed.is_log_read:
        return NOT_FOUND
    feed.is_log_read = False
    core.must_feed = True
    if read.first != feed.index + 1 or not feed.is_asking:
        return STALE            # it asked for something else since
    if status != OK:
        # The records were compacted meanwhile, or are damaged on this disk: a snapshot has them, or another feeder.
        if feed.index < core.log.snapshotted:
            _offer(core, feed)
            _end_request(core, feed, FEED_SNAPSHOT)
        else:
            _refuse(core, feed.id, feed.number, FEED_CUT_OFF)
            _forget(core, feed)
        return OK
    mark(MARK_FEED_FROM_FILES)
    slice = _committed_of(core, records, &last, &term)
    # The file was read at an earlier moment, and may hold records that this node has cut since. Equal index and term
    # mean an equal past (paper 5.3).
    if slice.length == 0 or log_term(&core.log, last) != term:
        return STALE
    _send(core, feed, last, &slice)
    return OK


# The committed ones of these records, with index and term of the last.
cdef Slice _committed_of(const Core* core, const Slice* records, index_t* last, term_t* term) noexcept nogil:
    cdef Slice slice = records[0]
    cdef const Record* record
    slice.length = 0
    while slice.length < records.length:
        record = <const Record*>(records.data + slice.length)
        if record.index > core.log.committed:
            break
        last[0] = record.index
        term[0] = record.term
        slice.length += <uint32_t>record_bytes(record.length)
    return slice


# --- the observer -----------------------------------------------------------------------------------------------------
cdef void _shun(Core* core, member_id_t id) noexcept nogil:
    cdef int i
    cdef int place = 0
    for i in range(MEMBERS_MAX):
        if core.shunned[i].id == id:
            place = i
            break
        if core.shunned[i].until_tick < core.shunned[place].until_tick:
            place = i
    core.shunned[place].id = id
    core.shunned[place].until_tick = core.now + core.config.election_timeout_ticks


cdef bint _is_shunned(const Core* core, member_id_t id) noexcept nogil:
    cdef int i
    for i in range(MEMBERS_MAX):
        if core.shunned[i].id == id:
            return core.now < core.shunned[i].until_tick
    return False


# Nobody feeds this observer any more, and it knows no leader until somebody does.
cdef void _leave(Core* core) noexcept nogil:
    core.feeder = 0
    core.is_feed_open = False
    become_follower(core, core.hard.term, 0)


# As _leave, of a feeder that named no others. For an election time-out only members are asked, which name some. The
# observers that are connected at this moment may stand anywhere, and the tree would grow deep.
cdef void _begin_at_the_top(Core* core) noexcept nogil:
    _leave(core)
    core.feed_tick = core.now + core.config.election_timeout_ticks


# Any connected node but the leader, which has the most to do, and an observer that this one feeds; the leader if there
# is no other.
cdef member_id_t _choose(Core* core) noexcept nogil:
    cdef member_id_t chosen = 0
    cdef uint32_t count = 0
    cdef size_t i
    for i in range(core.connected.size):
        if _find(core, core.connected.data[i]) != NULL or _is_shunned(core, core.connected.data[i]):
            continue
        if (core.feeder == 0 and core.now < core.feed_tick
                and membership_position(in_force(core), core.connected.data[i]) < 0):
            continue
        if core.connected.data[i] == core.feed_leader:
            chosen = chosen or core.feed_leader
            continue
        count += 1
        if next_random(&core.random) % count == 0:
            chosen = core.connected.data[i]
    return chosen


cdef void _look_for_feeder(Core* core) noexcept nogil:
    core.feeder = _choose(core)
    if core.feeder != 0:
        core.feed_heard_tick = core.now
        _ask(core)


# Where this log is known to be its feeder's too: before its first damaged record, which the feed then mends. A log that
# was a voter's may end with entries that were never committed. A feeder that finds another entry there is asked from
# the last committed one.
cdef index_t _asked_index(const Core* core) noexcept nogil:
    if core.log.damages.size != 0:
        return core.log.damages.data[0].index - 1
    return core.matched if core.matched != 0 and core.matched >= core.log.committed else core.log.last


cdef void _ask(Core* core) noexcept nogil:
    cdef Message message
    message_init(core, &message, FEED_REQUEST, core.feeder)
    message.term = 0
    message.index = _asked_index(core)
    message.log_term = log_term(&core.log, message.index)
    if not log_chain(&core.log, message.index, &message.context):
        message.context = 0
    if in_force(core).count == 0:
        message.flags = FEED_NEEDS_MEMBERSHIP
    core.feed_number += 1
    message.hint = core.feed_number
    core.is_feed_open = True
    core.feed_tick = core.now + 2 * core.config.heartbeat_ticks     # when request or answer was lost
    outbox_send(core, &message)


# Records come no faster than this node's disk and machine take them.
cdef bint _has_room(Core* core) noexcept nogil:
    cdef index_t done = max(min(core.log.persisted, core.log.applied), core.log.offset)
    return (done >= core.log.last
            or log_bytes_between(&core.log, done, core.log.last) <= core.config.inflight_bytes_max)


cdef void _ask_next(Core* core) noexcept nogil:
    if _has_room(core):
        _ask(core)
    else:
        core.feed_tick = core.now + 1


# Is another node connected that may feed this observer? It is tried now and then only: it may turn out to be full.
cdef bint _may_relieve_leader(Core* core) noexcept nogil:
    if next_random(&core.random) % (TUNE_RELIEF_TIMEOUTS * <uint64_t>core.config.election_timeout_ticks) != 0:
        return False
    return _choose(core) not in (0, core.feed_leader)


# Every feeder that dies leaves those below it a step deeper somewhere else. So an observer that stands deep, and feeds
# nobody who would have to move too, begins at the top again now and then.
cdef bint _may_rise(Core* core) noexcept nogil:
    return (core.feed_depth > TUNE_DEPTH_USUAL and core.feed_count == 0
            and next_random(&core.random) % (TUNE_RISE_TIMEOUTS * <uint64_t>core.config.election_timeout_ticks) == 0)


cdef void _tick_observer(Core* core) noexcept nogil:
    if core.feeder != 0 and core.now - core.feed_heard_tick >= core.config.election_timeout_ticks:
        mark(MARK_FEEDER_SILENT)
        _shun(core, core.feeder)
        _begin_at_the_top(core)
    elif core.feeder != 0 and core.feeder == core.feed_leader and _may_relieve_leader(core):
        mark(MARK_FEEDING_LEADER_RELIEVED)
        _shun(core, core.feeder)
        _leave(core)
    elif core.feeder != 0 and _may_rise(core):
        _shun(core, core.feeder)
        _begin_at_the_top(core)
    if core.feeder == 0:
        _look_for_feeder(core)
    elif core.now >= core.feed_tick:
        if not _has_room(core):
            core.feed_heard_tick = core.now     # the feeder is not asked, so its silence means nothing
        else:
            _ask(core)


cdef status_t feeds_on_feed(Core* core, const Message* message) noexcept nogil:
    cdef uint32_t depth = (message.flags >> FEED_DEPTH_SHIFT) + 1
    if message.source != core.feeder or message.hint != core.feed_number or not core.is_feed_open:
        mark(MARK_FEED_LATE)
        return STALE
    core.is_feed_open = False
    if message.reject:
        return _on_refused(core, message.flags & FEED_REASONS)
    if depth > FEED_DEPTH_MAX:
        return _on_refused(core, FEED_CUT_OFF)
    core.feed_depth = <uint8_t>depth
    _hear_of_leader(core, message)
    return _take(core, message)


cdef status_t feeds_on_membership(Core* core, const Message* message) noexcept nogil:
    cdef Membership membership
    cdef status_t status
    if message.source != core.feeder or message.hint != core.feed_number or in_force(core).count != 0:
        return STALE
    if message.index > core.log.last:
        return BAD_FIELD
    status = membership_decode(message.records.data, message.records.length, &membership)
    membership.index = message.index
    return status if status != OK else membership_set(core, &membership)


cdef status_t _on_refused(Core* core, uint8_t reason) noexcept nogil:
    core.feed_tick = core.now + core.config.heartbeat_ticks
    if reason == FEED_SNAPSHOT:
        core.feed_heard_tick = core.now
    elif reason == FEED_OTHER_HISTORY:
        if _asked_index(core) <= core.log.committed:
            return history_lost(core, BROKEN_TRUNCATED_COMMITTED, _asked_index(core), core.log.committed)
        core.matched = core.log.committed
        _ask(core)
    elif reason != FEED_BEHIND:     # of no use as long as it is behind: it is left when that lasts
        _shun(core, core.feeder)
        _leave(core)
        core.feed_tick = core.now
    return OK


# Its feeder's word about the term's leader, as far as that is not older than what this observer knows.
cdef void _hear_of_leader(Core* core, const Message* message) noexcept nogil:
    if message.context != 0 and message.term >= core.hard.term:
        core.feed_leader = message.context
    if message.term > core.hard.term or (message.term == core.hard.term and message.context != core.leader):
        become_follower(core, message.term, message.context)


cdef status_t _take(Core* core, const Message* message) noexcept nogil:
    cdef status_t status
    core.feed_heard_tick = core.now
    if (message.index < core.log.compacted or message.index > core.log.last
            or log_term(&core.log, message.index) != message.log_term):
        mark(MARK_FEED_DOES_NOT_MEET)
        _ask_next(core)         # the log began anew behind a snapshot since it asked
        return STALE
    status = take_records(core, message)
    if status != OK:
        core.feed_tick = core.now + core.config.heartbeat_ticks
        return status
    core.matched = max(core.matched, message.index + message.count)
    commit_to(core, min(message.commit, message.index + message.count))
    _ask_next(core)
    return OK


# --- both -------------------------------------------------------------------------------------------------------------
cdef void feeds_tick(Core* core) noexcept nogil:
    cdef uint64_t patience = TUNE_FORGET_TIMEOUTS * <uint64_t>core.config.election_timeout_ticks
    cdef int i
    for i in range(FEEDS_MAX if core.feed_count else 0):
        if core.feeds[i].id == 0:
            continue
        if core.now - core.feeds[i].heard_tick > patience:
            _forget(core, &core.feeds[i])
        elif core.feeds[i].is_asking and core.now >= core.feeds[i].due_tick:
            core.must_feed = True
    if core.config.is_observer:
        _tick_observer(core)


cdef void feeds_on_link(Core* core, member_id_t peer, bint is_up, bint is_gone) noexcept nogil:
    cdef Feed* feed = _find(core, peer) if peer != 0 else NULL
    if is_gone and feed != NULL:
        _forget(core, feed)         # its place is free for those that it fed itself
        feed = NULL
    if is_up and feed != NULL:
        feed.is_asking = True       # the answer to its request may have had no way to go
        feed.due_tick = core.now
        core.must_feed = True
    if not core.config.is_observer:
        return
    if not is_up and peer != 0 and peer == core.feeder:
        mark(MARK_FEEDER_LOST)
        _begin_at_the_top(core)
    if core.feeder == 0:
        _look_for_feeder(core)
