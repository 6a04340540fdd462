"""A target tree that is kept as its source is: by walks over both, and by the source's events between them.

It decides how a node of the target becomes like that of the source, and never looks back: both nodes are read, compared
and made equal, however they came to differ. So a mirror may be killed at any point and goes on by a walk. A watch on
the source is set before a walk begins: a change during the walk is an event that is dealt with after it, so no change
falls between the two. Watches do not tell changes of rights; the next walk finds them.

Kept: paths, data, versions, lists of rights, kinds, and the next number of sequential children. Not kept: zxids, times,
versions of rights and of children, which the target's server counts itself. Ephemeral nodes are noted and left out.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from raftmeta.migrate.live.requests import Kind, Node, Right, Stat, Step, created, deleted, written
from raftmeta.migrate.live.rights import is_locked, is_masked, locked
from raftmeta.migrate.live.state import Row, State
from raftmeta.migrate.live.tree import Changed, Tree, below
from raftmeta.migrate.problems import NotMigratable

__all__ = ["Events", "Found", "Mirror"]

BATCH = 256  # nodes that are compared together
ROUNDS = 50  # of one batch whose nodes change under the hand
SHOWN = 20  # differences that are named; all are counted
VERSION_MAX = 100_000  # a version is reached by as many writes
PAD_STEPS = 1000  # pairs of a creation and a removal that go together
PAD_NAME = "raftmeta-migration-counts"  # is made and removed in one request: nobody sees it
OWN = "/zookeeper"  # configuration and quotas of the servers themselves


class Events:
    """Paths that changed, each once, in the order of their first change. kazoo's thread adds, the mirror takes."""

    def __init__(self) -> None:
        self._paths: dict[str, None] = {}
        self._news = threading.Condition()

    def add(self, path: str) -> None:
        with self._news:
            self._paths[path] = None
            self._news.notify()

    def take(self, count: int, timeout_s: float) -> list[str]:
        """The next ones, at most so many; waits for the first of them."""
        with self._news:
            self._news.wait_for(lambda: self._paths, timeout_s)
            taken = list(self._paths)[:count] if len(self._paths) > count else list(self._paths)
            for path in taken:
                del self._paths[path]
            return taken

    def clear(self) -> None:
        with self._news:
            self._paths.clear()

    def __len__(self) -> int:
        return len(self._paths)


@dataclass(slots=True)
class Found:
    """The outcome of a walk. first: some differences in words. open: nodes of the source that are not locked.

    mark: a number of the source's nodes and their changes; two walks without a change between them have the same.
    """

    nodes: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    first: list[str] = field(default_factory=list)
    open: int = 0
    unkept_versions: int = 0
    mark: int = 0

    @property
    def differences(self) -> int:
        return self.counts.total()

    def add(self, path: str, whats: Sequence[str]) -> None:
        self.counts.update(whats)
        if whats and len(self.first) < SHOWN:
            self.first.append(f"{path}: {', '.join(whats)}")


class _Pair(NamedTuple):
    """A path on both sides. source: None too for an ephemeral one. acl: that the target's node must have."""

    path: str
    source: Node | None
    target: Node | None
    acl: tuple[Right, ...]
    is_acl_equal: bool
    is_open: bool
    is_kind_equal: bool

    def differences(self) -> list[str]:
        source, target = self.source, self.target
        if source is None:
            return [] if target is None else ["extra"]
        if target is None:
            return ["missing"]
        found = []
        if not self.is_kind_equal:
            found.append("kind")
        if source.data != target.data:
            found.append("data")
        if has_version(source) and source.stat.version != target.stat.version:
            # The root cannot be made anew, so its version may be higher.
            found += ["version"] if self.path != "/" or target.stat.version < source.stat.version else []
        if not self.is_acl_equal:
            found.append("rights")
        if target.stat.creates < source.stat.creates:
            found.append("counter")
        return found


def has_version(node: Node) -> bool:
    """Whether the target's node gets the same version."""
    return 0 <= node.stat.version <= VERSION_MAX


