"""A few groups with the answers of Kafka 3.9.2's own assignors; `./build.sh doors assignors` asks Kafka about many."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.assignors.kafka import Tally, compare_consumers, compare_workers, consumer_case, worker_case

RECORDED = json.loads((Path(__file__).parent / "testdata" / "kafka-3.9.2.json").read_text())
CONSUMERS = [one for one in RECORDED if one["case"]["kind"] == "consumers"]
WORKERS = [one for one in RECORDED if one["case"]["kind"] == "workers"]


def test_the_recorded_cases_are_those_of_their_seeds() -> None:
    """Otherwise a comparison of many cases draws others than the suite believes. (JSON has no tuples.)"""
    for make, recorded in ((consumer_case, CONSUMERS), (worker_case, WORKERS)):
        for one in recorded:
            assert json.loads(json.dumps(make(one["case"]["seed"]))) == one["case"]


@pytest.mark.parametrize("one", CONSUMERS, ids=lambda one: f"seed {one['case']['seed']}")
def test_consumers_get_what_kafka_gives_or_better(one: dict[str, Any]) -> None:
    compare_consumers(one["case"], one["answer"], Tally())


@pytest.mark.parametrize("one", WORKERS, ids=lambda one: f"seed {one['case']['seed']}")
def test_workers_wait_as_long_as_with_kafka(one: dict[str, Any]) -> None:
    compare_workers(one["case"], one["answer"], Tally())


def test_an_answer_that_differs_is_noticed() -> None:
    """A partition changes hands in Kafka's range, and a delay is a second shorter: both comparisons bite."""
    differing = next(one for one in CONSUMERS if len(one["answer"]["range"]) > 1)
    answer = {name: {who: list(names) for who, names in plan.items()} for name, plan in differing["answer"].items()}
    giver = max(answer["range"], key=lambda who: len(answer["range"][who]))
    taker = next(who for who in answer["range"] if who != giver)
    answer["range"][taker].append(answer["range"][giver].pop())
    with pytest.raises(AssertionError, match="range, seed"):
        compare_consumers(differing["case"], answer, Tally())

    waiting = [one for one in WORKERS if any(step[-1]["delay_ms"] for step in one["answer"])]
    assert len(waiting) >= 3
    for one in waiting:
        shorter = json.loads(json.dumps(one["answer"]))
        step = next(step for step in shorter if step[-1]["delay_ms"])
        step[-1]["delay_ms"] -= 1000
        with pytest.raises(AssertionError, match="seed"):
            compare_workers(one["case"], shorter, Tally())
