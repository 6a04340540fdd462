"""A running cluster as tables: one revision while others are written, every change once, and nodes that go away."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

import raftmeta
from raftmeta.errors import Compacted, FutureRevision, InvalidArgument, ReadyTimeout
from raftmeta.operations import Put
from raftmeta.scan import Batches, ClusterScan, Scope, followers_first, node_urls
from raftmeta.scan.cluster import between
from raftmeta.scan.scan_handle import ColumnsHandle, FeedHandle
from tests.client.nodes import serving
from tests.client.raw import RawClient, frame
from tests.faces.bindings import decode_values
from tests.scan.states import PREVIOUS, as_row, change_rows, fill, previous_rows, told, told_previous

OK, NOT_FOUND, CORRUPT, STALE = 0, 73, 75, 78  # raftmeta/status.pxd
ALL_COLUMNS = 0x3FFF
TIMEOUT_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, raftmeta.Node], str]]:
    with serving(tmp_path_factory.mktemp("cluster"), names="abc") as (nodes, url):
        fill(nodes["a"])
        yield nodes, url


def leader_of(nodes: dict[str, raftmeta.Node]) -> str:
    return next(name for name, node in nodes.items() if node.status().is_leader)


def rows(batches: Iterator[Any]) -> list[dict[str, Any]]:
    return [row for batch in batches for row in batch.to_pylist()]


def test_one_revision_is_read_while_others_are_written(cluster: tuple[dict[str, raftmeta.Node], str]) -> None:
    """Pages of a pinned revision: what is written meanwhile is in none of them, and the large value is whole."""
    nodes, url = cluster
    with ClusterScan(node_urls(url), timeout_s=TIMEOUT_S) as scan:
        revision = scan.newest()
        expected = [as_row(record, revision) for record in nodes["a"].range(revision=revision).records]
        found = []
        for batch in scan.keys(Scope(), revision):
            nodes["b"].put("key-00", b"while it is read")
            nodes["b"].put("zz/new", b"while it is read")
            found += batch.to_pylist()
    assert found == expected


def test_every_change_is_read_once_and_in_order(cluster: tuple[dict[str, raftmeta.Node], str]) -> None:
    """From the first revision, with the record before each; narrowed to keys, the same without the others."""
    nodes, url = cluster
    with ClusterScan(node_urls(url), timeout_s=TIMEOUT_S) as scan:
        high = scan.newest()
        whole = change_rows(scan.changes(Scope(), 0, high))
        assert whole == told(nodes["a"], 0, high)
        assert change_rows(scan.changes(Scope(), 10, 30)) == [row for row in whole if 10 < row[0] <= 30]
        previous = previous_rows(scan.changes(Scope(columns=PREVIOUS), 0, high))
        assert previous == told_previous(nodes["a"], 0, high)
        narrowed = change_rows(scan.changes(Scope(b"key-1", b"key-2"), 0, high))
        assert narrowed == [row for row in whole if b"key-1" <= row[4] < b"key-2"]


VALUES, VALUE_BYTES = 60, 200_000  # more than a batch holds


@contextlib.contextmanager
def large_values(folder: Path) -> Iterator[tuple[dict[str, raftmeta.Node], dict[str, str], str]]:
    """Three nodes with them, their URLs, and the name of the leader; a busy machine does not make them elect anew."""
    with serving(folder, names="abc", election_timeout_s=2.0, heartbeat_s=0.1) as (nodes, url):
        for number in range(VALUES):
            nodes["a"].put(b"key-%02d" % number, bytes(VALUE_BYTES), timeout_s=TIMEOUT_S)
        yield nodes, dict(zip(nodes, node_urls(url), strict=True)), leader_of(nodes)


def test_a_node_that_dies_is_left_for_another(tmp_path: Path) -> None:
    """In the middle of a scan and of a feed: the rest comes from the others, with nothing twice and nothing missing."""
    with large_values(tmp_path) as (nodes, urls, leader):
        first = next(name for name in nodes if name != leader)
        order = [urls[first], urls[leader], *(urls[name] for name in nodes if name not in (first, leader))]
        with ClusterScan(order, timeout_s=TIMEOUT_S) as scan, ClusterScan(order, timeout_s=TIMEOUT_S) as feed:
            revision = scan.newest()
            keys = scan.keys(Scope(columns=("key",)), revision)
            changes = feed.changes(Scope(columns=("revision",)), 0, revision)
            found, changed = rows(iter([next(keys)])), rows(iter([next(changes)]))
            assert len(found) < VALUES
            assert len(changed) < VALUES
            nodes[first].close(transfer=False)
            found += rows(keys)
            changed += rows(changes)
    assert [row["key"] for row in found] == [b"key-%02d" % number for number in range(VALUES)]
    assert [row["revision"] for row in changed] == list(range(1, revision + 1))


def test_pages_of_a_revision_need_no_leader(tmp_path: Path) -> None:
    """A revision never changes: the node that is read, which confirmed once that it has it, gives the rest alone."""
    with large_values(tmp_path) as (nodes, urls, leader):
        first = next(name for name in nodes if name != leader)
        with ClusterScan([urls[first]], timeout_s=TIMEOUT_S) as scan:
            keys = scan.keys(Scope(columns=("key",)), scan.newest())
            found = rows(iter([next(keys)]))
            assert len(found) < VALUES
            for name in nodes:
                if name != first:
                    nodes[name].close(transfer=False)
            found += rows(keys)
    assert [row["key"] for row in found] == [b"key-%02d" % number for number in range(VALUES)]


def test_a_feed_that_follows_goes_on_with_what_is_written(tmp_path: Path) -> None:
    """Init: a past. Act: follow it, write, close the node that is followed, and write again. Check: every change once
    and in order, as the store tells it; each revision in one batch; None while nothing comes."""
    with serving(tmp_path, names="abc", election_timeout_s=2.0, heartbeat_s=0.1) as (nodes, url):
        writer = leader_of(nodes)
        fill(nodes[writer])
        urls = dict(zip(nodes, node_urls(url), strict=True))
        order = followers_first(list(urls.values()), {urls[name]: node.status() for name, node in nodes.items()})
        assert order[-1] == urls[writer]
        followed = next(name for name in nodes if urls[name] == order[0])
        batches: list[Any] = []
        with ClusterScan(order, timeout_s=TIMEOUT_S) as scan:
            feed = scan.follow(Scope(columns=PREVIOUS), 0, 0.2)

            def take_all() -> None:
                while not batches or batches[-1]["revision"][-1].as_py() < nodes[writer].status().revision:
                    batch = next(feed)
                    if batch is not None:
                        batches.append(batch)

            take_all()
            assert next(batch for batch in feed) is None
            nodes[writer].txn([], [Put("followed/a", b"1"), Put("followed/b", b"2")])
            take_all()
            nodes[followed].close(transfer=False)
            nodes[writer].put("followed/a", b"3", timeout_s=TIMEOUT_S)
            take_all()
        assert previous_rows(batches) == told_previous(nodes[writer], 0, nodes[writer].status().revision)
    revisions = [revision for batch in batches for revision in sorted(set(batch["revision"].to_pylist()))]
    assert revisions == sorted(set(revisions))


def test_leases_are_listed_in_order_and_whole(tmp_path: Path) -> None:
    """More than a page holds, ids above 2^63 among them; and none that was just granted is missing."""
    ids = sorted([*range(5, 105), (1 << 64) - 1])
    with serving(tmp_path, names="abc") as (_, url), RawClient(url) as client:
        assert scanned_leases(url) == []
        client.open_session()
        for sequence, id in enumerate(ids, 1):
            note = id.to_bytes(8) * 512  # 4 KiB: a hundred of them are more than 256 KiB
            grant = msgpack.packb([2, client.encoder.session, sequence, sequence, None, id, 600_000, note])
            client.encoder.id = sequence
            assert client.ask(frame(msgpack.packb([1, sequence, grant])))[0] == OK
        found = scanned_leases(url)
        first = client.ask(client.encoder.leases(0))[3]
    assert len(decode_values(first)) < len(ids)
    assert [(id, note) for id, _, _, note in found] == [(id, id.to_bytes(8) * 512) for id in ids]
    assert all(ttl_ms == 600_000 and 0 < remaining_ms <= ttl_ms for _, ttl_ms, remaining_ms, _ in found)


def scanned_leases(url: str) -> list[tuple[int, int, int, bytes]]:
    with ClusterScan(node_urls(url), timeout_s=TIMEOUT_S) as scan:
        return scan.leases()


def test_no_node_that_answers_is_an_error_that_names_them() -> None:
    """After the time that was given, with what the last one said."""
    with (
        ClusterScan(("raft://127.0.0.1:1", "raft://127.0.0.1:2"), timeout_s=0.1) as scan,
        pytest.raises(ReadyTimeout, match=r"none of raft://127\.0\.0\.1:1, raft://127\.0\.0\.1:2 answered for 0\.1 s"),
    ):
        scan.newest()


def test_a_revision_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """Compacted, with the oldest one; in the future, with the newest one; a feed from before the floor."""
    with serving(tmp_path) as (nodes, url):
        for number in range(20):
            nodes["a"].put("key", str(number))
        nodes["a"].compact(10)
        with ClusterScan(node_urls(url), timeout_s=TIMEOUT_S) as scan:
            with pytest.raises(Compacted, match="the oldest is 10"):
                rows(scan.keys(Scope(), 9))
            with pytest.raises(FutureRevision, match="the newest is 20"):
                rows(scan.keys(Scope(), 21))
            with pytest.raises(Compacted, match="before revision 11 are compacted"):
                rows(scan.changes(Scope(), 9, 20))
            assert len(rows(scan.changes(Scope(), 10, 20))) == 10


def test_parts_of_a_cluster_hold_about_as_many_keys(
    cluster: tuple[dict[str, raftmeta.Node], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys with long common beginnings, found by counting."""
    nodes, url = cluster
    monkeypatch.setattr("raftmeta.scan.cluster.TUNE_CUT_KEYS", 10)
    for beginning in ("", "topics/a-very-long-common-beginning/"):
        nodes["a"].txn([], [Put(f"even/{beginning}{number:04}", b"") for number in range(400)])
    with ClusterScan(node_urls(url), timeout_s=TIMEOUT_S) as scan:
        revision = scan.newest()
        parts = scan.key_ranges(Scope(b"even/", b"even0"), revision, 4)
        counts = [scan.count(start, stop, revision) for start, stop in parts]
    assert sum(counts) == 800
    assert len(parts) == 4
    assert min(counts) >= 50


