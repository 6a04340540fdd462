"""Words of the assignors: members, resources, plans, and the interface that every assignor has.

It decides nothing. A topic is a named list of resources; a member asks for topics, and a plan gives it resources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from raftmeta.errors import InvalidArgument

__all__ = ["Assignor", "Member", "Plan", "Resources"]


@dataclass(frozen=True, slots=True)
class Member:
    """A member of a group, as an assignor sees it.

    id: unique in the group. instance_id: the name of a static member, which outlives the process; None for others.
    topics: names of the topics that it asks for; None asks for all of them.
    owned: the resources that it has. generation: of the plan that gave them; a higher one is believed before a lower.
    metadata: bytes of the program's own, which no assignor here reads.
    """

    id: str
    instance_id: str | None = None
    topics: Collection[str] | None = None
    owned: Collection[str] = ()
    generation: int = -1
    metadata: bytes = b""

    @property
    def identity(self) -> str:
        """The name that stays when the process starts anew: instance_id if there is one, otherwise id."""
        return self.id if self.instance_id is None else self.instance_id

    @property
    def order(self) -> tuple[bool, str]:
        """Sorts members: static ones first by their instance, then the others by their id, as Kafka does."""
        return self.instance_id is None, self.identity


class Resources:
    """Everything that there is to assign. topics: the resources of each topic by its name; their order counts.

    Raises InvalidArgument for a resource that stands in it twice.
    """

    __slots__ = ("names", "topics")

    def __init__(self, topics: Mapping[str, Iterable[str]]) -> None:
        self.topics: Mapping[str, tuple[str, ...]] = {name: tuple(topics[name]) for name in sorted(topics)}
        self.names: tuple[str, ...] = tuple(name for topic in self.topics.values() for name in topic)
        if len(set(self.names)) != len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InvalidArgument(f"topics: the resource {twice!r} stands in them twice", field="topics")

    @classmethod
    def of_topics(cls, partitions: Mapping[str, int]) -> Resources:
        """Topics with so many partitions each. Partition 3 of the topic "t" is the resource "t-3"."""
        return cls({topic: [f"{topic}-{number}" for number in range(count)] for topic, count in partitions.items()})

    @classmethod
    def of_names(cls, names: Iterable[str], *, topic: str = "") -> Resources:
        """One topic with these resources, in the order of their names."""
        return cls({topic: sorted(names)})


@dataclass(frozen=True, slots=True)
class Plan:
    """An assignor's answer.

    assignments: the resources of each member by its id, in the order of Resources; a member without any has ().
    revoked: resources that a member owns and must give up before it asks for the next plan. Members that keep
    everything are missing here.
    waiting: resources that nobody gets by this plan and somebody gets by a later one.
    next_plan_s: seconds until the next plan is due; 0: as soon as the members gave up what is revoked. None: this plan
    stays until members or resources change.
    memory: bytes that the assignor wants to see again with the next plan; b"" for most of them.
    """

    assignments: Mapping[str, tuple[str, ...]]
    revoked: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()
    next_plan_s: float | None = None
    memory: bytes = b""


class Assignor(Protocol):
    """A pure function with a name: equal arguments give equal plans, whatever the order of the members.

    is_cooperative: members keep their resources while they ask for a plan, and give up only those in Plan.revoked.
    With the others a member has given up everything before it asks; `owned` then says what it had.
    """

    @property
    def name(self) -> str: ...

    @property
    def is_cooperative(self) -> bool: ...

    def assign(
        self, members: Sequence[Member], resources: Resources, *, now_s: float = 0.0, memory: bytes = b""
    ) -> Plan:
        """The plan for these members. now_s: seconds on a clock of the caller's that never goes back.

        memory: that of the plan before, or b"". Raises InvalidArgument for two members with one id.
        """
