"""Places below a node of ZooKeeper: who holds them, taking one, and a copy of all that is told of each change.

    <root>/groups/<group>/<id>            a member: ephemeral; its data names the owner, the ticket, and the user's data
    <root>/elections/<service>/<id>       a candidate, the same; the one with the smallest czxid leads
    <root>/tickets/<32 hex digits>        made and removed with its place, in one multi; no name is ever used twice

The ticket is the fence: a multi that checks it fails once the place was given up, also when somebody else has it by
then. The epoch is the czxid of both. It decides who gets a place (take), and whether a copy skipped a change.

A parent's cversion counts each child that came or went. So a copy knows, after any gap between two one-shot watches,
how many changes it did not see one by one.
"""

from __future__ import annotations

import logging
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgpack
from kazoo import exceptions as zk

from raftmeta.backends.zookeeper_session import LOOK_AGAIN_S, Session, Step, failed_step
from raftmeta.common.flags import Flag
from raftmeta.errors import (
    Fenced,
    IdConflict,
    InvalidArgument,
    NotExecuted,
    OutcomeTimeout,
    OutcomeUnknown,
    RaftmetaError,
)
from raftmeta.interfaces import FenceLike, Held, Owner
from raftmeta.operations import Fence
from raftmeta.recipes.deadline import Deadline
from raftmeta.recipes.keys import quoted

__all__ = ["Children", "Copy", "Hold", "Place", "Snapshot", "fence_step", "name_of", "part_of", "snapshot", "take"]

FORMAT_HOLDER = 1
PAUSE_S = 0.2  # after a look that failed
TICKETS = "tickets"
CLOCK = "clock"  # a multi that creates nodes writes it too, because only the answer to a write of data has a zxid
COUNTER_VALUES = 1 << 32  # of a version
_NOBODY = Owner("", 0, 0)
_LOG = logging.getLogger(__name__)


def part_of(name: str, field: str) -> str:
    """A name as one part of a path. Raises InvalidArgument that names field."""
    part = quoted(name, field)
    return part.replace(".", "%2E") if part in (".", "..") else part


def name_of(part: str) -> str:
    """The name that a part of a path stands for."""
    return unquote(part)


class Place(NamedTuple):
    """One place as ZooKeeper has it. ticket: "" where a stranger made the node."""

    id: str
    data: bytes
    epoch: int
    owner: Owner
    ticket: str


def _pack(owner: Owner, ticket: str, data: bytes) -> bytes:
    packed: bytes = msgpack.packb([FORMAT_HOLDER, owner.name, owner.incarnation, ticket, data])
    return packed


def _place_of(part: str, raw: bytes, czxid: int) -> Place:
    """A node that we did not write is all data, of an owner whom nobody succeeds."""
    stranger = Place(name_of(part), raw, czxid, _NOBODY, "")
    try:
        fields: Any = msgpack.unpackb(raw)
        form, name, incarnation, ticket, data = fields
    except (ValueError, TypeError, msgpack.UnpackException):
        return stranger
    kinds = [type(field) for field in (form, name, incarnation, ticket, data)]
    if kinds != [int, str, int, str, bytes] or form != FORMAT_HOLDER:
        return stranger
    return Place(name_of(part), data, czxid, Owner(name, incarnation, 0), ticket)


