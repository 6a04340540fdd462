"""An object's membership in its cluster: the engine's node and the threads around it.

    raftmeta-pysyncobj-feed     waits until the node is ready, takes part in the founding, puts the log into the inbox
    raftmeta-pysyncobj-send     puts batches of the outbox into the log, one after the other
    raftmeta-pysyncobj-keep     adds and removes members of the engine; cuts off a node that nobody ticks any more

PySyncObj counts a node as dead when its program does not tick it. Here the node runs on threads of its own, so it is
cut off from its peers when a program that ticks by hand stops to do so, and connected again by the next tick. None of
these threads runs a line of the program.
"""

from __future__ import annotations

import contextlib
import logging
import random
import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import raftmeta
from raftmeta import faults
from raftmeta.compat.pysyncobj.config import SyncObjConf, engine_config
from raftmeta.compat.pysyncobj.files import LocalFiles, Position
from raftmeta.compat.pysyncobj.link import Arrived, Inbox, Loaded, View
from raftmeta.compat.pysyncobj.outbox import Outbox
from raftmeta.compat.pysyncobj.secret import Papers
from raftmeta.compat.pysyncobj.store import Store, Withheld

__all__ = ["CLUSTER", "Member", "engine_address"]

CLUSTER = "pysyncobj"
# Seconds.
TUNE_LOOK_S = 0.1
TUNE_AGAIN_S = 0.05
TUNE_ALONE_S = 3.0  # the engine is founded by all its peers; so long it waits for all of them
TUNE_UNTENDED_S = 0.6
TUNE_CHANGE_S = 5.0
log = logging.getLogger(__name__)


def engine_address(address: str) -> str:
    """PySyncObj writes an IPv6 address without brackets."""
    host, _, port = address.rpartition(":")
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else address


