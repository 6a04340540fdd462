"""A session on raftmeta: a lease, requests as commands of the store, and one watch of the tree.

Order. Reads and writes are asked in turns, so that a read shows all writes before it and none behind it, and each read
is as of one revision that no earlier answer is ahead of. An answer waits in `_answers` until the watch has told
everything up to the last change that the answer shows (`_reached`):
    1. a change of /a is revision 7, of /b revision 8; both are armed,
    2. a read shows /b as of 8; the watch has brought no event yet,
    3. the watch brings 7 and 8: both handlers are posted, and then the answer is given.
Where nothing is armed nobody can tell the order, and no answer waits.

A connection that breaks ends no request: the store's session makes each one once, and the request goes on elsewhere.
Requests end when they are answered, or when the session does: SESSIONEXPIRED. The session is over for this process when
its lease could not be kept alive in time by the process's own clock, and before the next one begins it is revoked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

from raftmeta.bindings import verbs
from raftmeta.bindings.verbs import Request as Command
from raftmeta.errors import (
    AuthenticationFailed,
    CommandRefused,
    IdConflict,
    InvalidArgument,
    NotExecuted,
    NotReady,
    OutcomeUnknown,
    PermissionDenied,
    RaftmetaError,
    Refused,
    ZnodeRefused,
)
from raftmeta.metastore.armed import ABSENT, Armed
from raftmeta.metastore.carrier import Asked, ChangeType, Give, Listener, SessionEvent
from raftmeta.metastore.codes import AuthFailed, Code, MetastoreError, code_of
from raftmeta.metastore.paths import Chroot, parent_of
from raftmeta.metastore.requests import (
    ExistsRequest,
    GetAclRequest,
    GetChildrenRequest,
    GetDataRequest,
    MultiRequest,
    Request,
    Response,
    failed,
)
from raftmeta.metastore.translate import Identities, operations_of, read_response, refusal, write_response
from raftmeta.operations import RangeResult, ZnodeCheck, ZnodeCreate
from raftmeta.results import WatchBatch, WatchReset, ZnodesReply
from raftmeta.verbs.asked import RangeAsked
from raftmeta.verbs.awaited import AioVerbs
from raftmeta.verbs.lease import AioLease
from raftmeta.verbs.watch import AioWatch
from raftmeta.verbs.znodes import ZnodePlace

__all__ = ["ZnodeCarrier", "ZnodeStore"]

_LOG = logging.getLogger(__name__)

CLOSE_S = 2.0  # for a connection over which a session can be ended
RETRY_S = 0.1
_READS = (ExistsRequest, GetDataRequest, GetAclRequest, GetChildrenRequest)
_OVER = (Code.SESSIONEXPIRED, Code.AUTHFAILED)


class ZnodeStore(Protocol):
    """The store of one metastore (metastore/stores).

    last_lease: of the session before, 0: there was none. tell: called with whether a node serves the store, at each
    change.
    """

    chroot: Chroot
    root: str
    identities: Identities
    session_timeout_s: float
    last_lease: int
    tell: Callable[[bool], None]

    async def ready(self) -> AioVerbs:
        """Wait until the store can be asked, and return its verbs."""


@dataclass(frozen=True, slots=True)
class _Outcome:
    """An answer. shown: the revision of the last change that it shows. revision: of the state shown, 0: of none."""

    response: Response
    shown: int
    revision: int = 0
    zxid: int = ABSENT  # of what it arms


class ZnodeCarrier:
    """One session."""

    def __init__(self, store: ZnodeStore, listener: Listener) -> None:
        self._store = store
        self._listener = listener
        self._chroot = store.chroot
        self._loop = asyncio.get_running_loop()
        self._verbs: Any = None  # AioVerbs with the carrier's part of theirs
        self._lease: AioLease | None = None
        self._watch: AioWatch | None = None
        self._code = Code.CONNECTIONLOSS  # of a request that comes now; OK: it is asked
        self._is_open = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._pump: asyncio.Task[None] | None = None
        self._queue: deque[Asked] = deque()
        self._under_way: dict[Asked, None] = {}  # in their order; also those in the queue
        self._answers: deque[tuple[int, Asked, Response]] = deque()  # with the revision that each waits for
        self._armed = Armed()
        self._reached = 0  # every change up to this revision was told
        self._seen = 0  # the newest revision that an answer shows
        store.tell = self._on_connection

    @property
    def session_id(self) -> int:
        return 0 if self._lease is None else self._lease.id

    # --- life -------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        while True:
            try:
                self._verbs = await self._store.ready()
                await self._begin()
                break
            except AuthFailed:
                raise
            except (AuthenticationFailed, PermissionDenied) as error:
                raise AuthFailed(f"the store does not accept the credentials: {error}") from error
            except (NotExecuted, OutcomeUnknown, CommandRefused) as error:  # the last: members do not know znodes yet
                _LOG.info("the store cannot begin a session yet, trying again: %s", error)
            await asyncio.sleep(RETRY_S)
        assert self._lease is not None
        self._start(self._lose())
        self._start(self._listen())
        self._is_open = True
        self._code = Code.OK
        self._listener.on_session(self, SessionEvent.CONNECTED)

    async def _begin(self) -> None:
        if self._store.last_lease:
            with contextlib.suppress(Refused):  # it has ended by itself
                await self._verbs._ask(verbs.revoke(self._store.last_lease), None)
            self._store.last_lease = 0
        if self._lease is None or not self._lease.held():
            self._lease = await self._new_lease()
        await self._make_chroot()
        if self._watch is None:
            here = self._place("/")
            self._reached = (await self._verbs._range(here.itself(0), None)).revision
            end = here.key[:-1] + b"0" if here.key.endswith(b"/") else here.key + b"0"  # behind all paths below it
            watch = self._verbs.watch(here.key, end, start_revision=self._reached + 1, reset=True)
            self._watch = await watch.__aenter__()

    async def _new_lease(self) -> AioLease:
        """Ids are drawn from 2^62, so that none was ever another session's; a Java program reads them as positive."""
        while True:
            with contextlib.suppress(IdConflict):
                ttl_s = self._store.session_timeout_s
                lease: AioLease = await self._verbs.lease(ttl_s, id=1 + secrets.randbits(62), timeout_s=None)
                return lease

    async def _make_chroot(self) -> None:
        """The chroot with all above it; the first request of a tree also makes the root."""
        store = self._store
        paths = [path for path in store.chroot.to_create() if await self._find(path) is None]
        for path in paths or ([] if store.chroot.path else ["/"]):
            operation = ZnodeCheck(path) if path == "/" else ZnodeCreate(path)
            try:
                await self._verbs.znodes([operation], root=store.root, identities=store.identities, timeout_s=None)
            except ZnodeRefused as error:
                if error.code != Code.NODEEXISTS:
                    raise MetastoreError(f"{path} cannot be created: {code_of(error.code).name}") from error

    async def _find(self, path: str) -> Any:
        return await self._verbs.znode(path, root=self._store.root, timeout_s=None)

    async def close(self) -> None:
        self._end(Code.SESSIONEXPIRED)
        if self._watch is not None:
            with contextlib.suppress(RaftmetaError):
                await self._watch.close()
        if self._lease is not None and self._lease.held():
            # Without a connection its ephemerals stay until it expires.
            with contextlib.suppress(RaftmetaError, TimeoutError):
                await self._lease.revoke(timeout_s=CLOSE_S)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """A mistake in it ends the session: nobody would be answered otherwise."""
        try:
            await work
        except Exception:
            _LOG.exception("session ended session=%#x", self.session_id)
            self._stop(Code.SESSIONEXPIRED, SessionEvent.EXPIRED)

    async def _lose(self) -> None:
        """Wait until the session is over for this process."""
        assert self._lease is not None
        await self._lease.wait_lost()
        self._stop(Code.SESSIONEXPIRED, SessionEvent.EXPIRED)

    def _stop(self, code: Code, event: SessionEvent) -> None:
        if self._code not in _OVER:
            self._end(code)
            self._listener.on_session(self, event)

    def _end(self, code: Code) -> None:
        """The session is over: nothing is asked any more, and all that was asked is answered."""
        if self._code in _OVER:
            return
        self._code = code
        self._store.last_lease = self.session_id
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        self._armed.clear()
        while self._answers:  # these are known
            self._answer(*self._answers.popleft()[1:])
        for asked in list(self._under_way):
            self._answer(asked, failed(asked.request, code))
        self._queue.clear()

    def _on_connection(self, is_there: bool) -> None:
        if not self._is_open or self._code in _OVER or is_there == (self._code == Code.OK):
            return
        self._code = Code.OK if is_there else Code.CONNECTIONLOSS
        self._listener.on_session(self, SessionEvent.CONNECTED if is_there else SessionEvent.DISCONNECTED)

    # --- changes ----------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        assert self._watch is not None
        try:
            async for found in self._watch.batches():
                self._hear(found)
            why: object = "its watch ended"
        except (AuthenticationFailed, PermissionDenied) as error:
            _LOG.error("session ended session=%#x reason=%r", self.session_id, error)
            self._stop(Code.AUTHFAILED, SessionEvent.AUTH_FAILED)
            return
        except RaftmetaError as error:
            why = error
        _LOG.warning("session ended session=%#x reason=%r", self.session_id, why)
        self._stop(Code.SESSIONEXPIRED, SessionEvent.EXPIRED)

    def _hear(self, found: WatchBatch | WatchReset) -> None:
        if isinstance(found, WatchReset):
            present = {path: record for record in found.records if (path := self._path(record.key)) is not None}
            self._tell(self._armed.reset(found.revision, present))
            self._seen = max(self._seen, found.revision)  # a read from before is read again
            self._reach(found.revision)
            return
        self._reach(found.revision - 1)
        for event in found.events:
            path = self._path(event.key)
            if path is not None:
                self._tell(self._armed.heard(event, path))
        if found.is_whole:
            self._reach(found.revision)

    def _path(self, key: bytes) -> str | None:
        """The store's path of a key; None: it is none of the chroot's, or no path."""
        try:
            path = key[len(self._store.root.encode()) :].decode()
        except UnicodeDecodeError:  # a plain key
            return None
        return None if self._chroot.off(path) is None else path

    def _tell(self, told: list[tuple[ChangeType, str]]) -> None:
        for change, path in told:
            seen = self._chroot.off(path)
            if seen is not None:
                self._listener.on_change(self, change, seen)

    def _reach(self, revision: int) -> None:
        self._reached = max(self._reached, revision)
        self._give_answers()

    def _give_answers(self) -> None:
        while self._answers and self._answers[0][0] <= self._reached:
            self._answer(*self._answers.popleft()[1:])

    def _answer(self, asked: Asked, response: Response) -> None:
        self._under_way.pop(asked, None)
        asked.answer(response)

    # --- requests ---------------------------------------------------------------------------------------------------

    def submit(self, request: Request[Any], arm: bool, give: Give) -> None:
        if self._code != Code.OK:
            give(failed(request, self._code))
            return
        asked = Asked(request, arm, give)
        if arm:
            self._armed.begin_read()
        self._under_way[asked] = None
        self._queue.append(asked)
        if self._pump is None or self._pump.done():
            self._pump = self._start(self._run())

    async def _run(self) -> None:
        while self._queue:
            if isinstance(self._queue[0].request, _READS):
                await self._read_all(self._take(is_read=True))
            else:
                await self._write_all(self._take(is_read=False))

    def _take(self, *, is_read: bool) -> list[Asked]:
        """The next requests of one kind."""
        taken: list[Asked] = []
        while self._queue and isinstance(self._queue[0].request, _READS) == is_read:
            taken.append(self._queue.popleft())
        return taken

    def _decide(self, asked: Asked, outcome: _Outcome) -> None:
        """Its answer is known: give it when its turn has come."""
        self._seen = max(self._seen, outcome.revision)
        late: list[tuple[ChangeType, str]] = []
        if asked.arm and not asked.is_answered:
            late = self._arm(asked.request, outcome)
        self._answers.append((outcome.shown, asked, outcome.response))
        self._give_answers()
        self._tell(late)
        if asked.arm:
            self._armed.end_read()

    def _arm(self, request: Request[Any], outcome: _Outcome) -> list[tuple[ChangeType, str]]:
        path = self._chroot.below(str(request.path))
        is_found = outcome.response.result_code == Code.OK
        if isinstance(request, GetChildrenRequest):
            return self._armed.arm_children(path, outcome.revision, outcome.zxid) if is_found else []
        is_absent = isinstance(request, ExistsRequest) and outcome.response.result_code == Code.NONODE
        return self._armed.arm_data(path, outcome.revision, outcome.zxid) if is_found or is_absent else []

    # --- reads ------------------------------------------------------------------------------------------------------

    def _place(self, path: str) -> ZnodePlace:
        return ZnodePlace(self._chroot.below(path), self._store.root)

    async def _range(self, asked: RangeAsked) -> RangeResult:
        found: RangeResult = await self._verbs._range(asked, None)
        return found

    async def _read_all(self, run: list[Asked]) -> None:
        """All at once. One that was read as of an earlier revision than the one before it is read again."""
        reading = [self._loop.create_task(self._read(asked.request)) for asked in run]
        try:
            for asked, task in zip(run, reading, strict=True):
                outcome = await task
                while 0 < outcome.revision < self._seen:
                    outcome = await self._read(asked.request)
                self._decide(asked, outcome)
        finally:
            for task in reading:
                task.cancel()

    async def _read(self, request: Request[Any]) -> _Outcome:
        try:
            return await self._look(request)
        except RaftmetaError as error:
            return _Outcome(refusal(request, error), 0)

    async def _look(self, request: Request[Any]) -> _Outcome:
        path = str(request.path)
        place = self._place(path)
        if not place.is_possible:
            return _Outcome(failed(request, Code.NONODE), 0)
        answer = await self._range(place.itself(0))
        found = place.found(answer)
        shown = await self._last_change(path, answer) if self._armed else 0
        if found is not None and isinstance(request, GetChildrenRequest):
            found = await place.with_children(found, self._range)
        response = read_response(request, found, self._store.identities)
        zxid = ABSENT
        if found is not None:
            zxid = found.stat.pzxid if isinstance(request, GetChildrenRequest) else found.stat.mzxid
        return _Outcome(response, shown, answer.revision, zxid)

    async def _last_change(self, path: str, answer: RangeResult) -> int:
        """The revision of the last change that an answer shows: of the znode, or of its end.

        The end of a znode, or of one above it, is a change of the nearest znode above that is left.
        """
        while not answer.records and path != "/":
            path = parent_of(path)
            answer = await self._range(self._place(path).itself(answer.revision))
        return answer.records[0].mod_revision if answer.records else 0

    # --- writes -----------------------------------------------------------------------------------------------------

    async def _write_all(self, run: list[Asked]) -> None:
        """Sent without waiting: each names the one before it, and is applied behind that."""
        sent: list[tuple[Asked, Any]] = []
        before: Command[ZnodesReply] | None = None
        for asked in run:
            command, answer = self._send(asked.request, before)
            before = command or before
            sent.append((asked, answer))
        for asked, answer in sent:
            self._decide(asked, await self._written(asked.request, answer))

    def _command(self, request: Request[Any], before: Command[ZnodesReply] | None = None) -> Command[ZnodesReply]:
        """Raises InvalidArgument."""
        store = self._store
        try:
            operations = operations_of(request, store.chroot, store.identities)
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidArgument(f"request: {error}") from error
        assert self._lease is not None
        return verbs.znodes(operations, self._lease.id, store.identities, store.root, None, before)

    def _send(self, request: Request[Any], before: Command[ZnodesReply] | None) -> tuple[Any, Any]:
        """The command and what awaits its answer; in the place of that an error, or None: it is still to be sent."""
        is_empty = isinstance(request, MultiRequest) and not request.ops
        if is_empty or not self._verbs._has_session():
            return None, None
        try:
            command = self._command(request, before)
            answer = self._verbs._carry(command, self._verbs._prepare(command, None))
            answer.add_done_callback(lambda done: done.cancelled() or done.exception())  # the session may end before
            return command, answer
        except RaftmetaError as error:
            return None, error

    async def _written(self, request: Request[Any], answer: Any) -> _Outcome:
        try:
            reply = await self._reply(request, answer)
        except RaftmetaError as error:
            return await self._refused(request, error)
        is_change = any(not isinstance(each, ZnodeCheck) for each in operations_of(request, self._chroot, ()))
        shown = reply.revision if is_change else 0
        response = write_response(request, reply, self._chroot)
        return _Outcome(response, shown if self._armed else 0, shown)

    async def _reply(self, request: Request[Any], answer: Any) -> ZnodesReply:
        if isinstance(request, MultiRequest) and not request.ops:
            return ZnodesReply([], 0, 0)
        if isinstance(answer, RaftmetaError):
            raise answer
        if answer is not None:
            with contextlib.suppress(NotReady):  # the store's session ended: all commands behind it are refused as well
                sent: ZnodesReply = await answer
                return sent
        reply: ZnodesReply = await self._verbs._ask(self._command(request), None)
        return reply

    async def _refused(self, request: Request[Any], error: RaftmetaError) -> _Outcome:
        response = refusal(request, error)
        if not isinstance(error, ZnodeRefused):
            return _Outcome(response, 0)
        if error.code == Code.SESSIONEXPIRED:
            self._loop.call_soon(self._stop, Code.SESSIONEXPIRED, SessionEvent.EXPIRED)
        if not self._armed:
            return _Outcome(response, 0)
        path = str(request.ops[error.position].path if isinstance(request, MultiRequest) else request.path)
        return await self._with_change(response, path)

    async def _with_change(self, response: Response, path: str) -> _Outcome:
        """A refusal shows that a znode is there, or is not: look which change of it that was."""
        path = path if len(path) > 1 and not path.endswith("/") else parent_of(path)  # of a sequential one without name
        try:
            answer = await self._range(self._place(path).itself(0))
            return _Outcome(response, await self._last_change(path, answer), answer.revision)
        except RaftmetaError:
            return _Outcome(response, 0)
