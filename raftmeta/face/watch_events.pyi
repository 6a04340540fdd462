"""The items of a native watch as Python objects, made once for all watches of a node that are told the same."""

class WatchEvents:
    """The events of a node's newest batches that other watches have before them."""
