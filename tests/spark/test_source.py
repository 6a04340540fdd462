"""format("raftmeta"): tables and options through Spark. What the rows are is held by tests/scan."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.errors import AnalysisException, PySparkException

import raftmeta
from raftmeta import snapshot
from raftmeta.errors import InvalidArgument, RaftmetaError
from raftmeta.spark import read
from raftmeta.spark.options import SourceOptions
from raftmeta.spark.source import RaftmetaSource
from tests.client.nodes import serving
from tests.scan.states import NOT_TEXT, fill

FLOOR = 100
LEASE = 77

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[raftmeta.Node, str, str]]:
    """A node with a past, the URL of its clients, and a backup of it."""
    folder = tmp_path_factory.mktemp("source")
    with serving(folder) as (nodes, url):
        fill(nodes["a"])
        with nodes["a"].lease(600.0, id=LEASE):  # it is kept alive as long as somebody holds it
            nodes["a"].compact(FLOOR)
            snapshot.save(nodes["a"], folder / "backup.sealed")
            yield nodes["a"], url, str(folder / "backup.sealed")


def rows_of(node: raftmeta.Node, revision: int, prefix: str = "") -> list[tuple[bytes, bytes, int]]:
    return [(row.key, row.value, row.mod_revision) for row in node.range(prefix=prefix, revision=revision).records]


def collected(frame: Any) -> list[tuple[bytes, bytes, int]]:
    picked = frame.select("key", "value", "mod_revision").collect()
    return sorted((bytes(row.key), bytes(row.value), row.mod_revision) for row in picked)


@pytest.mark.parametrize("where", ["path", "url"])
def test_two_queries_on_one_table_see_the_same_rows(
    spark: Any, store: tuple[raftmeta.Node, str, str], where: str
) -> None:
    """A filter of one stays its own; and both see one revision, though others write between them."""
    node, url, path = store
    revision = node.status().revision
    given = {"path": path} if where == "path" else {"url": url, "revision": str(revision)}
    frame = read(spark, partitions=3, **given)
    everything = rows_of(node, revision)
    assert frame.where("key_text like 'key-1%'").count() == len(rows_of(node, revision, "key-1"))
    node.put("written/between", "two queries")
    assert frame.where("key_text is null").select("key").collect()[0].key == NOT_TEXT
    assert collected(frame) == everything
    assert {row.at_revision for row in frame.select("at_revision").distinct().collect()} == {revision}


def test_changes_members_and_leases_are_tables(spark: Any, store: tuple[raftmeta.Node, str, str]) -> None:
    """From a file and from the cluster, alike."""
    _, url, path = store
    high = read(spark, path=path, columns="at_revision").first().at_revision
    told = {}
    for where in ({"path": path}, {"url": url}):
        frame = read(spark, "changes", start_revision=FLOOR + 1, revision=high, previous="true", **where)
        assert frame.columns[-3:] == ["prev_value", "prev_lease", "prev_revision"]
        told[next(iter(where))] = sorted(frame.collect(), key=lambda row: (row.revision, row.sub))
        assert read(spark, "members", **where).first().role == "voter"
        assert [(row.id, row.ttl_ms) for row in read(spark, "leases", **where).collect()] == [(LEASE, 600_000)]
    assert told["path"] == told["url"]
    assert {row.revision for row in told["path"]} == set(range(FLOOR + 1, high + 1))


@pytest.mark.parametrize(
    ("table", "given", "message"),
    [
        ("kv", {"prefixx": "a"}, "prefixx: there is no such option; did you mean 'prefix'?"),
        ("kv", {"start_revision": "5"}, "start_revision: means nothing for the table kv"),
        ("kv", {"columns": "key,valu"}, "columns: kv has no 'valu'"),
        ("kv", {"revision": "12x"}, "revision: must be a whole number"),
        ("kv", {"revision": "7"}, "revision: 7 is compacted"),
        ("kv", {"revision": "900000"}, "revision: 900000 is not in"),
        ("kv", {"prefix": "a", "start": "b"}, "prefix: give either prefix, or start and end"),
        ("kv", {"prefix": "zz", "keys": "hex"}, "is not made of hexadecimal digits"),
        ("kv", {"url": "raft://a:1"}, "path: give either path"),
        ("tables", {}, "table: must be one of kv, changes, members, leases"),
        ("changes", {"previous": "maybe"}, "previous: must be true or false, not 'maybe'"),
        ("changes", {"previous": "true", "columns": "key"}, "previous: name the columns"),
        ("kv", {"previous": "true"}, "previous: means nothing for the table kv"),
        ("changes", {}, f"up to revision {FLOOR} are compacted .* the oldest one is {FLOOR + 1}"),
    ],
)
def test_a_wrong_option_is_an_error_that_names_it(
    store: tuple[raftmeta.Node, str, str], table: str, given: dict[str, str], message: str
) -> None:
    """When the table is loaded, or with what the file says when parts are made of it."""
    with pytest.raises(RaftmetaError, match=message):
        source = RaftmetaSource({"path": store[2], "table": table, **given})
        source.reader(source.schema()).partitions()


def test_an_error_of_an_option_comes_through_spark(spark: Any, store: tuple[raftmeta.Node, str, str]) -> None:
    """Of its name at once, of what it says with the first row."""
    with pytest.raises(AnalysisException, match="did you mean 'prefix'"):
        read(spark, path=store[2], prefixx="a")
    with pytest.raises(AnalysisException, match="revision: 7 is compacted"):
        read(spark, path=store[2], revision=7).count()


def test_a_table_of_the_catalog_is_the_table_of_its_options(
    spark: Any, store: tuple[raftmeta.Node, str, str], tmp_path: Path
) -> None:
    """CREATE TABLE adds properties of Spark's own, and the reader of such a table is given no options at all."""
    _, url, path = store
    spark.sql(f"CREATE DATABASE kept LOCATION '{tmp_path}'")
    try:
        spark.sql(
            f"CREATE TABLE kept.keys USING raftmeta OPTIONS (path '{path}', prefix 'key-1') TBLPROPERTIES ('a'='b')"
        )
        spark.sql(f"CREATE TABLE kept.placed USING raftmeta OPTIONS (prefix 'key-1') COMMENT 'c' LOCATION '{path}'")
        spark.sql(
            f"CREATE TABLE kept.past USING raftmeta OPTIONS (url '{url}', table 'changes', start_revision 'oldest')"
        )
        expected = collected(read(spark, path=path, prefix="key-1"))
        assert collected(spark.table("kept.keys")) == expected == collected(spark.table("kept.placed"))
        assert spark.sql("SELECT min(revision) FROM kept.past").first()[0] == FLOOR + 1
        assert spark.sql("SELECT count(*) FROM kept.keys WITH (prefix = 'key-11')").first()[0] < len(expected)
        with pytest.raises(AnalysisException, match="did you mean 'prefix'"):
            spark.sql("CREATE TABLE kept.wrong USING raftmeta OPTIONS (path 'x', prefixx 'key-1')")
        spark.sql(f"CREATE TABLE kept.listed (key binary) USING raftmeta OPTIONS (path '{path}')")
        with pytest.raises(PySparkException, match="must not list columns"):
            spark.table("kept.listed").collect()
    finally:
        spark.sql("DROP DATABASE kept CASCADE")


