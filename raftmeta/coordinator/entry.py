"""raftmeta.workers: the workers of a store, on asyncio or on threads as the store is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import overload

from raftmeta.assignors import Assignor
from raftmeta.assignors import assignor as assignor_of
from raftmeta.coordinator.blocking_workers import BlockingWorkers, blocking_workers
from raftmeta.coordinator.machine import Settings
from raftmeta.coordinator.sharing import WORKER_SETTINGS, ResourcesLike, Share, resources_of
from raftmeta.coordinator.store import AioStoreGroup, StoreGroup
from raftmeta.coordinator.workers import Workers, aio_workers
from raftmeta.operations import Key
from raftmeta.verbs.awaited import AioVerbs
from raftmeta.verbs.blocking import Verbs

__all__ = ["workers"]

Asked = ResourcesLike | Callable[[], ResourcesLike]


@overload
def workers(
    group: Key,
    *,
    store: AioVerbs,
    resources: Asked,
    assignor: str | Assignor = ...,
    topics: Iterable[str] | None = ...,
    settings: Settings = ...,
    initial_delay_s: float = ...,
) -> Workers: ...


@overload
def workers(
    group: Key,
    *,
    store: Verbs,
    resources: Asked,
    assignor: str | Assignor = ...,
    topics: Iterable[str] | None = ...,
    settings: Settings = ...,
    initial_delay_s: float = ...,
) -> BlockingWorkers: ...


def workers(
    group: Key,
    *,
    store: AioVerbs | Verbs,
    resources: Asked,
    assignor: str | Assignor = "cooperative-sticky",
    topics: Iterable[str] | None = None,
    settings: Settings = WORKER_SETTINGS,
    initial_delay_s: float = 0.0,
) -> Workers | BlockingWorkers:
    """Share resources with the other workers of a group, and iterate over what this one has: Assigned, Revoked, Lost.

    store: a node, client or view. One for asyncio gives an asynchronous iterator, one that blocks a plain one.
    resources: names, topics with numbers of partitions, or Resources; a callable is asked when this one makes a plan.
    assignor: the same for all workers, by name or as an object. topics: those that this worker asks for; None: all.
    settings: time-outs, and instance_id of a static member. initial_delay_s: how long an empty group waits for further
    workers. Raises InvalidArgument, ConfigError.
    """
    made = assignor_of(assignor) if isinstance(assignor, str) else assignor
    asked = resources if callable(resources) else partial(resources_of, resources_of(resources))
    share = Share(asked, made, topics)
    if isinstance(store, Verbs):
        return blocking_workers(StoreGroup(store, group, initial_delay_s=initial_delay_s), settings, share)
    return aio_workers(AioStoreGroup(store, group, initial_delay_s=initial_delay_s), settings, share)
