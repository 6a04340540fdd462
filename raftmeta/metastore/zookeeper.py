"""A session on a real ZooKeeper ensemble, by kazoo (pip install raftmeta[zookeeper]).

kazoo has two habits that this carrier makes good.
It forgets all watches when a connection breaks: the carrier keeps what it armed, sets the watches again on the new
connection, and tells the changes that it finds, as the setWatches request of ZooKeeper's own client does.
It goes on with a new session by itself when one expired: a KazooClient lives here for one session only.
Events and answers of a connection go through one queue of kazoo's handler, so they stay in the order of the wire.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, KazooException, SessionExpiredError
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.serialization import CheckVersion, Create, Delete, SetData
from kazoo.protocol.states import EventType, KazooState, KeeperState, WatchedEvent
from kazoo.security import ACL, Id

from raftmeta.common.apart import start_apart
from raftmeta.common.waiting import happened
from raftmeta.metastore.carrier import Asked, ChangeType, Give, Listener, SessionEvent
from raftmeta.metastore.codes import AuthFailed, Code, MetastoreError, code_of
from raftmeta.metastore.paths import Chroot
from raftmeta.metastore.requests import (
    Acl,
    CreateOp,
    CreateRequest,
    CreateResponse,
    DeleteOp,
    DeleteRequest,
    DeleteResponse,
    ExistsRequest,
    ExistsResponse,
    GetAclRequest,
    GetAclResponse,
    GetChildrenRequest,
    GetChildrenResponse,
    GetDataRequest,
    GetDataResponse,
    MultiRequest,
    MultiResponse,
    Request,
    Response,
    SetAclRequest,
    SetAclResponse,
    SetDataOp,
    SetDataRequest,
    SetDataResponse,
    Stat,
    ZkOp,
    ZkOpResult,
    failed,
)

__all__ = ["ZooKeeperCarrier", "ZooKeeperSource"]

_LOG = logging.getLogger(__name__)

EPHEMERAL, SEQUENTIAL = 1, 2  # ZooDefs CreateMode flags
CLOSE_S = 2.0  # for a connection over which a session can be ended
CONNECT_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}


class _OneQueue(SequentialThreadingHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's threads with one queue in place of two. stopping: its client was told to stop."""

    def __init__(self) -> None:
        super().__init__()
        self.callback_queue = self.completion_queue
        self.stopping = threading.Event()

    def start(self) -> None:
        self.stopping.clear()
        self.callback_queue = self.completion_queue
        super().start()

    def stop(self) -> None:
        self.stopping.set()
        super().stop()


class ZooKeeperSource:
    """Sessions on one ensemble. auth: (scheme, credential) pairs; the scheme "sasl" means DIGEST-MD5."""

    def __init__(self, hosts: str, chroot: str, auth: Sequence[tuple[str, str]], *, session_timeout_s: float) -> None:
        self.hosts = hosts
        self.chroot = Chroot(chroot)
        self.session_timeout_s = session_timeout_s
        self.auth = [(scheme, given) for scheme, given in auth if scheme != "sasl"]
        self.sasl: dict[str, str] | None = None
        for scheme, given in auth:
            if scheme == "sasl":
                user, _, password = given.partition(":")
                self.sasl = {"mechanism": "DIGEST-MD5", "username": user, "password": password}

    def carrier(self, listener: Listener) -> ZooKeeperCarrier:
        return ZooKeeperCarrier(self, listener)

    async def close(self) -> None:
        """Nothing outlives a carrier."""


