"""The same groups for our assignors and for those of Kafka 3.9: cases by seed, and what must hold between the answers.

tests/doors/programs/KafkaAssignors.java asks Kafka. `./build.sh doors assignors` compares many drawn cases;
testdata/kafka-3.9.2.json has a few, with Kafka's answers, for the suite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from typing import Any

from raftmeta.assignors import Incremental, Member, Plan, Resources, assignor
from tests.assignors.groups import Assignments, after, moved, owner_of, squares

EXACT = ("range", "round-robin")
STICKY = ("sticky", "cooperative-sticky")
DELAY_MAX_MS = 300_000
ROUNDS_MAX = 9
Case = dict[str, Any]


@dataclass
class Tally:
    """The sums of many comparisons. fewer_moves, better_balance: how often ours was ahead of Kafka's."""

    plans: int = 0
    fewer_moves: int = 0
    better_balance: int = 0
    ours_moved: int = 0
    theirs_moved: int = 0


# --- consumers --------------------------------------------------------------------------------------------------------


def consumer_case(seed: int) -> Case:
    """A group that had a plan, after members came and went, topics grew, and somebody changed what it asks for."""
    random = Random(seed)
    topics = {f"topic{number}": random.randint(1, 9) for number in range(random.randint(1, 6))}
    is_uniform = random.random() < 0.5

    def drawn(number: int) -> Member:
        asked = list(topics) if is_uniform else random.sample(list(topics), random.randint(1, len(topics)))
        instance = f"host-{random.randint(0, 99)}-{number}" if random.random() < 0.3 else None
        return Member(f"consumer-{random.randint(0, 99)}-{number}", instance, tuple(sorted(asked)))

    members = [drawn(number) for number in range(random.randint(1, 8))]
    if random.random() < 0.8:
        members = after(members, assignor("sticky").assign(members, Resources.of_topics(topics)), 4)
        for _ in range(random.randint(0, 2)):
            if len(members) > 1:
                members.pop(random.randrange(len(members)))
        members += [drawn(100 + number) for number in range(random.randint(0, 2))]
        if random.random() < 0.3:
            topics[random.choice(list(topics))] += random.randint(1, 4)
    return {"kind": "consumers", "seed": seed, "topics": topics, "members": [fields_of(one) for one in members]}


def fields_of(member: Member) -> dict[str, Any]:
    names = ("id", "instance_id", "topics", "owned", "generation")
    return {name: getattr(member, name) for name in names}


def compare_consumers(case: Case, answers: Mapping[str, Mapping[str, Sequence[str]]], tally: Tally) -> None:
    """range and round-robin are equal. The sticky ones are at least as well balanced, and move no more for it."""
    members, resources = [Member(**fields) for fields in case["members"]], Resources.of_topics(case["topics"])
    before = {member.id: tuple(member.owned) for member in members}
    is_uniform = len({tuple(member.topics or ()) for member in members}) == 1
    for name in (*EXACT, *STICKY):
        plan = assignor(name).assign(members, resources)
        theirs = {member: tuple(sorted(names)) for member, names in answers[name].items()}
        ours = {member: tuple(sorted(names)) for member, names in plan.assignments.items()}
        tally.plans += 1
        if name in EXACT:
            assert ours == theirs, f"{name}, seed {case['seed']}"
            continue
        if name == "cooperative-sticky":
            # Compared is where both are going: what moves is with its owner no more, and with nobody yet.
            ours_moved, theirs_moved = taken(before, ours), taken(before, theirs)
            assert not two_owners(before, ours)
        else:
            ours_moved, theirs_moved = moved(before, ours), moved(before, theirs)
            assert squares(ours) <= squares(theirs), f"{name}, seed {case['seed']}: worse balance than Kafka's"
            tally.better_balance += squares(ours) < squares(theirs)
        if is_uniform or (name == "sticky" and squares(ours) == squares(theirs)):
            assert ours_moved <= theirs_moved, f"{name}, seed {case['seed']}: {ours_moved} moves, {theirs_moved}"
        tally.fewer_moves += ours_moved < theirs_moved
        tally.ours_moved += ours_moved
        tally.theirs_moved += theirs_moved


def taken(before: Assignments, now: Assignments) -> int:
    """How many resources members must give up."""
    return sum(len(set(names) - set(now[member])) for member, names in before.items())


def two_owners(before: Assignments, now: Assignments) -> list[str]:
    """Resources that a member gets while another one still has them."""
    had = owner_of(before)
    return [name for name, member in owner_of(now).items() if had.get(name, member) != member]


# --- workers ----------------------------------------------------------------------------------------------------------


