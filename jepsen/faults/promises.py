"""What each sync promises, put to the test: three nodes work, lose everything unsynced, and are asked one by one.

    with Promises(folder) as promises:
        wrong = promises.broken(Lie("log", Action.LIE, "all"))      must not be empty
        wrong = promises.broken(None)                               must be empty

The script runs in one process under the shim, with a journal of what is not synced (jepsen/faults/unsynced.py). At its
end all is at rest and every node says what it has promised: who it is, how far its log goes, what its state is. Then
the process is killed, the journal is taken back whole, and each node is started alone: no other can give it anything.
It needs neither root nor images.

A lie is a mistake in the storage of one node or of all: one kind of sync is left out, comes before its writes, goes to
another file, or is swapped with that of another file. The script goes through every kind: it founds, fills segments,
checkpoints, trims, elects.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self

from jepsen.faults import damage
from jepsen.faults.scripted import ScriptFailed, found_by, started
from jepsen.faults.shim import Action, Calls, Page, Rule
from jepsen.faults.unsynced import Kind, Unsynced
from raftmeta import Node
from raftmeta.testing import Cluster
from raftmeta.testing.cluster import TEST_CONFIG
from tests.processes.waiting import free_addresses

SCRIPT = "jepsen.faults.promises"
NAMES = ("a", "b", "c")
READY_S = 60.0
LOOK_PAUSE_S = 0.02
PUTS, VALUE_BYTES, MORE_PUTS = 150, 1024, 40  # segments of 64 KiB roll twice before the checkpoint and once behind it
JOIN_PUTS = 300  # until the log begins behind its first entries, so that a joining node is sent a state
CONFIG = replace(
    TEST_CONFIG, segment_bytes=64 * 1024, wal_bytes_max=4 * 1024 * 1024, snapshot_entries=100, reserve_bytes=64 * 1024
)

# Each kind of sync by the ends of the paths that it is made for, below the folder of the nodes.
JOINS = "b"
MARK, PARENT, RECEIVED = "mark", "parent of the folder", "received state"
KINDS: dict[str, tuple[str, ...]] = {
    "log": (".log", "/spare"),
    "folder of the node": ("",),
    PARENT: ("/..",),
    "identity": ("/identity.tmp", "/identity"),
    MARK: ("/mark",),
    "checkpoint": ("/checkpoint/data.mdb",),
    "folder of the checkpoint": ("/checkpoint",),
    RECEIVED: (".received",),
}


# Two files of a node that may be mistaken for each other.
SWAPPED = (
    ("log", "identity"),
    ("log", "checkpoint"),
    ("log", "folder of the node"),
    (MARK, "identity"),
    ("identity", "folder of the node"),
    ("checkpoint", "folder of the node"),
)


@dataclass(frozen=True, slots=True)
class Lie:
    """action: LIE (left out), EARLY (before its writes), STRAY (another file) or SWAP (with the syncs of `other`).

    disks: "all" or the name of a node.
    """

    kind: str
    action: Action
    disks: str
    other: str = ""

    def __str__(self) -> str:
        return "-".join((self.kind, self.action.name, self.disks, self.other)).rstrip("-")


@dataclass(frozen=True, slots=True)
class Promise:
    """Of one node at rest."""

    id: int
    boot: int
    term: int
    last: int
    snapshot: int


class Promises:
    """A context: a folder that must not exist and does not afterwards."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._runs = 0

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True)
        return self

    def __exit__(self, *_error: object) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def broken(self, lie: Lie | None, *, is_tail_lost: bool = False, is_joined: bool = False) -> list[str]:
        """Run the script under this lie and cut; what became of the promises, in words.

        is_tail_lost: the end of every log is damaged, too. Each node must notice that, by its mark; a lie about the
        mark shows nowhere else. is_joined: at the end a node is wiped and is sent the state of the others. Raises
        ScriptFailed.
        """
        is_tail_lost |= lie is not None and MARK in (lie.kind, lie.other)
        is_joined |= lie is not None and lie.kind == RECEIVED
        self._runs += 1
        place = self._folder / str(self._runs)
        nodes = place / "nodes"
        nodes.mkdir(parents=True)
        unsynced = Unsynced(place / "journal", root=place, stash=self._folder / f"{self._runs}-stash")
        page = Page.make(place / "page")
        page.keep_unsynced(unsynced.journal, unsynced.root, unsynced.stash)
        rules = list(planted(page, lie, nodes)) if lie else []
        settings = {
            "folder": str(nodes),
            "is_joined": is_joined,
            "peers": dict(zip(NAMES, free_addresses(len(NAMES)), strict=True)),
        }
        honest = [name for name in NAMES if lie is None or lie.disks not in ("all", name)] if is_tail_lost else []
        promised = self._run(settings, page, lambda: are_marks_synced(unsynced, [nodes / name for name in honest]))
        unsynced.take_back()
        for name in NAMES if is_tail_lost else ():
            damage.lose_tail(nodes / name, Random(name), blocks_max=1)
        found = self._look(settings)
        wrong = unnoticed(promised, found) if is_tail_lost else contradictions(promised, found)
        if lie is not None and not any(rule.struck for rule in rules):
            raise ScriptFailed(f"{lie}: no sync of this kind was made")
        told = list(wrong)
        shutil.rmtree(place)
        shutil.rmtree(unsynced.stash)
        return told

    def _run(self, settings: dict[str, Any], page: Page, is_at_rest: Callable[[], bool]) -> dict[str, Promise]:
        process = started(SCRIPT, settings, page)
        with process:
            assert process.stdout is not None and process.stderr is not None
            line = process.stdout.readline()
            while line and process.poll() is None and not is_at_rest():
                time.sleep(LOOK_PAUSE_S)  # a node at rest syncs its mark
            process.kill()
            said = process.stderr.read()
        if not line:
            raise ScriptFailed(said)
        return {name: Promise(**one) for name, one in json.loads(line).items()}

    def _look(self, settings: dict[str, Any]) -> dict[str, Promise | str]:
        return {
            name: one if isinstance(one, str) else Promise(**one)
            for name, one in found_by(SCRIPT, "look", settings).items()
        }


