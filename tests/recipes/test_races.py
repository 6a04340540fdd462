"""What happens in the middle of a nomination or a joining: a store that first does something of the test's."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import raftmeta
from raftmeta import recipes
from tests.processes.waiting import wait_until
from tests.recipes.test_line import Waiter

Nodes = dict[str, raftmeta.Node]


class Hooked:
    """A node; before each call of a verb, what the test has planned for it is done, once."""

    def __init__(self, node: raftmeta.Node) -> None:
        self.node = node
        self.planned: dict[str, list[Callable[[], object]]] = {}

    def before(self, verb: str, act: Callable[[], object]) -> None:
        self.planned.setdefault(verb, []).append(act)

    def __getattr__(self, word: str) -> Any:
        found = getattr(self.node, word)
        if word not in ("lease", "txn", "range"):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            if self.planned.get(word):
                self.planned[word].pop(0)()
            return found(*arguments, **options)

        return call


def hooked_election(node: raftmeta.Node, name: str) -> tuple[Hooked, recipes.Election]:
    store, election = Hooked(node), recipes.Election(name, ttl_s=5)
    election.init(store)  # type: ignore[arg-type]
    return store, election


def fail(error: Exception) -> Callable[[], None]:
    def act() -> None:
        raise error

    return act


@pytest.mark.parametrize("verb", ["lease", "txn"])
def test_a_candidate_that_withdraws_while_it_is_nominated_is_none(nodes: Nodes, name: str, verb: str) -> None:
    store, election = hooked_election(nodes["a"], name)
    election.get_leader()
    store.before(verb, lambda: election.withdraw("x"))
    assert election.nominate("x") is False
    assert election.get_leader() is None
    assert election.nominate("x") is True
    election.close()


@pytest.mark.parametrize("verb", ["lease", "txn"])
def test_an_election_closed_during_a_nomination_leaves_no_candidate(nodes: Nodes, name: str, verb: str) -> None:
    store, election = hooked_election(nodes["a"], name)
    nodes["b"].election(name).nominate("y")
    election.get_leader()
    store.before("lease", lambda: store.before(verb, election.close) if verb == "txn" else election.close())
    assert election.nominate("x") is False
    nodes["b"].election(name).resign("y")
    assert nodes["b"].election(name).get_leader() is None


def test_a_nomination_anew_that_fails_is_tried_again(nodes: Nodes, name: str) -> None:
    """The lead was lost, and the store answers nobody just then: the candidate stays eligible."""
    store, election = hooked_election(nodes["a"], name)
    election.nominate("x")
    lead = election.lead("x")
    assert lead is not None
    for error in (raftmeta.NoLeader("on purpose"), raftmeta.OutcomeUnknown("on purpose")):
        store.before("lease", fail(error))
    nodes["b"].delete(lead.fence.key)
    assert lead.wait_lost(10)
    wait_until(lambda: election.lead("x") is not None, timeout_s=30, what="the candidate to lead again")
    assert store.planned["lease"] == []
    election.close()


@pytest.mark.parametrize("error", [raftmeta.NodeClosed("on purpose"), raftmeta.Fatal("on purpose")])
def test_a_candidacy_ends_with_its_store(nodes: Nodes, name: str, error: Exception) -> None:
    store, election = hooked_election(nodes["a"], name)
    leads = []
    for lead in election.terms("x"):
        leads.append(lead)
        store.before("lease", fail(error))
        nodes["b"].delete(lead.fence.key)
        assert lead.wait_lost(10)
    assert len(leads) == 1
    election.close()


def test_a_candidate_whose_id_was_taken_meanwhile_is_none_any_more(nodes: Nodes, name: str) -> None:
    """The iterator of its terms ends; the other one leads."""
    store, election = hooked_election(nodes["a"], name)
    for lead in election.terms("x"):
        store.before("lease", lambda: nodes["b"].election(name).nominate("x"))
        nodes["b"].delete(lead.fence.key)
        assert lead.wait_lost(10)
    assert election.lead("x") is None
    assert nodes["b"].election(name).lead("x") is not None
    nodes["b"].election(name).close()


def test_a_group_closed_during_a_joining_has_no_member(nodes: Nodes, name: str) -> None:
    store, group = Hooked(nodes["a"]), recipes.Group(name, ttl_s=5)
    group.init(store)  # type: ignore[arg-type]
    store.before("lease", lambda: store.before("txn", group.close))
    with pytest.raises(raftmeta.NodeClosed):
        group.join("x")
    assert nodes["b"].group(name).membership_list() == frozenset()


def test_a_leave_during_a_joining_is_of_nobody(nodes: Nodes, name: str) -> None:
    """Not a member yet: ignored. And of two joinings by one id only one is begun."""
    store, group = Hooked(nodes["a"]), recipes.Group(name, ttl_s=5)
    group.init(store)  # type: ignore[arg-type]
    refused: list[Exception] = []

    def meanwhile() -> None:
        group.leave("x")
        try:
            group.join("x")
        except raftmeta.IdConflict as error:
            refused.append(error)

    store.before("lease", meanwhile)
    assert group.join("x").held()
    assert len(refused) == 1
    group.close()


def test_a_place_that_falls_vacant_while_it_is_looked_at_is_taken(nodes: Nodes, name: str) -> None:
    """The key was there for the first transaction, and gone for the one that would replace it."""
    first, group = nodes["b"].group(name), recipes.Group(name, ttl_s=5)
    member = first.join("x")
    store = Hooked(nodes["a"])
    group.init(store)  # type: ignore[arg-type]
    key = member.fence.key
    value = nodes["a"].get(key).value  # type: ignore[union-attr]
    first.leave("x")
    nodes["a"].put(key, value)  # of an earlier life of b, seen from b's next one
    store.owner = raftmeta.interfaces.Owner("b", 0, 0)  # type: ignore[attr-defined]
    store.before("lease", lambda: store.before("txn", lambda: store.before("txn", lambda: nodes["a"].delete(key))))
    assert group.join("x").held()
    group.close()


def test_two_that_follow_at_once_have_one_mirror(nodes: Nodes, name: str) -> None:
    before = nodes["a"].metrics()["watches"]
    group = recipes.Group(name, ttl_s=5)
    group.init(nodes["a"])
    threads = [threading.Thread(target=group.add_listener, args=(print,)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    wait_until(lambda: nodes["a"].metrics()["watches"] == before + 1, timeout_s=20, what="one watch")
    group.close()
    wait_until(lambda: nodes["a"].metrics()["watches"] == before, timeout_s=20, what="no watch")


def test_nobody_overtakes_a_worker_that_waits_in_line(nodes: Nodes, name: str) -> None:
    """It is slow to take the item that came for it; who comes later stands behind it and gets nothing meanwhile."""
    store, go_on, watches = Hooked(nodes["a"]), threading.Event(), nodes["a"].metrics()["watches"]
    waiting = Waiter(lambda: recipes.Queue(store, name).take(timeout_s=30))  # type: ignore[arg-type]
    wait_until(lambda: nodes["a"].metrics()["watches"] == watches + 1, timeout_s=20, what="it to wait for an item")
    store.before("range", go_on.wait)
    other = recipes.Queue(nodes["b"], name)
    other.put(b"1")
    with pytest.raises(raftmeta.Withdrawn):
        other.take(timeout_s=0.3)
    go_on.set()
    assert waiting.join().data == b"1"
