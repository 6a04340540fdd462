"""A machine with a watch hub for tests and benchmarks (raftmeta/machine/watches.pxd has the rules)."""

from __future__ import annotations

class HandledWatch:
    """One watch of a WatchedMachine; items are msgpack as docs/formats.md "Results" has them."""

    def take(self, items_max: int = 0xFFFFFFFF, bytes_max: int = 0xFFFFFFFF) -> tuple[int, bytes]:
        """(count, encoded items one after another), taken without the GIL."""

    def close(self) -> None:
        """Remove the watch from its hub."""

class WatchedMachine:
    """A machine whose changes go to a hub with queues of queue_bytes_max bytes."""

    def __init__(self, *, queue_bytes_max: int = 1 << 24, pool_bytes_max: int = 1 << 28) -> None: ...
    def apply(self, payload: bytes, *, wall_ms: int = 0, times: int = 1, is_seen: bool = True) -> int:
        """Apply the command `times` times and publish each. is_seen=False: the hub is not told, as when a snapshot is
        installed. Returns the revision."""

    def open_purse(self) -> int:
        """A client's purse, for add()."""

    def purse_bytes(self, purse: int) -> int:
        """What waits for this client."""

    @property
    def pool_bytes(self) -> int:
        """What waits for all clients."""

    def add(
        self, key: bytes, end: bytes, *, start: int = 0, filter: int = 0, owner: int = 0, purse: int = 0
    ) -> HandledWatch:
        """Watch [key, end) from revision start on, 0: after the newest. purse: of its client, 0: none."""

    def pump(self, changes_max: int = 1000) -> bool:
        """Replay to watches that are behind; whether there is more to do at once."""

    def take_woken(self, most: int = 64) -> list[int]:
        """Owners of watches with something new since the last call."""

    def close(self) -> None:
        """Tell all watches that the node stops."""

    @property
    def revision(self) -> int:
        """Revision of the machine."""

    @property
    def compacted(self) -> int:
        """History floor of the machine."""
