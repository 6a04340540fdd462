"""Copies of cores do what the first would do; settled cores are equal when they would do the same (small/copies)."""

from __future__ import annotations

import random
import re

import pytest

from tests.core.cluster import Cluster
from tests.faces.core import CoreHandle, Message
from tests.lint.sources import PACKAGE

STEPS = 400
MEMBERS = (1, 2, 3)


def history(seed: int) -> Cluster:
    """A cluster in the middle of its life: terms, conflicts, slow disks, a change of membership under way."""
    chance = random.Random(seed)
    cluster = Cluster.of(3, learners=1, inflight_bytes_max=chance.choice([300, 4000]), log_chunk_bytes=256)
    for node in cluster.nodes.values():
        node.is_slow = chance.random() < 0.5
    for _ in range(STEPS):
        member = chance.choice(MEMBERS)
        deed = chance.random()
        if deed < 0.3:
            cluster.tick(member, chance.randrange(1, 4))
        elif deed < 0.45:
            cluster.act(member, "propose", [bytes(chance.randrange(100))])
        elif deed < 0.5:
            cluster.act(member, "read_index", chance.getrandbits(32))
        elif deed < 0.65:
            for node in cluster.nodes.values():
                if node.writes:
                    cluster.persist(node.id)
        else:
            cluster.deliver(lambda message: chance.random() < 0.7)
    return cluster


def next_inputs(cluster: Cluster, member: int, chance: random.Random) -> list[tuple[str, tuple[object, ...]]]:
    """What may come next at a member: messages under way, time, calls, and the end of its write."""
    messages: list[Message] = [message for message in cluster.network if message.target == member]
    inputs: list[tuple[str, tuple[object, ...]]] = [("step", (message,)) for message in messages[:10]]
    inputs += [("tick", ()), ("tick", ()), ("propose", ([b"more"],)), ("read_index", (7,)), ("campaign", ())]
    inputs += [("persisted", (write.id,)) for write in cluster.nodes[member].writes]
    chance.shuffle(inputs)
    return inputs


def meet(core: CoreHandle, verb: str, arguments: tuple[object, ...]) -> list[object]:
    """One input and everything that the core wants because of it."""
    seen: list[object] = [getattr(core, verb)(*arguments)]
    while core.has_ready():
        ready = core.ready()
        seen.append(ready)
        if ready.apply is not None:
            core.applied(ready.apply.last)
    return [*seen, core.status(), core.progress(), core.membership(), core.log()]


@pytest.mark.parametrize("seed", range(8))
def test_a_copy_does_what_the_first_would_do(seed: int) -> None:
    """Each input of a member's next steps meets equal answers in it, in a copy, and in a copy of that."""
    cluster = history(seed)
    for member in cluster.nodes:
        first = cluster[member]
        second = first.copy()
        third = second.copy()
        assert first.digest() == second.digest() == third.digest()
        for verb, arguments in next_inputs(cluster, member, random.Random(seed)):
            answers = meet(first, verb, arguments)
            assert meet(second, verb, arguments) == answers
            assert meet(third, verb, arguments) == answers
            assert first.digest() == second.digest() == third.digest()


@pytest.mark.parametrize("seed", range(8))
def test_settled_cores_differ_only_where_it_matters(seed: int) -> None:
    """Settling twice is settling once, and it takes nothing away: log, term, membership and progress stay."""
    cluster = history(seed)
    digests = set()
    for member in cluster.nodes:
        core = cluster[member]
        before = core.status()
        core.settle()
        settled = core.digest()
        core.settle()
        assert core.digest() == settled
        assert core.status() == before
        digests.add(settled)
    assert len(digests) == len(cluster.nodes)


def test_time_without_news_makes_no_difference_to_a_settled_core() -> None:
    """A follower whose time-out is not over yet: only its clock has moved."""
    cluster = Cluster.of(3)
    cluster.elect(1)
    early = cluster[2].copy()
    early.settle()
    cluster.tick(2, 5)
    late = cluster[2].copy()
    assert late.digest() == cluster[2].digest()
    late.settle()
    assert late.digest() == early.digest()
    cluster.act(1, "propose", [b"x"])
    cluster.deliver()
    changed = cluster[2].copy()
    changed.settle()
    assert changed.digest() != early.digest()


def test_copies_know_every_container_of_a_core() -> None:
    """A container that is added to the core is added to sim/small/copies, or two copies share it and both free it."""
    copies = (PACKAGE / "sim" / "small" / "copies.pyx").read_text()
    containers = {
        (header, name)
        for header in ("state", "log", "progress")
        for name in re.findall(r"^    (?:Vec|Ring|Map64)\[\w+\] (\w+)", _struct(header), re.MULTILINE)
    }
    assert len(containers) > 25
    assert {name for _, name in containers if not re.search(rf"memset\(&[\w.\[\]]*\b{name},", copies)} == set()


def _struct(header: str) -> str:
    """The struct that holds the containers of a header."""
    text = (PACKAGE / "raft" / f"{header}.pxd").read_text()
    wanted = {"state": "Core", "log": "Log", "progress": "Progress"}[header]
    return text.split(f"cdef struct {wanted}:\n", 1)[1].split("\ncdef ", 1)[0]
