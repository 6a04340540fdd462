"""The small interface between a metastore and a store: how one session carries requests, changes and its own state.

A Source makes sessions, one after the other. A Carrier is one session: it lives until it expires or is closed, and
never comes back. All of it runs on the event loop of the metastore.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol, TypeAlias

from raftmeta.metastore.requests import Request, Response

__all__ = ["Asked", "Carrier", "ChangeType", "Give", "Listener", "SessionEvent", "Source"]

Give: TypeAlias = Callable[[Response], object]


class SessionEvent(Enum):
    """An event of a session. The values are the names of the meters, "" where there is none."""

    CONNECTED = "SyncConnects"
    CONNECTED_READ_ONLY = "ReadOnlyConnects"
    DISCONNECTED = "Disconnects"
    SASL_AUTHENTICATED = "SaslAuthentications"
    AUTH_FAILED = "AuthFailures"
    EXPIRED = "Expires"


class ChangeType(Enum):
    """Which method of a handler is called. The values are their names."""

    CREATED = "handle_creation"
    DELETED = "handle_deletion"
    DATA_CHANGED = "handle_data_change"
    CHILDREN_CHANGED = "handle_child_change"


class Listener(Protocol):
    """A metastore, as a carrier sees it."""

    def on_session(self, carrier: Carrier, event: SessionEvent) -> None:
        """AUTH_FAILED and EXPIRED are the last event of a carrier."""

    def on_change(self, carrier: Carrier, change: ChangeType, path: str) -> None:
        """The one change that an armed path is told."""


class Carrier(Protocol):
    """One session."""

    @property
    def session_id(self) -> int:
        """Its number; never that of an earlier session."""

    async def open(self) -> None:
        """Begin the session and tell the listener CONNECTED. Returns when it can be used.

        Ephemerals of the session before it are gone. It goes on trying until it is cancelled.
        Raises AuthFailed.
        """

    def submit(self, request: Request[Any], arm: bool, give: Give) -> None:
        """Ask, in the order of the calls. arm: tell the next change of what is read. A failure is a code.

        give: called once with the response, at the latest when the session ends, and perhaps at once. The changes that
        a response shows were told before it; a change that it does not show is told after it.
        """

    async def close(self) -> None:
        """End the session at once: its ephemerals go. Idempotent; never raises."""


class Asked:
    """One request under way, for carriers: it is answered once."""

    __slots__ = ("_give", "arm", "request")

    def __init__(self, request: Request[Any], arm: bool, give: Give) -> None:
        self.request = request
        self.arm = arm
        self._give: Give | None = give

    @property
    def is_answered(self) -> bool:
        return self._give is None

    def answer(self, response: Response) -> None:
        """The first answer counts."""
        give, self._give = self._give, None
        if give is not None:
            give(response)


class Source(Protocol):
    """Makes the sessions of one metastore."""

    def carrier(self, listener: Listener) -> Carrier:
        """The next session, not yet open. There is at most one open at a time."""

    async def close(self) -> None:
        """Free everything, when the last carrier is closed."""
