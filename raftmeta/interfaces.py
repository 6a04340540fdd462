"""The four interfaces of KIP-30, as every back end of raftmeta offers them, with their contracts.

    GroupMembership     who is here: join, leave, the members and their data, told on every change
    LeaderElection      who leads: nominate, resign, the leader with its epoch, told on every change
    Storage             a persistent key-value storage: fetch, put, update, and what Kafka needs beyond
    ListenerRegistry    told when a value or a set of keys changes

Each has an asyncio twin with the same names (Aio...). A back end is an object that hands them out (Backend, AioBackend)
and declares by Capabilities which promises it keeps; whoever needs one asks for it at the start and gets a ConfigError
then, not a surprise later. This module decides what the contracts are; it never talks to anybody. raftmeta's own
implementation is raftmeta/recipes, and docs/kip30.md tells where each line of the contracts is fulfilled and tested.

Words. *held*: a member, a lead or a lock is held by a lease; it is lost when the lease cannot be kept alive, when its
owner joined anew elsewhere, or when it was given back. *epoch*: of a member or a lead; a number that only grows for one
group or service, from one holder to the next. *fence*: a write that carries it is refused (Fenced) once its holder has
lost what it held; that alone protects a holder that was paused between asking held() and writing.

Time. Every call that asks the cluster takes timeout_s, seconds for the whole call; None waits for ever. A read with
local=True waits for no quorum: it tells what is known here, which may be old. A node looks at its own state, a client
at the mirror of a group or service that it follows, else at the state of the node that serves it. Members.revision and
Leader.revision say how old it is. A read that nobody answered in time is Withdrawn.

Errors are those of raftmeta/errors.py for every back end. Any call may raise NotExecuted (certainly not applied),
OutcomeUnknown (may be applied) or Fatal besides the ones its docstring names; a call on a closed object NodeClosed.

Listeners are callables that take one change. A back end calls each listener in order, never two calls of one listener
at a time, on no thread of its caller, and without holding a lock. One that throws is logged and counted, one that is
slow delays nobody else. Either every revision is told in order or, after a gap, one call whose `coalesced` is true and
which carries the whole new state. A back end may make one such call of those that wait for a slow listener.
Every change after add_..._listener returned is told, and perhaps one that this process had not seen by then; after
remove_... returned no further call begins, also when a listener removes itself. On asyncio a listener may be a
coroutine function. A listener may also be an object with the method of the KIP's listener interface, which gets
what the KIP says: on_group_change or onGroupChange the ids, on_leader_change or onLeaderChange the id or None,
value_changed or valueChanged the value or None, key_set_changed or keySetChanged the keys. Anything else is refused.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from enum import Enum
from typing import Any, Protocol, TypeAlias

from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.operations import Create, Delete, Fence, Update

__all__ = [
    "AioBackend",
    "AioGroupMembership",
    "AioHeld",
    "AioLeaderElection",
    "AioListenerRegistry",
    "AioStorage",
    "Backend",
    "Capabilities",
    "Data",
    "FenceLike",
    "GroupChange",
    "GroupChangeListener",
    "GroupListener",
    "GroupMember",
    "GroupMembership",
    "HasFence",
    "Held",
    "HeldBase",
    "KeySetChange",
    "KeySetChangeListener",
    "KeySetListener",
    "Leader",
    "LeaderChange",
    "LeaderChangeListener",
    "LeaderElection",
    "LeaderListener",
    "ListenerRegistry",
    "Members",
    "Owner",
    "State",
    "StateChangeHandler",
    "StateListener",
    "Storage",
    "StorageOperation",
    "Stored",
    "ValueChange",
    "ValueChangeListener",
    "ValueListener",
    "checked_callback",
    "listener_call",
]

Data: TypeAlias = bytes | str
"""Data to be stored: bytes, or str for its UTF-8. Always read back as bytes."""

StorageOperation: TypeAlias = Create | Update | Delete
"""One step of Storage.multi; keys and values as in raftmeta/operations.py, without leases."""


class HasFence(Protocol):
    """Something that is held: a lead, a member, a lock."""

    @property
    def fence(self) -> Fence: ...


FenceLike: TypeAlias = Fence | HasFence


@dataclass(frozen=True, slots=True)
class Owner:
    """The holder of something, over crashes. raftmeta.Node: its name, the incarnation of its folder, its boot number.

    A client that gives itself a name has a random incarnation for each of its lives. The name promises that there is
    only one. If two live at the same time, the one that nominates or joins later takes the place, and the other
    one is not nominated again by itself.
    """

    name: str
    incarnation: int
    boot: int

    def succeeds(self, other: Owner) -> bool:
        """Whether this is a later life of the same owner, so that the other one has ended or is to be fenced."""
        return self.name == other.name and (self.incarnation != other.incarnation or self.boot > other.boot)


# --- what a back end promises ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Promises of a back end beyond the bare methods: declared, checked at start-up, proven by the conformance suite.

    fencing: `fence=` is checked by the store with the write, in one step.
    epochs: the epochs of a group or service only grow, over crashes of every process too.
    immediate_rejoin: an owner that comes back after its own crash takes its place at once, and fences its old life.
    lost_in_time: whoever holds something is told of its loss before another can have it.
    ordered_listeners: listeners are told every revision in order, or one coalesced call; never silently less.
    resumable_watches: a break of the connection or a change of the server leads to no coalesced call by itself.
    compare_and_set: `expected_revision=` of Storage.update and delete.
    multi: Storage.multi, all or nothing.
    linearizable_reads: a read sees every write that was answered anywhere before it began.
    durable: what was answered survives the crash of every process at once.
    exactly_once: a call whose outcome is unknown can be gone on with, and is applied at most once.
    group_coordination: worker groups, by `groups` and `lease` as raftmeta.Node has them. A generation has one leader,
        and the store checks the fences of generations and assignments with the write.
    ttl_precision_s: how many seconds after its time to live a silent holder is removed at the latest, while a majority
        is up; infinite: not promised.
    """

    fencing: bool = False
    epochs: bool = False
    immediate_rejoin: bool = False
    lost_in_time: bool = False
    ordered_listeners: bool = False
    resumable_watches: bool = False
    compare_and_set: bool = False
    multi: bool = False
    linearizable_reads: bool = False
    durable: bool = False
    exactly_once: bool = False
    group_coordination: bool = False
    ttl_precision_s: float = float("inf")

    def missing(self, needed: Capabilities) -> tuple[str, ...]:
        """The names of what is needed and not promised here, in the order of the fields."""
        return tuple(field.name for field in fields(self) if not _covers(self, needed, field.name))

    def require(self, needed: Capabilities) -> None:
        """Raise ConfigError that names everything which is needed and not promised here."""
        missing = self.missing(needed)
        if missing:
            raise ConfigError(
                f"capabilities: this back end does not promise {', '.join(missing)}; choose another one, or do without",
                field="capabilities",
            )


