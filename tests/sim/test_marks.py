"""Coverage marks: each stands in the code, and the campaign of the report reached every one of them."""

from __future__ import annotations

import json
import re

from raftmeta.native import marks
from raftmeta.sim import World, live
from raftmeta.sim.campaign import MARKS
from tests.lint.sources import PACKAGE, ROOT, source_files

REPORT = ROOT / "benchmarks" / "results" / "sim-campaign.json"
_PLACE = re.compile(r"^\s+mark\(MARK_(\w+)\)$", re.MULTILINE)


def test_every_mark_stands_in_the_code() -> None:
    """And nothing is marked that has no name; there are more than 150."""
    placed = {name for path in source_files(".pyx", below=PACKAGE) for name in _PLACE.findall(path.read_text())}
    assert placed == set(marks.NAMES)
    assert len(marks.NAMES) >= 150


def test_a_campaign_reached_every_mark() -> None:
    """The report says which seeds it ran, on which code; what a new mark needs is a new campaign."""
    report = json.loads(REPORT.read_text())
    assert set(report["marks"]) == set(MARKS)
    assert report["seeds"] >= 1000


def test_marks_are_reached_in_every_module_of_the_process() -> None:
    """One set of marks for all compiled modules: the core's and the log's are seen from here."""
    marks.clear()
    assert marks.reached() == set()
    world = World(1, crash_ppm=500_000, fault_gap_us=50_000)
    world.run(20_000)
    assert {"CANDIDATE", "COMMITTED_BY_COUNT", "COMMAND_PROPOSED", "RECOVERY_BATCH", "MESSAGE_HELD"} <= marks.reached()


def test_a_life_knows_its_own_marks() -> None:
    """What an earlier world in the same process reached is not this one's."""
    stormy = live(2, "nodes=5,crash_ppm=500000,partition_ppm=500000,fault_gap_us=50000")
    calm = live(2, "nodes=1")
    assert "READ_BY_SOLE_VOTER" in calm.marks
    assert "LINK_LOST" in stormy.marks - calm.marks
