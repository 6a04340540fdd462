"""KIP-30 Group Membership, contract by contract (docs/kip30.md)."""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta import faults
from raftmeta.interfaces import GroupChange, Owner
from raftmeta.recipes import listeners
from tests.node.nodes import make_nodes, running
from tests.processes.waiting import wait_until
from tests.recipes.faces import Face

Nodes = dict[str, raftmeta.Node]
MakeFace = Callable[[raftmeta.Node], Face]


def next_of(told: queue.Queue[Any]) -> Any:
    return told.get(timeout=10)


def crash(node: raftmeta.Node) -> None:
    """End it as kill -9 does, as far as the cluster sees: nothing is given back."""
    faults.abort(node)


def restarted(node: raftmeta.Node) -> raftmeta.Node:
    """The next life of a node over the same folder."""
    identity = node.identity
    peers = {name: str(address) for name, address in identity.peers.items()}
    again = raftmeta.Node(node.name, peers=peers, data_dir=identity.data_dir, config=node.config)
    again.start()
    again.ready(30)
    return again


def test_members_join_with_data_and_are_seen_by_who_did_not_join(nodes: Nodes, face: MakeFace, name: str) -> None:
    """KIP-30 join, membershipList, membership; observing needs no joining."""
    first, second, watcher = (face(nodes[one]).store.group(name) for one in "abc")
    joined = first.join("a", "host-a:9092")
    assert joined.held()
    assert (joined.id, joined.data) == ("a", b"host-a:9092")
    second.join("b/1", b"\x00\xff")
    assert watcher.group == name
    assert watcher.membership_list() == {"a", "b/1"}
    assert watcher.membership() == {"a": b"host-a:9092", "b/1": b"\x00\xff"}
    assert watcher.members()["a"].epoch == joined.epoch < watcher.members()["b/1"].epoch
    first.leave("a")
    assert watcher.membership_list() == {"b/1"}
    assert not joined.held()
    second.leave("b/1")


def test_an_id_conflict_is_refused_and_leaves_nothing_behind(nodes: Nodes, face: MakeFace, name: str) -> None:
    """Another owner, and the same one in the same life; the one who was there first stays."""
    first, second = face(nodes["a"]).store.group(name), face(nodes["b"]).store.group(name)
    held = first.join("x", b"first")
    leases = nodes["c"].metrics()["leases"]
    with pytest.raises(raftmeta.IdConflict):
        second.join("x", b"second")
    with pytest.raises(raftmeta.IdConflict):
        first.join("x", b"again")
    assert held.held()
    assert second.membership() == {"x": b"first"}
    wait_until(lambda: nodes["c"].metrics()["leases"] <= leases, timeout_s=20, what="the refused lease to be given up")
    first.leave("x")
    assert second.join("x", b"second").epoch > held.epoch
    second.leave("x")


def test_leave_is_idempotent_and_ignores_the_unknown(nodes: Nodes, face: MakeFace, name: str) -> None:
    first, second = face(nodes["a"]).store.group(name), face(nodes["b"]).store.group(name)
    first.leave("nobody")
    first.join("x")
    second.leave("x")  # not its own
    assert second.membership_list() == {"x"}
    first.leave("x")
    first.leave("x")
    assert second.membership_list() == frozenset()


def test_groups_are_apart(nodes: Nodes, face: MakeFace, name: str) -> None:
    """A name is part of the key and cannot reach into another's; listeners hear their own group only."""
    store = face(nodes["a"]).store
    one, other = store.group(name), store.group(f"{name}/b")
    told: queue.Queue[GroupChange] = queue.Queue()
    one.add_listener(told.put)
    other.join("c")
    one.join("b/c")
    assert next_of(told).ids == {"b/c"}
    assert one.membership_list() == {"b/c"}
    assert other.membership_list() == {"c"}
    one.leave("b/c")
    other.leave("c")


def test_listeners_get_the_new_full_set_of_every_revision_in_order(nodes: Nodes, face: MakeFace, name: str) -> None:
    members, watcher = face(nodes["a"]).store.group(name), face(nodes["b"]).store.group(name)
    told: queue.Queue[GroupChange] = queue.Queue()
    watcher.add_listener(told.put)
    watcher.add_listener(told.put)  # twice is once
    members.join("1", b"one")
    members.join("2", b"two")
    members.leave("1")
    changes = [next_of(told) for _ in range(3)]
    assert [sorted(change.ids) for change in changes] == [["1"], ["1", "2"], ["2"]]
    assert changes[1].members["2"].data == b"two"
    assert [change.coalesced for change in changes] == [False] * 3
    assert sorted({change.revision for change in changes}) == [change.revision for change in changes]
    watcher.remove_listener(told.put)
    members.leave("2")
    marks: queue.Queue[GroupChange] = queue.Queue()
    watcher.add_listener(marks.put)
    members.join("3")
    while "3" not in next_of(marks).ids:
        pass  # that the second one left may be told still
    assert told.empty()
    members.leave("3")
    watcher.remove_listener(marks.put)


