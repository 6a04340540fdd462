"""The part that etcd://, consul:// and cassandra:// have in common: a store's verbs over a few requests to a system.

A System reads keys, commits checked writes in one step, grants leases and tells what changed. SystemStore makes the
verbs of recipes/store.py of these requests, and Coordinated makes the four interfaces of the verbs. So the rules of
groups and elections are those of raftmeta's own engine. This module decides:

- how operations become checks and writes, and which error a failed check is;
- that a write of unknown outcome is never sent again. The store looks whether it was done (System.found_written);
- how long a lease certainly lives. Its time counts from before the request that the system answered. A lease that was
  not certain for a moment is lost for good;
- what a watch tells where a system shows states and not changes (PolledWatch).

A key that is held is written once by each holder. So its mod revision stands for the create revision here: it is the
epoch, and a fence compares it.
"""

from __future__ import annotations

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, Self, cast

from raftmeta.backends.threads import AioOverThreads
from raftmeta.backends.url import BackendUrl
from raftmeta.common import numbers
from raftmeta.common.apart import ApartThread
from raftmeta.common.flags import Flag
from raftmeta.common.shared_threads import Losses, SharedThreads
from raftmeta.errors import (
    CompareFailed,
    ConfigError,
    Fenced,
    InvalidArgument,
    KeyExists,
    KeyMissing,
    LeaseExpired,
    NodeClosed,
    NotExecuted,
    OutcomeUnknown,
    RaftmetaError,
    ReadyTimeout,
    Unsupported,
    Withdrawn,
)
from raftmeta.interfaces import Capabilities, State
from raftmeta.operations import (
    Compare,
    CompareOperator,
    Create,
    Delete,
    Fence,
    Get,
    Key,
    KeyRecord,
    Operation,
    RangeResult,
    Update,
)
from raftmeta.recipes.coordination import Coordinated, life_of
from raftmeta.recipes.deadline import DEFAULT_TIMEOUT_S, Deadline
from raftmeta.recipes.keys import ROOT, to_bytes
from raftmeta.results import TxnReply, WatchBatch, WatchEvent, WatchReset

__all__ = [
    "ANY",
    "Bases",
    "Check",
    "Commit",
    "Lease",
    "PolledWatch",
    "System",
    "SystemPlugin",
    "SystemStore",
    "Telling",
    "Watch",
    "Write",
    "is_held_key",
    "now_s",
    "record_of",
    "seconds",
]

ANY = -1  # of Check.revision: the key exists
MARGIN = 0.1  # of a lease: clocks that drift
RENEWALS_PER_TTL = 5
RENEW_ATTEMPT = 0.3  # of the ttl, for one renewal
TICKS_PER_TTL = 20
TICK_S_MIN, TICK_S_MAX = 0.05, 0.5
SUSPENDED_S = 3.0  # without an answer
PROBE_S = 1.0  # between questions of a store that nobody uses
PAUSE_S = 0.2  # after a look that failed
LOOK_S = 5.0
CLOSE_S = 5.0
BASES_MAX = 256
RENEWERS_MAX = 8
_ROOT = ROOT.encode()
_LOG = logging.getLogger(__name__)


def now_s() -> float:
    """Seconds of the clock that goes on while the machine sleeps."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def seconds(text: str) -> float:
    """A number of seconds in a URL."""
    if not 0 < float(text) < float("inf"):
        raise ValueError(text)
    return float(text)


seconds.__name__ = "number of seconds above 0"


def is_held_key(key: bytes) -> bool:
    """Whether a key belongs to the recipes, and so is written once by each holder."""
    return key.startswith(_ROOT)


def record_of(key: bytes, value: bytes, *, created: int, modified: int, version: int = 1, lease: int = 0) -> KeyRecord:
    """A record as the recipes are to see it."""
    return KeyRecord(key, value, modified if is_held_key(key) else created, modified, version, lease)


# --- what a system can do ---------------------------------------------------------------------------------------------
class Check(NamedTuple):
    """A key must have this mod revision; 0: it must not exist, ANY: it must."""

    key: bytes
    revision: int

    def holds(self, record: KeyRecord | None) -> bool:
        if record is None or not self.revision:
            return record is None and not self.revision
        return self.revision in (ANY, record.mod_revision)


class Write(NamedTuple):
    """Set a key, attached to a lease if that is not 0; value None: remove it, if it is there."""

    key: bytes
    value: bytes | None
    lease: int = 0


class Commit(NamedTuple):
    """The answer to checked writes. revision: of all of them; 0: a check failed, and found has the keys of it."""

    revision: int
    found: dict[bytes, KeyRecord | None] = {}  # noqa: RUF012  # never changed


class Telling(Protocol):
    """A watch's way to its user: one call at a time."""

    def __call__(self, news: WatchBatch | WatchReset, /) -> object: ...