def worker_case(seed: int) -> Case:
    """The life of a group of Connect; in every fourth workers come one after the other, in the others they also go."""
    random = Random(seed)
    workers = [f"worker-{number}" for number in range(random.randint(2, 5))]
    life = _workers_in_a_row if seed % 4 == 0 else _workers_at_random
    steps = list(life(random, workers))
    for _ in range(3):  # long enough for every delay to end
        steps.append({**steps[-1], "now_ms": steps[-1]["now_ms"] + 2 * DELAY_MAX_MS, "rounds": ROUNDS_MAX})
    return {"kind": "workers", "seed": seed, "delay_max_ms": DELAY_MAX_MS, "steps": steps}


def _workers_in_a_row(random: Random, workers: list[str]) -> Iterator[Case]:
    """Each comes before the workers ask again. So plan after plan wants to take something, and these are spaced out.

    Each comes after the time that was asked for. Kafka forgets this time at the second plan before it.
    """
    now_ms, tasks = 1_000, random.randint(110, 130)
    yield {"now_ms": now_ms, "workers": list(workers), "tasks": tasks, "rounds": ROUNDS_MAX}
    for number in range(len(workers), len(workers) + 7):
        workers.append(f"worker-{number}")
        now_ms += 70_000
        yield {"now_ms": now_ms, "workers": list(workers), "tasks": tasks, "rounds": 1}


def _workers_at_random(random: Random, workers: list[str]) -> Iterator[Case]:
    now_ms, tasks, next_number = 1_000, random.randint(12, 30), len(workers)
    yield {"now_ms": now_ms, "workers": list(workers), "tasks": tasks, "rounds": ROUNDS_MAX}
    for _ in range(random.randint(3, 8)):
        match random.choice(("join", "join", "leave", "leave", "leave", "grow", "wait")):
            case "join":
                workers.append(f"worker-{next_number}")
                next_number += 1
            case "leave" if len(workers) > 1:
                workers.remove(random.choice(workers))
            case "grow":
                tasks += random.randint(1, 5)
        now_ms += random.choice((20, 1_000, 60_000, 200_000, DELAY_MAX_MS))
        yield {"now_ms": now_ms, "workers": list(workers), "tasks": tasks, "rounds": ROUNDS_MAX}


def compare_workers(case: Case, answers: Sequence[Sequence[Mapping[str, Any]]], tally: Tally) -> None:
    """Delays begin and end alike; at the end both are balanced, and ours moved no more tasks on the way."""
    life = our_life(case)
    ours_moved, theirs_moved = moves_of([step[-1].assignments for step in life]), moves_of(their_life(answers))
    for number, (ours, theirs) in enumerate(zip(life, answers, strict=True)):
        where = f"seed {case['seed']}, step {number}"
        delay_ms = round((ours[-1].next_plan_s or 0) * 1000)
        has_all = not ours[-1].waiting
        assert delay_ms == theirs[-1]["delay_ms"], where
        assert has_all == (sum(map(len, theirs[-1]["tasks"].values())) == case["steps"][number]["tasks"]), where
        owner_of(ours[-1].assignments)
    loads = [len(names) for names in life[-1][-1].assignments.values()]
    assert max(loads) - min(loads) <= 1
    tally.plans += len(life)
    assert ours_moved <= theirs_moved, f"seed {case['seed']}: {ours_moved} moves, {theirs_moved}"
    tally.fewer_moves += ours_moved < theirs_moved
    tally.ours_moved += ours_moved
    tally.theirs_moved += theirs_moved


def our_life(case: Case) -> list[list[Plan]]:
    """The plans of each step, until nothing is taken any more."""
    incremental = Incremental(case["delay_max_ms"] / 1000)
    members: dict[str, Member] = {}
    memory, generation, life = b"", 0, []
    for step in case["steps"]:
        members = {name: members.get(name, Member(name)) for name in step["workers"]}
        resources, plans = Resources.of_topics({"c": step["tasks"]}), []
        while not plans or (plans[-1].revoked and len(plans) < step["rounds"]):
            asking = list(members.values())
            plan = incremental.assign(asking, resources, now_s=step["now_ms"] / 1000, memory=memory)
            generation, memory = generation + 1, plan.memory
            members = {member.id: member for member in after(asking, plan, generation)}
            plans.append(plan)
        life.append(plans)
    return life


def their_life(answers: Sequence[Sequence[Mapping[str, Any]]]) -> list[Assignments]:
    return [
        {worker: tuple(f"c-{task}" for task in tasks) for worker, tasks in step[-1]["tasks"].items()}
        for step in answers
    ]


def moves_of(life: Sequence[Assignments]) -> int:
    """Tasks that a worker lost to another one while it lived, over all steps."""
    return sum(
        taken({worker: names for worker, names in old.items() if worker in new}, new) for old, new in pairwise(life)
    )
