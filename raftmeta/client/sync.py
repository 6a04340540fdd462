"""The blocking client: the verbs of raftmeta.Node, asked of a cluster; safe for many threads.

It decides nothing of its own: an event loop on one background thread runs the asyncio client and carries what the
verbs ask (verbs/blocking). A call waits for its coroutine. Ctrl-C ends the wait, not the operation.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Any, BinaryIO, Generic, Self, TypeVar, cast

from raftmeta.bindings.revision import Revision
from raftmeta.bindings.verbs import Request
from raftmeta.client.aio import AioClientLease
from raftmeta.client.aio import Client as AioClient
from raftmeta.client.backup import Progress
from raftmeta.client.kept import now_boot_s
from raftmeta.client.lease import LeaseBase
from raftmeta.client.machines import AioClientMachine, ClientMachine
from raftmeta.client.request import PendingResult as AioPendingResult
from raftmeta.client.watch import AioClientWatch
from raftmeta.common.apart import ApartThread
from raftmeta.common.flags import Flag
from raftmeta.common.shared_threads import SharedThreads
from raftmeta.errors import ForkedProcess, NodeClosed, NotExecuted, OutcomeTimeout, OutcomeUnknown, RaftmetaError
from raftmeta.members.plans import Change
from raftmeta.operations import Key, KeyRecord, RangeResult
from raftmeta.results import MemberStatus, NodeStatus, WatchBatch, WatchReset
from raftmeta.security.settings import Tls
from raftmeta.verbs.asked import RangeAsked, WatchAsked
from raftmeta.verbs.blocking import Verbs
from raftmeta.verbs.deaths import report
from raftmeta.verbs.lease import Lease
from raftmeta.verbs.watch import Watch

T = TypeVar("T")
Answer = TypeVar("Answer")

CLOSE_TIMEOUT_S = 5.0
END_TIMEOUT_S = 0.5

_LOG = logging.getLogger(__name__)


class _Waiting(Generic[T]):
    """A call on the client's thread, and the thread that waits for it.

    Not a concurrent.futures.Future: that holds a lock for a moment, and a signal handler that closes the client in that
    moment would wait for a thread that waits for the lock.
    """

    def __init__(self, call: Coroutine[Any, Any, T]) -> None:
        self._call = call
        self._ended = Flag()
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._call)
        self._task.add_done_callback(self.end)

    def end(self, *_: object) -> None:
        """It is done, or nobody runs it any more."""
        self._ended.set()

    def give_up(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    def wait(self) -> None:
        self._ended.wait()

    def result(self) -> T:
        if self._task is None:
            self._call.close()
            raise NodeClosed("the client is closed")
        try:
            return self._task.result()
        except (asyncio.CancelledError, asyncio.InvalidStateError):
            raise OutcomeUnknown("the client was closed meanwhile") from None


class Client(Verbs):
    """A client of a cluster. As a context it is closed.

    url: "raft://host:port,host:port", where nodes listen for clients, as many of them as are known: the client moves to
    the leader if it is among them; or "raft+unix:///folder" of a node of this machine.
    cluster: its name, as the nodes have it. name: of this client, for people. session_ttl_s: how long the results of a
    client that is silent are kept, and so how long it may be cut off without losing track of what it had under way.
    user, password: what it proves to each node, by SCRAM-SHA-256; the password itself is never sent, and without TLS it
    is proved over loopback and Unix sockets only. Raises AuthenticationFailed from the first call on if it is wrong.
    With none of them the client is the principal in the certificate of its tls, if a user has that name.
    token: in the place of user and password, from `auth.token` or `auth.founding_token`.
    tls: raftmeta.Tls, if the nodes have TLS; it may also stand in the URL, as ?tls_ca=FILE&tls_cert=FILE&tls_key=FILE.

    Arguments, results and errors are those of raftmeta.Node: a call tells the fate of its operation, however many nodes
    and connections it took.
    """

    def __init__(
        self,
        url: str,
        *,
        cluster: str = "default",
        name: str | None = None,
        session_ttl_s: float = 60.0,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        tls: Tls | None = None,
    ) -> None:
        self._client = AioClient(
            url,
            cluster=cluster,
            name=name,
            session_ttl_s=session_ttl_s,
            user=user,
            password=password,
            token=token,
            tls=tls,
        )
        self.url, self.cluster = self._client.url, self._client.cluster
        self._pid = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._scheduling = threading.RLock()  # what is given to the loop is given before close() ends it
        self._closer = 0  # the thread that closes, or has closed
        self._is_closed = False
        self._waiting: set[_Waiting[Any]] = set()
        self._threads = SharedThreads("client-call")
        self._tasks: set[asyncio.Task[None]] = set()  # the event loop itself holds tasks weakly
        self._thread = ApartThread(self._run, "raftmeta-client")
        self._thread.start()

    # --- life -------------------------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()
            while self._waiting:
                self._waiting.pop().end()

    @property
    def is_open(self) -> bool:
        return not self._is_closed and self._pid == os.getpid()

    def check_open(self) -> None:
        """Raises NodeClosed or ForkedProcess where nothing can be asked any more."""
        if self._pid != os.getpid():
            raise ForkedProcess("this client belongs to the process that was forked")
        if self._is_closed:
            raise NodeClosed("the client is closed")

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the client's thread and wait for it."""
        waiting = _Waiting(call)
        try:
            self._schedule(waiting.begin)
        except NotExecuted:
            call.close()
            raise
        self._waiting.add(waiting)
        try:
            if self._loop.is_closed():  # a signal handler closed the client while the call was on its way
                waiting.end()
            waiting.wait()
        except BaseException:
            with contextlib.suppress(RuntimeError):  # the handler that raises has closed the client before
                self._loop.call_soon_threadsafe(waiting.give_up)
            raise
        finally:
            self._waiting.discard(waiting)
        try:
            return waiting.result()
        except OutcomeTimeout as error:
            if isinstance(error.ticket, AioPendingResult):
                error.ticket = PendingResult(self, error.ticket)
            raise

    def _schedule(self, work: Callable[[], None]) -> None:
        self.check_open()  # in a forked child nobody may hold the lock who could give it back
        with self._scheduling:
            self.check_open()
            try:
                self._loop.call_soon_threadsafe(work)
            except RuntimeError:  # a signal handler closed the client just now
                self.check_open()
                raise

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Let work go on on the client's thread; for the parts of the library. It logs its own errors."""

        def create() -> None:
            task = self._loop.create_task(work)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        self._schedule(create)

    async def call_shared(self, call: Callable[[], object]) -> BaseException | None:
        """Call on a thread that all callbacks share, and return what it raised; on the client's thread."""
        future: asyncio.Future[BaseException | None] = self._loop.create_future()

        def answer(error: BaseException | None) -> None:
            if not future.done():
                future.set_result(error)

        def run() -> None:
            error: BaseException | None = None
            try:
                call()
            except BaseException as raised:
                error = raised
            with contextlib.suppress(RuntimeError):  # the client was closed meanwhile, and its event loop
                self._loop.call_soon_threadsafe(answer, error)

        self._threads.post(run)
        return await future

    def ready(self, timeout_s: float | None = 10.0) -> None:
        """Wait until a node serves this client. Raises ReadyTimeout."""
        self.wait(self._client.ready(timeout_s))

    def close(self) -> None:
        """Close session and connections and end the thread. Calls that wait learn their fate."""
        if self._pid != os.getpid():
            return
        thread = threading.get_ident()
        with self._scheduling:
            is_first = self._closer == 0
            if is_first:
                self._closer = thread
        if is_first:
            try:
                self._leave()
            finally:
                self._end()
        elif self._closer == thread:
            self._end()  # a signal handler, in the place of the closing that it interrupted
        if not self._thread.is_this():
            self._thread.wait(CLOSE_TIMEOUT_S)

    def _leave(self) -> None:
        """Let the objects on this client give back what they hold; raftmeta.Client has such objects."""

    def _end(self) -> None:
        with self._scheduling:
            if not self._is_closed:
                self._is_closed = True
                self._loop.call_soon_threadsafe(self._begin_ending)

    def _begin_ending(self) -> None:
        self._ending = self._loop.create_task(self._close_and_stop())

    async def _close_and_stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        try:
            async with asyncio.timeout(CLOSE_TIMEOUT_S - 2 * END_TIMEOUT_S):
                await self._client.close()
        except Exception as error:
            _LOG.warning("client closed without an answer url=%s reason=%r", self.url, error)
        finally:
            await self._end_tasks()
            self._loop.call_soon(self._loop.stop)  # behind all that is to be called by now

    async def _end_tasks(self) -> None:
        """Those who wait are told by now, and their tasks end in the next turns."""
        tasks = asyncio.all_tasks() - {self._ending}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=END_TIMEOUT_S)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=END_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    # --- the carrier: the channel of the asyncio client, on its thread ----------------------------------------------

    def _ask(self, request: Request[Answer], timeout_s: float | None) -> Answer:
        return self.wait(self._client._ask(request, timeout_s))

    def _get(self, key: Key, revision: int, local: bool, timeout_s: float | None) -> KeyRecord | None:
        return self.wait(self._client._get(key, revision, local, timeout_s))

    def _range(self, asked: RangeAsked, timeout_s: float | None) -> RangeResult:
        return self.wait(self._client._range(asked, timeout_s))

    def _lease(
        self, ttl_s: float, id: int, on_lost: Callable[[Lease], object] | None, timeout_s: float | None
    ) -> ClientLease:
        made: list[ClientLease] = []
        has_made = Flag()

        def tell() -> None:
            has_made.wait()
            if on_lost is not None and made and not made[0].is_revoked:
                on_lost(made[0])

        try:
            told = None if on_lost is None else lambda _: self._threads.post(tell)
            made.append(ClientLease(self, self.wait(self._client._lease(ttl_s, id, told, timeout_s))))
        finally:
            has_made.set()
        return made[0]

    def _watch(
        self,
        asked: WatchAsked,
        callback: Callable[[WatchBatch | WatchReset], object] | None,
        on_end: Callable[[BaseException | None], object] | None,
    ) -> ClientWatch:
        async def open_watch() -> AioClientWatch:
            return await self._client._watch(asked).__aenter__()

        watch = ClientWatch(self, self.wait(open_watch()))
        if callback is not None:
            watch.call_back(callback, on_end)
        return watch

    def report_dead(self, member: int, boot: int, *, timeout_s: float | None = 5.0) -> Revision:
        """As raftmeta.Node.report_dead; the user needs the right "admin" once rights are on."""
        return report(self._ask, member, boot, timeout_s)

    def _transfer(self, to: str | None, timeout_s: float | None) -> None:
        self.wait(self._client._transfer(to, timeout_s))

    def _members(self, timeout_s: float | None) -> tuple[MemberStatus, ...]:
        return self.wait(self._client._members(timeout_s))

    def _rights_page(self, page: int, first: bytes, limit: int, timeout_s: float | None) -> list[Any]:
        return self.wait(self._client._rights_page(page, first, limit, timeout_s))

    def _reach(self, change: Change, timeout_s: float | None) -> None:
        self.wait(self._client._reach(change, timeout_s))

    def fetch(self, key: Key, *, timeout_s: float | None = 5.0) -> Future[bytes | None]:
        """The value of a key, None without one, as a future: the call does not wait. Reads as get does.

        Callbacks of the future are called on the thread of the client and must not block.
        """

        async def value() -> bytes | None:
            record = await self._client.get(key, timeout_s=timeout_s)
            return None if record is None else record.value

        future: Future[bytes | None] = Future()

        async def answer() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(await value())
            except asyncio.CancelledError:
                future.set_exception(NodeClosed("the client is closed"))
            except Exception as error:
                future.set_exception(error)

        call = answer()
        try:
            self.begin(call)
        except NotExecuted as error:
            call.close()
            future.set_exception(error)
        return future

    # --- the cluster --------------------------------------------------------------------------------------------------

    def replicated(self, name: str, cls: type) -> ClientMachine:
        """The user machine of that name, run by the nodes; cls: its class, marked with @raftmeta.replicated.

        Its methods are called here and run there; docs/replicated.md. Raises ConfigError, InvalidArgument.
        """
        return ClientMachine(self, AioClientMachine(self._client, name, cls))

    def fetch_snapshot(
        self, sink: BinaryIO, *, timeout_s: float | None = 60.0, on_progress: Progress | None = None
    ) -> None:
        """Write a sealed file with everything acknowledged before this call into sink (docs/formats.md "Sealed file").

        It comes from the node that serves this client, piece by piece, and goes on at another one when that is gone.
        sink: a binary file that can be cut (truncate). timeout_s: until a node has the file; None: no limit.
        on_progress: called with the bytes so far and the bytes in all. Nobody has checked the file when this returns:
        raftmeta.snapshot.save does, and replaces the old one only then.
        Raises NotExecuted (Withdrawn: no node has it in time, or gives a piece for 30 s), or OSError of the sink.
        """
        self.wait(self._client.fetch_snapshot(sink, timeout_s=timeout_s, on_progress=on_progress))

    def status(self, *, timeout_s: float | None = 5.0) -> NodeStatus:
        """How the node that serves this client saw itself at the end of a recent turn."""
        return self.wait(self._client.status(timeout_s=timeout_s))

    def flight_recorder(self, *, timeout_s: float | None = 5.0) -> bytes:
        """The content of the flight recorder of the node that serves this client, as its file `flight.ring` has it.

        It comes out of the node's memory. A client of one address asks that node, whoever leads.
        `raftmeta.explain.explain` takes it, and so does a file with it. Empty: the node has none. The user needs the
        right "admin" once rights are on. Raises Unsupported: the node runs a version without this request.
        """
        return self.wait(self._client.flight_recorder(timeout_s=timeout_s))

    def metrics(self) -> dict[str, int]:
        """Counters of this client by name: requests, requests sent again, connections and sessions opened."""

        async def look() -> dict[str, int]:
            return self._client.metrics()

        return self.wait(look())


