"""The sink: every batch once and whole, by the newest driver, or an error before anything is written."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException

import raftmeta
from examples import sink as example
from raftmeta.errors import ConfigError, InvalidArgument
from raftmeta.spark import Sink
from raftmeta.spark.sink import ROWS_MAX
from tests.client.nodes import serving

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raftmeta.Client]:
    with serving(tmp_path_factory.mktemp("cluster")) as (_, url), raftmeta.Client(url) as client:
        client.ready(10)
        yield client


def rows(**values: bytes | None) -> pa.Table:
    """Puts; None: a delete."""
    ops = ["delete" if value is None else "put" for value in values.values()]
    types = pa.array(list(values.values()), pa.binary())
    return pa.table({"op": ops, "key": [key.encode() for key in values], "value": types})


def there(client: raftmeta.Client, prefix: str) -> dict[str, bytes]:
    return {record.key.decode(): record.value for record in client.range(prefix=prefix).records}


def test_a_batch_counts_once(client: raftmeta.Client) -> None:
    """It may come again, from this driver or the next one: it is passed over, and the store does not change."""
    with Sink(client, "once") as sink:
        first = sink.write(rows(a1=b"1", a2=b"2"), 0)
        second = sink.write(rows(a1=b"3", a2=None), 1)
        assert (first.was_there, second.was_there, second.revision) == (False, False, first.revision + 1)
        again = sink.write(rows(a2=None, a1=b"3"), 1)  # the order of rows means nothing
        assert (again.was_there, again.revision) == (True, second.revision)
    revision = client.status().revision
    with Sink(client, "once") as sink:
        assert sink.write(rows(a1=b"3", a2=None), 1).was_there
        assert client.status().revision == revision + 1  # the new driver's own key
        assert not sink.write(rows(), 2).was_there
    assert there(client, "a") == {"a1": b"3"}


def test_a_batch_that_cannot_be_right_is_refused(client: raftmeta.Client) -> None:
    """An older number, other rows under the same number; those of another query are a sequence of their own."""
    with Sink(client, "strange") as sink:
        sink.write(rows(b1=b"1"), 7, "q1")
        with pytest.raises(ConfigError, match="batch 6 comes after batch 7"):
            sink.write(rows(b1=b"2"), 6, "q1")
        with pytest.raises(ConfigError, match="batch 7 was written with other rows"):
            sink.write(rows(b1=b"2"), 7, "q1")
        assert not sink.write(rows(b1=b"2"), 0, "q2").was_there
    with pytest.raises(ConfigError, match=r"begin\(\) first"):
        Sink(client, "strange").write(rows(b1=b"2"), 8)
    assert there(client, "b") == {"b1": b"2"}


def test_a_driver_that_was_replaced_is_refused(client: raftmeta.Client) -> None:
    """Also where the new one has written nothing yet; and a fence of the user's own counts as well."""
    with Sink(client, "fenced") as old:
        old.write(rows(c1=b"old"), 0)
        with Sink(client, "fenced") as new:
            with pytest.raises(raftmeta.Fenced, match="another driver has begun"):
                old.write(rows(c1=b"late"), 1)
            assert not new.write(rows(c1=b"new"), 1).was_there
    lead = client.put("d0", b"").revision
    with Sink(client, "led", fence=raftmeta.Fence("d0", lead)) as sink:
        sink.write(rows(d1=b"1"), 0)
        client.delete("d0")
        with pytest.raises(raftmeta.Fenced):
            sink.write(rows(d1=b"2"), 1)
    assert there(client, "c") == {"c1": b"new"}
    assert there(client, "d") == {"d1": b"1"}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (pa.table({"key": [b"e"]}), "needs columns key and value, and has key"),
        (pa.table({"key": [b"e", b"e"], "value": [b"1", b"2"]}), "is in two rows of one batch"),
        (pa.table({"key": [b"e", None], "value": [b"1", b"2"]}), "None is not 1 to 480 bytes"),
        (pa.table({"key": [b"e" * 481], "value": [b"1"]}), "is not 1 to 480 bytes"),
        (pa.table({"key": ["e1", "_raftmeta/sinks/fenced/driver"], "value": ["1", "2"]}), "belongs to the recipes"),
        (pa.table({"key": ["e"], "value": pa.array([None], pa.binary())}), "no delete and no put with a value"),
        (pa.table({"key": ["e"], "value": ["1"], "op": ["upsert"]}), "'upsert' of b'e' is no delete"),
        (pa.table({"key": ["e"], "value": [1]}), "value: must be bytes or text, not int"),
        (pa.table({"key": [f"e{n}" for n in range(ROWS_MAX + 1)], "value": [b""] * (ROWS_MAX + 1)}), "more than 9,996"),
        (pa.table({"key": [f"e{n}" for n in range(6)], "value": [bytes(1 << 20)] * 6}), "one transaction holds"),
        (pa.table({"key": ["e1", "e2"], "value": [b"1", bytes((1 << 20) + 1)]}), "value"),
    ],
)
def test_what_does_not_fit_writes_nothing(client: raftmeta.Client, table: pa.Table, message: str) -> None:
    """Each with an error that says what is wrong, before anything is written."""
    with Sink(client, "wrong") as sink, pytest.raises(raftmeta.RaftmetaError, match=message) as caught:
        sink.write(table, 0)
    assert isinstance(caught.value, InvalidArgument | raftmeta.CommandRefused)
    assert there(client, "e") == {}


