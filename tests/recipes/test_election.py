"""KIP-30 Leader Election, contract by contract (docs/kip30.md)."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.interfaces import Leader, LeaderChange
from tests.node.nodes import running
from tests.processes.waiting import wait_until
from tests.recipes.faces import Face
from tests.recipes.test_group import crash, next_of, restarted

Nodes = dict[str, raftmeta.Node]
MakeFace = Callable[[raftmeta.Node], Face]


def wait_leader(election: Any, leader: str | None) -> None:
    wait_until(lambda: election.get_leader() == leader, timeout_s=30, what=f"{leader} to lead")


def test_the_first_candidate_leads_and_the_next_waits(nodes: Nodes, face: MakeFace, name: str) -> None:
    """KIP-30 nominate, getLeader: true for the one who leads now; the leader has epoch and data."""
    first, second, watcher = (face(nodes[one]).store.election(name) for one in "abc")
    assert watcher.service == name
    assert watcher.get_leader() is None
    assert watcher.leader() is None
    assert first.nominate("a", "at host a") is True
    assert second.nominate("b") is False
    assert first.nominate("a") is True  # it stays
    assert second.nominate("b") is False
    lead = first.lead("a")
    assert lead.held()
    assert watcher.get_leader() == "a"
    assert watcher.leader() == Leader("a", b"at host a", lead.epoch)
    assert second.lead("b") is None
    nodes["c"].put("k", b"v", fence=lead.fence)


def test_resigning_is_final_and_the_next_in_line_leads(nodes: Nodes, face: MakeFace, name: str) -> None:
    """In the order of nomination; whoever resigned is no candidate until it is nominated again."""
    elections = {one: face(nodes[one]).store.election(name) for one in "abc"}
    epochs = []
    for one in "abc":
        elections[one].nominate(one)
    for one in "abc":
        wait_leader(elections["a"], one)
        wait_until(lambda one=one: elections[one].lead(one), timeout_s=20, what="the leader to know")  # type: ignore[misc]
        epochs.append(elections[one].lead(one).epoch)
        elections[one].resign(one)
        assert elections[one].lead(one) is None
    assert epochs == sorted(set(epochs))
    assert elections["a"].get_leader() is None
    assert elections["a"].nominate("a") is True
    elections["a"].resign("a")


def test_resigning_ignores_who_does_not_lead_here(nodes: Nodes, face: MakeFace, name: str) -> None:
    first, second = face(nodes["a"]).store.election(name), face(nodes["b"]).store.election(name)
    first.nominate("a")
    first.resign("nobody")
    second.resign("a")
    assert second.get_leader() == "a"
    first.resign("a")
    first.resign("a")
    assert second.get_leader() is None


def test_a_candidate_that_waits_may_withdraw(nodes: Nodes, face: MakeFace, name: str) -> None:
    one = face(nodes["a"]).store.election(name)
    for candidate in "xyz":
        one.nominate(candidate)
    one.withdraw("y")
    one.withdraw("nobody")
    one.withdraw("x")
    wait_leader(one, "z")


def test_resign_is_ignored_for_one_who_waits(nodes: Nodes, face: MakeFace, name: str) -> None:
    """KIP-30 LeaderElection.resign: it stays eligible, and is elected in turn."""
    one, two = face(nodes["a"]).store.election(name), face(nodes["b"]).store.election(name)
    one.nominate("x")
    two.nominate("y")
    two.resign("y")
    one.resign("x")
    wait_leader(one, "y")
    two.resign("y")  # at once, though its mirror may not know of its lead
    assert one.get_leader() is None


def test_two_candidates_cannot_have_one_id(nodes: Nodes, face: MakeFace, name: str) -> None:
    """Else nobody could tell who leads."""
    first, second = face(nodes["a"]).store.election(name), face(nodes["b"]).store.election(name)
    first.nominate("x")
    with pytest.raises(raftmeta.IdConflict):
        second.nominate("x")
    assert second.lead("x") is None
    first.resign("x")
    assert second.nominate("x") is True


def test_listeners_are_told_of_every_leader_and_of_none(nodes: Nodes, face: MakeFace, name: str) -> None:
    """KIP-30 onLeaderChange: the new leader, None when the service has none; not when a candidate comes or goes."""
    running_for, watcher = face(nodes["a"]).store.election(name), face(nodes["b"]).store.election(name)
    told: queue.Queue[LeaderChange] = queue.Queue()
    watcher.add_listener(told.put)
    running_for.nominate("x", b"1")
    running_for.nominate("y", b"2")
    running_for.nominate("z")
    running_for.withdraw("z")
    running_for.resign("x")
    running_for.resign("y")
    changes = [next_of(told) for _ in range(3)]
    assert [change.id for change in changes] == ["x", "y", None]
    assert [change.leader and change.leader.data for change in changes] == [b"1", b"2", None]
    assert changes[0].leader.epoch < changes[1].leader.epoch  # type: ignore[union-attr]
    assert not any(change.coalesced for change in changes)
    watcher.remove_listener(told.put)
    running_for.nominate("x")
    wait_leader(watcher, "x")
    assert told.empty()


def test_the_winner_is_called_back_when_it_wins(nodes: Nodes, face: MakeFace, name: str) -> None:
    first, second = face(nodes["a"]).store.election(name), face(nodes["b"]).store.election(name)
    won: queue.Queue[Any] = queue.Queue()
    lost: queue.Queue[Any] = queue.Queue()
    first.nominate("a", on_elected=won.put, on_lost=lost.put)
    assert first.lead("a") == next_of(won)
    second.nominate("b", on_elected=won.put)
    first.resign("a")
    lead = next_of(won)
    assert second.lead("b") == lead
    assert lost.empty()  # resigned is not lost


def test_a_lead_removed_from_outside_is_lost_and_won_again(nodes: Nodes, face: MakeFace, name: str) -> None:
    """The candidate stays eligible: it is nominated anew, behind those who waited."""
    one = face(nodes["a"]).store.election(name)
    won: queue.Queue[Any] = queue.Queue()
    lost: queue.Queue[Any] = queue.Queue()
    one.nominate("x", on_elected=won.put, on_lost=lost.put)
    one.nominate("y")
    lead = one.lead("x")
    next_of(won)
    nodes["b"].delete(lead.fence.key)
    assert lead == next_of(lost)
    assert not lead.held()
    wait_leader(one, "y")
    one.resign("y")
    again = next_of(won)
    assert again.epoch > lead.epoch
    assert one.get_leader() == "x"
    with pytest.raises(raftmeta.Fenced):
        nodes["c"].put("k", b"late", fence=lead.fence)


def test_terms_gives_each_lead_until_the_candidate_resigns(nodes: Nodes, face: MakeFace, name: str) -> None:
    """`for lead in election.terms("a"): while lead.held(): ...` ends by itself."""
    one = face(nodes["a"]).store.election(name)
    epochs = []
    for lead in one.terms("x"):
        assert lead.held()
        epochs.append(lead.epoch)
        if len(epochs) == 1:
            nodes["b"].delete(lead.fence.key)
            assert lead.wait_lost(10)
        else:
            one.resign("x")
            assert not lead.held()
    assert len(epochs) == 2
    assert epochs[0] < epochs[1]
    assert one.get_leader() is None


def test_leaving_the_loop_of_terms_resigns(nodes: Nodes, face: MakeFace, name: str) -> None:
    """By break and by an exception: who does not act as the leader must not stay it."""
    one = face(nodes["a"]).store.election(name)
    for _ in one.terms("x"):
        break
    wait_leader(one, None)
    with pytest.raises(ZeroDivisionError):
        for _ in one.terms("x"):
            raise ZeroDivisionError
    wait_leader(one, None)


def test_terms_that_wait_end_with_the_election(nodes: Nodes, face: MakeFace, name: str) -> None:
    """A candidate that never led: its iterator ends when it resigns, and when the election is closed."""
    leading, waiting = face(nodes["a"]).store.election(name), face(nodes["b"]).store.election(name)
    leading.nominate("a")
    for end in (lambda: waiting.withdraw("b"), waiting.close):
        leads: list[Any] = []
        thread = threading.Thread(target=lambda leads=leads: leads.extend(waiting.terms("b")))
        thread.start()
        wait_until(
            lambda: nodes["c"].range(prefix=leading.lead("a").fence.key[:-1]).count == 2,
            timeout_s=30,
            what="the candidate to wait",
        )
        end()
        thread.join(10)
        assert not thread.is_alive()
        assert leads == []
    leading.close()


def test_a_leader_cut_off_knows_before_the_next_one_leads(tmp_path: Path, face: MakeFace) -> None:
    """Its own clock tells, as nobody can be reached; on the other side the lead is free only later."""
    with running(tmp_path) as nodes:
        one = face(nodes["a"]).store.election("s", ttl_s=1.0)
        lost: queue.Queue[Any] = queue.Queue()
        won: queue.Queue[Any] = queue.Queue()
        one.nominate("a", on_lost=lost.put, on_elected=won.put)
        lead = next_of(won)
        for name in "bc":
            crash(nodes[name])
        assert lead == next_of(lost)
        assert not lead.held()
        assert one.lead("a") is None
        again = [restarted(nodes[name]) for name in "bc"]
        assert next_of(won).epoch > lead.epoch  # nominated anew by itself
        assert again[0].election("s").get_leader() == "a"
        with pytest.raises(raftmeta.Fenced):
            again[1].put("k", b"late", fence=lead.fence)
        for node in again:
            node.close(transfer=False)


def test_a_leader_that_crashed_makes_room_as_soon_as_it_is_back(tmp_path: Path) -> None:
    """Its lease has an hour left. Its next life ends the old lead by its nomination, and stands behind who waited."""
    with running(tmp_path) as nodes:
        nodes["a"].election("s", ttl_s=3600).nominate("a")
        old = nodes["a"].election("s", ttl_s=3600).lead("a")
        assert old is not None
        assert nodes["b"].election("s", ttl_s=3600).nominate("b") is False
        crash(nodes["a"])
        assert nodes["b"].election("s", ttl_s=3600).get_leader() == "a"
        again = restarted(nodes["a"])
        assert again.election("s", ttl_s=3600).nominate("a") is False
        wait_leader(again.election("s", ttl_s=3600), "b")
        with pytest.raises(raftmeta.Fenced):
            nodes["c"].put("k", b"late", fence=old)
        nodes["b"].election("s", ttl_s=3600).resign("b")
        wait_leader(again.election("s", ttl_s=3600), "a")
        again.close(transfer=False)


def test_a_close_resigns_every_candidate(nodes: Nodes, face: MakeFace, name: str) -> None:
    one = face(nodes["a"]).store.election(name)
    one.nominate("x")
    lead = one.lead("x")
    one.nominate("y")
    one.close()
    one.close()
    assert not lead.held()
    assert nodes["b"].election(name).get_leader() is None
    for call in (one.get_leader, lambda: one.nominate("z"), lambda: one.resign("x")):
        with pytest.raises(raftmeta.NodeClosed):
            call()


def test_one_leader_at_a_time_over_many_changes(nodes: Nodes, name: str) -> None:
    """Six candidates on three nodes, each leading ten times; every write of a leader carries its fence."""
    key = f"one/{name}"
    nodes["a"].put(key, b"0")
    terms: list[tuple[int, str]] = []
    failures: list[BaseException] = []

    def run_for(node: raftmeta.Node, candidate: str) -> None:
        election = raftmeta.recipes.Election(name, ttl_s=5)
        election.init(node)
        try:
            for _ in range(5):
                for lead in election.terms(candidate):
                    node.put(key, candidate, fence=lead)
                    record = node.get(key)
                    assert record is not None
                    assert record.value.decode() == candidate, "somebody else wrote while this one led"
                    terms.append((lead.epoch, candidate))
                    break
        except BaseException as error:
            failures.append(error)
        finally:
            election.close()

    threads = [
        threading.Thread(target=run_for, args=(node, f"{one}{number}"))
        for one, node in nodes.items()
        for number in "12"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert len(terms) == 30
    assert [epoch for epoch, _ in terms] == sorted(epoch for epoch, _ in terms)
