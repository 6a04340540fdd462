"""The asyncio face: the verbs of raftmeta.Node as coroutines, on asyncio and uvloop.

    async with raftmeta.aio.Node("a", peers=..., data_dir=...) as node:
        await node.ready(10)
        await node.put("topics/t", b"3")
        async for lead in node.election("controller").terms("a"):
            ...

A node that runs already has a face for each event loop: `node.aio()`. A face belongs to the event loop of its first
call. A place taken through a face ends with the face; KIP-30's interfaces are recipes over its own verbs.
"""

from __future__ import annotations

import typing

import raftmeta.client.aio as client
from raftmeta import interfaces
from raftmeta.face import aio as face
from raftmeta.face.mailbox import AioPendingResult as PendingResult
from raftmeta.face.user_machine_aio import AioPendingCall as PendingCall
from raftmeta.face.user_machine_aio import AioUserMachine as UserMachine
from raftmeta.recipes import coordination
from raftmeta.recipes.views import AioView as View
from raftmeta.verbs import prefix as verbs_prefix
from raftmeta.verbs import rights
from raftmeta.verbs.lease import AioLease as Lease
from raftmeta.verbs.watch import AioWatch as Watch

if typing.TYPE_CHECKING:
    from raftmeta.operations import Key
    from raftmeta.security.settings import Tls

__all__ = ["Client", "Lease", "Node", "PendingCall", "PendingResult", "UserMachine", "View", "Watch"]


class Node(coordination.AioCoordinated, face.Node):
    __doc__ = face.Node.__doc__
    has_state = True  # recipes/store

    @property
    def owner(self) -> interfaces.Owner:
        """The owner of all that this node takes: its name, in this life of its folder."""
        status = self.status()
        return interfaces.Owner(status.name, status.id, status.boot)

    def _check_rights(self) -> None:
        rights.check_level(self.status().feature_level)

    def look_at_state(self) -> tuple[interfaces.State, int]:
        """For recipes/states."""
        if not self.is_running:
            return interfaces.State.LOST, 0
        status = self.status()
        if status.state in ("removed", "stopped"):
            return interfaces.State.LOST, 0
        return (interfaces.State.CONNECTED if status.is_ready else interfaces.State.SUSPENDED), 0

    def prefixed(self, prefix: Key) -> View:
        """The same verbs and interfaces over the keys below a prefix; see View. Raises InvalidArgument."""
        return View(self, verbs_prefix.Prefix(prefix))

    async def close(self, *, transfer: bool = True) -> None:
        """Leave groups and elections joined through this face; then, if it has a node of its own, close that.

        Several tasks may close: all wait for the first. If one of them is cancelled, the closing goes on.
        """
        await self.close_once(lambda: self._close(transfer))

    async def _close(self, transfer: bool) -> None:
        try:
            await self.close_parts(self.config.close_timeout_s / 4)
        finally:
            await super().close(transfer=transfer)


class Client(coordination.AioCoordinated, client.Client):
    __doc__ = f"""{client.Client.__doc__}
    owner: the name under which it holds its places in groups, elections and locks; see raftmeta.Client.
    """

    def __init__(
        self,
        url: str,
        *,
        cluster: str = "default",
        name: str | None = None,
        owner: str | None = None,
        session_ttl_s: float = 60.0,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.owner = coordination.life_of(owner)
        super().__init__(
            url,
            cluster=cluster,
            name=name,
            session_ttl_s=session_ttl_s,
            user=user,
            password=password,
            token=token,
            tls=tls,
        )

    def look_at_state(self) -> tuple[interfaces.State, int]:
        """For recipes/states."""
        is_open, has_session, sessions = self.look_at_session()
        if not is_open:
            return interfaces.State.LOST, sessions
        return (interfaces.State.CONNECTED if has_session else interfaces.State.SUSPENDED), sessions

    def prefixed(self, prefix: Key) -> View:
        """As Node.prefixed."""
        return View(self, verbs_prefix.Prefix(prefix))

    async def close(self) -> None:
        """Leave groups and elections, close session and connections. Calls that wait learn their fate.

        Several tasks may close: all wait for the first. If one of them is cancelled, the closing goes on.
        """
        await self.close_once(self._close)

    async def _close(self) -> None:
        try:
            await self.close_parts()
        finally:
            await super().close()
