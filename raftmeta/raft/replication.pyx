"""Replication and commit; replication.pxd has the rules."""
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.buggify cimport BUGGIFY_APPEND_OF_ONE, BUGGIFY_LOG_READ_OF_ONE, BUGGIFY_SNAPSHOT_INSTEAD, buggify
from raftmeta.native.chunks cimport Slice, chunk_hold
from raftmeta.native.marks cimport (MARK_APPEND_BELOW_THE_LOG, MARK_APPEND_DOES_NOT_MEET, MARK_APPEND_REFUSED,
                                    MARK_CALLERS_WAIT_AT_MEMBER, MARK_COMMITTED_BY_COUNT, MARK_ENTRY_CONFLICTS,
                                    MARK_FULL_WINDOW_GIVEN_UP, MARK_LOG_TRUNCATED, MARK_LOST_APPENDS_SUSPECTED,
                                    MARK_MEMBER_BEHIND_THE_LOG, MARK_PROBE_WITHOUT_RECORDS, MARK_SNAPSHOT_NOT_NEEDED,
                                    MARK_SNAPSHOT_RESPONSE_LATE, mark)
from raftmeta.raft.election cimport hear_leader
from raftmeta.raft.invariants cimport (BROKEN_ACKNOWLEDGED_LOST, BROKEN_COMMITTED_BEYOND_LAST,
                                       BROKEN_TRUNCATED_COMMITTED)
from raftmeta.raft.log cimport (log_append_records, log_chain, log_check_records, log_find_conflict, log_first_damaged,
                                log_record, log_slice, log_term, log_truncate)
from raftmeta.raft.membership cimport membership_decode, membership_position
from raftmeta.raft.membership_change cimport membership_on_committed, membership_on_truncated, membership_take
from raftmeta.raft.outbox cimport message_init, outbox_send, response_init, trace
from raftmeta.raft.progress cimport (PROBE, REPLICATE, SNAPSHOT_WAIT, Progress, progress_can_send, progress_on_accepted,
                                     progress_on_rejected, progress_on_sent, progress_on_snapshot_needed,
                                     progress_on_snapshot_over)
from raftmeta.raft.quorum cimport quorum_reached
from raftmeta.raft.ready cimport LEADER, TRACE_COMMITTED, TRACE_SNAPSHOT_NEEDED, TRACE_TRUNCATED, LogRead
from raftmeta.raft.record cimport chain_hash, record_bytes, record_payload
from raftmeta.raft.repair cimport repair_take
from raftmeta.raft.rounds cimport rounds_hear_lease_clock, rounds_on_entries
from raftmeta.raft.state cimport Core, broken, history_lost, in_force, out_of_memory
from raftmeta.raft.transfer cimport transfer_advance
from raftmeta.raft.types cimport (APPEND, APPEND_RESPONSE, ENTRY_MEMBERSHIP, HEARTBEAT, HEARTBEAT_RESPONSE,
                                  MEMBERS_MAX, MESSAGE_REPAIRING, MESSAGE_WAITING,
                                  SNAPSHOT, Membership, Message, Record, index_t, term_t)
from raftmeta.status cimport BAD_FIELD, CORRUPT, NO_MEMORY, OK, STALE, status_t


# --- leader: send -----------------------------------------------------------------------------------------------------
cdef void replicate(Core* core) noexcept nogil:
    cdef uint32_t i
    if not core.must_replicate:
        return
    core.must_replicate = False
    for i in range(in_force(core).count):
        if <int>i != core.position:
            _replicate_to(core, &core.progress[i])


cdef void _replicate_to(Core* core, Progress* progress) noexcept nogil:
    while progress_can_send(progress, core.config.inflight_bytes_max) and not progress.is_log_read:
        if progress.next > core.log.last and progress.state == REPLICATE:
            break
        if not _send_records(core, progress):
            break
    if progress.must_send_empty:
        _find_out(core, progress)
    if core.now < progress.waiting_until and progress.commit_sent < min(progress.match, core.log.committed):
        _send_commit(core, progress)


