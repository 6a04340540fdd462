"""The core for tests and tools: every verb of _core.pxd as a method, every struct as a named tuple. Copies in and out;
nothing of the engine uses it. core_handle.pyi is its manual.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from collections import namedtuple

from raftmeta._core cimport (CLOCK_JUMPED, PEER_CONNECTED, PEER_REFUSED, PEER_SNAPSHOT_FAILED, PEER_SNAPSHOT_SENT,
                             PEER_UNREACHABLE, CoreStatus as CCoreStatus, PeerEvent, core_applied, core_campaign,
                             core_change_membership, core_compacted, core_create, core_destroy, core_has_ready,
                             core_log_read, core_membership, core_peer_event, core_persisted, core_propose,
                             core_read_index, core_ready, core_restore_damaged, core_restore_membership,
                             core_restore_records, core_restored, core_set_clocks, core_set_free_bytes,
                             core_snapshot_installed, core_status, core_step, core_tick, core_transfer)
from raftmeta.native.chunks cimport Slice, chunk_create, chunk_drop
from raftmeta.native.containers cimport Vec
from raftmeta.raft.log cimport Log, log_append, log_init, log_record, log_release
from raftmeta.raft.membership cimport membership_encode
from raftmeta.raft.progress cimport Progress
from raftmeta.raft.ready cimport LogRead as CLogRead
from raftmeta.raft.ready cimport Ready as CReady
from raftmeta.raft.record cimport record_bytes, record_check, record_payload
from raftmeta.raft.state cimport Core, CoreConfig, core_config_init, in_force
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, MEMBERS_MAX, NAME_BYTES_MAX, Record
from raftmeta.raft.types cimport HardState as CHardState
from raftmeta.raft.types cimport Membership as CMembership
from raftmeta.raft.types cimport Message as CMessage
from raftmeta.raft.types cimport SnapshotPoint as CSnapshotPoint
from raftmeta.sim.small.copies cimport core_copy, core_digest, core_settle
from raftmeta.status cimport OK, status_t

VOTER = 1
VOTER_OUTGOING = 2
LEARNER = 4
LEARNER_NEXT = 8

_MESSAGE_TYPES = (
    "", "APPEND", "APPEND_RESPONSE", "HEARTBEAT", "HEARTBEAT_RESPONSE", "PRE_VOTE", "PRE_VOTE_RESPONSE", "VOTE",
    "VOTE_RESPONSE", "PROPOSE", "PROPOSE_RESPONSE", "READ_INDEX", "READ_INDEX_RESPONSE", "SNAPSHOT",
    "SNAPSHOT_RESPONSE", "TRANSFER", "TIMEOUT_NOW", "ENTRY_REQUEST", "ENTRY_RESPONSE", "MEMBERSHIP_PROPOSE",
    "FEED_REQUEST", "FEED", "FEED_MEMBERSHIP",
)
_ENTRY_TYPES = ("", "NOOP", "COMMAND", "MEMBERSHIP")
_ROLES = ("", "FOLLOWER", "PRE_CANDIDATE", "CANDIDATE", "LEADER")
_STATES = ("", "PROBE", "REPLICATE", "SNAPSHOT_WAIT")
_TRACES = (
    "", "BECAME_FOLLOWER", "BECAME_PRE_CANDIDATE", "BECAME_CANDIDATE", "BECAME_LEADER", "COMMITTED", "TRUNCATED",
    "MEMBERSHIP", "VOTE_REFUSED", "TRANSFER", "SNAPSHOT_NEEDED", "STEPPED_DOWN", "REPAIR", "TRANSFER_ABORTED",
    "PROMOTED", "LEADER_LOST", "READS_VOID",
)
_EVENTS = {
    "PEER_CONNECTED": PEER_CONNECTED,
    "PEER_UNREACHABLE": PEER_UNREACHABLE,
    "PEER_REFUSED": PEER_REFUSED,
    "PEER_SNAPSHOT_SENT": PEER_SNAPSHOT_SENT,
    "PEER_SNAPSHOT_FAILED": PEER_SNAPSHOT_FAILED,
    "CLOCK_JUMPED": CLOCK_JUMPED,
}
_STATUSES = {
    0: "OK", 32: "NO_LEADER", 33: "NOT_READY", 34: "OVERLOADED", 35: "NO_SPACE", 64: "INCOMPLETE", 66: "BAD_VERSION",
    67: "BAD_CHECKSUM", 68: "BAD_LENGTH", 69: "BAD_FIELD", 71: "FOREIGN_NODE", 73: "NOT_FOUND", 74: "ALREADY",
    75: "CORRUPT", 78: "STALE", 96: "NO_MEMORY", 98: "INVARIANT_BROKEN", 102: "HISTORY_LOST",
}
_STATUS_NUMBERS = {name: number for number, name in _STATUSES.items()}
_FATAL = 96

Message = namedtuple(
    "Message",
    "type source target term index log_term commit hint context free_bytes reject flags count records lease_ms",
    defaults=(0, 0, 0, 0, 0, 0, 0, False, 0, 0, b"", 0),
)
Member = namedtuple("Member", "id roles name address", defaults=(VOTER, "", ""))
Membership = namedtuple("Membership", "members is_joint index", defaults=(False, 0))
HardState = namedtuple("HardState", "term vote committed", defaults=(0, 0, 0))
SnapshotPoint = namedtuple("SnapshotPoint", "index term chain", defaults=(0, 0, 0))
Entry = namedtuple("Entry", "index term type payload chain wall_ms lease_ms")
Write = namedtuple("Write", "id hard_state first last records truncates repairs")
Apply = namedtuple("Apply", "first last records")
ReadReady = namedtuple("ReadReady", "context index status")
ProposalRefused = namedtuple("ProposalRefused", "context status")
LogRead = namedtuple("LogRead", "peer first bytes_max")
Trace = namedtuple("Trace", "type term a b")
Ready = namedtuple("Ready", "messages write apply reads refusals log_reads snapshots traces soft_state_changed")
ProgressView = namedtuple("ProgressView", "id state match next inflight_count inflight_bytes is_caught_up")
_STATUS_FIELDS = (
    "id role term vote leader compacted snapshotted applied committed persisted last last_term last_chain lease_ms"
    " is_ready_to_read is_repairing transferring membership_index feeder feed_depth feed_count"
)
CoreStatus = namedtuple("CoreStatus", _STATUS_FIELDS)


class CoreBroken(Exception):
    """A fatal status: the core has stopped. `status` is its name; `broken`, `a` and `b` tell the broken invariant."""

    status = "OK"
    broken = 0
    a = 0
    b = 0

    def __init__(self, status, broken, a, b):
        super().__init__(f"{status}: invariant {broken}, {a} against {b}")
        self.status = status
        self.broken = broken
        self.a = a
        self.b = b


# --- structs from tuples and back ------------------------------------------------------------------------------------
# A chunk of its own with one holder: chunk_drop it.
cdef Slice _slice(bytes data):
    cdef Slice slice
    slice.chunk = chunk_create(<uint32_t>max(len(data), 1))
    if slice.chunk == NULL:
        raise MemoryError
    memcpy(slice.chunk.bytes(), <const char*>data, len(data))
    slice.chunk.used = <uint32_t>len(data)
    slice.data = slice.chunk.bytes()
    slice.length = <uint32_t>len(data)
    return slice


cdef bytes _join(const Slice* slices, uint32_t count):
    return b"".join([(<const char*>slices[i].data)[:slices[i].length] for i in range(count)])


cdef int _fill_message(CMessage* out, message) except -1:
    cdef Slice slice = _slice(message.records)
    memset(out, 0, sizeof(CMessage))
    out.type = _MESSAGE_TYPES.index(message.type)
    out.source = message.source
    out.target = message.target
    out.term = message.term
    out.index = message.index
    out.log_term = message.log_term
    out.commit = message.commit
    out.hint = message.hint
    out.context = message.context
    out.free_bytes = message.free_bytes
    out.lease_ms = message.lease_ms
    out.reject = bool(message.reject)
    out.flags = message.flags
    out.count = message.count
    out.records = slice
    return 0


cdef object _message(const CMessage* m):
    return Message(
        _MESSAGE_TYPES[m.type], m.source, m.target, m.term, m.index, m.log_term, m.commit, m.hint, m.context,
        m.free_bytes, bool(m.reject), m.flags, m.count, _join(&m.records, 1),
        m.lease_ms,
    )


cdef int _fill_membership(CMembership* out, membership) except -1:
    cdef uint32_t i
    cdef bytes name, address
    memset(out, 0, sizeof(CMembership))
    if len(membership.members) > MEMBERS_MAX:
        raise ValueError(f"more than {MEMBERS_MAX} members")
    out.count = len(membership.members)
    out.is_joint = bool(membership.is_joint)
    out.index = membership.index
    for i in range(out.count):
        member = membership.members[i]
        name = (member.name or f"n{member.id}").encode()
        address = (member.address or f"host{member.id}:7000").encode()
        if len(name) > NAME_BYTES_MAX or len(address) > ADDRESS_BYTES_MAX:
            raise ValueError("name or address too long")
        out.members[i].id = member.id
        out.members[i].roles = member.roles
        out.members[i].name_length = len(name)
        out.members[i].address_length = len(address)
        memcpy(out.members[i].name, <const char*>name, len(name))
        memcpy(out.members[i].address, <const char*>address, len(address))
    return 0


cdef object _membership(const CMembership* m):
    cdef uint32_t i
    members = []
    for i in range(m.count):
        members.append(Member(
            m.members[i].id,
            m.members[i].roles,
            (<const char*>m.members[i].name)[:m.members[i].name_length].decode(),
            (<const char*>m.members[i].address)[:m.members[i].address_length].decode(),
        ))
    return Membership(tuple(members), bool(m.is_joint), m.index)


cdef CSnapshotPoint _point(point):
    cdef CSnapshotPoint out
    out.index, out.term, out.chain = point
    return out


cdef object _entry(const Record* record):
    kind = _ENTRY_TYPES[record.type] if 0 < record.type < len(_ENTRY_TYPES) else str(record.type)
    payload = (<const char*>record_payload(record))[:record.length]
    return Entry(record.index, record.term, kind, payload, record.chain, record.wall_ms, record.lease_ms)


cdef class CoreHandle:
    """One core. Verbs are those of _core.pxd; each returns a status by name ("OK", "NO_LEADER", "STALE", ...)."""

    cdef Core* core

    def __init__(
        self, id, *, seed=1, tick_ms=10, heartbeat_ticks=1, election_timeout_ticks=10, append_bytes_max=262144,
        log_chunk_bytes=262144, inflight_bytes_max=4194304, uncommitted_bytes_max=67108864,
        log_memory_bytes_max=67108864, free_bytes_min=0, lease_reads=False, promotes_learners=True, checks=True,
        is_observer=False, feeds_max=8,
    ):
        """A core that still has to be restored (start does all three steps). ValueError: a number out of range."""
        cdef CoreConfig config
        core_config_init(&config, id, seed)
        config.tick_ms = tick_ms
        config.heartbeat_ticks = heartbeat_ticks
        config.election_timeout_ticks = election_timeout_ticks
        config.append_bytes_max = append_bytes_max
        config.log_chunk_bytes = log_chunk_bytes
        config.inflight_bytes_max = inflight_bytes_max
        config.uncommitted_bytes_max = uncommitted_bytes_max
        config.log_memory_bytes_max = log_memory_bytes_max
        config.free_bytes_min = free_bytes_min
        config.lease_reads = lease_reads
        config.promotes_learners = promotes_learners
        config.checks = checks
        config.is_observer = is_observer
        config.feeds_max = feeds_max
        if self.core != NULL:
            raise ValueError("made already")
        self.core = core_create(&config)
        if self.core == NULL:
            raise ValueError("configuration out of range")

    def __dealloc__(self):
        core_destroy(self.core)

    cdef object _named(self, status_t status):
        cdef CCoreStatus words
        if status >= _FATAL:
            core_status(self.core, &words)
            raise CoreBroken(_STATUSES.get(status, str(status)), words.broken, words.broken_a, words.broken_b)
        return _STATUSES.get(status, str(status))

    def start(self, voters, *, learners=(), records=b"", hard_state=HardState(), applied=0, point=SnapshotPoint()):
        """Restore with the membership of these ids and start."""
        members = [Member(id) for id in voters] + [Member(id, LEARNER) for id in learners]
        steps = [self.restore_membership(Membership(tuple(members), False, 0), point)]
        if records:
            steps.append(self.restore_records(records))
        steps.append(self.restored(hard_state, max(applied, point.index)))
        if steps != ["OK"] * len(steps):
            raise ValueError(f"restore: {steps}")

    def restore_membership(self, membership, point=SnapshotPoint()):
        """The founding membership, or a snapshot's point and membership."""
        cdef CMembership m
        cdef CSnapshotPoint p = _point(point)
        _fill_membership(&m, membership)
        return self._named(core_restore_membership(self.core, &p, &m))

    def restore_records(self, records):
        """Records of the log, in order; may be called again for the following ones."""
        cdef Slice slice = _slice(records)
        cdef status_t status = core_restore_records(self.core, &slice)
        chunk_drop(slice.chunk)
        return self._named(status)

    def restore_damaged(self, index, chain):
        """A damaged record, in order among the others."""
        return self._named(core_restore_damaged(self.core, index, chain))

    def restored(self, hard_state=HardState(), applied=0):
        """Check the whole and start as follower."""
        cdef CHardState hard
        hard.term, hard.vote, hard.committed = hard_state
        return self._named(core_restored(self.core, &hard, applied))

    def set_clocks(self, lease_ms, wall_ms):
        """Clocks of the machine as restored: records of this member never carry less."""
        return self._named(core_set_clocks(self.core, lease_ms, wall_ms))

    def tick(self, wall_ms=0):
        """One tick of config.tick_ms has passed."""
        return self._named(core_tick(self.core, wall_ms))

    def step(self, message):
        """Take a message in."""
        cdef CMessage m
        cdef status_t status
        _fill_message(&m, message)
        status = core_step(self.core, &m)
        chunk_drop(m.records.chunk)
        return self._named(status)

    def propose(self, payloads, *, context=0, is_urgent=False, is_waiting=False):
        """Propose commands, all or none."""
        cdef Vec[Slice] slices
        cdef status_t status
        cdef size_t i
        memset(&slices, 0, sizeof(slices))
        for payload in payloads:
            slices.push(_slice(payload))
        status = core_propose(self.core, slices.data, <uint32_t>slices.size, context, is_urgent, is_waiting)
        for i in range(slices.size):
            chunk_drop(slices.data[i].chunk)
        slices.release()
        return self._named(status)

    def read_index(self, context):
        """Ask for a read index; answered in Ready.reads."""
        return self._named(core_read_index(self.core, context))

    def peer_event(self, event, peer=0):
        """PEER_CONNECTED, PEER_UNREACHABLE, PEER_REFUSED, PEER_SNAPSHOT_SENT, PEER_SNAPSHOT_FAILED or CLOCK_JUMPED."""
        cdef int number = _EVENTS[event]
        return self._named(core_peer_event(self.core, <PeerEvent>number, peer))

    def transfer(self, target=0):
        """Hand leadership over; 0: to the most advanced voter."""
        return self._named(core_transfer(self.core, target))

    def change_membership(self, membership):
        """Propose a change to this membership, by joint consensus."""
        cdef CMembership m
        _fill_membership(&m, membership)
        m.index = core_membership(self.core).index
        return self._named(core_change_membership(self.core, &m, 0))

    def campaign(self):
        """The election time-out is now."""
        return self._named(core_campaign(self.core))

    def log_read(self, read, records, status="OK"):
        """Answer to one of Ready.log_reads."""
        cdef CLogRead r
        cdef Slice slice = _slice(records)
        cdef status_t result
        r.peer, r.first, r.bytes_max = read
        result = core_log_read(self.core, &r, &slice, _STATUS_NUMBERS[status])
        chunk_drop(slice.chunk)
        return self._named(result)

    def snapshot_installed(self, point, membership):
        """A snapshot up to point is durable here."""
        cdef CMembership m
        cdef CSnapshotPoint p = _point(point)
        cdef bint begins = False
        _fill_membership(&m, membership)
        return self._named(core_snapshot_installed(self.core, &p, &m, &begins))

    def compacted(self, snapshotted, compact_to):
        """A checkpoint at snapshotted is durable; records up to compact_to may go."""
        return self._named(core_compacted(self.core, snapshotted, compact_to))

    def set_free_bytes(self, free_bytes):
        """Room of this member's own log."""
        core_set_free_bytes(self.core, free_bytes)

    def persisted(self, write_id):
        """The write of this id is durable."""
        return self._named(core_persisted(self.core, write_id))

    def applied(self, index):
        """Records up to index are applied."""
        return self._named(core_applied(self.core, index))

    def has_ready(self):
        """Has ready() something to tell?"""
        return bool(core_has_ready(self.core))

    def ready(self):
        """What must happen now."""
        cdef CReady r
        cdef uint32_t i
        self._named(core_ready(self.core, &r))
        write = hard = None
        if r.write.id:
            if r.write.has_hard_state:
                hard = HardState(r.write.hard_state.term, r.write.hard_state.vote, r.write.hard_state.committed)
            write = Write(
                r.write.id, hard, r.write.first, r.write.last, _join(r.write.slices, r.write.slice_count),
                bool(r.write.truncates), bool(r.write.repairs),
            )
        apply = None
        if r.apply.first <= r.apply.last:
            apply = Apply(r.apply.first, r.apply.last, _join(r.apply.slices, r.apply.slice_count))
        return Ready(
            [_message(&r.messages[i]) for i in range(r.message_count)],
            write,
            apply,
            [ReadReady(r.reads[i].context, r.reads[i].index, _STATUSES[r.reads[i].status])
             for i in range(r.read_count)],
            [ProposalRefused(r.refusals[i].context, _STATUSES[r.refusals[i].status]) for i in range(r.refusal_count)],
            [LogRead(r.log_reads[i].peer, r.log_reads[i].first, r.log_reads[i].bytes_max)
             for i in range(r.log_read_count)],
            [r.snapshots[i] for i in range(r.snapshot_count)],
            [Trace(_TRACES[r.traces[i].type], r.traces[i].term, r.traces[i].a, r.traces[i].b)
             for i in range(r.trace_count)],
            bool(r.soft_state_changed),
        )

    def status(self):
        """The core's own words."""
        cdef CCoreStatus s
        core_status(self.core, &s)
        return CoreStatus(
            s.id, _ROLES[<int>s.role], s.term, s.vote, s.leader, s.compacted, s.snapshotted, s.applied, s.committed,
            s.persisted, s.last, s.last_term, s.last_chain, s.lease_ms, bool(s.is_ready_to_read), bool(s.is_repairing),
            s.transferring, s.membership_index, s.feeder, s.feed_depth, s.feed_count,
        )

    def membership(self):
        """The membership in force."""
        cdef const CMembership* m = core_membership(self.core)
        if m == NULL:
            raise ValueError("not restored")
        return _membership(m)

    def progress(self):
        """What this member knows as leader, by position in the membership; meaningful on a leader."""
        cdef Progress* p
        cdef uint32_t i
        views = []
        for i in range(in_force(self.core).count):
            p = &self.core.progress[i]
            views.append(ProgressView(
                p.id, _STATES[<int>p.state], p.match, p.next, p.inflights.size, p.inflight_bytes, bool(p.is_caught_up),
            ))
        return views

    def log(self):
        """The records in memory, oldest first."""
        cdef uint64_t i
        return [_entry(log_record(&self.core.log, i))
                for i in range(self.core.log.offset + 1, self.core.log.last + 1)
                if log_record(&self.core.log, i) != NULL]

    def copy(self):
        """A second core in the same state; this one must be at rest."""
        cdef CoreHandle other = CoreHandle.__new__(CoreHandle)
        if core_copy(self.core, &other.core) != OK:
            raise MemoryError
        return other

    def settle(self):
        """Bring to one form what differs without a difference; this core must be at rest."""
        core_settle(self.core)

    def digest(self):
        """Equal for two settled cores that will do the same."""
        return core_digest(self.core, NULL)

    def log_bytes(self, first, last):
        """The bytes of records [first, last]; IndexError when they are not in memory."""
        cdef Record* record
        parts = []
        for index in range(first, last + 1):
            record = log_record(&self.core.log, index)
            if record == NULL:
                raise IndexError(index)
            parts.append((<const char*>record)[:record_bytes(record.length)])
        return b"".join(parts)


