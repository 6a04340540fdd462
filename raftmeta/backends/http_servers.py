"""Requests by HTTP/1.1 to some servers of one system, one after another until one answers; for etcd:// and consul://.

It decides what is sent again. A request that no server has taken in is sent to the next one. A request that may have
been taken in is sent again only if it is repeatable: a read, or something that is the same when it is done twice. Else
its outcome is unknown. The judge of a system reads the meaning of an answer.

Connections are kept. One that the server has closed meanwhile is noticed before a request goes out on it.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from raftmeta.backends.url import BackendUrl
from raftmeta.common.flags import Flag
from raftmeta.errors import (
    ConfigError,
    NodeClosed,
    NoLeader,
    NotExecuted,
    OutcomeTimeout,
    OutcomeUnknown,
    Withdrawn,
)
from raftmeta.recipes.deadline import Deadline

__all__ = ["Answer", "HttpServers", "Stream", "tls_of", "tls_options"]

CONNECT_S = 2.0
ATTEMPT_S = 2.5  # of a repeatable request, on one server
WRITE_S = 60.0  # of another one without a deadline
PAUSE_S = 0.05  # after each server was asked in vain
IDLE_MAX = 8  # connections to one server


class Answer(NamedTuple):
    """An answer of a server. headers: names in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Judge = Callable[[Answer], None]
"""Returns if the request was done. Raises NoLeader: another server is to be asked; OutcomeUnknown; or a final error."""


def tls_options() -> frozenset[str]:
    """The options of a URL that tls_of reads."""
    return frozenset({"ca", "cert", "key", "tls"})


def tls_of(url: BackendUrl) -> ssl.SSLContext | None:
    """The TLS of a URL with ca=, cert=, key= or tls=1; None: plain connections. Raises ConfigError."""
    for name in ("cert", "key"):
        if name in url.options and not {"cert", "key"} <= url.options.keys():
            raise ConfigError("url: cert and key: one of them stands alone", field=name)
    if not url.options.keys() & tls_options():
        return None
    try:
        context = ssl.create_default_context(cafile=url.options.get("ca"))
        if "cert" in url.options:
            context.load_cert_chain(url.options["cert"], url.options["key"])
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"url: the files of ca, cert and key cannot be used: {error}", field="ca") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


class _Unsent(Exception):
    """Nothing of a request has left this machine."""


class _Connection:
    """One connection to one server."""

    def __init__(self, address: str, context: ssl.SSLContext | None, timeout_s: float) -> None:
        host, port = split(address)
        self.address = address
        self._http: Any = (
            http.client.HTTPConnection(host, port, timeout=timeout_s)
            if context is None
            else http.client.HTTPSConnection(host, port, timeout=timeout_s, context=context)
        )
        try:
            self._http.connect()
            self.socket: socket.socket = self._http.sock
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except (OSError, http.client.HTTPException) as error:
            self._http.close()
            raise _Unsent(f"{address}: {error}") from None

    def is_fresh(self) -> bool:
        """Whether the server has said nothing since the last answer: it may have hung up."""
        readable, _, _ = select.select([self.socket], [], [], 0)
        return not readable

    def begin(self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout_s: float) -> Any:
        """Send a request, and return what http.client makes of the head of the answer."""
        self.socket.settimeout(timeout_s)
        self._http.request(method, path, body=body, headers=dict(headers))
        return self._http.getresponse()

    def abort(self) -> None:
        """End whatever another thread waits for on it."""
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._http.close()


def split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"url: {address!r} is no host:port", field="url")
    return host.strip("[]"), int(port)


class Stream:
    """An answer without an end, read line by line on one thread; any thread may abort it."""

    def __init__(self, connection: _Connection, response: Any) -> None:
        self.address = connection.address
        self._connection = connection
        self._response = response
        self.abort = connection.abort

    def line(self) -> bytes:
        """The next line; empty: the answer has ended. Raises OSError, http.client.HTTPException."""
        read: bytes = self._response.readline()
        return read

    def close(self) -> None:
        self._connection.close()


