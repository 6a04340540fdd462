"""The doors of a node: which protocols there are (raftmeta/face/door.pxd)."""

DOORS: tuple[tuple[str, str, str], ...]
"""Of each protocol: the address in config.Identity, the module and its class."""

class OpenDoor:
    """A node's handle of one of its doors; a protocol's module derives from it."""
