"""The lake against the store itself: the same state at every revision, every change once, and no gap in silence."""

from __future__ import annotations

import datetime
import json
import random
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import raftmeta
from raftmeta import snapshot
from raftmeta.cli.app import app
from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.operations import Delete, KeyRecord, Put
from raftmeta.spark import FileSource, Lake, MissingRevisions, changes, feed, lake_of, merge, retain, state
from raftmeta.spark.feed import ClientSource, Whole
from raftmeta.spark.lake_rows import changes_of, signed
from tests.client.nodes import serving

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes

BINARY = b"\xff\x00\xfe"
LARGE = bytes(1 << 20)
DAY_S = 86_400.0


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raftmeta.Client]:
    with serving(tmp_path_factory.mktemp("cluster")) as (_, url), raftmeta.Client(url) as client:
        client.ready(10)
        yield client


@pytest.fixture
def source(client: raftmeta.Client) -> ClientSource:
    return ClientSource(client, quiet_s=0.2)


class Replayed:
    """A source that gives what another one gave: the state at its floor and whole revisions, at any time."""

    def __init__(self, revisions: list[Whole], *, floor: int = 0, records: dict[int, list[KeyRecord]] | None = None):
        self.revisions = revisions
        self.at = floor
        self.records = records or {}

    def cluster_id(self) -> str:
        return "replayed"

    def floor(self) -> int:
        return self.at

    def tip(self) -> int:
        return self.revisions[-1][0] if self.revisions else self.at

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def state(self, revision: int) -> Iterator[list[KeyRecord]]:
        yield self.records.get(revision, [])

    def changes(self, first: int) -> Generator[Whole | None, None, None]:
        yield from (one for one in self.revisions if one[0] >= first)
        while True:
            yield None


def put(revision: int, key: str, *, day: int = 0) -> Whole:
    record = KeyRecord(key.encode(), b"v%d" % revision, revision, revision, 1, 0)
    return revision, day * DAY_S + revision, [raftmeta.WatchEvent("put", record, None, revision)]


def write_a_lot(client: raftmeta.Client, seed: int) -> None:
    """Puts, deletes, transactions, a lease that is revoked, keys that are no text, a value of 1 MiB."""
    draw = random.Random(seed)
    for _ in range(60):
        key = f"k{draw.randrange(8)}"
        if draw.random() < 0.25:
            client.delete(key)
        elif draw.random() < 0.3:
            client.txn([], [Put(key, b"one"), Delete(f"k{draw.randrange(8)}"), Put("same", b"1"), Put("same", b"2")])
        else:
            client.put(key, str(draw.random()))
    client.put(BINARY, b"\x00")
    client.put("large", LARGE)
    with client.lease(30, id=2**64 - 5) as lease:
        client.put("leased", b"1", lease=lease)
    client.txn([], [Put("fleeting", b"1"), Delete("fleeting")])
    client.put("last", b"1")


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return sorted(frame.toArrow().to_pylist(), key=lambda row: (row["key"], row.get("revision", 0), row.get("sub", 0)))


def in_store(client: raftmeta.Client, revision: int) -> list[tuple[Any, ...]]:
    return [
        (*record[:5], signed(record.lease))
        for record in (client.range("", "", revision=revision).records if revision else ())
    ]


def in_lake(spark: Any, lake: Lake, **at: Any) -> list[tuple[Any, ...]]:
    names = KeyRecord._fields
    return [tuple(row[name] for name in names) for row in rows_of(state(spark, lake, **at))]


