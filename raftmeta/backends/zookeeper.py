"""zookeeper://host:port,host:port/chroot: the four interfaces on a ZooKeeper ensemble, by kazoo.

Options: session_timeout_s (10; the servers bound it), auth=digest:user:password (whose nodes only this user may touch
then), owner (the name under which this client holds its places: a later client of that name takes them over at once),
reads=quorum (each read is preceded by a write that changes nothing; the default, reads=sync, by a sync).

It declares what ZooKeeper gives and no more. A sync asks the leader alone, and a leader that lost its followers answers
for a while: so only reads=quorum promises linearizable reads. A call whose connection breaks stays of unknown outcome.
A session ends late after a change of ZooKeeper's leader: no time is promised. Watches are set anew after a break.

zookeeper_session decides how long a session certainly lives, zookeeper_places who holds what, zookeeper_storage what
becomes of keys and their listeners; docs/formats.md "Nodes in ZooKeeper" has the layout.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Self, cast

from raftmeta.backends.threads import AioOverThreads
from raftmeta.backends.url import BackendUrl
from raftmeta.backends.zookeeper_places import Children, Hold, Place, Snapshot, part_of, snapshot, take
from raftmeta.backends.zookeeper_session import Session
from raftmeta.backends.zookeeper_storage import ZooKeeperRegistry, ZooKeeperStorage
from raftmeta.common.flags import Flag
from raftmeta.errors import (
    ConfigError,
    IdConflict,
    InvalidArgument,
    NodeClosed,
    RaftmetaError,
)
from raftmeta.interfaces import (
    Backend,
    Capabilities,
    Data,
    GroupChange,
    GroupListener,
    GroupMember,
    GroupMembership,
    Held,
    Leader,
    LeaderChange,
    LeaderElection,
    LeaderListener,
    ListenerRegistry,
    Members,
    Owner,
    State,
    StateListener,
    Storage,
    checked_callback,
)
from raftmeta.recipes.deadline import DEFAULT_TIMEOUT_S, Deadline
from raftmeta.recipes.face_blocking import BlockingFace
from raftmeta.recipes.keys import to_bytes
from raftmeta.recipes.listeners import Change, Failures, Listeners, Strand
from raftmeta.recipes.standing import Standing
from raftmeta.recipes.states import States

__all__ = ["PLUGIN", "ZooKeeperBackend"]

ROOT = "raftmeta"
SESSION_TIMEOUT_S = 10.0
GIVE_BACK_S = 1.0  # of close(); the session takes the rest with it
PAUSE_S = 0.2  # between attempts to nominate a candidate anew


# --- groups and elections ---------------------------------------------------------------------------------------------
class _Part:
    """A group or an election: places below one node, and a copy of them."""

    def __init__(self, backend: ZooKeeperBackend, folder: str) -> None:
        self._backend = backend
        self._session = backend.session
        self._folder = f"{self._session.root}/{folder}"
        self._copy = Children(self._session, self._folder, self._on_change, has_places=True)
        self._lock = threading.RLock()
        self.is_closed = False

    def init(self, context: Any) -> None:
        raise InvalidArgument("context: this instance was set up by its back end already", field="context")

    def _check_open(self) -> None:
        if self.is_closed:
            raise NodeClosed(f"this {type(self).__name__.lstrip('_').lower()} is closed")
        self._session.check_open()

    def _read(self, *, local: bool, timeout_s: float | None) -> Snapshot:
        self._check_open()
        return snapshot(self._session, self._folder, Deadline(timeout_s), local=local)

    def _take(self, id: str, data: bytes, deadline: Deadline, replaces: str) -> Hold:
        hold = take(self._session, self._folder, id, data, self._backend.owner, deadline, replaces=replaces)
        if self.is_closed:
            with contextlib.suppress(RaftmetaError):
                hold.give_back(Deadline(GIVE_BACK_S))
            self._check_open()
        return hold

    def _listen(self, listeners: Listeners[Any], listener: Any, timeout_s: float | None) -> None:
        """Add it, and see to it that there is something to tell."""
        self._check_open()
        listeners.add(listener)
        try:
            self._copy.open(Deadline(timeout_s))
        except BaseException:
            listeners.remove(listener)
            raise

    def _on_change(self, copy: Children) -> None:
        raise NotImplementedError

    def _is_taken(self, hold: Hold, now: Snapshot) -> bool:
        """Whether the copy, which is as new as the hold, shows that its place is gone or somebody else's."""
        if now.revision < hold.epoch or hold.is_over:
            return False
        place = now.places.get(part_of(hold.id, "id"))
        return place is None or place.ticket != hold.place.ticket


