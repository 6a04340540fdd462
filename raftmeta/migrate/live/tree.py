"""One side of a move: a tree on servers that speak ZooKeeper's protocol, read and written many nodes at a time.

It decides which error of a server is told in which words. It never decides what to write. Paths are those below the
chroot of the address, so both sides of a move have the same ones. A connection that breaks raises `Broken` in all
requests under way; kazoo connects anew by itself, and `breaks` counts on.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import CLOSE_RESPONSE, ConnectionHandler
from kazoo.protocol.serialization import Watch
from kazoo.protocol.states import KazooState, KeeperState

from raftmeta import AuthenticationFailed, InvalidArgument, NotExecuted, PermissionDenied
from raftmeta.migrate.closing import Closing
from raftmeta.migrate.live.access import Access
from raftmeta.migrate.live.requests import (
    AclRead,
    AclWrite,
    AddWatch,
    Answer,
    Kind,
    Multi,
    MultiRead,
    Node,
    Right,
    Stat,
    Step,
    Sync,
    created,
    deleted,
)
from raftmeta.migrate.problems import NotMigratable

__all__ = ["Broken", "Changed", "Tree", "below"]

_LOG = logging.getLogger(__name__)

CONNECT_S = 60.0  # for a server to answer
ANSWER_S = 30.0  # for one answer; kazoo itself notices a dead connection earlier
READ_PATHS = 256  # in one request
FIRST_PATHS = 32  # before anything is known of the size of data
READ_BYTES = 4 << 20  # of data that one answer should have
WRITE_STEPS, WRITE_BYTES = 2000, 512 << 10  # in one multi; a server takes 1 MiB (jute.maxbuffer)
WINDOW = 400  # requests under way; a server takes 1,000 (zookeeper.globalOutstandingLimit)
AHEAD_BYTES = 256 << 10  # that are read together
SENT_TOGETHER = 100  # requests
CHANGED = {-101, -103, -110, -111}  # NONODE, BADVERSION, NODEEXISTS, NOTEMPTY: the node is not as it was read
ADVICE = {
    -6: "it does not know this kind of node: switch its extended types on",
    -8: "it does not take this path or these data: raftmeta takes 480 bytes of path with its root",
    -102: "the migrator may not do it: give the credentials of a superuser",
    -108: "its parent is ephemeral there",
    -114: "it does not take the list of rights: it may not know the scheme",
    -125: "a quota stands in the way",
}
_BROKEN = (zk.ConnectionLoss, zk.SessionExpiredError, zk.ConnectionClosedError, zk.OperationTimeoutError)


class Broken(Exception):
    """The connection was lost with requests under way: writes may have been done or not."""


class Changed(Exception):
    """A node is not as it was read: read it again."""


class _Connection(ConnectionHandler):  # type: ignore[misc]  # kazoo has no types
    """kazoo's connection, made fit for many small requests and for watches that stay.

    It tells every event: kazoo's own forgets those of watches that stay. It reads all that has come, and sends all that
    waits, in one system call: kazoo's own makes about ten for each request.
    """

    tell: Callable[[str], object] = staticmethod(lambda path: None)
    _ahead = b""  # was read
    _at = 0  # of it was looked at
    _outgoing: bytearray | None = None  # is collected, to be sent together

    def _read_watch_event(self, buffer: bytes, offset: int) -> None:
        event, _ = Watch.deserialize(buffer, offset)
        self.tell(event.path)

    def _connect(self, host: Any, hostip: Any, port: Any) -> Any:
        self._ahead, self._at, self._outgoing = b"", 0, None
        return super()._connect(host, hostip, port)

    def _read(self, length: int, timeout: float) -> bytes:
        if len(self._ahead) - self._at < length:
            more = b""
            with contextlib.suppress(OSError):  # nothing has come yet, or the read below says what happened
                more = self._socket.recv(AHEAD_BYTES)
            self._ahead, self._at = self._ahead[self._at :] + more, 0
        part = self._ahead[self._at : self._at + length]
        self._at += len(part)
        if len(part) < length:
            part += super()._read(length - len(part), timeout)
        return part

    def _read_socket(self, read_timeout: float) -> Any:
        response = super()._read_socket(read_timeout)
        while response != CLOSE_RESPONSE and self._has_frame():
            response = super()._read_socket(read_timeout)
        return response

    def _has_frame(self) -> bool:
        waiting = len(self._ahead) - self._at
        return waiting >= 4 and waiting - 4 >= int.from_bytes(self._ahead[self._at : self._at + 4], "big")

    def _send_request(self, read_timeout: float, connect_timeout: float) -> None:
        self._outgoing = bytearray()
        # kazoo writes a byte into this socket after it queued a request: so many are in the queue.
        for _ in self._read_sock.recv(SENT_TOGETHER, socket.MSG_PEEK):
            super()._send_request(read_timeout, connect_timeout)
        outgoing, self._outgoing = bytes(self._outgoing), None
        if outgoing:
            super()._write(outgoing, connect_timeout)

    def _write(self, msg: bytes, timeout: float) -> None:
        if self._outgoing is None:
            super()._write(msg, timeout)
        else:
            self._outgoing += msg


class Tree(Closing):
    """A connection to one side.

    address: host:port,host:port/chroot. access: how it is reached. name: of the side, for messages.
    on_event: called with the path of each change once `watch` was called, on a thread of kazoo's; it must not block.
    """

    def __init__(
        self,
        address: str,
        name: str,
        *,
        access: Access | None = None,
        session_timeout_s: float = 10.0,
        on_event: Callable[[str], object] = lambda path: None,
    ) -> None:
        access = access or Access()
        hosts, slash, chroot = address.partition("/")
        if not hosts:
            raise InvalidArgument(f"{name}: host:port,host:port/chroot, not {address!r}", field=name)
        self.name = name
        self.address = address
        self.chroot = (slash + chroot).rstrip("/")
        self.breaks = 0
        self._has_failed_auth = False
        self._on_event = on_event
        self._paths_at_a_time = FIRST_PATHS
        self._connected = threading.Event()
        self._client = KazooClient(
            hosts=hosts,
            timeout=session_timeout_s,
            auth_data=access.pairs,
            connection_retry={"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0},
            logger=_LOG.getChild("kazoo"),
            **access.tls,
        )
        self._connection = _Connection(
            self._client, self._client._conn_retry.copy(), logger=self._client.logger, sasl_options=access.sasl
        )
        self._connection.tell = self._on_path
        self._client._connection = self._connection
        self._client.add_listener(self._on_state)

    # --- life -------------------------------------------------------------------------------------------------------

    def open(self, timeout_s: float) -> None:
        """Connect. Raises NotExecuted: no server answered in time. Raises AuthenticationFailed."""
        self._client.start_async()
        self.wait(timeout_s)

    def wait(self, timeout_s: float) -> None:
        """Wait for a connection. Raises NotExecuted, AuthenticationFailed."""
        is_connected = self._connected.wait(timeout_s)
        if self._has_failed_auth:
            raise AuthenticationFailed(f"{self.name}: {self.address} refused the credentials")
        if not is_connected:
            raise NotExecuted(f"{self.name}: no server of {self.address} answered within {timeout_s:g} s: is it up?")

    def close(self) -> None:
        """End the session."""
        with contextlib.suppress(zk.KazooException, OSError):
            self._client.stop()
        with contextlib.suppress(Exception):  # kazoo raises a plain one while its thread still runs
            self._client.close()

    def __enter__(self) -> Self:
        try:
            self.open(CONNECT_S)
        except BaseException:
            self.close()
            raise
        return self

    def _on_state(self, state: str) -> None:
        """On kazoo's thread."""
        if state == KazooState.CONNECTED:
            self._connected.set()
            return
        self._has_failed_auth = self._client.client_state == KeeperState.AUTH_FAILED
        if not self._has_failed_auth:
            self._connected.clear()
        else:
            self._connected.set()  # nobody waits in vain
        self.breaks += 1

    def _on_path(self, path: str) -> None:
        if path == self.chroot or path.startswith(f"{self.chroot}/"):
            self._on_event(path[len(self.chroot) :] or "/")

    @property
    def last_zxid(self) -> int:
        """Of the newest change that an answer showed."""
        return int(self._client.last_zxid)

    # --- requests ---------------------------------------------------------------------------------------------------

    def _full(self, path: str) -> str:
        return self.chroot + path if path != "/" else self.chroot or "/"

    def _ask(self, request: Any) -> Any:
        asked = self._client.handler.async_result()
        self._client._call(request, asked)
        return asked

    def _answer(self, asked: Any) -> Any:
        try:
            return asked.get(timeout=ANSWER_S)
        except _BROKEN as error:
            raise Broken(f"{self.name}: {error!r}") from None
        except KazooTimeoutError:
            raise Broken(f"{self.name}: no answer within {ANSWER_S:g} s") from None
        except zk.AuthFailedError:
            raise AuthenticationFailed(f"{self.name}: {self.address} refused the credentials") from None

    def _all(self, requests: Iterator[Any]) -> Iterator[Any]:
        """The answer or the error of each request, in order, with a window of them under way."""
        under_way: deque[Any] = deque()
        for request in requests:
            under_way.append(self._ask(request))
            if len(under_way) == WINDOW:
                yield self._one(under_way.popleft())
        while under_way:
            yield self._one(under_way.popleft())

    def _one(self, asked: Any) -> Any:
        try:
            return self._answer(asked)
        except zk.ZookeeperError as error:
            return error

    def _refused(self, path: str, code: int) -> Exception:
        """The error for a code that reading again does not cure."""
        place = f"{self.name}: {self.address} refuses {path}"
        if code == -102:
            return PermissionDenied(f"{place}: {ADVICE[code]}")
        return NotMigratable(f"{place} (ZooKeeper's error {code}): {ADVICE.get(code, 'see its log')}", count=1)

    def sync(self) -> None:
        """Wait until the server that this side reads from has all that was committed before this call."""
        self._answer(self._ask(Sync(self.chroot or "/")))

    def watch(self) -> int:
        """Be told of all changes from now on, until `breaks` is no longer the number that is returned."""
        breaks = self.breaks
        try:
            self._answer(self._ask(AddWatch(self.chroot or "/")))
        except zk.ZookeeperError as error:
            raise NotMigratable(
                f"{self.name}: {self.address} takes no recursive watch ({error!r}): it needs ZooKeeper 3.6 or newer"
            ) from None
        return breaks

    # --- reading ----------------------------------------------------------------------------------------------------

    def begin_read(self, paths: Sequence[str]) -> Callable[[], list[Node | None]]:
        """Ask for these nodes; the call that is returned waits for them. Raises PermissionDenied."""
        size = self._paths_at_a_time
        parts = [paths[first : first + size] for first in range(0, len(paths), size)]
        asked = [self._ask(MultiRead([self._full(path) for path in part])) for part in parts]

        def answers() -> list[Node | None]:
            found: list[Node | None] = []
            bytes_read = 0
            for one in asked:
                for given in self._answer(one):
                    if isinstance(given, int):
                        raise self._refused(paths[len(found)], given)
                    bytes_read += 0 if given is None else len(given.data or b"")
                    found.append(None if given is None else given._replace(path=paths[len(found)]))
            if paths:
                fit = READ_BYTES * len(paths) // max(bytes_read, 1)
                self._paths_at_a_time = max(4, min(READ_PATHS, fit))
            return found

        return answers

    def read(self, paths: Sequence[str]) -> list[Node | None]:
        return self.begin_read(paths)()

    def acls(self, paths: Sequence[str]) -> list[tuple[tuple[Right, ...], Stat] | None]:
        """The rights of each node; None: it is not there."""
        found: list[tuple[tuple[Right, ...], Stat] | None] = []
        for given in self._all(AclRead(self._full(path)) for path in paths):
            if isinstance(given, zk.NoNodeError):
                found.append(None)
            elif isinstance(given, zk.ZookeeperError):
                raise self._refused(paths[len(found)], given.code)
            else:
                found.append(given)
        return found

    # --- writing ----------------------------------------------------------------------------------------------------

    def set_acls(self, wanted: Sequence[tuple[str, Sequence[Right], int]]) -> list[Stat | None]:
        """Replace the rights of nodes: (path, rights, aversion that it must have).

        None: it is gone, or has another aversion. Raises PermissionDenied, NotMigratable.
        """
        found: list[Stat | None] = []
        for given in self._all(AclWrite(self._full(path), acl, aversion) for path, acl, aversion in wanted):
            if isinstance(given, zk.ZookeeperError):
                if given.code not in CHANGED:
                    raise self._refused(wanted[len(found)][0], given.code)
                found.append(None)
            else:
                found.append(given)
        return found

    def write(self, steps: Sequence[Step]) -> None:
        """Do the steps in order, as many in one request as fit. Raises Changed, PermissionDenied, NotMigratable."""
        parts = list(_parts(steps))
        asked: deque[tuple[Any, list[Step]]] = deque()
        for part in parts:
            asked.append((self._ask(Multi([self._below(step) for step in part])), part))
            if len(asked) == 8:
                self._written(*asked.popleft())
        while asked:
            self._written(*asked.popleft())

    def _written(self, asked: Any, part: list[Step]) -> None:
        try:
            answer = Answer(*self._answer(asked))
        except zk.ZookeeperError as error:
            raise self._refused(part[0].path, error.code) from None
        if answer == Answer(0, 0):
            return
        path = part[answer.position].path
        if answer.code in CHANGED:
            raise Changed(f"{self.name}: {path} changed (ZooKeeper's error {answer.code})")
        raise self._refused(path, answer.code)

    def _below(self, step: Step) -> Step:
        """The step with its path below the chroot."""
        if not self.chroot:
            return step
        own = step.path.encode()
        full = self._full(step.path).encode()
        return step._replace(body=len(full).to_bytes(4, "big") + full + step.body[4 + len(own) :])

    def remove(self, path: str) -> None:
        """Remove a node and all below it, the deepest first; those that are not there are no error."""
        while (found := self._subtree(path)) is not None:
            try:
                self.write([deleted(one) for one in reversed(found)])
            except Changed:
                continue
            return

    def _subtree(self, path: str) -> list[str] | None:
        """The node and all below it, parents first; None: it is not there."""
        found: list[str] = []
        level = [path]
        while level:
            nodes = [node for node in self.read(level) if node is not None]
            found += [node.path for node in nodes]
            level = [below(node.path, name) for node in nodes for name in node.names]
        return found or None

    def make_above(self, acl: Sequence[Right]) -> None:
        """Make the nodes above that of the chroot."""
        parts = self.chroot.split("/")[1:]
        for count in range(1, len(parts)):
            path = "/" + "/".join(parts[:count])
            answer = Answer(*self._answer(self._ask(Multi([created(path, None, acl, Kind.PERSISTENT)]))))
            if answer.code not in (0, -110):
                raise self._refused(path, answer.code)

    def may_write(self, path: str) -> bool:
        """Whether this connection could make a node below path; a node that was made is removed again."""
        probe = created(path, None, [Right(31, "world", "anyone")], Kind.PERSISTENT)
        answer = Answer(*self._answer(self._ask(Multi([self._below(probe), self._below(deleted(path))]))))
        return bool(answer.code != -102)


def below(path: str, name: str) -> str:
    """The path of a child."""
    return f"/{name}" if path == "/" else f"{path}/{name}"


def _parts(steps: Sequence[Step]) -> Iterator[list[Step]]:
    part: list[Step] = []
    size = 0
    for step in steps:
        if part and (len(part) == WRITE_STEPS or size + step.size > WRITE_BYTES):
            yield part
            part, size = [], 0
        part.append(step)
        size += step.size
    if part:
        yield part
