"""http://host:port,host:port/prefix and https://: the four interfaces by the REST protocol (docs/rest.md).

Options: ca, cert, key (files, of https), user=name:password or token, owner (the name under which this client holds its
places: a later client of that name takes them over at once), ttl_s (10, of members and candidates), prefix.

A write has an idempotency key of this client's own session. So one whose answer was lost is sent again, to any server,
and done once. Places are keys of sessions, and a fence compares the create revision of a place. A stream of changes
begins anew by revision when it breaks or is silent; where the history is gone, one reset has all of it.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, urlencode

from raftmeta import errors
from raftmeta.backends.http_servers import Answer, HttpServers, Stream, tls_of, tls_options
from raftmeta.backends.plugin import ANY, Check, Commit, Ending, System, SystemPlugin, Telling, Write, now_s, record_of
from raftmeta.backends.stream_watch import StreamWatch
from raftmeta.backends.url import BackendUrl, prefix_of
from raftmeta.errors import (
    ConfigError,
    LeaseExpired,
    NoLeader,
    NotExecuted,
    OutcomeUnknown,
    RaftmetaError,
    Refused,
    Unsupported,
)
from raftmeta.interfaces import Capabilities
from raftmeta.operations import KeyRecord
from raftmeta.recipes.deadline import Deadline
from raftmeta.results import WatchEvent

__all__ = ["PLUGIN", "Rest", "judge"]

SESSION_TTL_S = 60.0
RENEW_S = 15.0
SILENT_S = 5.0  # of a stream, which says something once a second
PAUSE_S = 0.1
STREAM_S = 5.0
LOOK_S = 5.0
_KINDS: dict[str, type[errors.RaftmetaError]] = {"missing": errors.KeyMissing, "superseded": OutcomeUnknown}
_AGAIN = (503, 502)  # certainly not executed: another server may do it


def _kind(name: str) -> Any:
    """The class of an error by its name in a body."""
    return _KINDS.get(name) or getattr(errors, "".join(word.title() for word in name.split("_")), None)


def judge(answer: Answer) -> None:
    """Raise the error that an answer is. A failed check is the caller's to read."""
    if answer.status < 400:
        return
    try:
        told = json.loads(answer.body)
        name, fate, message = str(told["error"]), str(told["fate"]), str(told["message"])
    except (ValueError, KeyError, TypeError):
        raise OutcomeUnknown(f"HTTP {answer.status}, and no word of what became of it") from None
    if name == "check_failed":
        return
    if answer.status in _AGAIN and fate == "not_executed":
        raise NoLeader(message)
    if fate == "outcome_unknown":
        raise OutcomeUnknown(message)
    if name in ("invalid_argument", "config_error"):
        raise errors.InvalidArgument(message, field=str(told.get("field", "")))
    kind = _kind(name)
    wanted = Refused if fate == "refused" else NotExecuted
    if isinstance(kind, type) and issubclass(kind, wanted):
        raise kind(message)
    raise wanted(message)


def _record(shape: dict[str, Any]) -> KeyRecord:
    key = shape["key"].encode() if "key" in shape else base64.b64decode(shape["key_base64"])
    return record_of(
        key,
        base64.b64decode(shape.get("value", "")),
        created=int(shape.get("create_revision", 0)),
        modified=int(shape["revision"]),
        version=int(shape.get("version", 0)),
        lease=int(shape.get("session", "0"), 16),
    )


def _text(key: bytes) -> str:
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise Unsupported("key: REST has keys that are text only") from None


