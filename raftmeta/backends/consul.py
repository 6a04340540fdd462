"""consul://host:port,host:port/prefix: the four interfaces on Consul's key-value store, by its HTTP API.

Options: dc (a data centre), token, ca, cert, key (files; with one of them, or tls=1, connections are TLS), owner (the
name under which this client holds its places: a later client of that name takes them over at once), ttl_s (10, of
members and candidates; Consul takes 10 s to 86400 s).

A place is a key that is locked by a session of its own, which removes the key when it ends (Behavior delete, LockDelay
0, no check of health). A fence is an index: the store checks it in the transaction of the write. A session ends up to
twice as late as its time to live says.

Consul shows states and not changes: a blocking query answers when the index has moved on. So each call of a listener is
coalesced, and a key that came and went between two answers is not told. docs/backends.md has the names of keys.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
import secrets
import uuid
from collections.abc import Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, unquote_to_bytes, urlencode

from raftmeta.backends.http_servers import Answer, HttpServers, tls_of, tls_options
from raftmeta.backends.plugin import (
    ANY,
    Bases,
    Check,
    Commit,
    Ending,
    PolledWatch,
    System,
    SystemPlugin,
    Telling,
    Write,
    record_of,
)
from raftmeta.backends.url import BackendUrl, prefix_of
from raftmeta.errors import (
    AuthenticationFailed,
    ConfigError,
    InvalidArgument,
    LeaseExpired,
    NoLeader,
    NotExecuted,
    OutcomeUnknown,
    Overloaded,
    PermissionDenied,
    RaftmetaError,
)
from raftmeta.interfaces import Capabilities
from raftmeta.operations import KeyRecord
from raftmeta.recipes.deadline import Deadline
from raftmeta.recipes.keys import ROOT

__all__ = ["PLUGIN", "error_of", "key_of", "name_of"]

TTL_S_MIN, TTL_S_MAX = 10.0, 86400.0  # of Consul's sessions
LATE_S = 5.0  # beside the time to live itself, by which a session ends late
OPERATIONS_MAX = 128  # of a transaction; a constant of Consul
WAIT_S = 5.0  # of a blocking query
QUERY_S = WAIT_S * 17 / 16 + 2.5  # Consul waits up to a sixteenth longer
LOOK_S = 5.0
MARK_BITS = 62
CLOCK = ROOT.encode() + b"clock"  # written by a transaction that only deletes: else its answer has no index
_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-~")
_SLASH = ord("/")
_DONE = (http.client.OK, http.client.NOT_FOUND, http.client.CONFLICT)  # an answer to the question


def name_of(key: bytes) -> str:
    """The name of a key in Consul, with "=" and two digits for most bytes that are no letters.

    Consul cleans paths ("//", "."), and refuses names in percent encoding that hide a ".." or a space. The form of a
    byte depends on its left neighbour alone. So the name of a prefix is a prefix of the names.
    """
    parts = []
    for position, byte in enumerate(key):
        is_folder = byte == _SLASH and position > 0 and key[position - 1] != _SLASH
        parts.append(chr(byte) if byte in _PLAIN or is_folder else f"={byte:02X}")
    return "".join(parts)


def key_of(name: str) -> bytes:
    """The key that a name stands for."""
    return unquote_to_bytes(name.replace("=", "%"))


def error_of(status: int, text: str) -> RaftmetaError:
    """The fate that an error of Consul tells. A request that reached a leader may be done."""
    told = text.strip()[:200]
    if status == http.client.FORBIDDEN or "Permission denied" in text:
        if "ACL not found" in text:
            return AuthenticationFailed("Consul does not know the token")
        return PermissionDenied(f"Consul refused it: {told}")
    if status in (http.client.BAD_REQUEST, http.client.REQUEST_ENTITY_TOO_LARGE):
        return InvalidArgument(f"operations: Consul does not take them: {told}", field="operations")
    if status == http.client.TOO_MANY_REQUESTS:
        return Overloaded(f"Consul refused it: {told}")
    if any(
        text_part in text for text_part in ("No cluster leader", "node is not the leader", "No known Consul servers")
    ):
        return NoLeader(f"Consul has no leader: {told}")
    return OutcomeUnknown(f"Consul does not tell what became of it: HTTP {status} {told}")


def judge(answer: Answer) -> None:
    """Raise the error that an answer of Consul is."""
    if answer.status not in _DONE:
        raise error_of(answer.status, answer.body.decode(errors="replace"))


def _session(lease: int) -> str:
    return str(uuid.UUID(int=lease))


class Consul(System):
    """The requests to the servers, or agents, of one Consul. root: stands before each key."""

    def __init__(self, servers: HttpServers, root: bytes, *, dc: str | None, token: str | None) -> None:
        self._servers = servers
        self._root = root
        self._query = {"dc": dc} if dc else {}
        self._headers = {"X-Consul-Token": token} if token else {}
        self._bases = Bases()
        self._watches: set[PolledWatch] = set()

    def close(self) -> None:
        for watch in list(self._watches):
            watch.close()
        self._servers.close()

    # --- requests -----------------------------------------------------------------------------------------------------
    def _call(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: bytes | None,
        *,
        is_repeatable: bool,
        deadline: Deadline,
        **options: Any,
    ) -> Answer:
        asked = urlencode({**self._query, **query})
        return self._servers.call(
            method,
            f"{path}?{asked}" if asked else path,
            body,
            self._headers,
            judge=judge,
            is_repeatable=is_repeatable,
            deadline=deadline,
            **options,
        )

    def _record(self, kv: dict[str, Any]) -> KeyRecord:
        return record_of(
            key_of(kv["Key"])[len(self._root) :],
            base64.b64decode(kv["Value"] or ""),
            created=kv["CreateIndex"],
            modified=kv["ModifyIndex"],
            lease=uuid.UUID(kv["Session"]).int if kv.get("Session") else 0,
        )

    def _look(
        self, key: bytes, query: dict[str, str], *, is_prefix: bool, keys_only: bool, deadline: Deadline, **options: Any
    ) -> tuple[int, list[KeyRecord]]:
        asked = dict(query)
        if is_prefix:
            asked["keys" if keys_only else "recurse"] = ""
        answer = self._get(key, asked, deadline, **options)
        index = int(answer.headers.get("x-consul-index", 0))
        if answer.status != http.client.OK:
            return index, []
        found = json.loads(answer.body)
        if is_prefix and keys_only:
            return index, [record_of(key_of(name)[len(self._root) :], b"", created=0, modified=0) for name in found]
        return index, [self._record(kv) for kv in found]

    def _get(self, key: bytes, query: dict[str, str], deadline: Deadline, **options: Any) -> Answer:
        path = f"/v1/kv/{quote(self._name(key))}"
        return self._call("GET", path, query, None, is_repeatable=True, deadline=deadline, **options)

    def read(
        self, key: bytes, *, is_prefix: bool, keys_only: bool = False, local: bool = False, deadline: Deadline
    ) -> tuple[int, list[KeyRecord]]:
        query = {"stale" if local else "consistent": ""}
        index, records = self._look(key, query, is_prefix=is_prefix, keys_only=keys_only, deadline=deadline)
        if not local:
            self._bases.keep(key, is_prefix, is_prefix and keys_only, index, records)
        return index, records

    # --- writes -------------------------------------------------------------------------------------------------------
    def commit(self, checks: Sequence[Check], writes: Sequence[Write], deadline: Deadline) -> Commit:
        steps, keys = self._steps(checks, writes)
        if len(steps) > OPERATIONS_MAX:
            raise InvalidArgument(
                f"operations: {len(steps)} steps are more than Consul takes in one transaction, {OPERATIONS_MAX}",
                field="operations",
            )
        # Consul does not write what is there already, and then the index stays: each write has a mark of its own.
        mark = secrets.randbits(MARK_BITS) | 1
        body = json.dumps([{"KV": {**step, "Flags": mark} if "Value" in step else step} for step in steps])
        try:
            answer = self._call("PUT", "/v1/txn", {}, body.encode(), is_repeatable=False, deadline=deadline)
        except OutcomeUnknown as error:
            index = self._marked([key for key, step in zip(keys, steps, strict=True) if "Value" in step], mark)
            if not index:
                raise error from None
            return Commit(index)
        told = json.loads(answer.body)
        if answer.status == http.client.OK:
            written = {self._name(write.key) for write in (*writes, Write(CLOCK, b"")) if write.value is not None}
            return Commit(max(one["KV"]["ModifyIndex"] for one in told["Results"] if one["KV"]["Key"] in written))
        failed = set()
        for one in told.get("Errors") or ():
            if "invalid session" in one["What"]:
                raise LeaseExpired("the session of the place has ended")
            if "Permission denied" in one["What"] or "ACL" in one["What"]:
                raise error_of(http.client.FORBIDDEN, one["What"])
            failed.add(keys[one["OpIndex"]])
        if not failed:
            raise NotExecuted(f"Consul refused a transaction: {answer.body[:200]!r}")
        found = {}
        for key in failed:
            _, records = self.read(key, is_prefix=False, deadline=deadline)
            found[key] = records[0] if records else None
        return Commit(0, found)

    def _marked(self, keys: list[bytes], mark: int) -> int:
        """The index of a transaction of unknown outcome, if one of its keys still has its mark; 0: nobody knows."""
        for key in keys:
            try:
                answer = self._get(key, {"consistent": ""}, Deadline(LOOK_S))
            except RaftmetaError:
                return 0
            if answer.status == http.client.OK and (kv := json.loads(answer.body)[0])["Flags"] == mark:
                return int(kv["ModifyIndex"])
        return 0

    def _name(self, key: bytes) -> str:
        return name_of(self._root + key)

    def _steps(self, checks: Sequence[Check], writes: Sequence[Write]) -> tuple[list[dict[str, Any]], list[bytes]]:
        """The operations of a transaction, and the key of each. A check goes into the write of its key, if it can."""
        alone: dict[bytes, list[int]] = {}
        for check in checks:
            alone.setdefault(check.key, []).append(check.revision)
        steps: list[tuple[bytes, dict[str, Any]]] = []
        last: list[tuple[bytes, dict[str, Any]]] = []
        for write in writes:
            revisions = alone.get(write.key, [])
            is_one = len(revisions) == 1 and revisions[0] != ANY and not write.lease
            if is_one and (revisions[0] or write.value is not None):
                del alone[write.key]
                step: dict[str, Any] = {"Verb": "delete-cas", "Index": revisions[0]}
                if write.value is not None:
                    step = {"Verb": "cas", "Index": revisions[0], "Value": _b64(write.value)}
                last.append((write.key, step))
            elif write.value is None:
                last.append((write.key, {"Verb": "delete"}))
            elif write.lease:
                if revisions != [0]:  # a key that another session has locked
                    last.append((write.key, {"Verb": "delete"}))
                locked = {"Verb": "lock", "Value": _b64(write.value), "Session": _session(write.lease)}
                last.append((write.key, locked))
            else:
                last.append((write.key, {"Verb": "set", "Value": _b64(write.value)}))
        for key, revisions in alone.items():
            for revision in revisions:
                verb = {0: "check-not-exists", ANY: "get"}.get(revision, "check-index")
                steps.append((key, {"Verb": verb, **({"Index": revision} if revision > 0 else {})}))
        steps += last
        if all(write.value is None for write in writes):
            steps.append((CLOCK, {"Verb": "set", "Value": ""}))
        return [{**step, "Key": self._name(key)} for key, step in steps], [key for key, _ in steps]

    # --- leases -------------------------------------------------------------------------------------------------------
    def grant(self, ttl_s: float, deadline: Deadline) -> tuple[int, float]:
        """A session that was made twice locks nothing, and ends."""
        whole_s = min(max(math.ceil(ttl_s), TTL_S_MIN), TTL_S_MAX)
        request = {
            "TTL": f"{whole_s:g}s",
            "LockDelay": "0s",
            "Behavior": "delete",
            "NodeChecks": [],
            "Name": "raftmeta",
        }
        answer = self._call(
            "PUT", "/v1/session/create", {}, json.dumps(request).encode(), is_repeatable=True, deadline=deadline
        )
        return uuid.UUID(json.loads(answer.body)["ID"]).int, float(whole_s)

    def renew(self, lease: int, deadline: Deadline) -> float:
        path = f"/v1/session/renew/{_session(lease)}"
        answer = self._call("PUT", path, {}, None, is_repeatable=True, deadline=deadline)
        if answer.status != http.client.OK:
            return 0.0
        return float(json.loads(answer.body)[0]["TTL"].rstrip("s"))

    def revoke(self, lease: int, deadline: Deadline) -> None:
        path = f"/v1/session/destroy/{_session(lease)}"
        self._call("PUT", path, {}, None, is_repeatable=True, deadline=deadline)

    # --- watches ------------------------------------------------------------------------------------------------------
    def watch(self, key: bytes, *, is_prefix: bool, start_revision: int, tell: Telling, end: Ending) -> PolledWatch:
        base = self._bases.take(key, is_prefix, start_revision - 1)
        watch = PolledWatch(
            key,
            is_prefix=is_prefix,
            base=None if base is None else (start_revision - 1, *base),
            look=partial(self._next, key, is_prefix, [0]),
            tell=tell,
            end=end,
        )
        self._watches = {one for one in self._watches if not one.is_closed} | {watch}
        return watch.start()

    def _next(
        self, key: bytes, is_prefix: bool, at: list[int], former: int, keys_only: bool
    ) -> tuple[int, list[KeyRecord]]:
        """The newest state, when the index has moved on or WAIT_S have passed. at: the index of the last look."""
        query = {"consistent": "", "index": str(at[0]), "wait": f"{WAIT_S:g}s"}
        deadline = Deadline(QUERY_S)
        index, records = self._look(
            key, query, is_prefix=is_prefix, keys_only=keys_only, deadline=deadline, attempt_s=QUERY_S
        )
        at[0] = index if index >= at[0] else 0  # it went backwards, as after a restore: look at once
        return index, records


def _b64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


class _Plugin(SystemPlugin):
    options = tls_options() | {"dc", "prefix", "token"}

    def capabilities(self, url: BackendUrl) -> Capabilities:
        return Capabilities(
            fencing=True,
            epochs=True,
            immediate_rejoin=True,
            lost_in_time=True,
            compare_and_set=True,
            multi=True,
            linearizable_reads=True,
            durable=True,
            ttl_precision_s=self.ttl_of(url) + LATE_S,
        )

    def ttl_of(self, url: BackendUrl) -> float:
        ttl_s = super().ttl_of(url)
        if not TTL_S_MIN <= ttl_s <= TTL_S_MAX:
            raise ConfigError(f"url: ttl_s: Consul takes {TTL_S_MIN:g} to {TTL_S_MAX:g} seconds", field="ttl_s")
        return ttl_s

    def system(self, url: BackendUrl, *, timeout_s: float) -> Consul:
        prefix = prefix_of(url, has_path=False)
        servers = HttpServers(url.addresses, tls_of(url), name="Consul")
        root = b"" if prefix is None else prefix.raw
        return Consul(servers, root, dc=url.options.get("dc"), token=url.options.get("token"))


PLUGIN = _Plugin()
