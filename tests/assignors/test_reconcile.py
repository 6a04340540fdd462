"""KIP-848's server side: members walk to their targets one by one, and no resource has two owners on the way."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta import InvalidArgument
from raftmeta.assignors import Member, Phase, Resources, Standing, Target, assignor, reconcile, retarget
from tests.assignors.groups import check_complete, moved, topic_of

STICKY = assignor("sticky")


@dataclass
class Server:
    """A group, and what each member has in truth: it follows the standing that it heard last."""

    resources: Resources
    members: dict[str, Member] = field(default_factory=dict)
    target: Target = field(default_factory=Target)
    standings: dict[str, Standing] = field(default_factory=dict)
    held: dict[str, frozenset[str]] = field(default_factory=dict)

    def join(self, name: str) -> None:
        self.members[name] = Member(name)
        self.standings[name] = Standing()
        self.held[name] = frozenset()

    def leave(self, name: str) -> None:
        for table in (self.members, self.standings, self.held):
            del table[name]

    def retarget(self) -> None:
        self.target = retarget(self.target, list(self.members.values()), self.resources, STICKY)

    def beat(self, name: str, *, is_heard: bool = True) -> bool:
        """One heartbeat; whether anything changed. is_heard: the member gets the answer and does as it says."""
        before, held = self.standings[name], self.held[name]
        others = [one for other, one in self.standings.items() if other != name]
        self.standings[name] = standing = reconcile(
            before,
            self.target,
            name,
            reported=self.held[name],
            is_free=lambda resource: not any(resource in one.owned | one.revoking for one in others),
        )
        if is_heard:
            self.held[name] = standing.owned
        return standing is not before or self.held[name] != held

    def settle(self) -> int:
        """Heartbeats until nothing changes; how many rounds of them."""
        for rounds in range(100):
            if not [name for name in self.members if self.beat(name)]:
                return rounds
        raise AssertionError("the members do not arrive")

    def check(self) -> None:
        owner: dict[str, str] = {}
        for name, held in self.held.items():
            for resource in held:
                assert owner.setdefault(resource, name) == name, f"{resource}: {owner[resource]} and {name}"


def server_of(partitions: int, *names: str) -> Server:
    server = Server(Resources.of_topics({"t": partitions}))
    for name in names:
        server.join(name)
    server.retarget()
    server.settle()
    return server


def test_a_member_gives_up_before_another_one_gets() -> None:
    server = server_of(4, "a")
    server.join("b")
    server.retarget()
    assert server.beat("b")
    assert server.standings["b"] == Standing(2, Phase.RECEIVING)
    assert server.beat("a", is_heard=False)
    assert server.standings["a"] == Standing(1, Phase.REVOKING, frozenset({"t-0", "t-1"}), frozenset({"t-2", "t-3"}))
    assert not server.beat("b"), "a may still have them"
    server.beat("a")
    assert not server.beat("b"), "a has not said that it gave them up"
    server.beat("a")
    assert server.standings["a"] == Standing(2, Phase.STABLE, frozenset({"t-0", "t-1"}))
    assert server.beat("b")
    assert server.standings["b"] == Standing(2, Phase.STABLE, frozenset({"t-2", "t-3"}))


def test_a_member_gives_up_piece_by_piece() -> None:
    """Each piece that it gave up is free at once."""
    server = server_of(4, "a")
    server.join("b")
    server.retarget()
    server.beat("a")
    server.held["a"] = frozenset({"t-0", "t-1", "t-3"})
    server.beat("a", is_heard=False)
    assert server.standings["a"].revoking == {"t-3"}
    server.beat("b")
    assert server.standings["b"] == Standing(2, Phase.RECEIVING, frozenset({"t-2"}))


def test_silence_is_no_proof_that_anything_was_given_up() -> None:
    standing = Standing(1, Phase.REVOKING, frozenset(), frozenset({"t-0"}))
    answer = reconcile(standing, Target(2), "a", reported=None, is_free=lambda name: True)
    assert answer is standing


def test_a_target_that_comes_back_waits_for_the_member() -> None:
    """Even if it may have the resource again: it was told to give it up, and will."""
    target = Target(3, {"a": ("t-0",)})
    standing = Standing(1, Phase.REVOKING, frozenset(), frozenset({"t-0"}))
    assert reconcile(standing, target, "a", reported=("t-0",), is_free=lambda name: True) is standing
    answer = reconcile(standing, target, "a", reported=(), is_free=lambda name: True)
    assert answer == Standing(3, Phase.STABLE, frozenset({"t-0"}))


def test_a_target_is_sticky_and_stays_the_same_object() -> None:
    server = server_of(12, "a", "b", "c")
    before = server.target
    server.retarget()
    assert server.target is before
    server.join("d")
    server.retarget()
    assert (server.target.epoch, moved(before.assignments, server.target.assignments)) == (before.epoch + 1, 3)


def test_a_cooperative_assignor_makes_no_target() -> None:
    with pytest.raises(InvalidArgument, match="cooperative-sticky") as refused:
        retarget(Target(), [Member("a")], Resources.of_topics({"t": 1}), assignor("cooperative-sticky"))
    assert refused.value.field == "assignor"


@given(data=st.data())
def test_no_resource_has_two_owners_and_all_arrive(data: st.DataObject) -> None:
    """Members come, go, and beat in any order; answers are lost; targets change on the way."""
    server = server_of(7, "m0", "m1")
    number = 2
    for _ in range(data.draw(st.integers(0, 25))):
        match data.draw(st.sampled_from(["join", "leave", "resize", "beat", "beat", "beat", "lost"])):
            case "join":
                server.join(f"m{number}")
                number += 1
                server.retarget()
            case "leave" if len(server.members) > 1:
                server.leave(data.draw(st.sampled_from(sorted(server.members))))
                server.retarget()
            case "resize":
                server.resources = Resources.of_topics({"t": data.draw(st.integers(0, 9))})
                server.retarget()
            case word:
                server.beat(data.draw(st.sampled_from(sorted(server.members))), is_heard=word != "lost")
        server.check()
    server.settle()
    server.check()
    members = [replace(member) for member in server.members.values()]
    check_complete({name: tuple(sorted(held)) for name, held in server.held.items()}, members, server.resources)
    assert {(one.epoch, one.phase) for one in server.standings.values()} == {(server.target.epoch, Phase.STABLE)}
    assert set(topic_of(server.resources)) == set().union(*server.held.values())
