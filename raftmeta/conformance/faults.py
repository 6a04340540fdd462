"""The promises of the four interfaces that hold when a process is killed or frozen."""

from __future__ import annotations

from raftmeta.conformance.kit import Kit, Told, check, equal, eventually

AREA = "faults"
GONE_S = 60.0  # a time to live and more, on a busy machine


@check(AREA, "a member that is killed leaves the group, and listeners hear of it", processes=True)
def _(kit: Kit) -> None:
    name, told = kit.name("group"), Told()
    group = kit.first.group(name)
    group.add_listener(told)
    party = kit.party()
    party.ask("join", name, "a")
    eventually(lambda: group.membership_list() == {"a"}, "joined")
    party.kill()
    eventually(lambda: not group.membership_list(), "gone", timeout_s=GONE_S)
    told.until(lambda change: not change.ids, "the empty set")


@check(AREA, "a leader that is killed is replaced by the next candidate, with a higher epoch", processes=True)
def _(kit: Kit) -> None:
    name = kit.name("service")
    election = kit.first.election(name)
    party = kit.party()
    equal(party.ask("nominate", name, "a"), True, "the first candidate leads")
    eventually(lambda: election.get_leader() == "a", "the leader is seen")
    before = election.leader()
    election.nominate("b")
    party.kill()
    eventually(lambda: election.lead("b") is not None, "the next one leads", timeout_s=GONE_S)
    after = election.leader()
    equal(bool(before and after and after.epoch > before.epoch), True, f"{after} after {before}")


@check(AREA, "an owner that comes back after its own crash joins at once", needs="immediate_rejoin", processes=True)
def _(kit: Kit) -> None:
    name, owner = kit.name("group"), kit.name("owner")
    first = kit.party(owner)
    epoch = first.ask("join", name, "a")
    first.kill()
    second = kit.party(owner)
    equal(second.ask("join", name, "a") > epoch, True, "the epoch of its second life")
    equal(second.ask("held", "a"), True, "held")


@check(AREA, "a frozen leader wakes up to a lead that it lost, and is fenced", needs="fencing", processes=True)
def _(kit: Kit) -> None:
    name, key = kit.name("service"), kit.name("key")
    election = kit.first.election(name)
    party = kit.party()
    equal(party.ask("nominate", name, "a"), True, "the first candidate leads")
    election.nominate("b")
    party.freeze()
    eventually(lambda: election.lead("b") is not None, "the next one leads", timeout_s=GONE_S)
    party.wake()
    equal(party.ask("fenced_put", "a", key), "Fenced", "its late write")
    equal(kit.first.storage.get(key), None, "what is stored")
    equal(party.ask("held", "a"), False, "held, as it thinks itself")
    eventually(lambda: "a" in party.ask("lost"), "on_lost")


@check(AREA, "a frozen leader does not think that it leads when it wakes up", needs="lost_in_time", processes=True)
def _(kit: Kit) -> None:
    name = kit.name("service")
    election = kit.first.election(name)
    party = kit.party()
    equal(party.ask("nominate", name, "a"), True, "the first candidate leads")
    election.nominate("b")
    party.freeze()
    eventually(lambda: election.lead("b") is not None, "the next one leads", timeout_s=GONE_S)
    party.wake()
    equal(party.ask("held", "a"), False, "held, at once")
