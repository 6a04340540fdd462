"""Callbacks of a node's watches, on threads that all of them share."""

class WatchCallbacks:
    """Callbacks with news are called in turn. One that does not return keeps its thread, and another goes on."""

class Callback:
    """One of them."""