class Mirror:
    """source, target: open trees. state: rights that were read are kept there.

    is_held: the target's nodes stay locked, because an earlier move locked them. on_progress: called with the number
    of nodes that a walk or a lock has looked at; it may raise, which ends the walk.
    """

    def __init__(
        self,
        source: Tree,
        target: Tree,
        state: State,
        *,
        is_held: bool,
        on_progress: Callable[[int], object] = lambda nodes: None,
    ) -> None:
        self._source = source
        self._target = target
        self._state = state
        self._secret = state.get("secret")
        self._on_progress = on_progress
        self._short: dict[str, None] = {}  # parents whose counter may be behind
        self._ephemerals: dict[str, int] = dict(state.ephemerals())
        self.is_held = is_held
        self.kinds: dict[str, tuple[int, int]] = {}  # by path: czxid and owner of containers and nodes with a time

    # --- walks ------------------------------------------------------------------------------------------------------

    def walk(self, top: str = "/", *, repair: bool, is_full: bool = False) -> Found:
        """Compare both trees from top on, and make the target's equal.

        repair: False only looks. is_full: read all rights anew, also where their version says that they did not change.
        Returns what differed before it was repaired. Raises Broken, PermissionDenied, NotMigratable.
        """
        found = Found()
        if top == "/":
            self._state.forget_ephemerals()
            self._ephemerals.clear()
        waiting = [top]
        while waiting:
            paths = [path for path in dict.fromkeys(waiting[-BATCH:]) if not self._is_own(path)]
            del waiting[-BATCH:]
            pairs, again = self._settle(paths, repair, is_full, found)
            for pair in pairs:
                if pair.path not in again:
                    waiting += _children(pair)
            waiting += again
            self._on_progress(found.nodes)
        if repair:
            self._pad()
        return found

    def _is_own(self, path: str) -> bool:
        return not self._source.chroot and (path == OWN or path.startswith(f"{OWN}/"))

    def follow(self, paths: Sequence[str]) -> Found:
        """Make these nodes of the target like those of the source, after events; returns what differed before."""
        found = Found()
        wanted = [path for path in paths if not self._is_own(path)]
        pairs, again = self._settle(wanted, True, False, found)
        for path in again:
            self.walk(path, repair=True)
        for pair in pairs:
            if (pair.source is None or pair.target is None) and pair.path != "/":
                self._short[pair.path.rpartition("/")[0] or "/"] = None
        return found

    def catch_counters_up(self) -> None:
        """Give the parents that are behind the numbers of their next sequential children."""
        self._pad()

    def _settle(self, paths: list[str], repair: bool, is_full: bool, found: Found) -> tuple[list[_Pair], list[str]]:
        """Compare and repair some nodes; returns them, and the paths below which a walk must begin anew."""
        for attempt in range(ROUNDS):
            pairs = self._look(paths, is_full)
            if attempt == 0:
                self._count(pairs, found)
            if not repair:
                return pairs, []
            try:
                return pairs, self._repair(pairs)
            except Changed as error:
                reason = str(error)
        raise NotMigratable(f"{reason}, again and again: another program writes to {self._target.address}", count=1)

    def _count(self, pairs: Sequence[_Pair], found: Found) -> None:
        for pair in pairs:
            found.add(pair.path, pair.differences())
            if pair.source is not None:
                found.nodes += 1
                found.open += pair.is_open
                found.unkept_versions += not has_version(pair.source)
                stat = pair.source.stat
                found.mark ^= hash((pair.path, stat.czxid, stat.mzxid, stat.aversion))

    # --- reading ----------------------------------------------------------------------------------------------------

    def _look(self, paths: list[str], is_full: bool) -> list[_Pair]:
        reads = self._source.begin_read(paths), self._target.begin_read(paths)
        sources = {path: self._with_kind(node) for path, node in zip(paths, reads[0](), strict=True)}
        targets = dict(zip(paths, reads[1](), strict=True))
        self._note_ephemerals(sources)
        for path, node in sources.items():
            if node is not None and node.stat.kind is Kind.EPHEMERAL:
                sources[path] = None
        rows = self._rows(sources, is_full)
        for path in sources:
            if path not in rows:
                sources[path] = None  # it went while its rights were read; an event tells it
        equal = self._equal_rights(rows, targets, is_full)
        pairs = []
        for path in paths:
            row = rows.get(path)
            acl = self._expected(row) if row is not None else ()
            is_open = row is not None and row.locked is None
            source, target = sources[path], targets[path]
            is_kind_equal = True
            if row is not None and source is not None and target is not None:
                is_kind_equal = self._is_kind_equal(source, target, row.made)
            pairs.append(_Pair(path, source, target, acl, path in equal, is_open, is_kind_equal))
        return pairs

    def _with_kind(self, node: Node | None) -> Node | None:
        """The node with its kind, where the source's files tell it and the source itself does not."""
        if node is None or node.stat.owner:
            return node
        czxid, owner = self.kinds.get(node.path, (0, 0))
        return node._replace(stat=node.stat._replace(owner=owner)) if czxid == node.stat.czxid else node

    def _is_kind_equal(self, source: Node, target: Node, made: str) -> bool:
        """Kinds that a server hides are those that the mirror made; kinds that nobody can know are not compared."""
        if target.stat.kind is Kind.EPHEMERAL:
            return False
        if source.stat.owner == 0 and not self.kinds:
            return True
        there = target.stat.name_of_kind if target.stat.owner else made
        return there in ("", source.stat.name_of_kind)

    def _note_ephemerals(self, nodes: dict[str, Node | None]) -> None:
        present = {p: n.stat.owner for p, n in nodes.items() if n is not None and n.stat.kind is Kind.EPHEMERAL}
        absent = [path for path in nodes if path in self._ephemerals and path not in present]
        news = [(path, owner) for path, owner in present.items() if self._ephemerals.get(path) != owner]
        self._state.see_ephemerals(news, absent)
        self._ephemerals.update(present)
        for path in absent:
            del self._ephemerals[path]

    def _rows(self, nodes: dict[str, Node | None], is_full: bool) -> dict[str, Row]:
        """The rows of the source's nodes: remembered ones where their version is the same, else read."""
        known = self._state.rows(list(nodes))
        rows = {
            path: known[path]
            for path, node in nodes.items()
            if node is not None and path in known and _is_known(node, known[path], is_full)
        }
        unknown = [path for path, node in nodes.items() if node is not None and path not in rows]
        for path, given in zip(unknown, self._source.acls(unknown), strict=True):
            if given is not None:
                rows[path] = self._row_read(path, known.get(path), *given)
        changed = [row for row in rows.values() if known.get(row.path) != row]
        self._state.save(changed, gone=[path for path in known if nodes[path] is None])
        return rows

    def _row_read(self, path: str, row: Row | None, acl: tuple[Right, ...], stat: Stat) -> Row:
        """The row of a node whose rights were just read."""
        if is_locked(acl):
            return self._row_of_locked(path, row, stat.czxid, stat.aversion)
        if is_masked(acl):
            raise NotMigratable(
                f"{self._source.name}: the rights of {path} are shown without their digests: give the credentials of "
                "a superuser, or of a user who may administer it",
                count=1,
            )
        if row is not None and (row.czxid, row.aversion, row.acl) == (stat.czxid, stat.aversion, acl):
            return row._replace(locked=None)
        return Row(path, stat.czxid, stat.aversion, acl)

    def _row_of_locked(self, path: str, row: Row | None, czxid: int, aversion: int) -> Row:
        """A lock was asked for, and the migrator ended before it noted the answer. The lock named the aversion."""
        if row is None or row.czxid != czxid or row.aversion + 1 != aversion:
            raise NotMigratable(
                f"{self._source.name}: {path} is locked by a move whose state is not in this folder: use the folder of "
                "that move, or set the rights of the locked nodes as a superuser",
                count=1,
            )
        return row._replace(locked=aversion)

    def _expected(self, row: Row) -> tuple[Right, ...]:
        return locked(row.acl, self._secret) if self.is_held else row.acl

    def _equal_rights(self, rows: dict[str, Row], targets: dict[str, Node | None], is_full: bool) -> set[str]:
        """The paths whose target has the rights that it must have."""
        equal: set[str] = set()
        unknown: list[str] = []
        for path, row in rows.items():
            target = targets[path]
            if target is None:
                continue
            if not is_full and (row.target_czxid, row.target_aversion) == (target.stat.czxid, target.stat.aversion):
                equal.add(path)
            else:
                unknown.append(path)
        seen: list[Row] = []
        for path, given in zip(unknown, self._target.acls(unknown), strict=True):
            if given is not None and set(given[0]) == set(self._expected(rows[path])):
                equal.add(path)
                seen.append(
                    rows[path]._replace(target_czxid=given[1].czxid, target_aversion=given[1].aversion),
                )
        self._state.save([row for row in seen if row != rows[row.path]])
        return equal

    # --- the lock ---------------------------------------------------------------------------------------------------

    def lock(self) -> None:
        """Lock all nodes of the source, parents before their children.

        The order keeps rights from being lost. A list of rights is replaced only if it has the version that was read.
        But a node that is removed and made anew has its first version again:
        1. the migrator reads the rights of a child; 2. a program makes the child anew, with other rights; 3. the
        migrator locks the new child, whose own rights nobody knows. Under a locked parent step 2 is refused.
        """
        level = ["/"]
        while level:
            children: list[str] = []
            for first in range(0, len(level), BATCH):
                children += self._lock_some([path for path in level[first : first + BATCH] if not self._is_own(path)])
                self._on_progress(first)
            level = children

    def _lock_some(self, paths: list[str]) -> list[str]:
        """Lock these nodes, and return their children as they are since then."""
        for _ in range(ROUNDS):
            found = {node.path: node for node in self._source.read(paths) if node is not None}
            nodes: dict[str, Node | None] = {
                path: node for path, node in found.items() if node.stat.kind is not Kind.EPHEMERAL
            }
            rows = self._rows(nodes, False)
            todo = [row for row in rows.values() if row.locked is None]
            if not todo:
                return [below(path, name) for path in rows for name in found[path].names]
            wanted = [(row.path, locked(row.acl, self._secret), row.aversion) for row in todo]
            pairs = zip(todo, self._source.set_acls(wanted), strict=True)
            self._state.save([row._replace(locked=stat.aversion) for row, stat in pairs if stat is not None])
        raise NotMigratable(f"{self._source.name}: rights below {paths[0]} change again and again", count=1)

    # --- writing ----------------------------------------------------------------------------------------------------

    def _repair(self, pairs: Sequence[_Pair]) -> list[str]:
        """Make the target's nodes equal; returns those that had to go first, with all below them."""
        again: list[str] = []
        steps: list[Step] = []
        acls: list[tuple[str, tuple[Right, ...], int]] = []
        made: list[tuple[str, str]] = []
        for pair in sorted(pairs, key=lambda pair: pair.path.count("/") if pair.path != "/" else 0):
            source, target = pair.source, pair.target
            if source is None:
                if target is not None:
                    self._target.remove(pair.path)
            elif target is None:
                steps += _creation(pair, source)
                made.append((source.stat.name_of_kind, pair.path))
                if source.stat.creates:
                    self._short[pair.path] = None
            elif _must_be_made_anew(pair, source, target):
                self._target.remove(pair.path)
                again.append(pair.path)
            else:
                steps += _writes(pair.path, source, target.stat.version, target.data)
                if not pair.is_acl_equal:
                    acls.append((pair.path, pair.acl, target.stat.aversion))
                if target.stat.creates < source.stat.creates:
                    self._short[pair.path] = None
        self._target.write(steps)
        self._state.note_made(made)
        if None in self._target.set_acls(acls):
            raise Changed(f"{self._target.name}: the rights of a node changed")
        return again

    def _pad(self) -> None:
        """Count the parents that are behind on: make and remove a child as often as it takes, in one request each.

        A number may come out too high while the source's children come and go; it is never too low in the end, so no
        sequential child gets a number that was given before.
        """
        while self._short:
            paths = list(self._short)[:BATCH]
            for source, target in zip(self._source.read(paths), self._target.read(paths), strict=True):
                if source is not None and target is not None:
                    self._pad_one(target.path, self._missing_creates(source, target))
            for path in paths:
                del self._short[path]

    def _missing_creates(self, source: Node, target: Node) -> int:
        """How many children the target's node must be given and taken, besides those that the mirror still makes."""
        coming = set(source.names) - set(target.names)
        mirrored = sum(below(source.path, name) not in self._ephemerals for name in coming)
        return source.stat.creates - target.stat.creates - mirrored

    def _pad_one(self, path: str, missing: int) -> None:
        child = below(path, PAD_NAME)
        acl = [Right(31, "world", "anyone")]
        pair = [created(child, None, acl, Kind.PERSISTENT), deleted(child)]
        try:
            for first in range(0, missing, PAD_STEPS):
                self._target.write(pair * min(PAD_STEPS, missing - first))
        except Changed:
            pass  # the parent went meanwhile; the next look at it counts anew


