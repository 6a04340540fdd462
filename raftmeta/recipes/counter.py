"""A number that all share: every add is applied once, whatever becomes of the connection or the leader."""

from __future__ import annotations

from raftmeta.recipes.recipe import Face, face_of, prefix_of
from raftmeta.recipes.store import AioStore

__all__ = ["Counter"]


class Counter:
    """A signed 64-bit number that begins at 0."""

    def __init__(self, store: AioStore | Face, name: str) -> None:
        self._face = face_of(store)
        self._key = prefix_of("counters", name) + "number"

    async def add(self, number: int = 1) -> int:
        """Add number, which may be negative, and return the sum. Raises CommandRefused: out of 64 bits."""
        return int((await self._face.verbs.add(self._key, number)).result)

    async def get(self) -> int:
        """The number now."""
        record = await self._face.verbs.get(self._key)
        return 0 if record is None else int.from_bytes(record.value, "big", signed=True)