class Rest(System):
    """The requests to the REST servers of one cluster. head: the headers of each."""

    def __init__(self, servers: HttpServers, head: dict[str, str]) -> None:
        self._servers = servers
        self._head = head
        self._lock = threading.RLock()
        self._session = ""
        self._renewed_s = 0.0
        self._is_renewing = False
        self._slots: list[int] = []
        self._slot_numbers = itertools.count()
        self._numbers = itertools.count(1)
        self._watches: set[_Watch] = set()

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        if self._session:
            with contextlib.suppress(RaftmetaError):
                self._call("DELETE", f"/v1/sessions/{self._session}", Deadline(1.0))
        self._servers.close()

    def _call(
        self,
        method: str,
        path: str,
        deadline: Deadline,
        told: Any = None,
        *,
        more: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Each of our requests may be sent again: it reads, is the same when done twice, or is known to the server."""
        body = None if told is None else json.dumps(told).encode()
        head = {**self._head, **(more or {}), "Accept": "application/json"}
        if body is not None:
            head["Content-Type"] = "application/json"
        answer = self._servers.call(method, path, body, head, judge=judge, is_repeatable=True, deadline=deadline)
        return answer.status, json.loads(answer.body) if answer.body else None

    def read(
        self, key: bytes, *, is_prefix: bool, keys_only: bool = False, local: bool = False, deadline: Deadline
    ) -> tuple[int, list[KeyRecord]]:
        asked = {"prefix": _text(key), "keys_only": str(keys_only).lower(), "local": str(local).lower()}
        if not is_prefix:
            asked["limit"] = "1"  # the key itself comes before all others that begin with it
        _, found = self._call("GET", f"/v1/keys?{urlencode(asked)}", deadline)
        records = [_record(shape) for shape in found["keys"]]
        return int(found["revision"]), records if is_prefix else [one for one in records if one.key == key]

    # --- writes -------------------------------------------------------------------------------------------------------
    @contextlib.contextmanager
    def _once(self, deadline: Deadline) -> Iterator[dict[str, str]]:
        """The headers of a write that is done once. A slot has one request at a time, and growing numbers."""
        with self._lock:
            if not self._session:
                self._session, self._renewed_s = f"{self.grant(SESSION_TTL_S, deadline)[0]:016x}", now_s()
            session = self._session
            slot = self._slots.pop() if self._slots else next(self._slot_numbers)
            number = next(self._numbers)
        try:
            yield {"Raftmeta-Session": session, "Idempotency-Key": f"{slot}/{number}"}
        finally:
            with self._lock:
                self._slots.append(slot)

    def commit(self, checks: Sequence[Check], writes: Sequence[Write], deadline: Deadline) -> Commit:
        told = {"checks": [_check(one) for one in checks], "operations": [_operation(one) for one in writes]}
        with self._once(deadline) as once:
            try:
                status, found = self._call("POST", "/v1/transactions", deadline, told, more=once)
            except LeaseExpired:
                with self._lock:
                    is_own = self._session == once["Raftmeta-Session"] and self._has_ended(deadline)
                    self._session = "" if is_own else self._session
                if is_own:  # an earlier sending may have been done before the session ended
                    raise OutcomeUnknown("the session of this client ended while the write was under way") from None
                raise
            except errors.Withdrawn as error:  # sent, and nobody answered
                raise errors.OutcomeTimeout(str(error)) from None
        if status < 400:
            return Commit(int(found["revision"]))
        records = {record.key: record for record in map(_record, found.get("found", ()))}
        return Commit(0, {check.key: records.get(check.key) for check in checks})

    def _has_ended(self, deadline: Deadline) -> bool:
        return self.renew(int(self._session, 16), deadline) == 0.0

    # --- sessions -----------------------------------------------------------------------------------------------------
    def grant(self, ttl_s: float, deadline: Deadline) -> tuple[int, float]:
        """A session that was begun twice has no key, and ends."""
        _, told = self._call("POST", "/v1/sessions", deadline, {"ttl_s": ttl_s})
        return int(told["session"], 16), float(told["ttl_s"])

    def renew(self, lease: int, deadline: Deadline) -> float:
        try:
            return float(self._call("PUT", f"/v1/sessions/{lease:016x}", deadline)[1]["ttl_s"])
        except errors.KeyMissing:
            return 0.0

    def revoke(self, lease: int, deadline: Deadline) -> None:
        self._call("DELETE", f"/v1/sessions/{lease:016x}", deadline)

    def beat(self, post: Callable[[Callable[[], object]], object]) -> None:
        """The session of the idempotency keys is kept alive."""
        if self._session and not self._is_renewing and now_s() - self._renewed_s > RENEW_S:
            self._is_renewing = True
            post(self._renew_own)

    def _renew_own(self) -> None:
        try:
            if self._session and not self._has_ended(Deadline(LOOK_S)):
                self._renewed_s = now_s()
        except RaftmetaError:
            pass  # the next beat asks again
        finally:
            self._is_renewing = False

    # --- changes ------------------------------------------------------------------------------------------------------
    def watch(self, key: bytes, *, is_prefix: bool, start_revision: int, tell: Telling, end: Ending) -> _Watch:
        watch = _Watch(self, key, is_prefix, start_revision, tell, end)
        self._watches.add(watch)
        watch.start()
        return watch

    def forget(self, watch: _Watch) -> None:
        self._watches.discard(watch)

    def stream(self, asked: dict[str, str]) -> Stream:
        """A stream of changes, from its first event on."""
        path, head = f"/v1/changes?{urlencode(asked)}", {**self._head, "Accept": "text/event-stream"}
        return self._servers.stream(path, b"", head, judge=judge, timeout_s=STREAM_S, method="GET", silence_s=SILENT_S)

    def blame(self, address: str) -> None:
        self._servers.blame(address)


def _check(check: Check) -> dict[str, Any]:
    key = {"key": _text(check.key)}
    return {**key, "exists": True} if check.revision == ANY else {**key, "revision": check.revision}


def _operation(write: Write) -> dict[str, Any]:
    if write.value is None:
        return {"op": "delete", "key": _text(write.key)}
    told = {"op": "put", "key": _text(write.key), "value": base64.b64encode(write.value).decode()}
    return {**told, "session": f"{write.lease:016x}"} if write.lease else told


class _Watch(StreamWatch):
    """A stream of changes."""

    refused = (*StreamWatch.refused, errors.AuthenticationFailed)

    def __init__(
        self, rest: Rest, key: bytes, is_prefix: bool, start_revision: int, tell: Telling, end: Ending
    ) -> None:
        read = partial(rest.read, key, is_prefix=is_prefix)
        super().__init__("raftmeta-http-watch", read, start_revision, tell, end, lambda: rest.forget(self))
        self._rest, self._asked = rest, {"prefix" if is_prefix else "key": _text(key)}
        self._kind = b""

    def open_stream(self, start_revision: int) -> Stream:
        return self._rest.stream({**self._asked, "after": str(start_revision - 1)})

    def silent(self, address: str) -> None:
        self._rest.blame(address)

    def take(self, line: bytes) -> None:
        word, _, text = line.strip().partition(b": ")
        if word == b"event":
            self._kind = text
        elif word == b"data":
            told = json.loads(text)
            if self._kind == b"error":
                judge(Answer(int(told.get("status", 500)), {}, json.dumps(told).encode()))
            revision, changes = int(told["revision"]), told.get("changes", ()) if self._kind == b"changes" else ()
            self.told(revision, [WatchEvent(one["type"], _record(one), None, revision) for one in changes])


class _Plugin(SystemPlugin):
    options = tls_options() | {"prefix", "token", "user"}

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

    def system(self, url: BackendUrl, *, timeout_s: float) -> Rest:
        prefix, head = prefix_of(url, has_path=False), _proof(url)
        if prefix is not None:
            head["Raftmeta-Namespace"] = quote(prefix.raw)
        is_plain = url.scheme == "http"
        if is_plain and url.options.keys() & tls_options():
            raise ConfigError("url: ca, cert, key, tls: are of https://", field="url")
        options = url.options if is_plain else {"tls": "1", **url.options}
        context = tls_of(BackendUrl(url.text, url.scheme, url.addresses, url.path, options))
        return Rest(HttpServers(url.addresses, context, name=url.scheme), head)


def _proof(url: BackendUrl) -> dict[str, str]:
    """It is a secret, so no error shows it."""
    user, token = url.options.get("user"), url.options.get("token")
    if user is not None and (token is not None or ":" not in user):
        raise ConfigError("url: user: must look like name:password, and have no token beside it", field="user")
    if user is not None:
        return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
    return {} if token is None else {"Authorization": f"Bearer {token}"}


PLUGIN = _Plugin()
