"""Which changes are told to an armed path: for a store that tells changes of keys by their revisions."""

from __future__ import annotations

from raftmeta.metastore.armed import ABSENT, Armed
from raftmeta.metastore.carrier import ChangeType
from raftmeta.operations import KeyRecord, Znode, ZnodeRecord, ZnodeStat
from raftmeta.results import WatchEvent

CREATED, DELETED, CHANGED = ChangeType.CREATED, ChangeType.DELETED, ChangeType.DATA_CHANGED
CHILDREN = ChangeType.CHILDREN_CHANGED


def record(created: int, data: int, children: int) -> KeyRecord:
    made = ZnodeRecord(b"k", b"", created, max(created, data, children), 1, 0)
    stat = ZnodeStat(created, data, 0, 0, 0, 0, 0, 0, 0, 0, children)
    made._znode = Znode(stat, "persistent", 0, False, ())
    return made


def put(revision: int, *, created: int = 1, data: int = 1, children: int = 1) -> WatchEvent:
    return WatchEvent("put", record(created, data, children), None, revision)


def delete(revision: int) -> WatchEvent:
    return WatchEvent("delete", KeyRecord(b"k", b"", 0, revision, 0, 0), None, revision)


def test_each_kind_of_change_is_told_once() -> None:
    """The extension of a znode says what an entry changed of it."""
    armed = Armed()
    armed.arm_data("/a", 5, 1)
    armed.arm_children("/a", 5, 1)
    assert armed.heard(put(6, children=6), "/a") == [(CHILDREN, "/a")]
    assert armed.heard(put(7), "/a") == [], "its list of rights"
    assert armed.heard(put(8, data=8), "/b") == []
    assert armed.heard(put(9, data=9, children=9), "/a") == [(CHANGED, "/a")]
    assert armed.heard(put(10, data=10), "/a") == []
    assert not armed


def test_a_creation_and_an_end_are_told_to_who_waits_for_them() -> None:
    """Armed by a read that found nothing, and by one that found the znode."""
    armed = Armed()
    armed.arm_data("/a", 5, ABSENT)
    assert armed.heard(delete(6), "/a") == [], "a plain key stood there"
    assert armed.heard(put(7, created=7, data=7), "/a") == [(CREATED, "/a")]
    armed.arm_data("/a", 7, 7)
    armed.arm_children("/a", 7, 7)
    assert armed.heard(delete(8), "/a") == [(DELETED, "/a")]
    assert not armed, "the end of a znode is the end of what waits for its children"


def test_a_znode_made_anew_in_one_entry_is_created() -> None:
    """A multi that removes and makes it is one change of its key, and the children are those of another znode."""
    armed = Armed()
    armed.arm_data("/a", 5, 1)
    armed.arm_children("/a", 5, 1)
    assert armed.heard(put(6, created=6, data=6, children=6), "/a") == [(CREATED, "/a")]
    assert not armed


def test_a_read_shows_changes_up_to_its_revision() -> None:
    """Those are not told, when they come later; those behind it are, when they came before its answer."""
    armed = Armed()
    armed.begin_read()
    assert armed.heard(put(6, data=6), "/a") == []
    assert armed.heard(put(8, data=8), "/a") == []
    assert armed.arm_data("/a", 7, 6) == [(CHANGED, "/a")]
    armed.end_read()
    armed.begin_read()
    assert armed.arm_data("/a", 9, 8) == []
    armed.end_read()
    assert armed.heard(put(9, data=9), "/a") == [], "shown by the read"
    assert armed.heard(put(10, data=10), "/a") == [(CHANGED, "/a")]


def test_a_gap_of_history_is_told_by_the_state_behind_it() -> None:
    """As ZooKeeper's setWatches does for a client that comes back."""
    armed = Armed()
    for path, zxid in (("/made", ABSENT), ("/gone", 3), ("/set", 3), ("/same", 3), ("/absent", ABSENT)):
        armed.arm_data(path, 5, zxid)
    armed.arm_data("/late", 21, 3)
    for path in ("/parent", "/gone", "/same"):
        armed.arm_children(path, 5, 3)
    present = {
        "/made": record(9, 9, 9),
        "/set": record(3, 9, 3),
        "/same": record(3, 3, 3),
        "/late": record(3, 20, 3),
        "/parent": record(3, 3, 9),
    }
    assert sorted(armed.reset(20, present), key=str) == sorted(
        [(CREATED, "/made"), (DELETED, "/gone"), (CHANGED, "/set"), (CHILDREN, "/parent")], key=str
    )
    assert armed.reset(20, present) == []
    armed.clear()
    assert not armed
