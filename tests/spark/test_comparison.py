"""The comparison of an old system with a cluster as a join: it finds what the merge of the same two finds."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import raftmeta
from raftmeta import migrate
from raftmeta.cli import migrate as command
from raftmeta.cli.app import app
from raftmeta.errors import ConfigError
from raftmeta.migrate import Difference, Item, Mapping
from raftmeta.spark import compare
from tests.client.nodes import serving
from tests.lint.sources import ROOT
from tests.migrate.sources import MAPPING, MadeSource, numbered

ZOOKEEPER = str(ROOT / "tests" / "migrate" / "data" / "zookeeper")

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[raftmeta.Client]:
    with serving(tmp_path_factory.mktemp("node")) as (_, url), raftmeta.Client(url) as client:
        client.ready(20)
        yield client


def load(client: raftmeta.Client, source: migrate.Source, mapping: Mapping = MAPPING) -> None:
    migrate.load(client, source, mapping, migrate.plan(source, mapping))


def without_holders(differences: list[Difference]) -> list[tuple[str, bytes, Any, Any]]:
    return [(one.what, one.key, one.source and one.source[:2], one.target) for one in differences]


@pytest.mark.parametrize("mapping", [MAPPING, Mapping(side=b"/side/", prefix=b""), Mapping(side=b"s/", has_side=False)])
def test_a_join_finds_what_the_merge_finds(
    spark: Any, client: raftmeta.Client, tmp_path: Path, mapping: Mapping
) -> None:
    """Missing, extra and other keys in every region, with the side keys among the data or not; nothing else.

    Init: a load. Act: the old system goes on, and somebody writes into the cluster. Check: both ways give the same,
    with both values and the revision that an update needs; and nothing where nothing differs.
    """
    source = numbered(300)
    source.root = b""
    load(client, source, mapping)
    assert compare(spark, client, source, mapping, scratch=tmp_path).counts == Counter()
    items = [*numbered(299).items(), Item(b"/n/000007/\xff\x00", b"", "{}"), Item(b"/z", b"z", '{"z":1}', 1 << 63)]
    items[5] = items[5]._replace(value=b"changed", counter=77)
    items[6] = items[6]._replace(value=b"")
    changed = MadeSource(items)
    changed.root = b""
    client.put("/n/000010", "mine")
    found = compare(spark, client, changed, mapping, shown=1000, out=tmp_path / "out", scratch=tmp_path)
    expected = list(migrate.compare(client, changed, mapping))
    assert without_holders(found.first) == without_holders(expected)
    assert found.counts == Counter(one.what for one in expected)
    assert (found.revision, found.position) == (int(client.get("/n/000010").mod_revision), "now")  # type: ignore[union-attr]
    assert spark.read.parquet(str(tmp_path / "out" / "differences")).count() == len(expected)
    assert compare(spark, client, changed, mapping, shown=2, scratch=tmp_path).first == found.first[:2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]  # nothing temporary is left


def test_only_its_own_folder_is_exchanged(spark: Any, client: raftmeta.Client, tmp_path: Path) -> None:
    """An older table is replaced; something else is refused before anything is read, and an empty cluster is one."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis").write_text("")
    with pytest.raises(ConfigError, match="no comparison wrote"):
        compare(spark, client, numbered(3), MAPPING, out=tmp_path / "mine")
    for count in (3, 2):
        found = compare(spark, client, numbered(count), MAPPING, out=tmp_path / "out")
        assert found.counts == {"missing": 3 * count}
        assert spark.read.parquet(str(tmp_path / "out" / "differences")).count() == 3 * count


def test_values_and_batches_of_any_size_are_compared(
    spark: Any, client: raftmeta.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many small row groups, values of a mebibyte; a value that differs in its last byte."""
    monkeypatch.setattr("raftmeta.spark.comparison.TUNE_BATCH_ROWS", 7)
    large = [Item(b"/big/%d" % number, bytes([number]) * (1 << 20), "{}") for number in range(3)]
    source = MadeSource([*large, *numbered(50).items()])
    load(client, source)
    client.put("/big/1", bytes([1]) * ((1 << 20) - 1) + b"\0")
    (found,) = compare(spark, client, source, MAPPING).first
    assert (found.what, found.key) == ("differs", b"/big/1")


@pytest.mark.usefixtures("spark")
def test_the_command_compares_until_nothing_differs(
    client: raftmeta.Client, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each round reads both sides anew and tells what it found; it ends by itself when nothing differs."""

    def run(*arguments: str, code: int = 0) -> str:
        ended = CliRunner().invoke(app, ["--url", client.url, *arguments])
        assert ended.exit_code == code, ended.output
        return ended.output

    missing = json.loads(run("--json", "migrate", "zookeeper", ZOOKEEPER, "--compare", code=1))
    assert missing["differences"] == missing["missing"] == missing["keys to write"]
    run("migrate", "zookeeper", ZOOKEEPER)
    client.put("/a", "changed")
    client.put("/more", "extra")
    out = ("--out", str(tmp_path / "out"))
    told = run("migrate", "zookeeper", ZOOKEEPER, "--compare", *out, code=1)
    assert "differs  /a\n" in told and "extra    /more\n" in told and "differences: 2" in told
    mends = [lambda: client.put("/a", "second"), lambda: client.delete("/more")]
    pauses = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        mends.pop(0)()

    monkeypatch.setattr(command, "_pause", pause)
    told = run("migrate", "zookeeper", ZOOKEEPER, "--compare", "--until-empty", "--every", "0.5")
    assert [line for line in told.splitlines() if "differences" in line] == [f"differences: {n}" for n in (2, 1, 0)]
    assert pauses == [0.5, 0.5]
    for arguments in (("--until-empty",), ("--compare", "--merge", *out)):
        run("migrate", "zookeeper", ZOOKEEPER, *arguments, code=2)
