"""The consensus core in Python's hands: one CoreHandle per member, driven verb by verb. For tests and tools only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

VOTER: int
"""Member.roles of a voter outside a change (VOTER_INCOMING)."""
VOTER_OUTGOING: int
LEARNER: int
LEARNER_NEXT: int

class CoreBroken(Exception):
    """A fatal status: the core has stopped. `status` is its name; `broken`, `a` and `b` tell the broken invariant."""

    status: str
    broken: int
    a: int
    b: int

class Message(NamedTuple):
    """One message; fields as in raft/types.pxd. `type` is its name there ("APPEND"), `records` are bytes."""

    type: str
    source: int
    target: int
    term: int = 0
    index: int = 0  # type: ignore[assignment]
    log_term: int = 0
    commit: int = 0
    hint: int = 0
    context: int = 0
    free_bytes: int = 0
    reject: bool = False
    flags: int = 0
    count: int = 0  # type: ignore[assignment]
    records: bytes = b""
    lease_ms: int = 0

class Member(NamedTuple):
    """One member of a membership. `roles` is a sum of VOTER, VOTER_OUTGOING, LEARNER, LEARNER_NEXT."""

    id: int
    roles: int = 1
    name: str = ""
    address: str = ""

class Membership(NamedTuple):
    """A membership; `name` of a member defaults to "n<id>"."""

    members: tuple[Member, ...]
    is_joint: bool = False
    index: int = 0  # type: ignore[assignment]

class HardState(NamedTuple):
    """Paper Figure 2 "persistent state" beside the log."""

    term: int = 0
    vote: int = 0
    committed: int = 0

class SnapshotPoint(NamedTuple):
    """The entry that a snapshot reaches."""

    index: int = 0  # type: ignore[assignment]
    term: int = 0
    chain: int = 0

class Entry(NamedTuple):
    """One record, read. `type` is "NOOP", "COMMAND", "MEMBERSHIP" or the number of an unknown one."""

    index: int  # type: ignore[assignment]
    term: int
    type: str
    payload: bytes
    chain: int
    wall_ms: int
    lease_ms: int

class Write(NamedTuple):
    """What the disk must do; `records` are the bytes of [first, last], none when first > last."""

    id: int
    hard_state: HardState | None
    first: int
    last: int
    records: bytes
    truncates: bool
    repairs: bool

class Apply(NamedTuple):
    """Committed records [first, last]."""

    first: int
    last: int
    records: bytes

class ReadReady(NamedTuple):
    """An answer to read_index; `status` is "OK" or "NO_LEADER"."""

    context: int
    index: int  # type: ignore[assignment]
    status: str

class ProposalRefused(NamedTuple):
    """A forwarded batch that the leader refused."""

    context: int
    status: str

class LogRead(NamedTuple):
    """Records wanted from the log file; answered by CoreHandle.log_read. peer 0: for apply."""

    peer: int
    first: int
    bytes_max: int

class Trace(NamedTuple):
    """One decision; `type` is the name without TRACE_ ("BECAME_LEADER"), a and b as in raft/ready.pxd."""

    type: str
    term: int
    a: int
    b: int

class Ready(NamedTuple):
    """What must happen now; copies, valid for ever. write and apply are None when there is nothing."""

    messages: list[Message]
    write: Write | None
    apply: Apply | None
    reads: list[ReadReady]
    refusals: list[ProposalRefused]
    log_reads: list[LogRead]
    snapshots: list[int]
    traces: list[Trace]
    soft_state_changed: bool

class ProgressView(NamedTuple):
    """What a leader knows of a member; `state` is "PROBE", "REPLICATE" or "SNAPSHOT_WAIT"."""

    id: int
    state: str
    match: int
    next: int
    inflight_count: int
    inflight_bytes: int
    is_caught_up: bool

class CoreStatus(NamedTuple):
    """The core's own words; `role` is "FOLLOWER", "PRE_CANDIDATE", "CANDIDATE" or "LEADER"."""

    id: int
    role: str
    term: int
    vote: int
    leader: int
    compacted: int
    snapshotted: int
    applied: int
    committed: int
    persisted: int
    last: int
    last_term: int
    last_chain: int
    lease_ms: int
    is_ready_to_read: bool
    is_repairing: bool
    transferring: int
    membership_index: int
    feeder: int
    feed_depth: int
    feed_count: int

