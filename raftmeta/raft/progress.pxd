# A leader's knowledge of one member, and every transition of it.
#
#     PROBE       nobody knows where the logs meet: one APPEND at a time, then wait for its answer or for a heartbeat's
#     REPLICATE   they meet at `match`: APPENDs are pipelined, at most inflight_bytes_max and TUNE_INFLIGHTS_MAX of them
#                 unanswered (thesis 10.2.1); entries proposed meanwhile leave together when an answer makes room
#     SNAPSHOT    it needs an entry that is compacted: it gets nothing until a snapshot is installed or has failed
#
#                    answer accepted                         it needs a compacted entry
#          PROBE -------------------> REPLICATE      PROBE, REPLICATE ----------------> SNAPSHOT
#          PROBE <------------------- REPLICATE      PROBE <--------------------------- SNAPSHOT
#                  rejected or lost                 installed, failed, or the log can serve it
#
# Invariant: match < next. This module never decides what is committed and sends nothing itself.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.containers cimport Ring
from raftmeta.raft.types cimport index_t, member_id_t
from raftmeta.status cimport status_t

cdef enum:
    TUNE_INFLIGHTS_MAX = 256    # single records, sent one by one, would fill a window of bytes with frames

cdef enum ProgressState:
    PROBE = 1
    REPLICATE = 2
    SNAPSHOT_WAIT = 3

cdef struct Inflight:
    index_t last                # of the APPEND
    uint64_t bytes

cdef struct Progress:
    member_id_t id
    ProgressState state
    index_t match               # its disk is known to hold entries up to it, equal to ours
    index_t next                # first index to send next; in REPLICATE ahead of the acknowledged ones
    bint is_probe_sent          # PROBE: an APPEND is unanswered
    bint must_send_empty        # an APPEND without records is due, to find out whether the last ones were lost
    bint is_log_read            # the log file is being read for records from `next`
    index_t snapshot_index      # SNAPSHOT_WAIT: point of the snapshot
    Ring[Inflight] inflights
    uint64_t inflight_bytes
    uint64_t heard_tick         # when it last answered in this term
    bint was_heard              # it has answered at all
    uint64_t round              # highest heartbeat round it answered
    uint64_t free_bytes         # room in its log
    uint64_t waiting_until      # callers wait there until this tick: send it every new commit index at once
    index_t commit_sent         # highest commit index it was told
    index_t catch_up_index      # learner: end of the round of catching up under way (thesis 4.2.1)
    uint64_t catch_up_tick      #   and when that round began
    bint was_offered            # it was offered a snapshot for its repair, perhaps by a member that does not lead
    uint64_t offered_tick
    bint is_caught_up           # learner: its last round took less than an election time-out

# A new member, or any member at the beginning of a term (paper Figure 2 "nextIndex").
cdef void progress_init(Progress* progress, member_id_t id, index_t last, uint64_t now) noexcept nogil
cdef void progress_release(Progress* progress) noexcept nogil
cdef bint progress_can_send(const Progress* progress, uint64_t inflight_bytes_max) noexcept nogil
# An APPEND of `bytes` with records [next, last] left (last = next - 1: no records).
cdef status_t progress_on_sent(Progress* progress, index_t last, uint64_t bytes) noexcept nogil
# The member acknowledged `index`. True: match has grown.
cdef bint progress_on_accepted(Progress* progress, index_t index, index_t compacted) noexcept nogil
# The member refused the APPEND after `index`; the logs may meet at `meet`. False: the answer is old.
# A member that waits for a snapshot refuses the empty APPEND at the snapshot's point. If `meet` is at or above
# `compacted`, the log has all that this member lacks, and it needs no snapshot. It never asks for a file at or below
# what it applied.
cdef bint progress_on_rejected(Progress* progress, index_t index, index_t meet, index_t compacted) noexcept nogil
cdef void progress_on_lost(Progress* progress) noexcept nogil                # a send failed, the connection broke
cdef void progress_on_heartbeat_answered(Progress* progress, uint64_t round, index_t last) noexcept nogil
cdef void progress_on_snapshot_needed(Progress* progress, index_t index) noexcept nogil
cdef void progress_on_snapshot_over(Progress* progress, index_t installed) noexcept nogil       # 0: it failed
# A learner has caught up when, within one election time-out, it reaches the end that the log had when the round began.
cdef void progress_on_tick(Progress* progress, index_t last, uint64_t now,
                           uint32_t election_timeout_ticks) noexcept nogil
