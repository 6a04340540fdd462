"""KIP-30 Leader Election, line by line."""

from __future__ import annotations

import threading
from typing import Any

from raftmeta import Fenced, IdConflict, InvalidArgument, NodeClosed, Unsupported
from raftmeta.conformance.kit import Kit, Told, check, equal, eventually, raises

AREA = "election"


@check(AREA, "one instance is for one service and never changes it")
def _(kit: Kit) -> None:
    name = kit.name("service")
    equal(kit.first.election(name).service, name, "service")
    equal(kit.first.election(name).nominate("a"), True, "nominate")
    equal(kit.first.election(name).lead("a") is not None, True, "the same election for the same name")
    kit.first.election(name).resign("a")
    equal(kit.first.election(name).get_leader(), None, "a leader resigns, whoever asked for the election")


@check(AREA, "there is no leader before somebody is nominated")
def _(kit: Kit) -> None:
    election = kit.first.election(kit.name("service"))
    equal((election.get_leader(), election.leader(), election.lead("a")), (None, None, None), "leader")


@check(AREA, "nominate is true for the one who leads, and all see it with its data", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("service")
    first, second = kit.first.election(name), kit.second.election(name)
    equal(first.nominate("a", "at a"), True, "the first nomination")
    equal(second.nominate("b", "at b"), False, "the second nomination")
    equal(first.nominate("a"), True, "the first one again")
    eventually(lambda: second.get_leader() == "a", "the leader as seen elsewhere")
    leader = second.leader()
    equal((leader.id, leader.data) if leader else None, ("a", b"at a"), "leader")
    equal(second.lead("b"), None, "the lead of one who waits")


@check(AREA, "resign makes the next in order leader, and never the one who resigned", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("service")
    first, second = kit.first.election(name), kit.second.election(name)
    first.nominate("a")
    second.nominate("b")
    first.nominate("c")
    eventually(lambda: second.get_leader() == "a", "the first leader")
    first.resign("a")
    eventually(lambda: second.lead("b") is not None, "the next one in order")
    second.resign("b")
    eventually(lambda: first.lead("c") is not None, "the last one")
    first.resign("c")
    eventually(lambda: first.get_leader() is None, "nobody is left")
    first.nominate("d")
    eventually(lambda: first.get_leader() == "d", "and only a new nomination leads")


@check(AREA, "resign is ignored for one who does not lead or is not known", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("service")
    kit.first.election(name).nominate("a")
    kit.second.election(name).resign("a")
    kit.first.election(name).resign("nobody")
    equal(kit.first.election(name).get_leader(), "a", "leader")


@check(AREA, "resign is ignored for one who waits, who is elected in turn", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("service")
    first, second = kit.first.election(name), kit.second.election(name)
    first.nominate("a")
    second.nominate("b")
    second.resign("b")
    first.resign("a")
    eventually(lambda: second.lead("b") is not None, "the one who waited leads")
    second.resign("b")
    eventually(lambda: first.leader() is None, "nobody leads")


@check(AREA, "one who waits and withdraws is not elected any more; a leader that withdraws resigns", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("service")
    first, second = kit.first.election(name), kit.second.election(name)
    first.nominate("a")
    second.nominate("b")
    second.withdraw("b")
    second.withdraw("nobody")
    first.withdraw("a")
    eventually(lambda: first.leader() is None, "nobody leads")
    equal(first.lead("a"), None, "the lead of one who withdrew")


@check(AREA, "a listener may be an object of the KIP; what cannot be told is refused")
def _(kit: Kit) -> None:
    class Listener:
        def __init__(self) -> None:
            self.leaders: list[str | None] = []

        def onLeaderChange(self, leader: str | None) -> None:  # the KIP's own name
            self.leaders.append(leader)

    election, listener = kit.first.election(kit.name("service")), Listener()
    election.add_listener(listener)  # type: ignore[arg-type]
    with raises(InvalidArgument, "42 as a listener"):
        election.add_listener(42)  # type: ignore[arg-type]
    election.nominate("a")
    eventually(lambda: listener.leaders == ["a"], "the KIP's listener to be told")
    election.resign("a")
    eventually(lambda: listener.leaders == ["a", None], "the KIP's listener to be told that nobody leads")
    election.remove_listener(listener)  # type: ignore[arg-type]


@check(AREA, "a candidate's id belongs to one", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("service")
    kit.first.election(name).nominate("a")
    with raises(IdConflict, "the same id elsewhere"):
        kit.second.election(name).nominate("a")


@check(AREA, "the epoch grows from leader to leader")
def _(kit: Kit) -> None:
    election, epochs = kit.first.election(kit.name("service")), []
    for id in ("a", "b", "a"):
        election.nominate(id)
        lead = election.lead(id)
        equal(lead is not None, True, f"{id} leads")
        assert lead is not None
        leader = election.leader()
        equal(leader.epoch if leader else None, lead.epoch, "one epoch for leader() and lead()")
        epochs.append(lead.epoch)
        election.resign(id)
        equal(lead.held(), False, "held after resign")
    equal(epochs, sorted(set(epochs)), "epochs")


@check(AREA, "a listener hears of every leader, and of none", parties=2)
def _(kit: Kit) -> None:
    name, told = kit.name("service"), Told()
    kit.second.election(name).add_listener(told)
    election = kit.first.election(name)
    election.nominate("a", "data")
    told.until(lambda change: change.id == "a" and change.leader.data == b"data", "the leader")
    election.resign("a")
    told.until(lambda change: change.id is None, "no leader")
    equal({change.service for change in told.changes}, {name}, "service in the change")


@check(AREA, "a listener that throws or is slow stops no other")
def _(kit: Kit) -> None:
    election, told, may_go_on = kit.first.election(kit.name("service")), Told(), threading.Event()

    def throws(change: Any) -> None:
        raise RuntimeError("a listener that throws")

    def is_slow(change: Any) -> None:
        may_go_on.wait(60)

    for listener in (throws, is_slow, told):
        election.add_listener(listener)
    try:
        election.nominate("a")
        election.resign("a")
        told.until(lambda change: change.id is None, "no leader")
    finally:
        may_go_on.set()


@check(AREA, "on_elected is called when a vacancy makes one leader", parties=2)
def _(kit: Kit) -> None:
    name, elected = kit.name("service"), Told()
    kit.first.election(name).nominate("a")
    kit.second.election(name).nominate("b", on_elected=elected)
    equal(elected.changes, [], "calls while another leads")
    kit.first.election(name).resign("a")
    lead = elected.until(lambda lead: lead.id == "b", "the lead")
    equal(lead.held(), True, "held")


@check(AREA, "terms gives the lead, and leaving the loop resigns")
def _(kit: Kit) -> None:
    election = kit.first.election(kit.name("service"))
    terms = election.terms("a", "data")
    lead = next(terms)
    equal((lead.id, lead.data, lead.held()), ("a", b"data", True), "lead")
    terms.close()  # type: ignore[attr-defined]
    eventually(lambda: election.get_leader() is None, "resigned")


@check(AREA, "terms ends when the candidate resigns", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("service")
    ids: list[str] = []
    kit.second.election(name).nominate("b")
    election = kit.first.election(name)

    def run() -> None:
        for lead in election.terms("a"):
            ids.append(lead.id)

    thread = threading.Thread(target=run)
    thread.start()
    kit.second.election(name).resign("b")
    eventually(lambda: ids == ["a"], "elected")
    election.resign("a")
    thread.join(20)
    equal((thread.is_alive(), ids), (False, ["a"]), "the loop")


@check(AREA, "elections of different services do not touch each other")
def _(kit: Kit) -> None:
    elections = [kit.first.election(kit.name("service")) for _ in range(2)]
    equal([election.nominate("a") for election in elections], [True, True], "both lead")
    elections[0].resign("a")
    equal([election.get_leader() for election in elections], [None, "a"], "leaders")


@check(AREA, "a write with the fence of a lead is refused once it was resigned", needs="fencing")
def _(kit: Kit) -> None:
    election, storage, key = kit.first.election(kit.name("service")), kit.first.storage, kit.name("key")
    election.nominate("a")
    lead = election.lead("a")
    assert lead is not None
    storage.put(key, "1", fence=lead)
    storage.update(key, "2", fence=lead.fence)
    election.resign("a")
    with raises(Fenced, "a late write"):
        storage.update(key, "3", fence=lead)
    stored = storage.get(key)
    equal(stored.data if stored else None, b"2", "what is stored")


@check(AREA, "a fence is refused in plain words where nothing checks it", lacks="fencing")
def _(kit: Kit) -> None:
    election = kit.first.election(kit.name("service"))
    election.nominate("a")
    lead = election.lead("a")
    assert lead is not None
    with raises(Unsupported, "fence"):
        _ = lead.fence


@check(AREA, "close resigns, ends the instance, and may be called twice", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("service")
    election = kit.first.election(name)
    election.nominate("a")
    election.close()
    election.close()
    eventually(lambda: kit.second.election(name).leader() is None, "nobody leads")
    with raises(NodeClosed, "a call after close"):
        election.nominate("a")