# Find out whether the last APPENDs were lost. If the log no longer reaches back to them, give the window up without an
# answer: a full window would wait for ever, and nothing could be sent again.
cdef void _find_out(Core* core, Progress* progress) noexcept nogil:
    if progress.next > core.log.compacted:
        mark(MARK_LOST_APPENDS_SUSPECTED)
        _send_append(core, progress, progress.next - 1, NULL)
    elif progress.state != SNAPSHOT_WAIT:
        mark(MARK_FULL_WINDOW_GIVEN_UP)
        _need_snapshot(core, progress)


# Send what follows progress.next. False: nothing more can be sent to it now.
cdef bint _send_records(Core* core, Progress* progress) noexcept nogil:
    cdef Slice slice
    cdef index_t last
    if progress.next - 1 < core.log.compacted:
        mark(MARK_MEMBER_BEHIND_THE_LOG)
        _need_snapshot(core, progress)
        return False
    if (progress.state == PROBE and progress.next <= core.log.snapshotted
            and progress.match < core.log.snapshotted and buggify(BUGGIFY_SNAPSHOT_INSTEAD)):
        _need_snapshot(core, progress)
        return False
    if progress.next > core.log.last:
        mark(MARK_PROBE_WITHOUT_RECORDS)
        _send_append(core, progress, progress.next - 1, NULL)
        return False
    if progress.next <= core.log.offset:
        _read_log(core, progress)
        return False
    last = log_slice(&core.log, progress.next, core.log.last,
                     1 if buggify(BUGGIFY_APPEND_OF_ONE) else core.config.append_bytes_max, &slice)
    _send_append(core, progress, last, &slice)
    return progress.state == REPLICATE


# Send an APPEND of the records [progress.next, last], which stand in slice. NULL: no records.
cdef void _send_append(Core* core, Progress* progress, index_t last, const Slice* slice) noexcept nogil:
    cdef Message message
    message_init(core, &message, APPEND, progress.id)
    message.index = progress.next - 1
    message.log_term = log_term(&core.log, message.index)
    message.commit = core.log.committed
    if slice != NULL:
        message.records = slice[0]
        message.count = <uint32_t>(last - message.index)
        chunk_hold(slice.chunk)
    if progress.match == message.index or progress.state == REPLICATE:
        progress.commit_sent = max(progress.commit_sent, min(core.log.committed, last))
    if progress_on_sent(progress, last, message.records.length) != OK:
        out_of_memory(core)
    outbox_send(core, &message)


# Callers wait at the member and should not wait for the next heartbeat too.
cdef void _send_commit(Core* core, Progress* progress) noexcept nogil:
    cdef Message message
    message_init(core, &message, HEARTBEAT, progress.id)
    message.commit = min(progress.match, core.log.committed)
    progress.commit_sent = message.commit
    outbox_send(core, &message)


cdef void _need_snapshot(Core* core, Progress* progress) noexcept nogil:
    cdef Message message
    progress_on_snapshot_needed(progress, core.log.snapshotted)
    trace(core, TRACE_SNAPSHOT_NEEDED, progress.id, core.log.snapshotted)
    message_init(core, &message, SNAPSHOT, progress.id)
    message.index = core.log.snapshotted
    message.log_term = log_term(&core.log, message.index)
    outbox_send(core, &message)
    if not core.snapshots.push(progress.id):
        out_of_memory(core)


cdef void _read_log(Core* core, Progress* progress) noexcept nogil:
    cdef LogRead read
    read.peer = progress.id
    read.first = progress.next
    read.bytes_max = 1 if buggify(BUGGIFY_LOG_READ_OF_ONE) else core.config.append_bytes_max
    progress.is_log_read = True
    if not core.log_reads.push(read):
        out_of_memory(core)


cdef status_t replication_on_log_read(Core* core, const LogRead* read, const Slice* records,
                                      status_t status) noexcept nogil:
    cdef int position = membership_position(in_force(core), read.peer)
    cdef Progress* progress
    cdef index_t last
    cdef term_t term = 0
    if core.role != LEADER or position < 0:
        return STALE
    progress = &core.progress[position]
    if not progress.is_log_read or progress.next != read.first:
        return STALE
    progress.is_log_read = False
    core.must_replicate = True
    if status != OK:
        # The records were compacted meanwhile, or are damaged on this disk: a snapshot has them.
        if progress.next - 1 >= core.log.snapshotted:
            return status
        _need_snapshot(core, progress)
        return OK
    if not progress_can_send(progress, core.config.inflight_bytes_max):
        return STALE
    last = _last_record(records, &term)
    if last < read.first or last > core.log.last:
        return BAD_FIELD
    # The sender reads records from the file of an earlier term, and this member may have cut them since. It sends no
    # such
    # record in this term. Equal index and term mean an equal past (paper 5.3).
    if log_term(&core.log, last) != term:
        return STALE
    _send_append(core, progress, last, records)
    return OK


