"""The asyncio face of a back end that only blocks: each call on a thread, listeners back on the event loop.

It decides nothing about the contracts: they are those of the back end below. For plug-ins without a face of their own.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

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
    GroupChange,
    GroupListener,
    GroupMembership,
    Held,
    KeySetChange,
    KeySetListener,
    LeaderChange,
    LeaderElection,
    LeaderListener,
    ListenerRegistry,
    State,
    StateListener,
    Storage,
    ValueChange,
    ValueListener,
    checked_callback,
    listener_call,
)
from raftmeta.operations import Fence

__all__ = ["AioOverThreads"]

P = ParamSpec("P")
T = TypeVar("T")

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


def _on_thread(verb: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """The same method of the blocking object below, on a thread. A fence= is the held object below as well.

    The back end below then refuses by itself the fence that it knows to be lost, as it does for its blocking callers.
    """

    @functools.wraps(verb)
    async def method(self: Any, /, *arguments: P.args, **options: P.kwargs) -> T:
        found = getattr(self._below, verb.__name__)
        below = {name: value._held if isinstance(value, _AioHeld) else value for name, value in options.items()}
        given: T = await asyncio.to_thread(found, *arguments, **below)
        return given

    vars(method).pop("__isabstractmethod__", None)  # copied with the name and the docstring; this one is not abstract
    return method


class _OverThreads:
    """One of the four, over the same one that only blocks."""

    def __init__(self, below: Any) -> None:
        self._below = below
        self._listeners = _Listeners()


class _AioGroup(_OverThreads, AioGroupMembership):
    init = _on_thread(GroupMembership.init)
    leave = _on_thread(GroupMembership.leave)
    membership_list = _on_thread(GroupMembership.membership_list)
    membership = _on_thread(GroupMembership.membership)
    members = _on_thread(GroupMembership.members)
    close = _on_thread(GroupMembership.close)

    @property
    def group(self) -> str:
        return str(self._below.group)

    async def join(
        self, id: str, data: Data = b"", *, on_lost: Callable[[AioHeld], object] | None = None, **options: Any
    ) -> AioHeld:
        told = self._listeners.once(on_lost)
        return _AioHeld(await asyncio.to_thread(self._below.join, id, data, on_lost=told, **options))

    async def add_listener(self, listener: GroupListener, **options: Any) -> None:
        await asyncio.to_thread(self._below.add_listener, self._listeners.add(GroupChange, "", listener), **options)

    async def remove_listener(self, listener: GroupListener) -> None:
        await asyncio.to_thread(self._below.remove_listener, self._listeners.remove(GroupChange, "", listener))


class _AioElection(_OverThreads, AioLeaderElection):
    init = _on_thread(LeaderElection.init)
    get_leader = _on_thread(LeaderElection.get_leader)
    leader = _on_thread(LeaderElection.leader)
    resign = _on_thread(LeaderElection.resign)
    withdraw = _on_thread(LeaderElection.withdraw)
    close = _on_thread(LeaderElection.close)

    @property
    def service(self) -> str:
        return str(self._below.service)

    async def nominate(
        self,
        candidate: str,
        data: Data = b"",
        *,
        on_elected: Callable[[AioHeld], object] | None = None,
        on_lost: Callable[[AioHeld], object] | None = None,
        **options: Any,
    ) -> bool:
        told = {"on_elected": self._listeners.once(on_elected), "on_lost": self._listeners.once(on_lost)}
        return bool(await asyncio.to_thread(self._below.nominate, candidate, data, **told, **options))

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

    async def add_listener(self, listener: LeaderListener, **options: Any) -> None:
        await asyncio.to_thread(self._below.add_listener, self._listeners.add(LeaderChange, "", listener), **options)

    async def remove_listener(self, listener: LeaderListener) -> None:
        await asyncio.to_thread(self._below.remove_listener, self._listeners.remove(LeaderChange, "", listener))


class _AioStorage(_OverThreads, AioStorage):
    init = _on_thread(Storage.init)
    get = _on_thread(Storage.get)
    put = _on_thread(Storage.put)
    update = _on_thread(Storage.update)
    delete = _on_thread(Storage.delete)
    children = _on_thread(Storage.children)
    multi = _on_thread(Storage.multi)
    close = _on_thread(Storage.close)

    def fetch(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Awaitable[bytes | None]:
        return asyncio.wrap_future(self._below.fetch(key, local=local, timeout_s=timeout_s))


class _AioRegistry(_OverThreads, AioListenerRegistry):
    init = _on_thread(ListenerRegistry.init)
    close = _on_thread(ListenerRegistry.close)

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
