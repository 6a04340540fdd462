"""The promises of docs/assignors.md, one by one, on drawn groups."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta.assignors import Member, Resources, assignor, names
from tests.assignors.groups import (
    after,
    asks,
    assignable,
    best_by_search,
    check_complete,
    check_no_move_helps,
    groups,
    members_of,
    moved,
    owner_of,
    resources_of,
    squares,
)

EAGER = ("range", "round-robin", "sticky")
COOPERATIVE = ("cooperative-sticky", "one-leader", "rendezvous")
STICKY = ("sticky", "cooperative-sticky", "incremental")
ALL = (*EAGER, *COOPERATIVE, "incremental")


def test_every_assignor_is_tested_here() -> None:
    assert sorted(ALL) == list(names())
    assert [name for name in ALL if not assignor(name).is_cooperative] == list(EAGER)


@pytest.mark.parametrize("name", EAGER)
@given(group=groups())
def test_an_eager_plan_is_complete(name: str, group: tuple[Resources, list[Member]]) -> None:
    """Nothing is unassigned, nothing is assigned twice, nobody has what it did not ask for; one plan is enough."""
    resources, members = group
    plan = assignor(name).assign(members, resources)
    check_complete(plan.assignments, members, resources)
    assert (plan.revoked, plan.waiting, plan.next_plan_s) == ({}, (), None)


@pytest.mark.parametrize("name", [*COOPERATIVE, "incremental"])
@given(group=groups())
def test_a_cooperative_plan_is_complete_after_the_second(name: str, group: tuple[Resources, list[Member]]) -> None:
    """Two plans are enough from any statements. Between them nobody owns what another one states or gets."""
    resources, members = group
    first = assignor(name).assign(members, resources)
    owners = owner_of(first.assignments)
    for member in members:
        kept = set(first.assignments[member.id])
        assert set(first.revoked.get(member.id, ())) == set(member.owned) - kept
        for resource in member.owned:
            if owners.get(resource, member.id) != member.id:
                # Somebody else has it: it had it before, by a newer plan.
                other = next(one for one in members if one.id == owners[resource])
                assert resource in other.owned and other.generation > member.generation
    assert sorted([*owners, *first.waiting]) == sorted(assignable(members, resources))
    assert (first.next_plan_s is None) == (not first.waiting)
    if first.waiting:
        assert first.next_plan_s == 0
    members = after(members, first, 3)
    second = assignor(name).assign(members, resources, memory=first.memory)
    assert (second.revoked, second.waiting, second.next_plan_s) == ({}, (), None)
    check_complete(second.assignments, members, resources)
    third = assignor(name).assign(after(members, second, 4), resources, memory=second.memory)
    assert third.assignments == second.assignments


@pytest.mark.parametrize("name", ALL)
@given(group=groups(), random=st.randoms(use_true_random=False))
def test_the_order_of_members_does_not_matter(name: str, group: tuple[Resources, list[Member]], random: Random) -> None:
    resources, members = group
    shuffled = list(members)
    random.shuffle(shuffled)
    backwards = [replace(one, owned=tuple(reversed(list(one.owned)))) for one in shuffled]
    again = Resources(dict(reversed(list(resources.topics.items()))))
    assert assignor(name).assign(backwards, again) == assignor(name).assign(members, resources)


# --- balance ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["round-robin", "sticky"])
@given(group=groups(uniform=True))
def test_loads_differ_by_one_when_all_ask_for_the_same(name: str, group: tuple[Resources, list[Member]]) -> None:
    resources, members = group
    loads = [len(owned) for owned in assignor(name).assign(members, resources).assignments.values()]
    assert max(loads) - min(loads) <= 1


@given(group=groups())
def test_a_range_cuts_each_topic_evenly(group: tuple[Resources, list[Member]]) -> None:
    """The pieces of a topic differ by at most one, and each is one run of partitions."""
    resources, members = group
    plan = assignor("range").assign(members, resources)
    for topic, partitions in resources.topics.items():
        pieces = [
            [partitions.index(name) for name in plan.assignments[member.id] if name in partitions]
            for member in members
            if asks(member, topic)
        ]
        if pieces:
            assert max(map(len, pieces)) - min(map(len, pieces)) <= 1
        assert all(piece == list(range(piece[0], piece[0] + len(piece))) for piece in pieces if piece)


@given(group=groups())
def test_no_move_improves_a_sticky_balance(group: tuple[Resources, list[Member]]) -> None:
    resources, members = group
    check_no_move_helps(assignor("sticky").assign(members, resources).assignments, members, resources)


def small_group(random: Random) -> tuple[Resources, list[Member]]:
    """Five resources that four members ask for in all ways, most of them owned: all assignments can be tried.

    Without the circles of assignors/balance, one of nine such groups is not the best.
    """
    topics = "abcde"
    members = [Member(f"m{number}", topics=random.sample(topics, random.randint(1, 3))) for number in range(4)]
    owned: dict[str, list[str]] = {member.id: [] for member in members}
    for topic in topics:
        asking = [member for member in members if asks(member, topic)]
        if asking and random.random() < 0.85:
            owned[random.choice(asking).id].append(f"{topic}-0")
    resources = Resources.of_topics(dict.fromkeys(topics, 1))
    return resources, [replace(member, owned=tuple(owned[member.id]), generation=1) for member in members]


def test_a_sticky_plan_is_the_best_of_all_assignments() -> None:
    """First the least sum of squared loads, then the fewest moves; the search knows nothing of flows."""
    for seed in range(300):
        resources, members = small_group(Random(seed))
        before = {member.id: tuple(member.owned) for member in members}
        plan = assignor("sticky").assign(members, resources)
        found = squares(plan.assignments), moved(before, plan.assignments)
        assert found == best_by_search(members, resources, before), seed


# --- stickiness -------------------------------------------------------------------------------------------------------


def settled(name: str, members: list[Member], resources: Resources) -> tuple[list[Member], bytes]:
    """The members with the resources that they have in the end."""
    memory = b""
    for generation in (1, 2):
        plan = assignor(name).assign(members, resources, memory=memory)
        members, memory = after(members, plan, generation), plan.memory
    return members, memory


@pytest.mark.parametrize("name", STICKY)
@given(resources=resources_of(), count=st.integers(1, 8))
def test_a_new_member_moves_its_share_and_nothing_else(name: str, resources: Resources, count: int) -> None:
    """With n resources and m members before, the least is n // (m + 1): so much the new one must have."""
    members, memory = settled(name, [Member(f"m{number}") for number in range(count)], resources)
    before = {member.id: tuple(member.owned) for member in members}
    now, _ = settled_after(name, [*members, Member("new")], resources, memory)
    assert moved(before, now) == len(resources.names) // (count + 1)
    assert max(map(len, now.values())) - min(map(len, now.values())) <= 1


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@given(resources=resources_of(), count=st.integers(2, 8), leaver=st.integers(0, 7))
def test_a_member_that_leaves_moves_its_share_and_nothing_else(
    name: str, resources: Resources, count: int, leaver: int
) -> None:
    members, memory = settled(name, [Member(f"m{number}") for number in range(count)], resources)
    del members[leaver % count]
    plan = assignor(name).assign(members, resources, memory=memory)
    before = {member.id: tuple(member.owned) for member in members}
    assert moved(before, plan.assignments) == 0
    assert plan.waiting == ()
    check_complete(plan.assignments, members, resources)


