"""Worker groups (KIP-795): one leader a generation, assignments, and fences that the store checks with the write.

A back end that declares group_coordination has `groups` and `lease`, with the verbs of raftmeta.Node.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from raftmeta import Fenced, GroupRefused, RaftmetaError
from raftmeta.conformance.kit import CheckFailed, Kit, Party, check, equal, eventually, raises

AREA = "coordination"
NEEDS = "group_coordination"
WAIT_S = 30.0
SESSION_S = 30.0  # longer than any check
SHORT_SESSION_S = 2.0
ILLEGAL_GENERATION, INCONSISTENT, UNKNOWN_MEMBER, REBALANCES, FENCED_INSTANCE = 22, 23, 25, 27, 82  # codes of Kafka


class _Worker:
    """A member of a group, with a lease of its own. Its joins and syncs wait on another thread."""

    def __init__(self, backend: Any, group: str, pool: ThreadPoolExecutor, *, instance: str = "") -> None:
        self.groups = backend.groups
        self.group = group
        self.storage = backend.storage
        self.instance = instance
        self.id = ""
        self.joined: Any = None
        self.synced: Any = None
        self._lease = backend.lease(SESSION_S)
        self._pool = pool

    def join(self, **options: Any) -> Future[Any]:
        asked = {"protocols": {"any": b"words"}, "lease": self._lease, "member_id": self.id, "initial_delay_s": 0}
        return self._pool.submit(self._join, asked | {"instance": self.instance, "timeout_s": WAIT_S} | options)

    def _join(self, asked: dict[str, Any]) -> Any:
        self.joined = self.groups.join(self.group, asked.pop("protocols"), **asked)
        self.id = self.joined.member_id
        return self.joined

    def sync(self, assignments: dict[str, bytes] | None = None) -> Any:
        self.synced = self.groups.sync(
            self.group, self.joined.generation, self.id, assignments, instance=self.instance, timeout_s=WAIT_S
        )
        return self.synced

    def beat(self) -> int:
        """The code of a heartbeat; 0: the generation goes on."""
        return _code(lambda: self.groups.heartbeat(self.group, self.joined.generation, self.id, instance=self.instance))

    def leave(self) -> None:
        self.groups.leave(self.group, [self.id])


def _code(ask: Callable[[], Any]) -> int:
    """The code by which a request is refused; 0: it is not."""
    try:
        ask()
    except GroupRefused as refused:
        return refused.code
    return 0


def _has_groups(backend: Any) -> bool:
    """Whether the store serves groups yet: a young cluster has to agree that all its nodes can."""
    try:
        return _code(lambda: backend.groups.delete("conformance/nobody")) != 0
    except RaftmetaError:
        return False


@contextmanager
def _workers(kit: Kit, *instances: str) -> Iterator[list[_Worker]]:
    """Workers of one new group, by turns on each back end."""
    group = kit.name("workers")
    with ThreadPoolExecutor(len(instances)) as pool:
        made = []
        for number, instance in enumerate(instances):
            backend: Any = kit.backends[number % len(kit.backends)]
            eventually(lambda backend=backend: _has_groups(backend), "worker groups are served", timeout_s=WAIT_S)  # type: ignore[misc]
            made.append(_Worker(backend, group, pool, instance=instance))
        yield made


def _share(members: list[_Worker]) -> None:
    """All join the next generation, and its leader assigns to each member its id."""
    waiting = [member.join() for member in members]
    for one in waiting:
        one.result(WAIT_S)
    leader = next(member for member in members if member.joined.is_leader)
    leader.sync({member.id: member.id.encode() for member in members})
    for member in members:
        member.sync()


def _together(first: _Worker, second: _Worker) -> None:
    """Both in one generation: the first one is alone until the second one comes, and then joins again."""
    _share([first])
    coming = second.join()
    eventually(lambda: first.beat() == REBALANCES, "a heartbeat tells that another one joins")
    first.join().result(WAIT_S)
    coming.result(WAIT_S)
    leader = first if first.joined.is_leader else second
    leader.sync({first.id: b"a", second.id: b"b"})
    first.sync()
    second.sync()


@check(AREA, "a member that is alone leads, and gets the assignment that it makes", needs=NEEDS)
def _(kit: Kit) -> None:
    with _workers(kit, "") as (member,):
        joined = member.join().result(WAIT_S)
        equal((joined.is_leader, joined.protocol), (True, "any"), "it leads, and the protocol is its own")
        equal([(one.member_id, one.said) for one in joined.members], [(member.id, b"words")], "members for the leader")
        equal(member.sync({member.id: b"all"}).assignment, b"all", "its assignment")
        equal(member.beat(), 0, "the heartbeat of a stable member")
        equal(member.groups.describe(member.group).state, "Stable", "state")


@check(AREA, "members of one generation know one leader, and each gets its own assignment", needs=NEEDS, parties=2)
def _(kit: Kit) -> None:
    with _workers(kit, "", "") as (first, second):
        _together(first, second)
        told = {(one.joined.generation, one.joined.leader_id) for one in (first, second)}
        equal(len(told), 1, f"generations and leaders that were told ({told})")
        equal(sorted(bool(one.joined.members) for one in (first, second)), [False, True], "only the leader gets all")
        equal((first.synced.assignment, second.synced.assignment), (b"a", b"b"), "assignments")


@check(AREA, "a follower waits until the leader has made the assignments", needs=NEEDS, parties=2)
def _(kit: Kit) -> None:
    with _workers(kit, "", "") as (first, second), ThreadPoolExecutor(1) as pool:
        _share([first])
        coming = second.join()
        eventually(lambda: first.beat() == REBALANCES, "a heartbeat tells that another one joins")
        first.join().result(WAIT_S)
        coming.result(WAIT_S)
        leader, follower = (first, second) if first.joined.is_leader else (second, first)
        waiting = pool.submit(follower.sync)
        equal(leader.groups.describe(leader.group).state, "Completing", "the state before the leader's sync")
        equal(waiting.done(), False, "the follower was answered before the leader's sync")
        leader.sync({follower.id: b"yours"})
        equal(waiting.result(WAIT_S).assignment, b"yours", "what the follower gets")
        equal(leader.synced.assignment, b"", "the assignment of a member that was left out")


@check(AREA, "a member that leaves makes a new generation, and its requests are refused", needs=NEEDS, parties=2)
def _(kit: Kit) -> None:
    with _workers(kit, "", "") as (first, second):
        _together(first, second)
        before = first.joined.generation
        second.leave()
        equal(second.beat(), UNKNOWN_MEMBER, "the heartbeat of one that left")
        eventually(lambda: first.beat() == REBALANCES, "a heartbeat tells that one went")
        _share([first])
        equal(first.joined.generation > before, True, "the generation grew")
        equal([one.member_id for one in first.joined.members], [first.id], "who is left")


@check(AREA, "requests of an old generation, or with other protocols, change nothing", needs=NEEDS)
def _(kit: Kit) -> None:
    with _workers(kit, "", "") as (member, stranger):
        _share([member])
        groups, generation = member.groups, member.joined.generation
        old = _code(lambda: groups.sync(member.group, generation - 1, member.id, {member.id: b"old"}, timeout_s=WAIT_S))
        equal(old, ILLEGAL_GENERATION, "a sync of the generation before")
        nobody = _code(lambda: groups.heartbeat(member.group, generation, "nobody"))
        equal(nobody, UNKNOWN_MEMBER, "a heartbeat of nobody")
        with raises(GroupRefused, "a join with a protocol that no member has"):
            stranger.join(protocols={"other": b""}).result(WAIT_S)
        equal((member.beat(), member.sync().assignment), (0, member.id.encode()), "generation and assignment")


@check(AREA, "a write with the fence of an assignment is refused once others may own it", needs=NEEDS, parties=2)
def _(kit: Kit) -> None:
    key = kit.name("key")
    kit.first.storage.put(key, "before")
    with _workers(kit, "", "") as (first, second):
        _together(first, second)
        fences = [first.joined.fence, first.synced.fence]
        for number, fence in enumerate(fences):
            first.storage.update(key, str(number), fence=fence)
        second.leave()
        eventually(lambda: first.beat() == REBALANCES, "a heartbeat tells that one went")
        _share([first])
        for fence in (*fences, second.synced.fence):
            with raises(Fenced, "a write of the generation before"):
                first.storage.update(key, "late", fence=fence)
        equal(first.storage.get(key).data, b"1", "what is stored")
        first.storage.update(key, "new", fence=first.synced.fence)


@check(AREA, "a static member that comes back keeps its assignment, and fences its old life", needs=NEEDS, parties=2)
def _(kit: Kit) -> None:
    key = kit.name("key")
    kit.first.storage.put(key, "before")
    with _workers(kit, "static", "static") as (old, new):
        _share([old])
        new.join().result(WAIT_S)
        equal(new.joined.generation, old.joined.generation, "the generation goes on")
        equal(new.sync().assignment, old.synced.assignment, "the assignment stays")
        equal(old.beat(), FENCED_INSTANCE, "the heartbeat of the old life")
        with raises(Fenced, "a write of the old life"):
            old.storage.update(key, "late", fence=old.synced.fence)
        new.storage.update(key, "new", fence=new.synced.fence)


@check(AREA, "a killed member's share goes to others, after its session at the latest", needs=NEEDS, processes=True)
def _(kit: Kit) -> None:
    _lose(kit, Party.kill)


@check(AREA, "a frozen member's share goes to others after its session, and not before", needs=NEEDS, processes=True)
def _(kit: Kit) -> None:
    took_s = _lose(kit, Party.freeze)
    if took_s < SHORT_SESSION_S / 2:
        raise CheckFailed(f"the member went {took_s:.2f} s after it was frozen; its session is {SHORT_SESSION_S:g} s")


def _lose(kit: Kit, strike: Callable[[Party], None]) -> float:
    """A member has a share, and something strikes it. Returns the seconds until it is gone."""
    with _workers(kit, "") as (member,):
        _share([member])
        party = kit.party(kit.name("owner"))
        party.ask("work_begin", member.group, SHORT_SESSION_S)
        eventually(lambda: member.beat() == REBALANCES, "a heartbeat tells that another one joins")
        member.join().result(WAIT_S)
        other = party.ask("work_joined")
        if member.joined.is_leader:
            member.sync({member.id: b"", other["id"]: b"share"})
        else:
            party.ask("work_assign", {other["id"]: "share"})
        member.sync()
        equal(party.ask("work_synced"), "share", "what the other process gets")
        strike(party)
        struck_s = time.monotonic()
        eventually(lambda: member.beat() == REBALANCES, "it goes", timeout_s=10 * SHORT_SESSION_S + WAIT_S)
        took_s = time.monotonic() - struck_s
        _share([member])
        equal(member.synced.assignment, member.id.encode(), "the share of the one that is left")
        return took_s
