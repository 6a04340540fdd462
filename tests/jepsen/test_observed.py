"""Each rule of docs/jepsen.md "Observations", as the judge in the run's own process applies it.

The examples are those of the queries on Spark (tests/spark/observed.py): the two judges must agree on all of them.
"""

from __future__ import annotations

import pytest

from jepsen.observed import SHOWN, broken_rules
from raftmeta.check import Recorder
from tests.spark.observed import CONTRADICTED, RIGHT, stream, told, whole


def test_what_keeps_the_rules_passes() -> None:
    """Also where less than everything was seen: that accuses nobody."""
    assert broken_rules(whole(RIGHT), {}) == []


@pytest.mark.parametrize("name", CONTRADICTED)
def test_what_breaks_a_rule_is_named(name: str) -> None:
    """By the same word as on Spark, with the subject before it and how it shows behind it."""
    rows, kinds = CONTRADICTED[name]
    reasons = [reason.split(": ", 2) for reason in broken_rules(whole(rows), {})]
    assert [kind for _, kind, _ in reasons] == kinds
    assert all(subject in {row["subject"] for row in rows} and how for subject, _, how in reasons)


def test_an_acknowledged_write_is_missed_in_a_watch() -> None:
    """Also when no watch saw it at all."""
    recorder = Recorder()
    recorder.invoke(1, "write", "w/k", 5)
    recorder.ok(1, None, revision=2)
    reasons = broken_rules(whole(stream(1, 1, until=3)), {"watch": recorder.history()})
    assert reasons == ["w/: watch gap: stream 1 was never told of w/k at revision 2"]


def test_of_many_contradictions_some_are_shown_and_all_are_counted() -> None:
    """Of one subject; another one is not hidden behind it."""
    wrong = [told("member_read", "group", 4, value="-1")] * (SHOWN + 2)
    reasons = broken_rules(whole([*wrong, told("member_read", "other", 4, value="-1")]), {})
    assert len(reasons) == SHOWN + 2
    assert reasons[SHOWN] == "group: and 2 more" and reasons[-1].startswith("other: member not listed")
