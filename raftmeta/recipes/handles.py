"""Handles of a store's interfaces: node.group("brokers") gives one, and closing it ends what was done through it.

Two components of one process may use the same group. Each asks its store for a handle. All handles of one name share
one part (a group.Group, an election.Election ...): its members, its candidates and its copy of the keys. close() of a
handle leaves with the members that joined through it, resigns its candidates, removes its listeners and refuses every
later call. The work of other handles stays. The last open handle closes the part if nobody has anything left in it, and
the next handle opens it again. A handle that is collected is not closed: its work stays until the store is closed.

It decides whose a listener, a member or a candidate is. Everything else it leaves to the part.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import weakref
from collections.abc import AsyncIterator, Callable
from typing import Any, TypeVar

from raftmeta.errors import InvalidArgument, NodeClosed
from raftmeta.interfaces import AioHeld, Data
from raftmeta.recipes.election import Election
from raftmeta.recipes.group import Group
from raftmeta.recipes.places import TUNE_GIVE_BACK_S
from raftmeta.recipes.registry import Registry
from raftmeta.recipes.storage import Storage

__all__ = ["Parts", "Shared", "handle_of"]

T = TypeVar("T")


class Shared:
    """One part, and the handles that share it."""

    def __init__(self, part: Any, ttl_s: float) -> None:
        self.part = part
        self.ttl_s = ttl_s
        self.handles: weakref.WeakSet[Any] = weakref.WeakSet()
        self._lock = threading.RLock()  # a signal handler may close the store in the middle of a call
        self._added: dict[tuple[Any, ...], list[tuple[Any, Any]]] = {}  # by verb and key: (whose, listener)

    def added(self, whose: object, what: tuple[Any, ...]) -> None:
        """what: the verb, the key if it has one, and the listener, which need not be hashable."""
        *place, listener = what
        with self._lock:
            kept = self._added.setdefault(tuple(place), [])
            if (whose, listener) not in kept:
                kept.append((whose, listener))

    def removed(self, whose: object, what: tuple[Any, ...]) -> bool:
        """True: nobody else wants it. One who has not added it removes it for all: it was added by a former handle."""
        *place, listener = what
        with self._lock:
            kept = self._added.pop(tuple(place), [])
            is_own = (whose, listener) in kept
            left = [one for one in kept if one[1] != listener or (is_own and one[0] is not whose)]
            if left:
                self._added[tuple(place)] = left
            return all(other != listener for _, other in left)

    def all_of(self, whose: object) -> list[tuple[Any, ...]]:
        with self._lock:
            return [(*place, what) for place, kept in self._added.items() for other, what in kept if other is whose]

    def is_unused(self) -> bool:
        """Whether nobody has a member, a candidate or a listener in it, nor an open handle."""
        return self.part.is_idle and not self._added and all(handle._is_closed for handle in list(self.handles))


class Parts:
    """The parts of one store that are open, by kind and name."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal handler may close the store in the middle of a call
        self._kept: dict[tuple[str, str], Shared] = {}
        self._is_closed = False

    def get(self, kind: str, name: str, ttl_s: float, make: Callable[[], Any]) -> Shared:
        with self._lock:
            shared = self._kept.get((kind, name))
            if shared is None:
                shared = self._kept[kind, name] = Shared(make(), ttl_s)
            if (
                self._is_closed
            ):  # also by a signal handler, since the lines above: the store refuses whatever it is asked
                raise NodeClosed(f"the {kind} {name!r} is closed with its store")
        if shared.ttl_s != ttl_s:
            raise InvalidArgument(f"ttl_s: the {kind} {name!r} is in use with {shared.ttl_s:g}", field="ttl_s")
        return shared

    def drop_unused(self, kind: str, name: str) -> Any:
        """The part, to be closed, if nobody uses it; a later handle opens another one."""
        with self._lock:
            shared = self._kept.get((kind, name))
            if shared is None or not shared.is_unused():
                return None
            self._kept.pop((kind, name), None)
            return shared.part

    def take_all(self) -> list[Any]:
        """Everything, to be closed; nothing is made any more."""
        with self._lock:
            self._is_closed = True
            kept, self._kept = [shared.part for shared in self._kept.values()], {}
        return kept


# --- a handle ---------------------------------------------------------------------------------------------------------