def _is_known(node: Node, row: Row, is_full: bool) -> bool:
    """Whether the node has the rights of the row. Nobody but the migrator gives rights to a locked node."""
    if row.czxid != node.stat.czxid:
        return False
    return node.stat.aversion == row.locked or (not is_full and node.stat.aversion == row.aversion)


def _children(pair: _Pair) -> Iterator[str]:
    """The paths that a walk looks at next. Below a node that the source has not, there is nothing to compare."""
    if pair.source is not None:
        names = dict.fromkeys(pair.source.names)
        if pair.target is not None:
            names.update(dict.fromkeys(pair.target.names))
        for name in names:
            yield below(pair.path, name)


def _must_be_made_anew(pair: _Pair, source: Node, target: Node) -> bool:
    """A kind cannot be changed, a version cannot fall, and a version with other data is that of another node."""
    if pair.path == "/":
        return False
    if not pair.is_kind_equal:
        return True
    least = target.stat.version + (source.data != target.data)
    return has_version(source) and source.stat.version < least


def _creation(pair: _Pair, source: Node) -> list[Step]:
    """The steps that make a node with its version: a creation, and as many writes as the version says."""
    is_written = has_version(source) and source.stat.version > 0
    first = b"" if is_written else source.data
    step = created(pair.path, first, pair.acl, source.stat.kind, source.stat.ttl_ms)
    return [step, *(_writes(pair.path, source, 0, first) if is_written else [])]


def _writes(path: str, source: Node, version: int, data: bytes | None) -> list[Step]:
    """The writes that bring the target's node from its version to the source's; the last one has the data.

    Each names the version before it: a write of somebody else in between is noticed, and none is done twice.
    """
    if not has_version(source) or version >= source.stat.version:
        return [] if data == source.data else [written(path, source.data, version)]
    numbers = range(version, source.stat.version)
    return [written(path, source.data if number == numbers[-1] else b"", number) for number in numbers]
