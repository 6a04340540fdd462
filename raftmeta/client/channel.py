"""The requests of a client under way: one connection for them, one session, and each request until it is answered.

It decides where to connect, what to send again, when a session is opened, and the fate of a request that gets no
result. It must never give a command another sequence while it may have been executed, or open a session anew in
the name of commands of one that ended (they are OutcomeUnknown if they were sent, else encoded anew).

A connection breaks, in steps:
    1. on_lost: each request that was sent there and not answered has one doubt more;
    2. the channel connects elsewhere, with a pause that doubles and is drawn at random;
    3. everything is sent again under the same id and sequence, in the order of the first sending.

Following the leader: the node says who leads, by name. A client knows the names of the nodes it has met; if the leader
is none of them it looks at the addresses it has not tried. New requests then go to the leader; the old connection ends
when its last request is answered, and watches resume on the new one. A node that knows no leader (cut off from the
others, or no member yet) is left for one that does.

The first answer says which cluster it is, not the first HELLO: an address may lead to a node from an old disk, which
belongs to another cluster of the same name and has no leader. The client leaves that node like any other without a
leader, as long as it has answered nothing. After the first answer the client asks no node of another cluster.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from raftmeta.bindings.requests import (
    ANSWER,
    EVENTS,
    LEADER,
    NOTHING,
    NUMBER,
    OUTCOME,
    PING,
    VALUES,
    RequestEncoder,
    answer_value,
)
from raftmeta.bindings.scram import Credentials
from raftmeta.bindings.verbs import revoke
from raftmeta.client.connection import Connection, Message, NodeRefused
from raftmeta.client.endpoints import Endpoint
from raftmeta.client.kept import KeptLease, now_boot_s
from raftmeta.client.request import OpenRequest, PendingResult
from raftmeta.common import statuses
from raftmeta.common.text import shown
from raftmeta.errors import (
    AuthenticationFailed,
    ForkedProcess,
    InvalidArgument,
    MachineStopped,
    NodeClosed,
    NodeRemoved,
    NotExecuted,
    NotReady,
    OutcomeTimeout,
    OutcomeUnknown,
    Overloaded,
    PermissionDenied,
    QuotaExceeded,
    RaftmetaError,
    ReadyTimeout,
    Unsupported,
    Withdrawn,
    error_from_status,
    group_refused,
    permission_denied,
    quota_exceeded,
    znode_refused,
)

if TYPE_CHECKING:
    from raftmeta.client.secure import Security

CONNECT_TIMEOUT_S = 3.0
RECONNECT_MIN_S = 0.01
RECONNECT_MAX_S = 1.0
FOLLOW_PAUSE_S = 0.2  # before the first look for the leader; doubled for each look at which nobody knows one
FOLLOW_PAUSE_MAX_S = 2.0
RETRY_S = 0.02  # before a request is sent again that a node could not take just now
SWEEP_S = 0.005  # the least distance of two looks at time-outs
WINDOW = 16_384  # results kept per session at most; the node says how many it allows
KEEP_ALIVES_PER_TTL = 4
LEASES_AT_ONCE = 256  # that a client which closes gives back
TOKEN_ROUNDS = 5  # at all addresses, some 150 ms: a member lags less behind the one that made the token
NEVER = float("inf")


class Events(Protocol):
    """A consumer of the items of a watch: see raftmeta/client/watch.py."""

    def on_items(self, body: bytes) -> None:
        """Items came, one after another."""

    def on_refused(self, error: RaftmetaError) -> None:
        """The node does not open the watch."""

    def on_lost(self) -> None:
        """The watch ended with its connection."""


class Channel:
    """Belongs to the event loop on which it was made."""

    def __init__(
        self,
        endpoints: tuple[Endpoint, ...],
        *,
        cluster: str,
        name: str,
        session_ttl_s: float,
        credentials: Credentials | None = None,
        security: Security | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.encoder = RequestEncoder(4 << 20)  # until the node says how large values may be
        self.session_ttl_s = session_ttl_s
        self.leases: dict[int, KeptLease] = {}  # kept alive, by id
        self.on_connection: Callable[[bool], object] | None = None  # called when a node begins and ends to serve it
        self.counters = {"requests": 0, "requests_repeated": 0, "connects": 0, "sessions": 0}
        self._endpoints = endpoints
        self._cluster = cluster
        self._name = name
        self._credentials = credentials
        self._security = security
        self._pid = os.getpid()
        self._cluster_id = 0  # of the cluster that has answered
        self._names: dict[Endpoint, str] = {}
        self._leader = ""
        self._window = WINDOW
        self._home: Connection | None = None
        self._at_home = asyncio.Event()
        self._connections: set[Connection] = set()
        self._connecting: asyncio.Task[None] | None = None
        self._following: asyncio.Task[None] | None = None
        self._opening: asyncio.Task[None] | None = None
        self._keeping: asyncio.TimerHandle | None = None
        self._requests: dict[int, OpenRequest] = {}
        self._sequences: set[int] = set()  # of commands that are not answered
        self._watches: dict[int, tuple[Connection | None, Events]] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_s = NEVER
        self._last_error: Exception | None = None
        self._removed: NotExecuted | None = None  # why the last search for a home was given up
        self._is_closed = False

    # --- life -------------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raises NodeClosed or ForkedProcess where nothing can be asked any more."""
        if self._is_closed:
            raise NodeClosed("the client is closed")
        if self._pid != os.getpid():
            raise ForkedProcess("this client belongs to the process that was forked")

    async def close(self, timeout_s: float = 1.0) -> None:
        """Close the session if a node is there to do it, answer everybody who waits, leave no task behind."""
        if self._is_closed:
            return
        held = [lease for lease, kept in self.leases.items() if kept.left_s() > 0]
        self.leases.clear()  # nobody keeps them alive any more: none is held from here on
        if self.encoder.session and self._home is not None:
            deadline_s = self.deadline(timeout_s)
            await self._give_back(held, deadline_s)
            future = self.submit(self.encoder.close_session(), NOTHING, deadline_s, is_command=True)
            await asyncio.wait([future])
            future.exception()
        self._is_closed = True
        tasks = [task for task in (self._connecting, self._following, self._opening) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for handle in (self._sweeper, self._keeping):
            if handle is not None:
                handle.cancel()
        for connection in list(self._connections):
            connection.abort()
        for request in list(self._requests.values()):
            self._end(
                request,
                self._unknown("the client was closed meanwhile")
                if self._may_be_executed(request)
                else NodeClosed("the client is closed"),
            )
        for _, events in list(self._watches.values()):
            events.on_lost()
        self._watches.clear()
        self._at_home.set()  # whoever waits for a connection looks, and finds the client closed
        await asyncio.sleep(0)  # connections end in the next turn

    async def _give_back(self, held: list[int], deadline_s: float) -> None:
        """Others need not wait for the end of these leases. One that cannot be given back in time ends by itself."""
        for first in range(0, len(held), LEASES_AT_ONCE):
            futures = [
                self.submit(self.encoder.command(revoke(lease)), NOTHING, deadline_s, is_command=True)
                for lease in held[first : first + LEASES_AT_ONCE]
            ]
            await asyncio.wait(futures)
            for future in futures:
                future.exception()
            if self.loop.time() >= deadline_s:
                return

    # --- requests ---------------------------------------------------------------------------------------------------

    def deadline(self, timeout_s: float | None) -> float:
        """When timeout_s from now has passed, on the event loop's clock."""
        if timeout_s is None:
            return NEVER
        if isinstance(timeout_s, bool) or not isinstance(timeout_s, int | float) or not 0 <= timeout_s <= 1e9:
            raise InvalidArgument(
                f"timeout_s: must be from 0 to 1e9 seconds or None, not {timeout_s!r}", field="timeout_s"
            )
        return self.loop.time() + timeout_s

    def submit(
        self,
        frame: bytes,
        purpose: int,
        deadline_s: float,
        *,
        is_command: bool = False,
        is_sent_once: bool = False,
    ) -> asyncio.Future[Any]:
        """Send the frame that the encoder made last; the future gets its value or the error that tells its fate.

        is_command: the frame took the session's last sequence. is_sent_once: no answer but one is waited for; a broken
        connection makes it OutcomeUnknown.
        """
        future: asyncio.Future[Any] = self.loop.create_future()
        encoder = self.encoder
        sequence = encoder.sequence - 1 if is_command else 0
        request = OpenRequest(
            encoder.id,
            frame,
            purpose,
            session=encoder.session,
            sequence=sequence,
            deadline_s=deadline_s,
            future=future,
            is_sent_once=is_sent_once,
        )
        self._requests[request.id] = request
        self.counters["requests"] += 1
        if sequence:
            self._sequences.add(sequence)
        if self._home is not None:
            self._send(request, self._home)
        else:
            self._connect()
        if deadline_s < self._sweep_s:
            self._plan_sweep(deadline_s)
        return future

    def check_room(self) -> None:
        """Raises Overloaded when so many commands are under way that results could be forgotten."""
        if self.encoder.sequence - self.encoder.lowest_unanswered >= self._window:
            raise Overloaded(f"{self._window} commands of this client are under way")

    def _send(self, request: OpenRequest, connection: Connection) -> None:
        request.sends += 1
        self.counters["requests_repeated"] += request.sends > 1
        request.connection = connection
        connection.in_flight += 1
        connection.send(request.frame)

    def _send_again(self, request: OpenRequest) -> None:
        if request.id in self._requests and request.connection is None:
            if self._home is not None:
                self._send(request, self._home)
            else:
                self._connect()

    def _forget(self, request: OpenRequest) -> None:
        del self._requests[request.id]
        encoder = self.encoder
        if request.sequence and request.session == encoder.session:
            self._sequences.discard(request.sequence)
            while encoder.lowest_unanswered < encoder.sequence and encoder.lowest_unanswered not in self._sequences:
                encoder.lowest_unanswered += 1

    def _end(self, request: OpenRequest, outcome: Any) -> None:
        self._forget(request)
        if not request.future.done():  # else its caller was cancelled; what it asked for was done all the same
            if isinstance(outcome, Exception):
                request.future.set_exception(outcome)
            else:
                request.future.set_result(outcome)

    def _may_be_executed(self, request: OpenRequest) -> bool:
        return bool((request.sequence or request.is_sent_once) and (request.doubts or request.connection is not None))

    @staticmethod
    def _unknown(message: str) -> OutcomeUnknown:
        return OutcomeUnknown(message)

    # --- time-outs --------------------------------------------------------------------------------------------------

    def _plan_sweep(self, deadline_s: float) -> None:
        at_s = max(deadline_s, self.loop.time() + SWEEP_S)
        if at_s >= self._sweep_s:
            return
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_s = at_s
        self._sweeper = self.loop.call_at(at_s, self._sweep)

    def _sweep(self) -> None:
        now_s = self.loop.time()
        self._sweeper = None
        self._sweep_s = NEVER
        earliest_s = NEVER
        for request in list(self._requests.values()):
            if request.deadline_s <= now_s:
                self._expire(request)
            elif request.deadline_s < earliest_s:
                earliest_s = request.deadline_s
        if earliest_s < NEVER:
            self._plan_sweep(earliest_s)

    def _expire(self, request: OpenRequest) -> None:
        """Nobody waits for it any more. One that may be executed goes on until its result is known."""
        if not self._may_be_executed(request):
            self._release(request)
            why = f"; {self._last_error}" if self._last_error is not None and self._home is None else ""
            self._end(request, Withdrawn(f"timed out before it was executed; certainly not applied{why}"))
            return
        waiting, request.future = request.future, self.loop.create_future()
        request.future.add_done_callback(lambda future: future.cancelled() or future.exception())
        request.deadline_s = NEVER
        if not waiting.done():
            ticket = PendingResult(request.future)
            waiting.set_exception(OutcomeTimeout("timed out after it was sent; it may still be applied", ticket=ticket))

    # --- answers ----------------------------------------------------------------------------------------------------

    def _release(self, request: OpenRequest) -> None:
        connection, request.connection = request.connection, None
        if connection is not None:
            connection.in_flight -= 1
            if connection.is_draining and connection.in_flight == 0:
                connection.close()

    def _on_messages(self, connection: Connection, messages: list[Message]) -> None:
        for kind, id, status, revision, index, body in messages:
            if kind == ANSWER:
                self._on_answer(connection, id, status, revision, index, body)
            elif kind == EVENTS:
                watch = self._watches.get(id)
                if watch is not None:
                    self._stay_with(connection)
                    watch[1].on_items(body)
            elif kind == PING:
                connection.send(self.encoder.ping(is_answer=True))
            elif kind == LEADER:
                self._on_leader(connection, body)

    def _on_answer(self, connection: Connection, id: int, status: int, revision: int, index: int, body: bytes) -> None:
        request = self._requests.get(id)
        if request is not None and request.connection is connection:
            self._release(request)
            if status == statuses.OK or status in statuses.REFUSED:
                self._stay_with(connection)
            if status == statuses.OK:
                self._end(request, self._value(request, revision, index, body))
            else:
                self._on_status(request, status, revision, body)
        elif status != statuses.OK and id in self._watches:
            is_denied = status == statuses.PERMISSION_DENIED
            why = self._denied(None, b"") if is_denied else error_from_status(status, revision=revision)
            if status == statuses.QUOTA_EXCEEDED:
                why = self._over_quota(body)
            self._watches.pop(id)[1].on_refused(why)

    @staticmethod
    def _value(request: OpenRequest, revision: int, index: int, body: bytes) -> Any:
        try:
            return answer_value(request.purpose, revision, index, body)
        except RaftmetaError as error:
            return error

    def _denied(self, request: OpenRequest | None, body: bytes) -> PermissionDenied:
        """Of a command its result says what is missing."""
        user, who = (self._credentials.user, "") if self._credentials is not None else ("", "")
        if self._credentials is not None and self._credentials.name:
            user, who = "", "the bearer of a token"
        elif self._credentials is None and self._security is not None:
            who = "the holder of this certificate"
        missing = answer_value(VALUES, 0, 0, body)[0][2] if request and request.sequence and body else None
        return permission_denied(user, *(missing or (0, b"", b"")), who=who)

    @staticmethod
    def _over_quota(body: bytes) -> QuotaExceeded:
        """Of an answer: which quota of whose, and when to try again."""
        number, retry_after_ms, principal = answer_value(VALUES, 0, 0, body)[0] if body else (0, 0, b"")
        return quota_exceeded(number, retry_after_ms, shown(principal))

    def _on_status(self, request: OpenRequest, status: int, revision: int, body: bytes = b"") -> None:
        """An answer that is no value: decided, to be sent again, or not to be known."""
        if status == statuses.PERMISSION_DENIED:
            self._end(request, self._denied(request, body))
            return
        if status == statuses.QUOTA_EXCEEDED:
            error = self._over_quota(body)
            if request.doubts:
                self._later(request, error.retry_after_s or RETRY_S)  # an earlier sending may have been executed
            else:
                self._end(request, error)
            return
        if status == statuses.AUTHENTICATION_FAILED:
            unknown = self._unknown("it was under way when the client's proof lost its worth")
            self._end(request, unknown if request.doubts else error_from_status(status, revision=revision))
            return
        if request.is_sent_once:
            self._end(request, error_from_status(status, revision=revision))
        elif status == statuses.ZNODE_REFUSED and body:
            position, code = answer_value(VALUES, 0, 0, body)[0][2]
            self._end(request, znode_refused(position, code, revision))
        elif status == statuses.GROUP_REFUSED and body:
            self._end(request, group_refused(answer_value(VALUES, 0, 0, body)[0][2], revision))
        elif status == statuses.OUTCOME_UNKNOWN or status in statuses.FATAL:
            request.doubts += 1
            self._later(request)
        elif status == statuses.SESSION_UNKNOWN and request.sequence:
            self._session_ended(request)
        elif status == statuses.RESULT_EVICTED:
            # If somebody else spoke in this session, all that is said in it would end so. The next command opens
            # another one.
            self._end(request, error_from_status(status, revision=revision))
            if request.session == self.encoder.session:
                self.encoder.session = 0
        elif status == statuses.NOT_FOUND and request.purpose == OUTCOME:
            if request.doubts:
                self._later(request)  # another sending may have been executed, and another node may know the outcome
            else:
                self._end(request, self._no_copy())
        elif status in statuses.NOT_EXECUTED:
            # OVERLOADED and NO_SPACE are told at once, the others pass when there is a leader again.
            if status in (statuses.OVERLOADED, statuses.NO_SPACE) and not request.doubts:
                self._end(request, error_from_status(status, revision=revision))
            else:
                self._later(request)
        else:
            self._end(request, error_from_status(status, revision=revision))

    def _no_copy(self) -> MachineStopped:
        name = self._home.hello.name if self._home is not None else "the node"
        return MachineStopped(
            f"{name}, which serves this client, runs no copy of that user machine: call replicated() there, on every "
            "node that serves clients",
            reason="no copy",
        )

    def _later(self, request: OpenRequest, pause_s: float = RETRY_S) -> None:
        self.loop.call_later(pause_s * random.uniform(0.5, 1.5), self._send_again, request)

    def _session_ended(self, request: OpenRequest) -> None:
        if self.encoder.session:
            self.encoder.session = 0
        if request.doubts:
            self._end(request, self._unknown("the client's session expired while it was under way"))
        else:
            self._end(request, NotReady("the client's session expired before it was applied"))

    # --- connections ------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        if self._connecting is None and self._home is None and not self._is_closed:
            self._connecting = self.loop.create_task(self._find_home())

    async def _open(self, endpoint: Endpoint) -> Connection:
        # Not wait_for: before Python 3.12 it may swallow a cancellation that comes together with an error.
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            connection = await Connection.connect(
                endpoint,
                cluster=self._cluster,
                name=self._name,
                on_messages=self._on_messages,
                on_lost=self._on_lost,
                ping=self.encoder.ping,
                credentials=self._credentials,
                security=self._security,
            )
        if _are_different(connection.hello.cluster_id, self._cluster_id):
            connection.abort()
            raise ConnectionError(f"{endpoint} belongs to another cluster of the same name")
        self._names[endpoint] = connection.hello.name
        self._connections.add(connection)
        self.counters["connects"] += 1
        return connection

    def _stay_with(self, connection: Connection) -> None:
        """It answered: what its cluster said and did holds in no other."""
        self._cluster_id = self._cluster_id or connection.hello.cluster_id

    async def _find_home(self) -> None:
        pause_s = RECONNECT_MIN_S
        rounds = 0
        self._removed = None
        while not self._is_closed:
            rounds += 1
            removed: list[NodeRefused] = []
            endpoints = list(self._endpoints)
            random.shuffle(endpoints)
            for endpoint in endpoints:
                try:
                    connection = await self._open(endpoint)
                except (OSError, TimeoutError) as error:
                    self._last_error = error
                    if isinstance(error, NodeRefused) and error.status == statuses.REMOVED:
                        removed.append(error)
                except (AuthenticationFailed, Unsupported) as error:
                    self._last_error = error
                    if self._may_be_new(error, rounds):
                        continue
                    self._connecting = None
                    self._give_up(error)  # the same everywhere, and asked again it would lock the user out
                    return
                except (NotReady, Overloaded) as error:
                    # The node does not know all users yet, or too many proofs of this name failed lately.
                    self._last_error = error
                else:
                    self._connecting = None
                    self._move_to(connection)
                    return
            if len(removed) == len(endpoints):
                self._connecting = None
                self._give_up(NodeRemoved(f"{'; '.join(map(str, removed))}: name others in the URL"))
                return
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))
            pause_s = min(2 * pause_s, RECONNECT_MAX_S)

    def _may_be_new(self, error: Exception, rounds: int) -> bool:
        """Whether the node may not know the token yet. A password is not proved again: that locks the user out."""
        is_token = self._credentials is not None and bool(self._credentials.name)
        return is_token and isinstance(error, AuthenticationFailed) and rounds < TOKEN_ROUNDS

    def _give_up(self, error: NotExecuted) -> None:
        """None of the nodes that this client knows will serve it: nothing is waited for, until it asks again."""
        self._removed = error
        for request in list(self._requests.values()):
            unknown = self._unknown(f"it was under way when its connection broke; {error}")
            self._end(request, unknown if self._may_be_executed(request) else error)
        self._at_home.set()  # whoever waits for a connection looks, and finds this
        self._at_home.clear()

    def _move_to(self, connection: Connection) -> None:
        """Requests use this connection from now on."""
        old, self._home = self._home, connection
        self._at_home.set()
        if old is not None:
            old.is_draining = True
            if old.in_flight == 0:
                old.close()
        if not connection.is_open:
            self._on_lost(connection)
            return
        for request in list(self._requests.values()):
            if request.connection is None:
                self._send(request, connection)
        if old is None and self.on_connection is not None:
            self.on_connection(True)

    def _on_lost(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if self._is_closed:
            return
        for request in list(self._requests.values()):
            if request.connection is connection:
                request.connection = None
                request.doubts += 1
                if request.is_sent_once:
                    self._end(request, self._unknown("the connection broke before it was answered"))
        connection.in_flight = 0
        if self._home is connection:
            self._home = None
            self._at_home.clear()
            self._leader = ""
            if self.on_connection is not None:
                self.on_connection(False)
        for id, (where, events) in list(self._watches.items()):
            if where is connection:
                del self._watches[id]
                events.on_lost()
        if self._home is None:
            if self._requests or self._watches or self.leases:
                self._connect()
        else:
            for request in list(self._requests.values()):
                self._send_again(request)

    # --- the leader -------------------------------------------------------------------------------------------------

    def _on_leader(self, connection: Connection, body: bytes) -> None:
        name, window, value_bytes_max = answer_value(VALUES, 0, 0, body)[0]
        self.encoder.value_bytes_max = value_bytes_max
        if not self.encoder.session:
            self._window = min(window, WINDOW)
        connection.tell_leader(shown(name))
        if connection is not self._home and self._home is not None:
            return
        self._leader = shown(name)
        if self._leader != connection.hello.name and len(self._endpoints) > 1 and not self._following:
            self._following = self.loop.create_task(self._follow())

    async def _follow(self) -> None:
        """Move to the leader, if one of the addresses is its; from a node that knows none, to one that does."""
        pause_s = FOLLOW_PAUSE_S
        try:
            while True:
                await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))
                pause_s = min(2 * pause_s, FOLLOW_PAUSE_MAX_S)
                if await self._moves_on():
                    return
        finally:
            self._following = None

    async def _moves_on(self) -> bool:
        """One look at the other addresses. False: nobody knew a leader, so look again later."""
        for endpoint in self._endpoints:
            home = self._home
            if home is None or (self._leader and home.hello.name == self._leader):
                return True
            is_other = bool(self._leader) and self._names.get(endpoint, self._leader) != self._leader
            if endpoint == home.endpoint or is_other:
                continue
            try:
                connection, leader = await self._look_at(endpoint)
            except (OSError, TimeoutError, NotExecuted) as error:  # NotExecuted: of the proof of the password
                self._last_error = error
                continue
            home = self._home
            is_stuck = not self._leader
            if home is not None and leader and self._may_leave(home, connection):
                self._leader = leader
                self._move_to(connection)
                if is_stuck:
                    home.abort()  # it may never answer what it was asked
                return connection.hello.name == leader
            connection.close()
        return bool(self._leader)

    async def _look_at(self, endpoint: Endpoint) -> tuple[Connection, str]:
        """A connection there, and who leads as that node knows; "": it knows none."""
        connection = await self._open(endpoint)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                return connection, await connection.first_leader()
        except BaseException:
            connection.abort()
            raise

    def _may_leave(self, home: Connection, connection: Connection) -> bool:
        """To the leader of home's cluster; where home knows none, to any node of the cluster that has answered."""
        if self._leader:
            is_foreign = _are_different(connection.hello.cluster_id, home.hello.cluster_id)
            return self._leader == connection.hello.name and not is_foreign
        return not _are_different(connection.hello.cluster_id, self._cluster_id)

    # --- the session ------------------------------------------------------------------------------------------------

    async def session(self, deadline_s: float) -> None:
        """Wait until commands can be encoded. Raises ReadyTimeout."""
        while not self.encoder.session:
            self.check_open()
            opening = self._begin_session()
            left_s = None if deadline_s == NEVER else max(0.0, deadline_s - self.loop.time())
            await asyncio.wait([opening], timeout=left_s)
            if not opening.done():
                raise ReadyTimeout(f"no node opened a session for this client in time{self._why_not()}")
            error = opening.exception()
            # NotReady: that id has ended, take another.
            if error is not None and (not isinstance(error, NotReady) or isinstance(error, NodeRemoved)):
                raise error

    def _why_not(self) -> str:
        """Tell why nothing is answered, as far as it is known, in words to be put behind a message."""
        home, told = self._home, ""
        if home is not None and not self._leader:
            told = f"; {home.hello.name} at {home.endpoint} knows no leader"
        return told + (f"; {self._last_error}" if self._last_error is not None else "")

    def _begin_session(self) -> asyncio.Task[None]:
        if self._opening is None:
            self._opening = self.loop.create_task(self._open_session())
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        return self._opening

    async def _open_session(self) -> None:
        """One session, under an id that nobody has. Opening it twice renews it, so it may be asked for again."""
        session = random.SystemRandom().getrandbits(63) | 1 << 63
        frame = self.encoder.open_session(session, round(self.session_ttl_s * 1000), self._window)
        try:
            await self.submit(frame, NOTHING, NEVER)
            self.encoder.session = session
            self.encoder.sequence = self.encoder.lowest_unanswered = 1
            self._sequences.clear()
            self.counters["sessions"] += 1
            self._plan_keep_alive()
        finally:
            self._opening = None

    # --- keep-alives ------------------------------------------------------------------------------------------------

    def keep_lease(self, lease: int, ttl_s: float, asked_s: float) -> KeptLease:
        """Renew a lease that was granted until drop_lease."""
        kept = self.leases[lease] = KeptLease(ttl_s, asked_s)
        self._plan_keep_alive()
        return kept

    def drop_lease(self, lease: int, kept: KeptLease) -> None:
        """Renew it no longer. One that was granted under the same id since is kept on."""
        if self.keeps(lease, kept):
            del self.leases[lease]

    def keeps(self, lease: int, kept: KeptLease) -> bool:
        """Whether it is renewed: not dropped, and not found gone."""
        return self.leases.get(lease) is kept

    def _plan_keep_alive(self) -> None:
        """One planned for an earlier moment stays: whoever takes leases all the time still keeps those it has."""
        ttls_s = [self.session_ttl_s, *(kept.ttl_s for kept in self.leases.values())]
        due_s = self.loop.time() + min(ttls_s) / KEEP_ALIVES_PER_TTL
        if self._keeping is not None:
            if self._keeping.when() <= due_s:
                return
            self._keeping.cancel()
        self._keeping = self.loop.call_at(due_s, self._keep_alive)

    def _keep_alive(self) -> None:
        self._keeping = None
        if self._is_closed:
            return
        if not self.encoder.session:
            if self.leases:  # they outlive the session, and are kept by the next one
                self._begin_session()
            self._plan_keep_alive()
            return
        leases = {lease: kept for lease, kept in self.leases.items() if kept.left_s() > 0}
        self.leases = dict(leases)
        sent_s = now_boot_s()
        frame = self.encoder.keep_alive(list(leases))
        future = self.submit(frame, NUMBER, self.deadline(self.session_ttl_s), is_command=True)
        future.add_done_callback(lambda done: self._kept(leases, sent_s, done))
        self._plan_keep_alive()

    def _kept(self, leases: dict[int, KeptLease], sent_s: float, future: asyncio.Future[Any]) -> None:
        """The store has a lease of this id; that it is ours is certain only while the last answer still holds."""
        if future.cancelled() or future.exception() is not None:
            return
        for (lease, kept), ttl_ms in zip(leases.items(), future.result(), strict=True):
            if ttl_ms == 0 or kept.left_s() <= 0:
                self.drop_lease(lease, kept)
            else:
                kept.since_s = max(sent_s, kept.since_s)

    # --- watches ----------------------------------------------------------------------------------------------------

    def open_watch(self, start: bytes, end: bytes, revision: int, filter: int, events: Events) -> int:
        """Ask for a watch on the connection of now; events.on_lost is called when it has to be opened again."""
        self.check_open()
        home = self._home
        assert home is not None, "a watch is opened on a connection"
        frame = self.encoder.watch(start, end, revision, filter)
        watch = self.encoder.id
        self._watches[watch] = (home, events)
        home.send(frame)
        return watch

    @property
    def is_connected(self) -> bool:
        return self._home is not None

    @property
    def cluster_id(self) -> int:
        """Of the cluster that has answered; 0: none has."""
        return self._cluster_id

    def close_watch(self, watch: int) -> None:
        found = self._watches.pop(watch, None)
        if found is not None and found[0] is not None and found[0].is_open:
            found[0].send(self.encoder.unwatch(watch))

    async def connected(self, deadline_s: float) -> None:
        """Wait until there is a connection. Raises ReadyTimeout."""
        self.check_open()
        self._connect()
        left_s = None if deadline_s == NEVER else max(0.0, deadline_s - self.loop.time())
        try:
            async with asyncio.timeout(left_s):
                await self._at_home.wait()
        except TimeoutError:
            raise ReadyTimeout(f"no node answers; {self._last_error}") from None
        self.check_open()
        if self._home is None and self._removed is not None:
            raise self._removed


def _are_different(cluster_id: int, other: int) -> bool:
    """Whether these are two clusters; 0 is that of a node which was not founded yet."""
    return cluster_id != 0 and other != 0 and cluster_id != other