def _covers(offered: Capabilities, needed: Capabilities, name: str) -> bool:
    have, want = getattr(offered, name), getattr(needed, name)
    return bool(have <= want) if name == "ttl_precision_s" else bool(have or not want)


# --- what is told ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member as everybody sees it. epoch: grows with each joining of the group."""

    id: str
    data: bytes
    epoch: int


class Members(dict[str, GroupMember]):
    """The members of a group by id, as of one revision."""

    def __init__(self, members: Mapping[str, GroupMember], revision: int) -> None:
        super().__init__(members)
        self.revision = revision


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a service as everybody sees it. epoch: grows from leader to leader. revision: it led as of this."""

    id: str
    data: bytes
    epoch: int
    revision: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class GroupChange:
    """The new full set of members. A member that joined anew, or changed its data, changes the group too.

    revision: of the change. coalesced: revisions in between were not told one by one.
    """

    group: str
    members: Mapping[str, GroupMember]
    revision: int
    coalesced: bool

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all members: what KIP-30 onGroupChange gets."""
        return frozenset(self.members)


@dataclass(frozen=True, slots=True)
class LeaderChange:
    """The new leader, None when the service has none. revision, coalesced: as in GroupChange."""

    service: str
    leader: Leader | None
    revision: int
    coalesced: bool

    @property
    def id(self) -> str | None:
        """The id of the leader: what KIP-30 onLeaderChange gets."""
        return None if self.leader is None else self.leader.id


