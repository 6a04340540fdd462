"""The states of a connection, as programs compare them."""

from __future__ import annotations

__all__ = ["CONNECTION_STATE"]


class CONNECTION_STATE:
    DISCONNECTED = 0
    CONNECTING = 1
    CONNECTED = 2
