"""The asyncio face of a back end, driven by blocking calls, so that checks are written once and test both faces.

An event loop runs on a thread of its own. Each call runs there as a coroutine, and the caller waits for it; listeners
run there, too. It changes nothing about the effect of a call.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

import raftmeta
from raftmeta.conformance.kit import Told
from raftmeta.interfaces import (
    AioGroupMembership,
    AioHeld,
    AioLeaderElection,
    AioListenerRegistry,
    AioStorage,
)

__all__ = ["DrivenBackend", "EventLoop"]

CALL_S = 120.0
_SHOWN = (AioGroupMembership, AioLeaderElection, AioStorage, AioListenerRegistry, AioHeld)


class EventLoop:
    """An event loop on a thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="raftmeta-tck", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
        """Call on the loop's thread, and wait for the result if it can be awaited."""

        async def call() -> Any:
            outcome = function(*arguments, **options)
            return await outcome if inspect.isawaitable(outcome) else outcome

        return asyncio.run_coroutine_threadsafe(call(), self.loop).result(CALL_S)

    def close(self) -> None:
        """End the loop as asyncio.run does: cancel the remaining tasks."""
        self.call(self._cancel_all)
        self.call(self.loop.shutdown_asyncgens)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _cancel_all(self) -> None:
        left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


class _Driven:
    """An object of the asyncio face whose methods block."""

    def __init__(self, subject: Any, loop: EventLoop) -> None:
        self._subject = subject
        self._loop = loop
        self._shown: dict[int, _Driven] = {}
        self._listeners: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        found = self._loop.call(getattr, self._subject, name)
        if name == "groups":
            return _Driven(found, self._loop)
        if not callable(found):
            return self._show(found)

        def method(*arguments: Any, **options: Any) -> Any:
            options = {word: _bare(value) for word, value in options.items()}
            if name == "terms":
                return self._terms(found(*arguments, **options))
            if name == "fetch":
                return asyncio.run_coroutine_threadsafe(_awaited(found, arguments, options), self._loop.loop)
            if name.endswith("_listener"):
                arguments = (*arguments[:-1], self._listener(arguments[-1]))
            return self._show(self._loop.call(found, *arguments, **options))

        return method

    def _listener(self, listener: Any) -> Any:
        """A listener of a check may block, which no callable may on an event loop; so this calls it on a thread."""
        if not inspect.isfunction(listener) and not isinstance(listener, Told):
            return listener
        if listener not in self._listeners:

            async def call(change: Any) -> None:
                await asyncio.to_thread(listener, change)

            self._listeners[listener] = call
        return self._listeners[listener]

    def _show(self, value: Any) -> Any:
        if not isinstance(value, _SHOWN):
            return value
        return self._shown.setdefault(
            id(value), _Driven(value, self._loop)
        )  # the same for the same; it keeps the value

    def _terms(self, leads: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._show(self._loop.call(leads.__anext__))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.call(leads.aclose)


def _bare(value: Any) -> Any:
    """The held object of the asyncio face itself. The event loop, which cannot wait, asks it for its fence."""
    return value._subject if isinstance(value, _Driven) else value


async def _awaited(function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return await function(*arguments, **options)


class DrivenBackend(_Driven):
    """A back end on asyncio behind a URL; as a context it is closed."""

    def __init__(self, url: str, loop: EventLoop, *, timeout_s: float = 10.0) -> None:
        super().__init__(loop.call(raftmeta.backends.connect_aio, url, timeout_s=timeout_s), loop)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_error: object) -> None:
        self._loop.call(self._subject.close)