def test_a_listener_may_remove_itself_in_its_own_call(nodes: Nodes, name: str) -> None:
    group, told = nodes["a"].group(name), queue.Queue[GroupChange]()

    def once(change: GroupChange) -> None:
        group.remove_listener(once)
        told.put(change)

    others: queue.Queue[GroupChange] = queue.Queue()
    group.add_listener(once)
    group.add_listener(others.put)
    for id in "123":
        group.join(id)
    assert [len(next_of(others).ids) for _ in range(3)] == [1, 2, 3]
    assert len(next_of(told).ids) == 1
    assert told.empty()
    group.close()


def test_a_slow_and_a_throwing_listener_stop_nobody_else(nodes: Nodes, face: MakeFace, name: str) -> None:
    """One is stuck, one throws each time; the third is told of every change, and both go on afterwards."""
    group = face(nodes["a"]).store.group(name)
    go_on = threading.Event()
    stuck: queue.Queue[GroupChange] = queue.Queue()
    told: queue.Queue[GroupChange] = queue.Queue()

    async def slow_task(change: GroupChange) -> None:
        await asyncio.get_running_loop().run_in_executor(None, go_on.wait)
        stuck.put(change)

    def slow(change: GroupChange) -> None:
        go_on.wait()
        stuck.put(change)

    def throwing(change: GroupChange) -> None:
        raise ValueError(f"on purpose {change.revision}")

    is_blocking = isinstance(group, raftmeta.recipes.Group)
    for listener in (slow if is_blocking else slow_task, throwing, told.put):
        group.add_listener(listener)
    for id in "123":
        group.join(id)
    assert [len(next_of(told).ids) for _ in range(3)] == [1, 2, 3]
    assert stuck.empty()
    go_on.set()
    assert [len(next_of(stuck).ids) for _ in range(3)] == [1, 2, 3]
    wait_until(lambda: group.listener_failures == 3, timeout_s=20, what="three failures to be counted")
    group.close()