@dataclass(frozen=True, slots=True)
class ValueChange:
    """The new value of a key, None when it was deleted. revision, coalesced: as in GroupChange."""

    key: str
    value: bytes | None
    revision: int
    coalesced: bool


@dataclass(frozen=True, slots=True)
class KeySetChange:
    """The new full set of the keys that begin with namespace. revision, coalesced: as in GroupChange.

    keys: never changes; it may be a view that is made when it is looked at, which frozenset() copies.
    added, removed: what makes these keys of the keys of the call before, or of those when the listener was added.
    """

    namespace: str
    keys: Set[str]
    revision: int
    coalesced: bool
    added: frozenset[str] = frozenset()
    removed: frozenset[str] = frozenset()


class GroupChangeListener(Protocol):
    """An object that is told as KIP-30 GroupChangeListener is; onGroupChange will do as well."""

    def on_group_change(self, membership: frozenset[str], /) -> object: ...


class LeaderChangeListener(Protocol):
    """An object that is told as KIP-30 LeaderChangeListener is; onLeaderChange will do as well."""

    def on_leader_change(self, leader: str | None, /) -> object: ...


class ValueChangeListener(Protocol):
    """An object that is told as KIP-30 ValueChangeListener is; valueChanged will do as well."""

    def value_changed(self, new_value: bytes | None, /) -> object: ...


class KeySetChangeListener(Protocol):
    """An object that is told as KIP-30 KeySetChangeListener is; keySetChanged will do as well."""

    def key_set_changed(self, new_key_set: Set[str], /) -> object: ...


GroupListener: TypeAlias = Callable[[GroupChange], object] | GroupChangeListener
LeaderListener: TypeAlias = Callable[[LeaderChange], object] | LeaderChangeListener
ValueListener: TypeAlias = Callable[[ValueChange], object] | ValueChangeListener
KeySetListener: TypeAlias = Callable[[KeySetChange], object] | KeySetChangeListener


@dataclass(frozen=True, slots=True)
class Stored:
    """The data of a key. revision: changes with every write to it; what expected_revision is compared with."""

    data: bytes
    revision: int


class State(Enum):
    """Whether the cluster can be asked. A string, for logs: its value."""

    CONNECTED = "connected"  # a leader is known, and this process has a session
    SUSPENDED = "suspended"  # nobody answers; what is held is still held until its lease ends
    LOST = "lost"  # the session ended, or the node: calls under way have unknown outcomes, and holds may be gone


class StateChangeHandler(Protocol):
    """An object that is told of states, as KIP-273 StateChangeHandler is; onStateChange will do as well."""

    def on_state_change(self, state: State, /) -> object: ...


StateListener: TypeAlias = Callable[[State], object] | StateChangeHandler


# For each kind of change: the KIP's method in both spellings, and what it gets.
_KIP_METHODS: dict[type[Any], tuple[tuple[str, str], str]] = {
    GroupChange: (("on_group_change", "onGroupChange"), "ids"),
    LeaderChange: (("on_leader_change", "onLeaderChange"), "id"),
    ValueChange: (("value_changed", "valueChanged"), "value"),
    KeySetChange: (("key_set_changed", "keySetChanged"), "keys"),
    State: (("on_state_change", "onStateChange"), ""),
}