# --- holding a place --------------------------------------------------------------------------------------------------
class Hold(Held):
    """A member or a candidate of this session. life: of the session that it goes with."""

    def __init__(self, session: Session, path: str, place: Place, life: int) -> None:
        self.session = session
        self.path = path
        self.place = place
        self.life = life
        self.is_over = False
        self._lost = Flag()
        self._lock = threading.RLock()
        self._on_lost: list[Callable[[Hold], object]] = []

    def __repr__(self) -> str:
        return f"<{self.path} epoch={self.epoch} {'over' if self.is_over else 'held'}>"

    @property
    def id(self) -> str:
        return self.place.id

    @property
    def data(self) -> bytes:
        return self.place.data

    @property
    def epoch(self) -> int:
        return self.place.epoch

    @property
    def fence(self) -> Fence:
        return Fence(f"{TICKETS}/{self.place.ticket}", self.epoch)

    def held(self) -> bool:
        return self.remaining_s() > 0

    def remaining_s(self) -> float:
        return 0.0 if self.is_over else self.session.remaining_s(self.life)

    def wait_lost(self, timeout_s: float | None = None) -> bool:
        return self.is_over or self._lost.wait(timeout_s)

    def on_lost(self, callback: Callable[[Hold], object]) -> None:
        """Call back once when it is lost, not when it is given back; at once if it is lost already. Must not block."""
        with self._lock:
            if not self.is_over:
                self._on_lost.append(callback)
                return
        callback(self)

    def lose(self) -> None:
        """It is gone, or nobody can be sure any more. Its nodes are removed, if they are still there."""
        callbacks = self._end()
        if callbacks is None:
            return
        self.session.remove_later(self.life, self.path, self.ticket_path)
        for callback in callbacks:
            callback(self)

    @property
    def ticket_path(self) -> str:
        return f"{self.session.root}/{TICKETS}/{self.place.ticket}"

    def settle(self) -> None:
        """It is not held any more, and not lost either."""
        self._end()

    def drop(self) -> None:
        """Stop holding it; it is removed later, or goes with the session."""
        self._end()
        self.session.remove_later(self.life, self.path, self.ticket_path)

    def give_back(self, deadline: Deadline) -> None:
        """Stop holding it, then remove the node. Where that fails it is removed later, or goes with the session."""
        self._end()
        if self.life != self.session.life:
            return
        try:
            self.session.remove(self.path, self.ticket_path, deadline)
        except (NotExecuted, OutcomeUnknown):
            self.session.remove_later(self.life, self.path, self.ticket_path)
            raise

    def _end(self) -> list[Callable[[Hold], object]] | None:
        with self._lock:
            if self.is_over:
                return None
            self.is_over = True
            callbacks, self._on_lost = self._on_lost, []
        self.session.let_go(self)
        self._lost.set()
        return callbacks


def fence_step(session: Session, fence: FenceLike | None) -> list[Step]:
    """The step that checks a fence, none without one.

    Raises Fenced for what this process knows to be lost: once lost, it stays lost.
    """
    if fence is None:
        return []
    if isinstance(fence, Hold) and not fence.held():
        fence.lose()
        raise Fenced(f"{fence.id!r} is not held any more (epoch {fence.epoch})")
    plain = fence if isinstance(fence, Fence) else fence.fence
    key = plain.key if isinstance(plain.key, str) else plain.key.decode(errors="replace")
    folder, _, ticket = key.partition("/")
    if folder != TICKETS or not ticket.isalnum():
        raise InvalidArgument(f"fence: {key!r} was not made by this back end", field="fence")
    return [Step("check", f"{session.root}/{key}")]


