"""One candidate of an election, from its nomination to its resignation.

It has a place, and stands behind all others anew whenever that place is lost. To withdraw is to end the candidacy first
and to give the place back then, so nothing can nominate it again. recipes/election decides who leads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from raftmeta.errors import Fatal, ForkedProcess, IdConflict, NodeClosed, RaftmetaError
from raftmeta.recipes.recipe import DEFAULT_TIMEOUT_S, Deadline, Hold

__all__ = ["Candidacy"]

TUNE_PAUSE_S = 0.2  # between attempts to nominate a candidate anew

_LOG = logging.getLogger(__name__)

Stand: TypeAlias = Callable[["Candidacy", Deadline, int], Awaitable[None]]
"""Takes a place and says so by stands(). The number: the epoch of the place that was lost, which may still be there."""

Forget: TypeAlias = Callable[["Candidacy"], object]
"""Ends it, for one whom nobody will nominate again."""

Tell: TypeAlias = Callable[[Hold], None]


class Candidacy:
    """hold: its place, None before it has one. lead: the same from when it leads until it is over."""

    def __init__(self, first: Hold, stand: Stand, forget: Forget, tell_elected: Tell, tell_lost: Tell) -> None:
        self.id = first.id
        self.data = first.data
        self.hold: Hold | None = None
        self.lead: Hold | None = None
        self.is_over = False
        self._face = first.face
        self._stand, self._forget = stand, forget
        # One strand each: a leader that works inside on_elected must still be told of the loss.
        self._tell_elected, self._tell_lost = tell_elected, tell_lost
        self._news = first.face.signal()  # of lead and is_over
        self._lock = threading.RLock()

    def stands(self, hold: Hold) -> None:
        """It has this place from now on."""
        self.hold = hold
        hold.on_lost(lambda lost: self._spawn_anew(lost.epoch))

    def elected(self, hold: Hold) -> None:
        """Its place leads. Idempotent."""
        with self._lock:
            if self.lead is hold or hold.is_over or self.is_over:
                return
            self.lead = hold
        self._tell_elected(hold)
        hold.on_lost(self._tell_lost)
        self._news.set()

    def end(self) -> Hold | None:
        """It is not nominated again. Returns its place, to be given back."""
        with self._lock:
            self.is_over, self.lead = True, None
        self._news.set()
        return self.hold

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
