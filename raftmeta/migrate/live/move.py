"""The move of a running ensemble: follow it, compare, cut over, and go back.

It decides in which order the steps of a move come and which of them may be repeated. The source is only read until the
cut over; the cut over changes nothing but the rights of its nodes, and `abort` gives them back. Every step may be
killed and called again.

Two barriers keep writers away from the source while the last changes are taken over:

- rights (the default): every node gets a list of rights by which everybody who could read it still reads it, and nobody
  but the migrator writes. Proof: one walk in which every node is locked and nothing differs; and a stranger's write is
  refused.
- a command of the operator's, which stops the writers. Proof: two walks in a row see the same nodes with the same
  zxids, nothing differs, and no event came between.

A node's rights are replaced only if they still have the version that was remembered, so no change of rights is lost.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self, TypeVar

from raftmeta import Client, InvalidArgument, Node, RaftmetaError, Refused, View
from raftmeta.migrate.closing import Closing
from raftmeta.migrate.live.access import Access
from raftmeta.migrate.live.kinds import kinds_of
from raftmeta.migrate.live.mirror import Events, Found, Mirror
from raftmeta.migrate.live.requests import Right, owner_of
from raftmeta.migrate.live.rights import is_locked, lock_credential
from raftmeta.migrate.live.state import Row, State
from raftmeta.migrate.live.tree import CONNECT_S, Broken, Tree
from raftmeta.migrate.problems import NotMigratable
from raftmeta.migrate.zookeeper import ZooKeeperSource

__all__ = ["Move", "Moved", "read_status"]

TAKEN = 256  # events that are dealt with together
IDLE_S = 0.2  # without an event: then the counters are looked at
COUNT_EVERY_S = 5.0  # the children of many parents are listed for it
STATUS_S = 1.0  # between two notes of the status
WALK_EVERY_S = 60.0  # changes of rights come with no event
REFUSED_S_MAX = 10.0  # of refused writes, then the source is opened again
PROBE = "/raftmeta-migration-probe"
FORWARD, BACK = "forward", "back"
FOLLOWING, LOCKING, MOVED = "following", "locking", "moved"
Authentication = Sequence[tuple[str, str]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Moved:
    """A cut over. refused_s: from the first lock, or the start of the command, until all was verified."""

    nodes: int
    refused_s: float
    last_zxid: int
    walks: int


def read_status(folder: Path) -> dict[str, Any]:
    """The status that the migrator in this folder noted last, and the ephemeral nodes of its source.

    It may run meanwhile, or have ended. Raises InvalidArgument: there is no move in the folder.
    """
    state = State(folder, is_reader=True)
    try:
        told = state.status()
        told["direction"], told["phase"] = state.get("direction"), state.get("phase")
        told["ephemerals"] = [f"{path} of session {owner & (1 << 64) - 1:#x}" for path, owner in state.ephemerals()]
        return told
    finally:
        state.close()


class Move(Closing):
    """A context in which one move is carried on.

    old, new: host:port,host:port/chroot of the ensemble and of the door. folder: of the state; the same one for all
    steps of a move. is_back: from new to old, after a cut over. old_access, new_access: how the sides are reached.
    old_auth, new_auth: the same for (scheme, credential) pairs alone. files: dataDir of a server of the ensemble, for
    the kinds of nodes that no client sees (`ZooKeeperSource`). store: of the doors' cluster, which tells the kinds on
    the way back; zookeeper_root: its Config.zookeeper_root.
    overwrite: the first time, take a target that has nodes already, and remove those that the source has not.
    on_progress: called with the number of nodes that a walk has looked at. on_status: called with each status.
    Raises InvalidArgument, Refused: this step does not follow the last one. Raises NotExecuted: a side is not there.
    """

    def __init__(
        self,
        old: str,
        new: str,
        folder: Path,
        *,
        is_back: bool = False,
        old_auth: Authentication = (),
        new_auth: Authentication = (),
        old_access: Access | None = None,
        new_access: Access | None = None,
        overwrite: bool = False,
        files: Path | None = None,
        store: Client | Node | View | None = None,
        zookeeper_root: str = "zookeeper",
        on_progress: Callable[[int], object] = lambda nodes: None,
        on_status: Callable[[dict[str, Any]], object] = lambda status: None,
    ) -> None:
        self._state = State(folder)
        self._on_status = on_status
        self._events = Events()
        self._sides = (old, new)
        self._direction = BACK if is_back else FORWARD
        self._overwrite = overwrite
        self._files = files
        self._store = store
        self._root = zookeeper_root
        accesses = (old_access or Access(old_auth), new_access or Access(new_auth))
        self._stranger = (new if is_back else old, accesses[is_back].of_stranger())
        own = lock_credential(self._state.get("secret"))
        with_own = [replace(access, auth=[*access.auth, own]) for access in accesses]
        before = Tree(
            old, "source" if not is_back else "target", access=with_own[0], on_event=self._on_event(not is_back)
        )
        after = Tree(new, "source" if is_back else "target", access=with_own[1], on_event=self._on_event(is_back))
        self._source, self._target = (after, before) if is_back else (before, after)
        self._on_progress = on_progress
        self._mirror = Mirror(self._source, self._target, self._state, is_held=False, on_progress=self._on_batch)
        self._told_s = 0.0
        self._count_at_s = 0.0
        self._refused: tuple[float, float] | None = None  # since when writes are refused, and until when they may be
        self._last_walk: Found | None = None

    def _on_batch(self, nodes: int) -> None:
        self._on_progress(nodes)
        self._check_time()

    def _on_event(self, is_source: bool) -> Callable[[str], object]:
        return self._events.add if is_source else lambda path: None

    def __enter__(self) -> Self:
        try:
            self._check_sides()
            self._source.open(CONNECT_S)
        except BaseException:
            self.close()
            raise
        return self

    def close(self) -> None:
        self._source.close()
        self._target.close()
        self._state.close()

    # --- the order of steps -----------------------------------------------------------------------------------------

    def _check_sides(self) -> None:
        known = self._state.get("old"), self._state.get("new")
        if any(known) and known != self._sides:
            raise InvalidArgument(
                f"state: its move is from {known[0]} to {known[1]}, not from {self._sides[0]} to {self._sides[1]}: "
                "give the same addresses, or another folder",
                field="state",
            )

    def _begin(self) -> None:
        """Connect to the target, and begin a direction if it is a new one."""
        known, phase = self._state.get("direction"), self._state.get("phase")
        if not known and self._direction == BACK:
            raise Refused("no move was made with this state yet: --back is for the way back after a cut over")
        if known == self._direction and phase == MOVED:
            raise Refused(f"the cut over is done: {self._target.address} is in charge; --back goes back")
        if known and known != self._direction and phase != MOVED:
            raise Refused("a move in the other direction is under way: cut over or abort it first")
        self._target.open(CONNECT_S)
        self._mirror.is_held = int(self._state.get("moves", "0")) > 0
        if known == self._direction:
            return
        if not known:
            self._steady(self._check_target)
        self._state.begin(
            direction=self._direction, phase=FOLLOWING, old=self._sides[0], new=self._sides[1], status="{}"
        )

    def _check_target(self) -> None:
        """A mirror removes nodes that the source has not: so it starts on an empty tree only."""
        if self._source.read(["/"]) == [None]:
            raise InvalidArgument(
                f"source: there is no {self._source.chroot} in {self._source.address}", field="source"
            )
        (root,) = self._target.read(["/"])
        names = [] if root is None else [name for name in root.names if self._target.chroot or name != "zookeeper"]
        if names and not self._overwrite:
            raise Refused(
                f"target: {self._target.address} has nodes already, /{names[0]} for example: the migrator would remove "
                "those that the source has not; --overwrite allows it"
            )

    def _check_not_locking(self) -> None:
        if self._state.get("phase") == LOCKING:
            raise Refused("a cut over was interrupted, and nodes may be locked: call cut-over again, or abort")

    def _steady(self, work: Callable[[], T]) -> T:
        """Do the work, anew from its beginning whenever a connection breaks. Raises NotExecuted."""
        while True:
            try:
                return work()
            except Broken:
                self._source.wait(self._patience_s())
                self._target.wait(self._patience_s())

    def _patience_s(self) -> float:
        """How long a connection may be waited for: while writes are refused, not longer than they may be."""
        if self._refused is None:
            return CONNECT_S
        return max(1.0, self._refused[1] - time.monotonic())

    def _check_time(self) -> None:
        """Raises NotMigratable: writes have been refused for too long."""
        if self._refused is None or time.monotonic() <= self._refused[1]:
            return
        allowed_s = self._refused[1] - self._refused[0]
        raise NotMigratable(
            f"writes were refused for longer than {allowed_s:g} s, and the cut over was given up: writers may write "
            "on, or the tree needs more seconds",
            count=1,
        )

    # --- following --------------------------------------------------------------------------------------------------

    def follow(self, should_stop: Callable[[], bool], *, walk_every_s: float = WALK_EVERY_S) -> None:
        """Mirror the source until should_stop says so; it is asked at least every IDLE_S seconds."""
        self._begin()
        self._check_not_locking()
        while not should_stop():
            self._steady(lambda: self._follow_connection(should_stop, walk_every_s))
        self._tell(True)

    def _arm(self, *, is_full: bool = False) -> int:
        """Set the watch, then walk: a change during the walk is an event after it. Returns `breaks` of the watch."""
        self._target.make_above([Right(31, "world", "anyone")])
        self._events.clear()
        breaks = self._source.watch()
        self._read_kinds()
        self._walk(is_full=is_full)
        return breaks

    def _read_kinds(self) -> None:
        """The containers and nodes with a time to live, as the files or the doors' cluster have them by now."""
        chroot = self._source.chroot
        if self._direction == BACK and self._store is not None:
            self._mirror.kinds = dict(kinds_of(self._store, f"{self._root}{chroot}"))
        if self._direction == BACK or self._files is None:
            return
        with ZooKeeperSource(self._files) as source:
            self._mirror.kinds = {
                node.path.decode()[len(chroot) :]: (node.czxid, owner_of(node.is_container, node.ttl_ms))
                for node in source.nodes()
                if (node.is_container or node.ttl_ms) and node.path.decode().startswith(f"{chroot}/")
            }

    def _walk(self, *, is_full: bool = False) -> Found:
        self._last_walk = self._mirror.walk(repair=True, is_full=is_full)
        self._tell(True)
        return self._last_walk

    def _follow_connection(self, should_stop: Callable[[], bool], walk_every_s: float) -> None:
        """Follow as long as the watch lives."""
        breaks = self._arm()
        walk_at_s = time.monotonic() + walk_every_s
        while not should_stop() and self._source.breaks == breaks:
            if not self._take_events(IDLE_S) and time.monotonic() >= self._count_at_s:
                self._mirror.catch_counters_up()
                self._count_at_s = time.monotonic() + COUNT_EVERY_S
            if time.monotonic() >= walk_at_s:
                self._walk()
                walk_at_s = time.monotonic() + walk_every_s
            self._tell(False)

    def _take_events(self, timeout_s: float) -> bool:
        paths = self._events.take(TAKEN, timeout_s)
        if paths:
            self._mirror.follow(paths)
        return bool(paths)

    def _tell(self, is_now: bool) -> None:
        """Note the status for those who ask meanwhile."""
        now_s = time.monotonic()
        if not is_now and now_s - self._told_s < STATUS_S:
            return
        self._told_s = now_s
        walk = self._last_walk
        status = {
            "behind": len(self._events),
            "last zxid": f"{self._source.last_zxid:#x}",
            "nodes": self._state.count(),
            "differences that the last walk found and repaired": walk.differences if walk else 0,
            "versions over the limit": walk.unkept_versions if walk else 0,
            "noted at": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._state.tell(status)
        self._on_status(status)

    def verify(self) -> Found:
        """Read both trees whole and compare every path, data, version and list of rights; nothing is changed."""
        self._begin()
        self._read_kinds()
        return self._steady(lambda: self._mirror.walk(repair=False, is_full=True))

    # --- cutting over -----------------------------------------------------------------------------------------------

    def cut_over(self, *, stop_writers: Sequence[str] = (), refused_s_max: float = REFUSED_S_MAX) -> Moved:
        """Take over the last changes behind a barrier, verify everything, and leave the target in charge.

        stop_writers: a command that stops the writers, in the place of rights. refused_s_max: seconds of refused writes
        after which the source is opened again. Raises NotMigratable: it took longer, or writers write on. Raises the
        errors of follow. After an error the source is open again, unless its servers do not answer.
        """
        self._begin()
        self._steady(self._approach)
        stranger: Tree | None = None
        with ExitStack() as stack:
            if not stop_writers:
                address, access = self._stranger
                stranger = stack.enter_context(Tree(address, "source", access=access))  # without credentials
            begun_s = time.monotonic()
            self._state.settle(phase=LOCKING)
            try:
                if stop_writers:
                    _run(stop_writers)
                self._refused = (begun_s, begun_s + refused_s_max)
                moved = self._steady(lambda: self._take_over(stranger))
                if self._mirror.is_held:
                    self._steady(self._release)
            except (RaftmetaError, KeyboardInterrupt):
                self._refused = None
                self._unlock()
                raise
            self._refused = None
        self._state.settle(
            phase=MOVED, moves=str(int(self._state.get("moves", "0")) + 1), moved_zxid=f"{moved.last_zxid:#x}"
        )
        return Moved(moved.nodes, time.monotonic() - begun_s, moved.last_zxid, moved.walks)

    def _approach(self) -> None:
        """Verify everything while writers go on: behind the barrier only news are left to read."""
        self._arm(is_full=True)
        while self._take_events(0.0) and len(self._events) > TAKEN:
            self._tell(False)
        self._walk()

    def _take_over(self, stranger: Tree | None) -> Moved:
        """Walk until a walk proves that the source stands still and both sides are equal."""
        mark: int | None = None
        breaks = self._source.watch()
        walks = 0
        while True:
            if stranger is not None:
                self._mirror.lock()
                if walks == 0 and stranger.may_write(PROBE):
                    raise NotMigratable(
                        "the servers of the source ignore rights (skipACL?): use --stop-writers", count=1
                    )
            self._source.sync()
            self._events_that_wait()
            found = self._mirror.walk(repair=True)
            walks += 1
            is_still = found.open == 0 if stranger is not None else found.mark == mark
            differences = found.differences + self._events_that_wait()
            if is_still and not differences and self._source.breaks == breaks:
                return Moved(found.nodes, 0.0, self._source.last_zxid, walks)
            mark = found.mark
            breaks = self._source.watch()
            self._check_time()

    def _events_that_wait(self) -> int:
        """Deal with the events that have come; returns how many nodes differed. Ephemeral nodes may go on changing."""
        differences = 0
        for _ in range(0, len(self._events), TAKEN):
            differences += self._mirror.follow(self._events.take(TAKEN, 0.0)).differences
            self._check_time()
        return differences

    def _release(self) -> None:
        """The target was locked by an earlier move: give its nodes their rights, and look once more."""
        self._mirror.is_held = False
        for rows in self._state.all_rows():
            wanted = [(row.path, row.acl, -1 if row.target_aversion is None else row.target_aversion) for row in rows]
            stats = self._target.set_acls(wanted)
            self._state.save(
                row._replace(target_czxid=stat.czxid, target_aversion=stat.aversion) if stat else _unknown(row)
                for row, stat in zip(rows, stats, strict=True)
            )
        while self._mirror.walk(repair=True).differences:
            pass  # a node that has other rights after all is read and given its own

    # --- giving up --------------------------------------------------------------------------------------------------

    def abort(self) -> int:
        """Give the source's nodes their rights back after a cut over that did not end; returns how many.

        It needs the source only. Raises Refused: the cut over is done, and --back is the way.
        """
        if self._state.get("phase") == MOVED:
            raise Refused("the cut over is done: --back goes back")
        return self._unlock()

    def _unlock(self) -> int:
        count = 0
        for rows in self._state.all_rows():
            while True:
                try:
                    count += self._unlock_some(rows)
                    break
                except Broken:
                    self._source.wait(CONNECT_S)
        self._state.forget_target()  # it may have been given rights already
        self._state.put(phase=FOLLOWING)
        return count

    def _unlock_some(self, rows: list[Row]) -> int:
        """Nodes are looked at first: a lock may have been set and not noted, and one given back before."""
        found = self._source.acls([row.path for row in rows])
        todo = [
            (row, given[1].aversion) for row, given in zip(rows, found, strict=True) if given and is_locked(given[0])
        ]
        stats = self._source.set_acls([(row.path, row.acl, aversion) for row, aversion in todo])
        open_again = [
            row._replace(aversion=stat.aversion, locked=None)
            for (row, _), stat in zip(todo, stats, strict=True)
            if stat is not None
        ]
        self._state.save(open_again)
        return len(open_again)


def _unknown(row: Row) -> Row:
    """The rights of the target's node are to be read."""
    return row._replace(target_czxid=None, target_aversion=None)


def _run(command: Sequence[str]) -> None:
    """Raises NotMigratable: it did not end well, so nobody knows whether the writers stand."""
    try:
        ended = subprocess.run(command, check=False, stdin=subprocess.DEVNULL)
    except OSError as error:
        raise NotMigratable(f"{command[0]}: {error.strerror}", count=1) from None
    if ended.returncode:
        raise NotMigratable(f"{command[0]} ended with exit code {ended.returncode}: the writers may write on", count=1)