class Watch(Protocol):
    """Something that tells changes until it is closed."""

    def close(self) -> None: ...


class System(ABC):
    """The requests to one etcd, Consul or Cassandra, under the keys of one prefix.

    Each may raise NotExecuted, OutcomeUnknown (only commit, grant and revoke), and InvalidArgument.
    """

    @abstractmethod
    def read(
        self, key: bytes, *, is_prefix: bool, keys_only: bool = False, local: bool = False, deadline: Deadline
    ) -> tuple[int, list[KeyRecord]]:
        """A key, or all that begin with it, in order, and the revision as of which they are."""

    @abstractmethod
    def commit(self, checks: Sequence[Check], writes: Sequence[Write], deadline: Deadline) -> Commit:
        """Do all writes in one step if every check holds. No two writes are of one key."""

    @abstractmethod
    def grant(self, ttl_s: float, deadline: Deadline) -> tuple[int, float]:
        """A new lease, and how long the system keeps it."""

    @abstractmethod
    def renew(self, lease: int, deadline: Deadline) -> float:
        """How long the system keeps the lease from now on; 0: it is gone."""

    @abstractmethod
    def revoke(self, lease: int, deadline: Deadline) -> None:
        """End a lease, and remove its keys; one that is gone is ignored."""

    @abstractmethod
    def watch(self, key: bytes, *, is_prefix: bool, start_revision: int, tell: Telling, end: Ending) -> Watch:
        """Tell every change of a key, or of all that begin with it, from start_revision on."""

    def found_written(self, writes: Sequence[Write], deadline: Deadline) -> int:
        """The revision of writes whose outcome was unknown, if it is certain that they were done; 0: it is not.

        A lease belongs to one place, so a key that is attached to it was written by the holder of that place.
        """
        for write in writes:
            if write.lease and write.value is not None:
                _, records = self.read(write.key, is_prefix=False, deadline=deadline)
                if records and records[0].lease == write.lease:
                    return records[0].mod_revision
        return 0

    def probe(self, deadline: Deadline) -> None:
        """Ask something that a majority has to answer."""
        self.read(_ROOT + b"probe", is_prefix=False, deadline=deadline)

    def beat(self, post: Callable[[Callable[[], object]], object]) -> None:
        """Called some times a second; must not block. post: do it on another thread."""
        return None

    @abstractmethod
    def close(self) -> None:
        """Free everything."""


class Ending(Protocol):
    """Called once when a watch cannot go on; None: it was closed."""

    def __call__(self, error: BaseException | None, /) -> object: ...


# --- leases -----------------------------------------------------------------------------------------------------------
class Lease:
    """A lease that is kept alive until it is revoked or lost."""

    def __init__(self, store: SystemStore, id: int, ttl_s: float, sent_s: float) -> None:
        self.id = id
        self.ttl_s = ttl_s
        self.sent_s = sent_s  # of the newest request
        self.is_asked = False
        self._store = store
        self._until_s = sent_s + ttl_s * (1 - MARGIN)
        self._lock = threading.RLock()
        self._is_over = False

    def held(self) -> bool:
        return self.remaining_s() > 0

    def remaining_s(self) -> float:
        return 0.0 if self._is_over else max(0.0, self._until_s - now_s())

    def proved(self, sent_s: float, ttl_s: float) -> None:
        """The system keeps it so long since that moment. 0: it is gone."""
        with self._lock:
            if not ttl_s:
                self._until_s = 0.0
            elif self._until_s > now_s():  # else held() said so already, and what is lost stays lost
                self._until_s = max(self._until_s, sent_s + ttl_s * (1 - MARGIN))

    def revoke(self, *, timeout_s: float | None = 5.0) -> None:
        """End it at once; nobody is told that it was lost."""
        self._is_over = True
        self._store.forget(self)
        self._store.system.revoke(self.id, Deadline(timeout_s))