# Index and term of the last of these records; 0: there are none.
cdef index_t _last_record(const Slice* records, term_t* term) noexcept nogil:
    cdef uint64_t at = 0
    cdef index_t last = 0
    while at < records.length:
        last = (<const Record*>(records.data + at)).index
        term[0] = (<const Record*>(records.data + at)).term
        at += record_bytes((<const Record*>(records.data + at)).length)
    return last


# --- leader: answers and commit ---------------------------------------------------------------------------------------
cdef status_t replication_on_append_response(Core* core, const Message* message, int position) noexcept nogil:
    cdef Progress* progress = &core.progress[position]
    cdef index_t meet
    core.must_replicate = True
    if message.reject:
        # The member named the last place where its terms can agree with ours. Skip our terms above that place's term
        # too.
        meet = min(message.hint, log_find_conflict(&core.log, message.hint, message.log_term))
        mark(MARK_APPEND_REFUSED)
        return OK if progress_on_rejected(progress, message.index, meet, core.log.compacted) else STALE
    if message.index > core.log.last:
        return BAD_FIELD            # it cannot hold what was never sent
    if message.flags & MESSAGE_REPAIRING and message.index < core.log.compacted and progress.state != SNAPSHOT_WAIT:
        _need_snapshot(core, progress)      # the damaged record is gone here
        return OK
    if progress_on_accepted(progress, message.index, core.log.compacted):
        _commit_by_count(core)
        transfer_advance(core)
    return OK


cdef status_t replication_on_snapshot_response(Core* core, const Message* message, int position) noexcept nogil:
    cdef Progress* progress = &core.progress[position]
    if progress.state != SNAPSHOT_WAIT or message.index > core.log.last:
        mark(MARK_SNAPSHOT_RESPONSE_LATE)
        return STALE
    progress_on_snapshot_over(progress, 0 if message.reject else message.index)
    core.must_replicate = True
    _commit_by_count(core)
    return OK


cdef void replication_on_persisted(Core* core) noexcept nogil:
    # Why a completion names its write and not an index (the ABA race):
    #   1. a leader of term 2 appends 5..8; write 7 takes them to the disk
    #   2. a leader of term 3 replaces 6..8 by its own 6; truncation clips write_last to 5, write 8 is to follow
    #   3. the disk completes write 7: 6..8 of term 2 are durable
    #   4. "6 is durable" would acknowledge the 6 of term 3, which exists in memory only
    # So write 7 vouches for [first, write_last] and nothing above it.
    if core.write_last > core.log.persisted:
        core.log.persisted = core.write_last
    if core.role != LEADER:
        return
    core.must_replicate = True
    if core.position >= 0 and core.log.persisted > core.progress[core.position].match:
        core.progress[core.position].match = core.log.persisted
        _commit_by_count(core)


cdef void _commit_by_count(Core* core) noexcept nogil:
    cdef uint64_t[MEMBERS_MAX] matches
    cdef index_t reached
    cdef uint32_t i
    if core.role != LEADER:
        return
    for i in range(in_force(core).count):
        matches[i] = core.progress[i].match
    reached = quorum_reached(&core.electorate, matches)
    # Only entries of the current term are counted; earlier ones are committed with them (paper 5.4.2, Figure 8).
    if reached >= core.term_first:
        mark(MARK_COMMITTED_BY_COUNT)
        commit_to(core, reached)


cdef void commit_to(Core* core, index_t index) noexcept nogil:
    if index <= core.log.committed:
        return
    if index > core.log.last:
        broken(core, BROKEN_COMMITTED_BEYOND_LAST, index, core.log.last)
        return
    core.log.committed = index
    core.must_replicate = True
    core.must_feed = core.feed_count != 0
    trace(core, TRACE_COMMITTED, index, 0)
    membership_on_committed(core)


