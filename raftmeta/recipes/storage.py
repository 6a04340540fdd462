"""KIP-30 Storage on a store: the user's own keys, with the KIP's rule that put creates and update replaces.

The keys of the recipes (recipes/keys.ROOT) are not among them: they cannot be written here and are not listed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence

from raftmeta.errors import InvalidArgument
from raftmeta.interfaces import AioStorage, Data, FenceLike, StorageOperation, Stored
from raftmeta.operations import Create, Delete, Update
from raftmeta.recipes.recipe import Part, check_key, fence_of, key_set

__all__ = ["Storage"]


class Storage(Part, AioStorage):
    """The keys and values of a user, as coroutines."""

    def __init__(self) -> None:
        super().__init__("storage")

    def fetch(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Awaitable[bytes | None]:
        import asyncio  # loaded by whoever has an event loop

        return asyncio.ensure_future(self.fetched(key, local=local, timeout_s=timeout_s))

    async def fetched(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> bytes | None:
        """Give the future of fetch its value."""
        found = await self.get(key, local=local, timeout_s=timeout_s)
        return None if found is None else found.data

    async def get(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Stored | None:
        record = await self.face.read(check_key(key), local=local, timeout_s=timeout_s)
        return None if record is None else Stored(record.value, record.mod_revision)

    async def put(self, key: str, data: Data, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0) -> int:
        return int(await self.face.verbs.create(check_key(key), data, fence=fence_of(fence), timeout_s=timeout_s))

    async def update(
        self,
        key: str,
        data: Data,
        *,
        expected_revision: int = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> int:
        written = await self.face.verbs.update(
            check_key(key), data, expected_revision=expected_revision, fence=fence_of(fence), timeout_s=timeout_s
        )
        return int(written)

    async def delete(
        self,
        key: str,
        *,
        expected_revision: int = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> None:
        await self.face.verbs.delete(
            check_key(key),
            expected_revision=expected_revision,
            must_exist=True,
            fence=fence_of(fence),
            timeout_s=timeout_s,
        )

    async def children(self, namespace: str, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        if namespace:
            check_key(namespace)
        found = await self.face.read_range(namespace, keys_only=True, local=local, timeout_s=timeout_s)
        return key_set(record.key for record in found.records)

    async def multi(
        self,
        operations: Sequence[StorageOperation],
        *,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> int:
        for position, operation in enumerate(operations):
            if not isinstance(operation, Create | Update | Delete):
                raise InvalidArgument(
                    f"operations[{position}]: must be Create, Update or Delete, not {type(operation).__name__}",
                    field=f"operations[{position}]",
                )
            check_key(operation.key)
        return (await self.face.verbs.txn(then=operations, fence=fence_of(fence), timeout_s=timeout_s)).revision

    async def close(self) -> None:
        self._end()
