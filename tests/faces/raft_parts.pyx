"""The leaves of the core for tests: a Log, a Progress and the arithmetic of quorums, each without a core around it."""
from libc.stdint cimport INT64_MAX, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from collections import namedtuple

from raftmeta.native.chunks cimport Slice, chunk_create, chunk_drop, chunk_hold
from raftmeta.native.containers cimport Vec
from raftmeta.raft.log cimport (Log, log_append, log_append_damaged, log_append_records, log_begin, log_bytes_between,
                                log_chain, log_check, log_check_records, log_compact, log_find_conflict,
                                log_first_damaged, log_init, log_is_up_to_date, log_memory_bytes, log_record,
                                log_release, log_release_memory, log_repair, log_slice, log_slices, log_term,
                                log_tick, log_truncate)
from raftmeta.raft.progress cimport (Progress, progress_can_send, progress_init, progress_on_accepted,
                                     progress_on_heartbeat_answered, progress_on_lost, progress_on_rejected,
                                     progress_on_sent, progress_on_snapshot_needed, progress_on_snapshot_over,
                                     progress_on_tick, progress_release)
from raftmeta.raft.quorum cimport Electorate, quorum_has, quorum_reached, quorum_votes
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport MEMBERS_MAX, Record, SnapshotPoint
from raftmeta.status cimport OK, status_t

_STATUSES = {
    0: "OK", 66: "BAD_VERSION", 67: "BAD_CHECKSUM", 68: "BAD_LENGTH", 69: "BAD_FIELD", 75: "CORRUPT", 78: "STALE",
}
_STATES = ("", "PROBE", "REPLICATE", "SNAPSHOT_WAIT")
_VOTE_RESULTS = ("", "PENDING", "WON", "LOST")

LogPointers = namedtuple(
    "LogPointers", "compacted snapshotted applied committed last persisted staged offset last_chain",
)
ProgressPointers = namedtuple(
    "ProgressPointers",
    "state match next is_probe_sent must_send_empty snapshot_index inflight_count inflight_bytes round is_caught_up",
)


cdef Slice _slice(bytes data):
    cdef Slice slice
    slice.chunk = chunk_create(<uint32_t>max(len(data), 1))
    if slice.chunk == NULL:
        raise MemoryError
    memcpy(slice.chunk.bytes(), <const char*>data, len(data))
    slice.data = slice.chunk.bytes()
    slice.length = <uint32_t>len(data)
    return slice


