"""Plans of membership changes (raftmeta/members/plans): the next step from what a node sees, without any node."""

from __future__ import annotations

from dataclasses import replace

import pytest

import raftmeta
from raftmeta.bindings.members import membership_bytes
from raftmeta.members.plans import (
    LEARNER,
    STANDBY,
    VOTER,
    Change,
    HandOver,
    Meet,
    MemberRow,
    Propose,
    View,
    add,
    remove,
    set_vote,
    swap,
)


def row(name: str, role: str = VOTER) -> MemberRow:
    return MemberRow(name, ord(name), f"h:{ord(name)}", role)


def view(*members: MemberRow, leader: str = "a", index: int = 7, silent: str = "", met: str = "") -> View:
    """Seen from a, which is connected to every member that is not silent, and to those it met."""
    connected = {one.name: one.id for one in members if one.name not in silent} | {name: ord(name) for name in met}
    return View("a", index, True, False, leader, members, connected)


THREE = (row("a"), row("b"), row("c"))


def roles(step: object) -> dict[str, str]:
    assert isinstance(step, Propose)
    return {one.name: one.role for one in step.members}


# --- goals ------------------------------------------------------------------------------------------------------------


def test_a_stranger_is_met_before_it_is_added() -> None:
    """A membership names incarnations, and only the process can tell its own."""
    plan = add("d", "h:100", is_voter=True)
    assert isinstance(plan(view(*THREE)), Meet)
    assert roles(plan(view(*THREE, met="d"))) == {"a": VOTER, "b": VOTER, "c": VOTER, "d": LEARNER}
    assert plan(view(*THREE, row("d", LEARNER))) is None
    assert plan(view(*THREE, row("d"))) is None


def test_a_standby_is_no_learner_that_waits_for_promotion() -> None:
    standby, learner = view(*THREE, row("d", STANDBY)), view(*THREE, row("d", LEARNER))
    assert add("d", "h:100", is_voter=False)(standby) is None
    assert roles(add("d", "h:100", is_voter=True)(standby))["d"] == LEARNER
    assert roles(add("d", "h:100", is_voter=False)(learner))["d"] == STANDBY


def test_a_member_at_another_address_is_not_taken_for_the_new_one() -> None:
    with pytest.raises(raftmeta.ChangeRefused, match="at h:98 already"):
        add("b", "h:1", is_voter=True)(view(*THREE))


def test_a_leader_hands_over_before_it_goes() -> None:
    for plan in (remove("a"), set_vote("a", is_voter=False)):
        assert isinstance(plan(view(*THREE)), HandOver)
        assert isinstance(plan(view(*THREE, leader="b")), Propose)


def test_the_only_voter_neither_goes_nor_loses_its_vote() -> None:
    for plan in (remove("a"), set_vote("a", is_voter=False)):
        with pytest.raises(raftmeta.ChangeRefused, match="only voter"):
            plan(view(row("a"), row("b", LEARNER)))


def test_who_is_gone_already_needs_no_step() -> None:
    assert remove("a")(replace(view(*THREE), is_removed=True)) is None


def test_a_replacement_is_a_standby_first_and_one_change_then() -> None:
    plan = swap("c", "d", "h:100")
    assert isinstance(plan(view(*THREE)), Meet)
    assert roles(plan(view(*THREE, met="d")))["d"] == STANDBY
    assert roles(plan(view(*THREE, row("d", STANDBY)))) == {"a": VOTER, "b": VOTER, "d": VOTER}
    assert plan(view(row("a"), row("b"), row("d"))) is None
    with pytest.raises(raftmeta.ChangeRefused, match="there are a and b"):
        swap("x", "y", "h:1")(view(row("a"), row("b")))


def test_a_replaced_standby_leaves_a_standby() -> None:
    step = swap("c", "d", "h:100")(view(row("a"), row("b"), row("c", STANDBY), row("d", STANDBY)))
    assert roles(step)["d"] == STANDBY