def read_records(records):
    """Read records one after another. ValueError: damaged or half a record."""
    cdef bytes data = records
    cdef const uint8_t* base = data
    cdef uint64_t at = 0
    cdef status_t status
    entries = []
    while at < <uint64_t>len(data):
        status = record_check(base + at, len(data) - at)
        if status != OK:
            raise ValueError(f"record at byte {at}: {_STATUSES.get(status, status)}")
        entries.append(_entry(<const Record*>(base + at)))
        at += record_bytes((<const Record*>(base + at)).length)
    return entries


def make_records(entries, *, index=0, chain=0, type="COMMAND", lease_ms=0):
    """Records of (term, payload) that continue a log which ends at index with this chain hash."""
    cdef Log log
    cdef Record* record
    cdef bytes payload
    cdef int kind = _ENTRY_TYPES.index(type)
    log_init(&log, 65536)
    log.last = log.offset = index
    log.last_chain = log.offset_chain = chain
    parts = []
    try:
        for term, payload in entries:
            if log_append(&log, term, kind, 0, lease_ms, <const uint8_t*><const char*>payload, len(payload)) != OK:
                raise MemoryError
            record = log_record(&log, log.last)
            parts.append((<const char*>record)[:record_bytes(record.length)])
    finally:
        log_release(&log)
    return b"".join(parts)


def encode_membership(membership):
    """The payload of an ENTRY_MEMBERSHIP."""
    cdef CMembership m
    cdef Vec[uint8_t] out
    cdef status_t status
    memset(&out, 0, sizeof(out))
    _fill_membership(&m, membership)
    status = membership_encode(&m, &out)
    encoded = (<const char*>out.data)[:out.size] if status == OK else b""
    out.release()
    if status != OK:
        raise ValueError(_STATUSES.get(status, str(status)))
    return encoded


def chain_at(records, index):
    """The chain hash of the record at index among these."""
    for entry in read_records(records):
        if entry.index == index:
            return entry.chain
    raise IndexError(index)
