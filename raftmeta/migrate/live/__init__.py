"""A live move from a ZooKeeper ensemble to a door of raftmeta: follow, verify, cut over in seconds, and go back.

    with live.Move("zk1:2181,zk2:2181", "raft1:2181", Path("move")) as move:
        move.follow(lambda: ended)
        assert not move.verify().differences
        move.cut_over()

It needs kazoo (`pip install 'raftmeta[zookeeper]'`). `raftmeta migrate zookeeper live` does the same on the command
line. docs/migration-live.md says what is kept, and what a cut over does.
"""

from raftmeta.migrate.live.access import Access
from raftmeta.migrate.live.mirror import Found
from raftmeta.migrate.live.move import Move, Moved, read_status

__all__ = ["Access", "Found", "Move", "Moved", "read_status"]