# --- member -----------------------------------------------------------------------------------------------------------
cdef index_t acknowledgeable(Core* core, index_t match) noexcept nogil:
    cdef index_t limit = log_first_damaged(&core.log)
    cdef size_t i
    for i in range(core.repaired.size):
        limit = min(limit, core.repaired.data[i])
    if core.write.id != 0 and core.write.repairs:
        limit = min(limit, core.write.first)
    return match if match < limit else limit - 1


# Each leader has all entries that a member knows as committed (paper 5.4.3 Leader Completeness). A leader with another
# entry there was elected by a voter that forgot what it had acknowledged (divergence.md "Lost history").
cdef status_t check_history(Core* core, index_t index, term_t term) noexcept nogil:
    cdef term_t own = log_term(&core.log, index)
    if index > core.log.committed or own == 0 or term == 0 or own == term:
        return OK
    return history_lost(core, BROKEN_TRUNCATED_COMMITTED, index, core.log.committed)


cdef status_t replication_on_append(Core* core, const Message* message) noexcept nogil:
    cdef status_t status = hear_leader(core, message.source)
    cdef index_t match
    if status != OK:
        return status
    if message.index < core.log.compacted:
        # A snapshot holds everything up to here already, so it is committed and equal.
        mark(MARK_APPEND_BELOW_THE_LOG)
        _accept(core, message, core.log.committed)
        return OK
    if message.index > core.log.last or log_term(&core.log, message.index) != message.log_term:
        status = check_history(core, message.index, message.log_term)
        if status != OK:
            return status
        mark(MARK_APPEND_DOES_NOT_MEET)
        _refuse(core, message)
        return OK
    status = take_records(core, message)
    if status != OK:
        return status
    match = message.index + message.count
    core.matched = max(core.matched, match)
    commit_to(core, min(message.commit, match))
    _accept(core, message, match)
    return OK


cdef void _accept(Core* core, const Message* message, index_t match) noexcept nogil:
    cdef Message response
    response_init(core, &response, APPEND_RESPONSE, message.source)
    response.index = acknowledgeable(core, match)
    if core.now < core.waiting_until:
        mark(MARK_CALLERS_WAIT_AT_MEMBER)
        response.flags |= MESSAGE_WAITING
    outbox_send(core, &response)


cdef void _refuse(Core* core, const Message* message) noexcept nogil:
    cdef Message response
    response_init(core, &response, APPEND_RESPONSE, message.source)
    response.reject = True
    response.index = message.index
    # The last entry here that is not younger than the leader's: all above it must conflict (paper 5.3). Every leader's
    # log
    # has the entries that are committed here.
    response.hint = max(log_find_conflict(&core.log, message.index, message.log_term), core.log.committed)
    response.hint = min(response.hint, message.index, log_first_damaged(&core.log) - 1)
    response.log_term = log_term(&core.log, response.hint)
    outbox_send(core, &response)


# Check all records of the message, find the first that is new, cut what conflicts, append the rest with one copy.
cdef status_t take_records(Core* core, const Message* message) noexcept nogil:
    cdef uint64_t chain = 0
    cdef bint is_known = log_chain(&core.log, message.index, &chain)
    cdef Slice rest = message.records
    cdef uint32_t count = message.count
    cdef status_t status
    if count == 0 and rest.length == 0:
        return OK
    status = log_check_records(rest.data, rest.length, count, message.index, message.log_term, chain, is_known,
                               message.term)
    if status == CORRUPT and is_known and _is_of_another_past(core, message, chain):
        return history_lost(core, BROKEN_TRUNCATED_COMMITTED, message.index, core.log.committed)
    if status == OK:
        status = _skip_known(core, &rest, &count)
    if status == OK and count:
        status = _check_memberships(&rest, count)
    if status != OK or count == 0:
        return status
    status = _cut_conflict(core, (<const Record*>rest.data).index)
    if status != OK:
        return status
    status = log_append_records(&core.log, &rest, count, False)
    if status == NO_MEMORY:
        out_of_memory(core)
    rounds_on_entries(core)
    return status if status != OK else take_memberships(core, (<const Record*>rest.data).index)


# Do the records continue another entry than the committed one that stands before them here?
cdef bint _is_of_another_past(Core* core, const Message* message, uint64_t chain) noexcept nogil:
    cdef const Record* first = <const Record*>message.records.data
    return message.index <= core.log.committed and chain_hash(chain, first) != first.chain