class _Handle:
    """The base of all handles. The public names of a part, but those below, are delegated to it (_delegating)."""

    def _bind_to(self, parts: Parts, kind: str, name: str, find: Callable[[], Shared]) -> None:
        self._parts = parts
        self._kind = kind
        self._name = name
        self._find = find
        self._is_closed = False
        self._done: list[Any] = []  # holds of members, names of candidates
        find().handles.add(self)

    def __repr__(self) -> str:
        return f"<handle of {self._kind} {self._name!r}{', closed' if self._is_closed else ''}>"

    @property
    def _shared(self) -> Shared:
        """Opened again if it was closed with the handles of others."""
        if self._is_closed:
            raise NodeClosed(f"this handle of the {self._kind} {self._name!r} is closed: ask for another one")
        shared = self._find()
        shared.handles.add(self)
        return shared

    @property
    def _part(self) -> Any:
        return self._shared.part

    def _end_use(self) -> Shared | None:
        """None: it is closed already, or its store is."""
        if self._is_closed:
            return None
        try:
            shared = self._shared
        except NodeClosed:
            shared = None
        self._is_closed = True
        return shared

    def _own_ids(self, part: Any) -> list[str]:
        """The ids taken through this handle, for part.release."""
        return []

    async def close(self, *, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """End what was done through this handle; other handles of the same name go on.

        timeout_s: seconds for giving back; what is not given back by then goes with its lease.
        """
        shared = self._end_use()
        if shared is None:
            return
        for verb, *arguments in shared.all_of(self):
            if shared.removed(self, (verb, *arguments)):
                await getattr(shared.part, f"remove_{verb}")(*arguments)
        ids = self._own_ids(shared.part)
        if ids:
            await shared.part.release(ids, timeout_s=timeout_s)
        part = self._parts.drop_unused(self._kind, self._name)
        if part is not None:
            await part.close()


# --- delegation -------------------------------------------------------------------------------------------------------


def _delegating(name: str, original: Any) -> Any:
    """The attribute of a handle that stands for this one of the part."""
    if isinstance(original, property):
        return property(lambda self: getattr(self._part, name), doc=original.__doc__)
    verb = name.split("_", 1)[-1]
    if name.startswith("add_") and name.endswith("listener"):

        async def add(self: Any, *arguments: Any, **options: Any) -> None:
            arguments = _by_position(original, arguments, options)
            shared = self._shared
            await getattr(shared.part, name)(*arguments)
            shared.added(self, (verb, *arguments))

        return functools.wraps(original)(add)
    if name.startswith("remove_") and name.endswith("listener"):

        async def remove(self: Any, *arguments: Any, **options: Any) -> None:
            arguments = _by_position(original, arguments, options)
            shared = self._shared
            if shared.removed(self, (verb, *arguments)):
                await getattr(shared.part, name)(*arguments)

        return functools.wraps(original)(remove)

    def passed(self: Any, *arguments: Any, **options: Any) -> Any:
        return getattr(self._part, name)(*arguments, **options)

    return functools.wraps(original)(passed)


def _by_position(original: Any, arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    return inspect.signature(original).bind(None, *arguments, **options).args[1:] if options else arguments


def _delegates(cls: type[T]) -> type[T]:
    """Class decorator: every public name of the part that the handle does not define itself is the part's."""
    own = {*vars(cls), "close", "init", "register"}
    for name in dir(cls):
        if not name.startswith("_") and name not in own:
            original = inspect.getattr_static(cls, name)
            if callable(original) or isinstance(original, property):
                setattr(cls, name, _delegating(name, original))
    return cls


# --- the four ---------------------------------------------------------------------------------------------------------


@_delegates
class GroupHandle(_Handle, Group):
    """A handle of a group."""

    async def join(self, *arguments: Any, **options: Any) -> AioHeld:
        held: AioHeld = await self._part.join(*arguments, **options)
        self._done.append(held)
        return held

    def _own_ids(self, part: Group) -> list[str]:
        return part.ids_of(self._done)


@_delegates
class ElectionHandle(_Handle, Election):
    """A handle of an election."""

    async def nominate(self, candidate: str, *arguments: Any, **options: Any) -> bool:
        self._done.append(candidate)
        is_leader: bool = await self._part.nominate(candidate, *arguments, **options)
        return is_leader

    async def terms(self, candidate: str, data: Data = b"") -> AsyncIterator[AioHeld]:
        part = self._part
        self._done.append(candidate)
        try:
            async with contextlib.aclosing(part.terms(candidate, data)) as leads:
                async for lead in leads:
                    yield lead
        finally:
            with contextlib.suppress(ValueError):
                self._done.remove(candidate)

    def _own_ids(self, part: Election) -> list[str]:
        return list(self._done)


@_delegates
class StorageHandle(_Handle, Storage):
    """A handle of the storage."""


@_delegates
class RegistryHandle(_Handle, Registry):
    """A handle of the listener registry."""


HANDLES: dict[type, type] = {
    Group: GroupHandle,
    Election: ElectionHandle,
    Storage: StorageHandle,
    Registry: RegistryHandle,
}


def handle_of(parts: Parts, kind: str, name: str, find: Callable[[], Shared]) -> Any:
    """A new handle of the part that find opens."""
    made: Any = object.__new__(HANDLES[type(find().part)])
    made._bind_to(parts, kind, name, find)
    return made
