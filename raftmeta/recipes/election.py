"""KIP-30 Leader Election on a store: one leased key for each candidate, and the oldest of them leads.

    _raftmeta/elections/controller/a    create revision 12   leads, epoch 12
    _raftmeta/elections/controller/b    create revision 15   is next

Candidates are elected in the order in which they were nominated, as create revisions order them. The lead passes in the
very revision that removes the key before it, so there is never a moment with two leaders and none without one while
somebody is eligible. A candidate that led once leads until its key is gone: nobody can get in before it. Hence its
create revision is its epoch, greater than that of every earlier leader, and its key with that revision is its fence.

There is no herd: a candidate learns of its election from a mirror of these few keys, and asks the store nothing.

A candidacy lasts until its leader resigns or the candidate withdraws. Each lease it loses ends one hold; it is then
nominated anew, behind the others. Whoever ends a candidacy ends it first and gives the key back then, so nothing can
nominate it again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

from raftmeta.errors import Fatal, ForkedProcess, IdConflict, NodeClosed, RaftmetaError
from raftmeta.interfaces import (
    AioHeld,
    AioLeaderElection,
    Data,
    Leader,
    LeaderChange,
    LeaderListener,
    checked_callback,
    listener_call,
)
from raftmeta.operations import KeyRecord
from raftmeta.recipes.deadline import DEFAULT_TIMEOUT_S, Deadline
from raftmeta.recipes.face import Face
from raftmeta.recipes.held import TUNE_GIVE_BACK_S, Hold, give_back_quietly, take_place
from raftmeta.recipes.keys import name_in, part_of, prefix_of, to_bytes, unpack_holder
from raftmeta.recipes.listeners import Failures, Listeners, Strand
from raftmeta.recipes.mirror import Mirror
from raftmeta.recipes.part import Followed

__all__ = ["Candidacy", "Election"]

TUNE_PAUSE_S = 0.2  # between attempts to nominate a candidate anew

_LOG = logging.getLogger(__name__)


def oldest(records: Iterable[KeyRecord]) -> KeyRecord | None:
    """The candidate that leads."""
    return min(records, key=lambda record: record.create_revision, default=None)


class Candidacy:
    """One candidate from nomination to resignation, over all its holds.

    hold: its place, None before it has one. lead: the same once it leads, until it is lost.
    """

    def __init__(self, face: Face, id: str, key: str, data: bytes) -> None:
        self.id = id
        self.key = key
        self.data = data
        self.hold: Hold | None = None
        self.lead: Hold | None = None
        self.is_over = False
        self.news = face.signal()  # of lead and is_over
        self._lock = threading.RLock()
        self._on_elected: list[Strand[Any]] = []
        self._on_lost: list[Strand[Any]] = []

    def tell_to(self, face: Face, failures: Failures, on_elected: Any, on_lost: Any) -> None:
        """Whom to call. One strand each: a leader that works inside on_elected must still be told of the loss."""
        if on_elected is not None:
            checked_callback(on_elected, "on_elected")
            self._on_elected.append(Strand(face, on_elected, failures))
        if on_lost is not None:
            checked_callback(on_lost, "on_lost")
            self._on_lost.append(Strand(face, on_lost, failures))

    def elected(self, hold: Hold) -> None:
        """Idempotent for one hold."""
        with self._lock:
            if self.lead is hold or hold.is_over or self.is_over:
                return
            self.lead = hold
        for strand in self._on_elected:
            strand.tell(hold.shown)
        hold.on_lost(self._lost)
        self.news.set()

    def _lost(self, hold: Hold) -> None:
        for strand in self._on_lost:
            strand.tell(hold.shown)

    def end(self) -> None:
        with self._lock:
            self.is_over = True
            self.lead = None
        self.news.set()

    async def next_lead(self) -> Hold | None:
        """The lead that is held now, or the next one; None: the candidacy is over."""
        while not self.is_over:
            self.news.clear()
            lead = self.lead
            if lead is not None and not lead.is_over:
                return lead
            if not self.is_over:
                await self.news.wait()
        return None


class Election(Followed, AioLeaderElection):
    """The election of one service, as coroutines. ttl_s: how many seconds a silent leader keeps the lead."""

    def __init__(self, service: str, *, ttl_s: float) -> None:
        super().__init__(f"election {service!r}", prefix_of("elections", service, "service"))
        self._service = service
        self._ttl_s = ttl_s
        self._candidacies: dict[str, Candidacy] = {}
        self._leader: Leader | None = None  # as of the mirror

    @property
    def service(self) -> str:
        return self._service

    def _set_up(self, face: Face) -> None:
        super()._set_up(face)
        self._listeners: Listeners[LeaderChange] = Listeners(face, self.failures, LeaderChange)

    # --- running ------------------------------------------------------------------------------------------------------
    async def nominate(
        self,
        candidate: str,
        data: Data = b"",
        *,
        on_elected: Callable[[Any], object] | None = None,
        on_lost: Callable[[Any], object] | None = None,
        timeout_s: float | None = 5.0,
    ) -> bool:
        await self._nominate(candidate, data, on_elected, on_lost, timeout_s)
        return self.lead(candidate) is not None

    async def _nominate(
        self, candidate: str, data: Data, on_elected: Any, on_lost: Any, timeout_s: float | None
    ) -> Candidacy:
        """The candidacy that runs already, or a new one with a place."""
        candidacy = Candidacy(self.face, candidate, self._prefix + part_of(candidate, "candidate"), to_bytes(data))
        candidacy.tell_to(self.face, self.failures, on_elected, on_lost)
        with self._lock:
            running = self._candidacies.setdefault(candidate, candidacy)
        if running is candidacy:
            try:
                await self._enlist(candidacy, 0, Deadline(timeout_s))
            except BaseException:
                self._end_candidacy(candidacy)
                raise
        return running

    async def _enlist(self, candidacy: Candidacy, replaces: int, deadline: Deadline) -> None:
        """Take a place behind all others; on return it is known whether it leads."""
        face = self.face
        mirror = await self._follow(timeout_s=deadline.left_s())
        hold = Hold(face, candidacy.key, candidacy.id, candidacy.data)
        await take_place(face, hold, ttl_s=self._ttl_s, replaces=replaces, deadline=deadline)
        candidacy.hold = hold
        hold.on_lost(lambda lost: self._lost(candidacy, lost))
        if candidacy.is_over or self._is_closed:  # meanwhile
            await give_back_quietly(hold)
            return
        hold.check_record(mirror.revision, mirror.records.get(hold.key.encode()))
        first = oldest((await face.verbs.range(prefix=self._prefix)).records)
        if first is not None and first.create_revision == hold.epoch:
            candidacy.elected(hold)

    def _lost(self, candidacy: Candidacy, hold: Hold) -> None:
        if not candidacy.is_over and not self._is_closed:
            self.face.spawn(self._nominate_anew(candidacy, hold.epoch), "candidate")

    async def _nominate_anew(self, candidacy: Candidacy, replaces: int) -> None:
        face = self._face
        if face is None or candidacy.is_over or self._is_closed:
            return
        try:
            await self._enlist(candidacy, replaces, Deadline(DEFAULT_TIMEOUT_S))
        except (IdConflict, NodeClosed, ForkedProcess, Fatal) as error:
            _LOG.warning("candidacy ended candidate=%s reason=%s", candidacy.id, error)
            self._end_candidacy(candidacy)
        except RaftmetaError as error:
            _LOG.info("nominated again soon candidate=%s reason=%s", candidacy.id, error)
            candidacy.news.clear()
            await candidacy.news.wait(TUNE_PAUSE_S)
            face.spawn(self._nominate_anew(candidacy, replaces), "candidate")  # behind others that wait

    def _end_candidacy(self, candidacy: Candidacy) -> None:
        with self._lock:
            if self._candidacies.get(candidacy.id) is candidacy:
                del self._candidacies[candidacy.id]
        candidacy.end()

    def lead(self, candidate: str) -> AioHeld | None:
        candidacy = self._candidacies.get(candidate)
        lead = None if candidacy is None else candidacy.lead
        return cast(AioHeld, lead.shown) if lead is not None and lead.held() else None

    async def resign(self, leader: str, *, timeout_s: float | None = 5.0) -> None:
        face = self.face
        candidacy = self._candidacies.get(leader)
        if candidacy is None or candidacy.hold is None:
            return  # nobody, or one that is still on its way into the line
        if candidacy.lead is None or candidacy.lead.is_over:  # or it leads, and the mirror has not said so yet
            first = oldest((await face.read_range(self._prefix, timeout_s=timeout_s)).records)
            if first is None or first.create_revision != candidacy.hold.epoch:
                return
        await self._leave(candidacy, timeout_s)

    async def withdraw(self, candidate: str, *, timeout_s: float | None = 5.0) -> None:
        self.face  # noqa: B018  # raises where it is closed
        candidacy = self._candidacies.get(candidate)
        if candidacy is not None:
            await self._leave(candidacy, timeout_s)

    async def _leave(self, candidacy: Candidacy, timeout_s: float | None) -> None:
        """End it first, so that nothing nominates it again; give its place back then."""
        self._end_candidacy(candidacy)
        if candidacy.hold is not None:
            await candidacy.hold.give_back(timeout_s=timeout_s)

    async def terms(self, candidate: str, data: Data = b"") -> AsyncIterator[AioHeld]:
        candidacy = await self.begin_terms(candidate, data)
        try:
            while (lead := await candidacy.next_lead()) is not None:
                yield cast(AioHeld, lead.shown)
                await lead.wait_lost()
        finally:
            await self.end_terms(candidacy)

    async def begin_terms(self, candidate: str, data: Data) -> Candidacy:
        """Nominate; the candidacy gives the leads, and none once it resigned, be it during the nomination."""
        return await self._nominate(candidate, data, None, None, DEFAULT_TIMEOUT_S)

    async def end_terms(self, candidacy: Candidacy) -> None:
        """Withdraw; a key that cannot be removed now goes with its lease."""
        self._end_candidacy(candidacy)
        if candidacy.hold is not None:
            await give_back_quietly(candidacy.hold)

    async def release(self, candidates: Iterable[str], *, timeout_s: float) -> None:
        """End these candidacies; what is not given back in time goes with its lease."""
        ended = [(name, self._candidacies.get(name)) for name in set(candidates)]
        for _, candidacy in ended:
            if candidacy is not None:
                self._end_candidacy(candidacy)
        holds = [candidacy.hold for _, candidacy in ended if candidacy is not None and candidacy.hold is not None]
        await give_back_quietly(*holds, timeout_s=timeout_s)

    # --- observing ----------------------------------------------------------------------------------------------------
    async def get_leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> str | None:
        leader = await self.leader(local=local, timeout_s=timeout_s)
        return None if leader is None else leader.id

    async def leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Leader | None:
        found = await self._known(keys_only=False, local=local, timeout_s=timeout_s)
        return self._leader_of(found.records, found.revision)

    def _leader_of(self, records: Iterable[KeyRecord], revision: int) -> Leader | None:
        first = oldest(records)
        if first is None:
            return None
        holder = unpack_holder(first.value)
        return Leader(holder.id or name_in(first.key, self._prefix), holder.data, first.create_revision, revision)

    async def add_listener(self, listener: LeaderListener, *, timeout_s: float | None = 5.0) -> None:
        listener_call(LeaderChange, listener)  # refuse it before anything is read
        await self._follow(timeout_s=timeout_s)
        self._listeners.add(listener)

    async def remove_listener(self, listener: LeaderListener) -> None:
        self._listeners.remove(listener)

    def _on_open(self, mirror: Mirror) -> None:
        self._leader = self._leader_of(mirror.records.values(), mirror.revision)

    def _on_change(self, mirror: Mirror) -> None:
        records = list(mirror.records.values())
        first = oldest(records)
        for candidacy in list(self._candidacies.values()):
            hold = candidacy.hold
            if hold is not None:
                hold.check_record(mirror.revision, mirror.records.get(hold.key.encode()))
                if first is not None and first.create_revision == hold.epoch:
                    candidacy.elected(hold)
        leader, former = self._leader_of(records, mirror.revision), self._leader
        self._leader = leader
        if leader != former or mirror.coalesced:
            self._listeners.tell(LeaderChange(self._service, leader, mirror.revision, mirror.coalesced))

    # --- the end ------------------------------------------------------------------------------------------------------
    async def close(self, *, timeout_s: float = TUNE_GIVE_BACK_S) -> None:
        """timeout_s: seconds for giving back; what is not given back by then goes with its lease."""
        if not self._end():
            return
        self._listeners.close()
        with self._lock:
            candidacies, self._candidacies = list(self._candidacies.values()), {}
        for candidacy in candidacies:
            candidacy.end()
        holds = [candidacy.hold for candidacy in candidacies if candidacy.hold is not None]
        await give_back_quietly(*holds, timeout_s=timeout_s)
        await self._unfollow()
