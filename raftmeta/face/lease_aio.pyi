"""Leases: the asyncio face."""

from types import TracebackType

from raftmeta.face.lease import LeaseBase
from raftmeta.face.mailbox import MailboxFace
from raftmeta.verbs.lease import AioLease

class AioNodeLease(LeaseBase, AioLease):
    """A lease that a node keeps alive natively, as a task holds it."""

    def __init__(self, face: MailboxFace, ttl_s: float) -> None: ...
    @property
    def is_revoked(self) -> bool: ...
    async def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until it is not held any more; False: timeout_s passed."""
    async def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        """Give it back."""
    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None: ...
