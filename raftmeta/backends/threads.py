"""The asyncio face of a back end that only blocks: each call on a thread, listeners back on the event loop.

It decides nothing about the contracts: they are those of the back end below. For plug-ins without a face of their own.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Self

from raftmeta.interfaces import (
    AioBackend,
    AioGroupMembership,
    AioHeld,
    AioLeaderElection,
    AioListenerRegistry,
    AioStorage,
    Backend,
    Capabilities,
    Data,
    FenceLike,
    GroupChange,
    GroupListener,
    GroupMembership,
    Held,
    KeySetChange,
    KeySetListener,
    Leader,
    LeaderChange,
    LeaderElection,
    LeaderListener,
    ListenerRegistry,
    Members,
    State,
    StateListener,
    Storage,
    StorageOperation,
    Stored,
    ValueChange,
    ValueListener,
    checked_callback,
    listener_call,
)
from raftmeta.operations import Fence

__all__ = ["AioOverThreads"]

WAIT_SLICE_S = 0.1  # a wait of unknown length occupies a thread of the pool no longer than this at a time


class _Listeners:
    """Listeners as the back end below calls them: on its thread, which waits until the event loop has called."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._wrapped: dict[tuple[type[Any], str, Any], Callable[[Any], object]] = {}

    def add(self, kind: type[Any], where: str, listener: Any) -> Callable[[Any], object]:
        call = self._wrapper(listener_call(kind, listener))
        return self._wrapped.setdefault((kind, where, listener), call)

    def remove(self, kind: type[Any], where: str, listener: Any) -> Callable[[Any], object]:
        return self._wrapped.pop((kind, where, listener), listener)

    def once(self, listener: Callable[[AioHeld], object] | None) -> Callable[[Held], object] | None:
        """A callback that gets what is held."""
        if listener is None:
            return None
        wrapped = self._wrapper(checked_callback(listener, "callback"))
        return lambda held: wrapped(_AioHeld(held))

    def _wrapper(self, listener: Callable[[Any], object]) -> Callable[[Any], object]:
        async def call(change: Any) -> None:
            result = listener(change)
            if inspect.isawaitable(result):
                await result

        return lambda change: asyncio.run_coroutine_threadsafe(call(change), self._loop).result()


class _AioHeld(AioHeld):
    def __init__(self, held: Held) -> None:
        self._held = held

    @property
    def id(self) -> str:
        return self._held.id

    @property
    def data(self) -> bytes:
        return self._held.data

    @property
    def epoch(self) -> int:
        return self._held.epoch

    @property
    def fence(self) -> Fence:
        return self._held.fence

    def held(self) -> bool:
        return self._held.held()

    def remaining_s(self) -> float:
        return self._held.remaining_s()

    async def wait_lost(self, timeout_s: float | None = None) -> bool:
        loop = asyncio.get_running_loop()
        end_s = None if timeout_s is None else loop.time() + timeout_s
        while not await asyncio.to_thread(self._held.wait_lost, WAIT_SLICE_S):
            if end_s is not None and loop.time() >= end_s:
                return False
        return True


