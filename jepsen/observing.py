"""Lies of observers: mistakes that are planted in what their callers are told, to see whether the run finds them.

stale   reads that should be linearizable show what the observer has, however old
gap     watches leave out an event now and then
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Any, cast

import raftmeta
from jepsen.client import Store

Key = str | bytes

GAP_EVERY = 5  # batches with events, of which one loses its last event


def lying(store: Store, lies: Collection[str]) -> Store:
    """The store, or one in front of it that tells these lies."""
    return cast(Store, Lying(store, lies)) if {"stale", "gap"} & set(lies) else store


class Lying:
    """A store whose callers are lied to; everything else is the store's own."""

    def __init__(self, store: Store, lies: Collection[str]) -> None:
        self._store = store
        self._lies = lies

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def get(self, key: Key, **options: Any) -> raftmeta.KeyRecord | None:
        return await self._store.get(key, **{**options, **({"local": True} if "stale" in self._lies else {})})

    def watch(self, *keys: Key, **options: Any) -> Any:
        watch = self._store.watch(*keys, **options)
        return Gapped(watch) if "gap" in self._lies else watch


class Gapped:
    """A watch that leaves out events."""

    def __init__(self, watch: Any) -> None:
        self._watch = watch
        self._count = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._watch, name)

    async def __aenter__(self) -> Gapped:
        await self._watch.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._watch.__aexit__(*error)

    async def batches(self) -> AsyncIterator[Any]:
        async for batch in self._watch.batches():
            if isinstance(batch, raftmeta.WatchBatch) and batch.events:
                self._count += 1
                if self._count % GAP_EVERY == 0:
                    yield _without_last(batch)
                    continue
            yield batch


def _without_last(batch: raftmeta.WatchBatch) -> raftmeta.WatchBatch:
    return batch._replace(events=batch.events[:-1])