def test_a_listener_that_is_far_behind_gets_one_coalesced_call(
    nodes: Nodes, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It carries the newest state and says that revisions were left out."""
    monkeypatch.setattr(listeners, "TUNE_PENDING_MAX", 2)
    group, go_on = nodes["a"].group(name), threading.Event()
    told: queue.Queue[GroupChange] = queue.Queue()
    every: list[GroupChange] = []

    def slow(change: GroupChange) -> None:
        told.put(change)
        go_on.wait()

    group.add_listener(slow)
    group.add_listener(every.append)
    group.join("0")
    assert next_of(told).ids == {"0"}  # and there it is stuck
    for id in "12345":
        group.join(id)
    wait_until(lambda: every and len(every[-1].ids) == 6, timeout_s=20, what="the last change at the quick listener")
    go_on.set()
    changes = [next_of(told)]
    while len(changes[-1].ids) < 6:
        changes.append(next_of(told))
    assert changes[0].coalesced
    assert len(changes) < 5
    group.close()


def test_a_member_cut_off_is_told_before_others_see_it_go(tmp_path: Path, face: MakeFace) -> None:
    """on_lost comes by its own clock while nobody can be reached; with the majority back it joins again."""
    lost: queue.Queue[Any] = queue.Queue()
    with running(tmp_path) as nodes:
        one = face(nodes["a"])
        group = one.store.group("g", ttl_s=0.6)
        held = group.join("a", on_lost=lost.put)
        assert not held.wait_lost(0.01)
        for name in "bc":
            crash(nodes[name])
        assert held == next_of(lost)
        assert not held.held()
        assert held.remaining_s() == 0
        assert held.wait_lost(0)
        again = [restarted(nodes[name]) for name in "bc"]
        wait_until(lambda: nodes["a"].status().leader, timeout_s=30, what="a leader")
        joined = group.join("a", on_lost=lost.put)
        assert joined.epoch > held.epoch
        with pytest.raises(raftmeta.Fenced):
            again[0].put("k", b"late", fence=held.fence)
        assert again[0].group("g").membership_list() == {"a"}
        one.close()
        for node in again:
            node.close(transfer=False)


def test_an_owner_rejoins_after_its_crash_at_once_and_fences_its_old_life(tmp_path: Path) -> None:
    """The old lease has an hour left; the place is taken over, others conflict still, and the old fence is refused."""
    with running(tmp_path, leases_end_with_process=False) as nodes:
        old = nodes["a"].group("g", ttl_s=3600).join("x", b"old")
        crash(nodes["a"])
        other = nodes["b"].group("g", ttl_s=3600)
        with pytest.raises(raftmeta.IdConflict):
            other.join("x", b"other")
        told: queue.Queue[GroupChange] = queue.Queue()
        other.add_listener(told.put)
        again = restarted(nodes["a"])
        new = again.group("g", ttl_s=3600).join("x", b"new")
        assert new.epoch > old.epoch
        change = next_of(told)
        assert {id: member.data for id, member in change.members.items()} == {"x": b"new"}
        nodes["b"].put("k", b"new", fence=new)
        with pytest.raises(raftmeta.Fenced):
            nodes["b"].put("k", b"old", fence=old)
        with pytest.raises(raftmeta.IdConflict):
            other.join("x", b"other")
        again.close(transfer=False)


def test_a_place_taken_over_is_lost_to_its_old_holder(nodes: Nodes, name: str) -> None:
    """Seen in the keys, long before the lease would tell: the key is another's."""
    lost: queue.Queue[Any] = queue.Queue()
    group = nodes["a"].group(name)
    held = group.join("x", on_lost=lost.put)
    nodes["b"].delete(held.fence.key)  # as an operator does who throws a member out
    assert next_of(lost) is held
    assert not held.held()
    assert group.join("x").epoch > held.epoch
    group.close()


def test_a_close_leaves_and_ends_everything(nodes: Nodes, face: MakeFace, name: str) -> None:
    one = face(nodes["a"])
    group = one.recipe_group = one.store.group(name)
    told: queue.Queue[GroupChange] = queue.Queue()
    held = group.join("x")
    group.add_listener(told.put)
    group.close()
    group.close()
    assert not held.held()
    assert nodes["b"].group(name).membership_list() == frozenset()
    assert told.empty()
    for call in (group.membership, group.membership_list, lambda: group.join("y"), lambda: group.leave("x")):
        with pytest.raises(raftmeta.NodeClosed):
            call()


def test_a_group_is_set_up_once_before_its_use(nodes: Nodes, name: str) -> None:
    """KIP-30 init(context): the context is the store."""
    group = raftmeta.recipes.Group(name, ttl_s=5)
    with pytest.raises(raftmeta.NotReady):
        group.membership()
    group.init(nodes["a"])
    with pytest.raises(raftmeta.InvalidArgument):
        group.init(nodes["a"])
    assert group.membership() == {}
    group.close()


def test_names_must_be_text(nodes: Nodes) -> None:
    with pytest.raises(raftmeta.InvalidArgument):
        nodes["a"].group("")
    with pytest.raises(raftmeta.InvalidArgument):
        nodes["a"].group("g").join("")
    with pytest.raises(raftmeta.InvalidArgument):
        nodes["a"].group("g").join("x", 5)  # type: ignore[arg-type]
    with pytest.raises(raftmeta.InvalidArgument):
        nodes["a"].group("g", ttl_s=77)  # in use with another


def test_a_node_that_closes_leaves_its_groups(tmp_path: Path) -> None:
    with running(tmp_path) as nodes:
        nodes["a"].group("g", ttl_s=3600).join("a")
        nodes["a"].close()
        assert nodes["b"].group("g").membership_list() == frozenset()
        with pytest.raises(raftmeta.NodeClosed):
            nodes["a"].group("g")


def test_a_close_without_a_majority_ends_soon(tmp_path: Path) -> None:
    """Nothing can be given back; the time is for all of it together, of several groups too."""
    with running(tmp_path) as nodes:
        for id in (f"{number}" for number in range(20)):
            nodes["a"].group("g").join(id)
            nodes["a"].group(id).join("x")
        for name in "bc":
            crash(nodes[name])
        wait_until(lambda: not nodes["a"].status().leader, timeout_s=30, what="the last member to notice")
        begun = time.monotonic()
        nodes["a"].close()
        assert time.monotonic() - begun < 10


def test_what_stands_under_a_reserved_key_by_mistake_breaks_nobody(nodes: Nodes, name: str) -> None:
    """Bytes that no recipe wrote are shown as data, and are nobody's place to take over."""
    group = nodes["a"].group(name)
    member = group.join("x")
    key = member.fence.key.rsplit("/", 1)[0] + "/junk"  # type: ignore[union-attr]
    nodes["b"].put(key, b"\xc1 not msgpack")
    assert group.membership()["junk"] == b"\xc1 not msgpack"
    with pytest.raises(raftmeta.IdConflict):
        group.join("junk")
    nodes["b"].delete(key)
    group.close()


def test_nodes_that_were_never_started_say_so(tmp_path: Path) -> None:
    node = make_nodes(tmp_path, names="a")["a"]
    with pytest.raises(raftmeta.NodeClosed):
        node.group("g").join("a")


class CancelledAt:
    """A store whose caller is cancelled in the middle of its n-th call: the command is on its way, nobody waits."""

    def __init__(self, store: raftmeta.aio.Node, at: int) -> None:
        self.store = store
        self.left = at

    def __getattr__(self, word: str) -> Any:
        verb = getattr(self.store, word)
        if word not in ("lease", "txn", "range"):
            return verb

        async def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                asyncio.current_task().cancel()  # type: ignore[union-attr]
            return await verb(*arguments, **options)

        return call


@pytest.mark.parametrize("at", range(1, 4))
def test_a_join_that_is_cancelled_leaves_nothing_behind(nodes: Nodes, name: str, at: int) -> None:
    """In each of its calls; afterwards another may join, and no lease is kept alive for nobody."""

    async def main() -> None:
        async with nodes["a"].aio() as face:
            group = raftmeta.recipes.aio.Group(name, ttl_s=0.5)
            await group.init(CancelledAt(face, at))
            with pytest.raises(asyncio.CancelledError):
                await asyncio.get_running_loop().create_task(group.join("x"))
            other = face.group(name)
            told: asyncio.Queue[GroupChange] = asyncio.Queue()
            await other.add_listener(told.put_nowait)
            while await other.membership_list():
                await asyncio.wait_for(told.get(), 10)
            await group.close()

    leases = nodes["b"].metrics()["leases"]
    asyncio.run(main())
    wait_until(lambda: nodes["b"].metrics()["leases"] <= leases, timeout_s=30, what="every lease to be gone")


class Named:
    """A store with an owner of its own, as a client that gave itself a name."""

    def __init__(self, store: raftmeta.Node, owner: Owner | None) -> None:
        self.store = store
        if owner is not None:
            self.owner = owner

    def __getattr__(self, word: str) -> Any:
        if word == "owner":
            raise AttributeError(word)
        return getattr(self.store, word)


def group_of(store: object, name: str) -> raftmeta.recipes.Group:
    group = raftmeta.recipes.Group(name, ttl_s=60)
    group.init(store)  # type: ignore[arg-type]
    return group


def test_a_client_with_a_name_succeeds_its_earlier_life(nodes: Nodes, name: str) -> None:
    """Each life of a client has a random incarnation: the later one takes the place, whatever became of the first."""
    lost: queue.Queue[Any] = queue.Queue()
    lives = [group_of(Named(nodes["a"], Owner("worker", number, 0)), name) for number in (7, 5)]
    first = lives[0].join("x", b"1", on_lost=lost.put)
    second = lives[1].join("x", b"2")
    assert next_of(lost) is first
    assert not first.held()
    nodes["b"].put("k", b"2", fence=second)
    with pytest.raises(raftmeta.Fenced):
        nodes["b"].put("k", b"1", fence=first)
    for life in lives:
        life.close()


def test_a_client_without_a_name_succeeds_nobody(nodes: Nodes, name: str) -> None:
    lives = [group_of(Named(nodes["a"], None), name) for _ in range(2)]
    lives[0].join("x")
    with pytest.raises(raftmeta.IdConflict):
        lives[1].join("x")
    for life in lives:
        life.close()


@pytest.mark.parametrize(
    ("later", "is_later"),
    [
        (Owner("a", 1, 3), True),  # the next start over the same folder
        (Owner("a", 1, 2), False),  # this life
        (Owner("a", 1, 1), False),  # a late message of an earlier one
        (Owner("a", 9, 1), True),  # a wiped folder
        (Owner("b", 1, 3), False),
    ],
)
def test_which_life_succeeds_which(later: Owner, is_later: bool) -> None:
    assert later.succeeds(Owner("a", 1, 2)) is is_later