def test_of_two_incarnations_the_one_that_votes_is_meant() -> None:
    old, new = row("c"), MemberRow("c", 500, "h:99", LEARNER)
    assert view(row("a"), new, old).named("c") is old
    assert roles(remove("c")(view(row("a"), row("b"), old, new))) == {"a": VOTER, "b": VOTER}


def test_of_a_demoted_voter_and_its_new_incarnation_the_new_one_is_left() -> None:
    """Two members of one name that do not vote are no membership: the codec refuses them (seed 0x17d7c5ec)."""
    old, new = row("c"), MemberRow("c", 500, "h:99", LEARNER)
    plan = set_vote("c", is_voter=False)
    step = plan(view(row("a"), row("b"), new, old))
    assert isinstance(step, Propose)
    left = (row("a"), row("b"), replace(new, role=STANDBY))
    assert step.members == left
    assert membership_bytes(step.members)
    assert plan(view(*left)) is None


def test_members_that_no_cluster_can_have_are_refused_in_words() -> None:
    old, new = row("c", STANDBY), MemberRow("c", 500, "h:99", STANDBY)
    with pytest.raises(raftmeta.InvalidArgument, match="of one name at most one votes and one does not"):
        membership_bytes((row("a"), row("b"), old, new))


# --- what an error says -----------------------------------------------------------------------------------------------


def test_a_lost_quorum_is_told_by_name() -> None:
    change = Change("remove_member('b')", remove("b"))
    seen = view(*THREE, silent="c")
    step = change.next_step(seen)
    assert isinstance(step, Propose)
    change.begins(step, seen)
    change.failed(raftmeta.ChangeRefused("too few"))
    error = change.timed_out()
    assert isinstance(error, raftmeta.ChangeRefused)
    assert str(error) == "remove_member('b'): would leave no quorum: c does not answer"


def test_the_fate_of_a_proposal_is_unknown_until_another_membership_is_settled() -> None:
    """1. proposed from 7; 2. no answer; 3. nothing settled since: unknown. A later membership makes it certain."""
    change = Change("remove_member('b')", remove("b"))
    step = change.next_step(view(*THREE))
    assert isinstance(step, Propose)
    change.begins(step, view(*THREE))
    change.failed(raftmeta.OutcomeUnknown("silent"))
    assert isinstance(change.timed_out(), raftmeta.OutcomeUnknown)
    change.failed(raftmeta.Withdrawn("its caller's time was over"))
    assert isinstance(change.timed_out(), raftmeta.OutcomeUnknown)
    assert isinstance(change.next_step(view(*THREE, index=9)), Propose)
    assert isinstance(change.timed_out(), raftmeta.Withdrawn)
    assert change.next_step(view(row("a"), row("c"), index=11)) is None


def test_a_removal_knows_a_name_that_nobody_has() -> None:
    """Refused where it was never seen; reached where this call saw it go, whoever removed it."""
    with pytest.raises(raftmeta.ChangeRefused, match="typo is no member, or not any more; there are a, b and c"):
        Change("remove_member('typo')", remove("typo")).next_step(view(*THREE))
    change = Change("remove_member('b')", remove("b"))
    assert isinstance(change.next_step(view(*THREE)), Propose)
    assert change.next_step(view(row("a"), row("c"), index=11)) is None
    with pytest.raises(raftmeta.ChangeRefused, match="b is no member, or not any more; there are a and c"):
        Change("remove_member('b')", remove("b")).next_step(view(row("a"), row("c"), index=11))


def test_nothing_is_proposed_while_a_change_is_under_way_or_no_leader_is_known() -> None:
    change = Change("remove_member('b')", remove("b"))
    assert change.next_step(replace(view(*THREE), is_settled=False)) is False
    assert "under way" in str(change.timed_out())
    assert change.next_step(view(*THREE, leader="")) is False
    assert "no leader" in str(change.timed_out())


def test_a_removed_node_is_not_the_one_to_ask() -> None:
    gone = replace(view(row("b"), row("c")), is_removed=True)
    assert Change("remove_member('a')", remove("a")).next_step(gone) is None
    with pytest.raises(raftmeta.Withdrawn, match="was removed"):
        Change("remove_member('b')", remove("b")).next_step(gone)
