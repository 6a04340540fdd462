"""Barrier: everybody waits until it is lifted."""

from __future__ import annotations

from raftmeta.errors import KeyExists
from raftmeta.recipes.recipe import Deadline, Face, face_of, prefix_of, wait_until
from raftmeta.recipes.store import AioStore

__all__ = ["Barrier"]


class Barrier:
    """One key: while it is there, who waits is held back. It has no lease and outlives whoever set it."""

    def __init__(self, store: AioStore | Face, name: str) -> None:
        self._face = face_of(store)
        self._key = prefix_of("barriers", name) + "set"

    async def set(self) -> None:
        """Hold back everybody who waits from now on. Idempotent."""
        try:
            await self._face.verbs.create(self._key, b"")
        except KeyExists:
            return

    async def lift(self) -> None:
        """Let all go on. Idempotent."""
        await self._face.verbs.delete(self._key)

    async def wait(self, *, timeout_s: float | None = None) -> bool:
        """Wait until it is lifted, or is not set at all; False: timeout_s seconds passed."""
        return await wait_until(self._face, lambda records: not records, key=self._key, deadline=Deadline(timeout_s))
