"""A lease on an idle cluster ends when its time is over, however often the lead moves meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from jepsen.clock import NS_PER_S
from jepsen.idle_leases import ELECTION_S, TOLERANCE_S, Sight, judge, watch_leases


def seen(*, alive_s: float, gone_s: float | None) -> list[str]:
    """The verdict on a lease of six seconds that was asked for at 10 s and whose holder was dead at 11 s."""
    gone_ns = None if gone_s is None else round(gone_s * NS_PER_S)
    sight = Sight("k", 6.0, 10 * NS_PER_S, 11 * NS_PER_S, round(alive_s * NS_PER_S), gone_ns)
    return judge([sight], election_s=0.5, tolerance_s=1.0)


def test_a_lease_may_end_between_its_time_and_a_little_later() -> None:
    """Its time begins somewhere between the asking and the end of its holder."""
    assert seen(alive_s=15.9, gone_s=16.1) == []
    assert seen(alive_s=18.4, gone_s=18.9) == []


def test_an_early_end_is_told() -> None:
    """Before its time is over, counted from before it was asked for."""
    assert seen(alive_s=15.0, gone_s=15.5) == ["k ended 0.50 s before its time"]


@pytest.mark.parametrize("gone_s", [None, 30.0])
def test_a_lease_that_started_anew_is_told(gone_s: float | None) -> None:
    """Six seconds to live and a new leader at 15 s that begins again: it is there at 19 s."""
    assert seen(alive_s=19.0, gone_s=gone_s) == ["k lives 8.00 s behind its last sign of life, with 6 s to live"]


def test_the_lead_moves_and_no_lease_starts_anew(tmp_path: Path) -> None:
    """Nothing is written meanwhile: the new leader knows the time from what it heard as a follower."""
    sights, changes = watch_leases(tmp_path, ttl_s=3.0, change_s=0.5)
    assert changes >= 3
    assert judge(sights, election_s=ELECTION_S, tolerance_s=TOLERANCE_S) == []


def test_a_holder_that_confirms_its_leases_in_secret_is_found(tmp_path: Path) -> None:
    """The planted mistake: they start anew again and again, so each is overdue at some time."""
    sights, _ = watch_leases(tmp_path, ttl_s=1.0, change_s=1.0, is_holder_alive=True)
    assert len(judge(sights, election_s=ELECTION_S, tolerance_s=TOLERANCE_S)) == len(sights)
