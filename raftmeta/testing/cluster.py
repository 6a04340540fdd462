"""A cluster of real nodes in one process, on loopback and in folders of its own, with faults on request.

It decides which nodes run, and which frames pass between them; a restarted node has the faults that hold then. It never
reaches into a node. Every fault is one of raftmeta.faults, every look a public call.
"""

from __future__ import annotations

import contextlib
import ctypes
import random
import shutil
import socket
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from raftmeta import Config, Node, NodeClosed, NodeEvent, NodeStatus, RaftmetaError, faults
from raftmeta.faults import LinkFault

T = TypeVar("T")

# Short time-outs, so that a test need not wait for an election; native threads keep them on a busy machine, too.
TEST_CONFIG = Config(
    heartbeat_s=0.04,
    election_timeout_s=0.2,
    segment_bytes=1024 * 1024,
    wal_bytes_max=256 * 1024 * 1024,
    reserve_bytes=0,
    close_timeout_s=10.0,
    checks=True,
)
POLL_S = 0.002
EVENTS_REPORTED = 12
PORTS = range(15000, 32000)  # below those that Linux gives to connections: a restarted node finds its port free


def stall_gil(seconds: float) -> None:
    """Hold the GIL for so long: no Python runs in this process, native threads do."""
    ctypes.PyDLL(None).usleep(round(seconds * 1_000_000))


class _Addresses:
    """Loopback addresses that no other cluster takes, of this process or another, while this object lives.

    Each is held by a socket that is bound and never listens. A node listens there beside it, because both sockets let
    the address be used again; another search binds without that, and is refused.
    """

    def __init__(self) -> None:
        self._held = contextlib.ExitStack()
        self._finalizer = weakref.finalize(self, self._held.close)

    def take(self) -> str:
        """One more "host:port"."""
        while True:
            holder, port = socket.socket(), random.SystemRandom().choice(PORTS)
            try:
                holder.bind(("127.0.0.1", port))
            except OSError:
                holder.close()
                continue
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._held.enter_context(holder)
            return f"127.0.0.1:{port}"