def settled_after(
    name: str, members: list[Member], resources: Resources, memory: bytes
) -> tuple[dict[str, tuple[str, ...]], bytes]:
    generation = 2
    while True:
        generation += 1
        plan = assignor(name).assign(members, resources, memory=memory)
        members, memory = after(members, plan, generation), plan.memory
        if plan.next_plan_s is None:
            return dict(plan.assignments), memory
        assert generation < 10, "the plans do not end"


@pytest.mark.parametrize("name", STICKY)
@given(data=st.data())
def test_a_settled_group_stays_as_it_is(name: str, data: st.DataObject) -> None:
    """Any topics asked for: a further plan with the same members moves nothing."""
    resources = data.draw(resources_of())
    members = data.draw(members_of(resources, has_owners=False))
    members, memory = settled(name, members, resources)
    plan = assignor(name).assign(members, resources, memory=memory)
    assert plan.assignments == {member.id: member.owned for member in members}


@given(resources=resources_of(), count=st.integers(2, 8), leaver=st.integers(0, 7))
def test_rendezvous_moves_the_share_of_one_member_only(resources: Resources, count: int, leaver: int) -> None:
    """Without any statement of ownership: what the others have stays theirs."""
    members = [Member(f"m{number}") for number in range(count)]
    every = assignor("rendezvous").assign(members, resources).assignments
    gone = members.pop(leaver % count)
    fewer = assignor("rendezvous").assign(members, resources).assignments
    assert all(set(every[member.id]) <= set(fewer[member.id]) for member in members)
    assert sum(map(len, fewer.values())) - sum(len(every[member.id]) for member in members) == len(every[gone.id])