def take(
    session: Session, folder: str, id: str, data: bytes, owner: Owner, deadline: Deadline, *, replaces: str = ""
) -> Hold:
    """Take a place, or raise IdConflict; on any error nothing stays behind.

    1. Nobody has it: the caller gets it. 2. An earlier life of the same owner has it: the caller, at once. The old
    place and ticket are removed in the same multi, which fences that life. 3. Else: IdConflict.
    replaces: the ticket of a hold of this life that was lost and may still stand there. Such a life takes nothing back
    from another life of its owner, or the two would take it from each other for ever.
    """
    part = part_of(id, "id")
    path = f"{folder}/{part}"
    ticket = uuid.uuid4().hex
    raw = _pack(owner, ticket, data)
    create = [
        Step("hold", path, raw),
        Step("hold", f"{session.root}/{TICKETS}/{ticket}"),
        Step("set", f"{session.root}/{CLOCK}"),
    ]
    before: list[Step] = []
    while True:
        life = session.life
        try:
            results = session.multi([*before, *create], deadline)
        except OutcomeUnknown as error:
            epoch = _resolved(session, path, ticket, life, deadline, error)
            if epoch is None:
                continue
            return _held(session, path, Place(id, data, epoch, owner, ticket), life)
        failure = failed_step(results)
        if failure is None:
            return _held(session, path, Place(id, data, results[-1].mzxid, owner, ticket), life)
        if isinstance(failure[1], zk.NoNodeError) and failure[0] >= len(before):
            session.make(deadline, folder, f"{session.root}/{TICKETS}", f"{session.root}/{CLOCK}")
            continue
        (found,) = session.read(lambda client: [client.get_async(path)], deadline, local=False)
        if isinstance(found, Exception):
            before = []  # it went meanwhile
            continue
        other = _place_of(part, found[0], found[1].czxid)
        if not (other.ticket == replaces if replaces else bool(other.ticket) and owner.succeeds(other.owner)):
            raise IdConflict(
                f"{id!r} is held by {other.owner.name!r} until that one leaves or its session ends ({path})"
            )
        before = [Step("delete", f"{session.root}/{TICKETS}/{other.ticket}"), Step("delete", path)]


def _resolved(
    session: Session, path: str, ticket: str, life: int, deadline: Deadline, error: OutcomeUnknown
) -> int | None:
    """The epoch of a place that was taken without an answer; None: it was not taken, and never will be.

    The connection on which it was asked for is gone, and a sync on the next one comes behind all of that session.
    """
    try:
        (found,) = session.read(lambda client: [client.get_async(path)], deadline, local=False)
    except RaftmetaError:
        session.remove_later(life, path, f"{session.root}/{TICKETS}/{ticket}")
        raise error from None
    if isinstance(found, Exception) or _place_of("", found[0], 0).ticket != ticket:
        if isinstance(error, OutcomeTimeout):  # its connection lives: it may still be done
            session.remove_later(life, path, f"{session.root}/{TICKETS}/{ticket}")
            raise error
        return None
    return int(found[1].czxid)


def _held(session: Session, path: str, place: Place, life: int) -> Hold:
    hold = Hold(session, path, place, life)
    if session.life != life:  # nobody knows any more in which session it was taken
        session.remove_later(session.life, path, hold.ticket_path)
        raise OutcomeUnknown(f"the session with ZooKeeper ended while {place.id!r} was taken")
    session.hold(hold)
    return hold


# --- copies -----------------------------------------------------------------------------------------------------------
class Copy(ABC):
    """A copy of something in ZooKeeper. It is read anew when a watch fires, and after each connection."""

    def __init__(self, session: Session, path: str) -> None:
        self.session = session
        self.path = path
        self._lock = threading.RLock()
        self._reading = threading.RLock()
        self._is_due = False
        self._is_running = False
        self._is_open = False
        self._is_closed = False

    def open(self, deadline: Deadline) -> None:
        """Read it for the first time, unless that is done; every later change is told. Raises as reads do."""
        with self._reading:
            if self._is_open:
                return
            self.session.follow(self)
            try:
                self._look(deadline, is_first=True)
            except BaseException:
                self.session.unfollow(self)
                raise
            self._is_open = True
        if self._is_due:
            self.news()

    def close(self) -> None:
        self._is_closed = True
        self.session.unfollow(self)

    def news(self, event: object = None) -> None:
        """It may have changed. Called by kazoo's threads; must not block."""
        if getattr(event, "type", None) == "NONE":
            return  # the connection broke; the next one brings news
        with self._lock:
            self._is_due = True
            if self._is_running or self._is_closed or not self._is_open:
                return
            self._is_running = True
        self.session.workers.post(self._run)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._is_due or self._is_closed:
                    self._is_running = False
                    return
                self._is_due = False
            try:
                with self._reading:
                    self._look(Deadline(LOOK_AGAIN_S), is_first=False)
            except RaftmetaError as error:
                if not self.session.is_closed:
                    _LOG.warning("copy reads anew path=%s reason=%s", self.path, error)
                with self._lock:
                    self._is_due = not self.session.pause(PAUSE_S)  # tried again, or the session is over

    @abstractmethod
    def _look(self, deadline: Deadline, *, is_first: bool) -> None:
        """Read it with a watch, and tell what changed unless it is the first time."""


