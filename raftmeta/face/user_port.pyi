"""A node as a user machine's copy and its callers see it (user_port.pxd)."""

from asyncio import Future
from typing import Any

from raftmeta.errors import NotReady, ReadyTimeout
from raftmeta.face.mailbox import MailboxFace
from raftmeta.face.node import Node
from raftmeta.user_machines.copy import News

# Events of a copy, for UserPort.tell.
FAILED: int
DIVERGED: int
STOPPED: int
UNDUMPED: int

def deadline_of(timeout_s: float | None) -> int:
    """CLOCK_BOOTTIME in nanoseconds when timeout_s will have passed; None: never. Raises InvalidArgument."""

def seconds_left(deadline_ns: int) -> float | None:
    """Until such a time; 0: it has passed; None: it never comes."""

def level_error() -> ReadyTimeout:
    """The cluster's feature level has no user machines yet."""

class UserPort:
    """One user machine, through one node. place: of the machine on the node, for events.

    Raises InvalidArgument: the name is not 1 to 64 bytes of UTF-8. Every method may raise NodeClosed, ForkedProcess or
    Fatal when the node ended.
    """

    def __init__(self, node: Node, name: str, place: int) -> None: ...
    def await_cluster(self) -> None:
        """Return when the node is ready."""
    def fetch(self, after: int, dump_seen: int, offset: int) -> News:
        """Return what there is for a copy (UserFetch in user_fetches.pxd), when there is something."""
    def join(self) -> None:
        """Clients of the node may ask its copy from now on."""
    def leave(self) -> None:
        """They may not any more; those who wait are told that there is no copy."""
    def answer(self, ask: int, outcome: bytes | None) -> None:
        """Answer an ask that a fetch brought, by its id. None: what the command answered is not known here."""
    def send_part(
        self, digest: int, part: bytes, pointer: int, offset: int, total: int, timeout_s: float | None = 5.0
    ) -> int:
        """Propose a part of a dump and return how much of it stands in the log's state now.

        Raises CompareFailed: another dump is due or was begun; NotExecuted, OutcomeUnknown as any command.
        """
    def tell(self, event: int, index: int) -> None:
        """Write an event of the machine into the node's events."""
    def is_leader(self) -> bool:
        """Whether this node led at the end of its last turn."""
    def check(self) -> None:
        """Raise when the node does not run in this process."""
    def value_bytes_max(self) -> int:
        """Bytes that one entry may carry for a machine."""
    def has_users(self) -> bool:
        """Whether the cluster's feature level has user machines."""
    def call(self, data: bytes, fence: Any, waiting: dict[int, None], deadline_ns: int) -> tuple[int, int]:
        """Put a command into the log; return its sequence and the index of its entry.

        waiting: sequences whose outcomes must be kept; this one is added, and taken back when it fails.
        Raises as any command; an OutcomeTimeout has (sequence, ticket) as its ticket.
        """
    def read_round(self, deadline_ns: int) -> int:
        """Return the index of a command that a linearizable read must see, and with it all before."""
    def last(self) -> int:
        """Return the index of the last command that this node has for the machine; 0: none."""
    def submit_call(
        self, face: MailboxFace, data: bytes, fence: Any, waiting: dict[int, None], deadline_ns: int
    ) -> tuple[int, Future[int]]:
        """call() without waiting; the caller takes the sequence back when the future fails."""
    def has_session(self) -> bool:
        """Whether commands can be encoded now; if not, await submit_session first."""
    def not_ready(self, kind: type[NotReady]) -> NotReady:
        """An error of this kind that says what keeps the node from being ready."""
    def submit_session(self, face: MailboxFace, deadline_ns: int) -> Future[None]:
        """Done when the node is ready."""
    def submit_await(self, face: MailboxFace, deadline_ns: int) -> Future[None]:
        """Done when has_users()."""
    def submit_read(self, face: MailboxFace, deadline_ns: int) -> Future[None]:
        """Done when a linearizable read may be served from what submit_last says then."""
    def submit_last(self, face: MailboxFace) -> Future[bytes]:
        """last(), as 8 bytes, little-endian."""
