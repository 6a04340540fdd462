"""One session of a real ZooKeeper client, kazoo, with the doors of the brokers, for the clients of a run.

Its requests end in the words of jepsen/client.py: a result, a refusal with its zxid, NotExecuted while there is no
connection, OutcomeUnknown when the connection or the session was lost under the request. kazoo hears answers and events
on one thread. A function `told` is called on this thread, so what it writes down stands in the order of the wire.

It never decides what is asked, and never asks again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.connection import _CONNECTION_DROP, CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.states import KazooState

import raftmeta
from jepsen.client import TIMEOUT_S
from jepsen.clock import NS_PER_S, now_ns

SESSION_S = 3.0  # short, so that many sessions expire while a fault lasts
TICK_S = 0.5  # of the doors, which grant 2 to 20 of them
CONNECTION_S = 1.0  # for which a request waits for a connection
RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 1, "max_jitter": 0.5, "max_delay": 0.2}

Told = Callable[[Any, int], None]  # the result of a request, and the zxid of its reply
Call = Callable[[Any], Any]  # a request of KazooClient that does not wait

LOST = (
    zk.ConnectionLoss,
    zk.ConnectionClosedError,
    zk.SessionExpiredError,
    zk.SessionMovedError,
    zk.OperationTimeoutError,
)
REFUSED = (zk.NoNodeError, zk.NodeExistsError, zk.BadVersionError, zk.NotEmptyError)


@dataclass(frozen=True, slots=True)
class Reply:
    """zxid: of the header of the reply."""

    value: Any
    zxid: int


class DoorRefused(raftmeta.Refused):
    """The door said no. error: kazoo's, which says why."""

    def __init__(self, error: Exception, zxid: int) -> None:
        super().__init__(type(error).__name__, revision=zxid)
        self.error = error


class _Result(AsyncResult):  # type: ignore[misc]  # kazoo has no types
    """A result that keeps the zxid of its reply."""

    def __init__(self, handler: _Handler, told: Told | None) -> None:
        super().__init__(handler)
        self._told = told
        self.zxid = 0

    def set(self, value: Any = None) -> None:
        self.zxid = self._handler.session.heard()
        if self._told is not None:
            self._told(value, self.zxid)
        super().set(value)

    def set_exception(self, exception: Exception) -> None:
        if isinstance(exception, REFUSED):
            self.zxid = self._handler.session.heard()
        super().set_exception(exception)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """Events are told on the thread that heard them; kazoo would tell them beside the answers, in no order."""

    def __init__(self, session: DoorSession) -> None:
        super().__init__()
        self.session = session
        self.told: Told | None = None

    def async_result(self) -> _Result:
        return _Result(self, self.told)

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """closed_zxid: of the reply that the session is closed; 0: none came."""

    closed_zxid = 0

    def _read_response(self, header: Any, buffer: Any, offset: int) -> Any:
        answer = super()._read_response(header, buffer, offset)
        if answer == CLOSE_RESPONSE and not header.err:
            self.closed_zxid = header.zxid
        return answer


class DoorSession:
    """life: a number that changes with each session, since kazoo begins another one when one has expired.

    on_reply: called with the id of the session and the zxid of each reply, on kazoo's thread.
    """

    def __init__(self, hosts: str, on_reply: Callable[[int, int], None]) -> None:
        self.life = 1
        self._on_reply = on_reply
        self._heard_ns = 0
        self._connected = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._handler = _Handler(self)
        self._client = KazooClient(hosts=hosts, timeout=SESSION_S, handler=self._handler, connection_retry=RETRY)
        self._connection = _Connection(self._client, self._client._conn_retry.copy(), logger=self._client.logger)
        self._client._connection = self._connection
        self._client.add_listener(self._on_state)
        self._client.start_async()

    @property
    def id(self) -> int:
        """0 while there is none."""
        return self._client._session_id or 0

    def _on_state(self, state: str) -> None:
        """On kazoo's thread."""
        if state == KazooState.LOST:
            self._heard_ns = 0
            self.life += 1
        told = self._connected.set if state == KazooState.CONNECTED else self._connected.clear
        with contextlib.suppress(RuntimeError):  # the loop has ended before kazoo
            self._loop.call_soon_threadsafe(told)

    def heard(self) -> int:
        """A reply has come, on kazoo's thread; its zxid."""
        zxid = int(self._client.last_zxid)
        if self.id and zxid:
            self._on_reply(self.id, zxid)
        return zxid

    def is_held(self) -> bool:
        """Whether the session certainly lives: it was heard of less than its time-out ago."""
        return now_ns() < self._heard_ns + int(SESSION_S * NS_PER_S)

    async def ask(self, call: Call, told: Told | None = None) -> Reply:
        """One request, call(client) of KazooClient. Raises NotExecuted, OutcomeUnknown, DoorRefused."""
        try:
            await asyncio.wait_for(self._connected.wait(), CONNECTION_S)
        except TimeoutError:
            raise raftmeta.NotExecuted("no connection") from None
        done: asyncio.Future[None] = self._loop.create_future()
        life, sent_ns = self.life, now_ns()
        self._handler.told = told
        result = call(self._client)
        self._handler.told = None
        result.rawlink(lambda _: self._settle(done))
        try:
            await asyncio.wait_for(done, TIMEOUT_S)
        except TimeoutError:
            self.move()  # kazoo notices no silent server while it sends
            raise raftmeta.OutcomeUnknown("no answer in time") from None
        error = result.exception
        if isinstance(error, LOST):
            raise raftmeta.OutcomeUnknown(type(error).__name__)
        if life == self.life:
            self._heard_ns = max(self._heard_ns, sent_ns)
        if isinstance(error, REFUSED):
            raise DoorRefused(error, result.zxid)
        return Reply(result.get(), result.zxid)

    def _settle(self, done: asyncio.Future[None]) -> None:
        """On kazoo's thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(_finish, done)

    def move(self) -> None:
        """Leave the node; the session goes on with another one."""
        self._connected.clear()
        self._client._call(_CONNECTION_DROP, AsyncResult(self._handler))

    async def close(self) -> int:
        """End the session. The zxid of the reply, 0: there was none, and it ends by its time-out."""
        await _apart(self._stop)
        return self._connection.closed_zxid

    async def abandon(self) -> None:
        """Leave without a word, as a process that is killed."""
        self._client._stopped.set()
        self.move()
        await _apart(self._end)

    def _stop(self) -> None:
        with contextlib.suppress(zk.KazooException, OSError, AttributeError):
            self._client.stop()
        self._end()

    def _end(self) -> None:
        with contextlib.suppress(zk.KazooException, OSError, AttributeError):
            self._client._safe_close()
        with contextlib.suppress(Exception):  # kazoo raises a plain one while its thread still runs
            self._client.close()


def _finish(done: asyncio.Future[None]) -> None:
    if not done.done():
        done.set_result(None)


async def _apart(act: Callable[[], None]) -> None:
    """Run it on a thread that ends with the process."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def run() -> None:
        act()
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=run, daemon=True).start()
    await done.wait()
