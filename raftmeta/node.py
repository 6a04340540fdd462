"""raftmeta.Node: the node of raftmeta/face/node with KIP-30's interfaces on it.

    with raftmeta.Node("a", peers=..., data_dir=...) as node:
        node.ready(10)
        node.group("brokers").join("a", b"host:9092")
        for lead in node.election("controller").terms("a"):
            while lead.held():
                node.put("topics/t", b"3", fence=lead)

It adds nothing to the engine: the interfaces are recipes over the node's own verbs (raftmeta/recipes).
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from raftmeta.face import node
from raftmeta.interfaces import Owner, State
from raftmeta.operations import Key
from raftmeta.recipes.coordination import CAPABILITIES, Coordinated
from raftmeta.recipes.fetches import Fetches
from raftmeta.recipes.views import View
from raftmeta.verbs.prefix import Prefix
from raftmeta.verbs.rights import check_level

if TYPE_CHECKING:
    import raftmeta.aio

__all__ = ["CAPABILITIES", "Node"]


class Node(Coordinated, node.Node):
    __doc__ = node.Node.__doc__
    has_state = True  # recipes/store

    @property
    def owner(self) -> Owner:
        """The owner of all that this node takes: its name, in this life of its folder."""
        status = self.status()
        return Owner(status.name, status.id, status.boot)

    def _check_rights(self) -> None:
        check_level(self.status().feature_level)

    def look_at_state(self) -> tuple[State, int]:
        """For recipes/states."""
        if not self.is_running:
            return State.LOST, 0
        status = self.status()
        if status.state in ("removed", "stopped"):
            return State.LOST, 0
        return (State.CONNECTED if status.is_ready else State.SUSPENDED), 0

    def fetch(self, key: Key, *, timeout_s: float | None = 5.0) -> Future[bytes | None]:
        """The value of a key, None without one, as a future: the call does not wait. Reads as get does.

        Callbacks of the future are called on the thread that answers all fetches and must not block.
        """
        if self.is_running:
            # setdefault is one step also for two threads
            fetches: Fetches = vars(self).get("_fetches") or vars(self).setdefault("_fetches", Fetches(self))
            return fetches.fetch(key, timeout_s=timeout_s)
        future: Future[bytes | None] = Future()
        try:
            self.get(key, local=True)  # raises what says why not
        except Exception as error:
            future.set_exception(error)
        return future

    def prefixed(self, prefix: Key) -> View:
        """The same verbs and interfaces over the keys below a prefix; see View. Raises InvalidArgument."""
        return View(self, Prefix(prefix))

    def aio(self) -> raftmeta.aio.Node:
        """The asyncio face of this running node, for the event loop of its first call; closing it leaves the node."""
        import raftmeta.aio  # loads asyncio, which a node that only blocks does without

        return raftmeta.aio.Node.of(self)

    def close(self, *, transfer: bool = True) -> None:
        """Leave groups and elections, answer everybody who waits, and end the native threads.

        A leader of the cluster hands over first if transfer is true. It ends within Config.close_timeout_s. Any thread
        may close, several at once, and a signal handler in the middle of any call: who comes second waits for the
        first. A node that is closed while it starts gives up: start() raises NodeClosed.
        """
        super().close(transfer=transfer)

    def _leave(self, timeout_s: float) -> None:
        self.close_parts(timeout_s)
