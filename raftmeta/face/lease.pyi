"""Leases that this node keeps alive without Python's help."""

from collections.abc import Callable
from types import TracebackType
from typing import Self

from raftmeta.face.base import NodeBase

class Term:
    """The time until which the loop has kept a lease alive."""

class DroppedTerm:
    """A term that the loop still writes to, though its lease is given up."""

class LeaseBase:
    """A lease as its owner holds it."""

    def __init__(self, node: NodeBase, ttl_s: float) -> None: ...
    def __del__(self) -> None:
        """Nobody holds this object any more: the lease is kept alive no longer."""
    @property
    def id(self) -> int: ...
    @property
    def ttl_s(self) -> float: ...
    def held(self) -> bool:
        """Whether it is certainly held now, by this process's clock.

        Counted from before the last acknowledged keep-alive was sent, less 5 % for clocks that drift. Between this
        answer and what you do next the process may be paused: only a fence protects that. Once false it stays false, and
        the lease is kept alive no longer.
        """
    def remaining_s(self) -> float:
        """Seconds for which it is certainly held without another keep-alive."""

class Lease(LeaseBase):
    """A lease of the blocking face; Node.lease makes it. As a context it is revoked at the end."""

    def __init__(
        self,
        node: NodeBase,
        ttl_s: float,
        *,
        id: int = 0,
        on_lost: Callable[[Lease], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> None: ...
    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until it is not held any more; False: timeout_s passed."""
    def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        """Give it back: all keys attached to it are removed in one revision.

        One that is lost already is left to expire: its id may be another owner's by now.
        """
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None: ...