class PendingResult:
    """An operation whose caller ran out of time: OutcomeUnknown.ticket. The client goes on with it meanwhile."""

    def __init__(self, client: Client, pending: AioPendingResult) -> None:
        self._client = client
        self._pending = pending

    @property
    def is_done(self) -> bool:
        return self._pending.is_done

    def result(self, timeout_s: float | None = 5.0) -> Any:
        """Go on waiting for the same operation and return what its call would have returned.

        Raises OutcomeTimeout, with a ticket again: still not known. The operation is applied at most once.
        """
        return self._client.wait(self._pending.result(timeout_s))


class ClientLease(LeaseBase, Lease):
    """A lease that the thread of its client keeps alive."""

    def __init__(self, client: Client, lease: AioClientLease) -> None:
        super().__init__(lease._channel, lease.id, lease._kept)
        self._client = client
        self._lease = lease
        self._ended = Flag()

    @property
    def is_revoked(self) -> bool:
        return self._ended.is_set()

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        deadline_s = None if timeout_s is None else now_boot_s() + timeout_s
        while self.held() and not self._ended.is_set():
            left_s = None if deadline_s is None else deadline_s - now_boot_s()
            if left_s is not None and left_s <= 0:
                return False
            pause_s = self.look_pause_s()
            self._ended.wait(pause_s if left_s is None else min(pause_s, left_s))
        return True

    def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        self._ended.set()
        self._client.wait(self._lease.revoke(timeout_s=timeout_s))


