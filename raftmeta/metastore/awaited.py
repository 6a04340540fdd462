"""AioMetastore: KIP-273's KafkaMetastore on asyncio, over one carrier at a time.

It decides which request arms a handler, when a handler is called, how many requests are under way, and how one session
follows another. It never knows a store: a carrier (metastore/carrier) does.

Order, as in ZooKeeper's own client: handlers are called one at a time, in the order of the changes, and an answer comes
after the handlers of all changes before it have returned. So a handler should return soon. Requests that a handler
makes itself do not wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum
from types import TracebackType
from typing import Any, Self, TypeVar, cast

from raftmeta.errors import InvalidArgument
from raftmeta.metastore.carrier import Carrier, ChangeType, SessionEvent, Source
from raftmeta.metastore.codes import AuthFailed, Code, ConnectTimeout, SessionExpired
from raftmeta.metastore.handlers import Handlers, StateChangeHandler, ZNodeChangeHandler, ZNodeChildChangeHandler
from raftmeta.metastore.meters import Meters
from raftmeta.metastore.paths import is_path
from raftmeta.metastore.requests import (
    CreateOp,
    CreateRequest,
    ExistsRequest,
    GetChildrenRequest,
    GetDataRequest,
    MultiRequest,
    Request,
    Response,
    ResponseMetadata,
    failed,
)

__all__ = ["AioMetastore", "ConnectionState", "Settings"]

R = TypeVar("R", bound=Response)
Caller = Callable[[Callable[[], Any]], Awaitable[Any]]

CLOSE_S = 5.0  # for a handler that is being called while the metastore is closed
RETRY_S = 1.0  # Kafka's ZooKeeperClient.RetryBackoffMs

_LOG = logging.getLogger(__name__)
_IN_HANDLER: ContextVar[object] = ContextVar("raftmeta_metastore_handler", default=None)


class ConnectionState(Enum):
    """Where the session is. A string, for logs and the gauge SessionState: its value."""

    CONNECTING = "CONNECTING"
    CONNECTED = "CONNECTED"
    CONNECTED_READ_ONLY = "CONNECTEDREADONLY"
    AUTH_FAILED = "AUTH_FAILED"
    EXPIRED = "EXPIRED"
    CLOSED = "CLOSED"

    @property
    def is_connected(self) -> bool:
        return self in (ConnectionState.CONNECTED, ConnectionState.CONNECTED_READ_ONLY)

    @property
    def is_alive(self) -> bool:
        return self == ConnectionState.CONNECTING or self.is_connected


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a metastore; see connect()."""

    session_timeout_s: float = 18.0
    connection_timeout_s: float = 18.0
    max_in_flight_requests: int = 10
    request_timeout_s: float | None = None
    metric_group: str = "kafka.server"
    metric_type: str = "SessionExpireListener"

    def __post_init__(self) -> None:
        for name in ("session_timeout_s", "connection_timeout_s", "max_in_flight_requests", "request_timeout_s"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | float) or not value > 0):
                raise InvalidArgument(f"{name}: must be a number over 0, not {value!r}", field=name)


_STATES = {
    SessionEvent.CONNECTED: ConnectionState.CONNECTED,
    SessionEvent.CONNECTED_READ_ONLY: ConnectionState.CONNECTED_READ_ONLY,
    SessionEvent.DISCONNECTED: ConnectionState.CONNECTING,
    SessionEvent.AUTH_FAILED: ConnectionState.AUTH_FAILED,
    SessionEvent.EXPIRED: ConnectionState.EXPIRED,
}


async def call_here(handler: Callable[[], Any]) -> None:
    """Call a handler on the event loop, and await it if it is a coroutine function."""
    result = handler()
    if inspect.isawaitable(result):
        await result


