"""raftmeta.Client: the client of raftmeta/client with KIP-30's interfaces on it.

    with raftmeta.Client("raft://10.0.0.1:7100,10.0.0.2:7100", owner="worker-7") as client:
        client.group("workers").join("worker-7")

It adds nothing to the protocol: the interfaces are recipes over the client's own verbs (raftmeta/recipes).
"""

from __future__ import annotations

import raftmeta.client.sync as client
from raftmeta.interfaces import State
from raftmeta.operations import Key
from raftmeta.recipes.coordination import CAPABILITIES, Coordinated, life_of
from raftmeta.recipes.views import View
from raftmeta.security.settings import Tls
from raftmeta.verbs.prefix import Prefix

__all__ = ["CAPABILITIES", "Client"]


class Client(Coordinated, client.Client):
    __doc__ = f"""{client.Client.__doc__}
    owner: the name under which it holds its places in groups, elections and locks. A later client of that name takes
    them over at once, as after a crash; there must be only one at a time. None: nobody takes over what this one holds.
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
        self.owner = life_of(owner)
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

    def look_at_state(self) -> tuple[State, int]:
        """For recipes/states."""
        is_open, has_session, sessions = self._client.look_at_session()
        if not is_open or not self.is_open:
            return State.LOST, sessions
        return (State.CONNECTED if has_session else State.SUSPENDED), sessions

    def prefixed(self, prefix: Key) -> View:
        """The same verbs and interfaces over the keys below a prefix; see View. Raises InvalidArgument."""
        return View(self, Prefix(prefix))

    def close(self) -> None:
        """Leave groups and elections, close session and connections. Calls that wait learn their fate.

        Any thread may close, several at once, and a signal handler in the middle of any call: who comes second waits
        for the first.
        """
        super().close()

    def _leave(self) -> None:
        self.close_parts()
