"""Leases that this node keeps alive without Python's help."""

from collections.abc import Callable
from types import TracebackType

from raftmeta.face.base import NodeBase
from raftmeta.verbs.lease import Lease

class Term:
    """The time until which the loop has kept a lease alive."""

class DroppedTerm:
    """A term that the loop still writes to, though its lease is given up."""

class LeaseBase:
    """The base of the leases of a node's two faces: it has the term that the loop keeps alive."""

    def __init__(self, node: NodeBase, ttl_s: float) -> None: ...
    def __del__(self) -> None:
        """Nobody holds this object any more: the lease is kept alive no longer."""
    @property
    def id(self) -> int: ...
    @property
    def ttl_s(self) -> float: ...
    def held(self) -> bool:
        """Whether it is certainly held now."""
    def remaining_s(self) -> float:
        """Seconds for which it is certainly held without another keep-alive."""

class NodeLease(LeaseBase, Lease):
    """A lease that a node keeps alive natively: a host that holds the GIL does not lose it."""

    def __init__(
        self,
        node: NodeBase,
        ttl_s: float,
        *,
        id: int = 0,
        on_lost: Callable[[Lease], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> None: ...
    @property
    def is_revoked(self) -> bool: ...
    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until it is not held any more; False: timeout_s passed."""
    def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        """Give it back."""
    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None: ...
