"""The pipeline on runs whose verdict is known: what it finds, what it leaves unchecked and says so, what it counts."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from raftmeta.check import History, check, write_history
from raftmeta.spark import verify
from tests.spark import runs
from tests.spark.conftest import Checked
from tests.spark.observed import CONTRADICTED, STRANGE

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes


def one(rows: list[dict[str, Any]]) -> dict[str, Any]:
    assert len(rows) == 1
    return rows[0]


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        ("clean", "ok"),
        ("clean_in_buckets", "ok"),
        ("transactions", "ok"),
        ("foreign", "ok"),
        ("stale", "violation"),
        ("strange", "unknown"),
        ("torn", "unknown"),
    ],
)
def test_each_history_gets_its_verdict(checked: Checked, run: str, verdict: str) -> None:
    """Also of texts that are not canonical, rows in no order, times that tie, a component over many row groups."""
    assert one(checked.rows("histories", run))["verdict"] == verdict


def test_the_verdict_of_all_is_that_of_the_worst(checked: Checked) -> None:
    assert checked.verified.verdict == "violation"
    assert json.loads((checked.verified.out / "summary.json").read_text())["verdict"] == "violation"


def test_components_are_those_of_the_checker(checked: Checked) -> None:
    """The same components with the same operations as check() finds in one piece."""
    whole = check(History.of(runs.register_events()), model=runs.MODEL)
    rows = checked.rows("verdicts", "clean")
    assert len(rows) == whole.components == runs.KEYS
    assert sum(row["operations"] for row in rows) + unaffecting(whole.operations, rows) == whole.operations
    assert {row["component"] for row in rows} == {f'"k{number}"' for number in range(runs.KEYS)}


def unaffecting(total: int, rows: list[dict[str, Any]]) -> int:
    """Crashed reads are in no component; there are few."""
    missing = total - sum(row["operations"] for row in rows)
    assert 0 <= missing < 0.01 * total
    return missing


def test_buckets_and_shuffle_find_the_same(checked: Checked) -> None:
    """The way that events take decides nothing."""
    for name in ("verdicts", "latency", "availability", "throughput", "histories"):
        shuffled, bucketed = checked.rows(name, "clean"), checked.rows(name, "clean_in_buckets")
        assert [{**row, "run": ""} for row in shuffled] == [{**row, "run": ""} for row in bucketed], name


def test_a_violation_is_explained(checked: Checked) -> None:
    """One component is illegal, with the read of a value that nobody wrote as its culprit; the others are ok."""
    verdicts = [row["verdict"] for row in checked.rows("verdicts", "stale")]
    assert sorted(verdicts) == ["ok"] * (runs.KEYS - 1) + ["violation"]
    row = one(checked.rows("anomalies", "stale"))
    assert (row["kind"], row["first_seq"] <= row["last_seq"]) == ("not linearizable", True)
    assert "-> 77" in row["explanation"]


def test_transactions_join_keys(checked: Checked) -> None:
    assert one(checked.rows("verdicts", "transactions"))["keys"] == 5


def test_an_event_without_sense_is_quarantined(checked: Checked) -> None:
    """The event is told with its reason, its component is not checked, the others are."""
    row = one(checked.rows("quarantine", "strange"))
    assert (row["row"], row["reason"]) == (2 * 1200, "completes what was never invoked")
    verdicts = {row["component"]: row["verdict"] for row in checked.rows("verdicts", "strange")}
    assert verdicts.pop('"k3"') == "malformed"
    assert set(verdicts.values()) == {"ok"}


def test_a_torn_file_stops_nothing(checked: Checked) -> None:
    """It is in quarantine by its name, and its history is unknown."""
    row = one(checked.rows("quarantine", "torn"))
    assert row["reason"].startswith("not readable: ")
    assert row["raw"].endswith("torn/history-register.parquet")
    assert checked.rows("verdicts", "torn") == []


@pytest.mark.parametrize("run", CONTRADICTED)
def test_a_contradiction_is_found_and_nothing_else(checked: Checked, run: str) -> None:
    assert [row["kind"] for row in checked.rows("anomalies", run)] == CONTRADICTED[run][1]


@pytest.mark.parametrize("run", ["unwatched", "unseen"])
def test_a_watch_tells_of_acknowledged_writes(checked: Checked, run: str) -> None:
    """A write that was acknowledged at a revision which the only stream passed without a word, or without any."""
    (row,) = checked.rows("anomalies", run)
    assert (row["kind"], row["subject"]) == ("watch gap", "w/")
    assert row["explanation"] == "stream 1 was never told of w/k at revision 2"


@pytest.mark.parametrize("run", ["right", "runaway"])
def test_what_is_right_contradicts_nothing(checked: Checked, run: str) -> None:
    """Also two holders, where clocks were made to run wild."""
    assert checked.rows("anomalies", run) == checked.rows("quarantine", run) == []


def test_changes_of_leaders_are_timed(checked: Checked) -> None:
    """From the last moment at which the old one certainly led, 9 ms, to the election of the new one, 11 ms."""
    row = one(checked.rows("elections", "right"))
    assert (row["old_leader"], row["new_leader"], row["ms"], row["fault"]) == ("a", "b", 2.0, None)


SLOT = 10 * runs.MS


# --- times ------------------------------------------------------------------------------------------------------------
def spans() -> list[tuple[str, str, int, int]]:
    """(operation, outcome, begin, end) of everything that completed, in the order of completion."""
    under_way: dict[Any, Any] = {}
    found = []
    for event in runs.register_events():
        if event.kind == "invoke":
            under_way[event.process] = event
        else:
            begun = under_way.pop(event.process)
            found.append((begun.operation, event.kind, begun.time_ns, event.time_ns))
    return found


def test_percentiles_are_exact_to_a_step(checked: Checked) -> None:
    for row in checked.rows("latency", "clean"):
        taken = sorted(
            (end - begin) / 1e6
            for operation, outcome, begin, end in spans()
            if (operation, outcome) == (row["operation"], row["outcome"])
            and end // 10_000_000_000 * 10_000_000_000 == row["window_ns"]
        )
        assert (row["n"], row["longest_ms"]) == (len(taken), taken[-1])
        for name, share in (("p50_ms", 0.5), ("p99_ms", 0.99)):
            exact = taken[math.ceil(share * len(taken)) - 1]
            assert row[name] == pytest.approx(exact, rel=0.023)


def test_each_fault_tells_what_was_answered_meanwhile(checked: Checked) -> None:
    for number, row in enumerate(checked.rows("availability", "clean")):
        begin, end = row["begin_ns"], row["end_ns"]
        first = min(done for _, outcome, called, done in spans() if outcome == "ok" and called >= begin)
        assert (row["fault"], row["first_ok_ms"]) == (number, (first - begin) / 1e6)
        # Slots of 10 ms that overlap the fault count whole.
        answered = [done for _, outcome, _, done in spans() if outcome == "ok"]
        around = [time for time in answered if begin - SLOT < time < end + SLOT]
        inside = [time for time in answered if begin <= time < end]
        assert len(inside) <= row["ok"] <= len(around)


def test_a_time_without_answers_is_measured(spark: Any, tmp_path: Path) -> None:
    """For three seconds of a fault nothing completes: that long is the gap. Hot keys are cut on the way."""
    late = [
        replace(event, time_ns=(event.seq + (3_000 if event.seq >= 1000 else 0)) * runs.MS)
        for event in runs.register_events(3)
    ]
    folder = runs.clean(tmp_path / "paused")
    write_history(History.of(late), folder / "history-register.parquet")
    runs.write_faults(folder, [runs.fault("kill", 990, 2000)])
    verified = verify([folder], tmp_path / "out", bucket_rows=40)
    row = one(runs.read(verified.out / "availability.parquet"))
    answered = [event.time_ns for event in late if event.kind == "ok"]
    gaps = [later - earlier for earlier, later in pairwise(answered)]
    assert row["longest_gap_ms"] == max(gaps) / 1e6 > 3_000
    assert verified.verdict == "ok"
    assert max(row["pieces"] for row in runs.read(verified.out / "verdicts.parquet")) > 1


# --- the folder -------------------------------------------------------------------------------------------------------
def test_the_same_input_gives_the_same_bytes(checked: Checked, tmp_path: Path) -> None:
    """Tables, summary and report: a second pass into a folder that a first one wrote differs in no byte."""
    out = tmp_path / "again"
    out.mkdir()
    (out / "summary.json").write_text("{}")
    again = verify(checked.paths, out, bucket_rows=runs.SMALL_BUCKET)
    names = sorted(path.name for path in checked.verified.out.iterdir())
    assert sorted(path.name for path in again.out.iterdir()) == names
    for name in names:
        assert (again.out / name).read_bytes() == (checked.verified.out / name).read_bytes(), name
    assert [path.name for path in tmp_path.iterdir()] == ["again"]


def test_the_report_needs_nothing_else(checked: Checked) -> None:
    """It loads nothing, names every anomaly, every run and what that says is wrong with itself; all that is escaped."""
    page = (checked.verified.out / "report.html").read_text()
    script_ends = page.index("</script>")
    assert "<script src" not in page
    assert "<link" not in page
    for name in ("clean", "not linearizable", "two holders", "torn", "unseen: kill: never struck &lt;at all&gt;"):
        assert name in page[script_ends:]


def test_strange_observations_are_counted(spark: Any, tmp_path: Path) -> None:
    """No rule can look at them: each is in quarantine, and the verdict is unknown."""
    verified = verify([runs.observed(tmp_path / "strange", STRANGE)], tmp_path / "out")
    reasons = sorted(row["reason"] for row in runs.read(verified.out / "quarantine.parquet"))
    assert reasons == [
        "an observation without seq or subject",
        "no rule knows this kind of observation",
        "this kind tells a process",
        "this kind tells a revision",
        "this kind tells a token",
    ]
    assert verified.verdict == "unknown"