def test_as_much_as_may_fit_fits(client: raftmeta.Client) -> None:
    """As many rows as there may be, keys that are no UTF-8, and values of 1 MiB."""
    keys = [b"f\xff" + number.to_bytes(2, "big") for number in range(ROWS_MAX)]
    with Sink(client, "large") as sink:
        sink.write(pa.table({"key": keys, "value": [b"v" * 100] * ROWS_MAX}), 0)
        assert client.range(prefix=b"f", count_only=True).count == ROWS_MAX
        large = pa.table({"key": [f"f{number}" for number in range(4)], "value": [bytes(1 << 20)] * 4})
        sink.write(large, 1)
    assert [len(record.value) for record in client.range("f0", "f9").records] == [1 << 20] * 4


def numbered(count: int, size: int = 8, prefix: str = "s") -> pa.Table:
    keys = [f"{prefix}{number:07}".encode() for number in range(count)]
    return pa.table({"key": keys, "value": [b"v" * size] * count})


@pytest.mark.parametrize(("count", "size", "transactions"), [(ROWS_MAX * 2 + 1, 8, 3), (12, 1 << 20, 3)])
def test_a_batch_larger_than_a_transaction_is_written_as_several(
    client: raftmeta.Client, count: int, size: int, transactions: int
) -> None:
    """By rows and by bytes, only where it is asked for; coming again it is passed over."""
    table, name = numbered(count, size, f"s{size}/"), f"split-{size}"
    with Sink(client, name) as sink, pytest.raises(InvalidArgument, match="split"):
        sink.write(table, 0)
    with Sink(client, name, split=True) as sink:
        written = sink.write(table, 0)
        assert (written.was_there, written.transactions) == (False, transactions)
        assert (sink.write(table, 0).was_there, sink.newest()) == (True, ("", 0))
    keys = client.range(prefix=f"s{size}/", keys_only=True).records
    assert [record.version for record in keys] == [1] * count


