"""Callbacks of a node's watches, on threads that all of them share."""

class WatchCallbacks:
    """Whoever has news is called in turn; one that does not come back is left to its thread, and another goes on."""

class Callback:
    """One of them."""
