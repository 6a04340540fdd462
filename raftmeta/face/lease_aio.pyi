"""Leases: the asyncio face."""

from types import TracebackType
from typing import Self

from raftmeta.face.lease import LeaseBase
from raftmeta.face.mailbox import MailboxFace

class AioLease(LeaseBase):
    """A lease of the asyncio face; Node.lease makes it. As a context it is revoked at the end."""

    def __init__(self, face: MailboxFace, ttl_s: float) -> None: ...
    async def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until it is not held any more; False: timeout_s passed."""
    async def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        """Give it back: all keys attached to it are removed in one revision.

        One that is lost already is left to expire: its id may be another owner's by now.
        """
    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None: ...
