"""Who stands in the list of members that a status shows (raftmeta/members/rows)."""

from __future__ import annotations

from raftmeta.members.rows import LEARNER, VOTER, LinkRow, MemberRow, member_statuses
from raftmeta.results import MemberStatus

A = MemberRow("a", 1, "h:1", VOTER)


def link(name: str, id: int, *, is_up: bool = True) -> LinkRow:
    return LinkRow(name, id, is_up, 10, 20)


def told(*statuses: MemberStatus) -> list[tuple[str, int, str, bool]]:
    return [(one.name, one.id, one.role, one.is_connected) for one in statuses]


def test_both_incarnations_of_a_name_are_shown_the_voter_first() -> None:
    """A wiped b is back: its old self votes and is silent, the new one learns and answers."""
    members = [A, MemberRow("b", 9, "h:2", LEARNER), MemberRow("b", 2, "h:2", VOTER)]
    found = member_statuses("a", 1, members, [link("a", 1), link("b", 9)], {})
    assert told(*found) == [("a", 1, VOTER, True), ("b", 2, VOTER, False), ("b", 9, LEARNER, True)]
    assert [one.bytes_in for one in found] == [10, 0, 10]


def test_an_incarnation_that_no_membership_names_is_shown_without_a_role() -> None:
    found = member_statuses("a", 1, [A, MemberRow("b", 2, "h:2", VOTER)], [link("b", 9)], {})
    assert told(*found) == [("a", 1, VOTER, True), ("b", 2, VOTER, False), ("b", 9, "", True)]


def test_a_peer_that_was_never_heard_is_shown_once() -> None:
    """As the member of its name, or before there is a membership by the address that it was given."""
    found = member_statuses("a", 1, [A, MemberRow("b", 2, "h:2", VOTER)], [link("b", 0, is_up=False)], {})
    assert told(*found) == [("a", 1, VOTER, True), ("b", 2, VOTER, False)]
    (own, other) = member_statuses("a", 1, [], [link("a", 0), link("b", 0, is_up=False)], {"b": "h:2"})
    assert (own.name, own.id, own.is_self, other.name, other.address, other.role) == ("a", 1, True, "b", "h:2", "")
