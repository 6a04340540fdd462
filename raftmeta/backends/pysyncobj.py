"""pysyncobj://host:port?partners=host:port,host:port: the four interfaces on PySyncObj, the peer to move from.

Options: partners (of this node; empty: a cluster of one), journal (a file; without it everything is in memory), ttl_s
(of members and candidates, 10).

It keeps fewer promises than raftmeta and says so: nothing is synced to a disk, reads are local and may be stale, time
is the callers' wall clocks, nothing is fenced, and an operation whose outcome is unknown stays so. An argument
that needs such a promise is refused (Unsupported) and not imitated.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, NoReturn, Self, cast

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf

from raftmeta import errors
from raftmeta.backends.pysyncobj_state import Metastore, Place
from raftmeta.backends.threads import AioOverThreads
from raftmeta.backends.url import BackendUrl
from raftmeta.common.apart import ApartThread, start_apart
from raftmeta.common.flags import Flag
from raftmeta.errors import (
    ConfigError,
    NodeClosed,
    NoLeader,
    NotExecuted,
    OutcomeTimeout,
    OutcomeUnknown,
    Overloaded,
    ReadyTimeout,
    Unsupported,
)
from raftmeta.interfaces import (
    Backend,
    Capabilities,
    Data,
    FenceLike,
    GroupChange,
    GroupListener,
    GroupMember,
    GroupMembership,
    Held,
    KeySetChange,
    KeySetListener,
    Leader,
    LeaderChange,
    LeaderElection,
    LeaderListener,
    ListenerRegistry,
    Members,
    State,
    StateListener,
    Storage,
    StorageOperation,
    Stored,
    ValueChange,
    ValueListener,
)
from raftmeta.operations import Create, Delete, Fence, Update
from raftmeta.recipes.face_blocking import BlockingFace
from raftmeta.recipes.listeners import Change, Failures, Listeners
from raftmeta.recipes.states import States

__all__ = ["PLUGIN", "PySyncObjBackend"]

CAPABILITIES = Capabilities(compare_and_set=True, multi=True, ordered_listeners=True)

CALL_TIMEOUT_S = 5.0
RENEWALS_PER_TTL = 5
DRIFT_MARGIN = 0.05  # of the ttl, as raftmeta's own leases
TICK_S = 0.01
BATCH_BYTES = 16 << 20  # PySyncObj 0.3.17 cuts a larger entry in parts, and its followers cannot put them together
DATA_BYTES_MAX = 1 << 20
NO_DATA = b""

_FATES: dict[int, tuple[type[errors.RaftmetaError], str]] = {
    FAIL_REASON.QUEUE_FULL: (Overloaded, "PySyncObj's queue is full"),
    FAIL_REASON.MISSING_LEADER: (NoLeader, "PySyncObj has no leader"),
    FAIL_REASON.DISCARDED: (NotExecuted, "PySyncObj discarded the command"),
    FAIL_REASON.NOT_LEADER: (OutcomeUnknown, "PySyncObj lost its leader before the command was committed"),
    FAIL_REASON.LEADER_CHANGED: (OutcomeUnknown, "PySyncObj changed its leader before the command was committed"),
    FAIL_REASON.REQUEST_DENIED: (NotExecuted, "PySyncObj denied the command"),
    FAIL_REASON.UNKNOWN_OUTCOME: (OutcomeUnknown, "PySyncObj does not know the outcome"),
}


def _raw(data: Data) -> bytes:
    raw = data.encode() if isinstance(data, str) else data
    if len(raw) > DATA_BYTES_MAX:
        raise errors.InvalidArgument(f"data: {len(raw)} bytes, more than {DATA_BYTES_MAX}", field="data")
    return raw


def _no_fence(fence: FenceLike | None) -> None:
    if fence is not None:
        raise Unsupported(
            "fence: PySyncObj cannot check one; leave it out, or use raftmeta's own engine", capability="fencing"
        )


# --- what is held -----------------------------------------------------------------------------------------------------
class _Held(Held):
    """A member or a lead: held as long as this process could renew it in time, by its own clock."""

    def __init__(self, place: Place, sent_s: float, on_lost: Callable[[Held], object] | None) -> None:
        self._place = place
        self._until_s = sent_s + place.ttl_s * (1 - DRIFT_MARGIN)
        self.taken_s = time.monotonic()
        self._on_lost = on_lost
        self._lost = Flag()
        self._ends: list[None] = [None]  # who takes it out ends it

    @property
    def id(self) -> str:
        return self._place.id

    @property
    def data(self) -> bytes:
        return self._place.data

    @property
    def epoch(self) -> int:
        return self._place.epoch

    @property
    def fence(self) -> Fence:
        raise Unsupported("fence: PySyncObj cannot check one", capability="fencing")

    def held(self) -> bool:
        return self.remaining_s() > 0

    def remaining_s(self) -> float:
        return 0.0 if self._lost.is_set() else max(0.0, self._until_s - time.monotonic())

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        return self._lost.wait(timeout_s)

    def renewed(self, sent_s: float) -> None:
        self._until_s = sent_s + self._place.ttl_s * (1 - DRIFT_MARGIN)

    def end(self, *, is_told: bool) -> None:
        """Not held from now on; on_lost is called once, on a thread of its own, unless it was given back."""
        try:
            self._ends.pop()
        except IndexError:
            return
        self._lost.set()
        if is_told and self._on_lost is not None:
            start_apart(partial(self._on_lost, self), "raftmeta-lost")


# --- the four ---------------------------------------------------------------------------------------------------------
class _Part:
    """The four interfaces share one backend and one closing."""

    def __init__(self, backend: PySyncObjBackend) -> None:
        self._backend = backend
        self._is_closed = False

    def init(self, context: Any) -> None:
        raise errors.InvalidArgument("context: this instance was set up by its back end already", field="context")

    def _call(self, command: str, *arguments: Any, timeout_s: float | None = CALL_TIMEOUT_S) -> Any:
        self._check_open()
        return self._backend.call(command, *arguments, timeout_s=timeout_s)

    def _check_open(self) -> None:
        if self._is_closed:
            raise NodeClosed(f"this {type(self).__name__.lstrip('_')} is closed")
        self._backend.check_open()

    def close(self) -> None:
        self.give_back()
        self.end()

    def give_back(self) -> None:
        """Give back one by one what is held through this instance."""

    def end(self) -> None:
        """Nothing is held or told any more."""
        self._is_closed = True

    def look(self, revision: int, coalesced: bool) -> None:
        """Tell the listeners what changed; called on the back end's own thread after each command."""


