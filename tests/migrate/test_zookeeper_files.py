"""The reader of ZooKeeper's files without a ZooKeeper: two tiny files of a server 3.9.5, and what may happen to them.

data/zookeeper was made by a server that was restarted after four creates, and killed after six transactions more; of
the space that it allocated for the log 64 bytes were kept.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raftmeta import InvalidArgument
from raftmeta.migrate import SourceDamaged, ZooKeeperNode, ZooKeeperSource
from raftmeta.migrate.zookeeper_files import SnapshotFile, read_log
from raftmeta.migrate.zookeeper_handle import node_digest, whole_nodes

DATA = Path(__file__).parent / "data" / "zookeeper"
SNAPSHOT, LOG = DATA / "snapshot.5", DATA / "log.6"
STEP = 3  # bits: each byte is changed in two places or three, and all places are met
SPARE = 64  # zeros behind the last record
OPEN = ((31, "world", "anyone"),)


def nodes_of(folder: Path) -> dict[bytes, ZooKeeperNode]:
    with ZooKeeperSource(folder) as source:
        return {node.path: node for node in source.nodes()}


def snapshot_content(path: Path) -> object:
    file = SnapshotFile(path)
    nodes = [pair for batch in file.nodes() for pair in batch]
    return nodes, file.sessions, file.acls, file.digest, file.last_zxid


def log_content(path: Path, *, is_last: bool = True) -> list[bytes]:
    return [record.body for record in read_log(path, is_last=is_last)]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA, tmp_path / "version-2"))


@given(st.binary(min_size=1, max_size=40), st.binary(max_size=300), st.binary(min_size=60, max_size=60))
def test_the_digest_of_a_node_is_that_of_zlib(name: bytes, data: bytes, stat: bytes) -> None:
    """Path, data, then the stat in the order of DigestCalculator; nothing below /zookeeper."""
    record = len(data).to_bytes(4, "big") + data + bytes(8) + stat
    expected = zlib.crc32(b"/" + name + data + stat[:16] + stat[52:] + stat[16:52])
    assert node_digest(b"/" + name, record) == expected
    assert node_digest(b"/zookeeper/" + name, record) == 0
    assert node_digest(b"/", record) == zlib.crc32(data + stat[:16] + stat[52:] + stat[16:52])


@given(st.lists(st.tuples(st.binary(max_size=9), st.none() | st.binary(max_size=30)), max_size=9), st.integers(0, 400))
def test_only_whole_nodes_are_taken_from_a_window(nodes: list[tuple[bytes, bytes | None]], cut: int) -> None:
    """As many as stand there before a cut, or before the end of the nodes; never one that is not whole."""
    raw, ends = b"", [0]
    for path, data in nodes:
        if path == b"/":
            path = b"//"
        length = -1 if data is None else len(data)
        raw += struct.pack(">i", len(path)) + path + struct.pack(">i", length) + (data or b"") + bytes(68)
        ends.append(len(raw))
    for window in (raw[:cut], raw + struct.pack(">i", 1) + b"/" + bytes(80)):
        rows, end = whole_nodes(window, 0, 100)
        assert end == max(one for one in ends if one <= len(window))
        assert b"".join(struct.pack(">i", len(path)) + path + record for path, record in rows) == raw[:end]
    assert whole_nodes(raw, 0, 2)[1] == ends[min(2, len(nodes))]


def test_a_snapshot_and_its_log_are_the_tree() -> None:
    """Data and rights that were set, container, TTL, several at once, the end of a session."""
    with ZooKeeperSource(DATA) as source:
        nodes = {node.path: node for node in source.nodes()}
        assert source.position == "zxid 0xd"
        assert len(source.holders()) == 1
    assert list(nodes) == [
        *(b"/", b"/a", b"/a/box", b"/a/here", b"/a/none", b"/a/ttl", b"/m"),
        *(b"/zookeeper", b"/zookeeper/config", b"/zookeeper/quota"),
    ]
    assert (nodes[b"/a"].data, nodes[b"/a"].version, nodes[b"/a"].cversion) == (b"second", 1, 6)
    assert nodes[b"/a/none"].data is None
    assert (nodes[b"/a/none"].acl, nodes[b"/a/none"].aversion) == (((31, "ip", "10.0.0.1"),), 1)
    assert (nodes[b"/a/box"].is_container, nodes[b"/a/ttl"].ttl_ms) == (True, 60_000)
    assert nodes[b"/a/here"].owner != 0
    assert nodes[b"/m"].acl == OPEN


def test_items_leave_out_what_is_not_data_and_count_it() -> None:
    with ZooKeeperSource(DATA, ephemerals=False) as source:
        items = {item.key: item for item in source.items()}
        assert source.dropped == {"nodes below /zookeeper": 3, "ephemeral nodes": 1}
    assert set(items) == {b"/", b"/a", b"/a/box", b"/a/none", b"/a/ttl", b"/m"}
    assert items[b"/a"].counter == 6
    assert items[b"/m"].counter is None
    assert '"container":true' in items[b"/a/box"].metadata
    assert '"ttl_ms":60000' in items[b"/a/ttl"].metadata
    assert '"acl":[[31,"ip","10.0.0.1"]]' in items[b"/a/none"].metadata


@pytest.mark.parametrize(
    ("path", "content"), [(SNAPSHOT, snapshot_content), (LOG, log_content)], ids=["snapshot", "log"]
)
def test_a_flipped_bit_is_found_or_changes_nothing(
    path: Path, content: Callable[[Path], object], tmp_path: Path
) -> None:
    """Bits of every byte, one at a time: the right answer, or an error that names the file and a byte in it."""
    whole = path.read_bytes()
    right = content(path)
    harmless = 0
    for position in range(0, 8 * len(whole), STEP):
        changed = bytearray(whole)
        changed[position // 8] ^= 1 << position % 8
        target = tmp_path / path.name
        target.write_bytes(changed)
        try:
            assert content(target) == right, position
            harmless += 1
        except SourceDamaged as error:
            assert error.path == target
            assert 0 <= error.offset <= len(whole)
    assert harmless <= 8 * 8  # the database id of a log


def test_a_log_that_ends_anywhere_holds_the_transactions_before(tmp_path: Path) -> None:
    """A torn tail is what a crash leaves of the last log; in a log before another it is damage."""
    whole = LOG.read_bytes()
    right = log_content(LOG)
    ends = [0]
    target = tmp_path / LOG.name
    for length in range(len(whole)):
        target.write_bytes(whole[:length])
        found = log_content(target)
        assert found == right[: len(found)]
        assert len(found) - len(right[: ends[-1]]) in (0, 1)
        ends.append(len(found))
        target.write_bytes(whole[:length] + bytes(100))  # the same within space that was allocated before
        try:
            assert log_content(target) in (found, found[:-1])
        except SourceDamaged as error:
            assert error.offset <= length
    assert ends[-1] == len(right)


def test_a_snapshot_that_ends_anywhere_is_refused(tmp_path: Path) -> None:
    """But for two places where older servers ended theirs: those are whole, with everything in it."""
    whole = SNAPSHOT.read_bytes()
    right = snapshot_content(SNAPSHOT)
    target = tmp_path / SNAPSHOT.name
    complete = []
    for length in range(len(whole)):
        target.write_bytes(whole[:length])
        try:
            found = snapshot_content(target)
        except SourceDamaged as error:
            assert error.path == target
            continue
        assert found[:3] == right[:3]  # type: ignore[index]
        complete.append(length)
    assert len(complete) == 2
    target.write_bytes(whole + b"\0")
    with pytest.raises(SourceDamaged, match="more behind the end"):
        snapshot_content(target)


def test_a_damaged_snapshot_is_passed_over_for_the_one_before(copy: Path) -> None:
    """As a server does it; that the logs reach back far enough is checked like always."""
    right = nodes_of(copy)
    (copy / "snapshot.d").write_bytes(SNAPSHOT.read_bytes()[:300])
    with ZooKeeperSource(copy.parent) as source:
        assert {node.path: node for node in source.nodes()} == right
        assert "snapshot.d" in source.warnings[0]
    (copy / "snapshot.5").write_bytes(b"ZKSN")
    with pytest.raises(SourceDamaged, match=r"snapshot\.d"):
        ZooKeeperSource(copy.parent)


def record(session: int, zxid: int, kind: int, body: bytes) -> bytes:
    whole = struct.pack(">qiqqi", session, 0, zxid, 1_700_000_000_000, kind) + body
    return struct.pack(">qi", zlib.adler32(whole), len(whole)) + whole + b"B"


def text(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


RIGHTS = struct.pack(">ii", 1, 31) + text(b"world") + text(b"anyone")


def appended(copy: Path, *records: bytes) -> None:
    """More transactions behind the last one."""
    log = copy / LOG.name
    log.write_bytes(log.read_bytes()[:-SPARE] + b"".join(records))


def test_transactions_of_older_servers_and_of_a_quorum_are_applied(copy: Path) -> None:
    """A create without the parent's counter, ends of sessions without paths, a change of members, another epoch."""
    with ZooKeeperSource(DATA) as source:
        (session,) = source.holders()
    epoch = 1 << 32
    appended(
        copy,
        record(session, 14, 1, text(b"/a/old") + text(b"v") + RIGHTS + b"\0"),
        record(session, epoch, 1, text(b"/a/old/e") + text(b"v") + RIGHTS + b"\1" + struct.pack(">i", 1)),
        record(0, epoch + 1, 16, text(b"/zookeeper/config") + text(b"server.1=") + struct.pack(">i", 7)),
        record(session, epoch + 2, -11, b""),
        record(0, epoch + 3, 20, text(b"/a/box")),
        record(0, epoch + 4, -1, struct.pack(">i", -101)),
        record(0, epoch + 5, 2, text(b"/not/there")),
    )
    with ZooKeeperSource(copy) as source:
        nodes = {node.path: node for node in source.nodes()}
        assert source.holders() == {}
    assert {b"/a/old"} == {path for path in nodes if path.startswith(b"/a/o")}
    assert (nodes[b"/a"].cversion, nodes[b"/a"].pzxid) == (7, epoch + 3)
    assert nodes[b"/zookeeper/config"].data == b"server.1="
    assert b"/a/here" not in nodes and b"/a/box" not in nodes


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (record(0, 14, 99, b""), "kind 99"),
        (record(0, 14, 2, text(b"/a")[:-1]), "makes no sense"),
        (record(0, 14, 2, text(b"/a") + b"12345"), "5 bytes behind"),
        (record(0, 16, 2, text(b"/a")), "those between are missing"),
        (record(0, 13, 2, text(b"/a")), "follows 0xd"),
        (record(0, (1 << 32) + 5, 2, text(b"/a")), "those between are missing"),
        (record(0, 14, 2, text(b"/m") + struct.pack(">iq", 2, 12345)), "not that of the server"),
        (record(0, 14, 14, struct.pack(">ii", 1, 14) + text(b"")), "kind 14"),
    ],
)
def test_a_transaction_that_cannot_be_is_refused(copy: Path, more: bytes, message: str) -> None:
    """With right checksums, so that only what it says is wrong: unknown, short, long, out of order, of another tree."""
    appended(copy, more)
    with pytest.raises(SourceDamaged, match=message) as caught:
        ZooKeeperSource(copy)
    assert caught.value.path == copy / LOG.name
    assert caught.value.offset == len(LOG.read_bytes()) - SPARE


