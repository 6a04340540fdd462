"""Nemeses that change members: how they come back, on a cluster that exists only as answers."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from jepsen.db import WaitFailed
from jepsen.nemeses.members import Replace

VOTERS = [{"name": name, "role": "voter"} for name in ("n1", "n2", "n3")]


class Answers:
    """What a cluster says when it is asked for its members, one after the other; None: nobody answers."""

    founders = ("n1", "n2", "n3")
    spares = ("n4",)

    def __init__(self, *answers: list[dict[str, str]] | None) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, Any]] = []

    def ask(self, verb: str, *, timeout_s: float, arguments: dict[str, Any]) -> Any:
        if verb != "members":
            self.asked.append((verb, arguments["name"]))
            return None
        answer = self._answers.pop(0)
        if answer is None:
            raise WaitFailed("nobody answers")
        return answer

    def wait_for(self, condition: Callable[[], Any], what: Callable[[], str], *, timeout_s: float) -> None:
        while not condition():
            assert self._answers, what()


class Told(Replace):
    """One that does to no process what it would do."""

    def __init__(self, cluster: Answers) -> None:
        super().__init__(cluster=cluster, random=Random(1))  # type: ignore[arg-type]
        self.wiped: list[str] = []
        self.retired: list[str] = []

    def _where(self, name: str) -> str:
        return f"{name}:1"

    def _address_of(self, name: str) -> str:
        self.wiped.append(name)
        return f"{name}:1"

    def retire(self, name: str) -> None:
        self.retired.append(name)


@pytest.mark.parametrize("silences", [1, 5])
def test_nobody_is_wiped_while_nobody_tells_who_is_a_member(silences: int) -> None:
    """A power cut of a majority took all answers: every founder seemed to be missing, and the first one was wiped."""
    nemesis = Told(Answers(*[None] * silences, VOTERS))
    nemesis.end()
    assert (nemesis.wiped, nemesis.retired) == ([], ["n4"])


def test_a_founder_that_was_replaced_is_brought_back_blank() -> None:
    """n4 has the place of n2: n2 is wiped and takes its place again, and only then n4 is retired."""
    replaced = [{"name": name, "role": "voter"} for name in ("n1", "n4", "n3")]
    cluster = Answers(None, replaced, VOTERS)
    nemesis = Told(cluster)
    nemesis.end()
    assert (nemesis.wiped, cluster.asked, nemesis.retired) == (["n2"], [("replace_member", "n2")], ["n4"])


def test_a_replacement_that_stopped_half_way_is_ended() -> None:
    """n2 stands by, because the call had no time for the vote. n4 was only removed then, and n2 never voted again."""
    half = [{"name": name, "role": "voter"} for name in ("n1", "n4", "n3")] + [{"name": "n2", "role": "standby"}]
    cluster = Answers(half, VOTERS)
    nemesis = Told(cluster)
    nemesis.end()
    assert (nemesis.wiped, cluster.asked) == ([], [("replace_member", "n2")])


def test_a_founder_that_stands_by_gets_its_vote() -> None:
    nemesis = Told(cluster := Answers([*VOTERS[:2], {"name": "n3", "role": "standby"}], VOTERS))
    nemesis.end()
    assert (nemesis.wiped, cluster.asked) == ([], [("promote", "n3")])


def test_it_says_which_members_it_saw_last() -> None:
    learning = [*VOTERS[:2], {"name": "n3", "role": "learner"}]
    with pytest.raises(AssertionError, match="'n3': 'learner'"):
        Told(Answers(learning)).end()