class Snapshot(NamedTuple):
    """The children of a node as of one revision, which is its pzxid; raw: their data and Stat, if it was asked for."""

    revision: int
    cversion: int
    czxid: int
    parts: frozenset[str]
    places: dict[str, Place]


ABSENT = Snapshot(0, 0, 0, frozenset(), {})


def snapshot(
    session: Session,
    path: str,
    deadline: Deadline,
    *,
    local: bool = True,
    watch: Callable[[object], object] | None = None,
    has_places: bool = True,
    former: Snapshot = ABSENT,
) -> Snapshot:
    """The children of a node, all as of one revision. former: an earlier snapshot, of which all that can be is kept."""
    while True:
        (listed,) = session.read(
            lambda client: [client.get_children_async(path, watch=watch, include_data=True)], deadline, local=local
        )
        if isinstance(listed, Exception):
            if watch is None:
                return ABSENT
            (found,) = session.read(lambda client: [client.exists_async(path, watch=watch)], deadline)
            if found is None:
                return ABSENT
            continue  # it was made meanwhile
        parts, stat = frozenset(listed[0]), listed[1]
        found_now = Snapshot(stat.pzxid, stat.cversion, stat.czxid, parts, {})
        if not has_places:
            return found_now
        kept = former.places if changes_between(former, found_now) <= 1 else {}
        wanted = [part for part in parts if part not in kept]
        if not wanted:
            return found_now._replace(places={part: kept[part] for part in parts})
        *read, again = session.read(
            lambda client, wanted=wanted: [  # type: ignore[misc]
                *(client.get_async(f"{path}/{part}") for part in wanted),
                client.exists_async(path),
            ],
            deadline,
        )
        if again is None or isinstance(again, Exception) or again.pzxid != stat.pzxid:
            former = ABSENT
            continue  # somebody came or went in between
        if any(isinstance(one, Exception) for one in read):
            continue
        new = {part: _place_of(part, one[0], one[1].czxid) for part, one in zip(wanted, read, strict=True)}
        return found_now._replace(places={part: new.get(part) or kept[part] for part in parts})


def changes_between(former: Snapshot, later: Snapshot) -> int:
    """How many children came or went in between; many if the node itself was made anew."""
    if former.czxid not in (0, later.czxid):
        return COUNTER_VALUES
    return (later.cversion - former.cversion) % COUNTER_VALUES


class Children(Copy):
    """A copy of the children of a node. on_change: called with it after each change; must not block.

    now: as of now.revision. coalesced: the last change stands for several that were not seen one by one. has_hidden:
    some of them show in no difference between former and now, because a child came and went.
    """

    def __init__(
        self, session: Session, path: str, on_change: Callable[[Children], object], *, has_places: bool
    ) -> None:
        super().__init__(session, path)
        self.now = ABSENT
        self.former = ABSENT
        self.coalesced = False
        self.has_hidden = False
        self._on_change = on_change
        self._has_places = has_places

    def _look(self, deadline: Deadline, *, is_first: bool) -> None:
        found = snapshot(
            self.session,
            self.path,
            deadline,
            watch=self.news,
            has_places=self._has_places,
            former=self.now,
        )
        former, self.now = self.now, found
        if is_first or found.revision == former.revision:
            return
        if found is ABSENT:  # the node itself was removed
            self.now = found = ABSENT._replace(revision=former.revision + 1)
        changes = changes_between(former, found)
        self.former, self.coalesced = former, changes != 1
        self.has_hidden = changes > len(former.parts ^ found.parts)
        self._on_change(self)
