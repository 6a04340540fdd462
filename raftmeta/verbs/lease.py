"""A lease as its owner holds it: raftmeta.Lease, and raftmeta.aio.Lease for tasks.

A lease cannot protect the time between a check and the act that follows, nor a pause of the machine.
Only a fence does that, which the store checks.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

__all__ = ["AioLease", "Lease"]


class HeldLease:
    """The base of the leases of both faces."""

    __slots__ = ()

    @property
    def id(self) -> int:
        """Under which keys are attached to it."""
        raise NotImplementedError

    @property
    def ttl_s(self) -> float:
        """For how many seconds it is held without a keep-alive."""
        raise NotImplementedError

    @property
    def is_revoked(self) -> bool:
        """Given back, or about to be."""
        raise NotImplementedError

    def held(self) -> bool:
        """Whether it is certainly held now, by this process's clock.

        Counted from before the last acknowledged keep-alive was sent, less 5 % for clocks that drift. Between this
        answer and what you do next the process may be paused: only a fence protects that. Once false it stays false,
        and the lease is kept alive no longer.
        """
        return self.remaining_s() > 0

    def remaining_s(self) -> float:
        """Seconds for which it is certainly held without another keep-alive."""
        raise NotImplementedError


class Lease(HeldLease):
    """A lease; Node.lease and Client.lease make it. As a context it is revoked at the end."""

    __slots__ = ()

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until it is not held any more; False: timeout_s passed."""
        raise NotImplementedError

    def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        """Give it back: all keys attached to it are removed in one revision.

        One that is lost already is left to expire: its id may be another owner's by now.
        """
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.revoke()


class AioLease(HeldLease):
    """A lease of an asyncio face; Node.lease and Client.lease make it. As a context it is revoked at the end."""

    __slots__ = ()

    async def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until it is not held any more; False: timeout_s passed."""
        raise NotImplementedError

    async def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        """Give it back: all keys attached to it are removed in one revision.

        One that is lost already is left to expire: its id may be another owner's by now.
        """
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.revoke()
