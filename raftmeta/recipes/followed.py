"""Following the places below a prefix: what group and election share (recipes/recipe says what they see of it).

It decides when the mirror is opened and closed. It compares places with the mirror, so that a place is lost before any
listener is told of the change. The recipe decides which places there are, and what is told.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from raftmeta.interfaces import Data, listener_call
from raftmeta.operations import KeyRecord, RangeResult
from raftmeta.recipes.deadline import DEFAULT_TIMEOUT_S, Deadline
from raftmeta.recipes.face import Face
from raftmeta.recipes.held import Hold
from raftmeta.recipes.keys import Holder, name_in, part_of, to_bytes, unpack_holder
from raftmeta.recipes.listeners import Change, Listeners
from raftmeta.recipes.mirror import Mirror
from raftmeta.recipes.part import Part
from raftmeta.recipes.places import TUNE_GIVE_BACK_S, give_back_quietly, take_place, telling

__all__ = ["Followed"]

Listener = TypeVar("Listener")


class Followed(Part, ABC, Generic[Change, Listener]):
    """A part whose places are the keys below a prefix, and one mirror of them, opened when it is first needed.

    ttl_s: how many seconds a silent holder keeps its place. _mine: what this process has there, by id.
    """

    def __init__(self, title: str, prefix: str, ttl_s: float, kind: type[Change]) -> None:
        super().__init__(title)
        self._prefix = prefix
        self._ttl_s = ttl_s
        self._kind_of_change: type[Any] = kind
        self._mine: dict[str, Any] = {}
        self._checked: dict[bytes, Hold] = {}  # compared with the mirror, by key
        self._mirror: Mirror | None = None  # also while it is being opened
        self._is_open = False

    @property
    def is_idle(self) -> bool:  # type: ignore[override]
        return not self._mine

    def _set_up(self, face: Face) -> None:
        self._opening = face.mutex()
        self._listeners: Listeners[Change] = Listeners(face, self.failures, self._kind_of_change)

    # --- places -------------------------------------------------------------------------------------------------------
    def _place(self, id: str, data: Data, field: str) -> Hold:
        """The place of this id, not taken yet."""
        return Hold(self.face, self._prefix + part_of(id, field), id, to_bytes(data))

    def _telling(self, callback: Any, field: str) -> Callable[[Hold], None]:
        return telling(self.face, self.failures, callback, field)

    async def _take(self, place: Hold, deadline: Deadline, *, replaces: int = 0) -> None:
        """Take a place. replaces: the epoch of a hold of this life that was lost and may still be in the store."""
        await self._follow(timeout_s=deadline.left_s())
        await take_place(self.face, place, ttl_s=self._ttl_s, replaces=replaces, deadline=deadline)

    async def _keeps(self, place: Hold, *, is_wanted: bool = True) -> bool:
        """False: the part was closed, or the place is not wanted, and it was given back.

        Call it when whoever ends the place can see it: that one gives it back, or it is seen here that it has ended.
        """
        if self._is_closed or not is_wanted:
            await give_back_quietly(place)
            return False
        mirror, key = self._mirror, place.key.encode()
        assert mirror is not None, "a place is taken after the mirror was opened"
        with self._lock:
            self._checked[key] = place  # 1. news from now on are compared with it; 2. those before are in the mirror
        place.check_record(mirror.revision, mirror.records.get(key))
        return True

    @abstractmethod
    def _ended(self, mine: list[Any]) -> list[Hold]:
        """These of _mine end; the holds to give back."""

    async def release(self, ids: Iterable[str], *, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """End what is here by these ids; what is not given back in time goes with its lease."""
        with self._lock:
            mine = [mine for id in set(ids) if (mine := self._mine.pop(id, None)) is not None]
        await give_back_quietly(*self._ended(mine), timeout_s=timeout_s)

    async def close(self, *, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """timeout_s: seconds for giving back; what is not given back by then goes with its lease."""
        if not self._end():
            return
        self._listeners.close()
        await self.release(list(self._mine), timeout_s=timeout_s)
        if self._mirror is not None:  # not waiting for its opening: that may be the thread below a signal handler
            await self._mirror.close()

    # --- observing ----------------------------------------------------------------------------------------------------
    async def add_listener(self, listener: Listener, *, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> None:
        listener_call(self._kind_of_change, listener)  # refuse it before anything is read
        await self._follow(timeout_s=timeout_s)
        self._listeners.add(listener)

    async def remove_listener(self, listener: Listener) -> None:
        self._listeners.remove(listener)

    async def _known(self, *, keys_only: bool = False, local: bool, timeout_s: float | None) -> RangeResult:
        """All keys of this part. local: from the node's own state, or the mirror of who has none and follows them."""
        face, mirror = self.face, self._mirror
        if local and not face.has_state and self._is_open and mirror is not None:
            revision = mirror.revision  # first: the records are not older
            records = list(mirror.records.values())
            return RangeResult(len(records), records, revision=revision)
        return await face.read_range(self._prefix, keys_only=keys_only, local=local, timeout_s=timeout_s)

    def _holder_of(self, record: KeyRecord) -> Holder:
        """The holder of a place; the key tells the id, or the value does."""
        holder = unpack_holder(record.value)
        return holder._replace(id=holder.id or name_in(record.key, self._prefix))

    async def _follow(self, *, timeout_s: float | None = DEFAULT_TIMEOUT_S) -> Mirror:
        """On return every later change leads to _on_change."""
        async with self._opening:
            if not self._is_open:
                self._mirror = Mirror(self.face, self._on_news, prefix=self._prefix)
                await self._mirror.open(timeout_s=timeout_s)
                self._on_open(self._mirror)
                self._is_open = True
                if self._is_closed:  # meanwhile; close() has seen this mirror, or we see that it was called
                    await self._mirror.close()
                self._mirror.start()
            assert self._mirror is not None
            return self._mirror

    def _on_news(self, mirror: Mirror) -> None:
        """Costs what changed; after a gap a place may have come and gone."""
        for key in list(self._checked if mirror.coalesced else mirror.changes):
            place = self._checked.get(key)
            if place is not None:
                place.check_record(mirror.revision, mirror.records.get(key))
                with self._lock:
                    if place.is_over and self._checked.get(key) is place:
                        self._checked.pop(key, None)
        self._on_change(mirror)

    def _on_open(self, mirror: Mirror) -> None:
        """The mirror has been read, and no change was told yet."""

    @abstractmethod
    def _on_change(self, mirror: Mirror) -> None:
        """The mirror has changed."""
