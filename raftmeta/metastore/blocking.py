"""Metastore: the metastore for threads. An event loop on one thread runs the asyncio one; a call waits for its answer.

It decides nothing of its own. Handlers are called on threads that are the caller's to block: a handler may ask the
metastore, and wait. Ctrl-C ends a wait, not the request.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self, TypeVar

from raftmeta.common.apart import ApartThread
from raftmeta.common.shared_threads import SharedThreads
from raftmeta.metastore.awaited import AioMetastore, Caller, ConnectionState, Settings
from raftmeta.metastore.codes import Code, SessionExpired
from raftmeta.metastore.handlers import StateChangeHandler, ZNodeChangeHandler, ZNodeChildChangeHandler
from raftmeta.metastore.meters import Meters
from raftmeta.metastore.requests import Request, Response, failed

__all__ = ["Metastore"]

T = TypeVar("T")
R = TypeVar("R", bound=Response)
Opening = Callable[[Caller], Coroutine[Any, Any, AioMetastore]]

END_TIMEOUT_S = 5.0


class Metastore:
    """KIP-273's metastore for threads; connect() makes it. As a context it is closed at the end."""

    def __init__(self, opening: Opening) -> None:
        self._loop = asyncio.new_event_loop()
        self._lock = threading.Lock()
        self._is_closed = False
        self._threads = SharedThreads("metastore-handler")
        self._thread = ApartThread(self._run, "raftmeta-metastore")
        self._thread.start()
        try:
            self._store = self._wait(opening(self._call_on_thread))
        except BaseException:
            self._end()
            raise

    # --- the thread of the event loop -------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _schedule(self, call: Coroutine[Any, Any, T]) -> Future[T]:
        """Raises SessionExpired once it is closed; all that is scheduled before that is answered."""
        with self._lock:
            if not self._is_closed:
                return asyncio.run_coroutine_threadsafe(call, self._loop)
        call.close()
        raise SessionExpired("the metastore is closed")

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        future = self._schedule(call)
        try:
            return future.result()
        except CancelledError:
            raise SessionExpired("the metastore was closed meanwhile") from None
        except BaseException:
            future.cancel()  # Ctrl-C
            raise

    def _call_on_thread(self, handler: Callable[[], Any]) -> Awaitable[Any]:
        """Call a handler on another thread, in the context of the event that it is about."""
        called: asyncio.Future[Any] = self._loop.create_future()
        context = copy_context()

        def end(error: Exception | None) -> None:
            if called.done():
                return
            if error is None:
                called.set_result(None)
            else:
                called.set_exception(error)

        def work() -> None:
            error: Exception | None = None
            try:
                context.run(handler)
            except StopIteration:
                error = RuntimeError("a handler raised StopIteration")  # no future can hold that
            except Exception as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # closed meanwhile
                self._loop.call_soon_threadsafe(end, error)

        self._threads.post(work)
        return called

    # --- life -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """As AioMetastore.close. Idempotent; any thread and any handler may close."""
        with contextlib.suppress(SessionExpired):
            self._wait(self._store.close())
        self._end()

    def _end(self) -> None:
        with self._lock:
            is_first = not self._is_closed
            self._is_closed = True
        if is_first:
            self._loop.call_soon_threadsafe(self._begin_shutdown)
        self._thread.wait(END_TIMEOUT_S)

    def _begin_shutdown(self) -> None:
        self._shutdown = self._loop.create_task(self._drain())

    async def _drain(self) -> None:
        """Let the calls end that were scheduled before; then only a handler that closes can be left."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()
        self._loop.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    # --- the session ------------------------------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """As connect() was given them."""
        return self._store.settings

    @property
    def session_id(self) -> int:
        """As AioMetastore.session_id."""
        return self._store.session_id

    @property
    def connection_state(self) -> ConnectionState:
        """As AioMetastore.connection_state."""
        return self._store.connection_state

    @property
    def meters(self) -> Meters:
        """The meters by name."""
        return self._store.meters

    def metrics(self) -> dict[str, int | float | str]:
        """As AioMetastore.metrics."""
        return self._store.metrics()

    def wait_until_connected(self, timeout_s: float | None = None) -> None:
        """As AioMetastore.wait_until_connected."""
        self._wait(self._store.wait_until_connected(timeout_s))

    # --- handlers ---------------------------------------------------------------------------------------------------

    def register_znode_change_handler(self, handler: ZNodeChangeHandler) -> None:
        """As AioMetastore.register_znode_change_handler."""
        self._store.register_znode_change_handler(handler)

    def unregister_znode_change_handler(self, path: str) -> None:
        """Ignored where none is registered."""
        self._store.unregister_znode_change_handler(path)

    def register_znode_child_change_handler(self, handler: ZNodeChildChangeHandler) -> None:
        """As AioMetastore.register_znode_child_change_handler."""
        self._store.register_znode_child_change_handler(handler)

    def unregister_znode_child_change_handler(self, path: str) -> None:
        """Ignored where none is registered."""
        self._store.unregister_znode_child_change_handler(path)

    def register_state_change_handler(self, handler: StateChangeHandler) -> None:
        """As AioMetastore.register_state_change_handler."""
        self._store.register_state_change_handler(handler)

    def unregister_state_change_handler(self, name: str) -> None:
        """Ignored where none is registered."""
        self._store.unregister_state_change_handler(name)

    # --- requests ---------------------------------------------------------------------------------------------------

    def handle_request(self, request: Request[R]) -> R:
        """The response to one request. No failure is raised: see Response.maybe_throw."""
        return self.handle_requests([request])[0]

    def handle_requests(self, requests: Sequence[Request[R]]) -> list[R]:
        """As AioMetastore.handle_requests."""
        if not requests:
            return []
        try:
            return self._wait(self._store.handle_requests(requests))
        except SessionExpired:
            return [failed(request, Code.SESSIONEXPIRED) for request in requests]
