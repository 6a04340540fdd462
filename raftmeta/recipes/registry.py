"""KIP-30 Listener Registry on a store: a mirror for each key or namespace that somebody listens to.

Tens of thousands of them cost no thread: on the blocking face the store calls back on threads that all share, on
asyncio each is a task.
"""

from __future__ import annotations

from typing import TypeAlias

from raftmeta.interfaces import (
    AioListenerRegistry,
    KeySetChange,
    KeySetListener,
    ValueChange,
    ValueListener,
    listener_call,
)
from raftmeta.recipes.recipe import Face, Failures, KeySet, Listeners, Mirror, Part, Versions, check_key, key_set

__all__ = ["Registry"]


class _ValueFeed:
    """The listeners of one key."""

    def __init__(self, face: Face, failures: Failures, key: str) -> None:
        self.listeners: Listeners[ValueChange] = Listeners(face, failures, ValueChange)
        self.mirror = Mirror(face, self._on_change, key=check_key(key))
        self._key = key

    def on_open(self) -> None:
        """Only what changes is told."""

    def _on_change(self, mirror: Mirror) -> None:
        record = mirror.records.get(self._key.encode())
        value = None if record is None else record.value
        self.listeners.tell(ValueChange(self._key, value, mirror.revision, mirror.coalesced))


class _KeySetFeed:
    """The listeners of one namespace."""

    def __init__(self, face: Face, failures: Failures, namespace: str) -> None:
        self.listeners: Listeners[KeySetChange] = Listeners(face, failures, KeySetChange)
        self.mirror = Mirror(face, self._on_change, prefix=check_key(namespace), keys_only=True)
        self._namespace = namespace
        self._keys: Versions[str, bool] = Versions({})

    def on_open(self) -> None:
        """The mirror has been read, and no change was told yet."""
        self._keys = Versions(dict.fromkeys(key_set(self.mirror.records), True))

    def _on_change(self, mirror: Mirror) -> None:
        if not mirror.keys_changed:
            return
        former = self._keys
        added = frozenset(key for key in self._own(mirror, exists=True) if key not in former)
        removed = frozenset(key for key in self._own(mirror, exists=False) if key in former)
        if added or removed:
            self._keys = former.changed({**dict.fromkeys(added, True), **dict.fromkeys(removed)})
        elif not mirror.coalesced:
            return  # in the whole keyspace, it may have been a key of the recipes
        keys = KeySet(self._keys)
        self.listeners.tell(
            KeySetChange(self._namespace, keys, mirror.revision, mirror.coalesced, added=added, removed=removed)
        )

    def _own(self, mirror: Mirror, *, exists: bool) -> frozenset[str]:
        """The user's keys that the last change touched, and that exist now, or do not."""
        return key_set(key for key, record in mirror.changes.items() if (record is not None) == exists)


_Feed: TypeAlias = _ValueFeed | _KeySetFeed


class Registry(Part, AioListenerRegistry):
    """The listeners of one process, as coroutines."""

    def __init__(self) -> None:
        super().__init__("listener registry")
        self._feeds: dict[tuple[type[_Feed], str], _Feed] = {}
        self._opening: _Feed | None = None  # the newest one

    def _set_up(self, face: Face) -> None:
        self._changing = face.mutex()

    async def add_value_change_listener(self, key: str, listener: ValueListener) -> None:
        listener_call(ValueChange, listener)  # refuse it before anything is read
        await self._add(_ValueFeed, key, listener)

    async def remove_value_change_listener(self, key: str, listener: ValueListener) -> None:
        await self._remove(_ValueFeed, key, listener)

    async def add_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        listener_call(KeySetChange, listener)
        await self._add(_KeySetFeed, namespace, listener)

    async def remove_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        await self._remove(_KeySetFeed, namespace, listener)

    async def _add(self, kind: type[_Feed], name: str, listener: object) -> None:
        face = self.face
        async with self._changing:
            feed = self._feeds.get((kind, name))
            if feed is None:
                feed = self._opening = kind(face, self.failures, name)
                await feed.mirror.open()
                feed.on_open()
                self._feeds[kind, name] = feed
                if self._is_closed:  # meanwhile; close() has seen this feed, or we see that it was called
                    await feed.mirror.close()
                feed.mirror.start()
            feed.listeners.add(listener)

    async def _remove(self, kind: type[_Feed], name: str, listener: object) -> None:
        self.face  # noqa: B018  # raises where it is closed
        feed = self._feeds.get((kind, name))
        if feed is not None:
            feed.listeners.remove(listener)  # before waiting for anybody: no further call begins
        async with self._changing:
            if feed is not None and not len(feed.listeners) and self._feeds.get((kind, name)) is feed:
                del self._feeds[kind, name]
                await feed.mirror.close()

    async def close(self) -> None:
        if not self._end():
            return
        # Without waiting for one who is adding: that may be the very thread below a signal handler.
        feeds = list(self._feeds.values())
        if self._opening is not None and self._opening not in feeds:
            feeds.append(self._opening)
        for feed in feeds:
            feed.listeners.close()
            await feed.mirror.close()