def test_a_hole_in_a_log_is_no_end(copy: Path) -> None:
    """Zeros end a log only if nothing follows them."""
    log = copy / LOG.name
    log.write_bytes(log.read_bytes() + record(0, 14, 2, text(b"/a")))
    with pytest.raises(SourceDamaged, match="a hole"):
        ZooKeeperSource(copy)


def test_a_folder_that_is_none_is_told_in_words(tmp_path: Path) -> None:
    """Wrong use is not damage."""
    for path, message in (
        (tmp_path / "nothing", "there is no"),
        (tmp_path, "holds no snapshot"),
        (Path(__file__), "is not named snapshot"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            ZooKeeperSource(path)


def test_temporary_files_have_no_name(copy: Path, tmp_path: Path) -> None:
    """So that nothing is left, whatever ends the process: here an error."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with ZooKeeperSource(copy, scratch=scratch) as source:
        assert not list(scratch.iterdir())
        assert sum(1 for _ in source.nodes()) == 10
    (copy / LOG.name).write_bytes(b"nothing")
    with pytest.raises(SourceDamaged):
        ZooKeeperSource(copy, scratch=scratch)
    assert not list(scratch.iterdir())


def test_windows_of_any_size_read_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that lie across the end of what was read so far."""
    right = snapshot_content(SNAPSHOT)
    for size in (1, 3, 64, 100):
        monkeypatch.setattr("raftmeta.migrate.zookeeper_files.WINDOW_BYTES", size)
        assert snapshot_content(SNAPSHOT) == right