def test_rendezvous_spreads_as_chance_does() -> None:
    """10,000 resources over 10 members: the standard deviation of a load is 30; five of them are allowed."""
    resources = Resources.of_names(f"r{number}" for number in range(10_000))
    plan = assignor("rendezvous").assign([Member(f"m{number}") for number in range(10)], resources)
    assert all(850 <= len(owned) <= 1150 for owned in plan.assignments.values())


def test_rendezvous_never_changes_its_mind() -> None:
    """The hash is a format: another one would move every resource of every group."""
    plan = assignor("rendezvous").assign([Member("a"), Member("b"), Member("x", "c")], Resources.of_topics({"t": 8}))
    shares = {"a": ("t-1", "t-2", "t-5", "t-6", "t-7"), "b": ("t-3",), "x": ("t-0", "t-4")}
    assert plan.assignments == shares


# --- single cases -----------------------------------------------------------------------------------------------------


def test_the_newest_statement_of_ownership_counts() -> None:
    """A member that slept through a plan states what another one has by now: it gives it up, the other one goes on."""
    resources = Resources.of_names(["r"])
    slept, owner = Member("a", owned=("r",), generation=1), Member("b", owned=("r",), generation=2)
    plan = assignor("cooperative-sticky").assign([slept, owner], resources)
    assert plan.assignments == {"a": (), "b": ("r",)}
    assert (plan.revoked, plan.next_plan_s) == ({"a": ("r",)}, None)


def test_two_statements_of_one_plan_are_both_refused() -> None:
    """Nobody knows who is right: both give the resource up, and the next plan gives it to one."""
    resources = Resources.of_names(["r"])
    members = [Member("a", owned=("r",), generation=2), Member("b", owned=("r",), generation=2)]
    plan = assignor("cooperative-sticky").assign(members, resources)
    assert plan.assignments == {"a": (), "b": ()}
    assert plan.revoked == {"a": ("r",), "b": ("r",)}
    assert (plan.waiting, plan.next_plan_s) == (("r",), 0.0)


def test_a_resource_that_was_deleted_needs_no_second_plan() -> None:
    plan = assignor("cooperative-sticky").assign(
        [Member("a", owned=("r", "s"), generation=1)], Resources.of_names(["r"])
    )
    assert (plan.revoked, plan.waiting, plan.next_plan_s) == ({"a": ("s",)}, (), None)


def test_a_leader_goes_on_when_a_smaller_one_comes() -> None:
    resources = Resources.of_names(["writer"])
    leader = Member("b", owned=("writer",), generation=1)
    plan = assignor("one-leader").assign([leader, Member("a")], resources)
    assert plan.assignments == {"a": (), "b": ("writer",)}


def test_the_smallest_candidate_leads_when_nobody_did() -> None:
    """By the identity, so that a static member counts by its instance; who does not ask for the topic is none."""
    resources = Resources.of_names(["writer"])
    members = [Member("0", topics=()), Member("1", "host-2"), Member("2", "host-1")]
    assert assignor("one-leader").assign(members, resources).assignments == {"0": (), "1": (), "2": ("writer",)}


def test_a_leader_that_does_not_ask_any_more_gives_up_first() -> None:
    resources = Resources.of_names(["writer"])
    plan = assignor("one-leader").assign(
        [Member("a", topics=(), owned=("writer",), generation=1), Member("b")], resources
    )
    assert plan.assignments == {"a": (), "b": ()}
    assert (plan.revoked, plan.next_plan_s) == ({"a": ("writer",)}, 0.0)