# --- from operations to checks and writes -----------------------------------------------------------------------------
class _Demand(NamedTuple):
    """A check, and what it means when it fails. kind: "compare", "fence", "create" or "change"."""

    check: Check
    kind: str


class _Plan:
    """The checks and the writes of some operations, as if they were done one after the other."""

    def __init__(self, fence: Fence | None) -> None:
        self.demands: list[_Demand] = []
        self.writes: dict[bytes, Write] = {}
        if fence is not None:
            key = _raw(fence.key, "fence")
            if not is_held_key(key) or fence.create_revision <= 0:
                raise InvalidArgument(f"fence: {fence.key!r} was not made by this back end", field="fence")
            self.demands.append(_Demand(Check(key, fence.create_revision), "fence"))

    @property
    def checks(self) -> list[Check]:
        return list(dict.fromkeys(demand.check for demand in self.demands))

    def compare(self, compare: CompareOperator, number: int) -> None:
        field = f"compares[{number}]"
        if not isinstance(compare, Compare) or not isinstance(compare.operand, int):
            raise Unsupported(f"{field}: this back end compares versions and revisions only")
        key, equal = _raw(compare.key, field), compare.result == numbers.COMPARE_EQUAL
        if (
            compare.target == numbers.COMPARE_VERSION
            and compare.operand == 0
            and (equal or compare.result == numbers.COMPARE_NOT_EQUAL)
        ):
            revision = 0 if equal else ANY
        elif equal and (
            compare.target == numbers.COMPARE_MOD_REVISION
            or (compare.target == numbers.COMPARE_CREATE_REVISION and is_held_key(key))
        ):
            revision = compare.operand
        else:
            raise Unsupported(f"{field}: this back end compares that a key exists, or its mod revision")
        self.demands.append(_Demand(Check(key, revision), "compare"))

    def add(self, operation: Operation, number: int) -> None:
        field = f"operations[{number}]"
        if not isinstance(operation, Create | Update | Delete):
            raise Unsupported(f"{field}: this back end does Create, Update and Delete only")
        key = _raw(operation.key, f"{field}.key")
        former = self.writes.get(key)
        if isinstance(operation, Create):
            self._demand(key, 0, "create", former)
        elif isinstance(operation, Update) or operation.must_exist or operation.expected_revision:
            self._demand(key, operation.expected_revision or ANY, "change", former)
        if isinstance(operation, Delete):
            self.writes[key] = Write(key, None)
            return
        if operation.value is None or operation.lease is None:
            raise InvalidArgument(f"{field}: must have a value", field=field)
        self.writes[key] = Write(key, to_bytes(operation.value, f"{field}.value"), operation.lease)

    def _demand(self, key: bytes, revision: int, kind: str, former: Write | None) -> None:
        if former is None:
            self.demands.append(_Demand(Check(key, revision), kind))
            return
        exists = former.value is not None
        if kind == "create" and exists:
            raise KeyExists(f"key {_text(key)} exists")
        if kind == "change" and not exists:
            raise KeyMissing(f"key {_text(key)} does not exist")
        if revision > 0:
            raise CompareFailed(f"key {_text(key)} was changed by the same request")

    def judge(self, found: dict[bytes, KeyRecord | None]) -> str:
        """Why it was refused: "compare", or raise the error. "": all of it would hold now."""
        for check, kind in self.demands:
            if check.key not in found or check.holds(found[check.key]):
                continue
            record = found[check.key]
            if kind == "compare":
                return kind
            if kind == "fence":
                raise Fenced(f"the fence {_text(check.key)} of epoch {check.revision} is not held any more")
            if kind == "create":
                raise KeyExists(f"key {_text(check.key)} exists")
            if record is None:
                raise KeyMissing(f"key {_text(check.key)} does not exist")
            raise CompareFailed(f"key {_text(check.key)} has revision {record.mod_revision}, not {check.revision}")
        return ""


def _raw(key: Key, field: str = "key") -> bytes:
    raw = key.encode() if isinstance(key, str) else key
    if not raw:
        raise InvalidArgument(f"{field}: must not be empty", field=field)
    return raw


