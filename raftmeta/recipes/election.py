"""KIP-30 Leader Election on a store: one leased key for each candidate, and the oldest of them leads.

    _raftmeta/elections/controller/a    create revision 12   leads, epoch 12
    _raftmeta/elections/controller/b    create revision 15   is next

Candidates are elected in the order in which they were nominated, as create revisions order them. The lead passes in the
very revision that removes the key before it, so there is never a moment with two leaders and none without one while
somebody is eligible. A candidate that led once leads until its key is gone: nobody can get in before it. Hence its
create revision is its epoch, greater than that of every earlier leader, and its key with that revision is its fence.

There is no herd: a candidate learns of its election from a mirror of these few keys, and asks the store nothing.

A candidacy lasts until its leader resigns or the candidate withdraws, over all lost leases (recipes/candidacy).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, cast

from raftmeta.interfaces import AioHeld, AioLeaderElection, Data, Leader, LeaderChange, LeaderListener
from raftmeta.operations import KeyRecord
from raftmeta.recipes.candidacy import Candidacy
from raftmeta.recipes.recipe import Deadline, Followed, Hold, Mirror, give_back_quietly, prefix_of

__all__ = ["Election"]


class Election(Followed[LeaderChange, LeaderListener], AioLeaderElection):
    """The election of one service, as coroutines. ttl_s: how many seconds a silent leader keeps the lead."""

    _mine: dict[str, Candidacy]

    def __init__(self, service: str, *, ttl_s: float) -> None:
        super().__init__(f"election {service!r}", prefix_of("elections", service, "service"), ttl_s, LeaderChange)
        self._service = service
        self._leader: Leader | None = None  # as of the mirror

    @property
    def service(self) -> str:
        return self._service

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

    async def _nominate(self, id: str, data: Data, on_elected: Any, on_lost: Any, timeout_s: float | None) -> Candidacy:
        """The candidacy that runs already, or a new one with a place."""
        tell_elected, tell_lost = self._telling(on_elected, "on_elected"), self._telling(on_lost, "on_lost")
        new = Candidacy(self._place(id, data, "candidate"), self._stand, self._end_of, tell_elected, tell_lost)
        with self._lock:
            candidacy = self._mine.setdefault(id, new)
        if candidacy is new:
            try:
                await self._stand(new, Deadline(timeout_s))
            except BaseException:
                self._end_of(new)
                raise
        return candidacy

    async def _stand(self, candidacy: Candidacy, deadline: Deadline, replaces: int = 0) -> None:
        """Take a place behind all others; on return it is known whether it leads."""
        hold = self._place(candidacy.id, candidacy.data, "candidate")
        await self._take(hold, deadline, replaces=replaces)
        candidacy.stands(hold)
        if await self._keeps(hold, is_wanted=not candidacy.is_over):
            found = await self.face.verbs.range(prefix=self._prefix)
            if _leads(hold, self._leader_of(found.records)):
                candidacy.elected(hold)

    def lead(self, candidate: str) -> AioHeld | None:
        candidacy = self._mine.get(candidate)
        lead = None if candidacy is None else candidacy.lead
        return cast(AioHeld, lead.shown) if lead is not None and lead.held() else None

    async def terms(self, candidate: str, data: Data = b"") -> AsyncIterator[AioHeld]:
        candidacy = await self._nominate(candidate, data, None, None, 5.0)
        try:
            while (lead := await candidacy.next_lead()) is not None:
                yield cast(AioHeld, lead.shown)
                await lead.wait_lost()
        finally:
            await give_back_quietly(*self._end_of(candidacy))

    async def resign(self, leader: str, *, timeout_s: float | None = 5.0) -> None:
        face, candidacy = self.face, self._mine.get(leader)
        if candidacy is None or candidacy.hold is None:
            return  # nobody, or one that is still on its way into the line
        if candidacy.lead is None or candidacy.lead.is_over:  # or it leads, and the mirror has not said so yet
            found = await face.read_range(self._prefix, timeout_s=timeout_s)
            if not _leads(candidacy.hold, self._leader_of(found.records)):
                return
        await self._leave(candidacy, timeout_s)

    async def withdraw(self, candidate: str, *, timeout_s: float | None = 5.0) -> None:
        self.face  # noqa: B018  # raises where it is closed
        if (candidacy := self._mine.get(candidate)) is not None:
            await self._leave(candidacy, timeout_s)

    async def _leave(self, candidacy: Candidacy, timeout_s: float | None) -> None:
        for hold in self._end_of(candidacy):  # first, so that nothing nominates it again
            await hold.give_back(timeout_s=timeout_s)

    def _end_of(self, candidacy: Candidacy) -> list[Hold]:
        with self._lock:
            if self._mine.get(candidacy.id) is candidacy:
                self._mine.pop(candidacy.id, None)
        return self._ended([candidacy])

    def _ended(self, mine: list[Candidacy]) -> list[Hold]:
        return [hold for candidacy in mine if (hold := candidacy.end()) is not None]

    async def get_leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> str | None:
        leader = await self.leader(local=local, timeout_s=timeout_s)
        return None if leader is None else leader.id

    async def leader(self, *, local: bool = False, timeout_s: float | None = 5.0) -> Leader | None:
        found = await self._known(local=local, timeout_s=timeout_s)
        return self._leader_of(found.records, found.revision)

    def _leader_of(self, records: Iterable[KeyRecord], revision: int = 0) -> Leader | None:
        first = min(records, key=lambda record: record.create_revision, default=None)
        if first is None:
            return None
        holder = self._holder_of(first)
        return Leader(holder.id, holder.data, first.create_revision, revision)

    def _on_open(self, mirror: Mirror) -> None:
        self._leader = self._leader_of(mirror.records.values(), mirror.revision)

    def _on_change(self, mirror: Mirror) -> None:
        leader, former = self._leader_of(list(mirror.records.values()), mirror.revision), self._leader
        for candidacy in list(self._mine.values()):
            if candidacy.hold is not None and _leads(candidacy.hold, leader):
                candidacy.elected(candidacy.hold)
        self._leader = leader
        if leader != former or mirror.coalesced:
            self._listeners.tell(LeaderChange(self._service, leader, mirror.revision, mirror.coalesced))


def _leads(hold: Hold, leader: Leader | None) -> bool:
    return leader is not None and leader.epoch == hold.epoch
