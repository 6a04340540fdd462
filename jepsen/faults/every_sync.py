"""A power cut before and after every sync of a script: what was acknowledged by then is on every node.

The script (jepsen/faults/script.py) runs in one process, its three nodes on three ext4 images. First it runs to its
end, and its syncs are counted; then once for each of them and each side of it. At that sync the power of all disks
fails at once, in the middle of the system call, and takes the process with it: there is no other copy of anything.

It needs root, and about three seconds for each point.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jepsen.faults import damage
from jepsen.faults.images import MIB, Images, cut_power
from jepsen.faults.script import is_add, key_of
from jepsen.faults.scripted import ScriptFailed, found_by, started
from jepsen.faults.shim import Action, Calls, Page
from tests.processes.waiting import free_addresses

SCRIPT = "jepsen.faults.script"
NAMES = ("a", "b", "c")
DISK_BYTES = 64 * MIB


@dataclass(slots=True)
class Point:
    """One power cut. sync: which, from 0; None: after the end, at rest. wrong: what was found amiss, in words."""

    sync: int | None
    action: Action
    was_struck: bool = False
    acknowledged: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Report:
    """syncs: of the script when nothing fails. struck: points at which the power did fail within the script."""

    syncs: int
    points: list[Point]
    seconds: float

    @property
    def struck(self) -> int:
        return sum(point.was_struck for point in self.points)

    @property
    def wrong(self) -> list[str]:
        return [f"{point.action.name} sync {point.sync}: {what}" for point in self.points for what in point.wrong]


class EverySync:
    """A context: disks that are used for one point after the other, and gone at the end. folder: must not exist."""

    def __init__(self, folder: Path) -> None:
        self._images = Images(folder, size_bytes=DISK_BYTES)
        self._page = folder / "page"

    def __enter__(self) -> EverySync:
        self._images.__enter__()
        try:
            for name in NAMES:
                self._images.make(name)
        except BaseException:
            self._images.__exit__(None, None, None)
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self._images.__exit__(*error)

    def count_syncs(self) -> int:
        """Run the script to its end, cut the power at rest, and look; how many syncs it made.

        Raises ScriptFailed: it did not end, or something was lost even so.
        """
        point, seen = self._run(Point(None, Action.COUNT))
        if point.wrong:
            raise ScriptFailed("; ".join(point.wrong))
        return seen

    def on_lying_disks(self) -> Point:
        """The script on disks that sync nothing, and a cut at its end. If nothing is wrong then, nothing is tested."""
        return self._run(Point(None, Action.LIE))[0]

    def points(self, syncs: Iterable[int]) -> Iterator[Point]:
        """A cut before and one after each of these."""
        for sync in syncs:
            for action in (Action.CUT_BEFORE, Action.CUT_AFTER):
                yield self._run(Point(sync, action))[0]

    def _run(self, point: Point) -> tuple[Point, int]:
        page = Page.make(self._page)
        page.cut_with(disk.mount for disk in self._images.disks.values())
        rule = page.strike(Calls.SYNC, point.action, path=str(self._images.folder), skip=point.sync or 0)
        peers = dict(zip(NAMES, free_addresses(len(NAMES)), strict=True))
        begun, acknowledged = self._run_script(peers, page)
        point.was_struck, point.acknowledged = page.cuts > 0, len(acknowledged)
        for disk in self._images.disks.values():
            disk.remount()
        try:
            point.wrong = list(contradictions(found_by(SCRIPT, "verify", self._settings(peers)), begun, acknowledged))
        except ScriptFailed as error:
            point.wrong = [f"the nodes do not come back:\n{error}"]
        for disk in self._images.disks.values():
            damage.wipe(disk.mount)
        return point, rule.seen

    def _settings(self, peers: dict[str, str]) -> dict[str, Any]:
        return {"folder": str(self._images.folder), "peers": peers}

    def _run_script(self, peers: dict[str, str], page: Page) -> tuple[set[int], set[int]]:
        """Until the power fails, or the end; what was begun, and what was acknowledged."""
        process = started(SCRIPT, self._settings(peers), page)
        told: dict[str, set[int]] = {"begin": set(), "ack": set(), "end": set()}
        with process:
            assert process.stdout is not None and process.stderr is not None
            for line in process.stdout:
                what, number = line.split()
                told[what].add(int(number))
                if what == "end":
                    cut_power(self._images.disks.values())
                    process.kill()
            said = process.stderr.read()
        if not told["end"] and not page.cuts:
            raise ScriptFailed(f"it ended by itself ({process.returncode})\n{said}")
        return told["begin"], told["ack"]


def contradictions(found: dict[str, Any], begun: set[int], acknowledged: set[int]) -> Iterator[str]:
    """What contradicts the answers: something acknowledged is gone, something is there that nobody asked for."""
    if len(found) < 2:
        yield f"only {sorted(found)} vote"
    for name, one in found.items():
        keys: dict[str, str] = one["keys"]
        lost = [number for number in acknowledged if not is_add(number) and keys.get(key_of(number)) != str(number)]
        if lost:
            yield f"{name} lost {sorted(lost)}"
        if strange := keys.keys() - {key_of(number) for number in begun}:
            yield f"{name} has {sorted(strange)}, which nobody wrote"
        least, most = (sum(map(is_add, numbers)) for numbers in (acknowledged, begun))
        if not least <= one["counter"] <= most:
            yield f"{name} counted {one['counter']}, not {least} to {most}"
    if len({json.dumps(one, sort_keys=True) for one in found.values()}) > 1:
        yield f"{sorted(found)} do not agree"


def cut_everywhere(folder: Path, *, every: int = 1, first: int = 0) -> Iterator[Point | Report]:
    """Each point as it is done, and last the report. every: only each so many-th sync, from `first` on."""
    begun_s = time.monotonic()
    with EverySync(folder) as cuts:
        syncs = cuts.count_syncs()
        points = []
        for point in cuts.points(range(first, syncs, every)):
            points.append(point)
            yield point
        yield Report(syncs, points, time.monotonic() - begun_s)
