"""One principal's view of the cluster, looked at again and again: every node by itself, once a second.

All nodes of the URL are asked at one moment, each by a client of its own. One that does not answer delays the others by
GATHER_S at most, and is not asked again before it has. A look asks for the node's status and for one linearizable read,
and times both. The read asks for a key that does not exist, and writes nothing. `picture` puts the newest answers
together, and `samples` has what the plots show.

Answers are some milliseconds apart, in which a busy log grows. So a node's lag is counted from the commit that the
furthest node must have had when this one answered, by the rate of the last second.

`raftmeta/dashboard/causes` asks for flight recorders once for each change of the leader, by the same clients.

A node is away when it has not answered for AWAY_S and no node that answers is connected to it.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from raftmeta.aio import Client
from raftmeta.dashboard.causes import Causes
from raftmeta.dashboard.place import Place, Proof
from raftmeta.dashboard.reigns import Reigns
from raftmeta.errors import AuthenticationFailed, PermissionDenied, RaftmetaError
from raftmeta.results import MemberStatus, NodeStatus, ObserverStatus

__all__ = ["Watcher"]

LOOK_S = 1.0  # between two looks, and between two samples
GATHER_S = 0.3
ANSWER_S = 2.0
AWAY_S = 2.5
SAMPLES_MAX = 600
READ_KEY = "_raftmeta/dashboard/read"


@dataclass(slots=True)
class _Look:
    """The newest answer of one node. answered_s: on the monotonic clock, 0: never."""

    url: str
    client: Client
    status: NodeStatus | None = None
    answered_s: float = 0.0
    answer_ms: float = 0.0
    read_ms: float | None = None
    error: str = ""
    task: asyncio.Task[None] | None = None

    @property
    def fresh(self) -> NodeStatus | None:
        """The status, unless it is old."""
        return self.status if time.monotonic() - self.answered_s < AWAY_S else None


@dataclass(frozen=True, slots=True)
class _Totals:
    """Counters at the time of a sample. bytes: of each node."""

    time_s: float
    revision: int
    committed: int
    bytes: dict[str, int]


class Watcher:
    """client: of the whole cluster, for all that the principal asks. refused: why it may not look, or None."""

    def __init__(self, place: Place, proof: Proof, reigns: Reigns) -> None:
        self.client = place.client(proof)
        self.samples: deque[dict[str, Any]] = deque(maxlen=SAMPLES_MAX)
        self.refused: AuthenticationFailed | None = None
        self._is_anonymous = proof.is_nothing
        self._cluster = place.cluster
        self._reigns = reigns
        self._looks = [_Look(url, place.client(proof, url)) for url in place.nodes()]
        self._causes = Causes({_address(look.url): look.client for look in self._looks})
        self._members: tuple[MemberStatus, ...] = ()
        self._last: _Totals | None = None
        self._news = asyncio.Event()
        self._commit_rate = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._keep_looking())

    async def close(self) -> None:
        tasks = [task for task in (self._task, *(look.task for look in self._looks)) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, self._causes.close(), return_exceptions=True)
        await asyncio.gather(*(look.client.close() for look in self._looks), self.client.close())

    async def news(self, timeout_s: float) -> bool:
        """Wait for the next sample. False: timeout_s passed."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._news.wait()
        except TimeoutError:
            return False
        return True

    # --- looking ------------------------------------------------------------------------------------------------------
    async def _keep_looking(self) -> None:
        while self.refused is None:
            begun_s = time.monotonic()
            for look in self._looks:
                if look.task is None or look.task.done():
                    look.task = asyncio.create_task(self._try_to_look(look))
            await asyncio.wait([look.task for look in self._looks if look.task is not None], timeout=GATHER_S)
            self._sample()
            self._news.set()
            self._news = asyncio.Event()
            await asyncio.sleep(max(LOOK_S / 4, LOOK_S - (time.monotonic() - begun_s)))

    async def _try_to_look(self, look: _Look) -> None:
        try:
            await self._look(look)
        except AuthenticationFailed as error:
            self.refused = error
        except (RaftmetaError, OSError) as error:
            look.error = _words(error)

    async def _look(self, look: _Look) -> None:
        begun_s = time.monotonic()
        look.status = await look.client.status(timeout_s=ANSWER_S)
        look.answered_s = time.monotonic()
        look.answer_ms = (look.answered_s - begun_s) * 1e3
        look.error = ""
        if self._is_anonymous and (await look.client.auth.status(timeout_s=ANSWER_S)).is_enabled:
            # A certificate may be a user's. It lets the dashboard in, and no visitor.
            raise AuthenticationFailed("rights are on: log in")
        begun_s = time.monotonic()
        try:
            await look.client.get(READ_KEY, timeout_s=ANSWER_S)
            look.read_ms = (time.monotonic() - begun_s) * 1e3
        except RaftmetaError as error:  # no right to it, or no majority
            look.read_ms = None
            look.error = "" if isinstance(error, PermissionDenied) else _words(error)

    def _sample(self) -> None:
        statuses = self._fresh()
        if not statuses:
            self.samples.append({"time_s": time.time(), "changes_s": None, "entries_s": None, "nodes": {}})
            self._last = None
            return
        newest = max(statuses, key=lambda status: (status.applied, status.is_leader))
        self._members = tuple(member for member in newest.members if member.role) or self._members
        self._reigns.saw(max(status.term for status in statuses), self._leader(statuses), time.time())
        self._causes.want(self._reigns.changed())
        totals = _Totals(
            time.monotonic(),
            max(status.revision for status in statuses),
            max(status.committed for status in statuses),
            {status.name: _bytes(status) for status in statuses},
        )
        last = self._last
        entries_s = self._rate(totals.committed, None if last is None else last.committed)
        self._commit_rate = entries_s or 0.0
        nodes = {
            look.status.name: {
                "lag": self._lag(look),
                "read_ms": look.read_ms,
                "bytes_s": self._rate(
                    totals.bytes[look.status.name], None if last is None else last.bytes.get(look.status.name)
                ),
            }
            for look in self._looks
            if look.status is not None and look.fresh is not None
        }
        self.samples.append(
            {
                "time_s": time.time(),
                "changes_s": self._rate(totals.revision, None if last is None else last.revision),
                "entries_s": entries_s,
                "nodes": nodes,
            }
        )
        self._last = totals

    def _lag(self, look: _Look) -> int:
        """Entries that were committed when the node answered, and that it had not applied."""
        if look.status is None:
            return 0
        fresh = [(one.status.committed, one.answered_s) for one in self._looks if one.status and one.fresh]
        committed, answered_s = max(fresh, default=(look.status.committed, look.answered_s))
        later_s = min(0.0, look.answered_s - answered_s)
        return max(0, round(committed + self._commit_rate * later_s) - look.status.applied)

    def _rate(self, value: int, before: int | None) -> float | None:
        """Per second since the last sample. None: there was none, or the node began anew."""
        if self._last is None or before is None or value < before:
            return None
        return (value - before) / max(1e-3, time.monotonic() - self._last.time_s)

    def _fresh(self) -> list[NodeStatus]:
        return [status for look in self._looks if (status := look.fresh) is not None]

    @staticmethod
    def _leader(statuses: list[NodeStatus]) -> str:
        """Who leads the newest term, as far as nodes of that term know."""
        term = max((status.term for status in statuses), default=0)
        return next((status.leader for status in statuses if status.term == term and status.leader), "")

    # --- what the page is told ----------------------------------------------------------------------------------------
    def picture(self) -> dict[str, Any]:
        """The cluster as it looks now."""
        statuses = self._fresh()
        newest = max(statuses, key=lambda status: status.applied, default=None)
        leader = self._leader(statuses)
        return {
            "cluster": self._cluster,
            "cluster_id": newest.cluster_id if newest else "",
            "time_s": time.time(),
            "term": max((status.term for status in statuses), default=0),
            "leader": leader,
            "revision": newest.revision if newest else 0,
            "compacted": newest.compacted if newest else 0,
            "keys": newest.keys if newest else 0,
            "level": newest.feature_level if newest else 0,
            "quorum": self._quorum(statuses),
            "members": self._member_shapes(statuses, leader),
            "observers": self._observer_shapes(statuses),
            "errors": [{"address": _address(look.url), "error": look.error} for look in self._looks if look.error],
            "reigns": [reign | self._causes.of(reign["term"]) for reign in self._reigns.shape()],
        }

    def _quorum(self, statuses: list[NodeStatus]) -> dict[str, int]:
        voters = [member.name for member in self._members if member.role == "voter"]
        here = [name for name in voters if self._state(name, statuses) != "away"]
        return {"voters": len(voters), "needed": len(voters) // 2 + 1 if voters else 0, "here": len(here)}

    @staticmethod
    def _state(name: str, statuses: list[NodeStatus]) -> str:
        """answers: it told us itself. connected: another node that answers has a connection to it. away: neither."""
        if any(status.name == name for status in statuses):
            return "answers"
        seen = (member for status in statuses for member in status.members if member.name == name)
        return "connected" if any(member.is_connected for member in seen) else "away"

    def _member_shapes(self, statuses: list[NodeStatus], leader: str) -> list[dict[str, Any]]:
        by_name = {status.name: status for status in statuses}
        looks = {look.status.name: look for look in self._looks if look.status is not None}
        known = {member.name for member in self._members}
        rows = [(member.name, member.address, member.role) for member in self._members]
        # A node that answers and is no member, or not yet.
        rows += [(status.name, "", "") for status in statuses if status.name not in known]
        shapes = []
        for name, address, role in sorted(rows):
            shape = {
                "name": name,
                "address": address,
                "role": role,
                "state": self._state(name, statuses),
                "is_leader": name == leader,
            }
            status = by_name.get(name)
            if status is not None:
                shape |= _status_shape(status) | {
                    "lag": self._lag(looks[name]),
                    "answer_ms": looks[name].answer_ms,
                    "read_ms": looks[name].read_ms,
                }
            shapes.append(shape)
        return shapes

    @staticmethod
    def _observer_shapes(statuses: list[NodeStatus]) -> list[dict[str, Any]]:
        return [{"name": one.name, "feeder": one.feeder, "lag": one.lag} for one in ObserverStatus.merged(statuses)]


def _status_shape(status: NodeStatus) -> dict[str, Any]:
    return {
        "protocol_role": status.role,
        "process": status.state,
        "is_ready": status.is_ready,
        "term": status.term,
        "committed": status.committed,
        "applied": status.applied,
        "persisted": status.persisted,
        "last": status.last,
        "version": status.version,
        # Observers stand in a list of their own.
        "links": {member.name: member.is_connected for member in status.members if member.role and not member.is_self},
        "lost_disks": list(status.lost_disks),
    }


def _bytes(status: NodeStatus) -> int:
    return sum(member.bytes_in + member.bytes_out for member in status.members)


def _address(url: str) -> str:
    return url.partition("://")[2].partition("?")[0]


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
