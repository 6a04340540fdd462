"""One session of a real ZooKeeper client, kazoo, with the doors of the brokers, for the clients of a run.

Its requests end in the words of jepsen/client.py: a result, a refusal with its zxid, NotExecuted while there is no
connection, OutcomeUnknown when the connection or the session was lost under the request. kazoo hears answers and events
on one thread. A function `told` is called on this thread, so what it writes down stands in the order of the wire.

kazoo forgets all watches when a connection ends. Here they stand until the session ends: behind each new connection
goes a setWatches, as ZooKeeper's own client sends it (ClientCnxn.java of 3.9, primeConnection), and every second time
a setWatches2.

It never decides what is asked, and never asks again.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.handlers.threading import AsyncResult, SequentialThreadingHandler
from kazoo.protocol.connection import (
    _CONNECTION_DROP,
    CHILD_EVENT,
    CLOSE_RESPONSE,
    DELETED_EVENT,
    ConnectionHandler,
)
from kazoo.protocol.serialization import Exists, Watch, int_struct, long_struct, write_string
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.security import ACL, make_acl

import raftmeta
from jepsen.client import TIMEOUT_S, Doors
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
SET_WATCHES, SET_WATCHES2, SET_WATCHES_XID = 101, 105, -8


class Listener(Protocol):
    """Is called on kazoo's thread, in the order of the wire."""

    def on_reply(self, session: int, zxid: int) -> None:
        """The session was answered."""

    def on_watches_set(self, session: int, zxid: int, opcode: int, told: int) -> None:
        """The watches of the session were set again behind a move. told: events that it had missed, and got first."""

    def on_unasked(self, session: int, path: str) -> None:
        """An event came for a path on which the session has no watch."""


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


@dataclass(frozen=True, slots=True)
class _SetWatches:
    """A request as kazoo has them. paths: a list for data, one for nodes that are missing, one for children."""

    type: int
    zxid: int
    paths: Sequence[Sequence[str]]

    def serialize(self) -> bytes:
        lists = [*self.paths, *((), ())[: 2 if self.type == SET_WATCHES2 else 0]]  # without persistent watches
        parts = [int_struct.pack(len(paths)) + b"".join(map(write_string, paths)) for paths in lists]
        return b"".join((long_struct.pack(self.zxid), *parts))


class _Client(KazooClient):  # type: ignore[misc]  # kazoo has no types
    """Its watches outlive a connection."""

    def _reset_watchers(self) -> None:
        if self._state != KeeperState.CONNECTING:
            super()._reset_watchers()


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """closed_zxid: of the reply that the session is closed; 0: none came."""

    closed_zxid = 0

    def __init__(self, client: Any, retry: Any, session: DoorSession) -> None:
        super().__init__(client, retry, logger=client.logger, sasl_options=_sasl_of(session.doors))
        self._session = session
        self._absent = set[str]()  # paths of data watches that wait for a node to be made
        self._asked: _SetWatches | None = None  # not answered yet
        self._missed = Counter[str]()  # what the answer may tell: by path, the lists that have it
        self._told = self._sent = 0

    def _connect(self, *arguments: Any) -> Any:
        timeouts = super()._connect(*arguments)
        client = self.client
        data = [path for path, watchers in client._data_watchers.items() if watchers]
        children = [path for path, watchers in client._child_watchers.items() if watchers]
        self._absent &= set(data)
        self._asked, self._told = None, 0
        self._missed = Counter([*data, *children])
        if self._missed:
            opcode = SET_WATCHES2 if self._sent % 2 else SET_WATCHES
            paths = ([path for path in data if path not in self._absent], sorted(self._absent), children)
            self._asked, self._sent = _SetWatches(opcode, client.last_zxid, paths), self._sent + 1
            self._submit(self._asked, timeouts[1] / 1000.0, SET_WATCHES_XID)
        return timeouts

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        """kazoo takes a connection that is lost meanwhile for a wrong password, and would never connect again."""
        try:
            super()._authenticate_with_sasl(host, timeout)
        except zk.AuthFailedError as error:
            if isinstance(error.__cause__, zk.ConnectionDropped):
                raise error.__cause__ from None
            raise

    def _read_watch_event(self, buffer: Any, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        client, path = self.client, event.path
        is_asked = bool(event.type != CHILD_EVENT and client._data_watchers.get(path))
        is_asked |= bool(event.type in (CHILD_EVENT, DELETED_EVENT) and client._child_watchers.get(path))
        # A node that is gone is told for its data and for its children: ZooKeeper looks at each list by itself.
        if self._asked is not None and self._missed[path]:
            self._missed[path] -= 1
            self._told += 1
        elif not is_asked:
            self._session.listener.on_unasked(self._session.id, path)
        self._absent.discard(path)
        super()._read_watch_event(buffer, offset)

    def _read_response(self, header: Any, buffer: Any, offset: int) -> Any:
        if header.xid == SET_WATCHES_XID:
            self._watches_set(header)
            return None
        request = self.client._pending[0][0]
        if isinstance(request, Exists) and request.watcher:
            if header.err == zk.NoNodeError.code:
                self._absent.add(request.path)
            else:
                self._absent.discard(request.path)
        answer = super()._read_response(header, buffer, offset)
        if answer == CLOSE_RESPONSE and not header.err:
            self.closed_zxid = header.zxid
        return answer

    def _watches_set(self, header: Any) -> None:
        assert self._asked is not None and not header.err, f"setWatches was answered: {header}"
        if header.zxid > 0:
            self.client.last_zxid = header.zxid
        zxid = self._session.heard()
        self._session.listener.on_watches_set(self._session.id, zxid, self._asked.type, self._told)
        self._asked = None


class DoorSession:
    """life: a number that changes with each session, since kazoo begins another one when one has expired."""

    def __init__(self, doors: Doors, listener: Listener) -> None:
        self.life = 1
        self.doors = doors
        self.listener = listener
        self._heard_ns = 0
        self._connected = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._handler = _Handler(self)
        self._client = _Client(
            hosts=doors.hosts,
            timeout=SESSION_S,
            handler=self._handler,
            connection_retry=RETRY,
            default_acl=_acl_of(doors),
            **_tls_of(doors),
        )
        self._connection = _Connection(self._client, self._client._conn_retry.copy(), self)
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
            self.listener.on_reply(self.id, zxid)
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


def _tls_of(doors: Doors) -> dict[str, Any]:
    """kazoo reads the files for each connection, so it finds new ones. Certificates of nodes have no host's name."""
    if doors.tls is None:
        return {}
    return {
        "use_ssl": True,
        "certfile": doors.tls["certificate"],
        "keyfile": doors.tls["key"],
        "ca": doors.tls["authorities"],
        "check_hostname": False,
    }


def _sasl_of(doors: Doors) -> dict[str, Any] | None:
    if not doors.login:
        return None
    name, password = doors.login
    return {"mechanism": "DIGEST-MD5", "username": name, "password": password}


def _acl_of(doors: Doors) -> list[ACL] | None:
    """A node is of those who proved the name. So a door that forgets a proof refuses its client."""
    return [make_acl("sasl", doors.login[0], all=True)] if doors.login else None


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