def planted(page: Page, lie: Lie, nodes: Path) -> Iterator[Rule]:
    """Of two files that are mistaken for each other, each has one path on each disk."""
    if lie.action != Action.SWAP:
        yield from (page.strike(Calls.SYNC, lie.action, path=path) for path in paths_of(lie, nodes))
        return
    for name in NAMES if lie.disks == "all" else (lie.disks,):
        one, other = (next(paths_of(Lie(kind, lie.action, name), nodes)) for kind in (lie.kind, lie.other))
        yield from page.swap(one, other)


def paths_of(lie: Lie, nodes: Path) -> Iterator[str]:
    """Of the files and folders that the lie strikes, as the shim matches them."""
    for end in KINDS[lie.kind]:
        if end in ("", "/.."):
            named = [nodes / lie.disks] if lie.disks != "all" else [nodes / name for name in NAMES]
            yield from (f"{nodes}*/{one.name}" for one in named) if not end else (f"{nodes.parent}*/{nodes.name}",)
        else:
            yield f"{nodes}*{end}" if lie.disks == "all" else f"{nodes / lie.disks}*{end}"


def are_marks_synced(unsynced: Unsynced, folders: list[Path]) -> bool:
    last = {record.path: record.kind for record in unsynced.records()} if folders else {}
    return all(last.get(f"{folder}/mark") == Kind.SYNCED for folder in folders)


def lies() -> Iterator[Lie]:
    """Every kind of mistake, on the disk of one node and on all."""
    for kind in KINDS:
        for action in (Action.LIE, Action.EARLY, Action.STRAY):
            yield Lie(kind, action, "all")
            if kind != PARENT:  # all three have the same one
                yield Lie(kind, action, "b")
    for kind, other in SWAPPED:
        yield Lie(kind, Action.SWAP, "all", other)
        yield Lie(kind, Action.SWAP, "b", other)


def unnoticed(promised: dict[str, Promise], found: dict[str, Promise | str]) -> Iterator[str]:
    """Nodes that lost the end of their logs and go on as if they had not. Another incarnation promises nothing."""
    for name, before in promised.items():
        now = found[name]
        if isinstance(now, Promise) and now.id == before.id and now.last < before.last:
            yield f"{name} does not know that it had its log up to {before.last}"


def contradictions(promised: dict[str, Promise], found: dict[str, Promise | str]) -> Iterator[str]:
    """What each node does not know any more."""
    for name, before in promised.items():
        now = found[name]
        if isinstance(now, str):
            yield f"{name} does not start: {now}"
            continue
        if now.id != before.id:
            yield f"{name} is another incarnation"
        if now.boot <= before.boot:
            yield f"{name} began life {now.boot} after life {before.boot}"
        if now.term < before.term:
            yield f"{name} knows term {now.term}, not {before.term}"
        if now.last < before.last:
            yield f"{name} has its log up to {now.last}, not {before.last}"
        if now.snapshot < before.snapshot:
            yield f"{name} has its state as of {now.snapshot}, not {before.snapshot}"


# --- the script, in a process of its own ------------------------------------------------------------------------------


def promise_of(node: Node) -> Promise:
    status = node.status()
    return Promise(status.id, status.boot, status.term, status.persisted, int(node.metrics()["snapshot_index"]))


def work(cluster: Cluster) -> None:
    """Through every kind of sync, and to rest."""
    value = "v" * VALUE_BYTES
    for number in range(PUTS):
        cluster.leader().put(f"key/{number:03}", value)
    cluster.wait_for(
        lambda: all(node.metrics()["snapshots_taken"] > 0 for node in cluster.running()), what="a checkpoint of each"
    )
    cluster.leader().transfer()
    for number in range(MORE_PUTS):
        cluster.leader().put(f"more/{number:03}", value)
    cluster.wait_converged()


def join(cluster: Cluster) -> None:
    """Wipe a node; its log is gone, and that of the others begins later: it is sent their state."""
    for number in range(JOIN_PUTS):
        cluster.leader().put(f"join/{number:03}", "v" * VALUE_BYTES)
    if cluster.leader().status().name == JOINS:
        cluster.leader().transfer()
    cluster.wipe(JOINS)
    cluster.restart(JOINS)
    cluster.wait_converged()
    assert cluster.node(JOINS).metrics()["snapshots_installed"], cluster.report()


def look(cluster: Cluster) -> dict[str, Any]:
    """Each node alone: what it knows by itself."""
    told: dict[str, Any] = {}
    for name in cluster.names:
        try:
            node: Node = cluster.restart(name, wait=False)
            told[name] = asdict(promise_of(node))
            cluster.kill(name)
        except Exception as error:
            told[name] = f"{type(error).__name__}: {error}"
    return told


def main() -> None:
    verb, settings = sys.argv[1], json.loads(sys.argv[2])
    with contextlib.closing(Cluster(list(settings["peers"]), folder=settings["folder"], config=CONFIG)) as cluster:
        cluster.peers.update(settings["peers"])
        if verb == "run":
            work(cluster.start(timeout_s=READY_S))
            if settings["is_joined"]:
                join(cluster)
            print(json.dumps({node.status().name: asdict(promise_of(node)) for node in cluster.running()}), flush=True)
            sys.stdin.read()
        else:
            print(json.dumps(look(cluster)), flush=True)


if __name__ == "__main__":
    main()
