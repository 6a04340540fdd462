"""Who led when, as the dashboard saw it: one reign for each leader of a term.

All visitors of a dashboard see the same reigns. They begin with its start, or with the first visitor who may look. A
leader that came and went between two looks is not seen; its term is missing then.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

__all__ = ["Reigns"]

REIGNS_MAX = 200


@dataclass(slots=True)
class _Reign:
    term: int
    leader: str  # "": nobody was seen to lead
    begun_s: float
    ended_s: float | None = None


class Reigns:
    """The newest REIGNS_MAX of them. Times are seconds since 1970."""

    def __init__(self) -> None:
        self._seen: deque[_Reign] = deque(maxlen=REIGNS_MAX)
        self._term = 0

    def saw(self, term: int, leader: str, now_s: float) -> None:
        """A node said so just now. A term below the newest one tells nothing."""
        if term < self._term:
            return
        self._term = term
        last = self._seen[-1] if self._seen else None
        if last is not None and (last.term, last.leader) == (term, leader):
            return
        if last is not None and last.ended_s is None:
            last.ended_s = now_s
        self._seen.append(_Reign(term, leader, now_s))

    def changed(self) -> list[int]:
        """Terms whose leader followed another one that was seen."""
        led = [one.term for one in self._seen if one.leader]
        return [term for before, term in pairwise(led) if term > before]

    def shape(self) -> list[dict[str, Any]]:
        """Newest first."""
        return [
            {"term": one.term, "leader": one.leader, "begun_s": one.begun_s, "ended_s": one.ended_s}
            for one in reversed(self._seen)
        ]
