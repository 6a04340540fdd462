"""The table of watches of the ZooKeeper door (doors/zookeeper/watch_table), alone."""

class Table:
    """Watches of at most 16 connections, `count_max` of them in all."""

    def __init__(self, count_max: int) -> None: ...
    def add(self, place: int, path: bytes, mode: int) -> int:
        """Set a watch; a number of raftmeta/status.pxd."""

    def modes(self, place: int, path: bytes) -> int:
        """Which modes this connection has at the path."""

    def remove(self, place: int, path: bytes, modes: int) -> None:
        """Take these modes away."""

    def drop(self, place: int) -> None:
        """The connection is gone."""

    def is_watched(self, path: bytes, modes: int) -> bool:
        """Whether an event in these modes would reach anybody."""

    def fire(self, path: bytes, modes: int, spent: int) -> list[int]:
        """The connections that an event reaches; one may stand there twice."""

    def counts(self) -> tuple[int, int, int, int]:
        """Modes that are set, watched paths, recursive ones, pairs of a connection and a path."""