class Member:
    """name: the own address. peers: those of the others. dump: gives the state that this host has, for a founding."""

    def __init__(
        self, name: str, peers: set[str], conf: SyncObjConf, files: LocalFiles, dump: Callable[[], bytes | None]
    ) -> None:
        self.inbox = Inbox()
        self.outbox = Outbox(conf.commandsQueueSize)
        self._name = name
        self._peers = peers | {name}
        self._conf = conf
        self._files = files
        self._dump = dump
        self._papers: Papers | None = None
        if conf.password is not None:
            uri = f"raftmeta://{CLUSTER}/{quote(name, safe='')}/peer"  # docs/security.md "Who a certificate names"
            self._papers = Papers(conf.password, uri, files.folder / "papers")
        self._node = self._make(self._peers)
        self._closing = threading.Event()
        self._wanted: set[str] | None = None
        self._tended_s: float | None = None
        self._is_cut = False
        self._guard = threading.RLock()  # of faults and of the node's place
        self._threads: list[threading.Thread] = []

    @property
    def papers(self) -> Papers | None:
        return self._papers

    def _make(self, peers: set[str]) -> raftmeta.Node:
        return raftmeta.Node(
            self._name,
            peers={peer: engine_address(peer) for peer in sorted(peers)},
            data_dir=self._files.engine_folder,
            listen=engine_address(self._conf.bindAddress or self._name),
            cluster=CLUSTER,
            config=engine_config(self._conf),
            tls=None if self._papers is None else self._papers.tls(),
        )

    # --- for the object -----------------------------------------------------------------------------------------------
    def bind(self) -> None:
        """Start the node. Raises AddressInUse: try again."""
        try:
            self._node.start()
        except raftmeta.ForeignFolder:
            # The address of this node changed. The engine begins anew, and the founding takes the state of this host.
            self._files.set_engine_aside()
            self._node = self._make(self._peers)
            self._node.start()

    def begin(self, position: Position) -> None:
        """position: of the state that the object has."""
        for work, name in ((self._feed, "feed"), (self._send, "send"), (self._keep, "keep")):
            arguments = (position,) if work == self._feed else ()
            thread = threading.Thread(target=work, args=arguments, name=f"raftmeta-pysyncobj-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def look(self) -> View:
        try:
            status = self._node.status()
        except raftmeta.NodeClosed:  # it is started again with other peers
            return View("starting", 0, "", frozenset())
        connected = frozenset() if self._is_cut else {member.name for member in status.members if member.is_connected}
        return View(status.role, status.term, status.leader, frozenset(connected))

    def tended(self) -> None:
        """The program ticks."""
        self._tended_s = time.monotonic()
        if self._is_cut:
            with self._guard:
                self._cut(())

    def want(self, members: set[str]) -> None:
        """The addresses that the log names as members."""
        self._wanted = members

    def disconnect(self, peer: str) -> None:
        """Lose what is on the way between this node and a peer."""
        with self._guard:
            self._cut((peer,))
            self._cut(())

    def hand_over(self, to: str | None) -> None:
        """Ask for another leader, without waiting."""

        def transfer() -> None:
            try:
                self._node.transfer(to, timeout_s=TUNE_CHANGE_S)
            except raftmeta.RaftmetaError as error:
                log.info("leadership not handed over name=%s error=%s", self._name, error)

        threading.Thread(target=transfer, name="raftmeta-pysyncobj-transfer", daemon=True).start()

    def publish(self, position: Position, dump: bytes, members: list[str]) -> None:
        """Make a dump the one that others load. It blocks; a failure is only logged, because the log has it all."""
        try:
            Store(self._node).publish(position, dump, members)
        except (raftmeta.RaftmetaError, Withheld) as error:
            log.info("dump not published index=%d error=%s", position.index, error)

    def head(self) -> tuple[int, int]:
        """Index and size of the published dump; 0 without one."""
        with contextlib.suppress(raftmeta.RaftmetaError):
            head = Store(self._node).head()
            return (0, 0) if head is None else (head.index, head.size)
        return 0, 0

    def close(self) -> None:
        self._end(lambda node: node.close(transfer=not self._is_cut))

    def abort(self) -> None:
        """End as a killed process does; for the acceptance tests."""
        self._end(faults.abort)

    def _end(self, end: Callable[[raftmeta.Node], Any]) -> None:
        self._closing.set()
        self.outbox.close()
        with self._guard, contextlib.suppress(raftmeta.RaftmetaError):
            end(self._node)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(self._node.config.close_timeout_s)

    # --- the log ------------------------------------------------------------------------------------------------------
    def _feed(self, position: Position) -> None:
        while not self._closing.is_set():
            try:
                self._await_ready()
                store = Store(self._node)
                members = sorted(self._peers)
                while not store.found(self._name, position, members, self._dump):
                    self._closing.wait(TUNE_AGAIN_S)
                    self._check_open()
                for item in store.follow(position):
                    if isinstance(item, Loaded):
                        position = item.position
                    elif isinstance(item, Arrived):
                        position = position._replace(revision=item.revision)
                    self.inbox.put(item)
            except raftmeta.NodeClosed:
                self._closing.wait(TUNE_AGAIN_S)
            except (raftmeta.RaftmetaError, Withheld) as error:
                log.info("log not followed, trying again name=%s error=%s", self._name, error)
                self._closing.wait(TUNE_AGAIN_S)

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise raftmeta.NodeClosed("the object was destroyed")

    def _await_ready(self) -> None:
        since = time.monotonic()
        patience = TUNE_ALONE_S
        while True:
            self._check_open()
            with contextlib.suppress(raftmeta.ReadyTimeout):
                self._node.ready(TUNE_LOOK_S)
                return
            if self._node.status().state == "starting" and time.monotonic() - since > patience:
                self._found_with(self._connected())
                since = time.monotonic()
                patience = TUNE_ALONE_S * random.uniform(0.8, 1.6)

    def _connected(self) -> set[str]:
        """Peers to found a cluster with: those that answer, if they are a majority; else all."""
        alive = {member.name for member in self._node.status().members if member.is_connected} | {self._name}
        was_all = len(self._node.identity.peers) == len(self._peers)
        return alive if was_all and 2 * len(alive) > len(self._peers) else self._peers

    def _found_with(self, peers: set[str]) -> None:
        """Try it with these peers. Any two majorities share a node, and a node takes part in one founding only."""
        if peers == set(self._node.identity.peers):
            return
        log.info("founding without those that do not answer name=%s peers=%s", self._name, ",".join(sorted(peers)))
        with self._guard:
            self._node.close()
            self._check_open()
            self._node = self._make(peers)
            self._node.start()

    def _send(self) -> None:
        while (batch := self.outbox.take()) is not None:
            while not self._closing.is_set():
                try:
                    Store(self._node).append(batch)
                    break
                except raftmeta.RaftmetaError as error:
                    log.debug("batch not sent, trying again name=%s error=%s", self._name, error)
                    self._closing.wait(TUNE_AGAIN_S)

    # --- the cluster --------------------------------------------------------------------------------------------------
    def _keep(self) -> None:
        changes = threading.Thread(target=self._change_members, name="raftmeta-pysyncobj-members", daemon=True)
        changes.start()
        while not self._closing.wait(TUNE_LOOK_S):
            limit_s = max(TUNE_UNTENDED_S, self._conf.raftMinTimeout)
            if self._conf.autoTick or self._tended_s is None or self._is_cut:
                continue
            if time.monotonic() - self._tended_s > limit_s:
                with self._guard, contextlib.suppress(raftmeta.RaftmetaError):
                    self._cut(tuple(self._others()))
        changes.join(self._node.config.close_timeout_s)

    def _others(self) -> set[str]:
        return {member.name for member in self._node.status().members} - {self._name}

    def _cut(self, peers: tuple[str, ...]) -> None:
        is_whole = len(peers) > 1 or set(peers) == self._others()
        faults.set_link_faults(self._node, {peer: faults.LinkFault(cut_to=True, cut_from=True) for peer in peers})
        self._is_cut = bool(peers) and is_whole

    def _change_members(self) -> None:
        """The leader's engine gets the members that the log names."""
        while not self._closing.wait(4 * TUNE_LOOK_S):
            try:
                status = self._node.status()
                wanted = self._wanted
                if wanted is None or not (status.is_leader and status.is_ready):
                    continue
                present = {member.name for member in status.members if member.role}
                for name in sorted(wanted - present):
                    self._node.add_member(name, engine_address(name), timeout_s=TUNE_CHANGE_S)
                for name in sorted(present - wanted) if self._conf.dynamicMembershipChange else ():
                    self._node.remove_member(name, timeout_s=TUNE_CHANGE_S)
            except raftmeta.RaftmetaError as error:
                log.info("members not changed yet name=%s error=%s", self._name, error)
