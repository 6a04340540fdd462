"""The share of one worker: what it owns, what it says when it joins, and the plans that it makes as a leader.

It is the same for workers on asyncio and on threads. It asks nobody, waits for nothing and reads no clock. It decides
what an assignment comes to: what is gone, and what is new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from raftmeta.assignors import Assignor, Member, OwnCodec, Resources
from raftmeta.coordinator.machine import Settings
from raftmeta.coordinator.service import MemberMetadata
from raftmeta.operations import Fence

__all__ = [
    "Assigned",
    "Lost",
    "Revoked",
    "Share",
    "resources_of",
]

PROTOCOL_TYPE = "raftmeta.workers"
CODEC = OwnCodec()
WORKER_SETTINGS = Settings(session_timeout_s=10.0, rebalance_timeout_s=60.0, heartbeat_interval_s=1.0)

ResourcesLike = Resources | Mapping[str, int] | Iterable[str]


@dataclass(frozen=True, slots=True)
class Assigned:
    """A generation begins. resources: all that this member has now. added: those that it did not have before.

    fence: for every write that belongs to the resources, also to those that it had before: older fences are over.
    """

    resources: tuple[str, ...]
    added: tuple[str, ...]
    generation: int
    fence: Fence


@dataclass(frozen=True, slots=True)
class Revoked:
    """Give these up now: asking for the next event says that it is done. They have no other owner before that."""

    resources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """These may have other owners already. Writes with the fence of their assignment are refused."""

    resources: tuple[str, ...]


Event = Assigned | Revoked | Lost


def resources_of(given: ResourcesLike) -> Resources:
    """Resources as they are; a mapping of topics to numbers of partitions; or names."""
    if isinstance(given, Resources):
        return given
    if isinstance(given, Mapping):
        return Resources.of_topics(given)
    return Resources.of_names(given)


class Share:
    """Of one worker. owned: what the program has, by the events that it was told."""

    def __init__(
        self, resources: Callable[[], ResourcesLike], assignor: Assignor, topics: Iterable[str] | None
    ) -> None:
        self.owned: tuple[str, ...] = ()
        self.is_cooperative = assignor.is_cooperative
        self._resources = resources
        self._assignor = assignor
        self._topics = None if topics is None else frozenset(topics)
        self._had: tuple[str, ...] = ()  # for the assignor; an eager member owns nothing while it joins
        self._had_generation = -1
        self._memory = b""

    def said(self) -> list[tuple[str, bytes]]:
        """The protocols of a join."""
        said = Member("", topics=self._topics, owned=self._had, generation=self._had_generation)
        return [(self._assignor.name, CODEC.encode_member(said))]

    def plan(self, members: Sequence[MemberMetadata], now_s: float) -> tuple[Mapping[str, bytes], float]:
        """The assignments of a leader, and after how many seconds the next plan is due; 0: when somebody asks."""
        asking = [CODEC.decode_member(one.metadata, id=one.member_id, instance_id=one.instance_id) for one in members]
        plan = self._assignor.assign(asking, resources_of(self._resources()), now_s=now_s, memory=self._memory)
        self._memory = plan.memory
        assignments = {
            member: CODEC.encode_assignment(names, plan.revoked.get(member, ()))
            for member, names in plan.assignments.items()
        }
        return assignments, plan.next_plan_s or 0.0

    @staticmethod
    def read(assignment: bytes) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The resources of an assignment, and those that are to be given up for others."""
        return CODEC.decode_assignment(assignment) if assignment else ((), ())

    def gone(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those that are owned and not among these."""
        kept = set(names)
        return tuple(name for name in self.owned if name not in kept)

    def give_up(self, names: tuple[str, ...]) -> None:
        given = set(names)
        self.owned = tuple(name for name in self.owned if name not in given)

    def take(self, names: tuple[str, ...], generation: int) -> tuple[str, ...]:
        """These are owned from now on, in this generation; those that are new."""
        before = set(self.owned)
        self.owned = self._had = names
        self._had_generation = generation
        return tuple(name for name in names if name not in before)

    def lose(self) -> tuple[str, ...]:
        """Nothing is owned any more; what was."""
        lost, self.owned = self.owned, ()
        self._had, self._had_generation = (), -1
        return lost
