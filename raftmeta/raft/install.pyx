"""Put a snapshot in the place of log entries; install.pxd has the rules."""
from libc.stdint cimport uint64_t

from raftmeta.native.marks cimport (MARK_INSTALLED_AND_LOG_BEGUN, MARK_INSTALLED_OF_HIGHER_TERM,
                                    MARK_INSTALLED_OVER_NEWER_TAIL, mark)
from raftmeta.raft.election cimport become_follower
from raftmeta.raft.invariants cimport BROKEN_TRUNCATED_COMMITTED
from raftmeta.raft.log cimport log_begin, log_chain, log_compact, log_term
from raftmeta.raft.membership_change cimport membership_on_committed, membership_set
from raftmeta.raft.outbox cimport outbox_drop_held, outbox_send, response_init
from raftmeta.raft.ready cimport LEADER
from raftmeta.raft.replication cimport check_history, take_memberships
from raftmeta.raft.state cimport Core, history_lost
from raftmeta.raft.types cimport SNAPSHOT_RESPONSE, Membership, Message, SnapshotPoint, index_t
from raftmeta.status cimport OK, status_t


cdef status_t install(Core* core, const SnapshotPoint* point, const Membership* membership,
                      bint* begins) noexcept nogil:
    cdef uint64_t chain = 0
    cdef status_t status = check_history(core, point.index, point.term)
    if status != OK:
        return status               # a snapshot is committed state, and so is our entry at its point
    if point.index <= core.log.committed and log_chain(&core.log, point.index, &chain) and chain != point.chain:
        return history_lost(core, BROKEN_TRUNCATED_COMMITTED, point.index, core.log.committed)
    if point.term > core.hard.term:
        mark(MARK_INSTALLED_OF_HIGHER_TERM)
        become_follower(core, point.term, 0)        # it came from a member that is ahead of us
    # The tail stays if it continues the snapshot and the disk holds the log that far; else the log begins anew after
    # point.
    if _continues(core, point):
        mark(MARK_INSTALLED_OVER_NEWER_TAIL)
        core.log.committed = max(core.log.committed, point.index)
        core.log.applied = core.log.snapshotted = point.index
        forget_entries(core, point.index)
        core.log.compacted_term = point.term        # the entry there may be damaged
        core.log.offset_chain = point.chain
        status = _replace_memberships(core, membership, point.index)
    else:
        begins[0] = True
        mark(MARK_INSTALLED_AND_LOG_BEGUN)
        log_begin(&core.log, point)
        core.matched = 0
        core.write_last = 0             # a write under way vouches for nothing that is still in the log
        core.repaired.clear()
        outbox_drop_held(core)
        status = membership_set(core, membership)
    core.applying = point.index
    if core.leader != 0:
        core.matched = max(core.matched, point.index)       # committed, so the leader has it too
    membership_on_committed(core)
    _report_snapshot(core, point.index)
    return status


# A damaged entry is known by its chain hash alone. Entries behind it were acknowledged and must not be dropped.
cdef bint _continues(Core* core, const SnapshotPoint* point) noexcept nogil:
    cdef uint64_t chain = 0
    if core.log.persisted < point.index:
        return False
    if log_term(&core.log, point.index) == point.term:
        return True
    return log_chain(&core.log, point.index, &chain) and chain == point.chain


# Take the snapshot's membership, then those of the entries that were kept behind it.
cdef status_t _replace_memberships(Core* core, const Membership* membership, index_t index) noexcept nogil:
    cdef status_t status = membership_set(core, membership)
    return status if status != OK else take_memberships(core, index + 1)


cdef void _report_snapshot(Core* core, index_t index) noexcept nogil:
    cdef Message message
    if core.role == LEADER or core.leader == 0 or core.config.is_observer:
        return
    response_init(core, &message, SNAPSHOT_RESPONSE, core.leader)
    message.index = index
    outbox_send(core, &message)


cdef void forget_entries(Core* core, index_t compact_to) noexcept nogil:
    cdef size_t i, kept = 0
    log_compact(&core.log, compact_to)
    # Mended records that are gone now need not be written again.
    for i in range(core.repaired.size):
        if core.repaired.data[i] > compact_to:
            core.repaired.data[kept] = core.repaired.data[i]
            kept += 1
    core.repaired.size = kept