class CoreHandle:
    """One core. Verbs are those of _core.pxd; each returns a status by name ("OK", "NO_LEADER", "STALE", ...)."""

    def __init__(
        self,
        id: int,
        *,
        seed: int = 1,
        tick_ms: int = 10,
        heartbeat_ticks: int = 1,
        election_timeout_ticks: int = 10,
        append_bytes_max: int = 262144,
        log_chunk_bytes: int = 262144,
        inflight_bytes_max: int = 4194304,
        uncommitted_bytes_max: int = 67108864,
        log_memory_bytes_max: int = 67108864,
        free_bytes_min: int = 0,
        lease_reads: bool = False,
        promotes_learners: bool = True,
        checks: bool = True,
        is_observer: bool = False,
        feeds_max: int = 8,
    ) -> None:
        """A core that still has to be restored (start does all three steps). ValueError: a number out of range."""

    def start(
        self,
        voters: Sequence[int],
        *,
        learners: Sequence[int] = (),
        records: bytes = b"",
        hard_state: HardState = ...,
        applied: int = 0,
        point: SnapshotPoint = ...,
    ) -> None:
        """Restore with the membership of these ids and start."""

    def restore_membership(self, membership: Membership, point: SnapshotPoint = ...) -> str:
        """The founding membership, or a snapshot's point and membership."""

    def restore_records(self, records: bytes) -> str:
        """Records of the log, in order; may be called again for the following ones."""

    def restore_damaged(self, index: int, chain: int) -> str:
        """A damaged record, in order among the others."""

    def restored(self, hard_state: HardState = ..., applied: int = 0) -> str:
        """Check the whole and start as follower."""

    def set_clocks(self, lease_ms: int, wall_ms: int) -> str:
        """Clocks of the machine as restored: records of this member never carry less."""

    def tick(self, wall_ms: int = 0) -> str:
        """One tick of config.tick_ms has passed."""

    def step(self, message: Message) -> str:
        """Take a message in."""

    def propose(
        self, payloads: Sequence[bytes], *, context: int = 0, is_urgent: bool = False, is_waiting: bool = False
    ) -> str:
        """Propose commands, all or none."""

    def read_index(self, context: int) -> str:
        """Ask for a read index; answered in Ready.reads."""

    def peer_event(self, event: str, peer: int = 0) -> str:
        """PEER_CONNECTED, PEER_UNREACHABLE, PEER_REFUSED, PEER_SNAPSHOT_SENT, PEER_SNAPSHOT_FAILED or CLOCK_JUMPED."""

    def transfer(self, target: int = 0) -> str:
        """Hand leadership over; 0: to the most advanced voter."""

    def change_membership(self, membership: Membership) -> str:
        """Propose a change to this membership, by joint consensus."""

    def campaign(self) -> str:
        """The election time-out is now."""

    def log_read(self, read: LogRead, records: bytes, status: str = "OK") -> str:
        """Answer to one of Ready.log_reads."""

    def snapshot_installed(self, point: SnapshotPoint, membership: Membership) -> str:
        """A snapshot up to point is durable here."""

    def compacted(self, snapshotted: int, compact_to: int) -> str:
        """A checkpoint at snapshotted is durable; records up to compact_to may go."""

    def set_free_bytes(self, free_bytes: int) -> None:
        """Room of this member's own log."""

    def persisted(self, write_id: int) -> str:
        """The write of this id is durable."""

    def applied(self, index: int) -> str:
        """Records up to index are applied."""

    def has_ready(self) -> bool:
        """Has ready() something to tell?"""

    def ready(self) -> Ready:
        """What must happen now."""

    def status(self) -> CoreStatus:
        """The core's own words."""

    def membership(self) -> Membership:
        """The membership in force."""

    def progress(self) -> list[ProgressView]:
        """What this member knows as leader, by position in the membership; meaningful on a leader."""

    def log(self) -> list[Entry]:
        """The records in memory, oldest first."""

    def copy(self) -> CoreHandle:
        """A second core in the same state; this one must be at rest (sim/small/copies.pxd)."""

    def settle(self) -> None:
        """Bring to one form what differs without a difference; this core must be at rest (sim/small/copies.pxd)."""

    def digest(self) -> int:
        """Equal for two settled cores that will do the same: 64 bits."""

    def log_bytes(self, first: int, last: int) -> bytes:
        """The bytes of records [first, last]; IndexError when they are not in memory."""

def read_records(records: bytes) -> list[Entry]:
    """Read records one after another. ValueError: damaged or half a record."""

def make_records(
    entries: Sequence[tuple[int, bytes]], *, index: int = 0, chain: int = 0, type: str = "COMMAND", lease_ms: int = 0
) -> bytes:
    """Records of (term, payload) that continue a log which ends at index with this chain hash."""

def encode_membership(membership: Membership) -> bytes:
    """The payload of an ENTRY_MEMBERSHIP."""

def chain_at(records: bytes, index: int) -> int:
    """The chain hash of the record at index among these."""
