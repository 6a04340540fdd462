"""Whole clusters of the production engine under every fault, from one seed: docs/faults.md.

    world = World.swarm(402)        # size and faults chosen by the seed
    world.run(100_000)              # events, with faults
    world.settle()                  # all heals; the cluster must converge
    print(world.violation, world.counts)

`campaign` runs many seeds in several processes; `raftmeta sim` is its command. `Exhaustive` takes every history of a
small world of cores, within bounds; `small_world` reads them from a line of text. `live_user` runs a user's replicated
class on nodes that crash, lag and load dumps.
"""

from raftmeta.sim.campaign import Budget, Life, Totals, campaign, live, profile_of
from raftmeta.sim.shrink import Case, Shrinker, failing_case
from raftmeta.sim.small.exhaustive_handle import Exhaustive
from raftmeta.sim.small.worlds import small_world
from raftmeta.sim.users.world import Replicas, UserLife, live_user
from raftmeta.sim.world.world_handle import World, swarm_profile

__all__ = [
    "Budget",
    "Case",
    "Exhaustive",
    "Life",
    "Replicas",
    "Shrinker",
    "Totals",
    "UserLife",
    "World",
    "campaign",
    "failing_case",
    "live",
    "live_user",
    "profile_of",
    "small_world",
    "swarm_profile",
]
