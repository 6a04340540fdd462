"""Churn of a broker cluster out of a lake whose story is known, minute by minute; and of examples/broker.py itself."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

import raftmeta
from examples import churn as example
from raftmeta.cli.app import app
from raftmeta.errors import ConfigError
from raftmeta.operations import KeyRecord
from raftmeta.spark import Lake, churn, feed, layout_of, sizes
from raftmeta.spark.feed import Whole
from raftmeta.spark.layout import KAFKA
from tests.spark.test_lake import Replayed

pytestmark = pytest.mark.timeout(600)  # a JVM and its workers start: on a busy machine that takes minutes

T0 = "/brokers/topics/t/partitions/0/state"
T1 = "/brokers/topics/t/partitions/1/state"


def state(leader: int, isr: list[int], leader_epoch: int = 0, controller_epoch: int = 1) -> dict[str, Any]:
    facts = {"controller_epoch": controller_epoch, "leader": leader, "version": 1}
    return {**facts, "leader_epoch": leader_epoch, "isr": isr}


def broker(number: int) -> dict[str, Any]:
    return {"endpoints": [f"PLAINTEXT://10.0.0.{number}:9092"], "rack": f"r{number}"}


# (seconds, changes of one revision: value, or None for a delete)
STORY: list[tuple[int, dict[str, Any]]] = [
    (0, {f"/brokers/ids/{number}": broker(number) for number in (1, 2, 3)}),
    (1, {"/controller": {"brokerid": 1}, "/controller_epoch": 1}),
    (2, {T0: state(1, [1, 2]), T1: state(2, [2, 3]), "/brokers/topics/t": {"partitions": {"0": [1, 2], "1": [2, 3]}}}),
    (10, {"/brokers/ids/2": None}),
    (12, {"/brokers/ids/3": None}),
    (13, {T0: state(1, [1]), T1: state(-1, [2], 1)}),
    (70, {"/brokers/ids/2": broker(2)}),
    (75, {"/brokers/ids/3": broker(3)}),
    (80, {T0: state(1, [1, 2]), T1: state(3, [2, 3], 2)}),
    (
        85,
        {
            "/brokers/topics/t": {
                "partitions": {"0": [1, 2], "1": [1, 2, 3]},
                "adding_replicas": {"1": [1]},
                "removing_replicas": {"1": [2]},
            },
            T1: state(3, [2, 3], 2),
        },
    ),
    (90, {"/controller": None}),
    (95, {"/controller": {"brokerid": 2}, "/controller_epoch": 2}),
    (100, {T1: "no state", "/brokers/ids/1": broker(1) | {"rack": "r9"}}),
]


def told(story: list[tuple[int, dict[str, Any]]]) -> list[Whole]:
    """The revisions of a story, as a store would give them."""
    there: dict[str, KeyRecord] = {}
    revisions = []
    for revision, (second, written) in enumerate(story, 1):
        events = []
        for key, value in written.items():
            before = there.pop(key, None)
            if value is None:
                record = KeyRecord(key.encode(), b"", 0, revision, 0, 0)
                events.append(raftmeta.WatchEvent("delete", record, before, revision))
                continue
            created, version = (before.create_revision, before.version + 1) if before else (revision, 1)
            lease = 7 if key.startswith("/brokers/ids/") else 0
            there[key] = KeyRecord(key.encode(), json.dumps(value).encode(), created, revision, version, lease)
            events.append(raftmeta.WatchEvent("put", there[key], before, revision))
        revisions.append((revision, float(second), events))
    return revisions


def at(second: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(second, datetime.UTC)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return feed(Replayed(told(STORY)), tmp_path_factory.mktemp("lake"), file_rows=5).lake


@pytest.fixture(scope="module")
def out(spark: Any, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return churn(lake, tmp_path_factory.mktemp("churn") / "out", until=at(120)).out


def rows(out: Path, name: str, *columns: str) -> list[tuple[Any, ...]]:
    return [tuple(row[column] for column in columns) for row in pq.read_table(out / f"{name}.parquet").to_pylist()]


def test_brokers_come_and_go(out: Path) -> None:
    events = [(1, "1", "up"), (1, "2", "up"), (1, "3", "up"), (4, "2", "down"), (5, "3", "down")]
    events += [(7, "2", "up"), (8, "3", "up"), (13, "1", "changed")]
    assert rows(out, "brokers", "revision", "broker", "event") == events
    last = pq.read_table(out / "brokers.parquet").to_pylist()[-1]
    assert (last["rack"], last["endpoints"], last["epoch"], last["lease"]) == (
        "r9",
        ["PLAINTEXT://10.0.0.1:9092"],
        1,
        7,
    )


def test_brokers_that_fall_out_together_are_one_outage(out: Path) -> None:
    """2 s apart is together by default; until the last of them is back."""
    columns = ("brokers", "within_ms", "are_back", "lasted_ms")
    assert rows(out, "outages", *columns) == [(["2", "3"], 2000, True, 65000)]


def test_controllers_have_epochs_and_lengths(out: Path) -> None:
    columns = ("ts", "controller", "epoch", "duration_ms", "vacant_ms")
    assert rows(out, "controllers", *columns) == [(at(1), "1", 1, 89000, 0), (at(95), "2", 2, 25000, 5000)]


def test_partitions_have_leaders_and_replicas(out: Path) -> None:
    """Each state with the replicas of then, also where its topic comes after it in the same revision; one that it
    moves to is not missing."""
    found = rows(out, "partitions", "partition", "ts", "leader", "isr", "replicas", "lasted_ms")
    assert found == [
        (0, at(2), 1, [1, 2], [1, 2], 11000),
        (0, at(13), 1, [1], [1, 2], 67000),
        (0, at(80), 1, [1, 2], [1, 2], 40000),
        (1, at(2), 2, [2, 3], [2, 3], 11000),
        (1, at(13), -1, [2], [2, 3], 67000),
        (1, at(80), 3, [2, 3], [2, 3], 5000),
        (1, at(85), 3, [2, 3], [1, 2, 3], 15000),
    ]
    moves = rows(out, "partitions", "ts", "adding", "removing")
    assert [move for move in moves if move[1] or move[2]] == [(at(85), [1], [2])]
    columns = (
        "revision",
        "partition",
        "shrunk",
        "grown",
        "old_leader",
        "new_leader",
        "under_replicated",
        "below_min_isr",
    )
    assert rows(out, "isr_changes", *columns) == [
        (6, 0, [2], [], 1, 1, True, True),
        (6, 1, [3], [], 2, -1, True, True),
        (9, 0, [], [2], 1, 1, False, False),
        (9, 1, [], [3], -1, 3, False, False),
    ]


def test_churn_is_counted_by_window_and_broker(out: Path) -> None:
    """An interval that lies in two windows is cut between them."""
    columns = ("leader_moves", "isr_shrinks", "isr_grows", "sessions_lost", "under_replicated_ms")
    assert rows(out, "churn", "window", "broker", *columns) == [
        (at(0), "2", 0, 1, 0, 1, 47000),
        (at(0), "3", 0, 1, 0, 1, 47000),
        (at(60), "2", 0, 0, 1, 0, 20000),
        (at(60), "3", 1, 0, 1, 0, 20000),
    ]
    sums = ("partition", "leader_moves", "isr_shrinks", "isr_grows", "under_replicated_ms", "leaderless_ms")
    assert rows(out, "flapping", *sums) == [(0, 0, 1, 1, 67000, 0), (1, 2, 1, 1, 67000, 67000)]


def test_what_cannot_be_read_is_told(out: Path) -> None:
    """A state that is none is in no other table, and the report says so at its top."""
    assert rows(out, "unreadable", "revision", "key_text", "raw") == [(13, T1, '"no state"')]
    page = (out / "report.html").read_text()
    assert "1 values could not be read" in page
    assert not [word for word in ('src="http', "src='http", "@import") if word in page.replace("plotly.com", "")]
    assert json.loads((out / "summary.json").read_text())["figures"]["leader_moves"] == 2


def test_churn_of_a_part_begins_with_what_was_there(spark: Any, lake: Lake, tmp_path: Path) -> None:
    """From second 11 to 72: one broker is away already, and comes back; the other one leaves, alone."""
    part = churn(lake, tmp_path / "out", since=at(11), until=at(72), together_s=1).out
    events = [("1", "there"), ("3", "there"), ("3", "down"), ("2", "up")]
    assert rows(part, "brokers", "broker", "event") == events
    columns = ("brokers", "within_ms", "are_back", "lasted_ms")
    assert rows(part, "outages", *columns) == [(["3"], 0, False, 60000)]
    assert rows(part, "flapping", "under_replicated_ms", "leader_moves") == [(59000, 0), (59000, 1)]
    assert rows(part, "controllers", "controller", "duration_ms") == [("1", 61000)]


def test_a_partition_that_flaps_stands_out(spark: Any, tmp_path: Path) -> None:
    """Ten partitions change once, one changes twenty times; in a layout of somebody's own, with its own fields."""
    (tmp_path / "layout.json").write_text('{"states": "p({topic}).{partition}", "leader": "owner", "isr": "in_sync"}')
    layout = layout_of(tmp_path / "layout.json")
    assert (layout.brokers, layout.leader) == (KAFKA.brokers, "owner")
    topic = {f"p(a).{number}": {"owner": 1, "in_sync": [1, 2]} for number in range(11)}
    story: list[tuple[int, dict[str, Any]]] = [(0, topic), (1, {key: {"owner": 1, "in_sync": [1]} for key in topic})]
    story += [(2 + move, {"p(a).7": {"owner": 1 + move % 2, "in_sync": [1]}}) for move in range(20)]
    lake = feed(Replayed(told(story)), tmp_path / "lake").lake
    out = churn(lake, tmp_path / "out", layout=layout, until=at(30)).out
    found = rows(out, "flapping", "topic", "partition", "is_flapping")
    assert [(topic, partition) for topic, partition, is_flapping in found if is_flapping] == [("a", 7)]