class HttpServers:
    """The servers of one system, from the one that answered last."""

    def __init__(self, addresses: tuple[str, ...], context: ssl.SSLContext | None, *, name: str) -> None:
        for address in addresses:
            split(address)
        self._addresses = addresses
        self._context = context
        self._name = name
        self._first = 0
        self._idle: dict[str, list[_Connection]] = {address: [] for address in addresses}
        self._busy: set[_Connection] = set()
        self._lock = threading.RLock()
        self._is_closed = Flag()

    def close(self) -> None:
        """End every connection; calls under way fail."""
        self._is_closed.set()
        with self._lock:
            idle = [one for connections in self._idle.values() for one in connections]
            busy = list(self._busy)
            for connections in self._idle.values():
                connections.clear()
        for connection in idle:
            connection.close()
        for connection in busy:
            connection.abort()

    def order(self) -> list[str]:
        """All addresses, the best one first."""
        first = self._first
        return [*self._addresses[first:], *self._addresses[:first]]

    def blame(self, address: str) -> None:
        """It gave no answer: begin with another one from now on."""
        with self._lock:
            if self._addresses[self._first] == address:
                self._first = (self._first + 1) % len(self._addresses)

    # --- one request --------------------------------------------------------------------------------------------------
    def call(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        *,
        judge: Judge,
        is_repeatable: bool,
        deadline: Deadline,
        attempt_s: float = ATTEMPT_S,
        only: str = "",
        on_begin: Callable[[Callable[[], None]], object] | None = None,
    ) -> Answer:
        """Send a request until it is answered.

        only: to this server. on_begin: called with a function that ends the wait for the answer, from any thread.
        Raises what judge raises; NoLeader, Withdrawn: it was not done; OutcomeUnknown, if it is not repeatable.
        """
        why: object = "no server"
        while True:
            for address in [only] if only else self.order():
                left_s = deadline.left_s()
                if left_s == 0:
                    break
                limit_s = WRITE_S if left_s is None else left_s
                try:
                    answer = self._exchange(
                        address, method, path, body, headers, limit_s, attempt_s if is_repeatable else limit_s, on_begin
                    )
                    judge(answer)
                    return answer
                except (_Unsent, NoLeader) as error:
                    why = error
                except (OutcomeUnknown, OSError, http.client.HTTPException) as error:
                    why = f"{address}: {error!r}"
                    if not is_repeatable:
                        self.blame(address)
                        self._check_open()
                        raise self._unknown(error, address) from None
                self.blame(address)
                self._check_open()
            if deadline.left_s() == 0:
                if is_repeatable:
                    raise Withdrawn(f"no server of {self._name} answered in time ({why})")
                raise NoLeader(f"no server of {self._name} took it in time ({why})")
            if self._is_closed.wait(PAUSE_S):
                self._check_open()

    def _unknown(self, error: Exception, address: str) -> OutcomeUnknown:
        if isinstance(error, OutcomeUnknown):
            return error
        if isinstance(error, TimeoutError):
            return OutcomeTimeout(f"{self._name} at {address} did not answer in time")
        return OutcomeUnknown(f"the connection to {self._name} at {address} was lost before it answered ({error!r})")

    def _check_open(self) -> None:
        if self._is_closed.is_set():
            raise NodeClosed("this back end is closed")

    def _exchange(
        self,
        address: str,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        limit_s: float,
        attempt_s: float,
        on_begin: Callable[[Callable[[], None]], object] | None,
    ) -> Answer:
        connection = self._taken(address, min(limit_s, CONNECT_S))
        is_whole = False
        try:
            if on_begin is not None:
                on_begin(connection.abort)
            response = connection.begin(method, path, body, headers, min(limit_s, attempt_s))
            answer = Answer(
                response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
            )
            is_whole = not response.will_close
            return answer
        finally:
            self._give_back(connection, is_whole=is_whole)

    def _taken(self, address: str, timeout_s: float) -> _Connection:
        while True:
            with self._lock:
                self._check_open()
                connection = self._idle[address].pop() if self._idle[address] else None
            if connection is None:
                connection = _Connection(address, self._context, timeout_s)
            elif not connection.is_fresh():
                connection.close()
                continue
            with self._lock:
                self._busy.add(connection)
            if self._is_closed.is_set():  # meanwhile
                self._give_back(connection, is_whole=False)
                self._check_open()
            return connection

    def _give_back(self, connection: _Connection, *, is_whole: bool) -> None:
        with self._lock:
            self._busy.discard(connection)
            if is_whole and not self._is_closed.is_set() and len(self._idle[connection.address]) < IDLE_MAX:
                self._idle[connection.address].append(connection)
                return
        connection.close()

    # --- an answer without an end -------------------------------------------------------------------------------------
    def stream(
        self,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        judge: Judge,
        timeout_s: float,
        method: str = "POST",
        silence_s: float | None = None,
    ) -> Stream:
        """Begin an answer of the first server that gives one. Raises NotExecuted, and what judge raises.

        silence_s: how long a line may be waited for; then it is a TimeoutError.
        """
        why: object = "no server"
        for address in self.order():
            self._check_open()
            try:
                connection = _Connection(address, self._context, min(timeout_s, CONNECT_S))
                try:
                    response = connection.begin(method, path, body or None, headers, timeout_s)
                    if response.status != http.client.OK:
                        judge(Answer(response.status, dict(response.getheaders()), response.read()))
                    connection.socket.settimeout(silence_s)
                    return Stream(connection, response)
                except BaseException:
                    connection.close()
                    raise
            except (_Unsent, NoLeader, OutcomeUnknown, OSError, http.client.HTTPException) as error:
                why = error
                self.blame(address)
        raise NotExecuted(f"no server of {self._name} begins a stream ({why})")