def test_a_file_that_is_damaged_is_an_error(spark: Any, store: tuple[raftmeta.Node, str, str], tmp_path: Path) -> None:
    """In the middle of what a task reads."""
    raw = bytearray(Path(store[2]).read_bytes())
    raw[len(raw) // 2] ^= 1
    damaged = tmp_path / "damaged.sealed"
    damaged.write_bytes(raw)
    with pytest.raises(PySparkException, match="is not a whole snapshot"):
        read(spark, path=str(damaged)).count()


def test_keys_that_are_no_text_can_be_asked_for() -> None:
    """In hexadecimal digits."""
    options = SourceOptions.parse({"path": "x", "prefix": "fffe", "keys": "hex"})
    assert (options.scope.start, options.scope.stop) == (b"\xff\xfe", b"\xff\xff")
    with pytest.raises(InvalidArgument, match="names one twice"):
        SourceOptions.parse({"path": "x", "columns": "key, key"})


def test_an_executor_without_the_package_says_so(tmp_path: Path) -> None:
    """A reader is unpickled there: its error names the machine, the Python, and what to install."""
    sent = tmp_path / "sent"
    source = RaftmetaSource({"path": "x"})
    sent.write_bytes(cloudpickle.dumps(source.reader(source.schema())))
    blocked = "import pickle, sys; sys.modules['raftmeta'] = None; pickle.loads(open(sys.argv[1], 'rb').read())"
    found = subprocess.run([sys.executable, "-c", blocked, sent], capture_output=True, text=True, check=False)
    assert "cannot read for format('raftmeta')" in found.stderr
    assert f"install raftmeta[spark] {raftmeta.__version__} there" in found.stderr
    assert type(pickle.loads(sent.read_bytes())).__name__ == "TableReader"