def test_a_half_written_batch_goes_on_where_it_ended(client: raftmeta.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver dies between two transactions of a batch; the next one writes the rest, each row once."""
    table, count = numbered(ROWS_MAX * 3, prefix="half/"), 0
    real = Sink._commit

    def dying(self: Sink, *given: Any) -> int:
        nonlocal count
        count += 1
        if count == 3:
            raise KeyboardInterrupt
        return real(self, *given)

    monkeypatch.setattr(Sink, "_commit", dying)
    with Sink(client, "half", split=True) as sink, pytest.raises(KeyboardInterrupt):
        sink.write(table, 4, "q")
    monkeypatch.undo()
    with Sink(client, "half", split=True) as sink:
        with pytest.raises(ConfigError, match="batch 5 comes before batch 4 is whole"):
            sink.write(table, 5, "q")
        with pytest.raises(ConfigError, match="other rows"):
            sink.write(table.slice(1), 4, "q")
        written = sink.write(table, 4, "q")
        assert (written.was_there, written.transactions) == (False, 1)
    assert {record.version for record in client.range(prefix="half/", keys_only=True).records} == {1}


def frame_of(spark: Any, count: int, prefix: str) -> Any:
    return spark.range(count).selectExpr(f"concat('{prefix}', lpad(id, 6, '0')) as key", "'v' as value")


def test_a_frame_is_written_by_its_format(spark: Any, client: raftmeta.Client) -> None:
    """More rows than a transaction holds, out of several tasks; a batch with a name and a number counts once."""
    frame = frame_of(spark, ROWS_MAX + 100, "w/").repartition(3)
    options = {"url": client.url, "sink": "frames", "split": "true", "query": "daily", "batch": "1"}
    for _ in range(2):
        frame.write.format("raftmeta").options(**options).mode("append").save()
    found = client.range(prefix="w/", keys_only=True).records
    assert (len(found), {record.version for record in found}) == (ROWS_MAX + 100, {1})
    deletes = spark.createDataFrame([("w/000000", None, "delete")], "key string, value string, op string")
    deletes.write.format("raftmeta").options(url=client.url, sink="frames").mode("append").save()
    assert client.get("w/000000") is None


@pytest.mark.parametrize(
    ("options", "mode", "columns", "message"),
    [
        ({"sink": "x"}, "append", "*", "url: give url"),
        ({"sink": "x", "url": "raft://h:1", "splitt": "true"}, "append", "*", "did you mean 'split'"),
        ({"sink": "x", "url": "raft://h:1"}, "overwrite", "*", "a store is added to"),
        ({"sink": "x", "url": "raft://h:1"}, "append", "key", "has no column value"),
    ],
)
def test_a_writer_that_is_wrong_names_it(
    spark: Any, options: dict[str, str], mode: str, columns: str, message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        frame_of(spark, 1, "n/").select(columns).write.format("raftmeta").options(**options).mode(mode).save()


def test_a_stream_is_written_by_its_format(spark: Any, client: raftmeta.Client, tmp_path: Path) -> None:
    """Every row once over a restart, in batches larger than a transaction; a query that was replaced is refused."""
    (tmp_path / "in").mkdir()

    def put_in(number: int) -> None:
        text = "".join(f'{{"key": "f/{number}-{row:05}", "value": "v"}}\n' for row in range(ROWS_MAX + 7))
        (tmp_path / "in" / f"{number}.json").write_text(text)

    def run(checkpoint: str) -> None:
        rows = spark.readStream.schema("key string, value string").option("maxFilesPerTrigger", 1)
        stream = rows.json(str(tmp_path / "in")).writeStream.format("raftmeta").trigger(availableNow=True)
        stream = stream.options(url=client.url, sink="streamed", split="true")
        stream.option("checkpointLocation", str(tmp_path / checkpoint)).start().awaitTermination()

    put_in(0)
    run("one")
    commit = tmp_path / "one" / "commits" / "0"
    commit.unlink()  # as after a crash behind the write: the batch comes again
    commit.with_name(".0.crc").unlink(missing_ok=True)
    put_in(1)
    run("one")
    found = client.range(prefix="f/", keys_only=True).records
    assert (len(found), {record.version for record in found}) == (2 * (ROWS_MAX + 7), {1})
    run("two")  # another query: it begins anew, and replaces the first one
    put_in(2)
    with pytest.raises(StreamingQueryException, match="replaced this one"):
        run("one")
    assert not client.range(prefix="f/2", keys_only=True).records


def test_an_answer_that_is_lost_does_not_write_twice(client: raftmeta.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Init: the transaction is applied, and its answer never comes. Check: the sink finds its batch there."""
    with Sink(client, "lost") as sink:
        txn, calls = client.txn, []

        def lose_the_first_answer(*arguments: Any, **options: Any) -> Any:
            calls.append(arguments)
            reply = txn(*arguments, **options)
            if len(calls) == 1:
                raise raftmeta.OutcomeUnknown("the connection broke")
            return reply

        monkeypatch.setattr(client, "txn", lose_the_first_answer)
        written = sink.write(rows(g1=b"1"), 0)
        assert (written.was_there, len(calls)) == (True, 1)
    assert client.get("g1").version == 1  # type: ignore[union-attr]


def test_two_writers_of_one_batch_write_it_once(client: raftmeta.Client) -> None:
    """Two threads of one driver with the same batch: one writes it, the other one finds it."""
    with Sink(client, "twice") as sink:
        found: list[bool] = []
        barrier = threading.Barrier(2)

        def write() -> None:
            barrier.wait()
            found.append(sink.write(rows(h1=b"1"), 0).was_there)

        threads = [threading.Thread(target=write) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(found) == [False, True]
    assert client.get("h1").version == 1  # type: ignore[union-attr]


def test_a_stream_is_written_once_over_a_crash(spark: Any, client: raftmeta.Client, tmp_path: Path) -> None:
    """Init: a stream of three files, whose driver dies after the second batch is in the store and before Spark knows.
    Act: start it again from its checkpoint, then once more from none. Check: each batch once; without its checkpoint it
    is another query, and begins anew."""
    for number in range(3):
        (tmp_path / "in").mkdir(exist_ok=True)
        spark.createDataFrame([(f"i{number}", b"x")], "key string, value binary").coalesce(1).write.parquet(
            str(tmp_path / "in"), mode="append"
        )
    revisions: list[tuple[int, bool]] = []

    def run(checkpoint: str, dies_at: int = -1) -> None:
        with Sink(client, "stream") as sink:

            def write(frame: Any, batch: int) -> None:
                written = sink.write(frame, batch)
                revisions.append((batch, written.was_there))
                if batch == dies_at:
                    raise RuntimeError("killed")

            frames = spark.readStream.schema("key string, value binary").option("maxFilesPerTrigger", 1)
            stream = frames.parquet(str(tmp_path / "in")).writeStream.foreachBatch(write)
            stream = stream.option("checkpointLocation", str(tmp_path / checkpoint)).trigger(availableNow=True)
            stream.start().awaitTermination()

    with pytest.raises(Exception, match="killed"):
        run("checkpoint", dies_at=1)
    assert len(there(client, "i")) == 2
    run("checkpoint")
    assert revisions == [(0, False), (1, False), (1, True), (2, False)]
    assert {client.get(f"i{number}").version for number in range(3)} == {1}  # type: ignore[union-attr]
    run("other")
    assert revisions[4:] == [(0, False), (1, False), (2, False)]


def test_the_example_writes_its_stream(spark: Any, tmp_path: Path) -> None:
    """Settings of topics, from files into the store; run twice, written once."""
    assert example.main(tmp_path) == example.main(tmp_path) == {f"settings/topic-{n}": n + 1 for n in range(5)}
