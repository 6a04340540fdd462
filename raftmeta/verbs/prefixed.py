"""The verbs of a store over the keys below a prefix, for callers that block and for tasks.

They decide which part of a question and of its answer has keys: verbs/prefix changes those, and the store carries the
rest. They hold nothing: leases, members and rights are those of the whole store.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Self, TypeVar, cast

from raftmeta.bindings.verbs import Request
from raftmeta.errors import OutcomeTimeout
from raftmeta.members.plans import Change
from raftmeta.operations import Key, KeyRecord, RangeResult
from raftmeta.results import MemberStatus, WatchBatch, WatchReset
from raftmeta.verbs.asked import RangeAsked, WatchAsked
from raftmeta.verbs.awaited import AioVerbs
from raftmeta.verbs.blocking import Verbs
from raftmeta.verbs.lease import AioLease, Lease
from raftmeta.verbs.prefix import Prefix
from raftmeta.verbs.watch import AioWatch, Watch

__all__ = ["AioPrefixed", "AioPrefixedWatch", "Prefixed", "PrefixedWatch"]

Answer = TypeVar("Answer")


# --- for callers that block -------------------------------------------------------------------------------------------


class _Ticket:
    """An operation whose caller ran out of time."""

    def __init__(self, ticket: Any, prefix: Prefix) -> None:
        self._ticket = ticket
        self._prefix = prefix

    @property
    def is_done(self) -> bool:
        return bool(self._ticket.is_done)


class PendingResult(_Ticket):
    """OutcomeUnknown.ticket of a store below a prefix."""

    def result(self, timeout_s: float | None = 5.0) -> Any:
        """Go on waiting for the same operation and return what its call would have returned."""
        try:
            return self._prefix.answer(self._ticket.result(timeout_s))
        except OutcomeTimeout as error:
            error.ticket = self
            raise


class PrefixedWatch(Watch):
    """A watch whose keys are those below a prefix."""

    def __init__(self, watch: Watch, prefix: Prefix) -> None:
        self._watch = watch
        self._prefix = prefix

    def batches(self) -> Iterator[WatchBatch | WatchReset]:
        for news in self._watch.batches():
            yield self._prefix.news(news)

    def close(self) -> None:
        self._watch.close()


class Prefixed(Verbs):
    """The verbs of a store below a prefix."""

    def __init__(self, store: Verbs, prefix: Prefix) -> None:
        self._store = store
        self._prefix = prefix

    @property
    def prefix(self) -> bytes:
        """The beginning of all its keys in the store."""
        return self._prefix.raw

    def _ask(self, request: Request[Answer], timeout_s: float | None) -> Answer:
        try:
            return cast(Answer, self._prefix.answer(self._store._ask(request.under(self._prefix), timeout_s)))
        except OutcomeTimeout as error:
            if error.ticket is not None:
                error.ticket = PendingResult(error.ticket, self._prefix)
            raise

    def _get(self, key: Key, revision: int, local: bool, timeout_s: float | None) -> KeyRecord | None:
        found = self._store.get(self._prefix.key(key), revision=revision, local=local, timeout_s=timeout_s)
        return self._prefix.found(found)

    def _range(self, asked: RangeAsked, timeout_s: float | None) -> RangeResult:
        return self._prefix.found_range(self._store._range(self._prefix.range(asked), timeout_s))

    def _lease(
        self, ttl_s: float, id: int, on_lost: Callable[[Lease], object] | None, timeout_s: float | None
    ) -> Lease:
        return self._store._lease(ttl_s, id, on_lost, timeout_s)

    def _watch(
        self,
        asked: WatchAsked,
        callback: Callable[[WatchBatch | WatchReset], object] | None,
        on_end: Callable[[BaseException | None], object] | None,
    ) -> Watch:
        prefix = self._prefix
        told = None if callback is None else lambda news: callback(prefix.news(news))
        return PrefixedWatch(self._store._watch(prefix.watch(asked), told, on_end), prefix)

    def _transfer(self, to: str | None, timeout_s: float | None) -> None:
        self._store._transfer(to, timeout_s)

    def _members(self, timeout_s: float | None) -> tuple[MemberStatus, ...]:
        return self._store._members(timeout_s)

    def _check_rights(self) -> None:
        self._store._check_rights()

    def _reach(self, change: Change, timeout_s: float | None) -> None:
        self._store._reach(change, timeout_s)


# --- for tasks --------------------------------------------------------------------------------------------------------


class AioPendingResult(_Ticket):
    """OutcomeUnknown.ticket of a store below a prefix."""

    async def result(self, timeout_s: float | None = 5.0) -> Any:
        """Go on waiting for the same operation and return what its call would have returned."""
        try:
            return self._prefix.answer(await self._ticket.result(timeout_s))
        except OutcomeTimeout as error:
            error.ticket = self
            raise


class AioPrefixedWatch(AioWatch):
    """A watch whose keys are those below a prefix."""

    def __init__(self, watch: AioWatch, prefix: Prefix) -> None:
        self._watch = watch
        self._prefix = prefix

    async def batches(self) -> AsyncIterator[WatchBatch | WatchReset]:
        async for news in self._watch.batches():
            yield self._prefix.news(news)

    async def close(self) -> None:
        await self._watch.close()

    async def __aenter__(self) -> Self:
        await self._watch.__aenter__()
        return self


class AioPrefixed(AioVerbs):
    """The verbs of a store on asyncio below a prefix."""

    def __init__(self, store: AioVerbs, prefix: Prefix) -> None:
        self._store = store
        self._prefix = prefix

    @property
    def prefix(self) -> bytes:
        """The beginning of all its keys in the store."""
        return self._prefix.raw

    async def _ask(self, request: Request[Answer], timeout_s: float | None) -> Answer:
        try:
            return cast(Answer, self._prefix.answer(await self._store._ask(request.under(self._prefix), timeout_s)))
        except OutcomeTimeout as error:
            if error.ticket is not None:
                error.ticket = AioPendingResult(error.ticket, self._prefix)
            raise

    async def _get(self, key: Key, revision: int, local: bool, timeout_s: float | None) -> KeyRecord | None:
        found = await self._store.get(self._prefix.key(key), revision=revision, local=local, timeout_s=timeout_s)
        return self._prefix.found(found)

    async def _range(self, asked: RangeAsked, timeout_s: float | None) -> RangeResult:
        return self._prefix.found_range(await self._store._range(self._prefix.range(asked), timeout_s))

    async def _lease(
        self, ttl_s: float, id: int, on_lost: Callable[[AioLease], object] | None, timeout_s: float | None
    ) -> AioLease:
        return await self._store._lease(ttl_s, id, on_lost, timeout_s)

    def _watch(self, asked: WatchAsked) -> AioWatch:
        return AioPrefixedWatch(self._store._watch(self._prefix.watch(asked)), self._prefix)

    async def _transfer(self, to: str | None, timeout_s: float | None) -> None:
        await self._store._transfer(to, timeout_s)

    async def _members(self, timeout_s: float | None) -> tuple[MemberStatus, ...]:
        return await self._store._members(timeout_s)

    def _check_rights(self) -> None:
        self._store._check_rights()

    async def _reach(self, change: Change, timeout_s: float | None) -> None:
        await self._store._reach(change, timeout_s)