def test_the_lake_knows_the_state_at_any_revision(
    spark: Any, client: raftmeta.Client, source: ClientSource, tmp_path: Path
) -> None:
    """Init: two rounds of changes, fed in small files. Check: at some twenty revisions and at times between, the lake's
    state is the store's; a second feed of nothing adds nothing."""
    write_a_lot(client, 1)
    first = feed(source, tmp_path / "lake", file_rows=7)
    write_a_lot(client, 2)
    fed = feed(source, tmp_path / "lake", file_rows=7)
    lake = Lake.load(tmp_path / "lake")
    assert fed.lake == lake
    assert (fed.first, lake.last) == (first.last + 1, client.status().revision)
    for revision in [*range(0, lake.last, lake.last // 8), lake.last]:
        assert in_lake(spark, lake, revision=revision) == in_store(client, revision), revision
    middle = lake.files[3]
    at = datetime.datetime.fromtimestamp(middle.last_ms / 1000, datetime.UTC)
    found = lake.revision_at(at)
    assert found >= middle.last
    assert in_lake(spark, lake, at=at) == in_store(client, found)
    again = feed(source, tmp_path / "lake")
    assert (again.first, again.last, again.changes) == (lake.last + 1, lake.last, 0)
    merged = merge(spark, tmp_path / "lake")
    assert len(merged.files) <= 2  # one for each day; the test may run over midnight
    assert in_lake(spark, merged, revision=lake.last // 2) == in_store(client, lake.last // 2)
    assert {path.name for path in (tmp_path / "lake").rglob("*.parquet")} == {Path(file).name for file in merged.named}


def test_a_key_has_its_history(spark: Any, client: raftmeta.Client, source: ClientSource, tmp_path: Path) -> None:
    """Every change of a key, with what was there before; also of a key that is no text."""
    begun = client.put("audited", b"1").revision
    client.put("audited", b"2")
    client.delete("audited")
    client.put(BINARY + b"!", b"x")
    lake = feed(source, tmp_path / "lake").lake
    rows = rows_of(changes(spark, lake, key="audited"))
    told = [(row["revision"], row["op"], row["value"], row["prev_value"], row["prev_revision"]) for row in rows]
    assert told == [
        (begun, "put", b"1", None, None),
        (begun + 1, "put", b"2", b"1", begun),
        (begun + 2, "delete", None, b"2", begun + 1),
    ]
    (row,) = rows_of(changes(spark, lake, key=BINARY + b"!"))
    assert row["key_text"] == "\\xff\x00\\xfe!"
    assert len(rows_of(changes(spark, lake, first=begun + 1, last=begun + 2, prefix="aud"))) == 2


def test_the_changes_of_a_lake_are_those_of_a_watch(
    client: raftmeta.Client, source: ClientSource, tmp_path: Path
) -> None:
    """Init: changes of every kind. Act: feed a lake in small files, write, feed it again. Check: its rows are those
    of the events that a watch tells, and no file has half a revision."""
    for seed in (4, 5):
        write_a_lot(client, seed)
        tip = client.status().revision
        lake = feed(source, tmp_path / "lake", file_rows=7).lake
        assert lake.last == tip
    told: list[Whole] = []
    with client.watch("", "", start_revision=lake.oldest + 1, previous=True) as watch:
        events: list[raftmeta.WatchEvent] = []
        for batch in watch.batches():
            assert isinstance(batch, raftmeta.WatchBatch)
            events += batch.events
            if batch.is_whole and events:
                told.append((batch.revision, batch.time_s, events))
                events = []
            if batch.is_whole and batch.revision >= tip:
                break
    rows = pa.concat_tables([pq.read_table(path) for path in lake.files_of(lake.oldest + 1, lake.last)])
    assert rows.equals(changes_of(told))
    assert len(lake.files) > 10
    assert lake.files[0].rows in range(7, 11)  # a revision is not cut, and here has at most 4 changes


def test_a_lake_begins_where_it_is_told(
    spark: Any, client: raftmeta.Client, source: ClientSource, tmp_path: Path
) -> None:
    """From a revision in the middle, with the state before it as its base; not in the future, not in what is
    compacted; what lies before its beginning it does not know, and says so."""
    write_a_lot(client, 3)
    tip = client.status().revision
    lake = feed(source, tmp_path / "late", first=tip - 4).lake
    assert lake.oldest == tip - 5
    for revision in range(tip - 5, tip + 1):
        assert in_lake(spark, lake, revision=revision) == in_store(client, revision)
    with pytest.raises(MissingRevisions, match=f"states from revision {tip - 5} to {tip}, not of {tip - 6}"):
        state(spark, lake, revision=tip - 6)
    with pytest.raises(MissingRevisions, match="not of"):
        changes(spark, lake, first=1)
    with pytest.raises(MissingRevisions, match=f"not of {tip + 1}"):
        state(spark, lake, revision=tip + 1)
    with pytest.raises(InvalidArgument, match=f"the first change is in 1 to {tip + 1}, not {tip + 2}"):
        feed(source, tmp_path / "future", first=tip + 2)
    client.compact(tip - 2)
    with pytest.raises(ConfigError, match=f"has compacted revision {tip - 4}; its oldest is {tip - 1}"):
        feed(source, tmp_path / "compacted", first=tip - 4)
    oldest = feed(source, tmp_path / "oldest").lake
    assert oldest.oldest == tip - 2
    assert in_lake(spark, oldest, revision=tip - 2) == in_store(client, tip - 2)
    assert not (tmp_path / "future" / "lake.json").exists()
    assert feed(source, tmp_path / "future").last == tip  # what failed left nothing in the way


def test_what_was_compacted_meanwhile_is_a_gap(spark: Any, tmp_path: Path) -> None:
    """An error that names the revisions; with allow_gap a lake that knows what it lacks, by revision and by time."""
    source = Replayed([put(n, f"k{n}") for n in range(1, 6)])
    feed(source, tmp_path)
    records = {8: [KeyRecord(b"k8", b"v8", 8, 8, 1, 0)]}
    source = Replayed([put(n, f"k{n}") for n in range(9, 12)], floor=8, records=records)
    with pytest.raises(MissingRevisions, match="ends at revision 5, and the store has compacted up to 8"):
        feed(source, tmp_path)
    lake = feed(source, tmp_path, allow_gap=True).lake
    assert (lake.last, [(gap.first, gap.last) for gap in lake.gaps]) == (11, [(6, 8)])
    assert [key for key, *_ in in_lake(spark, lake, revision=5)] == [b"k1", b"k2", b"k3", b"k4", b"k5"]
    assert [key for key, *_ in in_lake(spark, lake, revision=9)] == [b"k8", b"k9"]
    for revision in (6, 7):
        with pytest.raises(MissingRevisions, match="revisions 6 to 8 were compacted"):
            state(spark, lake, revision=revision)
    with pytest.raises(MissingRevisions, match="is in a gap"):
        lake.revision_at(datetime.datetime.fromtimestamp(7, datetime.UTC))
    with pytest.raises(MissingRevisions, match="revisions 6 to 8 were compacted"):
        changes(spark, lake, first=2, last=10)


def everything(lake: Lake) -> list[dict[str, Any]]:
    """Every row of a lake's base and changes, as its files have them."""
    files = [*(base.file for base in lake.bases), *(one.file for one in lake.files)]
    return [row for file in files for row in pq.read_table(lake.folder / file, partitioning=None).to_pylist()]


def test_a_backup_is_a_lake_like_the_store(client: raftmeta.Client, source: ClientSource, tmp_path: Path) -> None:
    """Init: a store with a past, half of it compacted. Check: a lake out of a backup has the same base and the same
    changes, with the records before them, and knows the time until which it knows; a later backup adds what came; an
    older one is refused; and a lake of a backup for a block is gone with it."""
    write_a_lot(client, 4)
    client.compact(client.status().revision - 40)
    write_a_lot(client, 5)
    snapshot.save(client, tmp_path / "first.sealed")
    fed = feed(FileSource(tmp_path / "first.sealed"), tmp_path / "of-file")
    asked_ms = time.time_ns() // 1_000_000
    assert everything(fed.lake) == everything(feed(source, tmp_path / "of-store").lake)
    assert fed.lake.files[-1].last_ms <= fed.lake.current_ms <= asked_ms
    client.put("later", b"1")
    snapshot.save(client, tmp_path / "second.sealed")
    again = feed(FileSource(tmp_path / "second.sealed"), tmp_path / "of-file")
    assert (again.first, again.changes) == (fed.last + 1, 1)
    assert everything(again.lake) == everything(feed(source, tmp_path / "of-store").lake)
    with pytest.raises(ConfigError, match=f"has revision {again.last}, the store only {fed.last}"):
        feed(FileSource(tmp_path / "first.sealed"), tmp_path / "of-file")
    with lake_of(tmp_path / "second.sealed") as lake:
        assert (lake.last, lake.folder.exists()) == (again.last, True)
    assert not lake.folder.exists()
    with lake_of(tmp_path / "of-file") as lake:
        assert lake == again.lake
    with pytest.raises(ConfigError, match=r"no lake .* and no snapshot"), lake_of(tmp_path):
        pass


def test_a_lake_takes_each_revision_once(tmp_path: Path) -> None:
    """A batch that comes again after a crash is passed over; one that skips a revision is refused, and changes
    nothing: the store counts without gaps."""
    lake = feed(Replayed([put(1, "a"), put(2, "b")]), tmp_path).lake
    again = lake.append(changes_of([put(2, "b"), put(3, "c")]))
    assert (again.last, [one.rows for one in again.files]) == (3, [2, 1])
    assert lake.append(changes_of([put(1, "a")])) == lake
    with pytest.raises(MissingRevisions, match="after revision 3 comes 5"):
        again.append(changes_of([put(5, "e")]))
    assert Lake.load(tmp_path) == again


def test_a_lake_is_of_one_store_and_has_one_driver(tmp_path: Path) -> None:
    """Another cluster, a store that is older than the lake, a second driver, a folder of something else."""
    lake = feed(Replayed([put(1, "a"), put(2, "b")]), tmp_path / "lake").lake
    with pytest.raises(ConfigError, match="has revision 2, the store only 1"):
        feed(Replayed([put(1, "a")]), tmp_path / "lake")
    with pytest.raises(ConfigError, match="`first` is for a new lake"):
        feed(Replayed([put(1, "a"), put(2, "b")]), tmp_path / "lake", first=1)
    with Lake.driven(tmp_path / "lake") as driven:
        assert driven == lake
        with pytest.raises(ConfigError, match="another feed works there"):
            feed(Replayed([put(1, "a")]), tmp_path / "lake")
    replace(lake, cluster="other").saved()
    with pytest.raises(ConfigError, match="is the lake of cluster other, not of replayed"):
        feed(Replayed([put(1, "a"), put(2, "b")]), tmp_path / "lake")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="holds something that no feed wrote"):
        feed(Replayed([]), tmp_path / "mine")
    with pytest.raises(ConfigError, match="no lake"):
        Lake.load(tmp_path / "mine")


def test_an_empty_store_makes_an_empty_lake(spark: Any, tmp_path: Path) -> None:
    """No keys at revision 0; times and later revisions are not known, and that is said."""
    lake = feed(Replayed([]), tmp_path).lake
    assert in_lake(spark, lake, revision=0) == []
    assert rows_of(changes(spark, lake)) == []
    with pytest.raises(MissingRevisions, match="from revision 0 to 0, not of 1"):
        state(spark, lake, revision=1)
    with pytest.raises(MissingRevisions, match="no change yet"):
        state(spark, lake, at=datetime.datetime.now(datetime.UTC))


def test_retention_keeps_the_state(spark: Any, tmp_path: Path) -> None:
    """Init: four days. Act: give up what is older than the third. Check: the state from there on is the same, older
    revisions are said to be gone, and so are their files; times before are not known."""
    source = Replayed([put(n, f"k{n % 3}", day=n) for n in range(1, 5)])
    lake = feed(source, tmp_path).lake
    assert [one.day for one in lake.files] == ["1970-01-02", "1970-01-03", "1970-01-04", "1970-01-05"]
    states = {revision: in_lake(spark, lake, revision=revision) for revision in (2, 3, 4)}
    kept = retain(spark, tmp_path, before=datetime.datetime(1970, 1, 4, 7, tzinfo=datetime.UTC))
    assert kept == Lake.load(tmp_path)
    assert (kept.oldest, [one.first for one in kept.files]) == (2, [3, 4])
    assert {revision: in_lake(spark, kept, revision=revision) for revision in states} == states
    with pytest.raises(MissingRevisions, match="from revision 2 to 4, not of 1"):
        state(spark, kept, revision=1)
    with pytest.raises(MissingRevisions, match="its first change is of 1970-01-04"):
        kept.revision_at(datetime.datetime(1970, 1, 3, tzinfo=datetime.UTC))
    assert not (tmp_path / lake.files[0].file).exists()
    assert retain(spark, tmp_path, before=datetime.datetime(1970, 1, 4, tzinfo=datetime.UTC)) == kept
    assert feed(Replayed([*source.revisions, put(5, "x", day=5)]), tmp_path).last == 5


def test_what_comes_before_a_failure_is_kept(tmp_path: Path) -> None:
    """Init: a source that loses its store in the middle, in a file that is not full. Check: the error is told, what
    came is in the lake, and the next feed goes on there."""

    class Failing(Replayed):
        def changes(self, first: int) -> Generator[Whole | None, None, None]:
            yield from self.revisions[:2]
            raise raftmeta.ReadyTimeout("nobody answers")

    everything = [put(n, "k") for n in range(1, 5)]
    with pytest.raises(raftmeta.ReadyTimeout):
        feed(Failing(everything), tmp_path)
    assert Lake.load(tmp_path).last == 2
    fed = feed(Replayed(everything), tmp_path)
    assert (fed.first, fed.last) == (3, 4)


def test_a_lake_that_failed_to_begin_begins_again(spark: Any, tmp_path: Path) -> None:
    """Nobody answers any more after the first page of the state: the next feed begins anew, and leaves nothing over."""
    records = [KeyRecord(b"a", b"1", 3, 3, 1, 0)]

    class Failing(Replayed):
        def state(self, revision: int) -> Iterator[list[KeyRecord]]:
            yield records
            raise raftmeta.ReadyTimeout("nobody answers")

    with pytest.raises(raftmeta.ReadyTimeout):
        feed(Failing([put(4, "b")], floor=3), tmp_path)
    (tmp_path / "bases" / "00000000000000000002.parquet").touch()  # of a driver that was killed one step later
    lake = feed(Replayed([put(4, "b")], floor=3, records={3: records}), tmp_path).lake
    assert [key for key, *_ in in_lake(spark, lake, revision=4)] == [b"a", b"b"]
    assert len(list((tmp_path / "bases").iterdir())) == 1


def test_a_feed_that_follows_ends_in_order(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a file: what came is in the lake, and the lake knows until when it is complete."""

    class Interrupted(Replayed):
        def changes(self, first: int) -> Generator[Whole | None, None, None]:
            yield from self.revisions
            yield None
            self.revisions.append(put(3, "c"))
            yield self.revisions[-1]
            raise KeyboardInterrupt

    fed = feed(Interrupted([put(1, "a"), put(2, "b")]), tmp_path, follow=True)
    assert (fed.last, [one.last for one in fed.lake.files]) == (3, [2, 3])
    assert fed.lake.revision_at(datetime.datetime.fromtimestamp(fed.lake.current_ms / 1000, datetime.UTC)) == 3
    with pytest.raises(MissingRevisions, match="knows what happened until"):
        fed.lake.revision_at(datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1))


def test_the_verbs_of_the_lake_answer(spark: Any, tmp_path: Path) -> None:
    """feed, history and state from the command line, as people and as programs read them; a wrong question has exit
    code 2 and one line."""

    def asked(*words: str) -> Result:
        return CliRunner().invoke(app, [*words])

    lake, out = str(tmp_path / "lake"), tmp_path / "state.parquet"
    with serving(tmp_path) as (_, url), raftmeta.Client(url) as client:
        client.ready(10)
        for number in range(3):
            client.put("topics/t", str(number))
        client.put("large", LARGE)
        snapshot.save(client, tmp_path / "backup.sealed")
        fed = asked("--url", url, "--json", "pipeline", "feed", "--out", lake, "--merge", "--keep-days", "1")
        assert (fed.exit_code, json.loads(fed.stdout)) == (0, {"oldest": 0, "last": 4, "changes": 4, "files": 1})
    rows = json.loads(asked("--json", "pipeline", "history", lake, "--key", "topics/t").stdout)
    assert [(row["revision"], row["op"], row["value"]) for row in rows] == [(n + 1, "put", str(n)) for n in range(3)]
    assert "... (1,048,576 bytes)" in asked("pipeline", "history", lake, "--prefix", "l").stdout
    rows = json.loads(asked("--json", "pipeline", "state", lake, "--revision", "2").stdout)
    assert [(row["key"], row["value"], row["mod_revision"]) for row in rows] == [("topics/t", "1", 2)]
    assert asked("pipeline", "state", lake, "--out", str(out)).exit_code == 0
    assert pq.read_table(out)["key"].to_pylist() == [b"large", b"topics/t"]
    backup = str(tmp_path / "backup.sealed")
    of_backup = json.loads(asked("--json", "pipeline", "state", backup, "--prefix", "topics/").stdout)
    assert [(row["key"], row["value"]) for row in of_backup] == [("topics/t", "2")]
    fed = asked("--json", "pipeline", "feed", "--path", backup, "--out", str(tmp_path / "again"))
    assert (fed.exit_code, json.loads(fed.stdout)["changes"]) == (0, 4)
    assert asked("pipeline", "feed", "--path", backup, "--out", lake, "--follow").exit_code == 2
    wrong = asked("pipeline", "state", lake, "--revision", "5")
    assert (wrong.exit_code, "has the states from revision 0 to 4, not of 5" in wrong.stderr) == (2, True)
    assert asked("pipeline", "state", lake, "--at", "1970-01-01").exit_code == 2
    assert asked("pipeline", "history", str(tmp_path)).exit_code == 2