@given(st.binary(max_size=12), st.binary(max_size=12))
def test_a_cut_lies_between(low: bytes, high: bytes) -> None:
    """Or there is none; where two keys differ in their next eight bytes by more than one there is."""
    cut = between(low, high)
    assert not cut or (low < cut and (not high or cut < high))
    if not low and not high:
        assert cut


# --- the feed: what follows and what does not -------------------------------------------------------------------------


def item(revision: int, keys: list[bytes], *, kind: int = 1, more: bool = False) -> bytes:
    """docs/formats.md "Items of a watch"."""
    events = [[1, [key, b"v", revision, revision, 1, 0, 0], None] for key in keys]
    packed: bytes = msgpack.packb([kind, revision, 7, events, more], use_bin_type=True)
    return packed


def columns() -> ColumnsHandle:
    return ColumnsHandle(ALL_COLUMNS)


def test_a_feed_ends_with_its_last_revision_whole() -> None:
    """A fragment of it is not the end."""
    feed, into = FeedHandle(4, 6, b"", b""), columns()
    assert feed.take(item(5, [b"a"]) + item(6, [b"b"], more=True), into) == OK
    assert feed.take(item(6, [b"c"]), into) == NOT_FOUND
    assert into.rows == 3


@pytest.mark.parametrize("wrong", [4, 6, 7])
def test_a_revision_that_does_not_follow_stops_the_feed(wrong: int) -> None:
    """One is missing, or comes again: nothing of it becomes a row."""
    feed, into = FeedHandle(4, 9, b"", b""), columns()
    assert feed.take(item(wrong, [b"a"]), into) == CORRUPT
    assert (feed.told, feed.next_revision, into.rows) == (wrong, 5, 0)


