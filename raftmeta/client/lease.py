"""A lease as a client holds it.

It decides when this process must believe the lease lost: by its own clock, from *before* the last acknowledged
keep-alive was sent, less a margin for clocks that drift (decisions.md "Leases"). What it cannot do: protect what
happens between a check and the act that follows, or across a pause of the machine. Only a fence does that.

Unlike a node's leases these are kept alive by an event loop: a host that holds the GIL for a time to live loses them.
"""

from __future__ import annotations

import logging

from raftmeta.client.channel import Channel
from raftmeta.client.kept import KeptLease
from raftmeta.errors import InvalidArgument

LOOKS_PER_TTL = 20
TTL_S_MIN, TTL_S_MAX = 0.1, 10 * 365 * 86400


def check_ttl(ttl_s: float) -> float:
    """Raises InvalidArgument unless ttl_s is a time to live."""
    is_number = isinstance(ttl_s, int | float) and not isinstance(ttl_s, bool)
    if not is_number or not TTL_S_MIN <= ttl_s <= TTL_S_MAX:
        raise InvalidArgument(f"ttl_s: must be from {TTL_S_MIN} to {TTL_S_MAX} seconds, not {ttl_s!r}", field="ttl_s")
    return float(ttl_s)


_LOG = logging.getLogger(__name__)


class LeaseBase:
    """What the leases of both faces share."""

    def __init__(self, channel: Channel, id: int, kept: KeptLease) -> None:
        self._is_lost = False  # somebody was told so: it is never held again, whatever a late keep-alive says
        self._channel = channel
        self._kept = kept
        self.id = id
        self.ttl_s = kept.ttl_s

    def held(self) -> bool:
        """Whether it is certainly held now, by this process's clock.

        Counted from before the last acknowledged keep-alive was sent, less 5 % for clocks that drift. Between this
        answer and what you do next the process may be paused: only a fence protects that. Once false it stays
        false, and the lease is kept alive no longer.
        """
        return self.remaining_s() > 0

    def remaining_s(self) -> float:
        """Seconds for which it is certainly held without another keep-alive."""
        if self._is_lost:
            return 0.0
        left_s = self._kept.left_s() if self._channel.keeps(self.id, self._kept) else 0.0
        if left_s <= 0:
            self._is_lost = True
            self._channel.drop_lease(self.id, self._kept)  # its keys go, and others can have what it stood for
        return max(0.0, left_s)

    def look_pause_s(self) -> float:
        """How long to wait before looking again whether it is held."""
        return min(max(self.remaining_s(), 0.001), self.ttl_s / LOOKS_PER_TTL)

    def __del__(self) -> None:
        """Nobody holds this object any more, and nobody gave the lease back: it is kept alive no longer."""
        if self._is_lost or not self._channel.keeps(self.id, self._kept):
            return
        self._channel.drop_lease(self.id, self._kept)
        _LOG.info(
            "lease collected and not revoked: its keys go when its time is over; hold the object for as long as it is "
            "to be kept alive lease=%d ttl_s=%g",
            self.id,
            self.ttl_s,
        )

    def __repr__(self) -> str:
        return f"<Lease {self.id} ttl_s={self.ttl_s:g} {'held' if self.held() else 'lost'}>"
