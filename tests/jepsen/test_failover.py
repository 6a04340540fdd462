"""What counts as the end of a failover: the first acknowledged write that was asked for after the kill."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jepsen.failover import failover_times_s, percentile

MS = 1_000_000


def spool(path: Path, *operations: tuple[int, int, str, str]) -> Path:
    """Operations as (asked at, answered at, name, fate), in milliseconds, each by a process of its own."""
    lines: list[list[object]] = []
    for process, (asked, answered, name, fate) in enumerate(operations):
        lines.append(["invoke", asked * MS, "register", process, name, "x", 1])
        lines.append([fate, answered * MS, "register", process])
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_only_a_write_asked_for_afterwards_ends_a_failover(tmp_path: Path) -> None:
    """Not one that was under way at the kill, nor a read, nor one that failed; whichever client is first counts."""
    one = spool(tmp_path / "1", (90, 110, "write", "ok"), (105, 120, "read", "ok"), (106, 130, "write", "fail"))
    two = spool(tmp_path / "2", (107, 190, "write", "ok"), (120, 180, "write", "ok"), (500, 510, "write", "ok"))
    assert failover_times_s([100 * MS, 495 * MS], [one, two]) == [0.015, 0.08]


def test_a_kill_without_a_write_behind_it_is_an_error(tmp_path: Path) -> None:
    """A figure is never made up."""
    with pytest.raises(ValueError, match="empty"):
        failover_times_s([100 * MS], [spool(tmp_path / "1", (90, 110, "write", "ok"))])


def test_a_percentile_is_one_of_the_values() -> None:
    """The least that so many do not exceed."""
    values = [float(number) for number in range(1, 51)]
    assert [percentile(values, share) for share in (0.5, 0.9, 0.99, 1.0)] == [25.0, 45.0, 50.0, 50.0]
    assert percentile([7.0], 0.5) == 7.0