class _Group(_Part, GroupMembership):
    def __init__(self, backend: PySyncObjBackend, group: str) -> None:
        super().__init__(backend)
        self._group = group
        self._listeners: Listeners[GroupChange] = backend.listeners_of(GroupChange)
        self._told = self.members()
        self._mine: dict[str, _Held] = {}

    @property
    def group(self) -> str:
        return self._group

    def join(
        self,
        id: str,
        data: Data = NO_DATA,
        *,
        on_lost: Callable[[Held], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> Held:
        sent_s = time.monotonic()
        ttl_s = self._backend.ttl_s
        epoch = self._call(
            "join", self._group, id, _raw(data), self._backend.life, ttl_s, time.time(), timeout_s=timeout_s
        )
        held = _Held(Place(id, _raw(data), self._backend.life, epoch, 0.0, ttl_s), sent_s, on_lost)
        self._mine[id] = held
        return held

    def leave(self, id: str, *, timeout_s: float | None = 5.0) -> None:
        self._call("leave", self._group, id, self._backend.life, timeout_s=timeout_s)
        held = self._mine.pop(id, None)
        if held is not None:
            held.end(is_told=False)

    def membership_list(self, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        return frozenset(self.members())

    def membership(self, *, local: bool = False, timeout_s: float | None = 5.0) -> dict[str, bytes]:
        return {id: member.data for id, member in self.members().items()}

    def members(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Members:
        self._check_open()
        places = list(self._backend.state.groups.get(self._group, {}).values())
        revision = self._backend.state.revision
        return Members({place.id: GroupMember(place.id, place.data, place.epoch) for place in places}, revision)

    def add_listener(self, listener: GroupListener, *, timeout_s: float | None = 5.0) -> None:
        self._check_open()
        self._listeners.add(listener)

    def remove_listener(self, listener: GroupListener) -> None:
        self._listeners.remove(listener)

    def look(self, revision: int, coalesced: bool) -> None:
        members = self.members()
        if members != self._told:
            self._told = members
            self._listeners.tell(GroupChange(self._group, members, revision, coalesced))

    def renewed(self, held_ids: set[str], sent_s: float) -> None:
        for id, held in list(self._mine.items()):
            if id in held_ids:
                held.renewed(sent_s)
            elif held.taken_s < sent_s:  # else it joined while this renewal was under way
                self._mine.pop(id, None)
                held.end(is_told=True)

    def give_back(self) -> None:
        for id in list(self._mine):
            with contextlib.suppress(errors.RaftmetaError):  # its time to live ends it then
                self.leave(id)

    def end(self) -> None:
        super().end()
        for held in list(self._mine.values()):
            held.end(is_told=False)
        self._listeners.close()


class _Candidate:
    def __init__(
        self,
        data: bytes,
        on_elected: Callable[[Held], object] | None,
        on_lost: Callable[[Held], object] | None,
        sent_s: float,
    ) -> None:
        self.data = data
        self.on_elected = on_elected
        self.on_lost = on_lost
        self.sent_s = sent_s
        self.nominated_s = float("inf")
        self.leads: dict[int, _Held] = {}  # by epoch
        self.news = Flag()  # of its leads, and that it is withdrawn

    @property
    def lead(self) -> _Held | None:
        """The newest."""
        return self.leads[max(self.leads)] if self.leads else None


class _Election(_Part, LeaderElection):
    def __init__(self, backend: PySyncObjBackend, service: str) -> None:
        super().__init__(backend)
        self._service = service
        self._listeners: Listeners[LeaderChange] = backend.listeners_of(LeaderChange)
        self._told = self.leader()
        self._mine: dict[str, _Candidate] = {}

    @property
    def service(self) -> str:
        return self._service

    def get_leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> str | None:
        leader = self.leader()
        return None if leader is None else leader.id

    def leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Leader | None:
        self._check_open()
        place = self._first()
        return None if place is None else Leader(place.id, place.data, place.epoch)

    def nominate(
        self,
        candidate: str,
        data: Data = NO_DATA,
        *,
        on_elected: Callable[[Held], object] | None = None,
        on_lost: Callable[[Held], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> bool:
        self._check_open()
        if candidate not in self._mine:
            mine = _Candidate(_raw(data), on_elected, on_lost, time.monotonic())
            self._mine[candidate] = mine
            try:
                arguments = (mine.data, self._backend.life, self._backend.ttl_s, time.time())
                self._call("nominate", self._service, candidate, *arguments, timeout_s=timeout_s)
            except BaseException:
                del self._mine[candidate]
                raise
            mine.nominated_s = time.monotonic()
            self._follow()
        return self.lead(candidate) is not None

    def lead(self, candidate: str) -> Held | None:
        mine = self._mine.get(candidate)
        return mine.lead if mine is not None and mine.lead is not None and mine.lead.held() else None

    def terms(self, candidate: str, data: Data = NO_DATA) -> Iterator[Held]:
        self.nominate(candidate, data)
        try:
            while (lead := self._next_lead(candidate)) is not None:
                yield lead
                lead.wait_lost()
        finally:
            if not self._is_closed:
                self.withdraw(candidate)

    def _next_lead(self, candidate: str) -> Held | None:
        while (mine := self._mine.get(candidate)) is not None and not self._is_closed:
            mine.news.clear()
            if (lead := self.lead(candidate)) is not None:
                return lead
            if self._mine.get(candidate) is mine and not self._is_closed:
                mine.news.wait()
        return None

    def resign(self, leader: str, *, timeout_s: float | None = 5.0) -> None:
        first = self._first()
        if first is not None and (first.id, first.life) == (leader, self._backend.life):
            self.withdraw(leader, timeout_s=timeout_s)

    def withdraw(self, candidate: str, *, timeout_s: float | None = 5.0) -> None:
        mine = self._mine.pop(candidate, None)
        if mine is None:
            return
        if mine.lead is not None:
            mine.lead.end(is_told=False)
        mine.news.set()
        self._call("resign", self._service, candidate, self._backend.life, timeout_s=timeout_s)

    def add_listener(self, listener: LeaderListener, *, timeout_s: float | None = 5.0) -> None:
        self._check_open()
        self._listeners.add(listener)

    def remove_listener(self, listener: LeaderListener) -> None:
        self._listeners.remove(listener)

    def look(self, revision: int, coalesced: bool) -> None:
        self._follow()
        leader = self.leader()
        if leader != self._told:
            self._told = leader
            self._listeners.tell(LeaderChange(self._service, leader, revision, coalesced))

    def renewed(self, held_ids: set[str], sent_s: float) -> None:
        for id, mine in list(self._mine.items()):
            if id in held_ids:
                mine.sent_s = sent_s
                if mine.lead is not None:
                    mine.lead.renewed(sent_s)
            elif mine.nominated_s < sent_s:  # else it was nominated while this renewal was under way
                mine.sent_s = sent_s
                self._lost(id, mine)
        self._follow()
        for mine in list(self._mine.values()):
            mine.news.set()  # a lead that came late, and was not held then, is held now

    def _lost(self, id: str, mine: _Candidate) -> None:
        """Others think that this process is gone: its candidate begins anew, behind them."""
        if mine.lead is not None:
            mine.lead.end(is_told=True)
        with contextlib.suppress(errors.RaftmetaError):  # tried again with the next renewal
            self._call("nominate", self._service, id, mine.data, self._backend.life, self._backend.ttl_s, time.time())

    def _first(self) -> Place | None:
        return next(iter(self._backend.state.services.get(self._service, [])), None)

    def _follow(self) -> None:
        """Give the lead to a candidate of this instance that was elected."""
        first = self._first()
        mine = self._mine.get(first.id) if first is not None and first.life == self._backend.life else None
        if first is None or mine is None or first.epoch in mine.leads:
            return
        lead = _Held(first, mine.sent_s, mine.on_lost)
        if mine.leads.setdefault(first.epoch, lead) is not lead:
            return  # another thread has seen it, too
        mine.news.set()
        if mine.on_elected is not None:
            start_apart(partial(mine.on_elected, lead), "raftmeta-elected")

    def give_back(self) -> None:
        for candidate in list(self._mine):
            with contextlib.suppress(errors.RaftmetaError):
                self.withdraw(candidate)

    def end(self) -> None:
        super().end()
        for mine in list(self._mine.values()):
            if mine.lead is not None:
                mine.lead.end(is_told=False)
            mine.news.set()
        self._listeners.close()


class _Storage(_Part, Storage):
    def fetch(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Future[bytes | None]:
        future: Future[bytes | None] = Future()
        stored = self.get(key)
        future.set_result(None if stored is None else stored.data)
        return future

    def get(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Stored | None:
        self._check_open()
        found = self._backend.state.keys.get(key)
        return None if found is None else Stored(*found)

    def put(self, key: str, data: Data, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0) -> int:
        return self.multi([Create(key, data)], fence=fence, timeout_s=timeout_s)

    def update(
        self,
        key: str,
        data: Data,
        *,
        expected_revision: int = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> int:
        return self.multi([Update(key, data, expected_revision=expected_revision)], fence=fence, timeout_s=timeout_s)

    def delete(
        self, key: str, *, expected_revision: int = 0, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> None:
        self.multi(
            [Delete(key, expected_revision=expected_revision, must_exist=True)], fence=fence, timeout_s=timeout_s
        )

    def children(self, namespace: str, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        self._check_open()
        return frozenset(key for key in self._backend.state.keys if key.startswith(namespace))

    def multi(
        self, operations: Sequence[StorageOperation], *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> int:
        _no_fence(fence)
        return int(self._call("multi", [_step(operation) for operation in operations], timeout_s=timeout_s))


def _step(operation: StorageOperation) -> tuple[str, str, bytes, int]:
    key = operation.key if isinstance(operation.key, str) else operation.key.decode()
    if isinstance(operation, Delete):
        return ("delete", key, NO_DATA, operation.expected_revision)
    if operation.value is None:
        raise errors.InvalidArgument("value: must be bytes or str", field="value")
    expected = operation.expected_revision if isinstance(operation, Update) else 0
    return ("create" if isinstance(operation, Create) else "update", key, _raw(operation.value), expected)


class _Registry(_Part, ListenerRegistry):
    def __init__(self, backend: PySyncObjBackend) -> None:
        super().__init__(backend)
        self._values: dict[str, Listeners[ValueChange]] = {}
        self._key_sets: dict[str, Listeners[KeySetChange]] = {}
        self._told = backend.state.keys

    def add_value_change_listener(self, key: str, listener: ValueListener) -> None:
        self._check_open()
        self._values.setdefault(key, self._backend.listeners_of(ValueChange)).add(listener)

    def remove_value_change_listener(self, key: str, listener: ValueListener) -> None:
        if key in self._values:
            self._values[key].remove(listener)

    def add_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        self._check_open()
        self._key_sets.setdefault(namespace, self._backend.listeners_of(KeySetChange)).add(listener)

    def remove_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        if namespace in self._key_sets:
            self._key_sets[namespace].remove(listener)

    def look(self, revision: int, coalesced: bool) -> None:
        before, self._told = self._told, self._backend.state.keys
        now = self._told
        for key, listeners in list(self._values.items()):
            if now.get(key) != before.get(key):
                value = now[key][0] if key in now else None
                listeners.tell(ValueChange(key, value, revision, coalesced))
        for namespace, listening in list(self._key_sets.items()):
            keys = frozenset(key for key in now if key.startswith(namespace))
            former = frozenset(key for key in before if key.startswith(namespace))
            if keys != former:
                listening.tell(
                    KeySetChange(namespace, keys, revision, coalesced, added=keys - former, removed=former - keys)
                )

    def end(self) -> None:
        super().end()
        for told in self._values.values():
            told.close()
        for listening in self._key_sets.values():
            listening.close()


# --- what hands them out ----------------------------------------------------------------------------------------------
class PySyncObjBackend(Backend):
    """One node of a PySyncObj cluster, with the four interfaces on it."""

    def __init__(self, address: str, partners: list[str], *, journal: str | None, ttl_s: float) -> None:
        self.life = uuid.uuid4().hex
        self.ttl_s = ttl_s
        self._is_closed = Flag()
        self._groups: dict[str, _Group] = {}
        self._elections: dict[str, _Election] = {}
        self._looked_at = 0
        self._face = BlockingFace(cast(Any, self))
        self._failures = Failures()
        self.state = Metastore(self._look)
        self._storage = _Storage(self)
        self._listeners = _Registry(self)
        self._cluster: Future[SyncObj] = Future()
        self._states = States(self._face, lambda: (self._look_at_state(), 0))
        self._settings = SyncObjConf(
            autoTickPeriod=TICK_S,
            appendEntriesPeriod=TICK_S,
            appendEntriesBatchSizeBytes=BATCH_BYTES,
            journalFile=journal,
            fullDumpFile=None if journal is None else f"{journal}.dump",
            dynamicMembershipChange=False,
            useFork=False,
            commandsWaitLeader=False,
        )
        self._running = ApartThread(partial(self._run, address, partners), "raftmeta-pysyncobj")
        self._running.start()
        self._cluster.result()

    @property
    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def ready(self, timeout_s: float) -> None:
        """Wait until PySyncObj has a leader and is ready. Raises ReadyTimeout."""
        end_s = time.monotonic() + timeout_s
        while not self._cluster.result().isReady():
            if self._is_closed.wait(TICK_S) or time.monotonic() > end_s:
                raise ReadyTimeout(f"PySyncObj was not ready within {timeout_s:g} s: is a majority of its nodes up?")

    def group(self, name: str) -> _Group:
        self.check_open()
        return self._groups.get(name) or self._groups.setdefault(name, _Group(self, name))

    def election(self, service: str) -> _Election:
        self.check_open()
        return self._elections.get(service) or self._elections.setdefault(service, _Election(self, service))

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def listeners(self) -> ListenerRegistry:
        return self._listeners

    def close(self) -> None:
        if self._is_closed.is_set():
            return
        with contextlib.suppress(errors.RaftmetaError):  # without a majority the times to live end it
            self.call("end", self.life)
        for part in self._parts():
            part.end()
        self._is_closed.set()
        self._states.close()
        self._running.wait(CALL_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- for the parts ------------------------------------------------------------------------------------------------
    def listeners_of(self, kind: type[Change]) -> Listeners[Change]:
        """Listeners of one group, service, key or namespace; all of this back end share threads."""
        return Listeners(self._face, self._failures, kind)

    def check_open(self) -> None:
        if self._is_closed.is_set():
            raise NodeClosed("this back end is closed")

    @property
    def cluster_state(self) -> State:
        """Whether the cluster can be asked, as this node knows."""
        return self._look_at_state()

    def add_state_listener(self, listener: StateListener) -> None:
        """Call listener with each new state from now on, until it is removed."""
        self._states.add(listener)

    def remove_state_listener(self, listener: StateListener) -> None:
        """Stop calling listener; one that was not added is ignored."""
        self._states.remove(listener)

    def _look_at_state(self) -> State:
        if self._is_closed.is_set():
            return State.LOST
        has_leader = self._cluster.done() and self._cluster.result().isReady()
        return State.CONNECTED if has_leader else State.SUSPENDED

    def call(self, command: str, *arguments: Any, timeout_s: float | None = CALL_TIMEOUT_S) -> Any:
        """Replicate a command and return its result, or raise what it was refused with."""
        done: Future[tuple[Any, int]] = Future()
        try:
            self.state.apply(command, *arguments, callback=lambda outcome, failed: done.set_result((outcome, failed)))
        except AttributeError:
            self.check_open()  # closed meanwhile, PySyncObj has none of its own any more
            raise
        try:
            outcome, failed = done.result(timeout_s)
        except TimeoutError:
            raise OutcomeTimeout(f"PySyncObj did not answer within {timeout_s:g} s") from None
        if failed:
            _raise_fate(failed)
        name, value = outcome
        if name != "ok":
            raise getattr(errors, name)(value)
        return value

    def _parts(self) -> list[_Part]:
        return [*self._groups.values(), *self._elections.values(), self._storage, self._listeners]

    def _look(self) -> None:
        """After a command was applied, on PySyncObj's thread."""
        revision = self.state.revision
        coalesced = revision > self._looked_at + 1
        self._looked_at = revision
        for part in self._parts():
            with contextlib.suppress(NodeClosed):
                part.look(revision, coalesced)

    def _run(self, address: str, partners: list[str]) -> None:
        """PySyncObj ends without a word when the thread that made it ends: so this one does, and stays."""
        try:
            cluster = SyncObj(address, partners, conf=self._settings, consumers=[self.state])
        except Exception as error:
            self._cluster.set_exception(
                ConfigError(f"url: PySyncObj does not start at {address}: {error}", field="url")
            )
            return
        self._cluster.set_result(cluster)
        self._renew_on()
        cluster.destroy_synchronous()

    def _renew_on(self) -> None:
        while not self._is_closed.wait(self.ttl_s / RENEWALS_PER_TTL):
            sent_s = time.monotonic()
            try:
                held = self.call("renew", self.life, time.time())
            except errors.RaftmetaError:
                continue  # held() runs out by itself
            for group in list(self._groups.values()):
                group.renewed(_ids(held, "group", group.group), sent_s)
            for election in list(self._elections.values()):
                election.renewed(_ids(held, "service", election.service), sent_s)


def _ids(held: list[tuple[str, str, str]], kind: str, name: str) -> set[str]:
    return {id for its_kind, its_name, id in held if (its_kind, its_name) == (kind, name)}


def _raise_fate(reason: int) -> NoReturn:
    error, message = _FATES.get(reason, (OutcomeUnknown, f"PySyncObj failed with reason {reason}"))
    raise error(message)


class _Plugin:
    def capabilities(self, url: BackendUrl) -> Capabilities:
        return CAPABILITIES

    def open(self, url: BackendUrl, *, timeout_s: float) -> PySyncObjBackend:
        url.only({"partners", "journal", "ttl_s"})
        if len(url.addresses) != 1:
            raise ConfigError("url: pysyncobj:// needs this node's own host:port, and partners=", field="url")
        partners = [address for address in url.options.get("partners", "").split(",") if address]
        backend = PySyncObjBackend(
            url.addresses[0], partners, journal=url.options.get("journal"), ttl_s=url.option("ttl_s", float, 10.0)
        )
        try:
            backend.ready(timeout_s)
        except BaseException:
            backend.close()
            raise
        return backend

    async def open_aio(self, url: BackendUrl, *, timeout_s: float) -> AioOverThreads:
        return await AioOverThreads.open(lambda: self.open(url, timeout_s=timeout_s))


PLUGIN = _Plugin()
