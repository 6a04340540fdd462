"""KIP-30's interfaces as attributes of a store: node.group("brokers"), node.election("controller"), node.storage.

Mixed into raftmeta.Node, raftmeta.Client and their asyncio faces, which thereby are back ends in the sense of
interfaces.Backend. It decides that all handles of one name share a part (recipes/handles), and that all parts end with
their store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast

import raftmeta.recipes.blocking as blocking
import raftmeta.recipes.election as election
import raftmeta.recipes.group as group
import raftmeta.recipes.registry as registry
import raftmeta.recipes.storage as storage
from raftmeta.errors import InvalidArgument
from raftmeta.interfaces import Capabilities, Owner, State, StateListener
from raftmeta.recipes.face import AioFace, BlockingFace, Face
from raftmeta.recipes.handles import Parts, handle_of
from raftmeta.recipes.held import TUNE_GIVE_BACK_S
from raftmeta.recipes.line import DEFAULT_TTL_S
from raftmeta.recipes.states import States
from raftmeta.recipes.waiting import Deadline

__all__ = ["AioCoordinated", "Coordinated", "life_of"]

CAPABILITIES = Capabilities(
    fencing=True,
    epochs=True,
    immediate_rejoin=True,
    lost_in_time=True,
    ordered_listeners=True,
    resumable_watches=True,
    compare_and_set=True,
    multi=True,
    linearizable_reads=True,
    durable=True,
    exactly_once=True,
    # Leases expire late, not early: the lease clock stands still while no leader is confirmed, and an expiry is
    # proposed after the keep-alives that wait.
    ttl_precision_s=2.0,
)

Kept = TypeVar("Kept")


def life_of(name: str | None) -> Owner:
    """The owner of one life of a client: a later one of the same name succeeds it. None: nobody does."""
    if name is not None and not (isinstance(name, str) and name):
        raise InvalidArgument(f"owner: must be a str that is not empty, not {name!r}", field="owner")
    life = int.from_bytes(os.urandom(7), "big")
    return Owner(f"client-{life:x}" if name is None else f"client {name}", life, 0)


def _parts_of(store: Any) -> Parts:
    # setdefault is one step also for two threads: no lock is needed to make the object that holds the lock.
    return cast(Parts, vars(store).setdefault("_parts", Parts()))


def _handle(store: Any, kind: str, name: str, ttl_s: float, make: Callable[[], Kept]) -> Kept:
    """A new handle of the part of this kind and name, which is made if nobody has it open."""
    parts = _parts_of(store)
    return cast(Kept, handle_of(parts, kind, name, lambda: parts.get(kind, name, ttl_s, make)))


def _states_of(store: Any, face: Callable[[], Face]) -> States:
    found = vars(store).get("_states")
    if found is None:  # setdefault is one step also for two threads
        found = vars(store).setdefault("_states", States(face(), store.look_at_state))
    return cast(States, found)


def _close_states(store: Any) -> None:
    found = vars(store).get("_states")
    if found is not None:
        found.close()


class Coordinated:
    """The four interfaces of a blocking store."""

    @property
    def capabilities(self) -> Capabilities:
        """What this back end promises."""
        return CAPABILITIES

    def group(self, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> blocking.Group:
        """A handle of the group of this name; closing it ends what was done through it, and nothing else.

        ttl_s: how many seconds a silent member stays; the same for all handles that are open.
        """
        return self._part("group", name, ttl_s, lambda: blocking.Group(name, ttl_s=ttl_s))

    def election(self, service: str, *, ttl_s: float = DEFAULT_TTL_S) -> blocking.Election:
        """A handle of the election of this service; closing it ends what was done through it, and nothing else.

        ttl_s: how many seconds a silent leader keeps the lead; the same for all handles that are open.
        """
        return self._part("election", service, ttl_s, lambda: blocking.Election(service, ttl_s=ttl_s))

    @property
    def storage(self) -> blocking.Storage:
        """KIP-30 Storage over the keys of this store: a handle, to be closed by itself."""
        return self._part("storage", "", 0.0, blocking.Storage)

    @property
    def listeners(self) -> blocking.Registry:
        """KIP-30 Listener Registry over the keys of this store: a handle, to be closed by itself."""
        return self._part("listener registry", "", 0.0, blocking.Registry)

    @property
    def cluster_state(self) -> State:
        """Whether the cluster can be asked, as this process knows; asks nobody."""
        state: State = cast(Any, self).look_at_state()[0]
        return state

    def add_state_listener(self, listener: StateListener) -> None:
        """Call listener with each new state (interfaces.State) from now on, until it is removed."""
        _states_of(self, lambda: BlockingFace(cast(Any, self))).add(listener)

    def remove_state_listener(self, listener: StateListener) -> None:
        """Stop calling listener; one that was not added is ignored."""
        _states_of(self, lambda: BlockingFace(cast(Any, self))).remove(listener)

    def _part(self, kind: str, name: str, ttl_s: float, make: Callable[[], Kept]) -> Kept:
        def made() -> Kept:
            part = make()
            cast(Any, part).init(self)
            return part

        return _handle(self, kind, name, ttl_s, made)

    def close_parts(self, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """Leave, resign and stop listening, before the store is closed; timeout_s: at most, and a second at most."""
        _close_states(self)
        deadline = Deadline(min(timeout_s, TUNE_GIVE_BACK_S))
        for part in _parts_of(self).take_all():
            if isinstance(part, blocking.Group | blocking.Election):
                part.close(timeout_s=cast(float, deadline.left_s()))
            else:
                part.close()


class AioCoordinated:
    """The four interfaces of a store on asyncio."""

    @property
    def capabilities(self) -> Capabilities:
        """What this back end promises."""
        return CAPABILITIES

    def group(self, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> group.Group:
        """As Coordinated.group."""
        return self._part("group", name, ttl_s, lambda: group.Group(name, ttl_s=ttl_s))

    def election(self, service: str, *, ttl_s: float = DEFAULT_TTL_S) -> election.Election:
        """As Coordinated.election."""
        return self._part("election", service, ttl_s, lambda: election.Election(service, ttl_s=ttl_s))

    @property
    def storage(self) -> storage.Storage:
        """KIP-30 Storage over the keys of this store: a handle, to be closed by itself."""
        return self._part("storage", "", 0.0, storage.Storage)

    @property
    def listeners(self) -> registry.Registry:
        """KIP-30 Listener Registry over the keys of this store: a handle, to be closed by itself."""
        return self._part("listener registry", "", 0.0, registry.Registry)

    @property
    def cluster_state(self) -> State:
        """Whether the cluster can be asked, as this process knows; asks nobody."""
        state: State = cast(Any, self).look_at_state()[0]
        return state

    def add_state_listener(self, listener: StateListener) -> None:
        """Call listener with each new state (interfaces.State) from now on, until it is removed."""
        _states_of(self, lambda: AioFace(cast(Any, self))).add(listener)

    def remove_state_listener(self, listener: StateListener) -> None:
        """Stop calling listener; one that was not added is ignored."""
        _states_of(self, lambda: AioFace(cast(Any, self))).remove(listener)

    def _part(self, kind: str, name: str, ttl_s: float, make: Callable[[], Kept]) -> Kept:
        def made() -> Kept:
            part = make()
            cast(Any, part).begin(AioFace(cast(Any, self)))
            return part

        return _handle(self, kind, name, ttl_s, made)

    async def close_once(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin closing, or wait for the task that began; that one goes on when a caller is cancelled."""
        import asyncio  # loaded by whoever has an event loop

        begun = vars(self).get("_closing")
        if begun is None or (begun.done() and (begun.cancelled() or begun.exception() is not None)):
            begun = vars(self)["_closing"] = asyncio.get_running_loop().create_task(closing())
        await asyncio.shield(begun)

    async def close_parts(self, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """As Coordinated.close_parts."""
        _close_states(self)
        deadline = Deadline(min(timeout_s, TUNE_GIVE_BACK_S))
        for part in _parts_of(self).take_all():
            if isinstance(part, group.Group | election.Election):
                await part.close(timeout_s=cast(float, deadline.left_s()))
            else:
                await part.close()
