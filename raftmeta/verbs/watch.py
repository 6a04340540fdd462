"""A watch as its consumer sees it: raftmeta.Watch, and raftmeta.aio.Watch for tasks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import TracebackType
from typing import Self

from raftmeta.results import WatchBatch, WatchEvent, WatchReset

__all__ = ["AioWatch", "Watch"]


class Watch:
    """A watch; Node.watch and Client.watch make it. One thread consumes it."""

    __slots__ = ()

    def batches(self) -> Iterator[WatchBatch | WatchReset]:
        """Changes as the node delivers them, one revision (or a part of a large one) at a time."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[WatchEvent | WatchReset]:
        for found in self.batches():
            if isinstance(found, WatchReset):
                yield found
            else:
                yield from found.events

    def close(self) -> None:
        """Stop watching; what was not looked at is thrown away."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


class AioWatch:
    """A watch of an asyncio face; Node.watch and Client.watch make it. One task consumes it.

    It is opened by `async with`, or by the first look at it.
    """

    __slots__ = ()

    def batches(self) -> AsyncIterator[WatchBatch | WatchReset]:
        """Changes as the node delivers them, one revision (or a part of a large one) at a time."""
        raise NotImplementedError

    async def __aiter__(self) -> AsyncIterator[WatchEvent | WatchReset]:
        async for found in self.batches():
            if isinstance(found, WatchReset):
                yield found
            else:
                for event in found.events:
                    yield event

    async def close(self) -> None:
        """Stop watching; what was not looked at is thrown away."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()
