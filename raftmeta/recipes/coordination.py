"""KIP-30's interfaces as attributes of a store: node.group("brokers"), node.election("controller"), node.storage.

Mixed into raftmeta.Node, raftmeta.Client and their asyncio faces, which thereby are back ends in the sense of
interfaces.Backend. It decides that all handles of one name share a part (recipes/handles), and that all parts end with
their store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from typing import Any, cast

import raftmeta.recipes.blocking as blocking
from raftmeta.errors import InvalidArgument
from raftmeta.interfaces import Capabilities, Owner, State, StateListener
from raftmeta.recipes.deadline import DEFAULT_TTL_S, Deadline
from raftmeta.recipes.election import Election
from raftmeta.recipes.face import Face, run
from raftmeta.recipes.face_blocking import BlockingFace
from raftmeta.recipes.followed import Followed
from raftmeta.recipes.group import Group
from raftmeta.recipes.handles import Parts, handle_of
from raftmeta.recipes.part import Part, face_of
from raftmeta.recipes.places import TUNE_GIVE_BACK_S
from raftmeta.recipes.registry import Registry
from raftmeta.recipes.states import States
from raftmeta.recipes.storage import Storage
from raftmeta.recipes.twin import twin_of

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
    group_coordination=True,
    # Leases expire late, not early: the lease clock stands still while no leader is confirmed, and an expiry is
    # proposed after the keep-alives that wait.
    ttl_precision_s=2.0,
)


def life_of(name: str | None) -> Owner:
    """The owner of one life of a client: a later one of the same name succeeds it. None: nobody does."""
    if name is not None and not (isinstance(name, str) and name):
        raise InvalidArgument(f"owner: must be a str that is not empty, not {name!r}", field="owner")
    life = int.from_bytes(os.urandom(7), "big")
    return Owner(f"client-{life:x}" if name is None else f"client {name}", life, 0)


class _Coordinated:
    """The base of both faces: parts and state listeners, which are made when they are first asked for."""

    @property
    def capabilities(self) -> Capabilities:
        """The promises of this back end."""
        return CAPABILITIES

    @property
    def cluster_state(self) -> State:
        """Whether the cluster can be asked, as this process knows; asks nobody."""
        state: State = cast(Any, self).look_at_state()[0]
        return state

    def add_state_listener(self, listener: StateListener) -> None:
        """Call listener with each new state (interfaces.State) from now on, until it is removed."""
        self._states_here().add(listener)

    def remove_state_listener(self, listener: StateListener) -> None:
        """Stop calling listener; one that was not added is ignored."""
        self._states_here().remove(listener)

    def _recipe_face(self) -> Face:
        raise NotImplementedError

    def _states_here(self) -> States:
        found = vars(self).get("_states")
        if found is None:  # setdefault is one step also for two threads
            found = vars(self).setdefault("_states", States(self._recipe_face(), cast(Any, self).look_at_state))
        return cast(States, found)

    def _parts_here(self) -> Parts:
        # setdefault is one step also for two threads: no lock is needed to make the object that holds the lock.
        return cast(Parts, vars(self).setdefault("_parts", Parts()))

    def _handle(self, kind: str, name: str, ttl_s: float, make: Callable[[], Part]) -> Any:
        """A new handle of the part of this kind and name, which is made if nobody has it open."""
        parts = self._parts_here()

        def made() -> Part:
            part = make()
            run(part.init(self._recipe_face()))  # asks nobody
            return part

        return handle_of(parts, kind, name, lambda: parts.get(kind, name, ttl_s, made))

    async def _end_parts(self, timeout_s: float) -> None:
        states = vars(self).get("_states")
        if states is not None:
            states.close()
        deadline = Deadline(min(timeout_s, TUNE_GIVE_BACK_S))
        for part in self._parts_here().take_all():
            if isinstance(part, Followed):
                await part.close(timeout_s=cast(float, deadline.left_s()))
            else:
                await part.close()


class Coordinated(_Coordinated):
    """The four interfaces of a blocking store."""

    def group(self, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> blocking.Group:
        """A handle of the group of this name; closing it ends what was done through it, and nothing else.

        ttl_s: how many seconds a silent member stays; the same for all handles that are open.
        """
        return cast(blocking.Group, self._twin("group", name, ttl_s, lambda: Group(name, ttl_s=ttl_s)))

    def election(self, service: str, *, ttl_s: float = DEFAULT_TTL_S) -> blocking.Election:
        """A handle of the election of this service; closing it ends what was done through it, and nothing else.

        ttl_s: how many seconds a silent leader keeps the lead; the same for all handles that are open.
        """
        return cast(blocking.Election, self._twin("election", service, ttl_s, lambda: Election(service, ttl_s=ttl_s)))

    @property
    def storage(self) -> blocking.Storage:
        """KIP-30 Storage over the keys of this store: a handle, to be closed by itself."""
        return cast(blocking.Storage, self._twin("storage", "", 0.0, Storage))

    @property
    def listeners(self) -> blocking.Registry:
        """KIP-30 Listener Registry over the keys of this store: a handle, to be closed by itself."""
        return cast(blocking.Registry, self._twin("listener registry", "", 0.0, Registry))

    def _recipe_face(self) -> Face:
        return BlockingFace(cast(Any, self))

    def _twin(self, kind: str, name: str, ttl_s: float, make: Callable[[], Part]) -> Any:
        return twin_of(self._handle(kind, name, ttl_s, make))

    def close_parts(self, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """Leave, resign and stop listening, before the store is closed; timeout_s: at most, and a second at most."""
        run(self._end_parts(timeout_s))


class AioCoordinated(_Coordinated):
    """The four interfaces of a store on asyncio."""

    def group(self, name: str, *, ttl_s: float = DEFAULT_TTL_S) -> Group:
        """As Coordinated.group."""
        return cast(Group, self._handle("group", name, ttl_s, lambda: Group(name, ttl_s=ttl_s)))

    def election(self, service: str, *, ttl_s: float = DEFAULT_TTL_S) -> Election:
        """As Coordinated.election."""
        return cast(Election, self._handle("election", service, ttl_s, lambda: Election(service, ttl_s=ttl_s)))

    @property
    def storage(self) -> Storage:
        """KIP-30 Storage over the keys of this store: a handle, to be closed by itself."""
        return cast(Storage, self._handle("storage", "", 0.0, Storage))

    @property
    def listeners(self) -> Registry:
        """KIP-30 Listener Registry over the keys of this store: a handle, to be closed by itself."""
        return cast(Registry, self._handle("listener registry", "", 0.0, Registry))

    def _recipe_face(self) -> Face:
        return face_of(self)

    async def close_once(self, closing: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Begin closing, or wait for the task that began; that one goes on when a caller is cancelled."""
        import asyncio  # loaded by whoever has an event loop

        begun = vars(self).get("_closing")
        if begun is None or (begun.done() and (begun.cancelled() or begun.exception() is not None)):
            begun = vars(self)["_closing"] = asyncio.get_running_loop().create_task(closing())
        await asyncio.shield(begun)

    async def close_parts(self, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """As Coordinated.close_parts."""
        await self._end_parts(timeout_s)
