"""Sealed files as tables: the same rows as the node that wrote them, at every revision, or an error; never fewer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import raftmeta
from raftmeta import snapshot
from raftmeta.errors import Compacted, FutureRevision, InvalidArgument, NewerFormat, SnapshotDamaged
from raftmeta.operations import Delete, Put, prefix_end
from raftmeta.scan import Batches, Scope, SnapshotFile, find_snapshot
from raftmeta.scan.files import cut_range
from tests.node.nodes import running
from tests.scan.states import (
    LARGE,
    MIB,
    NOT_TEXT,
    PREVIOUS,
    as_row,
    change_rows,
    fill,
    key_rows,
    previous_rows,
    told,
    told_previous,
)

FLOOR = 150
CHUNK_BYTES_MAX = 2 * MIB  # a chunk of 256 KiB ends with a record, and the largest has a value of 1 MiB


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[raftmeta.Node, Path, Path]]:
    """A node with a past, its state saved before and after its history was compacted."""
    folder = tmp_path_factory.mktemp("store")
    with running(folder, names="a") as nodes:
        node = nodes["a"]
        lease = node.lease(600.0)
        node.put("leased", "1", lease=lease)
        fill(node)
        node.txn([], [Put("key-01", b"one"), Put("key-01", b"two"), Delete("key-01"), Put("key-01", b"three")])
        node.txn([], [Put("fleeting", b"1"), Delete("fleeting")])
        lease.revoke()
        snapshot.save(node, folder / "whole.sealed")
        lease = node.lease(600.0)
        node.put("leased", "2", lease=lease)
        node.compact(FLOOR)
        snapshot.save(node, folder / "compacted.sealed")
        yield node, folder / "whole.sealed", folder / "compacted.sealed"


def expected(node: raftmeta.Node, revision: int, **narrowed: Any) -> list[dict[str, Any]]:
    return [as_row(record, revision) for record in node.range(revision=revision, **narrowed).records]


def test_the_keyspace_at_every_revision_is_that_of_the_node(store: tuple[raftmeta.Node, Path, Path]) -> None:
    """At the floor, behind it, and at the newest: keys of the file overlaid with its history, however it is cut."""
    node, _, path = store
    file = SnapshotFile(path)
    assert (file.compacted, file.check_revision(0)) == (FLOOR, file.revision)
    for revision in [FLOOR, FLOOR + 1, *range(FLOOR + 2, file.revision, 17), file.revision]:
        for parts in (1, 7):
            assert key_rows(file, revision, parts=parts) == expected(node, revision), (revision, parts)


def test_a_history_that_was_never_compacted_is_a_keyspace_too(store: tuple[raftmeta.Node, Path, Path]) -> None:
    """Then the file has no key but in its history, and its parts are cut at keys of that."""
    node, path, _ = store
    file = SnapshotFile(path)
    assert file.compacted == 0
    assert key_rows(file, file.revision) == expected(node, file.revision)


def test_a_range_is_narrowed_as_asked(store: tuple[raftmeta.Node, Path, Path]) -> None:
    """Prefix, start and end, and columns in the order asked for; an empty range has no rows."""
    node, _, path = store
    file = SnapshotFile(path)
    prefix = Scope(b"key-1", prefix_end("key-1"))
    assert key_rows(file, file.revision, prefix) == expected(node, file.revision, prefix="key-1")
    rows = key_rows(file, file.revision, Scope(b"key-05", b"key-07", ("version", "key")))
    assert [list(row) for row in rows[:1]] == [["version", "key"]]
    assert [row["key"] for row in rows] == [record.key for record in node.range("key-05", "key-07").records]
    assert key_rows(file, file.revision, Scope(b"b", b"a")) == []


def test_keys_that_are_no_text_and_large_values_are_whole(store: tuple[raftmeta.Node, Path, Path]) -> None:
    """A key that is not UTF-8 has no text, and its bytes all the same."""
    _, _, path = store
    file = SnapshotFile(path)
    rows = {row["key"]: row for row in key_rows(file, file.revision)}
    assert rows[NOT_TEXT]["key_text"] is None
    assert rows[NOT_TEXT]["value"] == b"\x00\x01"
    assert rows[LARGE]["value"] == b"x" * MIB
    assert rows["schlüssel".encode()]["key_text"] == "schlüssel"


@pytest.mark.parametrize("parts", [1, 2, 50])
def test_the_changes_are_those_that_a_watch_tells(store: tuple[raftmeta.Node, Path, Path], parts: int) -> None:
    """Every revision behind the floor, in order, with its place, time, kind, key and value; however it is cut."""
    node, whole, compacted = store
    for path in (whole, compacted):
        file = SnapshotFile(path)
        low, high = file.compacted, file.revision
        cut = file.change_parts(low, high, parts)
        found = [row for place, begin, end in cut for row in change_rows(file.changes(Scope(), place, begin, end))]
        assert [row for row in found if row[0] > FLOOR] == told(node, FLOOR, high)
        assert sorted({row[0] for row in found}) == list(range(low + 1, high + 1))


def test_any_window_of_revisions_has_its_changes_only(store: tuple[raftmeta.Node, Path, Path]) -> None:
    """From the middle of a chunk to the middle of another."""
    _, _, path = store
    file = SnapshotFile(path)
    whole = change_rows(file.changes(Scope(), None, file.compacted, file.revision))
    for low, high in [(FLOOR, FLOOR + 1), (FLOOR + 40, FLOOR + 41), (FLOOR + 3, file.revision - 1)]:
        cut = file.change_parts(low, high, 3)
        found = [row for place, begin, end in cut for row in change_rows(file.changes(Scope(), place, begin, end))]
        assert found == [row for row in whole if low < row[0] <= high]


def test_each_change_has_the_record_before_it(store: tuple[raftmeta.Node, Path, Path]) -> None:
    """As a watch tells it: out of the history, out of the same revision, and of first changes out of the floor's keys.

    Any window of revisions, and keys narrowed: the record before may lie outside of the window.
    """
    node, whole, compacted = store
    for path in (whole, compacted):
        file = SnapshotFile(path)
        for low in (FLOOR, FLOOR + 1, FLOOR + 60, file.revision - 3):
            expected = told_previous(node, low, file.revision)
            assert previous_rows(file.changes(Scope(columns=PREVIOUS), None, low, file.revision)) == expected
            narrowed = file.changes(Scope(b"key-1", b"key-3", PREVIOUS), None, low, file.revision - 2)
            assert previous_rows(narrowed) == [
                row for row in expected if b"key-1" <= row[3] < b"key-3" and row[0] <= file.revision - 2
            ]
    assert any(0 < row[5] <= FLOOR for row in told_previous(node, FLOOR, file.revision))


def test_members_and_leases_are_in_the_file(store: tuple[raftmeta.Node, Path, Path]) -> None:
    """The members when it was made; a lease with its time, and with the note of its owner."""
    node, _, path = store
    file = SnapshotFile(path)
    assert [(name, role) for name, _, _, role in file.members()] == [("a", "voter")]
    ((id, ttl_ms, remaining_ms, _),) = file.leases()
    assert (id, ttl_ms) == (node.get("leased").lease, 600_000)  # type: ignore[union-attr]
    assert 0 < remaining_ms <= ttl_ms


def everything(path: Path) -> tuple[list[Any], list[Any]]:
    file = SnapshotFile(path)
    changes = file.change_parts(file.compacted, file.revision, 2)
    found = [row for place, low, high in changes for row in change_rows(file.changes(Scope(), place, low, high))]
    found += previous_rows(file.changes(Scope(columns=PREVIOUS), None, file.compacted, file.revision))
    return key_rows(file, file.revision), found


def test_a_file_that_was_cut_is_an_error(store: tuple[raftmeta.Node, Path, Path], tmp_path: Path) -> None:
    """Whatever is left of it."""
    raw = store[2].read_bytes()
    cut = tmp_path / "cut.sealed"
    for length in [0, 1, 79, 80, 200, len(raw) // 2, len(raw) - 80, len(raw) - 1]:
        cut.write_bytes(raw[:length])
        with pytest.raises(SnapshotDamaged, match="not a whole snapshot"):
            everything(cut)


def test_a_file_with_a_wrong_byte_is_an_error_or_the_same_rows(
    store: tuple[raftmeta.Node, Path, Path], tmp_path: Path
) -> None:
    """Only the bytes of what no row is made of may be wrong unnoticed."""
    raw = bytearray(store[2].read_bytes())
    right = everything(store[2])
    damaged = tmp_path / "damaged.sealed"
    step = max(1, len(raw) // 60)
    noticed = placed = 0
    for position in [*range(0, 160, 7), *range(160, len(raw), step), *range(len(raw) - 160, len(raw), 7)]:
        raw[position] ^= 0x10
        damaged.write_bytes(raw)
        try:
            assert everything(damaged) == right, position
        except (SnapshotDamaged, NewerFormat) as error:
            noticed += 1
            place = re.search(r"at byte (\d+) or behind it", str(error))
            assert place is None or position - CHUNK_BYTES_MAX <= int(place[1]) <= position
            placed += place is not None
        raw[position] ^= 0x10
    assert noticed > 60
    assert placed > 5  # most of this file is its first chunk, which is read when it is opened


def test_an_empty_store_has_no_rows(tmp_path: Path) -> None:
    """A node that nobody wrote to."""
    with running(tmp_path, names="a") as nodes:
        snapshot.save(nodes["a"], tmp_path / "empty.sealed")
    file = SnapshotFile(tmp_path / "empty.sealed")
    assert (file.revision, key_rows(file, file.check_revision(0)), file.leases()) == (0, [], [])
    assert list(file.changes(Scope(), None, 0, 0)) == []


def test_a_revision_that_is_not_there_is_an_error_that_names_what_is(
    store: tuple[raftmeta.Node, Path, Path], tmp_path: Path
) -> None:
    """Below the floor, above the newest; a folder without a snapshot; another file under the path of the plan."""
    _, whole, path = store
    file = SnapshotFile(path)
    with pytest.raises(Compacted, match=f"the oldest is {FLOOR}"):
        file.check_revision(FLOOR - 1)
    with pytest.raises(FutureRevision, match=f"the newest is {file.revision}"):
        file.check_revision(file.revision + 1)
    with pytest.raises(InvalidArgument, match="holds no sealed file"):
        find_snapshot(tmp_path)
    with pytest.raises(InvalidArgument, match="there is no file or folder"):
        find_snapshot(tmp_path / "nothing")
    with pytest.raises(InvalidArgument, match="is not there"):
        SnapshotFile(tmp_path / "gone.sealed")
    with pytest.raises(InvalidArgument, match="another file than when the query was planned"):
        SnapshotFile(whole, digest=file.digest)
    with pytest.raises(InvalidArgument, match="columns: kv has no 'valu'"):
        Batches("kv", ("valu",))


def test_a_folder_gives_its_newest_snapshot(tmp_path: Path) -> None:
    """Names are indexes in hexadecimal digits; a working file is none."""
    for name in ("00000000000000ff.sealed", "0000000000000100.sealed", "0000000000000200.sealed.tmp"):
        (tmp_path / name).touch()
    assert find_snapshot(tmp_path).name == "0000000000000100.sealed"


@given(st.binary(max_size=3), st.binary(max_size=3), st.lists(st.binary(min_size=1, max_size=3)), st.integers(1, 9))
def test_parts_of_a_range_are_the_range(start: bytes, stop: bytes, keys: list[bytes], parts: int) -> None:
    """Each key lies in one part, if the range holds it, and there are no more parts than asked for."""
    ranges = cut_range(start, stop, keys, parts)
    assert len(ranges) <= parts
    for key in [*keys, start, stop, b"", b"\xff\xff\xff\xff"]:
        is_inside = start <= key and (not stop or key < stop)
        assert sum(low <= key and (not high or key < high) for low, high in ranges) == is_inside
