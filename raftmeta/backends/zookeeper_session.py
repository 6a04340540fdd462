"""A session with a ZooKeeper ensemble, by kazoo: its requests, their fates, and how long it certainly lives.

It decides which error of ours an error of kazoo's is, and when everything that the session holds counts as lost. It
knows nothing of groups, elections and keys.

The session's clock. A leader of ZooKeeper ends a session when it heard nothing of it for the time-out T that both
agreed on. The server that serves the session tells the leader every half tick whom it heard, and T is at least two
ticks. So the leader has heard of whatever it answered at least as late as T/4 before. An answer of the leader (to a
write, or to the sync that is sent every T/8) to a request that was sent at S proves that the session lives until
S + 3/4 T. Here it counts as alive until S + 2/3 T, by the clock that goes on while the machine sleeps. A read proves
nothing: a server that lost its leader goes on answering reads for a while.

After 0.3 T without an answer the connection is given up, and another server is asked. kazoo would wait for ever,
because each request that is sent counts as a sign of life there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import _CONNECTION_DROP, ConnectionHandler
from kazoo.protocol.states import KazooState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from raftmeta.common.apart import ApartThread
from raftmeta.common.flags import Flag
from raftmeta.common.shared_threads import SharedThreads
from raftmeta.errors import (
    AuthenticationFailed,
    ConfigError,
    InvalidArgument,
    NodeClosed,
    NoLeader,
    NotExecuted,
    OutcomeTimeout,
    OutcomeUnknown,
    PermissionDenied,
    RaftmetaError,
    ReadyTimeout,
    Withdrawn,
)
from raftmeta.interfaces import State
from raftmeta.recipes.deadline import Deadline

__all__ = ["AnyVersion", "Follower", "Session", "Step", "failed_step"]

AnyVersion = -1
CERTAIN = 2 / 3  # of the time-out; see above
BEATS_PER_TIMEOUT = 8
SILENT = 0.3  # of the time-out, without an answer
TICKS_PER_TIMEOUT = 40
TICK_S_MIN = 0.02
PACKET_BYTES_MAX = 1_000_000  # below jute.maxbuffer's default, 0xfffff; a server hangs up on a longer packet
STEP_BYTES = 128  # of an operation in a multi, beside its path and data
CLOSE_S = 5.0
LOOK_AGAIN_S = 5.0  # a follower's own reads
FOLLOWERS_THREADS_MAX = 4

T = TypeVar("T")

_LOST = (zk.ConnectionLoss, zk.SessionExpiredError, zk.SessionMovedError, zk.OperationTimeoutError)


def now_s() -> float:
    """Seconds of the clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, which tells the time-out that was agreed on, and may be given up."""

    timeout_s = 0.0
    _place: Any = None

    def _connect(self, host: Any, hostip: Any, port: Any) -> Any:
        self._place = (host, hostip, port)
        self.timeout_s = 0.0
        read_timeout, connect_timeout = super()._connect(host, hostip, port)
        self.timeout_s = read_timeout / 1000.0 * 3 / 2  # kazoo waits two thirds of it
        return read_timeout, connect_timeout

    def _expand_client_hosts(self) -> Any:
        """The server that was asked last comes last: it may be the one that did not answer."""
        return sorted(super()._expand_client_hosts(), key=lambda place: place == self._place)

    def give_up(self) -> None:
        """Drop the connection, and connect to the next server."""
        self.client._call(_CONNECTION_DROP, self.client.handler.async_result())


class Step:
    """One operation of a multi. kind: "create", "hold" (an ephemeral node), "delete", "set" or "check"."""

    __slots__ = ("data", "kind", "path", "version")

    def __init__(self, kind: str, path: str, data: bytes = b"", version: int = AnyVersion) -> None:
        self.kind, self.path, self.data, self.version = kind, path, data, version


def failed_step(results: Sequence[Any]) -> tuple[int, Exception] | None:
    """The step for which a multi was refused, and its error; None: it was done."""
    if not any(isinstance(result, Exception) for result in results):
        return None
    for number, result in enumerate(results):
        if isinstance(result, Exception) and not isinstance(result, zk.RolledBackError | zk.RuntimeInconsistency):
            return number, result
    return 0, results[0]


class Follower(Protocol):
    """Something that is read anew when a watch fires, and after every connection."""

    def news(self, event: object = None) -> None: ...


class Holding(Protocol):
    """Something that lives as long as the session."""

    life: int

    def lose(self) -> None: ...


class Session:
    """root: the node that all is below, "/app/raftmeta". life: a number that changes with each ZooKeeper session."""

    def __init__(
        self, hosts: str, root: str, *, timeout_s: float, auth: tuple[str, str] | None, reads_by_quorum: bool
    ) -> None:
        self.root = root
        self.life = 1
        self.reads_by_quorum = reads_by_quorum
        self.workers = SharedThreads("zookeeper", threads_max=FOLLOWERS_THREADS_MAX)
        self.others = SharedThreads("zookeeper-calls")
        self._until_s = 0.0
        self._lock = threading.RLock()
        self._held: set[Holding] = set()
        self._followers: set[Follower] = set()
        self._left_over: set[tuple[int, str, str]] = set()  # life, place, ticket: to be removed
        self._is_cleaning = False
        self._is_closed = Flag()
        self._connected = Flag()
        self._has_failed_auth = False
        self._client = KazooClient(
            hosts=hosts,
            timeout=timeout_s,
            default_acl=CREATOR_ALL_ACL if auth else OPEN_ACL_UNSAFE,
            auth_data=[auth] if auth else None,
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.1, "max_delay": 1.0},
        )
        self._connection = _Connection(self._client, self._client._conn_retry.copy(), logger=self._client.logger)
        self._client._connection = self._connection
        self._asked_timeout_s = timeout_s
        self._client.add_listener(self._on_state)
        self._beating = ApartThread(self._beat_on, "raftmeta-zookeeper")

    # --- its life -----------------------------------------------------------------------------------------------------
    def open(self, timeout_s: float) -> None:
        """Connect, and make the root. Raises ReadyTimeout, AuthenticationFailed, PermissionDenied."""
        deadline = Deadline(timeout_s)
        self._client.start_async()
        self._beating.start()
        if not self._connected.wait(timeout_s) or self._has_failed_auth:
            self._check_open()
            raise ReadyTimeout(f"no ZooKeeper server had a session for us within {timeout_s:g} s: is a majority up?")
        self.make(deadline, self.root)
        if not self._connection.timeout_s:
            raise ConfigError("kazoo: this version does not tell the time-out that was agreed on", field="url")

    def close(self) -> None:
        """End the session at once: its ephemeral nodes go with it. Where nobody answers, its time-out ends it."""
        if self._is_closed.is_set():
            return
        self._is_closed.set()
        self._connected.set()  # whoever waits for a connection looks again
        stopping = ApartThread(self._stop, "raftmeta-zookeeper-stop")
        stopping.start()
        stopping.wait(CLOSE_S)
        self._beating.wait(CLOSE_S)

    def _stop(self) -> None:
        with contextlib.suppress(zk.KazooException, OSError):
            self._client.stop()
        with contextlib.suppress(Exception):  # kazoo raises a plain one while its thread still runs
            self._client.close()

    def pause(self, seconds: float) -> bool:
        """Wait so long; True: the session was closed."""
        return self._is_closed.wait(seconds)

    @property
    def is_closed(self) -> bool:
        return self._is_closed.is_set()

    def check_open(self) -> None:
        if self._is_closed.is_set():
            raise NodeClosed("this back end is closed")

    def _check_open(self) -> None:
        self.check_open()
        if self._has_failed_auth:
            raise AuthenticationFailed("ZooKeeper refused the name or password of the option auth")

    def look(self) -> tuple[State, int]:
        """Whether the ensemble can be asked, and the life of the session."""
        if self.is_closed or self._client.state == KazooState.LOST:
            return State.LOST, self.life
        return State.CONNECTED if self._connected.is_set() else State.SUSPENDED, self.life

    def _on_state(self, state: str) -> None:
        """On kazoo's thread."""
        if state == KazooState.CONNECTED:
            self._connected.set()
            for follower in list(self._followers):
                follower.news()
            return
        if not self.is_closed:
            self._connected.clear()
        if state == KazooState.LOST:
            with self._lock:
                self.life += 1
                self._until_s = 0.0
            self._has_failed_auth = str(self._client.client_state) == "AUTH_FAILED"
            if self._has_failed_auth:
                self._connected.set()
            self.others.post(lambda: self._lose(lambda held: held.life != self.life))

    def _lose(self, is_lost: Callable[[Holding], bool]) -> None:
        with self._lock:
            lost = [held for held in self._held if is_lost(held)]
            self._held.difference_update(lost)
        for held in lost:
            held.lose()

    def remaining_s(self, life: int) -> float:
        """Seconds for which what was taken in this life certainly lives without further news."""
        return max(0.0, self._until_s - now_s()) if life == self.life and not self.is_closed else 0.0

    def hold(self, held: Holding) -> None:
        """Lose it with the session."""
        with self._lock:
            self._held.add(held)
        if held.life != self.life:
            self._lose(lambda one: one is held)

    def let_go(self, held: Holding) -> None:
        with self._lock:
            self._held.discard(held)

    def _proved(self, life: int, sent_s: float) -> None:
        """The leader answered a request that was sent then."""
        timeout_s = self._connection.timeout_s
        with self._lock:
            if life != self.life:
                return
            has_lapsed = self._until_s and self._until_s <= now_s()
            self._until_s = max(self._until_s, sent_s + timeout_s * CERTAIN)
        if has_lapsed:  # held() said so already, and what is lost stays lost
            self._lose(lambda held: held.life == life)

    def _beat_on(self) -> None:
        """Prove the session's life, tell of its end in time, and give up a connection on which nobody answers."""
        asked, sent_s, life = None, 0.0, 0
        timeout_s = self._asked_timeout_s
        while not self._is_closed.wait(max(TICK_S_MIN, timeout_s / TICKS_PER_TIMEOUT)):
            timeout_s = self._connection.timeout_s or timeout_s
            if self._until_s and self._until_s <= now_s():
                lapsed = self.life
                self._lose(lambda held, lapsed=lapsed: held.life == lapsed)  # type: ignore[misc]
            if asked is not None and asked.ready():
                if asked.successful():
                    self._proved(life, sent_s)
                asked = None
            if not self._client.connected:
                continue
            if asked is None and now_s() - sent_s >= timeout_s / BEATS_PER_TIMEOUT:
                sent_s, life = now_s(), self.life
                asked = self._client.sync_async(self.root)
            elif asked is not None and now_s() - sent_s > timeout_s * SILENT:
                self._connection.give_up()
                asked = None
            self._clean()

    # --- followers ----------------------------------------------------------------------------------------------------
    def follow(self, follower: Follower) -> None:
        self._followers.add(follower)

    def unfollow(self, follower: Follower) -> None:
        self._followers.discard(follower)

    # --- requests -----------------------------------------------------------------------------------------------------
    def _await_connection(self, deadline: Deadline) -> None:
        if not self._connected.is_set() and not self._connected.wait(deadline.left_s()):
            raise NoLeader("no ZooKeeper server could be reached in time")
        self._check_open()

    def write(self, start: Callable[[], Any], deadline: Deadline) -> Any:
        """Send a request that changes something, once, and return its result.

        Raises the errors of kazoo that say no; NotExecuted: it was never sent; OutcomeUnknown.
        """
        self._await_connection(deadline)
        life, sent_s = self.life, now_s()
        asked = start()
        try:
            result = asked.get(timeout=deadline.left_s())
        except KazooTimeoutError:
            raise OutcomeTimeout("ZooKeeper did not answer in time") from None
        except _LOST as error:
            raise OutcomeUnknown(f"the connection to ZooKeeper was lost before it answered ({error!r})") from None
        except zk.ZookeeperError as error:
            _raise_plain(error)
            raise
        self._proved(life, sent_s)
        return result

    def multi(self, steps: Sequence[Step], deadline: Deadline) -> list[Any]:
        """Do all of the steps, or none of them (failed_step); returns their results."""
        size = sum(STEP_BYTES + len(step.path.encode()) + len(step.data) for step in steps)
        if size > PACKET_BYTES_MAX:
            raise InvalidArgument(f"operations: {size} bytes, more than {PACKET_BYTES_MAX}", field="operations")
        transaction = self._client.transaction()
        for step in steps:
            if step.kind in ("create", "hold"):
                transaction.create(step.path, step.data, ephemeral=step.kind == "hold")
            elif step.kind == "delete":
                transaction.delete(step.path, step.version)
            elif step.kind == "set":
                transaction.set_data(step.path, step.data, step.version)
            else:
                transaction.check(step.path, step.version)
        results: list[Any] = self.write(transaction.commit_async, deadline)
        failure = failed_step(results)
        if failure is not None:
            _raise_plain(failure[1])
        return results

    def create(self, path: str, data: bytes, deadline: Deadline) -> Any:
        """Create a node, and return its Stat."""
        return self.write(lambda: self._client.create_async(path, data, include_data=True), deadline)[1]

    def set(self, path: str, data: bytes, deadline: Deadline) -> Any:
        """Replace the data of a node, and return its Stat."""
        return self.write(lambda: self._client.set_async(path, data), deadline)

    def make(self, deadline: Deadline, *paths: str) -> None:
        """Make sure that these nodes and all above them exist. Raises as read does."""

        def ask(client: KazooClient) -> list[Any]:
            first = [client.ensure_path_async(folder) for folder in dict.fromkeys(map(_folder_of, paths))]
            return [*first, *(client.ensure_path_async(path) for path in paths)]

        for made in self.read(ask, deadline):
            if isinstance(made, Exception):
                raise NotExecuted(f"ZooKeeper does not make a node that the back end needs: {made!r}")

    def read(
        self, start: Callable[[KazooClient], Sequence[Any]], deadline: Deadline, *, local: bool = True
    ) -> list[Any]:
        """Send reads in this order, and return the result or the error of each. They are sent anew as often as needed.

        local: as of the server that serves this session, which sees what this session did. Otherwise none of them is
        older than this call, as far as `reads` in the URL promises it. Raises Withdrawn, NoLeader, NodeClosed.
        """
        while True:
            self._await_connection(deadline)
            life = self.life
            first = [] if local else [self._barrier()]
            asked = [*first, *start(self._client)]
            try:
                results = [_answer_of(one, deadline) for one in asked]
            except KazooTimeoutError:
                raise Withdrawn("ZooKeeper did not answer this read in time") from None
            except _LOST:
                if deadline.left_s() == 0:
                    raise Withdrawn("ZooKeeper did not answer this read in time") from None
                self._is_closed.wait(TICK_S_MIN)
                continue
            if life == self.life:  # else the second half may be as of a server that had not seen the first one
                return results[len(first) :]

    def _barrier(self) -> Any:
        if not self.reads_by_quorum:
            return self._client.sync_async(self.root)
        transaction = self._client.transaction()
        transaction.check(self.root, AnyVersion)
        return transaction.commit_async()

    # --- what is left over --------------------------------------------------------------------------------------------
    def remove_later(self, life: int, place: str, ticket: str) -> None:
        """Remove a place and its ticket, if they still are there, as soon as somebody answers."""
        with self._lock:
            self._left_over.add((life, place, ticket))

    def _clean(self) -> None:
        with self._lock:
            self._left_over = {one for one in self._left_over if one[0] == self.life}  # others went with their session
            if self._is_cleaning or not self._left_over:
                return
            self._is_cleaning = True
        self.others.post(self._remove_left_over)

    def _remove_left_over(self) -> None:
        try:
            for one in list(self._left_over):
                self.remove(one[1], one[2], Deadline(LOOK_AGAIN_S))
                with self._lock:
                    self._left_over.discard(one)
        except (NotExecuted, OutcomeUnknown):
            pass  # tried again at one of the next ticks
        finally:
            self._is_cleaning = False

    def remove(self, place: str, ticket: str, deadline: Deadline) -> None:
        """Remove a place and its ticket; done already if the ticket is gone. Raises OutcomeTimeout, NotExecuted."""
        while True:
            try:
                results = self.multi([Step("delete", ticket), Step("delete", place)], deadline)
            except OutcomeTimeout:
                raise
            except OutcomeUnknown:
                continue  # it may be done; then the ticket is gone
            failure = failed_step(results)
            if failure is None or isinstance(failure[1], zk.NoNodeError):
                return
            raise NotExecuted(f"ZooKeeper refused to remove {place}: {failure[1]!r}")


def _folder_of(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _answer_of(asked: Any, deadline: Deadline) -> Any:
    try:
        return asked.get(timeout=deadline.left_s())
    except _LOST:
        raise
    except zk.ZookeeperError as error:
        _raise_plain(error)
        return error


def _raise_plain(error: Exception) -> None:
    """Raise what is the same error whatever was asked; return for one that answers the question."""
    plain: RaftmetaError | None = None
    if isinstance(error, zk.NoAuthError):
        plain = PermissionDenied("ZooKeeper refused it: the rights (ACL) of a node do not allow it")
    elif isinstance(error, zk.AuthFailedError):
        plain = AuthenticationFailed("ZooKeeper refused the name or password of the option auth")
    elif isinstance(error, zk.BadArgumentsError | zk.InvalidACLError | zk.MarshallingError):
        plain = InvalidArgument(f"ZooKeeper does not take it: {error!r}")
    elif isinstance(error, zk.NotReadOnlyCallError | zk.ThrottledOpError | zk.QuotaExceededError):
        plain = NotExecuted(f"ZooKeeper refused it: {error!r}")
    if plain is not None:
        raise plain
