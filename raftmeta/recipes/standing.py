"""The part of a candidate that is the same over every store: its place, its lead, and its end.

It decides that a lead is told once, and never after the end. It asks no store: recipes/candidacy and
backends/zookeeper nominate.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

__all__ = ["Standing"]


class _Place(Protocol):
    """A place that may be lost."""

    @property
    def is_over(self) -> bool: ...

    def on_lost(self, callback: Callable[[Any], None]) -> object:
        """Call back once when it is lost."""


H = TypeVar("H", bound=_Place)


class Standing(Generic[H]):
    """hold: its place, None before it has one. lead: the same from when it leads until it is over.

    tell_elected, tell_lost: called with the place, each by a strand of its own: a leader that works inside the first
    must still be told of the loss. on_news: called when lead or is_over changed.
    """

    def __init__(
        self,
        id: str,
        data: bytes,
        tell_elected: Callable[[H], object],
        tell_lost: Callable[[H], None],
        on_news: Callable[[], object],
    ) -> None:
        self.id = id
        self.data = data
        self.hold: H | None = None
        self.lead: H | None = None
        self.is_over = False
        self._tell_elected, self._tell_lost, self._on_news = tell_elected, tell_lost, on_news
        self._lock = threading.RLock()

    @property
    def is_leading(self) -> bool:
        return self.lead is not None and not self.lead.is_over

    def elected(self, hold: H) -> None:
        """Its place leads. Idempotent."""
        with self._lock:
            if self.lead is hold or hold.is_over or self.is_over:
                return
            self.lead = hold
        self._tell_elected(hold)
        hold.on_lost(self._tell_lost)
        self._on_news()

    def end(self) -> H | None:
        """It is not nominated again. Returns its place, to be given back."""
        with self._lock:
            self.is_over, self.lead = True, None
        self._on_news()
        return self.hold
