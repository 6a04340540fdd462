"""One candidate of an election, from its nomination to its resignation.

It has a place, and stands behind all others anew whenever that place is lost. To withdraw is to end the candidacy first
and to give the place back then, so nothing can nominate it again. recipes/election decides who leads.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from raftmeta.errors import Fatal, ForkedProcess, IdConflict, NodeClosed, RaftmetaError
from raftmeta.recipes.recipe import DEFAULT_TIMEOUT_S, Deadline, Hold
from raftmeta.recipes.standing import Standing

__all__ = ["Candidacy"]

TUNE_PAUSE_S = 0.2  # between attempts to nominate a candidate anew

_LOG = logging.getLogger(__name__)

Stand: TypeAlias = Callable[["Candidacy", Deadline, int], Awaitable[None]]
"""Takes a place and says so by stands(). The number: the epoch of the place that was lost, which may still be there."""

Forget: TypeAlias = Callable[["Candidacy"], object]
"""Ends it, for one whom nobody will nominate again."""

Tell: TypeAlias = Callable[[Hold], None]


class Candidacy(Standing[Hold]):
    """A candidate over a store with our verbs, whom nobody nominates twice at a time."""

    def __init__(self, first: Hold, stand: Stand, forget: Forget, tell_elected: Tell, tell_lost: Tell) -> None:
        self._face = first.face
        self._stand, self._forget = stand, forget
        self._news = first.face.signal()  # of lead and is_over
        super().__init__(first.id, first.data, tell_elected, tell_lost, self._news.set)

    def stands(self, hold: Hold) -> None:
        """It has this place from now on."""
        self.hold = hold
        hold.on_lost(lambda lost: self._spawn_anew(lost.epoch))

    async def next_lead(self) -> Hold | None:
        """The lead that is held now, or the next one; None: the candidacy is over."""
        while not self.is_over:
            self._news.clear()
            lead = self.lead
            if lead is not None and not lead.is_over:
                return lead
            if not self.is_over:
                await self._news.wait()
        return None

    def _spawn_anew(self, replaces: int) -> None:
        if not self.is_over:
            self._face.spawn(self._nominate_anew(replaces), "candidate")  # behind others that wait

    async def _nominate_anew(self, replaces: int) -> None:
        if self.is_over:
            return
        try:
            await self._stand(self, Deadline(DEFAULT_TIMEOUT_S), replaces)
        except (IdConflict, NodeClosed, ForkedProcess, Fatal) as error:
            _LOG.warning("candidacy ended candidate=%s reason=%s", self.id, error)
            self._forget(self)
        except RaftmetaError as error:
            _LOG.info("nominated again soon candidate=%s reason=%s", self.id, error)
            self._news.clear()
            await self._news.wait(TUNE_PAUSE_S)
            self._spawn_anew(replaces)