def test_sizes_are_by_prefix(spark: Any, lake: Lake, tmp_path: Path) -> None:
    """Keys and bytes that are there, and what a watch of the prefix was sent."""
    table = {row["prefix"]: row for row in sizes(lake, tmp_path / "sizes.parquet").to_pylist()}
    assert (table["/brokers/ids/"]["keys"], table["/brokers/ids/"]["leased_keys"]) == (3, 3)
    assert (table["/brokers/ids/"]["changes"], table["/brokers/ids/"]["revisions"]) == (8, 6)
    assert (table["/"]["keys"], table["/"]["changes"]) == (2, 5)
    deeper = {row["prefix"]: row["keys"] for row in sizes(lake, depth=3, revision=3).to_pylist()}
    assert deeper == {"/": 2, "/brokers/ids/": 3, "/brokers/topics/": 1, "/brokers/topics/t/": 2}
    assert pq.read_table(tmp_path / "sizes.parquet")["prefix"].to_pylist() == sorted(table)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"states": "p({topic}).{partition}", "isr": ["in_sync"]}', "isr: must be the name of a field"),
        ('{"states": "p/{topic}"}', r"must have \{partition\}, \{topic\}, each once"),
        ('{"leaders": "x"}', "'leaders'"),
        ("[1]", "a layout is an object"),
        ("{", "not readable as JSON"),
    ],
)
def test_what_is_wrong_with_a_layout_is_said(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "layout.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        layout_of(path)


def test_an_empty_lake_has_a_report(spark: Any, tmp_path: Path) -> None:
    """No rows anywhere, and the question whether the layout is the right one."""
    lake = feed(Replayed([]), tmp_path / "lake").lake
    churned = churn(lake, tmp_path / "out")
    assert set(churned.counts.values()) == {0}
    assert "is this the right layout?" in (churned.out / "report.html").read_text()


def test_a_folder_of_something_else_is_kept(spark: Any, lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="holds something that no churn wrote"):
        churn(lake, tmp_path)
    assert CliRunner().invoke(app, ["pipeline", "churn", str(lake.folder), "--out", str(tmp_path)]).exit_code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_the_example_finds_its_own_story(spark: Any, tmp_path: Path) -> None:
    """Three brokers of examples/broker.py, of which one leaves and comes back: the tables have it."""
    out = example.main(tmp_path)
    events = rows(out, "brokers", "broker", "event")
    (left,) = {broker for broker, event in events if event == "down"}
    assert [event for broker, event in events if broker == left] == ["up", "down", "up"]
    moved = [leader for shrunk, leader in rows(out, "isr_changes", "shrunk", "new_leader") if shrunk == [int(left)]]
    assert len(moved) == 6 and int(left) not in moved
    shown = CliRunner().invoke(app, ["pipeline", "sizes", str(tmp_path / "backup.sealed")])
    assert (shown.exit_code, "/brokers/topics/" in shown.stdout) == (0, True)