def listener_call(kind: type[Any], listener: object) -> Callable[[Any], object]:
    """Return a function that tells listener a change of this kind; for back ends. Raises InvalidArgument."""
    names, told = _KIP_METHODS[kind]
    for name in names:
        method = getattr(listener, name, None)
        if callable(method) and not isinstance(listener, type):
            return _telling(method, told)
    return checked_callback(listener, "listener", f"with one {kind.__name__}, or an object with a method {names[0]}")


def _telling(method: Callable[[Any], object], told: str) -> Callable[[Any], object]:
    return (lambda change: method(getattr(change, told))) if told else method


def checked_callback(callback: Any, field: str, how: str = "with one argument") -> Callable[[Any], object]:
    """callback itself, if it can be called; for back ends. Raises InvalidArgument."""
    if not callable(callback):
        raise InvalidArgument(f"{field}: must be callable {how}, not {callback!r}", field=field)
    return callback  # type: ignore[no-any-return]


# --- what is held ---------------------------------------------------------------------------------------------------


class HeldBase(ABC):
    """A place in a group, a lead, a lock, as its holder has it. The same on both faces but for waiting."""

    @property
    @abstractmethod
    def id(self) -> str:
        """Of the member, the candidate, or the holder of a lock."""

    @property
    @abstractmethod
    def data(self) -> bytes:
        """The data it was taken with."""

    @property
    @abstractmethod
    def epoch(self) -> int:
        """Grows from holder to holder."""

    @property
    @abstractmethod
    def fence(self) -> Fence:
        """For `fence=` of any write: refused as Fenced once this is lost. The object itself may be given as well.

        Raises Unsupported where the back end has no fencing.
        """

    @abstractmethod
    def held(self) -> bool:
        """Whether it is certainly held now, by this process's own clock; asks nobody.

        It turns false before anybody else can have it (Capabilities.lost_in_time), with a margin for clocks that
        drift. Between the answer and what you do next this process may be paused: only a fence protects that.
        """

    @abstractmethod
    def remaining_s(self) -> float:
        """Seconds for which it is certainly held without any further news."""


class Held(HeldBase):
    """Something that is held, for callers that may block."""

    @abstractmethod
    def wait_lost(self, timeout_s: float | None = None) -> bool:
        """Wait until it is not held any more; False: timeout_s seconds passed (None: wait for ever)."""


class AioHeld(HeldBase):
    """Something that is held, on asyncio."""

    @abstractmethod
    async def wait_lost(self, timeout_s: float | None = None) -> bool:
        """As Held.wait_lost."""


# --- the four interfaces --------------------------------------------------------------------------------------------