# Skip the records that this log has already, and mend damaged ones among them.
cdef status_t _skip_known(Core* core, Slice* rest, uint32_t* count) noexcept nogil:
    cdef const Record* record
    cdef uint64_t size, chain = 0
    cdef term_t term
    while count[0]:
        record = <const Record*>rest.data
        if record.index > core.log.last:
            return OK
        term = log_term(&core.log, record.index) if record.index > core.log.compacted else record.term
        if term == 0 and repair_take(core, rest, 0) != OK:
            return OK               # the record before it was another entry: a conflict
        if term != 0 and term != record.term:
            mark(MARK_ENTRY_CONFLICTS)
            return OK
        if log_chain(&core.log, record.index, &chain) and chain != record.chain:
            if record.index <= core.log.committed:
                return history_lost(core, BROKEN_TRUNCATED_COMMITTED, record.index, core.log.committed)
            return CORRUPT          # same index and term, another past: no message of this cluster's history
        size = record_bytes(record.length)
        rest.data += size
        rest.length -= <uint32_t>size
        count[0] -= 1
    return OK


# Cut the entries at and above first: they conflict with the leader's. There may be none.
cdef status_t _cut_conflict(Core* core, index_t first) noexcept nogil:
    cdef index_t old_last = core.log.last
    if first > old_last:
        return OK
    if first <= core.log.committed:
        return history_lost(core, BROKEN_TRUNCATED_COMMITTED, first, core.log.committed)
    mark(MARK_LOG_TRUNCATED)
    log_truncate(&core.log, first)
    # The write under way no longer vouches for what was cut (see replication_on_persisted).
    core.write_last = min(core.write_last, first - 1)
    core.matched = min(core.matched, first - 1)
    membership_on_truncated(core, first)
    trace(core, TRACE_TRUNCATED, first, old_last)
    return OK


# Read the memberships before anything changes: a message that carries nonsense changes nothing.
cdef status_t _check_memberships(const Slice* records, uint32_t count) noexcept nogil:
    cdef Membership membership
    cdef const Record* record
    cdef uint64_t at = 0
    cdef uint32_t _i
    for _i in range(count):
        record = <const Record*>(records.data + at)
        at += record_bytes(record.length)
        if record.type == ENTRY_MEMBERSHIP:
            if membership_decode(record_payload(record), record.length, &membership) != OK:
                return BAD_FIELD
    return OK


cdef status_t take_memberships(Core* core, index_t first) noexcept nogil:
    cdef Record* record
    cdef index_t index = first
    cdef status_t status
    while index <= core.log.last:
        record = log_record(&core.log, index)
        if record != NULL and record.type == ENTRY_MEMBERSHIP:      # a damaged one is taken when it is repaired
            status = membership_take(core, index, record_payload(record), record.length)
            if status != OK:
                return status
        index += 1
    return OK


cdef status_t replication_on_heartbeat(Core* core, const Message* message) noexcept nogil:
    cdef Message response
    cdef status_t status = hear_leader(core, message.source)
    if status != OK:
        return status
    # The leader clamped it to our acknowledgement. A log that ends before it is not the log that we acknowledged with:
    # its
    # folder was put back to an older copy.
    if message.commit > core.log.last:
        return history_lost(core, BROKEN_ACKNOWLEDGED_LOST, message.commit, core.log.last)
    commit_to(core, min(message.commit, core.matched))
    rounds_hear_lease_clock(core, message.lease_ms)
    if message.context != 0:
        response_init(core, &response, HEARTBEAT_RESPONSE, message.source)
        response.context = message.context
        # After a restart in this term the member knows nothing of the leader's log. A commit index means nothing here
        # until an
        # APPEND has shown where the logs meet.
        response.reject = message.commit > core.matched
        outbox_send(core, &response)
    return OK


cdef status_t replication_on_snapshot(Core* core, const Message* message) noexcept nogil:
    cdef status_t status = hear_leader(core, message.source)
    if status == OK:
        status = check_history(core, message.index, message.log_term)
    if status == OK and message.index <= core.log.committed:
        mark(MARK_SNAPSHOT_NOT_NEEDED)
        _accept(core, message, core.log.committed)      # the member has all that already
    return status
