"""Loading into a real cluster: whole or not at all, exactly once over kills, and compared until nothing differs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import raftmeta
from raftmeta import InvalidArgument, migrate
from raftmeta.migrate import Difference, Item, Mapping, NotMigratable, Record, ZooKeeperSource
from raftmeta.migrate.comparison import target_records
from raftmeta.migrate.records_handle import new_keys
from raftmeta.operations import Add, Create, KeyRecord
from raftmeta.scan import ClusterScan, node_urls
from tests.client.nodes import serving
from tests.lint.sources import ROOT
from tests.migrate.sources import MAPPING, SIDE, MadeSource, numbered
from tests.processes.waiting import wait_until

DATA = Path(__file__).parent / "data" / "zookeeper"
BATCH = 200  # records


@pytest.fixture
def client(tmp_path: Path) -> Iterator[raftmeta.Client]:
    with serving(tmp_path) as (_, url), raftmeta.Client(url) as client:
        client.ready(20)
        yield client


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raftmeta.migrate.loader.TUNE_BATCH_RECORDS", BATCH)
    monkeypatch.setattr("raftmeta.migrate.catch_up.TUNE_BATCH_RECORDS", BATCH)
    monkeypatch.setattr("raftmeta.migrate.comparison.PAGE_KEYS", 70)


def load(client: raftmeta.Client, source: migrate.Source, mapping: Mapping = MAPPING) -> migrate.Progress:
    return migrate.load(client, source, mapping, migrate.plan(source, mapping))


def keys(client: raftmeta.Client, prefix: bytes = b"") -> dict[bytes, KeyRecord]:
    return {record.key: record for record in target_records(client, prefix)}


def test_a_tree_is_loaded_with_what_the_store_has_no_field_for(client: raftmeta.Client) -> None:
    """Data under their paths, rights and versions as JSON, and a counter that goes on where sequential nodes stood."""
    mapping = Mapping(side=b"old/", prefix=b"zk")
    with ZooKeeperSource(DATA, ephemerals=False) as source:
        progress = load(client, source, mapping)
        assert (progress.is_done, progress.items, progress.position) == (True, 6, "zxid 0xd")
        assert list(migrate.compare(client, source, mapping)) == []
    found = keys(client)
    assert found[b"zk/a"].value == b"second"
    assert b'"version":1' in found[b"old/item//a"].value
    assert client.add(b"old/counter//a").result == 7
    assert all(record.version == 1 for record in found.values())


def test_a_load_is_gone_on_with_after_kills(tmp_path: Path) -> None:
    """Killed whenever it has written more, it ends with every key written once, by as many batches as there are.

    Init: a node, and a loader in a process of its own. Act: kill -9 after each progress, and start another. Check:
    every key has version 1, and the progress key one version for each batch.
    """
    count = 40_000
    with serving(tmp_path) as (_, url), raftmeta.Client(url) as client:
        client.ready(20)
        for _ in range(3):
            before = items_written(client)
            loader = subprocess.Popen([sys.executable, "-m", "tests.migrate.sources", url, str(count)], cwd=ROOT)
            try:
                wait_until(lambda before=before: items_written(client) > before, timeout_s=60, what="progress")
            finally:
                loader.kill()
                loader.wait()
            assert items_written(client) < count
        source = numbered(count)
        progress = load(client, source)
        assert progress.is_done and progress.items == count
        assert list(migrate.compare(client, source, MAPPING)) == []
        found = keys(client)
        assert found.pop(MAPPING.progress_key).version == progress.batches
        assert len(found) == 3 * count
        assert all(record.version == 1 for record in found.values())
        assert load(client, source) == progress  # done is done


def items_written(client: raftmeta.Client) -> int:
    progress = migrate.read_progress(client, MAPPING)
    return progress.items if progress else 0


@pytest.mark.usefixtures("small_batches")
def test_nothing_is_overwritten_and_no_batch_is_half_there(client: raftmeta.Client) -> None:
    """A key that is there refuses the batch that would write it; those before stay, and say how far it is."""
    client.put("/n/000100", "mine")
    with pytest.raises(NotMigratable, match="keys already"):
        load(client, numbered(300))
    assert len(keys(client)) == 1
    source = numbered(300)
    source.root = b""  # its keys may lie among others
    with pytest.raises(NotMigratable, match=r"1 keys are there already, the first \[b'/n/000100'\]"):
        load(client, source)
    found = keys(client)
    assert found[b"/n/000100"].value == b"mine"
    progress = migrate.read_progress(client, MAPPING)
    assert progress is not None and not progress.is_done
    assert len(found) == 3 * progress.items + 2
    assert progress.items * 3 % BATCH < BATCH
    client.delete("/n/000100")
    assert load(client, source).is_done
    assert list(migrate.compare(client, numbered(300), MAPPING)) == []


def test_another_source_or_other_options_are_refused(client: raftmeta.Client) -> None:
    """A load that was begun is only gone on with as it was begun."""
    load(client, numbered(10))
    with pytest.raises(NotMigratable, match="compare or update"):
        load(client, numbered(10, value=b"other"))
    with pytest.raises(NotMigratable, match="compare or update"):
        load(client, numbered(10), Mapping(side=SIDE, prefix=b"elsewhere"))
    with pytest.raises(NotMigratable, match="keys already"):
        load(client, numbered(10), Mapping(side=b"another/", prefix=b""))
    client.put("strange/progress", "no JSON")
    with pytest.raises(InvalidArgument, match="no progress"):
        load(client, numbered(10), Mapping(side=b"strange/"))


def test_what_the_store_does_not_take_is_found_before_anything_is_written() -> None:
    """Too long, too large, among the side keys: with how many and an example."""
    long = [Item(b"/" + b"k" * 480, b"", "{}"), Item(b"/large", bytes(2 << 20), "{}")]
    with pytest.raises(NotMigratable, match="3 keys cannot") as caught:
        migrate.plan(MadeSource(long), MAPPING)
    assert caught.value.count == 3  # the long one is too long in two places
    with pytest.raises(NotMigratable, match="begins with the side prefix"):
        migrate.plan(MadeSource([Item(b"migrated/test/x", b"", "{}")]), MAPPING)
    assert migrate.plan(MadeSource(long[1:]), MAPPING, value_bytes_max=4 << 20).items == 1
    for wrong in ({"side": b""}, {"side": b"a", "prefix": b"ab"}, {"side": b"a", "held": "lose"}):
        with pytest.raises(InvalidArgument):
            Mapping(**wrong)  # type: ignore[arg-type]


@pytest.mark.usefixtures("small_batches")
def test_an_update_writes_what_differs_and_deletes_on_request(client: raftmeta.Client) -> None:
    """The old system went on: a second read of it, until nothing differs."""
    load(client, numbered(400))
    items = [*numbered(399).items(), Item(b"/n/000007/new", b"n", "{}"), Item(b"/z", b"z", '{"z":1}')]
    items[5] = items[5]._replace(value=b"changed", counter=77)
    source = MadeSource(items)
    plan = migrate.plan(source, MAPPING)
    differences = list(migrate.compare(client, source, MAPPING))
    assert [(found.what, found.key) for found in differences] == [
        ("differs", b"/n/000005"),
        ("missing", b"/n/000007/new"),
        ("extra", b"/n/000399"),
        ("missing", b"/z"),
        ("missing", SIDE + b"item//n/000007/new"),
        ("extra", SIDE + b"item//n/000399"),
        ("missing", SIDE + b"item//z"),
        ("differs", SIDE + b"counter//n/000005"),
        ("extra", SIDE + b"counter//n/000399"),
    ]
    assert migrate.update(client, source, MAPPING, plan) == {"differs": 2, "missing": 4, "extra": 3}
    assert {found.what for found in migrate.compare(client, source, MAPPING)} == {"extra"}
    assert migrate.update(client, source, MAPPING, plan, delete=True) == {"extra": 3}
    assert list(migrate.compare(client, source, MAPPING)) == []
    assert load(client, source).is_done


def test_ephemerals_are_attached_to_a_lease_for_each_session(client: raftmeta.Client) -> None:
    """Under the number of the session, for its time; they vanish unless somebody keeps the lease alive."""
    items = [Item(b"/e/%d" % number, b"", "{}", holder=7 + number % 2) for number in range(4)]
    source = MadeSource(items, holders={7: 600.0, 8: 0.2})
    load(client, source, Mapping(side=SIDE, held="lease"))
    found = keys(client, b"/e/")
    assert {record.key: record.lease for record in found.values()} == {b"/e/0": 7, b"/e/1": 8, b"/e/2": 7, b"/e/3": 8}


def test_an_update_attaches_what_is_missing_to_its_session(client: raftmeta.Client) -> None:
    """To the lease that the load granted, if that is still there, and else to one that is granted now."""
    mapping = Mapping(side=SIDE, held="lease")
    holders = {7: 600.0, 9: 500.0}
    load(client, MadeSource([Item(b"/e/0", b"", "{}", holder=7)], holders=holders), mapping)
    items = [Item(b"/e/%d" % number, b"", "{}", holder=holder) for number, holder in enumerate((7, 7, 9, 0))]
    source = MadeSource(items, holders=holders)
    assert migrate.update(client, source, mapping, migrate.plan(source, mapping)) == {"missing": 6}
    assert [record.lease for record in keys(client, b"/e/").values()] == [7, 7, 9, 0]
    with ClusterScan(node_urls(client.url)) as scan:
        assert {id: ttl_ms for id, ttl_ms, _, _ in scan.leases()} == {7: 600_000, 9: 500_000}


def test_values_up_to_the_limit_are_loaded(client: raftmeta.Client) -> None:
    """Each goes in a batch of its own."""
    source = MadeSource(Item(b"/big/%d" % number, bytes([number]) * (1 << 20), "{}") for number in range(3))
    assert load(client, source).batches == 3
    assert list(migrate.compare(client, source, MAPPING)) == []


def test_an_empty_source_is_loaded_too(client: raftmeta.Client) -> None:
    progress = load(client, MadeSource([]))
    assert (progress.is_done, progress.items, progress.batches) == (True, 0, 1)


ITEMS = st.lists(
    st.builds(
        Item,
        st.binary(min_size=1, max_size=3),
        st.binary(max_size=9) | st.just(bytes(8)),
        st.just("{}"),
        st.integers(0, 2),
        st.none() | st.integers(0, 9),
    ),
    unique_by=lambda item: item.key,
    max_size=12,
)


@given(ITEMS, st.integers(1, 7), st.integers(1, 60))
def test_batches_hold_all_records_in_order(items: list[Item], records_max: int, bytes_max: int) -> None:
    """Within their limits unless one item alone is over them, and as few as that allows."""
    mapping = Mapping(side=b"s/", held="lease")
    left, ahead, batches = iter(items), None, []
    while not batches or ahead is not None:
        taken, last, records, ahead = mapping.names.fill(left, ahead, records_max, bytes_max)
        assert (last is None) == (taken == 0)
        batches.append((taken, records))
    assert [one for _, records in batches for one in records] == [
        one for item in items for one in mapping.records(item)
    ]
    sizes = [(len(records), sum(len(one.key) + len(one.value) for one in records)) for _, records in batches]
    for (taken, _), (count, size) in zip(batches, sizes, strict=True):
        assert taken <= 1 or (count <= records_max and size <= bytes_max)
    for (count, size), position in zip(sizes[:-1], accumulate(taken for taken, _ in batches), strict=False):
        following = mapping.records(items[position])
        more = size + sum(len(one.key) + len(one.value) for one in following)
        assert count + len(following) > records_max or more > bytes_max


def test_records_become_the_operations_that_write_new_keys() -> None:
    """A counter is added to, any other key is created, with the lease of its holder."""
    records = [Record(b"a", b"1"), Record(b"b", b"2", 7), Record(b"c", (-5).to_bytes(8, "big", signed=True), 0, True)]
    assert new_keys(records, {7: 70}) == [Create(b"a", b"1"), Create(b"b", b"2", lease=70), Add(b"c", -5)]


KEYS = st.dictionaries(st.binary(min_size=1, max_size=3), st.binary(max_size=2), max_size=12)


@given(KEYS, KEYS)
def test_a_merge_finds_what_differs_and_nothing_else(old: dict[bytes, bytes], new: dict[bytes, bytes]) -> None:
    """Against two dicts."""
    source = [Record(key, value) for key, value in sorted(old.items())]
    target = [KeyRecord(key, value, 1, 1, 1, 0) for key, value in sorted(new.items())]
    found = list(migrate.merge(source, target))
    assert {one.key: (one.source and one.source.value, one.target and one.target.value) for one in found} == {
        key: (old.get(key), new.get(key)) for key in old.keys() | new.keys() if old.get(key) != new.get(key)
    }
    assert [one.key for one in found] == sorted(one.key for one in found)
    assert {one.what for one in found} <= {"missing", "extra", "differs"}


def test_a_merge_refuses_streams_that_are_not_sorted() -> None:
    """It would answer wrongly."""
    with pytest.raises(ValueError, match="comes after"):
        list(migrate.merge([Record(b"b", b""), Record(b"a", b"")], []))
    assert list(migrate.merge([Record(b"a", b"")], [])) == [Difference("missing", b"a", Record(b"a", b""), None)]