class AioMetastore:
    """KIP-273's metastore for tasks; connect_aio() makes it. As a context it is closed at the end."""

    def __init__(self, source: Source, settings: Settings, *, caller: Caller = call_here) -> None:
        self.settings = settings
        self.meters = Meters(settings.metric_group, settings.metric_type)
        self._source = source
        self._call = caller
        self._handlers = Handlers()
        self._loop = asyncio.get_running_loop()
        self._carrier: Carrier | None = None
        self._session_id = 0
        self._state = ConnectionState.CONNECTING
        self._is_closed = False
        self._was_connected = False
        self._changed = asyncio.Event()
        self._room = asyncio.Semaphore(int(settings.max_in_flight_requests))
        self._due: deque[Callable[[], Awaitable[None] | None]] = deque()  # handlers to call, answers to give
        self._teller: asyncio.Task[None] | None = None
        self._renewal: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._closed_inside = asyncio.Event()

    # --- life -------------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Begin the first session. Raises ConnectTimeout after connection_timeout_s, AuthFailed; it is closed then."""
        try:
            async with asyncio.timeout(self.settings.connection_timeout_s):
                await self._begin_session()
        except TimeoutError:
            await self.close()
            seconds = self.settings.connection_timeout_s
            raise ConnectTimeout(f"the store was not reached within {seconds:g} s") from None
        except BaseException:
            await self.close()
            raise
        self._was_connected = True
        return self

    async def _begin_session(self) -> None:
        carrier = self._carrier = self._source.carrier(self)
        try:
            await carrier.open()
        except BaseException:
            await carrier.close()
            raise
        self._session_id = carrier.session_id

    async def close(self) -> None:
        """End the session, so that its ephemerals go at once, and forget all handlers: none is called afterwards.

        Requests under way are answered SESSIONEXPIRED, and so is every later one. Idempotent; all who close wait.
        """
        if _IN_HANDLER.get() is self:
            self._closed_inside.set()
        if self._ending is None:
            self._ending = self._loop.create_task(self._close())
        await asyncio.shield(self._ending)

    async def _close(self) -> None:
        self._is_closed = True
        self._handlers.clear()
        self._become(ConnectionState.CLOSED)
        if self._renewal is not None:
            await _stop(self._renewal)
        if self._carrier is not None:
            await self._carrier.close()
        if self._teller is not None:  # a handler that is being called, and the last answers
            inside = self._loop.create_task(self._closed_inside.wait())  # a handler that closes is not waited for
            teller = self._teller
            await asyncio.wait([teller, inside], timeout=CLOSE_S, return_when=asyncio.FIRST_COMPLETED)
            inside.cancel()
            if not self._closed_inside.is_set():
                teller.cancel()  # of a handler that does not return
        await self._source.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    # --- the session ------------------------------------------------------------------------------------------------

    @property
    def session_id(self) -> int:
        """The number of the session, 0 before the first one; another one after an expiry."""
        return self._session_id

    @property
    def connection_state(self) -> ConnectionState:
        """As of now; asks nobody."""
        return self._state

    def metrics(self) -> dict[str, int | float | str]:
        """The meters and the gauge SessionState by Kafka's names."""
        return self.meters.values(self._state.value)

    async def wait_until_connected(self, timeout_s: float | None = None) -> None:
        """Return when the session is connected. timeout_s: seconds to wait, None: for ever.

        Raises AuthFailed; SessionExpired: it ended, and the next one has not begun, or the metastore is closed;
        ConnectTimeout.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not self._state.is_connected:
                    if self._state == ConnectionState.AUTH_FAILED:
                        raise AuthFailed("the store does not accept the credentials")
                    if not self._state.is_alive:
                        raise SessionExpired(f"the session is {self._state.value.lower()}")
                    await self._changed.wait()
        except TimeoutError:
            raise ConnectTimeout(f"the store was not reached within {timeout_s:g} s") from None

    def _become(self, state: ConnectionState) -> None:
        self._state = state
        self._changed.set()
        self._changed = asyncio.Event()

    def on_session(self, carrier: Carrier, event: SessionEvent) -> None:
        """For carriers."""
        if self._is_closed or carrier is not self._carrier:
            return
        if event.value in self.meters.events:
            self.meters.events[event.value].mark()
        if event == SessionEvent.SASL_AUTHENTICATED:
            return
        if event == SessionEvent.CONNECTED or event == SessionEvent.CONNECTED_READ_ONLY:
            self._session_id = carrier.session_id
        self._become(_STATES[event])
        if event == SessionEvent.AUTH_FAILED:
            _LOG.error("authentication failed session=%#x", self._session_id)
            self._begin_renewal(self._auth_failed())
        elif event == SessionEvent.EXPIRED:
            _LOG.info("session expired session=%#x", self._session_id)
            self._begin_renewal(self._renew())

    def _begin_renewal(self, renewal: Any) -> None:
        if self._renewal is not None and not self._renewal.done():
            renewal.close()  # it is being renewed: that goes on until there is a session
            return
        self._renewal = self._loop.create_task(renewal)

    async def _auth_failed(self) -> None:
        await self._tell_states(StateChangeHandler.on_auth_failure)
        if self._was_connected:  # at the start it fails at once (Kafka's isFirstConnectionEstablished)
            await asyncio.sleep(RETRY_S)
            await self._renew()

    async def _renew(self) -> None:
        """KIP-273's expiry: all `before`, a new session, asked for each second for ever, all `after`."""
        await self._tell_states(StateChangeHandler.before_initializing_session)
        if self._carrier is not None:
            await self._carrier.close()
        while True:
            self._become(ConnectionState.CONNECTING)
            try:
                await self._begin_session()
                break
            except AuthFailed:
                await self._tell_states(StateChangeHandler.on_auth_failure)
            except Exception as error:
                _LOG.info("no new session yet, trying again: %s", error)
            await asyncio.sleep(RETRY_S)
        _LOG.info("new session session=%#x", self._session_id)
        await self._tell_states(StateChangeHandler.after_initializing_session)

    async def _tell_states(self, method: Callable[[StateChangeHandler], Any]) -> None:
        """Call one method of all state handlers, in the order of their registration."""
        for name in list(self._handlers.state):
            if (handler := self._handlers.state.get(name)) is not None:
                await self._tell(getattr(handler, method.__name__), f"state handler {name}")

    async def _tell(self, handler: Callable[[], Any], what: str) -> None:
        """Call a handler. An error is logged, and stops nobody."""
        token = _IN_HANDLER.set(self)
        try:
            await self._call(handler)
        except Exception:
            _LOG.exception("%s raised", what)
        finally:
            _IN_HANDLER.reset(token)

    # --- handlers ---------------------------------------------------------------------------------------------------

    def register_znode_change_handler(self, handler: ZNodeChangeHandler) -> None:
        """Tell the changes of handler.path; armed by the next Exists or GetData of it. Replaces an earlier one."""
        self._handlers.add_change(handler)

    def unregister_znode_change_handler(self, path: str) -> None:
        """Ignored where none is registered."""
        self._handlers.change.pop(path, None)

    def register_znode_child_change_handler(self, handler: ZNodeChildChangeHandler) -> None:
        """Tell that children of handler.path come or go; armed by the next GetChildren of it."""
        self._handlers.add_child_change(handler)

    def unregister_znode_child_change_handler(self, path: str) -> None:
        """Ignored where none is registered."""
        self._handlers.child_change.pop(path, None)

    def register_state_change_handler(self, handler: StateChangeHandler) -> None:
        """Tell the end of sessions and the begin of new ones."""
        self._handlers.add_state(handler)

    def unregister_state_change_handler(self, name: str) -> None:
        """Ignored where none is registered."""
        self._handlers.state.pop(name, None)

    def on_change(self, carrier: Carrier, change: ChangeType, path: str) -> None:
        """For carriers."""
        if carrier is self._carrier and not self._is_closed:
            self._post(lambda: self._tell_change(change, path))

    async def _tell_change(self, change: ChangeType, path: str) -> None:
        found: ZNodeChangeHandler | ZNodeChildChangeHandler | None
        if change == ChangeType.CHILDREN_CHANGED:
            found = self._handlers.child_change.get(path)
        else:
            found = self._handlers.change.get(path)
        if found is not None:
            await self._tell(getattr(found, change.value), f"handler of {path}")

    def _post(self, item: Callable[[], Awaitable[None] | None]) -> None:
        self._due.append(item)
        if self._teller is None:
            self._teller = self._loop.create_task(self._run_due())

    async def _run_due(self) -> None:
        while self._due:
            waiting = self._due.popleft()()
            if waiting is not None:
                await waiting
        self._teller = None

    # --- requests ---------------------------------------------------------------------------------------------------

    async def handle_request(self, request: Request[R]) -> R:
        """The response to one request. No failure is raised: see Response.maybe_throw."""
        return (await self.handle_requests([request]))[0]

    async def handle_requests(self, requests: Sequence[Request[R]]) -> list[R]:
        """One response for each request, in their order, asked without waiting for one another.

        At most max_in_flight_requests of this metastore are under way at a time. A lost connection is the code of those
        that it concerns. A caller that is cancelled undoes nothing.
        """
        given = []
        for request in requests:
            await self._room.acquire()
            given.append(self._submit(request))
        return [await asyncio.shield(each) for each in given]

    def _submit(self, request: Request[R]) -> asyncio.Future[R]:
        """Ask; gives the room back when it is answered."""
        answer: asyncio.Future[R] = self._loop.create_future()
        sent_s = time.monotonic()
        must_wait = _IN_HANDLER.get() is not self
        timer: asyncio.TimerHandle | None = None

        def end(response: Response) -> None:
            if answer.done():
                return
            if timer is not None:
                timer.cancel()
            metadata = ResponseMetadata(sent_s, time.monotonic())
            self.meters.latency.add(metadata.response_time_s)
            answer.set_result(cast("R", replace(response, metadata=metadata)))
            self._room.release()

        def give(response: Response) -> None:
            if must_wait and self._teller is not None:
                self._post(lambda: end(response))  # behind the handlers of the changes that came before it
            else:
                end(response)

        if self.settings.request_timeout_s is not None:
            timer = self._loop.call_later(
                self.settings.request_timeout_s, lambda: end(failed(request, Code.OPERATIONTIMEOUT))
            )
        code = self._refusal(request)
        if code == Code.OK and self._carrier is not None:
            self._carrier.submit(request, self._must_arm(request), give)
        else:
            give(failed(request, code))
        return answer

    def _refusal(self, request: Request[Any]) -> Code:
        """Why it is not even sent, OK: it is sent."""
        if not has_good_paths(request):
            return Code.BADARGUMENTS
        if self._state == ConnectionState.AUTH_FAILED:
            return Code.AUTHFAILED
        if self._carrier is None or self._state in (ConnectionState.EXPIRED, ConnectionState.CLOSED):
            return Code.SESSIONEXPIRED
        return Code.OK if self._state.is_connected else Code.CONNECTIONLOSS

    def _must_arm(self, request: Request[Any]) -> bool:
        """Kafka's ZooKeeperClient.shouldWatch."""
        if isinstance(request, GetChildrenRequest):
            return request.register_watch and request.path in self._handlers.child_change
        return isinstance(request, ExistsRequest | GetDataRequest) and request.path in self._handlers.change


def has_good_paths(request: Request[Any]) -> bool:
    """Whether each path of a request can be that of a znode. Raises InvalidArgument for what is no request."""
    if not isinstance(request, Request):
        raise InvalidArgument(f"request: {request!r} is none", field="request")
    parts: Sequence[Any] = request.ops if isinstance(request, MultiRequest) else (request,)
    return all(
        is_path(part.path, is_sequential=isinstance(part, CreateRequest | CreateOp) and part.create_mode.is_sequential)
        for part in parts
    )


async def _stop(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end, unless it is the caller's own."""
    if task is asyncio.current_task():
        return
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
