"""KIP-30 Group Membership, line by line."""

from __future__ import annotations

import threading
from typing import Any

from raftmeta import IdConflict, NodeClosed
from raftmeta.conformance.kit import Kit, Told, check, equal, eventually, raises

AREA = "membership"
ODD_NAMES = ("a/b", "ä ö", "'; DROP TABLE members; --", "%s", "..", "x" * 200)


@check(AREA, "one instance is for one group and never changes it")
def _(kit: Kit) -> None:
    name = kit.name("group")
    equal(kit.first.group(name).group, name, "group")
    kit.first.group(name).join("a")
    equal(kit.first.group(name).membership_list(), frozenset({"a"}), "the same group for the same name")
    kit.first.group(name).leave("a")
    equal(kit.first.group(name).membership_list(), frozenset(), "a member leaves, whoever asked for the group")


@check(AREA, "join makes a member that others see with its data", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("group")
    kit.first.group(name).join("a", b"here \x00\xff")
    observer = kit.second.group(name)
    eventually(lambda: observer.membership() == {"a": b"here \x00\xff"}, "the member is seen elsewhere")
    equal(observer.membership_list(), frozenset({"a"}), "membership_list")
    equal(observer.members()["a"].id, "a", "members")


@check(AREA, "join throws on an id that somebody else has", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("group")
    kit.first.group(name).join("a", "first")
    with raises(IdConflict, "join by another"):
        kit.second.group(name).join("a", "second")
    equal(kit.first.group(name).membership(), {"a": b"first"}, "the first one stays")


@check(AREA, "join throws on an id that this instance has already")
def _(kit: Kit) -> None:
    group = kit.first.group(kit.name("group"))
    group.join("a")
    with raises(IdConflict, "join once more"):
        group.join("a")


@check(AREA, "several ids may join from one place, in several groups")
def _(kit: Kit) -> None:
    names = [kit.name("group") for _ in range(2)]
    for name in names:
        for id in ("a", "b"):
            kit.first.group(name).join(id)
    for name in names:
        equal(kit.first.group(name).membership_list(), frozenset({"a", "b"}), f"members of {name}")


@check(AREA, "what is joined is held until it is left")
def _(kit: Kit) -> None:
    group = kit.first.group(kit.name("group"))
    member = group.join("a")
    equal((member.held(), member.remaining_s() > 0, member.id), (True, True, "a"), "held")
    group.leave("a")
    equal((member.held(), member.wait_lost(5)), (False, True), "held after leave")
    equal(group.membership_list(), frozenset(), "members after leave")


@check(AREA, "leave is idempotent and ignores an unknown id")
def _(kit: Kit) -> None:
    group = kit.first.group(kit.name("group"))
    group.leave("nobody")
    group.join("a")
    group.leave("a")
    group.leave("a")
    equal(group.membership_list(), frozenset(), "members")


@check(AREA, "leave does not remove somebody else's member", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("group")
    kit.first.group(name).join("a")
    kit.second.group(name).leave("a")
    equal(kit.first.group(name).membership_list(), frozenset({"a"}), "members")


@check(AREA, "an id that was left may be joined again, with a higher epoch")
def _(kit: Kit) -> None:
    group = kit.first.group(kit.name("group"))
    epochs = []
    for _ in range(3):
        epochs.append(group.join("a").epoch)
        group.leave("a")
    equal(epochs, sorted(set(epochs)), "epochs grow")


@check(AREA, "a listener gets the new full set after each change, for good", parties=2)
def _(kit: Kit) -> None:
    name, told = kit.name("group"), Told()
    kit.first.group(name).add_listener(told)
    members = kit.second.group(name)
    members.join("a", "1")
    told.until(lambda change: change.ids == {"a"}, "the first member")
    members.join("b", "2")
    told.until(lambda change: change.ids == {"a", "b"}, "both members")
    members.leave("a")
    told.until(lambda change: change.ids == {"b"}, "the one that is left")
    members.leave("b")
    told.until(lambda change: not change.ids, "nobody")
    equal({change.group for change in told.changes}, {name}, "group in the change")


@check(AREA, "listeners of one group hear nothing of another")
def _(kit: Kit) -> None:
    quiet, loud, told, heard = kit.name("group"), kit.name("group"), Told(), Told()
    kit.first.group(quiet).add_listener(told)
    kit.first.group(loud).add_listener(heard)
    kit.first.group(loud).join("a")
    heard.until(lambda change: change.ids == {"a"}, "the change of its own group")
    equal(told.changes, [], "changes of a quiet group")


@check(AREA, "a listener that throws or is slow stops no other")
def _(kit: Kit) -> None:
    group, told, may_go_on = kit.first.group(kit.name("group")), Told(), threading.Event()

    def throws(change: Any) -> None:
        raise RuntimeError("a listener that throws")

    def is_slow(change: Any) -> None:
        may_go_on.wait(60)

    for listener in (throws, is_slow, told):
        group.add_listener(listener)
    try:
        for id in ("a", "b", "c"):
            group.join(id)
        told.until(lambda change: change.ids == {"a", "b", "c"}, "the last set")
    finally:
        may_go_on.set()


@check(AREA, "a listener may remove itself inside its own call")
def _(kit: Kit) -> None:
    group, told, calls = kit.first.group(kit.name("group")), Told(), []

    def once(change: Any) -> None:
        calls.append(change)
        group.remove_listener(once)

    group.add_listener(once)
    group.add_listener(told)
    for id in ("a", "b"):
        group.join(id)
    told.until(lambda change: change.ids == {"a", "b"}, "the last set")
    equal(len(calls), 1, "calls of the listener that removed itself")


@check(AREA, "adding a listener twice calls it once, and removing an unknown one does nothing")
def _(kit: Kit) -> None:
    group, told = kit.first.group(kit.name("group")), Told()
    group.remove_listener(told)
    group.add_listener(told)
    group.add_listener(told)
    group.join("a")
    group.leave("a")
    told.until(lambda change: not change.ids, "the empty set")
    revisions = [change.revision for change in told.changes]
    equal(revisions, sorted(set(revisions)), "each change told once and in order")


@check(AREA, "names may be any text")
def _(kit: Kit) -> None:
    for odd in ODD_NAMES:
        group = kit.first.group(kit.name(odd))
        group.join(odd, odd)
        equal(group.membership(), {odd: odd.encode()}, f"the member {odd!r}")


@check(AREA, "names may be 255 characters long in any script")
def _(kit: Kit) -> None:
    for letter in ("a", "ж", "語", "/"):
        name, id = kit.name(letter).rjust(255, letter), (letter * 250).ljust(255, "1")
        group, told = kit.first.group(name), Told()
        group.add_listener(told)
        group.join(id, "data")
        equal(group.membership(), {id: b"data"}, f"the members of a group named with {letter!r}")
        equal(group.membership_list(), frozenset({id}), "their ids")
        equal(told.until(lambda change: bool(change.ids), "the member").ids, {id}, "the ids that were told")
        group.leave(id)
        told.until(lambda change: not change.ids, "nobody")
        election = kit.first.election(name)
        election.nominate(id)
        equal(election.get_leader(), id, f"the leader of a service named with {letter!r}")
        election.resign(id)


@check(AREA, "close leaves, ends the instance, and may be called twice", parties=2)
def _(kit: Kit) -> None:
    name = kit.name("group")
    group = kit.first.group(name)
    member = group.join("a")
    group.close()
    group.close()
    equal(member.held(), False, "held after close")
    eventually(lambda: not kit.second.group(name).membership_list(), "the member is gone")
    with raises(NodeClosed, "a call after close"):
        group.join("b")