def test_a_fragment_that_was_taken_is_not_taken_again() -> None:
    """The watch was opened again in the middle of a revision, and another node cuts it elsewhere."""
    feed, into = FeedHandle(4, 5, b"", b""), columns()
    assert feed.take(item(5, [b"a", b"b"], more=True), into) == OK
    feed.begin_again()
    assert feed.next_revision == 5
    assert feed.take(item(5, [b"a"], more=True) + item(5, [b"b", b"c"]), into) == NOT_FOUND
    assert into.rows == 3


@pytest.mark.parametrize("kind", [3, 5, 6])
def test_a_watch_that_ends_is_opened_again(kind: int) -> None:
    """Lagged, closed, removed: from the revision that the feed wants next, whatever the item says."""
    feed, into = FeedHandle(4, 9, b"", b""), columns()
    assert feed.take(item(5, [b"a"]) + item(9, [], kind=kind), into) == STALE
    assert (feed.next_revision, into.rows) == (6, 1)


@given(st.binary(max_size=40), st.integers(0, 60))
def test_what_is_no_item_is_refused(noise: bytes, length: int) -> None:
    """Any bytes, and any beginning of an item: a status, never a crash, and never more rows than whole events."""
    for body in (noise, item(5, [b"key"])[:length]):
        into = columns()
        assert FeedHandle(4, 9, b"", b"").take(body, into) != OK or into.rows <= 1


def test_a_gap_is_an_error_that_says_where() -> None:
    """What the reader raises when a feed does not follow."""
    with pytest.raises(InvalidArgument, match="went from revision 4 to 7: changes are missing"):
        ClusterScan._taken(FeedHandle(4, 9, b"", b""), item(7, [b"a"]), Batches("changes"))


@given(st.binary(max_size=24))
def test_text_is_what_python_reads_as_text(key: bytes) -> None:
    """The column key_text is null exactly where the key is no UTF-8."""
    batches = Batches("changes", ("key_text",))
    FeedHandle(4, 5, b"", b"").take(item(5, [key]), batches.handle)
    try:
        text = key.decode()
    except UnicodeDecodeError:
        text = None
    assert batches.take().to_pylist() == [{"key_text": text}]