class _Group(_Part, GroupMembership):
    def __init__(self, backend: ZooKeeperBackend, group: str) -> None:
        super().__init__(backend, f"groups/{part_of(group, 'group')}")
        self._group = group
        self._listeners: Listeners[GroupChange] = backend.listeners_of(GroupChange)
        self._mine: dict[str, Hold | None] = {}  # None: one that is joining

    @property
    def group(self) -> str:
        return self._group

    def join(
        self,
        id: str,
        data: Data = b"",
        *,
        on_lost: Callable[[Held], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> Held:
        self._check_open()
        deadline, raw, tell_lost = Deadline(timeout_s), to_bytes(data), self._backend.telling(on_lost, "on_lost")
        part_of(id, "id")
        with self._lock:
            former = self._mine.get(id)
            if id in self._mine and (former is None or not former.is_over):
                raise IdConflict(f"{id!r} is a member of {self._group!r} in this process already")
            self._mine[id] = None
        try:
            self._copy.open(deadline)
            hold = self._take(id, raw, deadline, "" if former is None else former.place.ticket)
        except BaseException:
            with self._lock:
                if former is None:
                    self._mine.pop(id, None)
                else:
                    self._mine[id] = former
            raise
        self._mine[id] = hold
        hold.on_lost(tell_lost)
        self._look_for_losses(self._copy.now)  # the copy may have been quicker than this thread
        return hold

    def leave(self, id: str, *, timeout_s: float | None = 5.0) -> None:
        self._check_open()
        with self._lock:
            hold = self._mine.get(id)
            if hold is None:
                return  # nobody, or one that is still joining
            del self._mine[id]
        hold.give_back(Deadline(timeout_s))

    def membership_list(self, *, local: bool = False, timeout_s: float | None = 5.0) -> frozenset[str]:
        return frozenset(self.members(local=local, timeout_s=timeout_s))

    def membership(self, *, local: bool = False, timeout_s: float | None = 5.0) -> dict[str, bytes]:
        return {id: member.data for id, member in self.members(local=local, timeout_s=timeout_s).items()}

    def members(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Members:
        return _members_of(self._read(local=local, timeout_s=timeout_s))

    def add_listener(self, listener: GroupListener, *, timeout_s: float | None = 5.0) -> None:
        self._listen(self._listeners, listener, timeout_s)

    def remove_listener(self, listener: GroupListener) -> None:
        self._listeners.remove(listener)

    def _on_change(self, copy: Children) -> None:
        self._look_for_losses(copy.now)
        members = _members_of(copy.now)
        if members != _members_of(copy.former) or copy.has_hidden:
            self._listeners.tell(GroupChange(self._group, members, copy.now.revision, copy.coalesced))

    def _look_for_losses(self, now: Snapshot) -> None:
        for hold in list(self._mine.values()):
            if hold is not None and self._is_taken(hold, now):
                hold.lose()

    def close(self) -> None:
        with self._lock:
            mine, self._mine = [hold for hold in self._mine.values() if hold is not None], {}
            self.end()
        deadline = Deadline(GIVE_BACK_S)
        for hold in mine:
            with contextlib.suppress(RaftmetaError):
                hold.give_back(deadline)

    def end(self) -> None:
        """Nothing is held or told any more."""
        self.is_closed = True
        for hold in list(self._mine.values()):
            if hold is not None:
                hold.settle()
        self._listeners.close()
        self._copy.close()


def _members_of(found: Snapshot) -> Members:
    return Members(
        {place.id: GroupMember(place.id, place.data, place.epoch) for place in found.places.values()}, found.revision
    )


class _Candidate(Standing[Hold]):
    """From its nomination to its resignation, over all lost places."""

    def __init__(
        self, id: str, data: bytes, tell_elected: Callable[[Hold], None], tell_lost: Callable[[Hold], None]
    ) -> None:
        self.news = Flag()  # of lead and is_over
        super().__init__(id, data, tell_elected, tell_lost, self.news.set)


class _Election(_Part, LeaderElection):
    def __init__(self, backend: ZooKeeperBackend, service: str) -> None:
        super().__init__(backend, f"elections/{part_of(service, 'service')}")
        self._service = service
        self._listeners: Listeners[LeaderChange] = backend.listeners_of(LeaderChange)
        self._mine: dict[str, _Candidate] = {}

    @property
    def service(self) -> str:
        return self._service

    def get_leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> str | None:
        leader = self.leader(local=local, timeout_s=timeout_s)
        return None if leader is None else leader.id

    def leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Leader | None:
        return _leader_of(self._read(local=local, timeout_s=timeout_s))

    def nominate(
        self,
        candidate: str,
        data: Data = b"",
        *,
        on_elected: Callable[[Held], object] | None = None,
        on_lost: Callable[[Held], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> bool:
        self._nominate(candidate, data, on_elected, on_lost, timeout_s)
        return self.lead(candidate) is not None

    def _nominate(self, id: str, data: Data, on_elected: Any, on_lost: Any, timeout_s: float | None) -> _Candidate:
        self._check_open()
        part_of(id, "candidate")
        tell_elected = self._backend.telling(on_elected, "on_elected")
        new = _Candidate(id, to_bytes(data), tell_elected, self._backend.telling(on_lost, "on_lost"))
        with self._lock:
            mine = self._mine.setdefault(id, new)
        if mine is new:
            try:
                self._stand(new, Deadline(timeout_s))
            except BaseException:
                hold = self._end_of(new)
                if hold is not None:
                    hold.drop()
                raise
        return mine

    def _stand(self, candidate: _Candidate, deadline: Deadline, replaces: str = "") -> None:
        """Take a place behind all others; on return it is known whether it leads."""
        self._copy.open(deadline)
        hold = self._take(candidate.id, candidate.data, deadline, replaces)
        candidate.hold = hold
        if candidate.is_over:  # meanwhile
            with contextlib.suppress(RaftmetaError):
                hold.give_back(Deadline(GIVE_BACK_S))
            return
        hold.on_lost(lambda lost: self._stand_again(candidate, lost))
        self._follow(snapshot(self._session, self._folder, deadline, local=False))

    def _stand_again(self, candidate: _Candidate, lost: Hold) -> None:
        """After a loss: behind the others, unless another life of this owner has the place."""
        if not candidate.is_over and not self.is_closed:
            self._session.others.post(partial(self._stand_until, candidate, lost.place.ticket))

    def _stand_until(self, candidate: _Candidate, replaces: str) -> None:
        while not candidate.is_over and not self.is_closed:
            try:
                self._stand(candidate, Deadline(DEFAULT_TIMEOUT_S), replaces)
                return
            except (IdConflict, NodeClosed):
                self._end_of(candidate)
            except RaftmetaError:
                if candidate.hold is not None and not candidate.hold.is_over:
                    return  # it stands; the copy will tell whether it leads
                candidate.news.clear()
                candidate.news.wait(PAUSE_S)

    def _end_of(self, candidate: _Candidate) -> Hold | None:
        with self._lock:
            if self._mine.get(candidate.id) is candidate:
                del self._mine[candidate.id]
        return candidate.end()

    def lead(self, candidate: str) -> Held | None:
        mine = self._mine.get(candidate)
        lead = None if mine is None else mine.lead
        return lead if lead is not None and lead.held() else None

    def terms(self, candidate: str, data: Data = b"") -> Iterator[Held]:
        mine = self._nominate(candidate, data, None, None, DEFAULT_TIMEOUT_S)
        try:
            while (lead := self._next_lead(mine)) is not None:
                yield lead
                lead.wait_lost()
        finally:
            hold = self._end_of(mine)
            if hold is not None and not hold.is_over:
                with contextlib.suppress(RaftmetaError):
                    hold.give_back(Deadline(DEFAULT_TIMEOUT_S))

    def _next_lead(self, mine: _Candidate) -> Hold | None:
        while not mine.is_over:
            mine.news.clear()
            lead = mine.lead
            if lead is not None and not lead.is_over:
                return lead
            if not mine.is_over:
                mine.news.wait()
        return None

    def resign(self, leader: str, *, timeout_s: float | None = 5.0) -> None:
        self._check_open()
        mine, deadline = self._mine.get(leader), Deadline(timeout_s)
        if mine is None:
            return
        if not mine.is_leading:  # it may lead and not know it yet
            self._follow(snapshot(self._session, self._folder, deadline, local=False))
        if mine.is_leading:
            self._give_up(mine, deadline)

    def withdraw(self, candidate: str, *, timeout_s: float | None = 5.0) -> None:
        self._check_open()
        mine = self._mine.get(candidate)
        if mine is not None:
            self._give_up(mine, Deadline(timeout_s))

    def _give_up(self, mine: _Candidate, deadline: Deadline) -> None:
        hold = self._end_of(mine)
        if hold is not None:
            hold.give_back(deadline)

    def add_listener(self, listener: LeaderListener, *, timeout_s: float | None = 5.0) -> None:
        self._listen(self._listeners, listener, timeout_s)

    def remove_listener(self, listener: LeaderListener) -> None:
        self._listeners.remove(listener)

    def _on_change(self, copy: Children) -> None:
        for mine in list(self._mine.values()):
            if mine.hold is not None and self._is_taken(mine.hold, copy.now):
                mine.hold.lose()
        self._follow(copy.now)
        leader, former = _leader_of(copy.now), _leader_of(copy.former)
        if leader != former or (leader is None and copy.has_hidden):  # the same leader led all the time
            self._listeners.tell(LeaderChange(self._service, leader, copy.now.revision, copy.coalesced))

    def _follow(self, now: Snapshot) -> None:
        """Give the lead to a candidate of this instance that was elected. A leader leads until its place is gone."""
        first = _first_of(now)
        mine = None if first is None else self._mine.get(first.id)
        hold = None if mine is None else mine.hold
        if first is not None and mine is not None and hold is not None and hold.place.ticket == first.ticket:
            mine.elected(hold)

    def close(self) -> None:
        with self._lock:
            mine, self._mine = list(self._mine.values()), {}
        holds = [candidate.end() for candidate in mine]
        self.end()
        deadline = Deadline(GIVE_BACK_S)
        for hold in holds:
            if hold is not None:
                with contextlib.suppress(RaftmetaError):
                    hold.give_back(deadline)

    def end(self) -> None:
        """Nothing is held or told any more."""
        self.is_closed = True
        for candidate in list(self._mine.values()):
            hold = candidate.end()
            if hold is not None:
                hold.settle()
        self._listeners.close()
        self._copy.close()


def _first_of(found: Snapshot) -> Place | None:
    return min(found.places.values(), key=lambda place: place.epoch, default=None)


def _leader_of(found: Snapshot) -> Leader | None:
    first = _first_of(found)
    return None if first is None else Leader(first.id, first.data, first.epoch, found.revision)


# --- what hands them out ----------------------------------------------------------------------------------------------
class ZooKeeperBackend(Backend):
    """One session with an ensemble, and the four interfaces on it."""

    def __init__(self, session: Session, owner: Owner, capabilities: Capabilities) -> None:
        self.session = session
        self.owner = owner
        self._capabilities = capabilities
        self._lock = threading.RLock()
        self._parts: dict[tuple[type[Any], str], Any] = {}
        self._face = BlockingFace(cast(Any, self))
        self._failures = Failures()
        self._storage = ZooKeeperStorage(session)
        self._registry = ZooKeeperRegistry(session, self.listeners_of)
        self._states = States(self._face, session.look)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def group(self, name: str) -> GroupMembership:
        return cast(GroupMembership, self._part(_Group, name))

    def election(self, service: str) -> LeaderElection:
        return cast(LeaderElection, self._part(_Election, service))

    def _part(self, kind: type[Any], name: str) -> Any:
        self.session.check_open()
        with self._lock:
            part = self._parts.get((kind, name))
            if part is None or part.is_closed:
                part = self._parts[kind, name] = kind(self, name)
            return part

    @property
    def storage(self) -> Storage:
        return self._storage

    @property
    def listeners(self) -> ListenerRegistry:
        return self._registry

    @property
    def cluster_state(self) -> State:
        """Whether the ensemble can be asked, as this process knows."""
        return self.session.look()[0]

    def add_state_listener(self, listener: StateListener) -> None:
        """Call listener with each new state from now on, until it is removed."""
        self._states.add(listener)

    def remove_state_listener(self, listener: StateListener) -> None:
        """Stop calling listener; one that was not added is ignored."""
        self._states.remove(listener)

    def close(self) -> None:
        """End the session, and with it all that is held. Idempotent."""
        if self.session.is_closed:
            return
        with self._lock:
            parts = list(self._parts.values())
        for part in parts:
            part.end()
        self._registry.close()
        self._storage.close()
        self._states.close()
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    # --- for the parts ------------------------------------------------------------------------------------------------
    def listeners_of(self, kind: type[Change]) -> Listeners[Change]:
        """Listeners of one group, service, key or namespace; all of this back end share threads."""
        return Listeners(self._face, self._failures, kind)

    def telling(self, callback: Any, field: str) -> Callable[[Hold], None]:
        """A function that lets the user's callback be called with a hold; None: one that does nothing."""
        if callback is None:
            return lambda _: None
        strand: Strand[Any] = Strand(self._face, checked_callback(callback, field), self._failures)
        return strand.tell


# --- the URL ----------------------------------------------------------------------------------------------------------
def _auth_of(url: BackendUrl) -> tuple[str, str] | None:
    if "auth" not in url.options:
        return None
    scheme, _, credential = url.options["auth"].partition(":")
    if scheme != "digest" or not credential.partition(":")[2]:  # it is a secret, so no error shows it
        raise ConfigError("url: auth: must look like digest:user:password", field="auth")
    return scheme, credential


def _reads_of(text: str) -> bool:
    if text not in ("sync", "quorum"):
        raise ValueError(text)
    return text == "quorum"


_reads_of.__name__ = "sync or quorum"


def _positive(text: str) -> float:
    if not 0 < float(text) < float("inf"):
        raise ValueError(text)
    return float(text)


_positive.__name__ = "number of seconds above 0"


class _Plugin:
    takes_owners = True

    def capabilities(self, url: BackendUrl) -> Capabilities:
        return Capabilities(
            fencing=True,
            epochs=True,
            immediate_rejoin=True,
            lost_in_time=True,
            ordered_listeners=True,
            compare_and_set=True,
            multi=True,
            linearizable_reads=url.option("reads", _reads_of, False),
            durable=True,
        )

    def open(self, url: BackendUrl, *, timeout_s: float) -> ZooKeeperBackend:
        url.only({"auth", "owner", "reads", "session_timeout_s"})
        if not url.addresses:
            raise ConfigError("url: zookeeper:// needs servers: zookeeper://host:port,host:port", field="url")
        chroot = url.path.strip("/")
        if any(part in ("", ".", "..") for part in chroot.split("/")) and chroot:
            raise ConfigError(f"url: {url.path!r} is no path of ZooKeeper", field="url")
        life = int.from_bytes(os.urandom(7), "big")
        name = url.options.get("owner")
        owner = Owner(f"client {name}" if name else f"client-{life:x}", life, 0)
        session = Session(
            ",".join(url.addresses),
            f"/{chroot}/{ROOT}" if chroot else f"/{ROOT}",
            timeout_s=url.option("session_timeout_s", _positive, SESSION_TIMEOUT_S),
            auth=_auth_of(url),
            reads_by_quorum=url.option("reads", _reads_of, False),
        )
        backend = ZooKeeperBackend(session, owner, self.capabilities(url))
        try:
            session.open(timeout_s)
        except BaseException:
            backend.close()
            raise
        return backend

    async def open_aio(self, url: BackendUrl, *, timeout_s: float) -> AioOverThreads:
        return await AioOverThreads.open(lambda: self.open(url, timeout_s=timeout_s))


PLUGIN = _Plugin()