cdef class LogHandle:
    """A raft/log of its own."""

    cdef Log log
    cdef Vec[Slice] shown

    def __cinit__(self, chunk_bytes):
        """chunk_bytes: size of an arena chunk."""
        log_init(&self.log, chunk_bytes)

    def __dealloc__(self):
        cdef size_t i
        for i in range(self.shown.size):
            chunk_drop(self.shown.data[i].chunk)
        self.shown.release()
        log_release(&self.log)

    def begin(self, index, term, chain):
        """The log is empty after this entry."""
        cdef SnapshotPoint point
        point.index, point.term, point.chain = index, term, chain
        log_begin(&self.log, &point)

    def append(self, term, payload, *, type=2, wall_ms=0, lease_ms=0):
        """Append one entry, as a leader does."""
        cdef bytes data = payload
        return _STATUSES[log_append(&self.log, term, type, wall_ms, lease_ms, <const uint8_t*><const char*>data,
                                    len(data))]

    def append_records(self, records, count, *, is_shared=False):
        """Append records that were checked, copied or shared."""
        cdef Slice slice = _slice(records)
        cdef status_t status = log_append_records(&self.log, &slice, count, is_shared)
        chunk_drop(slice.chunk)
        return _STATUSES[status]

    def append_damaged(self, index, chain):
        """A place for a damaged record."""
        return _STATUSES[log_append_damaged(&self.log, index, chain)]

    def repair(self, record):
        """Put a sound record into its damaged place."""
        cdef Slice slice = _slice(record)
        cdef status_t status = log_repair(&self.log, &slice)
        chunk_drop(slice.chunk)
        return _STATUSES[status]

    def truncate(self, first):
        """Remove all entries at and above first."""
        return _STATUSES[log_truncate(&self.log, first)]

    def compact(self, compact_to):
        """Entries up to this one go for good; snapshotted must be there already."""
        log_compact(&self.log, compact_to)

    def release_memory(self, through, bytes_max):
        """Whole runs up to `through` leave memory until bytes_max are left."""
        log_release_memory(&self.log, through, bytes_max)

    def tick(self):
        """Time passes."""
        log_tick(&self.log)

    def spares(self):
        """How many chunks are kept for records to come."""
        return self.log.spares.size

    def set_pointers(self, *, committed=None, applied=None, snapshotted=None, staged=None, persisted=None):
        """Move the pointers that belong to the core."""
        if committed is not None:
            self.log.committed = committed
        if staged is not None:
            self.log.staged = staged
        if persisted is not None:
            self.log.persisted = persisted
        if applied is not None:
            self.log.applied = applied
        if snapshotted is not None:
            self.log.snapshotted = snapshotted

    def pointers(self):
        """The pointer chain and what is in memory."""
        return LogPointers(
            self.log.compacted, self.log.snapshotted, self.log.applied, self.log.committed, self.log.last,
            self.log.persisted, self.log.staged, self.log.offset, self.log.last_chain,
        )

    def term(self, index):
        """Term of the entry; 0: not known."""
        return log_term(&self.log, index)

    def chain(self, index):
        """Chain hash of the entry; None: not known."""
        cdef uint64_t chain = 0
        return chain if log_chain(&self.log, index, &chain) else None

    def record(self, index):
        """Bytes of the record; None: not in memory."""
        cdef Record* record = log_record(&self.log, index)
        return None if record == NULL else (<const char*>record)[:record_bytes(record.length)]

    def slice(self, first, last, bytes_max):
        """(last index in it, bytes) of one contiguous slice; (0, b"") when first is not in memory."""
        cdef Slice slice
        cdef uint64_t end
        memset(&slice, 0, sizeof(slice))
        end = log_slice(&self.log, first, last, bytes_max, &slice)
        return (end, (<const char*>slice.data)[:slice.length]) if end else (0, b"")

    def slices(self, first, last):
        """Bytes of each contiguous part of [first, last]."""
        cdef Vec[Slice] slices
        cdef size_t i
        memset(&slices, 0, sizeof(slices))
        status = log_slices(&self.log, first, last, &slices)
        parts = []
        for i in range(slices.size):
            parts.append((<const char*>slices.data[i].data)[:slices.data[i].length])
            chunk_drop(slices.data[i].chunk)
        slices.release()
        if status != OK:
            raise IndexError(first)
        return parts

    def show(self, first, last):
        """Hold a slice as a socket does, and return its bytes; reread compares them later."""
        cdef Slice slice
        if log_slice(&self.log, first, last, 1 << 30, &slice) == 0:
            raise IndexError(first)
        chunk_hold(slice.chunk)
        self.shown.push(slice)
        return (<const char*>slice.data)[:slice.length]

    def reread(self):
        """The bytes of all that was shown, as they are now."""
        cdef size_t i
        parts = []
        for i in range(self.shown.size):
            parts.append((<const char*>self.shown.data[i].data)[:self.shown.data[i].length])
        return parts

    def find_conflict(self, index, term):
        """Where two logs may still agree."""
        return log_find_conflict(&self.log, index, term)

    def is_up_to_date(self, index, term):
        """Is another log with this last entry at least as up to date?"""
        return bool(log_is_up_to_date(&self.log, index, term))

    def first_damaged(self):
        """Index of the first damaged record; None: the log is whole."""
        first = log_first_damaged(&self.log)
        return None if first == 2**64 - 1 else first

    def memory_bytes(self):
        """Bytes of the records in memory."""
        return log_memory_bytes(&self.log)

    def bytes_between(self, low, high):
        """Bytes of records in (low, high]."""
        return log_bytes_between(&self.log, low, high)

    def check(self):
        """0, or the number of the invariant that is broken."""
        cdef uint64_t a = 0, b = 0
        return log_check(&self.log, True, &a, &b)