class Cluster:
    """Nodes "a", "b", "c", ... of one cluster; the context starts them and leaves neither thread nor file behind.

    nodes: how many, or their names. config: of every node, by default with short time-outs. folder: the place of their
    folders, which stay; by default a temporary one. seed: of frames that are lost or repeated by chance.

    Every verb takes a node by its name, its position, or the Node itself. A killed Node stays dead: ask the cluster
    again for the running one.
    """

    def __init__(
        self,
        nodes: int | Iterable[str] = 3,
        *,
        config: Config | None = None,
        folder: str | Path | None = None,
        seed: int = 1,
    ) -> None:
        names = [chr(ord("a") + number) for number in range(nodes)] if isinstance(nodes, int) else list(nodes)
        self.config = TEST_CONFIG if config is None else config
        self._addresses = _Addresses()
        self.peers = {name: self._addresses.take() for name in names}
        self._founders = tuple(names)
        self._given_folder = None if folder is None else Path(folder)
        self._folder: Path | None = self._given_folder
        self._seed = seed
        self._nodes: dict[str, Node] = {}
        self._readers: dict[str, Iterator[NodeEvent]] = {}
        self._events: dict[str, deque[str]] = {}
        self._cuts: set[tuple[str, str]] = set()
        self._weather: dict[tuple[str, str], LinkFault] = {}

    # --- life -------------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def start(self, *, timeout_s: float = 20.0) -> Self:
        """Start every stopped node; on return all are ready."""
        for name in self._founders:
            if not self.is_running(name):
                self.restart(name, wait=False)
        for node in self.running():
            self._ready(node, timeout_s)
        return self

    def close(self) -> None:
        """End all nodes and remove their folders, unless the caller gave the place."""
        for node in self._nodes.values():
            node.close(transfer=False)
        if self._given_folder is None and self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def folder(self) -> Path:
        """Where the nodes' folders are, each under its name."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="raftmeta-"))
        return self._folder

    # --- who is there -----------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self.peers)

    def name_of(self, which: str | int | Node) -> str:
        name = which.name if isinstance(which, Node) else self.names[which] if isinstance(which, int) else which
        if name not in self.peers:
            raise ValueError(f"no node {name!r} in this cluster: there are {', '.join(self.peers)}")
        return name

    def node(self, which: str | int | Node) -> Node:
        """The newest life of a node; it may have been killed."""
        return self._nodes[self.name_of(which)]

    def is_running(self, which: str | int | Node) -> bool:
        name = self.name_of(which)
        return name in self._nodes and self._nodes[name].is_running

    def running(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.is_running]

    def leader(self, *, timeout_s: float = 10.0) -> Node:
        """The node that leads and that a majority of the cluster follows in its term; waits for one."""
        return self.wait_for(self._agreed_leader, timeout_s=timeout_s, what="a leader that a majority follows")

    def followers(self, *, timeout_s: float = 10.0) -> list[Node]:
        """The running nodes that do not lead; waits for a leader."""
        leader = self.leader(timeout_s=timeout_s)
        return [node for node in self.running() if node is not leader]

    def _agreed_leader(self) -> Node | None:
        told = [node.status() for node in self.running()]
        for one in told:
            voters = {member.name for member in one.members if member.role == "voter"}
            follow = sum(other.name in voters and (other.term, other.leader) == (one.term, one.name) for other in told)
            if one.is_leader and 2 * follow > len(voters):
                return self._nodes[one.name]
        return None

    # --- ends and beginnings ----------------------------------------------------------------------------------------

    def kill(self, which: str | int | Node) -> None:
        """End a node as kill -9 would (raftmeta.faults.abort); a node that does not run stays as it is."""
        with contextlib.suppress(NodeClosed):
            faults.abort(self.node(which))

    def stop(self, which: str | int | Node) -> None:
        """End a node in good order: a leader hands over, and every waiting caller gets an answer."""
        self.node(which).close()

    def restart(self, which: str | int | Node, *, wait: bool = True, timeout_s: float = 20.0) -> Node:
        """Start a node over the folder of its last life, after killing that life; wait: until it is ready."""
        name = self.name_of(which)
        if name in self._nodes:
            self.kill(name)
        # One that was added knows the founders and itself; the rest stands in the log that it is sent.
        peers = {known: self.peers[known] for known in dict.fromkeys((*self._founders, name))}
        node = Node(name, peers=peers, data_dir=self.folder / name, config=self.config)
        faults.set_link_faults(node, self._faults_of(name), seed=self._seed)
        node.start()
        self._nodes[name] = node
        self._events[name] = deque(maxlen=EVENTS_REPORTED)
        self._readers[name] = node.events(timeout_s=0)
        if wait:
            self._ready(node, timeout_s)
        return node

    def wipe(self, which: str | int | Node) -> None:
        """Kill a node and remove its folder, as if its disk had been replaced."""
        name = self.name_of(which)
        if name in self._nodes:
            self.kill(name)
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def add(self, name: str) -> Node:
        """Start one more node with a blank folder: it finds the cluster and waits until add_member names it."""
        if name in self.peers:
            raise ValueError(f"there is a node {name!r} already")
        self.peers[name] = self._addresses.take()
        return self.restart(name, wait=False)

    def free_address(self) -> str:
        """A "host:port" on loopback that nobody else takes while this cluster lives."""
        return self._addresses.take()

    def _ready(self, node: Node, timeout_s: float) -> None:
        try:
            node.ready(timeout_s)
        except RaftmetaError as error:
            error.add_note(self.report())
            raise

    # --- the network ------------------------------------------------------------------------------------------------

    def partition(self, *groups: Iterable[str | int | Node]) -> None:
        """Let frames pass only inside each group; a node of no group goes on with everybody. Replaces other cuts.

        Connections stay open, as over a cable that was pulled. When this returns, no frame passes between groups.
        """
        named = [{self.name_of(which) for which in group} for group in groups]
        if len(set().union(*named)) != sum(map(len, named)):
            raise ValueError("a node stands in two groups")
        self._cuts = {
            (source, target)
            for group in named
            for other in named
            if other is not group
            for source in group
            for target in other
        }
        self._apply_faults()

    def isolate(self, which: str | int | Node) -> None:
        """Cut one node off from all others. Replaces other cuts."""
        name = self.name_of(which)
        self.partition({name}, set(self.peers) - {name})

    def cut(self, source: str | int | Node, target: str | int | Node) -> None:
        """Lose the frames from source to target, in this direction only, beside earlier cuts."""
        self._cuts.add((self.name_of(source), self.name_of(target)))
        self._apply_faults()

    def disturb(
        self,
        source: str | int | Node,
        target: str | int | Node,
        *,
        drop: float = 0.0,
        duplicate: float = 0.0,
        delay_s: float = 0.0,
    ) -> None:
        """Lose, repeat (probabilities from 0 to 1) and delay frames from source to target, from now on until heal."""
        fault = LinkFault(drop=drop, duplicate=duplicate, delay_s=delay_s)
        self._weather[self.name_of(source), self.name_of(target)] = fault
        self._apply_faults()

    def heal(self) -> None:
        """Let every frame pass again."""
        self._cuts.clear()
        self._weather.clear()
        self._apply_faults()

    def _faults_of(self, name: str) -> dict[str, LinkFault]:
        found = {}
        for peer in self.peers:
            to_peer, from_peer = (name, peer), (peer, name)
            weather = self._weather.get(to_peer, LinkFault())
            fault = LinkFault(
                cut_to=to_peer in self._cuts,
                cut_from=from_peer in self._cuts,
                drop=weather.drop,
                duplicate=weather.duplicate,
                delay_s=weather.delay_s,
            )
            if fault != LinkFault():
                found[peer] = fault
        return found

    def _apply_faults(self) -> None:
        for name, node in self._nodes.items():
            if node.is_running:
                faults.set_link_faults(node, self._faults_of(name), seed=self._seed)

    # --- waiting and telling ----------------------------------------------------------------------------------------

    def stall_gil(self, seconds: float) -> None:
        """Hold the GIL of this process, which is every node's host; see stall_gil of this module."""
        stall_gil(seconds)

    def wait_for(self, condition: Callable[[], T | None], *, timeout_s: float = 10.0, what: str = "") -> T:
        """Return the first true value of condition(). After timeout_s without one: AssertionError with a report of all.

        what: the condition in words, for that error.
        """
        deadline = time.monotonic() + timeout_s
        while not (value := condition()):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {timeout_s} s: {what or condition}\n{self.report()}")
            time.sleep(POLL_S)
        return value

    def wait_converged(self, *, timeout_s: float = 10.0) -> NodeStatus:
        """Wait until all running nodes have applied the same entries; raises if their state hashes then differ."""

        def converged() -> NodeStatus | None:
            told = [node.status() for node in self.running()]
            same = {(one.applied, one.committed) for one in told}
            return told[0] if len(same) == 1 and told[0].applied == told[0].committed else None

        found = self.wait_for(converged, timeout_s=timeout_s, what="all nodes to have applied the same")
        told = [node.status() for node in self.running()]
        if len({one.state_hash for one in told if one.applied == found.applied}) > 1:
            raise AssertionError(f"states differ at index {found.applied}\n{self.report()}")
        return found

    def report(self) -> str:
        """How every node sees itself, and the last events of each, for the output of a failed test."""
        return "\n".join(line for name in self.peers for line in self._report_of(name))

    def _report_of(self, name: str) -> Iterator[str]:
        node = self._nodes.get(name)
        told = None
        with contextlib.suppress(NodeClosed):
            told = None if node is None else node.status()
        if told is None:
            yield f"{name}: does not run"
        else:
            yield (
                f"{name}: {told.state} {told.role} term={told.term} leader={told.leader or '-'} "
                f"committed={told.committed} applied={told.applied} last={told.last} revision={told.revision} "
                f"faults={sorted(self._faults_of(name)) or '-'}"
            )
        if name in self._readers:
            self._events[name].extend(str(event) for event in self._readers[name])
            yield from (f"    {event}" for event in self._events[name])