class ClientWatch(Watch):
    """A watch of the blocking client."""

    def __init__(self, client: Client, watch: AioClientWatch) -> None:
        self._client = client
        self._watch = watch
        self._is_closed = False

    def batches(self) -> Iterator[WatchBatch | WatchReset]:
        while not self._watch.is_closed:
            found = self._watch.take_ready()  # without a hand-over, as long as there is something
            if found is None:
                found = self._client.wait(self._watch.next(self._watch.timeout_s))
            if found is None:
                return
            yield found

    def call_back(
        self,
        callback: Callable[[WatchBatch | WatchReset], object],
        on_end: Callable[[BaseException | None], object] | None,
    ) -> None:
        """Give everything to callback from now on, and the end to on_end; for Client.watch."""
        self._client.begin(self._deliver(callback, on_end))

    async def _deliver(
        self,
        callback: Callable[[WatchBatch | WatchReset], object],
        on_end: Callable[[BaseException | None], object] | None,
    ) -> None:
        """On the client's thread. It takes what is there, and more only when the callback has come back."""
        watch, error = self._watch, cast("BaseException | None", None)
        try:
            while error is None and (found := await watch.next(watch.timeout_s)) is not None:
                items = deque([found])
                while (ready := self._take_ready(items)) is not None:
                    items.append(ready)
                error = await self._client.call_shared(partial(self._call_with, callback, items))
        except Exception as raised:
            error = raised
        if self._is_closed or not self._client.is_open:
            return
        self._watch.close_now()
        if on_end is not None:
            report = await self._client.call_shared(partial(on_end, error))
        else:
            report = None if isinstance(error, NotExecuted) else error
        if report is not None:
            threading.excepthook(
                threading.ExceptHookArgs((type(report), report, report.__traceback__, threading.current_thread()))
            )

    def _take_ready(self, items: deque[WatchBatch | WatchReset]) -> WatchBatch | WatchReset | None:
        has_error = self._watch.ready and isinstance(self._watch.ready[0], RaftmetaError)
        return None if has_error else self._watch.take_ready()

    def _call_with(
        self, callback: Callable[[WatchBatch | WatchReset], object], items: deque[WatchBatch | WatchReset]
    ) -> None:
        while items and not self._is_closed:
            callback(items.popleft())

    def close(self) -> None:
        self._is_closed = True
        with contextlib.suppress(NotExecuted):  # the client was closed before, and its watches with it
            self._client.wait(self._watch.close())
