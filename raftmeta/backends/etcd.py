"""etcd://host:port,host:port/prefix: the four interfaces on an etcd cluster, by the JSON gateway of its own servers.

Options: ca, cert, key (files; with one of them, or tls=1, connections are TLS), user=name:password, owner (the name
under which this client holds its places: a later client of that name takes them over at once), ttl_s (10, of members
and candidates; etcd takes whole seconds, and bounds them from below).

A key is the prefix and the user's key, its value is the user's value: etcdctl reads them. A place is a key with a lease
of its own. A request of several writes is one transaction. A fence compares the mod revision of the place in the same
transaction. Watches go on by revision after a break; where etcd has compacted the history, one reset has all of it.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import math
import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from raftmeta.backends.http_servers import Answer, HttpServers, Stream, tls_of, tls_options
from raftmeta.backends.plugin import (
    ANY,
    Check,
    Commit,
    Ending,
    System,
    SystemPlugin,
    Telling,
    Write,
    now_s,
    record_of,
)
from raftmeta.backends.stream_watch import StreamWatch
from raftmeta.backends.url import BackendUrl, prefix_of
from raftmeta.errors import (
    AuthenticationFailed,
    Compacted,
    ConfigError,
    InvalidArgument,
    LeaseExpired,
    NoLeader,
    NoSpace,
    NotExecuted,
    OutcomeUnknown,
    Overloaded,
    PermissionDenied,
    RaftmetaError,
)
from raftmeta.interfaces import Capabilities
from raftmeta.operations import KeyRecord, prefix_end
from raftmeta.recipes.deadline import Deadline
from raftmeta.results import WatchEvent

__all__ = ["PLUGIN", "error_of"]

SILENT_S = 3.0  # of a stream, until its server has to prove that a majority hears it
PROOF_S = 2.5
PAUSE_S = 0.1
LOOK_S = 5.0
STREAM_S = 5.0  # until the head of its answer
OPERATIONS_MAX = 128  # --max-txn-ops of etcd
_TTL_S_MIN = 1

# Texts of etcd's errors (api/v3rpc/rpctypes/error.go), and what became of the request.
_NO_LEADER = ("etcdserver: no leader", "raft proposal dropped", "etcdserver: not capable")
_FATES: tuple[tuple[str, type[RaftmetaError]], ...] = (
    ("etcdserver: too many requests", Overloaded),
    ("etcdserver: mvcc: database space exceeded", NoSpace),
    ("etcdserver: requested lease not found", LeaseExpired),
    ("etcdserver: mvcc: required revision has been compacted", Compacted),
    ("etcdserver: permission denied", PermissionDenied),
    ("etcdserver: invalid auth token", AuthenticationFailed),
    ("etcdserver: user name is empty", AuthenticationFailed),
    ("etcdserver: user name not found", AuthenticationFailed),
    ("etcdserver: authentication failed", AuthenticationFailed),
    ("etcdserver: authentication is not enabled", AuthenticationFailed),
    ("etcdserver: request is too large", InvalidArgument),
    ("etcdserver: too many operations in txn request", InvalidArgument),
    ("etcdserver: duplicate key given in txn request", InvalidArgument),
    ("etcdserver: too large lease TTL", InvalidArgument),
    ("etcdserver: revision of auth store is old", NotExecuted),
)
_UNAUTHENTICATED = ("etcdserver: invalid auth token", "etcdserver: user name is empty", "revision of auth store is old")


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _unb64(text: str) -> bytes:
    return base64.b64decode(text)


def _message(body: bytes) -> str:
    """The text of an error of etcd."""
    try:
        told = json.loads(body)
        told = told.get("error", told) if isinstance(told, dict) else {}
        return str(told.get("message", "")) if isinstance(told, dict) else str(told)
    except ValueError:
        return body[:200].decode(errors="replace")


def judge(answer: Answer) -> None:
    """Raise the error that an answer of etcd is."""
    if answer.status != http.client.OK:
        raise error_of(_message(answer.body) or f"HTTP {answer.status}")


def error_of(message: str) -> RaftmetaError:
    """A request may be done unless etcd is known to refuse it so: after a time-out, after a change of the leader."""
    if any(text in message for text in _NO_LEADER):
        return NoLeader(f"etcd has no leader: {message}")
    for text, kind in _FATES:
        if text in message:
            if kind is InvalidArgument:
                return InvalidArgument(f"operations: etcd does not take them: {message}", field="operations")
            return kind(f"etcd refused it: {message}")
    return OutcomeUnknown(f"etcd does not tell what became of it: {message}")


class Etcd(System):
    """The requests to one etcd cluster. root: stands before each key."""

    def __init__(self, servers: HttpServers, root: bytes, user: tuple[str, str] | None) -> None:
        self._servers = servers
        self._root = root
        self._user = user
        self._token = ""
        self._lock = threading.RLock()
        self._watches: set[_Watch] = set()
        self._proofs: dict[str, float] = {}  # when a server last proved that a majority hears it
        self._asked: set[str] = set()

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        self._servers.close()

    # --- requests -----------------------------------------------------------------------------------------------------
    def call(
        self, path: str, request: dict[str, Any], *, is_repeatable: bool, deadline: Deadline, only: str = ""
    ) -> Any:
        """The answer to a request. One that was refused for an old token is sent again with a new one."""
        for is_last in (False, True):
            try:
                answer = self._servers.call(
                    "POST",
                    path,
                    json.dumps(request).encode(),
                    self.headers(deadline),
                    judge=judge,
                    is_repeatable=is_repeatable,
                    deadline=deadline,
                    only=only,
                )
                return json.loads(answer.body)
            except (AuthenticationFailed, NotExecuted) as error:
                if is_last or self._user is None or not self.forgets_token(str(error)):
                    raise
        raise AssertionError("the second attempt returns or raises")

    def headers(self, deadline: Deadline) -> dict[str, str]:
        told = {"Content-Type": "application/json"}
        if self._user is not None:
            with self._lock:
                if not self._token:
                    name, password = self._user
                    answer = self._servers.call(
                        "POST",
                        "/v3/auth/authenticate",
                        json.dumps({"name": name, "password": password}).encode(),
                        told,
                        judge=judge,
                        is_repeatable=True,
                        deadline=deadline,
                    )
                    self._token = json.loads(answer.body)["token"]
                told["Authorization"] = self._token
        return told

    def forgets_token(self, message: str) -> bool:
        """Whether a new token may help."""
        is_old = any(text in message for text in _UNAUTHENTICATED)
        if is_old:
            self._token = ""
        return is_old

    def _span(self, key: bytes, *, is_prefix: bool) -> dict[str, str]:
        low = self._root + key
        if not is_prefix:
            return {"key": _b64(low)}
        return {"key": _b64(low or b"\0"), "range_end": _b64((low and prefix_end(low)) or b"\0")}

    def _record(self, kv: dict[str, Any]) -> KeyRecord:
        return record_of(
            _unb64(kv["key"])[len(self._root) :],
            _unb64(kv.get("value", "")),
            created=int(kv.get("create_revision", 0)),
            modified=int(kv.get("mod_revision", 0)),
            version=int(kv.get("version", 0)),
            lease=int(kv.get("lease", 0)),
        )

    def read(
        self, key: bytes, *, is_prefix: bool, keys_only: bool = False, local: bool = False, deadline: Deadline
    ) -> tuple[int, list[KeyRecord]]:
        asked = {**self._span(key, is_prefix=is_prefix), "keys_only": keys_only, "serializable": local}
        found = self.call("/v3/kv/range", asked, is_repeatable=True, deadline=deadline)
        return int(found["header"]["revision"]), [self._record(kv) for kv in found.get("kvs", ())]

    # --- writes -------------------------------------------------------------------------------------------------------
    def commit(self, checks: Sequence[Check], writes: Sequence[Write], deadline: Deadline) -> Commit:
        if max(len(checks), len(writes)) > OPERATIONS_MAX:
            raise InvalidArgument(
                f"operations: {max(len(checks), len(writes))} are more than etcd takes in one transaction by default,"
                f" {OPERATIONS_MAX}",
                field="operations",
            )
        keys = list(dict.fromkeys(check.key for check in checks))
        request = {
            "compare": [self._compare(check) for check in checks],
            "success": [self._request(write) for write in writes],
            "failure": [{"request_range": self._span(key, is_prefix=False)} for key in keys],
        }
        told = self.call("/v3/kv/txn", request, is_repeatable=False, deadline=deadline)
        if told.get("succeeded"):
            return Commit(int(told["header"]["revision"]))
        found = [one["response_range"].get("kvs", ()) for one in told["responses"]]
        return Commit(0, {key: self._record(kvs[0]) if kvs else None for key, kvs in zip(keys, found, strict=True)})

    def _compare(self, check: Check) -> dict[str, Any]:
        key = {"key": _b64(self._root + check.key)}
        if check.revision in (0, ANY):
            return {**key, "target": "VERSION", "result": "GREATER" if check.revision else "EQUAL", "version": "0"}
        return {**key, "target": "MOD", "result": "EQUAL", "mod_revision": str(check.revision)}

    def _request(self, write: Write) -> dict[str, Any]:
        key = {"key": _b64(self._root + write.key)}
        if write.value is None:
            return {"request_delete_range": key}
        return {"request_put": {**key, "value": _b64(write.value), "lease": str(write.lease)}}

    # --- leases -------------------------------------------------------------------------------------------------------
    def grant(self, ttl_s: float, deadline: Deadline) -> tuple[int, float]:
        """A lease that was granted twice has no key, and expires."""
        request = {"TTL": str(max(_TTL_S_MIN, math.ceil(ttl_s)))}
        told = self.call("/v3/lease/grant", request, is_repeatable=True, deadline=deadline)
        return int(told["ID"]), float(told["TTL"])

    def renew(self, lease: int, deadline: Deadline) -> float:
        told = self.call("/v3/lease/keepalive", {"ID": str(lease)}, is_repeatable=True, deadline=deadline)
        if "error" in told:
            raise error_of(str(told["error"].get("message", told["error"])))
        return float(told["result"].get("TTL", 0))

    def revoke(self, lease: int, deadline: Deadline) -> None:
        with contextlib.suppress(LeaseExpired):
            self.call("/v3/lease/revoke", {"ID": str(lease)}, is_repeatable=True, deadline=deadline)

    # --- watches ------------------------------------------------------------------------------------------------------
    def watch(self, key: bytes, *, is_prefix: bool, start_revision: int, tell: Telling, end: Ending) -> _Watch:
        span = self._span(key, is_prefix=is_prefix)
        read = partial(self.read, key, is_prefix=is_prefix)
        watch = _Watch(self, span, read, start_revision, tell, end)
        self._watches.add(watch)
        watch.start()
        return watch

    def forget(self, watch: _Watch) -> None:
        self._watches.discard(watch)

    def stream(self, request: dict[str, Any]) -> Stream:
        """A watch of etcd, from its first answer on."""
        headers = self.headers(Deadline(STREAM_S))
        return self._servers.stream("/v3/watch", json.dumps(request).encode(), headers, judge=judge, timeout_s=STREAM_S)

    def blame(self, address: str) -> None:
        self._servers.blame(address)

    def events(self, told: dict[str, Any]) -> list[WatchEvent]:
        """The events of an answer, in order."""
        events = []
        for event in told.get("events", ()):
            record = self._record(event["kv"])
            kind = "delete" if event.get("type") == "DELETE" else "put"
            events.append(WatchEvent(kind, record, None, record.mod_revision))
        return events

    def proved(self, address: str) -> None:
        """A server told something that only a majority decides."""
        self._proofs[address] = now_s()

    def beat(self, post: Callable[[Callable[[], object]], object]) -> None:
        """Streams end that hang on a server which nobody hears any more: it would say nothing for ever."""
        addresses = {watch.address for watch in list(self._watches)} - {""}
        for address in addresses - self._asked:
            if now_s() - self._proofs.setdefault(address, now_s()) > SILENT_S:
                self._asked.add(address)
                post(partial(self._prove, address))

    def _prove(self, address: str) -> None:
        try:
            request = {"key": _b64(b"\0"), "count_only": True}
            self.call("/v3/kv/range", request, is_repeatable=True, deadline=Deadline(PROOF_S), only=address)
            self.proved(address)
        except PermissionDenied:
            self.proved(address)  # it has a leader who says so
        except RaftmetaError:
            for watch in list(self._watches):
                watch.leave(address)
            self._proofs[address] = now_s()
        finally:
            self._asked.discard(address)


class _Watch(StreamWatch):
    """A watch of etcd."""

    def __init__(
        self,
        etcd: Etcd,
        span: dict[str, str],
        read: Callable[..., tuple[int, list[KeyRecord]]],
        start_revision: int,
        tell: Telling,
        end: Ending,
    ) -> None:
        super().__init__("raftmeta-etcd-watch", read, start_revision, tell, end, lambda: etcd.forget(self))
        self._etcd, self._span = etcd, span

    def leave(self, address: str) -> None:
        """That server is of no use."""
        stream = self._stream
        if stream is not None and stream.address == address:
            self._etcd.blame(address)
            stream.abort()

    def open_stream(self, start_revision: int) -> Stream:
        stream = self._etcd.stream({"create_request": {**self._span, "start_revision": str(start_revision)}})
        self._etcd.proved(stream.address)
        return stream

    def take(self, line: bytes) -> None:
        told = json.loads(line)
        if "error" in told:
            raise error_of(str(told["error"].get("message", told["error"])))
        result = told["result"]
        for revision, group in groupby(self._etcd.events(result), key=lambda event: event.revision):
            self.told(revision, list(group))
        if result.get("canceled"):  # the stream stays open, and says nothing any more
            if int(result.get("compact_revision", 0)):
                raise Compacted("etcd has compacted the history of this watch")
            reason = str(result.get("cancel_reason", ""))
            self._etcd.forgets_token(reason)
            raise error_of(reason)


class _Plugin(SystemPlugin):
    options = tls_options() | {"prefix", "user"}

    def capabilities(self, url: BackendUrl) -> Capabilities:
        return Capabilities(
            fencing=True,
            epochs=True,
            immediate_rejoin=True,
            lost_in_time=True,
            ordered_listeners=True,
            resumable_watches=True,
            compare_and_set=True,
            multi=True,
            linearizable_reads=True,
            durable=True,
        )

    def system(self, url: BackendUrl, *, timeout_s: float) -> Etcd:
        prefix = prefix_of(url, has_path=False)
        root = b"" if prefix is None else prefix.raw
        return Etcd(HttpServers(url.addresses, tls_of(url), name="etcd"), root, _user_of(url))


def _user_of(url: BackendUrl) -> tuple[str, str] | None:
    if "user" not in url.options:
        return None
    name, _, password = url.options["user"].partition(":")
    if not name or not password:  # it is a secret, so no error shows it
        raise ConfigError("url: user: must look like name:password", field="user")
    return name, password


PLUGIN = _Plugin()
