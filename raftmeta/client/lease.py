"""A lease as a client holds it.

It decides when this process must believe the lease lost: by its own clock, from *before* the last acknowledged
keep-alive was sent, less a margin for clocks that drift (docs/decisions/README.md "Leases"). A lease cannot protect
the time between a check and the act that follows, nor a pause of the machine. Only a fence does that.

Unlike a node's leases these are kept alive by an event loop: a host that holds the GIL for a time to live loses them.
"""

from __future__ import annotations

import logging

from raftmeta.client.channel import Channel
from raftmeta.client.kept import KeptLease
from raftmeta.verbs.lease import HeldLease

LOOKS_PER_TTL = 20

_LOG = logging.getLogger(__name__)


class LeaseBase(HeldLease):
    """The part that the leases of both clients share."""

    def __init__(self, channel: Channel, id: int, kept: KeptLease) -> None:
        self._is_lost = False  # somebody was told so: it is never held again, whatever a late keep-alive says
        self._channel = channel
        self._kept = kept
        self._id = id

    @property
    def id(self) -> int:
        return self._id

    @property
    def ttl_s(self) -> float:
        return self._kept.ttl_s

    def remaining_s(self) -> float:
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