class ZooKeeperCarrier:
    """One session of one KazooClient."""

    def __init__(self, source: ZooKeeperSource, listener: Listener) -> None:
        self._source = source
        self._listener = listener
        self._chroot = source.chroot
        self._loop = asyncio.get_running_loop()
        self._handler = _OneQueue()
        self._client = KazooClient(
            hosts=source.hosts,
            timeout=source.session_timeout_s,
            handler=self._handler,
            sasl_options=source.sasl,
            connection_retry=CONNECT_RETRY,
            logger=_LOG.getChild("kazoo"),
        )
        self._client.add_listener(self._on_kazoo_state)
        self.session_id = 0
        self._code = Code.CONNECTIONLOSS  # of a request that cannot be sent now; OK: it can
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._connected = asyncio.Event()
        self._under_way: set[Asked] = set()
        self._own: set[asyncio.Future[Any]] = set()  # what the carrier asks by itself
        self._data_armed: dict[str, int] = {}  # by path: the mzxid that was read, 0: there is no znode
        self._children_armed: dict[str, int] = {}  # by path: the pzxid that was read
        self._stopped: asyncio.Future[None] | None = None

    # --- life -------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        self._client.start_async()
        await asyncio.shield(self._opened)
        await self._authenticated()
        for path in self._chroot.to_create():
            made = await self._kazoo(partial(self._client.create_async, path))
            if isinstance(made, KazooException) and _code(made) != Code.NODEEXISTS:
                raise MetastoreError(f"the chroot {path} cannot be created: {_code(made).name}")

    async def _authenticated(self) -> None:
        """Raises AuthFailed. An answer says that the credentials sent before it were taken."""
        answer = await self._kazoo(lambda: self._client.exists_async("/"))
        if self._code == Code.AUTHFAILED or isinstance(answer, AuthFailedError):
            raise AuthFailed("ZooKeeper does not accept the credentials")

    async def close(self) -> None:
        if self.session_id and self._code == Code.CONNECTIONLOSS:
            # Only a connection can end the session at once; without one its ephemerals stay until it expires.
            await happened(self._connected, CLOSE_S)
        self._end(Code.SESSIONEXPIRED)
        await self._stop()

    async def _stop(self) -> None:
        """Let the client end its session and its threads, away from the event loop."""
        if self._stopped is None:
            self._stopped = self._loop.create_future()
            start_apart(self._stop_client, "raftmeta-metastore-close")
        await asyncio.shield(self._stopped)

    def _stop_client(self) -> None:
        try:
            with contextlib.suppress(KazooException, OSError, AttributeError):  # its socket is gone already
                self._client.stop()
            with contextlib.suppress(Exception):
                self._client.close()
        finally:
            self._soon(self._on_stopped)

    def _on_stopped(self) -> None:
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    def _soon(self, call: Callable[..., object], *arguments: object) -> None:
        """Go on on the event loop; it may be closed by now."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    # --- the state of the session -----------------------------------------------------------------------------------

    def _on_kazoo_state(self, _state: KazooState) -> None:
        """On kazoo's connection thread. An expired client begins no session of its own: it waits to be stopped."""
        state = self._client.client_state
        given = self._client.client_id
        self._soon(self._on_state, state, given[0] if given else 0)
        if state == KeeperState.EXPIRED_SESSION:
            self._handler.stopping.wait()

    def _on_state(self, state: KeeperState, session_id: int) -> None:
        if state in (KeeperState.CONNECTED, KeeperState.CONNECTED_RO):
            self._on_connected(state == KeeperState.CONNECTED_RO, session_id)
        elif state == KeeperState.CONNECTING:
            if self._code == Code.OK:
                self._code = Code.CONNECTIONLOSS
                self._connected.clear()
                self._listener.on_session(self, SessionEvent.DISCONNECTED)
        elif state == KeeperState.AUTH_FAILED and self._code not in _OVER:
            self._end(Code.AUTHFAILED)
            self._listener.on_session(self, SessionEvent.AUTH_FAILED)
        elif state == KeeperState.EXPIRED_SESSION and self._code not in _OVER:
            self._end(Code.SESSIONEXPIRED)
            self._listener.on_session(self, SessionEvent.EXPIRED)

    def _on_connected(self, is_read_only: bool, session_id: int) -> None:
        if self._code in _OVER:
            return
        self.session_id = session_id or self.session_id
        self._code = Code.OK
        self._connected.set()
        if not self._opened.done():
            # kazoo tells no listener that the credentials of a first connection are refused; it answers this request.
            # It sends them by itself on every later connection.
            for scheme, given in self._source.auth:
                self._client.add_auth_async(scheme, given)
        self._arm_again()
        if self._source.sasl is not None:
            self._listener.on_session(self, SessionEvent.SASL_AUTHENTICATED)
        event = SessionEvent.CONNECTED_READ_ONLY if is_read_only else SessionEvent.CONNECTED
        self._listener.on_session(self, event)
        if not self._opened.done():
            self._opened.set_result(None)

    def _end(self, code: Code) -> None:
        """The session is over: answer all that is under way, forget all watches, and stop the client."""
        if self._code in _OVER:
            return
        self._code = code
        self._stopping = self._loop.create_task(self._stop())
        self._data_armed.clear()
        self._children_armed.clear()
        under_way, self._under_way = self._under_way, set()
        for asked in under_way:
            asked.answer(failed(asked.request, code))
        for own in list(self._own):
            if not own.done():
                own.set_result(SessionExpiredError())

    # --- watches ----------------------------------------------------------------------------------------------------

    def _on_data_event(self, event: WatchedEvent) -> None:
        """On kazoo's worker thread."""
        if event.type != EventType.NONE:
            self._soon(self._fire_data, event.type, event.path)

    def _on_children_event(self, event: WatchedEvent) -> None:
        if event.type != EventType.NONE:
            self._soon(self._fire_children, event.type, event.path)

    def _fire_data(self, type: str, path: str) -> None:
        if self._data_armed.pop(path, None) is not None:
            self._tell(_CHANGES[type], path)

    def _fire_children(self, type: str, path: str) -> None:
        if self._children_armed.pop(path, None) is not None and type == EventType.CHILD:
            self._tell(ChangeType.CHILDREN_CHANGED, path)

    def _tell(self, change: ChangeType, path: str) -> None:
        if (seen := self._chroot.off(path)) is not None:
            self._listener.on_change(self, change, seen)

    def _arm_again(self) -> None:
        """Set all watches on a new connection, before anything else is asked on it."""
        for path, seen in self._data_armed.items():
            result = self._client.exists_async(path, watch=self._on_data_event)
            self._when_done(result, partial(self._compare_data, path, seen))
        for path, seen in self._children_armed.items():
            result = self._client.get_children_async(path, watch=self._on_children_event, include_data=True)
            self._when_done(result, partial(self._compare_children, path, seen))

    def _compare_data(self, path: str, seen: int, given: Any) -> None:
        if isinstance(given, Exception) or self._data_armed.get(path) != seen:
            return  # the connection broke again, or the path was told or armed anew
        now = 0 if given is None else given.mzxid
        if now != seen:
            del self._data_armed[path]
            change = ChangeType.CREATED if not seen else ChangeType.DATA_CHANGED if now else ChangeType.DELETED
            self._tell(change, path)

    def _compare_children(self, path: str, seen: int, given: Any) -> None:
        if self._children_armed.get(path) != seen:
            return
        if isinstance(given, Exception):
            if _code(given) == Code.NONODE:
                del self._children_armed[path]
        elif given[1].pzxid != seen:
            del self._children_armed[path]
            self._tell(ChangeType.CHILDREN_CHANGED, path)

    # --- requests ---------------------------------------------------------------------------------------------------

    def submit(self, request: Request[Any], arm: bool, give: Give) -> None:
        if self._code != Code.OK:
            give(failed(request, self._code))
            return
        try:
            result = self._ask(request, arm)
        except (TypeError, ValueError) as error:  # kazoo checks arguments where they are given
            _LOG.warning("not sent: %s", error)
            give(failed(request, Code.BADARGUMENTS))
            return
        asked = Asked(request, arm, give)
        self._under_way.add(asked)
        self._when_done(result, lambda given: self._on_answer(asked, given))

    def _ask(self, request: Request[Any], arm: bool) -> Any:
        client, data, children = self._client, self._on_data_event, self._on_children_event
        path = "" if request.path is None else self._chroot.below(request.path)
        match request:
            case CreateRequest(data=given, acl=acl, create_mode=mode):
                path = self._chroot.below(request.path, is_sequential=mode.is_sequential)
                return client.create_async(
                    path, given, _acls(acl), mode.is_ephemeral, mode.is_sequential, include_data=True
                )
            case DeleteRequest(version=version):
                return client.delete_async(path, version)
            case ExistsRequest():
                return client.exists_async(path, watch=data if arm else None)
            case GetDataRequest():
                return client.get_async(path, watch=data if arm else None)
            case SetDataRequest(data=given, version=version):
                return client.set_async(path, given, version)
            case GetAclRequest():
                return client.get_acls_async(path)
            case SetAclRequest(acl=acl, version=version):
                return client.set_acls_async(path, _acls(acl), version)
            case GetChildrenRequest():
                return client.get_children_async(path, watch=children if arm else None, include_data=True)
            case MultiRequest(ops=ops):
                transaction = client.transaction()
                transaction.operations.extend(self._operation(op) for op in ops)
                return transaction.commit_async()
        raise TypeError(f"{request!r} is no request")

    def _operation(self, op: ZkOp) -> Any:
        path = self._chroot.below(op.path)
        match op:
            case CreateOp(data=data, acl=acl, create_mode=mode):
                path = self._chroot.below(op.path, is_sequential=mode.is_sequential)
                flags = EPHEMERAL * mode.is_ephemeral | SEQUENTIAL * mode.is_sequential
                return Create(path, data, _acls(acl), flags)
            case DeleteOp(version=version):
                return Delete(path, version)
            case SetDataOp(data=data, version=version):
                return SetData(path, data, version)
        return CheckVersion(path, op.version)

    def _when_done(self, result: Any, call: Callable[[Any], object]) -> None:
        """Call with the value, or the exception, on the event loop and in the order of the wire."""
        result.rawlink(lambda done: self._soon(call, done.exception if done.exception is not None else done.value))

    async def _kazoo(self, ask: Callable[[], Any]) -> Any:
        """The value or the exception of one of kazoo's own calls."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._own.add(future)
        future.add_done_callback(self._own.discard)
        self._when_done(ask(), partial(_set, future))
        return await future

    def _on_answer(self, asked: Asked, given: Any) -> None:
        if asked.is_answered:
            return  # the session ended before
        if asked.arm:
            self._arm(asked.request, given)
        self._under_way.discard(asked)
        asked.answer(self._response(asked.request, given))

    def _arm(self, request: Request[Any], given: Any) -> None:
        """Remember which state a watch is about: kazoo sets it for these answers alone."""
        path = self._chroot.below(str(request.path))
        match request:
            case ExistsRequest() if not isinstance(given, Exception):
                self._data_armed[path] = 0 if given is None else given.mzxid
            case GetDataRequest() if not isinstance(given, Exception):
                self._data_armed[path] = given[1].mzxid
            case GetChildrenRequest() if not isinstance(given, Exception):
                self._children_armed[path] = given[1].pzxid

    def _response(self, request: Request[Any], given: Any) -> Response:
        if isinstance(given, Exception):
            response: Response = failed(request, _code(given))
            return response
        common: dict[str, Any] = {"result_code": Code.OK, "path": request.path, "ctx": request.ctx}
        match request:
            case CreateRequest():
                return CreateResponse(name=self._chroot.off(given[0]), stat=Stat(*given[1]), **common)
            case DeleteRequest():
                return DeleteResponse(**common)
            case ExistsRequest() if given is None:
                return failed(request, Code.NONODE)
            case ExistsRequest():
                return ExistsResponse(stat=Stat(*given), **common)
            case GetDataRequest():
                return GetDataResponse(data=given[0], stat=Stat(*given[1]), **common)
            case SetDataRequest():
                return SetDataResponse(stat=Stat(*given), **common)
            case GetAclRequest():
                acl = tuple(Acl(each.perms, each.id.scheme, each.id.id) for each in given[0])
                return GetAclResponse(acl=acl, stat=Stat(*given[1]), **common)
            case SetAclRequest():
                return SetAclResponse(stat=Stat(*given), **common)
            case GetChildrenRequest():
                return GetChildrenResponse(children=tuple(given[0]), stat=Stat(*given[1]), **common)
        return self._multi_response(request, given, common)

    def _multi_response(self, request: Request[Any], given: Any, common: dict[str, Any]) -> Response:
        assert isinstance(request, MultiRequest)
        results = tuple(self._op_result(op, each) for op, each in zip(request.ops, given, strict=True))
        codes = [each.result_code for each in results if each.result_code != Code.OK]
        wrong = next((code for code in codes if code != Code.RUNTIMEINCONSISTENCY), codes[0] if codes else Code.OK)
        return MultiResponse(zk_op_results=results, **{**common, "result_code": wrong})

    def _op_result(self, op: ZkOp, given: Any) -> ZkOpResult:
        if isinstance(given, Exception):
            return ZkOpResult(op, _code(given))
        if isinstance(op, CreateOp):
            return ZkOpResult(op, Code.OK, name=self._chroot.off(given))
        return ZkOpResult(op, Code.OK, stat=Stat(*given) if isinstance(op, SetDataOp) else None)


def _set(future: asyncio.Future[Any], given: Any) -> None:
    if not future.done():
        future.set_result(given)


_OVER = (Code.SESSIONEXPIRED, Code.AUTHFAILED)
_CHANGES = {
    EventType.CREATED: ChangeType.CREATED,
    EventType.DELETED: ChangeType.DELETED,
    EventType.CHANGED: ChangeType.DATA_CHANGED,
}


def _acls(acl: Sequence[Acl]) -> list[Any]:
    return [ACL(int(each.perms), Id(each.scheme, each.id)) for each in acl]


def _code(error: BaseException) -> Code:
    """kazoo's error as a code. RolledBackError is OK: of the operations of a multi before the one that failed."""
    number = getattr(error, "code", None)
    if number is None:
        _LOG.error("kazoo failed: %r", error)
        return Code.SYSTEMERROR
    return code_of(number)
