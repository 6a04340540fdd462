"""Every transition of a Progress; progress.pxd draws them."""
from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.buggify cimport BUGGIFY_APPENDS_AGAIN, BUGGIFY_HINT_IGNORED, BUGGIFY_WINDOW_OF_ONE, buggify
from raftmeta.native.marks cimport (MARK_ACKNOWLEDGED_LESS, MARK_LAST_APPENDS_UNANSWERED, MARK_LEARNER_ROUND,
                                    MARK_PIPELINED, MARK_PIPELINE_LOST, MARK_REFUSAL_BELOW_MATCH,
                                    MARK_REFUSAL_OF_THE_PAST, MARK_SNAPSHOT_CAUGHT_UP,
                                    MARK_LOG_SERVES_AFTER_ALL, MARK_SNAPSHOT_STILL_NEEDED, mark)
from raftmeta.raft.types cimport index_t, member_id_t
from raftmeta.status cimport NO_MEMORY, OK, status_t


cdef void progress_init(Progress* progress, member_id_t id, index_t last, uint64_t now) noexcept nogil:
    progress_release(progress)
    memset(progress, 0, sizeof(Progress))
    progress.id = id
    progress.state = PROBE
    progress.next = last + 1
    progress.heard_tick = now       # every member gets an election time-out before check-quorum counts
    progress.free_bytes = UINT64_MAX
    progress.catch_up_index = last
    progress.catch_up_tick = now


cdef void progress_release(Progress* progress) noexcept nogil:
    progress.inflights.release()
    progress.inflight_bytes = 0


cdef void _forget_inflights(Progress* progress) noexcept nogil:
    progress.inflights.clear()
    progress.inflight_bytes = 0


cdef bint progress_can_send(const Progress* progress, uint64_t inflight_bytes_max) noexcept nogil:
    if progress.state == PROBE:
        return not progress.is_probe_sent
    if progress.inflights.size != 0 and buggify(BUGGIFY_WINDOW_OF_ONE):
        return False
    return (progress.state == REPLICATE and progress.inflight_bytes < inflight_bytes_max
            and progress.inflights.size < TUNE_INFLIGHTS_MAX)


cdef status_t progress_on_sent(Progress* progress, index_t last, uint64_t bytes) noexcept nogil:
    cdef Inflight inflight
    progress.must_send_empty = False
    if progress.state == PROBE:
        progress.is_probe_sent = True
    elif last >= progress.next:
        inflight.last = last
        inflight.bytes = bytes
        if not progress.inflights.push(inflight):
            return NO_MEMORY
        progress.inflight_bytes += bytes
        progress.next = last + 1
    return OK


cdef bint progress_on_accepted(Progress* progress, index_t index, index_t compacted) noexcept nogil:
    cdef bint has_grown = index > progress.match
    if index < progress.match:
        mark(MARK_ACKNOWLEDGED_LESS)
        return False                # an old answer; match never steps back
    progress.match = index
    if progress.next <= index:
        # The entries that the log file is read for have arrived. To wait on for that read would be to wait for ever.
        progress.next = index + 1
        progress.is_log_read = False
    if progress.state == REPLICATE:
        while progress.inflights.size and progress.inflights.front().last <= index:
            progress.inflight_bytes -= progress.inflights.front().bytes
            progress.inflights.pop_front()
    elif progress.state == PROBE or index >= compacted:
        _become_replicate(progress)
    return has_grown


cdef void _become_replicate(Progress* progress) noexcept nogil:
    mark(MARK_PIPELINED)
    _forget_inflights(progress)
    progress.state = REPLICATE
    progress.next = progress.match + 1
    progress.is_probe_sent = False
    progress.is_log_read = False
    progress.snapshot_index = 0


cdef void _become_probe(Progress* progress, index_t next) noexcept nogil:
    _forget_inflights(progress)
    progress.state = PROBE
    progress.next = next if next > progress.match else progress.match + 1
    progress.is_probe_sent = False
    progress.must_send_empty = False
    progress.is_log_read = False
    progress.snapshot_index = 0


cdef bint progress_on_rejected(Progress* progress, index_t index, index_t meet, index_t compacted) noexcept nogil:
    if index <= progress.match:
        mark(MARK_REFUSAL_BELOW_MATCH)
        return False
    # One refusal answers the probe. Refusals of APPENDs that were pipelined before come late and say nothing new.
    if progress.state != REPLICATE and progress.next - 1 != index:
        mark(MARK_REFUSAL_OF_THE_PAST)
        return False
    if progress.state == SNAPSHOT_WAIT:
        if meet < compacted:
            mark(MARK_SNAPSHOT_STILL_NEEDED)
            return False
        mark(MARK_LOG_SERVES_AFTER_ALL)
    _become_probe(progress, index if index < meet + 1 or buggify(BUGGIFY_HINT_IGNORED) else meet + 1)
    return True


cdef void progress_on_lost(Progress* progress) noexcept nogil:
    # The APPENDs under way may be lost: begin again behind the entries that are known to have arrived.
    if progress.state == REPLICATE:
        mark(MARK_PIPELINE_LOST)
        _become_probe(progress, progress.match + 1)


cdef void progress_on_heartbeat_answered(Progress* progress, uint64_t round, index_t last) noexcept nogil:
    if round > progress.round:
        progress.round = round
    if progress.state == PROBE:
        progress.is_probe_sent = False
    elif progress.match < last:
        # The last APPENDs, or the answer to a snapshot, may be lost, and no later message would show the loss.
        mark(MARK_LAST_APPENDS_UNANSWERED)
        progress.must_send_empty = True
        if buggify(BUGGIFY_APPENDS_AGAIN):
            progress_on_lost(progress)


cdef void progress_on_snapshot_needed(Progress* progress, index_t index) noexcept nogil:
    _become_probe(progress, progress.match + 1)
    progress.state = SNAPSHOT_WAIT
    progress.snapshot_index = index
    progress.next = max(index, progress.match) + 1


cdef void progress_on_snapshot_over(Progress* progress, index_t installed) noexcept nogil:
    if progress.state != SNAPSHOT_WAIT:
        return
    if installed > progress.match:
        mark(MARK_SNAPSHOT_CAUGHT_UP)
        progress.match = installed
    _become_probe(progress, progress.match + 1)
    progress.is_probe_sent = installed == 0     # after a failure wait for its next heartbeat answer


cdef void progress_on_tick(Progress* progress, index_t last, uint64_t now,
                           uint32_t election_timeout_ticks) noexcept nogil:
    cdef bint is_late = now - progress.catch_up_tick > election_timeout_ticks
    if progress.match >= progress.catch_up_index and progress.state == REPLICATE:
        mark(MARK_LEARNER_ROUND)
        progress.is_caught_up = not is_late
        progress.catch_up_index = last
        progress.catch_up_tick = now
    elif is_late:
        progress.is_caught_up = False
