"""The store as recipes need it: the verbs of raftmeta.Node, as far as they use them.

    Verbs       each verb with its arguments, as a recipe awaits it: the only place where they are written
    AioStore    Verbs and watch, on asyncio: raftmeta.aio.Node, raftmeta.aio.Client
    Store       the same verbs and watch for callers that may block: raftmeta.Node, raftmeta.Client

The types are structural: a store need not know of them. Contracts and errors are those of raftmeta.Node. A store may
have an attribute `owner` (interfaces.Owner); one without gets an owner of its own, which no later life succeeds. It may
have a true attribute `has_state`: its local reads come from a copy in this process, and never go back to an older
revision. It may have `capabilities`: without fencing, what is held on it has no fence.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any, Protocol, SupportsInt

from raftmeta.operations import CompareOperator, Fence, Key, KeyRecord, Operation, RangeResult
from raftmeta.results import TxnReply, WatchBatch, WatchReset

__all__ = ["AioLease", "AioStore", "AioWatch", "LeaseBase", "Store", "StoreLease", "StoreWatch", "Verbs", "Written"]


class Written(SupportsInt, Protocol):
    """The answer of a write: an integer by its revision. result: of the operation, as raftmeta.Revision has it."""

    @property
    def result(self) -> Any: ...


class LeaseBase(Protocol):
    """A lease that the store keeps alive by itself until it is revoked or lost."""

    @property
    def id(self) -> int: ...
    def held(self) -> bool: ...
    def remaining_s(self) -> float: ...


class AioLease(LeaseBase, Protocol):
    """A lease whose end may be awaited."""

    async def revoke(self, *, timeout_s: float | None = 5.0) -> None: ...


class AioWatch(Protocol):
    """A watch that one task consumes; entering its context opens it."""

    def batches(self) -> AsyncIterator[WatchBatch | WatchReset]: ...
    async def close(self) -> None: ...
    async def __aenter__(self) -> Any: ...


class Verbs(Protocol):
    """The questions that a recipe may ask a store, on both faces."""

    async def get(
        self, key: Key, *, revision: int = 0, local: bool = False, timeout_s: float | None = 5.0
    ) -> KeyRecord | None: ...
    async def range(
        self,
        start: Key = "",
        end: Key = "",
        *,
        prefix: Key | None = None,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count_only: bool = False,
        local: bool = False,
        timeout_s: float | None = 5.0,
    ) -> RangeResult: ...
    async def create(
        self, key: Key, value: bytes | str, *, fence: Fence | None = None, timeout_s: float | None = 5.0
    ) -> Written: ...
    async def update(
        self,
        key: Key,
        value: bytes | str | None,
        *,
        expected_revision: int = 0,
        fence: Fence | None = None,
        timeout_s: float | None = 5.0,
    ) -> Written: ...
    async def delete(
        self,
        key: Key,
        *,
        expected_revision: int = 0,
        must_exist: bool = False,
        fence: Fence | None = None,
        timeout_s: float | None = 5.0,
    ) -> Written: ...
    async def add(self, key: Key, number: int = 1) -> Written: ...
    async def txn(
        self,
        compares: Iterable[CompareOperator] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        fence: Fence | None = None,
        timeout_s: float | None = 5.0,
    ) -> TxnReply: ...
    async def lease(
        self, ttl_s: float, *, on_lost: Callable[[Any], object] | None = None, timeout_s: float | None = 5.0
    ) -> AioLease: ...


class AioStore(Verbs, Protocol):
    """The verbs on asyncio."""

    def watch(
        self,
        key: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int = 0,
        reset: bool = False,
        timeout_s: float | None = None,
    ) -> AioWatch: ...


# --- for callers that may block ---------------------------------------------------------------------------------------


class StoreLease(LeaseBase, Protocol):
    """A lease whose end may be waited for."""

    def revoke(self, *, timeout_s: float | None = 5.0) -> None: ...


class StoreWatch(Protocol):
    """A watch that one thread consumes and any thread may close."""

    def batches(self) -> Iterator[WatchBatch | WatchReset]: ...
    def close(self) -> None: ...


class Store(Protocol):
    """The verbs as blocking calls, with the arguments of Verbs.

    watch takes a callback and on_end besides, which the store calls one call at a time (recipes/face_blocking).
    """

    get: Callable[..., KeyRecord | None]
    range: Callable[..., RangeResult]
    create: Callable[..., Written]
    update: Callable[..., Written]
    delete: Callable[..., Written]
    add: Callable[..., Written]
    txn: Callable[..., TxnReply]
    lease: Callable[..., StoreLease]
    watch: Callable[..., StoreWatch]