def _key(operation: Operation) -> bytes:
    """The key of an operation that has one; of others it is refused later, in plain words."""
    key: Key = getattr(operation, "key", "")
    return key.encode() if isinstance(key, str) else key


def _text(key: bytes) -> str:
    return repr(key.decode(errors="replace"))


# --- the store --------------------------------------------------------------------------------------------------------
class _Written(int):
    """A revision that says, as raftmeta's own, that the operation has no result."""

    result = None


class SystemStore(Coordinated):
    """The verbs of a store over a system, and the four interfaces over the verbs."""

    def __init__(self, system: System, promises: Capabilities, *, owner: str | None, ttl_s: float) -> None:
        self.system = system
        self.owner = life_of(owner)
        self.ttl_s = ttl_s
        self._promises = promises
        self._calls = SharedThreads("back-end")
        self._renewers = SharedThreads("back-end-leases", threads_max=RENEWERS_MAX)
        self._losses = Losses(self._calls)
        self._lock = threading.RLock()
        self._leases: set[Lease] = set()
        self._lost = 0
        self._answered_s = 0.0
        self._asked_s = 0.0
        self._is_closed = Flag()
        self._beating = ApartThread(self._beat_on, "raftmeta-back-end")

    # --- its life -----------------------------------------------------------------------------------------------------
    def open(self, timeout_s: float) -> None:
        """Return when the system answers. Raises ReadyTimeout, and what is no matter of time."""
        try:
            self.system.probe(Deadline(timeout_s))
        except (Withdrawn, OutcomeUnknown) as error:
            raise ReadyTimeout(f"nobody answered within {timeout_s:g} s: {error}") from None
        except NotExecuted as error:
            if type(error).__name__ != "NoLeader":
                raise
            raise ReadyTimeout(f"nobody answered within {timeout_s:g} s: {error}") from None
        self._answered_s = now_s()
        self._beating.start()

    def close(self) -> None:
        """Give back all that is held, and end. Idempotent."""
        if self._is_closed.is_set():
            return
        self.close_parts()
        self._is_closed.set()
        with self._lock:
            leases, self._leases = list(self._leases), set()
        for lease in leases:
            self._losses.remove(cast(Any, lease))
        self.system.close()
        if self._answered_s:
            self._beating.wait(CLOSE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def capabilities(self) -> Capabilities:
        return self._promises

    def group(self, name: str, *, ttl_s: float = 0.0) -> Any:
        """ttl_s: 0 for that of the URL."""
        return super().group(name, ttl_s=ttl_s or self.ttl_s)

    def election(self, service: str, *, ttl_s: float = 0.0) -> Any:
        """ttl_s: 0 for that of the URL."""
        return super().election(service, ttl_s=ttl_s or self.ttl_s)

    def look_at_state(self) -> tuple[State, int]:
        """Whether the system answered lately, and a number that changes with each loss of a lease."""
        if self._is_closed.is_set():
            return State.LOST, self._lost
        is_heard = now_s() - self._answered_s < SUSPENDED_S
        return State.CONNECTED if is_heard else State.SUSPENDED, self._lost

    def _check_open(self) -> None:
        if self._is_closed.is_set():
            raise NodeClosed("this back end is closed")

    # --- reading ------------------------------------------------------------------------------------------------------
    def get(
        self, key: Key, *, revision: int = 0, local: bool = False, timeout_s: float | None = 5.0
    ) -> KeyRecord | None:
        """The record of a key."""
        found = self._read(_raw(key), is_prefix=False, local=local, timeout_s=timeout_s)[1]
        return found[0] if found else None

    def range(
        self,
        start: Key = "",
        end: Key = "",
        *,
        prefix: Key | None = None,
        limit: int = 0,
        revision: int = 0,
        keys_only: bool = False,
        count_only: bool = False,
        local: bool = False,
        timeout_s: float | None = 5.0,
    ) -> RangeResult:
        """All keys below prefix, or the one key of [start, start + "\\0")."""
        first = _raw(start) if start else b""
        if prefix is None and _raw(end or "?") != first + b"\0":
            raise Unsupported("start: this back end reads one key, or all that begin with a prefix")
        if revision or count_only:
            raise Unsupported("revision: this back end reads the newest only")
        low = first if prefix is None else (prefix.encode() if isinstance(prefix, str) else prefix)
        as_of, records = self._read(
            low, is_prefix=prefix is not None, keys_only=keys_only, local=local, timeout_s=timeout_s
        )
        shown = records[:limit] if limit else records
        return RangeResult(len(shown), shown, more=len(shown) < len(records), revision=as_of)

    def _read(
        self,
        key: bytes,
        *,
        is_prefix: bool,
        keys_only: bool = False,
        local: bool = False,
        timeout_s: float | None,
    ) -> tuple[int, list[KeyRecord]]:
        self._check_open()
        found = self.system.read(
            key, is_prefix=is_prefix, keys_only=keys_only, local=local, deadline=Deadline(timeout_s)
        )
        self._answered_s = now_s()
        return found

    # --- writing ------------------------------------------------------------------------------------------------------
    def create(
        self, key: Key, value: bytes | str, *, fence: Fence | None = None, timeout_s: float | None = 5.0
    ) -> _Written:
        return self._write(Create(key, value), fence, timeout_s)

    def update(
        self,
        key: Key,
        value: bytes | str | None,
        *,
        expected_revision: int = 0,
        fence: Fence | None = None,
        timeout_s: float | None = 5.0,
    ) -> _Written:
        return self._write(Update(key, value, expected_revision=expected_revision), fence, timeout_s)

    def delete(
        self,
        key: Key,
        *,
        expected_revision: int = 0,
        must_exist: bool = False,
        fence: Fence | None = None,
        timeout_s: float | None = 5.0,
    ) -> _Written:
        return self._write(Delete(key, expected_revision, must_exist), fence, timeout_s)

    def _write(self, operation: Operation, fence: Fence | None, timeout_s: float | None) -> _Written:
        return _Written(self._txn((), [operation], (), fence, timeout_s).revision)

    def txn(
        self,
        compares: Iterable[CompareOperator] = (),
        then: Iterable[Operation] = (),
        otherwise: Iterable[Operation] = (),
        *,
        fence: Fence | None = None,
        timeout_s: float | None = 5.0,
    ) -> TxnReply:
        """Do `then` if every compare holds; otherwise read the keys of `otherwise`."""
        operations = list(then)
        if not self._promises.multi and not all(is_held_key(_key(one)) for one in operations):
            raise Unsupported("operations: this back end does no multi", capability="multi")
        return self._txn(compares, operations, otherwise, fence, timeout_s)

    def _txn(
        self,
        compares: Iterable[CompareOperator],
        then: Iterable[Operation],
        otherwise: Iterable[Operation],
        fence: Fence | None,
        timeout_s: float | None,
    ) -> TxnReply:
        self._check_open()
        if fence is not None and not self._promises.fencing:
            raise Unsupported("fence: this back end cannot check one with a write", capability="fencing")
        plan, deadline = _Plan(fence), Deadline(timeout_s)
        for number, compare in enumerate(compares):
            plan.compare(compare, number)
        operations, reads = list(then), [_read_key(one, number) for number, one in enumerate(otherwise)]
        for number, operation in enumerate(operations):
            plan.add(operation, number)
        while True:
            commit = self._committed(plan, deadline)
            self._answered_s = now_s()
            if commit.revision:
                return TxnReply(True, [None] * len(operations), commit.revision, commit.revision)
            if plan.judge(commit.found):
                found = [commit.found[key] if key in commit.found else self.get(key) for key in reads]
                return TxnReply(False, list(found), 0, 0)
            if deadline.left_s() == 0:
                raise Withdrawn("others changed the same keys again and again, and the time was over")

    def _committed(self, plan: _Plan, deadline: Deadline) -> Commit:
        writes = list(plan.writes.values())
        try:
            return self.system.commit(plan.checks, writes, deadline)
        except OutcomeUnknown as error:
            try:
                revision = self.system.found_written(writes, Deadline(DEFAULT_TIMEOUT_S))
            except RaftmetaError:
                raise error from None
            if not revision:
                raise
            return Commit(revision)

    # --- leases -------------------------------------------------------------------------------------------------------
    def lease(
        self, ttl_s: float, *, on_lost: Callable[[Any], object] | None = None, timeout_s: float | None = 5.0
    ) -> Lease:
        """A lease that is kept alive from now on. on_lost: called with it once it is not held any more."""
        self._check_open()
        sent_s = now_s()
        id, granted_s = self.system.grant(ttl_s, Deadline(timeout_s))
        lease = Lease(self, id, granted_s, sent_s)
        if not lease.held():
            raise LeaseExpired("the answer to the request for a lease came after the lease's own time")
        with self._lock:
            self._leases.add(lease)
        self._losses.add(cast(Any, lease), partial(self._on_loss, lease, on_lost))
        return lease

    def _on_loss(self, lease: Lease, on_lost: Callable[[Any], object] | None) -> None:
        with self._lock:
            self._leases.discard(lease)
            self._lost += 1
        if on_lost is not None:
            on_lost(lease)

    def forget(self, lease: Lease) -> None:
        """It is not kept alive any more, and nobody is told of its end."""
        self._losses.remove(cast(Any, lease))
        with self._lock:
            self._leases.discard(lease)

    def _beat_on(self) -> None:
        """Renew leases in time, and see whether anybody answers."""
        while True:
            leases = list(self._leases)
            shortest_s = min((lease.ttl_s for lease in leases), default=self.ttl_s)
            if self._is_closed.wait(min(max(shortest_s / TICKS_PER_TTL, TICK_S_MIN), TICK_S_MAX)):
                return
            for lease in leases:
                if not lease.is_asked and now_s() - lease.sent_s >= lease.ttl_s / RENEWALS_PER_TTL and lease.held():
                    lease.is_asked, lease.sent_s = True, now_s()
                    self._renewers.post(partial(self._renew, lease, lease.sent_s))
            if now_s() - max(self._answered_s, self._asked_s) > PROBE_S:
                self._asked_s = now_s()
                self._calls.post(self._probe)
            self.system.beat(self._calls.post)

    def _renew(self, lease: Lease, sent_s: float) -> None:
        try:
            ttl_s = self.system.renew(lease.id, Deadline(lease.ttl_s * RENEW_ATTEMPT))
            self._answered_s = now_s()
            lease.proved(sent_s, ttl_s)
        except RaftmetaError as error:
            if not self._is_closed.is_set():
                _LOG.info("lease not renewed lease=%x reason=%s", lease.id, error)
        finally:
            lease.is_asked = False

    def _probe(self) -> None:
        try:
            self.system.probe(Deadline(PROBE_S))
        except RaftmetaError:
            return
        self._answered_s = now_s()

    # --- watches ------------------------------------------------------------------------------------------------------
    def watch(
        self,
        key: Key | None = None,
        *,
        prefix: Key | None = None,
        start_revision: int,
        callback: Telling,
        on_end: Ending,
        reset: bool = False,
        timeout_s: float | None = None,
    ) -> Watch:
        """Call callback with every change from start_revision on, and with a reset where some are not known."""
        self._check_open()
        where = prefix if key is None else key
        low = where.encode() if isinstance(where, str) else where or b""
        return self.system.watch(low, is_prefix=key is None, start_revision=start_revision, tell=callback, end=on_end)


def _read_key(operation: Operation, number: int) -> bytes:
    if not isinstance(operation, Get):
        raise Unsupported(f"otherwise[{number}]: this back end does Get only")
    return _raw(operation.key, f"otherwise[{number}].key")


# --- watches of systems that show states ------------------------------------------------------------------------------
class Bases:
    """Results of reads, by where and as of which revision: a watch goes on from there."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[bytes, bool, int], tuple[list[KeyRecord], bool]] = OrderedDict()
        self._lock = threading.RLock()

    def keep(self, key: bytes, is_prefix: bool, keys_only: bool, revision: int, records: list[KeyRecord]) -> None:
        with self._lock:
            self._found[key, is_prefix, revision] = records, keys_only
            while len(self._found) > BASES_MAX:
                self._found.popitem(last=False)

    def take(self, key: bytes, is_prefix: bool, revision: int) -> tuple[list[KeyRecord], bool] | None:
        with self._lock:
            return self._found.get((key, is_prefix, revision))


class PolledWatch:
    """Looks at a key or a prefix again and again, and tells what differs, flagged as a gap.

    Between two looks a key may have changed twice, and nobody can tell. So each call is a WatchReset, which the
    recipes show as coalesced. The exception are updates of a user's keys below a prefix: no listener of a key set is
    called for them.
    counts_own: the revision counts changes of these keys alone. So one that has moved is told, also where the state is
    as before.
    look(former revision, keys only): the newest revision and records, when they may have changed, or after a while.
    """

    def __init__(
        self,
        key: bytes,
        *,
        is_prefix: bool,
        base: tuple[int, list[KeyRecord], bool] | None,
        look: Callable[[int, bool], tuple[int, list[KeyRecord]]],
        tell: Telling,
        end: Ending,
        counts_own: bool = False,
    ) -> None:
        self._counts_own = counts_own
        self._shows_updates = not is_prefix or is_held_key(key)
        self._look, self._tell, self._end = look, tell, end
        self._revision, records, self._keys_only = base or (0, [], False)
        self._records = {record.key: record for record in records}
        self._has_base = base is not None
        self._is_closed = Flag()
        self._running = ApartThread(self._run, "raftmeta-watch")

    def start(self) -> Self:
        self._running.start()
        return self

    @property
    def is_closed(self) -> bool:
        return self._is_closed.is_set()

    def pause(self, seconds: float) -> bool:
        """Wait so long; True: it was closed."""
        return self._is_closed.wait(seconds)

    def close(self) -> None:
        self._is_closed.set()

    def _run(self) -> None:
        while not self.is_closed:
            try:
                revision, records = self._look(self._revision if self._has_base else 0, self._keys_only)
            except (NodeClosed, ConfigError) as error:
                self._end(error)
                return
            except RaftmetaError as error:
                if not self.pause(PAUSE_S):
                    _LOG.info("watch looks again reason=%s", error)
                continue
            if not self.is_closed:
                self._compare(revision, {record.key: record for record in records})
        self._end(None)

    def _compare(self, revision: int, now: dict[bytes, KeyRecord]) -> None:
        former, self._records = self._records, now
        has_gap, self._has_base = not self._has_base, True
        changed = [record for key, record in now.items() if key in former and former[key] != record]
        has_other_keys = former.keys() != now.keys()
        has_gap |= self._counts_own and revision > self._revision
        if not (changed or has_other_keys or has_gap):
            self._revision = max(revision, self._revision)
            return
        self._revision = max(revision, self._revision + 1)
        if has_gap or has_other_keys or self._shows_updates:
            self._tell(WatchReset(self._revision, list(now.values())))
        else:
            events = [WatchEvent("put", record, None, self._revision) for record in changed]
            self._tell(WatchBatch(self._revision, 0.0, events, True))


# --- the URL ----------------------------------------------------------------------------------------------------------
class SystemPlugin(ABC):
    """An entry point for URLs of a system."""

    takes_owners = True
    options: frozenset[str]
    """Beside owner and ttl_s."""
    ttl_s = 10.0

    @abstractmethod
    def capabilities(self, url: BackendUrl) -> Capabilities: ...

    @abstractmethod
    def system(self, url: BackendUrl, *, timeout_s: float) -> System:
        """Not connected yet, or within timeout_s seconds."""

    def ttl_of(self, url: BackendUrl) -> float:
        return url.option("ttl_s", seconds, self.ttl_s)

    def open(self, url: BackendUrl, *, timeout_s: float) -> SystemStore:
        url.only(self.options | {"owner", "ttl_s"})
        if not url.addresses:
            raise ConfigError(f"url: {url.scheme}:// needs servers: {url.scheme}://host:port,host:port", field="url")
        owner, ttl_s, deadline = url.options.get("owner"), self.ttl_of(url), Deadline(timeout_s)
        store = SystemStore(self.system(url, timeout_s=timeout_s), self.capabilities(url), owner=owner, ttl_s=ttl_s)
        try:
            store.open(cast(float, deadline.left_s()))
        except BaseException:
            store.close()
            raise
        return store

    async def open_aio(self, url: BackendUrl, *, timeout_s: float) -> AioOverThreads:
        return await AioOverThreads.open(lambda: self.open(url, timeout_s=timeout_s))