def check_records(records, count, *, index=0, term=0, chain=None, term_max=INT64_MAX):
    """Are these `count` records a continuation of (index, term, chain)?"""
    cdef bytes data = records
    return _STATUSES[log_check_records(<const uint8_t*><const char*>data, len(data), count, index, term, chain or 0,
                                       chain is not None, term_max)]


cdef class ProgressHandle:
    """A raft/progress of its own."""

    cdef Progress progress

    def __cinit__(self, last, now=0):
        """A member at the beginning of a term; last: the leader's last index."""
        progress_init(&self.progress, 7, last, now)

    def __dealloc__(self):
        progress_release(&self.progress)

    def can_send(self, inflight_bytes_max):
        """May an APPEND leave?"""
        return bool(progress_can_send(&self.progress, inflight_bytes_max))

    def on_sent(self, last, bytes):
        """An APPEND up to last left."""
        return _STATUSES[progress_on_sent(&self.progress, last, bytes)]

    def on_accepted(self, index, compacted=0):
        """The member acknowledged index. True: match has grown."""
        return bool(progress_on_accepted(&self.progress, index, compacted))

    def on_rejected(self, index, meet, compacted=0):
        """The member refused. False: nothing new."""
        return bool(progress_on_rejected(&self.progress, index, meet, compacted))

    def on_lost(self):
        """A send failed."""
        progress_on_lost(&self.progress)

    def on_heartbeat_answered(self, round, last):
        """It answered this round."""
        progress_on_heartbeat_answered(&self.progress, round, last)

    def on_snapshot_needed(self, index):
        """What it needs is compacted."""
        progress_on_snapshot_needed(&self.progress, index)

    def on_snapshot_over(self, installed):
        """Installed up to this index; 0: failed."""
        progress_on_snapshot_over(&self.progress, installed)

    def on_tick(self, last, now, election_timeout_ticks):
        """Judge whether a learner has caught up."""
        progress_on_tick(&self.progress, last, now, election_timeout_ticks)

    def pointers(self):
        """All that is known."""
        return ProgressPointers(
            _STATES[<int>self.progress.state], self.progress.match, self.progress.next,
            bool(self.progress.is_probe_sent), bool(self.progress.must_send_empty), self.progress.snapshot_index,
            self.progress.inflights.size, self.progress.inflight_bytes, self.progress.round,
            bool(self.progress.is_caught_up),
        )


cdef Electorate _electorate(incoming, outgoing):
    cdef Electorate electorate
    electorate.incoming = sum(1 << position for position in incoming)
    electorate.outgoing = sum(1 << position for position in outgoing)
    return electorate


def has_quorum(incoming, outgoing, agreeing):
    """Do these positions hold a majority of both sets?"""
    cdef Electorate electorate = _electorate(incoming, outgoing)
    return bool(quorum_has(&electorate, sum(1 << position for position in agreeing)))


def votes(incoming, outgoing, granted, refused):
    """"PENDING", "WON" or "LOST"."""
    cdef Electorate electorate = _electorate(incoming, outgoing)
    return _VOTE_RESULTS[<int>quorum_votes(&electorate, sum(1 << i for i in granted), sum(1 << i for i in refused))]


def reached(incoming, outgoing, numbers):
    """The greatest number that a majority of both sets reached; numbers by position."""
    cdef Electorate electorate = _electorate(incoming, outgoing)
    cdef uint64_t[MEMBERS_MAX] values
    memset(values, 0, sizeof(values))
    for position, number in enumerate(numbers):
        values[position] = number
    return quorum_reached(&electorate, values)
