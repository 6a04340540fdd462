"""Worlds in which some nodes are observers: under every fault they show what the members show (docs/observers.md)."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest

from raftmeta.sim.world.world_handle import World, swarm_profile

SEEDS = range(300, 324)
TREES = range(400, 408)
EVENTS = 60_000  # of one seed, before everything heals


def with_observers(seed: int) -> World:
    """The world of a seed of the swarm, with one to three observers beside its members."""
    profile = swarm_profile(seed)
    members = min(profile["nodes"], 3 + 2 * (seed % 2))
    observers = min(1 + seed % 3, 7 - members)
    return World(
        seed, **{**profile, "ruin": 0, "put_back_ppm": 0, "nodes": members + observers, "observers": observers}
    )


def in_a_tree(seed: int) -> World:
    """Four observers below three members. Each knows one member when it is made, and a node feeds one or two."""
    profile = swarm_profile(seed)
    small = {"nodes": 7, "observers": 4, "feeds_max": 1 + seed % 2, "seeds": 1, "ruin": 0, "put_back_ppm": 0}
    return World(seed, **{**profile, **small})


def live(seed: int, make: Callable[[int], World] = with_observers) -> World:
    world = make(seed)
    world.run(EVENTS)
    world.settle()
    return world


@cache
def worlds() -> dict[int, World]:
    """They run without the GIL, so threads are enough to use two cores."""
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(SEEDS, pool.map(live, SEEDS), strict=True))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_seed_with_observers_breaks_an_invariant(seed: int) -> None:
    """After it has healed, too: every observer has applied what the members have, and its calls are answered."""
    assert worlds()[seed].violation is None


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_swarm_draws_observers_in_one_world_of_eight(kind: str) -> None:
    """One to four of them; a member is left, and members give up their places only where all seven are taken."""
    profiles = [swarm_profile(seed, kind) for seed in range(2_000)]
    drawn = [profile for profile in profiles if profile["observers"]]
    assert 200 <= len(drawn) <= 300
    assert {profile["observers"] for profile in drawn} == {1, 2, 3, 4}
    assert all(profile["observers"] < profile["nodes"] <= 7 for profile in drawn)


def test_observers_hold_no_place() -> None:
    """No observer led, voted, or is a member; each is fed at the end."""
    for seed, world in worlds().items():
        for node in world.nodes()[-world.profile["observers"] :]:
            assert node["role"] != 4, seed
            assert node["vote"] == 0, seed
            assert node["feeder"] != 0, seed


def test_observers_are_fed_by_observers_too() -> None:
    """In some of the worlds a chain has two observers, and a node feeds more than one."""
    depths = [node["feed_depth"] for world in worlds().values() for node in world.nodes()]
    assert max(depths) > 1
    assert max(node["feeds"] for world in worlds().values() for node in world.nodes()) > 0


@pytest.mark.parametrize("seed", TREES)
def test_an_observer_with_one_seed_finds_a_place_in_a_tree(seed: int) -> None:
    """The only seed is full, and names others; under faults no invariant breaks, and at the end each is fed."""
    world = live(seed, in_a_tree)
    assert world.violation is None
    observers = world.nodes()[-4:]
    assert all(node["feeder"] != 0 for node in observers)
    assert max(node["feeds"] for node in world.nodes()) <= 1 + seed % 2