class _AioGroup(AioGroupMembership):
    def __init__(self, group: GroupMembership) -> None:
        self._below = group
        self._listeners = _Listeners()

    @property
    def group(self) -> str:
        return self._below.group

    async def init(self, context: Any) -> None:
        await asyncio.to_thread(self._below.init, context)

    async def join(
        self,
        id: str,
        data: Data = b"",
        *,
        on_lost: Callable[[AioHeld], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> AioHeld:
        told = self._listeners.once(on_lost)
        return _AioHeld(await asyncio.to_thread(lambda: self._below.join(id, data, on_lost=told, timeout_s=timeout_s)))

    async def leave(self, id: str, *, timeout_s: float | None = 5.0) -> None:
        await asyncio.to_thread(self._below.leave, id, timeout_s=timeout_s)

    async def membership_list(self, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        return await asyncio.to_thread(self._below.membership_list, local=local, timeout_s=timeout_s)

    async def membership(self, *, local: bool = False, timeout_s: float | None = 5.0) -> dict[str, bytes]:
        return await asyncio.to_thread(self._below.membership, local=local, timeout_s=timeout_s)

    async def members(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Members:
        return await asyncio.to_thread(self._below.members, local=local, timeout_s=timeout_s)

    async def add_listener(self, listener: GroupListener, *, timeout_s: float | None = 5.0) -> None:
        await asyncio.to_thread(self._below.add_listener, self._listeners.add(GroupChange, "", listener))

    async def remove_listener(self, listener: GroupListener) -> None:
        await asyncio.to_thread(self._below.remove_listener, self._listeners.remove(GroupChange, "", listener))

    async def close(self) -> None:
        await asyncio.to_thread(self._below.close)


class _AioElection(AioLeaderElection):
    def __init__(self, election: LeaderElection) -> None:
        self._below = election
        self._listeners = _Listeners()

    @property
    def service(self) -> str:
        return self._below.service

    async def init(self, context: Any) -> None:
        await asyncio.to_thread(self._below.init, context)

    async def get_leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> str | None:
        return await asyncio.to_thread(self._below.get_leader, local=local, timeout_s=timeout_s)

    async def leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Leader | None:
        return await asyncio.to_thread(self._below.leader, local=local, timeout_s=timeout_s)

    async def nominate(
        self,
        candidate: str,
        data: Data = b"",
        *,
        on_elected: Callable[[AioHeld], object] | None = None,
        on_lost: Callable[[AioHeld], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> bool:
        elected, lost = self._listeners.once(on_elected), self._listeners.once(on_lost)
        return await asyncio.to_thread(
            lambda: self._below.nominate(candidate, data, on_elected=elected, on_lost=lost, timeout_s=timeout_s)
        )

    def lead(self, candidate: str) -> AioHeld | None:
        lead = self._below.lead(candidate)
        return None if lead is None else _AioHeld(lead)

    async def terms(self, candidate: str, data: Data = b"") -> AsyncIterator[AioHeld]:
        leads = self._below.terms(candidate, data)
        try:
            while (lead := await asyncio.to_thread(next, leads, None)) is not None:
                yield _AioHeld(lead)
        finally:
            await asyncio.to_thread(self._below.withdraw, candidate)

    async def resign(self, leader: str, *, timeout_s: float | None = 5.0) -> None:
        await asyncio.to_thread(self._below.resign, leader, timeout_s=timeout_s)

    async def withdraw(self, candidate: str, *, timeout_s: float | None = 5.0) -> None:
        await asyncio.to_thread(self._below.withdraw, candidate, timeout_s=timeout_s)

    async def add_listener(self, listener: LeaderListener, *, timeout_s: float | None = 5.0) -> None:
        await asyncio.to_thread(self._below.add_listener, self._listeners.add(LeaderChange, "", listener))

    async def remove_listener(self, listener: LeaderListener) -> None:
        await asyncio.to_thread(self._below.remove_listener, self._listeners.remove(LeaderChange, "", listener))

    async def close(self) -> None:
        await asyncio.to_thread(self._below.close)


class _AioStorage(AioStorage):
    def __init__(self, storage: Storage) -> None:
        self._below = storage

    async def init(self, context: Any) -> None:
        await asyncio.to_thread(self._below.init, context)

    def fetch(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Awaitable[bytes | None]:
        return asyncio.wrap_future(self._below.fetch(key, local=local, timeout_s=timeout_s))

    async def get(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Stored | None:
        return await asyncio.to_thread(self._below.get, key, local=local, timeout_s=timeout_s)

    async def put(self, key: str, data: Data, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0) -> int:
        return await asyncio.to_thread(lambda: self._below.put(key, data, fence=fence, timeout_s=timeout_s))

    async def update(
        self,
        key: str,
        data: Data,
        *,
        expected_revision: int = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> int:
        return await asyncio.to_thread(
            lambda: self._below.update(key, data, expected_revision=expected_revision, fence=fence, timeout_s=timeout_s)
        )

    async def delete(
        self, key: str, *, expected_revision: int = 0, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> None:
        await asyncio.to_thread(
            lambda: self._below.delete(key, expected_revision=expected_revision, fence=fence, timeout_s=timeout_s)
        )

    async def children(self, namespace: str, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        return await asyncio.to_thread(self._below.children, namespace, local=local, timeout_s=timeout_s)

    async def multi(
        self, operations: Sequence[StorageOperation], *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> int:
        return await asyncio.to_thread(lambda: self._below.multi(operations, fence=fence, timeout_s=timeout_s))

    async def close(self) -> None:
        await asyncio.to_thread(self._below.close)


class _AioRegistry(AioListenerRegistry):
    def __init__(self, registry: ListenerRegistry) -> None:
        self._below = registry
        self._listeners = _Listeners()

    async def init(self, context: Any) -> None:
        await asyncio.to_thread(self._below.init, context)

    async def add_value_change_listener(self, key: str, listener: ValueListener) -> None:
        wrapped = self._listeners.add(ValueChange, key, listener)
        await asyncio.to_thread(self._below.add_value_change_listener, key, wrapped)

    async def remove_value_change_listener(self, key: str, listener: ValueListener) -> None:
        wrapped = self._listeners.remove(ValueChange, key, listener)
        await asyncio.to_thread(self._below.remove_value_change_listener, key, wrapped)

    async def add_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        wrapped = self._listeners.add(KeySetChange, namespace, listener)
        await asyncio.to_thread(self._below.add_key_set_change_listener, namespace, wrapped)

    async def remove_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        wrapped = self._listeners.remove(KeySetChange, namespace, listener)
        await asyncio.to_thread(self._below.remove_key_set_change_listener, namespace, wrapped)

    async def close(self) -> None:
        await asyncio.to_thread(self._below.close)


class AioOverThreads(AioBackend):
    """A blocking back end on asyncio; one for one event loop, made while it runs."""

    def __init__(self, backend: Backend) -> None:
        self._below = backend
        self._groups: dict[str, _AioGroup] = {}
        self._elections: dict[str, _AioElection] = {}
        self._storage = _AioStorage(backend.storage)
        self._registry = _AioRegistry(backend.listeners)
        self._state_listeners = _Listeners()

    @classmethod
    async def open(cls, open_backend: Callable[[], Backend]) -> Self:
        """Open the back end on a thread."""
        return cls(await asyncio.to_thread(open_backend))

    @property
    def capabilities(self) -> Capabilities:
        return self._below.capabilities

    @property
    def cluster_state(self) -> State:
        """As the back end below knows."""
        return self._below.cluster_state

    def add_state_listener(self, listener: StateListener) -> None:
        """Call listener on this event loop with each new state from now on, until it is removed."""
        self._below.add_state_listener(self._state_listeners.add(State, "", listener))

    def remove_state_listener(self, listener: StateListener) -> None:
        """Stop calling listener; one that was not added is ignored."""
        self._below.remove_state_listener(self._state_listeners.remove(State, "", listener))

    def group(self, name: str) -> AioGroupMembership:
        if name not in self._groups:
            self._groups[name] = _AioGroup(self._below.group(name))
        return self._groups[name]

    def election(self, service: str) -> AioLeaderElection:
        if service not in self._elections:
            self._elections[service] = _AioElection(self._below.election(service))
        return self._elections[service]

    @property
    def storage(self) -> AioStorage:
        return self._storage

    @property
    def listeners(self) -> AioListenerRegistry:
        return self._registry

    async def close(self) -> None:
        await asyncio.to_thread(self._below.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()