class GroupMembership(ABC):
    """KIP-30 Group Membership: being a member of one group, and observing it. Observing needs no joining."""

    @property
    @abstractmethod
    def group(self) -> str:
        """The name of the group; one instance is for one group and never changes it."""

    @abstractmethod
    def init(self, context: Any) -> None:
        """Set up on a context of the back end (raftmeta: a Node or Client). Once, before any other call."""

    @abstractmethod
    def join(
        self,
        id: str,
        data: Data = b"",
        *,
        on_lost: Callable[[Held], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> Held:
        """Become a member; it lasts until leave, close, or the loss of its lease.

        on_lost: called once when the membership is lost, not when it was left; the member has to join anew.
        An owner that joins after its own crash takes its old place at once, and its old life is fenced.
        Raises IdConflict: somebody else is a member by this id, or this owner is already, in this life.
        """

    @abstractmethod
    def leave(self, id: str, *, timeout_s: float | None = 5.0) -> None:
        """Stop being a member. Idempotent; an id that is not a member here is ignored."""

    @abstractmethod
    def membership_list(self, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        """The ids of all members."""

    @abstractmethod
    def membership(self, *, local: bool = False, timeout_s: float | None = 5.0) -> dict[str, bytes]:
        """The ids of all members and their data."""

    @abstractmethod
    def members(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Members:
        """All members with data and epoch."""

    @abstractmethod
    def add_listener(self, listener: GroupListener, *, timeout_s: float | None = 5.0) -> None:
        """Call listener for every change from now on, until it is removed. Adding it twice calls it once."""

    @abstractmethod
    def remove_listener(self, listener: GroupListener) -> None:
        """Stop calling listener; one that was not added is ignored."""

    @abstractmethod
    def close(self) -> None:
        """Leave with every id that joined here, stop the listeners, free everything. Idempotent."""


class LeaderElection(ABC):
    """KIP-30 Leader Election: running for the lead of one service, and observing who has it."""

    @property
    @abstractmethod
    def service(self) -> str:
        """The name of the service; one instance is for one service and never changes it."""

    @abstractmethod
    def init(self, context: Any) -> None:
        """As GroupMembership.init."""

    @abstractmethod
    def get_leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> str | None:
        """The id of the leader, None when the service has none."""

    @abstractmethod
    def leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Leader | None:
        """The leader with data and epoch."""

    @abstractmethod
    def nominate(
        self,
        candidate: str,
        data: Data = b"",
        *,
        on_elected: Callable[[Held], object] | None = None,
        on_lost: Callable[[Held], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> bool:
        """Make candidate eligible until it resigns; True: it is the leader now.

        Candidates are elected in the order of their nominations. One whose lease was lost is nominated anew, behind
        the others. A candidate that is eligible here already stays so, and its place is told.
        on_elected, on_lost: called with the lead each time it is won and lost, in this order; on_lost comes before
        anybody else can lead (Capabilities.lost_in_time), and also for a lead that was resigned elsewhere.
        Raises IdConflict: somebody else is a candidate by this id.
        """

    @abstractmethod
    def lead(self, candidate: str) -> Held | None:
        """The lead that a candidate of this instance holds now, for its fence and epoch; None when it does not lead."""

    @abstractmethod
    def terms(self, candidate: str, data: Data = b"") -> Iterator[Held]:
        """Nominate candidate and give each lead that it wins: `for lead in ...terms("a"): while lead.held(): ...`

        The next one is waited for after the last is lost. The iterator ends when the candidate resigned or withdrew,
        or the instance was closed. Leaving the loop withdraws. Raises what nominate raises.
        """

    @abstractmethod
    def resign(self, leader: str, *, timeout_s: float | None = 5.0) -> None:
        """Give the lead back, and be no candidate any more until nominated again. The next candidate leads at once.

        Ignored for anybody who is not the leader, or is no candidate of this instance: one who waits stays eligible
        (withdraw ends that). Stop acting as the leader before you call it.
        """

    @abstractmethod
    def withdraw(self, candidate: str, *, timeout_s: float | None = 5.0) -> None:
        """Be no candidate any more until nominated again, leading or not. A leader gives the lead back, as in resign.

        Ignored for anybody who is no candidate of this instance.
        """

    @abstractmethod
    def add_listener(self, listener: LeaderListener, *, timeout_s: float | None = 5.0) -> None:
        """As GroupMembership.add_listener; called when the leader, its epoch or its data changed."""

    @abstractmethod
    def remove_listener(self, listener: LeaderListener) -> None:
        """As GroupMembership.remove_listener."""

    @abstractmethod
    def close(self) -> None:
        """Resign every candidate of this instance, stop the listeners, free everything. Idempotent."""


class Storage(ABC):
    """KIP-30 Storage, and what Kafka needs beyond it. Keys are str."""

    @abstractmethod
    def init(self, context: Any) -> None:
        """As GroupMembership.init."""

    @abstractmethod
    def fetch(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Future[bytes | None]:
        """The data of a key, None without one, as a future: the call does not wait."""

    @abstractmethod
    def get(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Stored | None:
        """The data of a key with its revision, None without one."""

    @abstractmethod
    def put(self, key: str, data: Data, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0) -> int:
        """Store data under a key that does not exist, and return its revision. Raises KeyExists, Fenced."""

    @abstractmethod
    def update(
        self,
        key: str,
        data: Data,
        *,
        expected_revision: int = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> int:
        """Replace the data of a key that exists, and return its new revision.

        expected_revision: that it must have, 0: any. Raises KeyMissing, CompareFailed, Fenced.
        """

    @abstractmethod
    def delete(
        self, key: str, *, expected_revision: int = 0, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> None:
        """Remove a key that exists. expected_revision: as in update. Raises KeyMissing, CompareFailed, Fenced."""

    @abstractmethod
    def children(self, namespace: str, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        """The keys that begin with namespace, whole."""

    @abstractmethod
    def multi(
        self, operations: Sequence[StorageOperation], *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> int:
        """Do all of the operations, or none of them, and return the one revision of all that changed.

        Raises KeyExists, KeyMissing, CompareFailed, Fenced: nothing was changed. Unsupported without that capability.
        """

    @abstractmethod
    def close(self) -> None:
        """Free everything. Idempotent."""


class ListenerRegistry(ABC):
    """KIP-30 Listener Registry: told when a value or a set of keys changes."""

    @abstractmethod
    def init(self, context: Any) -> None:
        """As GroupMembership.init."""

    @abstractmethod
    def add_value_change_listener(self, key: str, listener: ValueListener) -> None:
        """Call listener whenever the key is put, updated or deleted. As GroupMembership.add_listener."""

    @abstractmethod
    def remove_value_change_listener(self, key: str, listener: ValueListener) -> None:
        """As GroupMembership.remove_listener."""

    @abstractmethod
    def add_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        """Call listener whenever a key that begins with namespace appears or vanishes; "" is every key."""

    @abstractmethod
    def remove_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None:
        """As GroupMembership.remove_listener."""

    @abstractmethod
    def close(self) -> None:
        """Stop all listeners and free everything. Idempotent."""


# --- the same on asyncio --------------------------------------------------------------------------------------------


class AioGroupMembership(ABC):
    """GroupMembership on asyncio: the same contract, call by call."""

    @property
    @abstractmethod
    def group(self) -> str: ...
    @abstractmethod
    async def init(self, context: Any) -> None: ...
    @abstractmethod
    async def join(
        self,
        id: str,
        data: Data = b"",
        *,
        on_lost: Callable[[AioHeld], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> AioHeld: ...
    @abstractmethod
    async def leave(self, id: str, *, timeout_s: float | None = 5.0) -> None: ...
    @abstractmethod
    async def membership_list(self, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]: ...
    @abstractmethod
    async def membership(self, *, local: bool = False, timeout_s: float | None = 5.0) -> dict[str, bytes]: ...
    @abstractmethod
    async def members(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Members: ...
    @abstractmethod
    async def add_listener(self, listener: GroupListener, *, timeout_s: float | None = 5.0) -> None: ...
    @abstractmethod
    async def remove_listener(self, listener: GroupListener) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...


class AioLeaderElection(ABC):
    """LeaderElection on asyncio: the same contract, call by call."""

    @property
    @abstractmethod
    def service(self) -> str: ...
    @abstractmethod
    async def init(self, context: Any) -> None: ...
    @abstractmethod
    async def get_leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> str | None: ...
    @abstractmethod
    async def leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Leader | None: ...
    @abstractmethod
    async def nominate(
        self,
        candidate: str,
        data: Data = b"",
        *,
        on_elected: Callable[[AioHeld], object] | None = None,
        on_lost: Callable[[AioHeld], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> bool: ...
    @abstractmethod
    def lead(self, candidate: str) -> AioHeld | None: ...
    @abstractmethod
    def terms(self, candidate: str, data: Data = b"") -> AsyncIterator[AioHeld]: ...
    @abstractmethod
    async def resign(self, leader: str, *, timeout_s: float | None = 5.0) -> None: ...
    @abstractmethod
    async def withdraw(self, candidate: str, *, timeout_s: float | None = 5.0) -> None: ...
    @abstractmethod
    async def add_listener(self, listener: LeaderListener, *, timeout_s: float | None = 5.0) -> None: ...
    @abstractmethod
    async def remove_listener(self, listener: LeaderListener) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...


class AioStorage(ABC):
    """Storage on asyncio: the same contract, call by call; fetch gives an awaitable that is under way already."""

    @abstractmethod
    async def init(self, context: Any) -> None: ...
    @abstractmethod
    def fetch(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Awaitable[bytes | None]: ...
    @abstractmethod
    async def get(self, key: str, *, local: bool = False, timeout_s: float | None = 5.0) -> Stored | None: ...
    @abstractmethod
    async def put(
        self, key: str, data: Data, *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> int: ...
    @abstractmethod
    async def update(
        self,
        key: str,
        data: Data,
        *,
        expected_revision: int = 0,
        fence: FenceLike | None = None,
        timeout_s: float | None = 5.0,
    ) -> int: ...
    @abstractmethod
    async def delete(
        self, key: str, *, expected_revision: int = 0, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> None: ...
    @abstractmethod
    async def children(
        self, namespace: str, *, local: bool = False, timeout_s: float | None = 5.0
    ) -> frozenset[str]: ...
    @abstractmethod
    async def multi(
        self, operations: Sequence[StorageOperation], *, fence: FenceLike | None = None, timeout_s: float | None = 5.0
    ) -> int: ...
    @abstractmethod
    async def close(self) -> None: ...


class AioListenerRegistry(ABC):
    """ListenerRegistry on asyncio: the same contract, call by call."""

    @abstractmethod
    async def init(self, context: Any) -> None: ...
    @abstractmethod
    async def add_value_change_listener(self, key: str, listener: ValueListener) -> None: ...
    @abstractmethod
    async def remove_value_change_listener(self, key: str, listener: ValueListener) -> None: ...
    @abstractmethod
    async def add_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None: ...
    @abstractmethod
    async def remove_key_set_change_listener(self, namespace: str, listener: KeySetListener) -> None: ...
    @abstractmethod
    async def close(self) -> None: ...


# --- what hands them out --------------------------------------------------------------------------------------------


class Backend(Protocol):
    """A back end, for callers that may block: raftmeta.Node, raftmeta.Client, and every plug-in.

    group and election give the same group, or election, for the same name; all are initialised, and closed with the
    back end.
    cluster_state: as of now, asks nobody. add_state_listener: call listener with each new state from now on, until it
    is removed; one call at a time, on no thread of the caller. A state that lasted only a moment may be left out.
    """

    @property
    def capabilities(self) -> Capabilities: ...
    def group(self, name: str) -> GroupMembership: ...
    def election(self, service: str) -> LeaderElection: ...
    @property
    def storage(self) -> Storage: ...
    @property
    def listeners(self) -> ListenerRegistry: ...
    @property
    def cluster_state(self) -> State: ...
    def add_state_listener(self, listener: StateListener) -> None: ...
    def remove_state_listener(self, listener: StateListener) -> None: ...
    def close(self) -> None: ...


class AioBackend(Protocol):
    """A back end on asyncio."""

    @property
    def capabilities(self) -> Capabilities: ...
    def group(self, name: str) -> AioGroupMembership: ...
    def election(self, service: str) -> AioLeaderElection: ...
    @property
    def storage(self) -> AioStorage: ...
    @property
    def listeners(self) -> AioListenerRegistry: ...
    @property
    def cluster_state(self) -> State: ...
    def add_state_listener(self, listener: StateListener) -> None: ...
    def remove_state_listener(self, listener: StateListener) -> None: ...
    async def close(self) -> None: ...
