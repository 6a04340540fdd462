"""Groups for the tests of the assignors: drawn ones, their next generation, and the figures that promises are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product

from hypothesis import strategies as st

from raftmeta.assignors import Member, Plan, Resources

TOPICS = ("logs", "orders", "t-1", "users")
Assignments = Mapping[str, tuple[str, ...]]


@st.composite
def resources_of(draw: st.DrawFn, *, topics_max: int = 4, partitions_max: int = 7) -> Resources:
    names = draw(st.lists(st.sampled_from(TOPICS), min_size=1, max_size=topics_max, unique=True))
    return Resources.of_topics({name: draw(st.integers(0, partitions_max)) for name in names})


@st.composite
def members_of(
    draw: st.DrawFn, resources: Resources, *, uniform: bool = False, count_max: int = 6, has_owners: bool = True
) -> list[Member]:
    """Members with statements of ownership that may be old, contradict each other, or name what is not there."""
    count = draw(st.integers(1, count_max))
    known = [*resources.names, "gone-0"] if has_owners else []
    return [
        Member(
            f"m{number}",
            draw(st.sampled_from([None, None, f"i{9 - number}"])),
            None if uniform else draw(st.none() | st.frozensets(st.sampled_from([*TOPICS, "gone"]), max_size=4)),
            tuple(draw(st.lists(st.sampled_from(known), unique=True, max_size=12))) if known else (),
            draw(st.integers(-1, 2)) if known else -1,
        )
        for number in range(count)
    ]


@st.composite
def groups(draw: st.DrawFn, *, uniform: bool = False, has_owners: bool = True) -> tuple[Resources, list[Member]]:
    resources = draw(resources_of())
    return resources, draw(members_of(resources, uniform=uniform, has_owners=has_owners))


def after(members: Iterable[Member], plan: Plan, generation: int) -> list[Member]:
    """The members once they did what a plan says."""
    return [replace(member, owned=plan.assignments[member.id], generation=generation) for member in members]


def topic_of(resources: Resources) -> dict[str, str]:
    return {name: topic for topic, names in resources.topics.items() for name in names}


def asks(member: Member, topic: str) -> bool:
    return member.topics is None or topic in member.topics


def assignable(members: Sequence[Member], resources: Resources) -> list[str]:
    """The resources that somebody asks for."""
    return [name for name, topic in topic_of(resources).items() if any(asks(member, topic) for member in members)]


def owner_of(assignments: Assignments) -> dict[str, str]:
    """The owner of each resource; fails for a resource with two."""
    found: dict[str, str] = {}
    for member, names in assignments.items():
        for name in names:
            assert name not in found, f"{name} is with {found[name]} and with {member}"
            found[name] = member
    return found


def moved(before: Assignments, assignments: Assignments) -> int:
    """How many resources of living members are with another one afterwards."""
    now = owner_of(assignments)
    return sum(now.get(name) != member for member in assignments for name in before.get(member, ()))


def squares(assignments: Assignments) -> int:
    return sum(len(names) ** 2 for names in assignments.values())


def check_complete(assignments: Assignments, members: Sequence[Member], resources: Resources) -> None:
    """Every resource that somebody asks for has one owner, who asks for it; nothing else is given."""
    topics, by_id = topic_of(resources), {member.id: member for member in members}
    assert assignments.keys() == by_id.keys()
    owners = owner_of(assignments)
    assert sorted(owners) == sorted(assignable(members, resources))
    for name, member in owners.items():
        assert asks(by_id[member], topics[name]), f"{member} does not ask for {topics[name]}"


def check_no_move_helps(assignments: Assignments, members: Sequence[Member], resources: Resources) -> None:
    """No resource could go to a member with a load that is lower by two or more."""
    topics = topic_of(resources)
    for name, owner in owner_of(assignments).items():
        for member in members:
            if asks(member, topics[name]):
                assert len(assignments[owner]) <= len(assignments[member.id]) + 1, f"{name} could go to {member.id}"


def best_by_search(members: Sequence[Member], resources: Resources, before: Assignments) -> tuple[int, int]:
    """(squared loads, moved resources) of the best assignment, by trying all of them."""
    names, topics = assignable(members, resources), topic_of(resources)
    choices = [[member.id for member in members if asks(member, topics[name])] for name in names]
    owner = {name: member for member, owned in before.items() for name in owned}
    best = []
    for chosen in product(*choices):
        loads = sum(chosen.count(member.id) ** 2 for member in members)
        best.append((loads, sum(owner.get(name, to) != to for name, to in zip(names, chosen, strict=True))))
    return min(best)
