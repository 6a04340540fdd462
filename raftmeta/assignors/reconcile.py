"""Assignment by the server, as in KIP-848: a target for the whole group, and each member's way to it.

It decides when a member may have a resource of its target. `retarget` makes the target anew when members or resources
change. `reconcile` is one step of one member: it first gives up what is not in its target, then gets what nobody else
has any more. So members move at their own pace, no round stops the group, and no resource has two owners.

Both are pure functions. A group machine keeps their results; a resource is free when no member's Standing has it, among
`owned` or `revoking`.

    standing          the member reports its resources     next standing
    STABLE            target_epoch is newer                 REVOKING if it has anything to give up
    REVOKING          it still has some of them             no change, the epoch stays
    REVOKING          it has none of them any more          as STABLE
    RECEIVING         something it waits for is free        it gets this; STABLE once it has everything

Source: KIP-848 The Next Generation of the Consumer Rebalance Protocol, "Assignment reconciliation".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from raftmeta.assignors.shapes import Assignor, Member, Resources
from raftmeta.errors import InvalidArgument

__all__ = ["Phase", "Standing", "Target", "reconcile", "retarget"]


class Phase(Enum):
    """A member's place on its way. STABLE: it has its target. REVOKING: it gives up. RECEIVING: it waits for others."""

    STABLE = "stable"
    REVOKING = "revoking"
    RECEIVING = "receiving"


@dataclass(frozen=True, slots=True)
class Target:
    """The assignment that a group is to reach. epoch: one more with each target that differs from the one before."""

    epoch: int = 0
    assignments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Standing:
    """One member's place. epoch: of the target that it has, or is on the way to once it gave up the rest.

    owned: resources that it may use. revoking: those that it must give up, and may still have.
    """

    epoch: int = 0
    phase: Phase = Phase.STABLE
    owned: frozenset[str] = frozenset()
    revoking: frozenset[str] = frozenset()


def retarget(target: Target, members: Sequence[Member], resources: Resources, assignor: Assignor) -> Target:
    """The next target; the same object when nothing changes. An assignor sees the target before as what members own.

    Raises InvalidArgument for a cooperative assignor: members give up resources one by one here, without its rounds.
    """
    if assignor.is_cooperative:
        raise InvalidArgument(
            f"assignor: {assignor.name} makes plans of two rounds, a target needs one that is not cooperative",
            field="assignor",
        )
    asking = [
        replace(member, owned=target.assignments.get(member.id, ()), generation=target.epoch) for member in members
    ]
    assignments = assignor.assign(asking, resources).assignments
    if assignments == target.assignments:
        return target
    return Target(target.epoch + 1, assignments)


def reconcile(
    standing: Standing,
    target: Target,
    member_id: str,
    *,
    reported: Collection[str] | None,
    is_free: Callable[[str], bool],
) -> Standing:
    """The member's next standing. reported: the resources that it says it has; None: it said nothing new.

    is_free: whether no other member has a resource or is giving it up. Ask again after each report, and when anything
    that the member waits for became free; the answer is the same object when nothing changes.
    """
    revoking = standing.revoking
    if reported is not None:
        revoking = revoking.intersection(reported)
    if revoking:
        return standing if revoking == standing.revoking else replace(standing, revoking=revoking)
    wanted = frozenset(target.assignments.get(member_id, ()))
    given_up = standing.owned - wanted
    if given_up:
        return Standing(standing.epoch, Phase.REVOKING, standing.owned & wanted, given_up)
    missing = wanted - standing.owned
    owned = standing.owned | {name for name in missing if is_free(name)}
    phase = Phase.STABLE if owned == wanted else Phase.RECEIVING
    following = Standing(target.epoch, phase, owned)
    return standing if following == standing else following
