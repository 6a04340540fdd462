"""The group as assignors look at it: members in order, who may have which resource, who has which now.

It decides which statements of ownership count. It never gives a resource to anybody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from raftmeta.assignors.shapes import Member, Plan, Resources
from raftmeta.errors import InvalidArgument

__all__ = ["Board"]


@dataclass(frozen=True, slots=True)
class Board:
    """members: in order. asks: the topics of each, None for all of them.

    eligible: for each topic the places of the members that ask for it, ascending.
    topic_of: the topic of each resource that somebody asks for, in the order of the resources.
    """

    members: tuple[Member, ...]
    asks: tuple[frozenset[str] | None, ...]
    eligible: Mapping[str, tuple[int, ...]]
    topic_of: Mapping[str, str]

    @classmethod
    def of(cls, members: Sequence[Member], resources: Resources) -> Board:
        """Raises InvalidArgument for two members with one id, or with one instance."""
        ordered = tuple(sorted(members, key=lambda member: member.order))
        for what in ("id", "instance_id"):
            given = [name for member in ordered if (name := getattr(member, what)) is not None]
            if len(set(given)) != len(given):
                twice = next(name for name in given if given.count(name) > 1)
                raise InvalidArgument(f"members: two members have the {what} {twice!r}", field="members")
        asked: dict[str, list[int]] = {topic: [] for topic in resources.topics}
        asks = tuple(None if member.topics is None else frozenset(member.topics) for member in ordered)
        for place, topics in enumerate(asks):
            for topic in asked if topics is None else topics:
                if topic in asked:
                    asked[topic].append(place)
        eligible = {topic: tuple(places) for topic, places in asked.items()}
        topic_of = {name: topic for topic, names in resources.topics.items() if eligible[topic] for name in names}
        return cls(ordered, asks, eligible, topic_of)

    def statements(self) -> dict[str, list[int]]:
        """The places of all members that say they own a resource, for each resource that somebody may have."""
        said: dict[str, list[int]] = {}
        for place, member in enumerate(self.members):
            for name in set(member.owned):
                if name in self.topic_of:
                    said.setdefault(name, []).append(place)
        return said

    def owners(self, said: Mapping[str, list[int]]) -> dict[str, int]:
        """The owner of each resource that has one: of several statements that of the highest generation counts.

        Two statements of one generation contradict each other, and neither counts. Nor does that of a member that does
        not ask for the topic any more.
        """
        found: dict[str, int] = {}
        for name, places in said.items():
            highest = max(self.members[place].generation for place in places)
            newest = [place for place in places if self.members[place].generation == highest]
            if len(newest) == 1 and self.may_have(newest[0], name):
                found[name] = newest[0]
        return found

    def may_have(self, place: int, name: str) -> bool:
        topics = self.asks[place]
        return topics is None or self.topic_of[name] in topics

    def assignments(self, owner_of: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
        """The resources of each member by its id, in the order of the resources."""
        lists: list[list[str]] = [[] for _ in self.members]
        for name in self.topic_of:
            if (place := owner_of.get(name)) is not None:
                lists[place].append(name)
        return {member.id: tuple(names) for member, names in zip(self.members, lists, strict=True)}

    def cooperative_plan(
        self,
        target: Mapping[str, int],
        said: Mapping[str, list[int]],
        owners: Mapping[str, int],
        *,
        waiting: Iterable[str] = (),
        next_plan_s: float | None = None,
        memory: bytes = b"",
    ) -> Plan:
        """The part of a target that can be given at once.

        A resource stays with its owner, or goes to a member when no other says that it has it. Every other resource
        waits for the next plan. said, owners: of this board. waiting, next_plan_s: resources that wait for another
        reason, and for how long.
        """
        given = {
            name: place
            for name, place in target.items()
            if owners.get(name) == place or all(one == place for one in said.get(name, ()))
        }
        assignments = self.assignments(given)
        revoked = {}
        for member in self.members:
            kept = set(assignments[member.id])
            if lost := tuple(sorted(set(member.owned) - kept)):
                revoked[member.id] = lost
        held_back = {name for name in target if name not in given}
        late = held_back.union(waiting)
        return Plan(
            assignments,
            revoked,
            tuple(name for name in self.topic_of if name in late),
            0.0 if held_back else next_plan_s,
            memory,
        )
