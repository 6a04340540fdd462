"""An object without an address: it has the state, votes for nothing, and sends its calls to the members.

It is connected to every member and is fed by one of them. A member that is silent feeds nobody: the reader then
asks another one for the whole state. A batch that it sent is sent again until it comes back through the log; it is
applied once, because a batch has a number.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from functools import partial

from raftmeta.compat.pysyncobj.config import SyncObjConf
from raftmeta.compat.pysyncobj.files import Batch, LocalFiles, Position
from raftmeta.compat.pysyncobj.link import Arrived, Inbox, Live, Loaded, View
from raftmeta.compat.pysyncobj.outbox import Outbox
from raftmeta.compat.pysyncobj.secret import Papers
from raftmeta.compat.pysyncobj.wire import Wire, WireClosed

__all__ = ["Reader"]

# Seconds.
TUNE_SILENT_S = 1.0
TUNE_AGAIN_S = 0.3
TUNE_RESEND_S = 2.0
TUNE_CONNECT_S = 3.0
log = logging.getLogger(__name__)


class Reader:
    """peers: addresses of the members."""

    def __init__(self, peers: set[str], conf: SyncObjConf, files: LocalFiles) -> None:
        self.inbox = Inbox()
        self.outbox = Outbox(conf.commandsQueueSize)
        self._name = uuid.uuid4().hex[:12]
        self._context = None
        if conf.password is not None:
            papers = Papers(conf.password, f"raftmeta://pysyncobj/client/{self._name}", files.folder / "papers")
            self._context = papers.context(is_server=False)
        self._guard = threading.Lock()
        self._wires: dict[str, Wire] = {}
        self._views: dict[str, tuple[float, int, str, bool]] = {}  # heard, term, leader, is live
        self._feeder = ""
        self._revision = 0
        self._is_live = False
        self._unseen: list[Batch] = []
        self._closing = threading.Event()
        self._peers = peers

    def bind(self) -> None:
        """There is nothing to bind."""

    def begin(self, position: Position) -> None:
        self._revision = position.revision
        works: list[Callable[[], None]] = [self._choose, self._send, self._resend]
        works += [partial(self._follow, peer) for peer in sorted(self._peers)]
        for work in works:
            threading.Thread(target=work, name="raftmeta-pysyncobj-read", daemon=True).start()

    def look(self) -> View:
        now = time.monotonic()
        with self._guard:
            heard = self._views.get(self._feeder, (0.0, 0, "", False))
            connected = frozenset(self._wires)
        is_silent = now - heard[0] > 2 * TUNE_SILENT_S
        return View("reader", heard[1], "" if is_silent else heard[2], connected)

    def tended(self) -> None:
        """Nobody depends on a reader."""

    def want(self, members: set[str]) -> None:
        """Members that were added feed it, too."""
        for peer in members - self._peers:
            self._peers = self._peers | {peer}
            threading.Thread(target=self._follow, args=(peer,), name="raftmeta-pysyncobj-read", daemon=True).start()

    def disconnect(self, peer: str) -> None:
        with self._guard:
            wire = self._wires.get(peer)
        if wire is not None:
            wire.end()

    def hand_over(self, to: str | None) -> None:
        """A reader never leads."""

    def close(self) -> None:
        self._closing.set()
        self.outbox.close()
        with self._guard:
            for wire in self._wires.values():
                wire.end()

    # --- connections --------------------------------------------------------------------------------------------------
    def _follow(self, peer: str) -> None:
        while not self._closing.is_set():
            try:
                wire = Wire.connect(peer, self._context, TUNE_CONNECT_S)
            except OSError:
                self._closing.wait(TUNE_AGAIN_S)
                continue
            try:
                wire.wait_at_most(None)
                wire.send("read", self._name)
                with self._guard:
                    self._wires[peer] = wire
                while not self._closing.is_set():
                    self._take(peer, wire.receive())
            except (OSError, WireClosed, ValueError, TypeError) as error:
                log.debug("connection ended peer=%s error=%s", peer, error)
            with self._guard:
                self._wires.pop(peer, None)
                self._views.pop(peer, None)
            wire.close()
            self._closing.wait(TUNE_AGAIN_S)

    def _take(self, peer: str, message: list[object]) -> None:
        kind, *content = message
        with self._guard:
            if kind == "view":
                term, leader, is_live = content
                self._views[peer] = (time.monotonic(), int(str(term)), str(leader), bool(is_live))
            elif peer != self._feeder:
                return
            elif kind == "state":
                position, members, dump = content
                at = Position(*position)  # type: ignore[misc]
                self._revision = at.revision
                self.inbox.put(Loaded(at, dump, members))  # type: ignore[arg-type]
                self.inbox.put(Live())
                self._is_live = True
            elif kind == "batch":
                revision, packed = content
                batch = Batch.unpack(packed)  # type: ignore[arg-type]
                self._revision = int(str(revision))
                self._unseen = [one for one in self._unseen if (one.owner, one.number) != (batch.owner, batch.number)]
                self.inbox.put(Arrived(self._revision, batch))
        self.inbox.news.set()

    def _choose(self) -> None:
        """Be fed by a member that ticks, knows a leader and has the whole log."""
        while not self._closing.wait(TUNE_AGAIN_S / 3):
            now = time.monotonic()
            with self._guard:
                fit = [
                    peer
                    for peer, (heard_s, _, leader, is_live) in sorted(self._views.items())
                    if now - heard_s < TUNE_SILENT_S and leader and is_live and peer in self._wires
                ]
                if self._feeder in fit or not fit:
                    continue
                self._feeder = fit[0]
                wire = self._wires[self._feeder]
            self._say(wire, "feed")

    def _say(self, wire: Wire, *message: object) -> None:
        try:
            wire.send(*message)
        except OSError as error:
            log.debug("not sent error=%s", error)
            wire.end()

    # --- calls --------------------------------------------------------------------------------------------------------
    def _send(self) -> None:
        while (batch := self.outbox.take()) is not None:
            with self._guard:
                self._unseen.append(batch)
                wire = self._wires.get(self._feeder)
            if wire is not None:
                self._say(wire, "batch", batch.pack())

    def _resend(self) -> None:
        while not self._closing.wait(TUNE_RESEND_S):
            with self._guard:
                batches = list(self._unseen)
                wire = self._wires.get(self._feeder)
            for batch in batches if wire is not None else ():
                self._say(wire, "batch", batch.pack())  # type: ignore[arg-type]
