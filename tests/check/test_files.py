"""Histories from files: what was written is read again, what others wrote is understood, what is no event is told."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from raftmeta.check import Event, Fault, History, Nothing, check, read_history, write_history
from raftmeta.check.arrow import check_table, cut_table, verdict_schema
from raftmeta.check.edn import read_edn
from raftmeta.check.files import from_arrow, to_arrow
from tests.check.store import Workload, history_of

EVENTS = [
    Event(3, 0, "invoke", "write", {"b": 1, "a": "ü"}, [1, None]),
    Event(5, "reader", "invoke", "read", "k", time_ns=7),
    Event(6, 0, "ok", revision=4, time_ns=9),
    Event(9, "reader", "ok", "read", "k", result=None, revision=0),
    Event(11, 2, "invoke", "cas", "k", [None, "x"]),
    Event(12, 2, "info"),
]


@pytest.mark.parametrize("name", ["history.jsonl", "history.parquet"])
def test_what_was_written_is_read_again(tmp_path: Path, name: str) -> None:
    write_history(History.of(EVENTS), tmp_path / name)
    found = list(read_history(tmp_path / name))
    if name.endswith("parquet"):  # processes are numbers there
        names = {"reader": -(2**63)}
        wanted = [Event(e.seq, names.get(str(e.process), e.process), *_rest(e)) for e in EVENTS]
    else:
        wanted = EVENTS
    assert found == wanted


def _rest(event: Event) -> tuple[Any, ...]:
    return tuple(getattr(event, name) for name in Event.__slots__[2:])


@pytest.mark.parametrize("seed", range(3))
def test_arrow_is_checked_like_events(seed: int) -> None:
    """Slices, many chunks, shuffled rows and foreign types: the same verdict and the same numbers."""
    history = history_of(Workload(300, 4, keys=3, crash_share=0.02).run(seed))
    table = to_arrow(history)
    plain = table.replace_schema_metadata(None)
    chunked = pa.concat_tables([plain.slice(row, 50) for row in range(0, len(plain), 50)])
    shuffled = pa.concat_tables([plain.slice(300), plain.slice(0, 300)])
    kinds = pa.array(["invoke", "ok", "fail", "info"]).take(plain.column("kind").combine_chunks())
    worded = plain.set_column(2, "kind", kinds).set_column(3, "operation", plain.column("operation").cast(pa.string()))
    padded = pa.concat_tables([plain.slice(0, 7), plain]).slice(7)
    wanted = check(history, model="kv")
    assert wanted.verdict == "ok"
    for variant in (table, plain, chunked, shuffled, worded, padded, plain.to_batches()[0]):
        checked = check(from_arrow(variant), model="kv")
        assert (checked.verdict, checked.operations, checked.steps, checked.engines) == (
            wanted.verdict,
            wanted.operations,
            wanted.steps,
            wanted.engines,
        )


def test_texts_that_are_not_canonical_are_made_so() -> None:
    """`{"a":1, "b":2}` and `{"b": 2, "a": 1}` are one value; what is no JSON is a string."""
    table = pa.table(
        {
            "seq": [0, 1, 2, 3],
            "process": [0, 0, 0, 0],
            "kind": ["invoke", "ok", "invoke", "ok"],
            "operation": ["write", None, "read", None],
            "key": ["k", None, '"k"', None],
            "arguments": ['{"b": 2, "a": 1}', None, None, None],
            "result": [None, None, None, '{"a":1,"b":2}'],
        }
    )
    assert check(from_arrow(table), model="kv").verdict == "ok"


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"seq": [1], "process": [1]}, "no column kind"),
        ({"seq": ["a"], "process": [1], "kind": [0]}, "another type"),
        ({"seq": [1, 2], "process": [1, None], "kind": [0, 1]}, "1 events have no process, the first of them at row 1"),
        ({"seq": [1, None], "process": [1, 1], "kind": [0, 1]}, "1 events have no seq, the first of them at row 1"),
    ],
)
def test_a_table_that_is_no_history_is_refused(columns: dict[str, list[Any]], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        from_arrow(pa.table(columns))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("history.jsonl", '{"process": null, "kind": "invoke", "operation": "write", "key": "x", "arguments": 1}'),
        ("history.jsonl", '{"process": 1, "kind": null, "operation": "write", "key": "x", "arguments": 1}'),
        ("history.edn", "{:process nil :type :invoke :f :write :value 1}"),
    ],
)
def test_an_event_of_nobody_is_in_quarantine(tmp_path: Path, name: str, text: str) -> None:
    """A null process must not become the process 0, or -1, which others may have too."""
    path = tmp_path / name
    path.write_text(text)
    history = read_history(path)
    assert (len(history), len(history.quarantined)) == (0, 1)
    assert "without" in history.quarantined[0].reason


def test_an_empty_table_is_an_empty_history() -> None:
    empty = to_arrow(History.of([]))
    assert len(from_arrow(empty)) == 0
    assert check_table(empty).num_rows == 0


def test_a_table_in_gives_a_table_of_verdicts() -> None:
    """One row per component; the first violation is explained."""
    events = Workload(200, 3, keys=4).run(1)
    last = len(events)
    bad = [
        Event(last, 0, "invoke", "read", "k2"),
        Event(last + 1, 0, "ok", result="nobody wrote this"),
    ]
    found = check_table(to_arrow(history_of([*events, *bad])), model="kv")
    assert found.schema == verdict_schema()
    rows = {row["component"]: row for row in found.to_pylist()}
    assert {name: row["verdict"] for name, row in rows.items()} == {
        '"k0"': "ok",
        '"k1"': "ok",
        '"k2"': "violation",
        '"k3"': "ok",
    }
    assert "nobody wrote this" in rows['"k2"']["explanation"]
    assert sum(row["operations"] for row in rows.values()) == 201


@pytest.mark.parametrize("crash_share", [0.0, 0.001])
@pytest.mark.parametrize("processes", [2, 3])
def test_pieces_of_a_hot_key_say_what_the_whole_says(processes: int, crash_share: float) -> None:
    """Every event is in one piece, and a result that is wrong makes one of the pieces illegal."""
    events = Workload(1000, processes, crash_share=crash_share, has_revisions=False).run(3)
    pieces = list(cut_table(to_arrow(history_of(events)), events_min=100))
    assert sum(len(piece) for piece, _ in pieces) == len(events)
    assert len(pieces) > 5 or crash_share > 0
    verdicts = [check(from_arrow(piece), model="kv", initial=initial).verdict for piece, initial in pieces]
    assert set(verdicts) == {"ok"}
    reads = [row for row, event in enumerate(events) if event.kind == "ok" and type(event.result) is int]
    for row in reads[:: max(1, len(reads) // 4)]:
        spoiled = [*events[:row], replace(events[row], result=events[row].result + 1), *events[row + 1 :]]
        whole = check(history_of(spoiled), model="kv").verdict
        parts = [
            check(from_arrow(piece), model="kv", initial=initial).verdict
            for piece, initial in cut_table(to_arrow(history_of(spoiled)), events_min=100)
        ]
        assert ("violation" in parts) == (whole == "violation")


def test_what_cannot_be_cut_stays_whole() -> None:
    """Several components, models of Python, bad events."""
    several = to_arrow(history_of(Workload(100, 2, keys=2).run(1)))
    assert [len(piece) for piece, _ in cut_table(several, events_min=1)] == [200]
    assert [len(piece) for piece, _ in cut_table(to_arrow(History.of(EVENTS[:2])), events_min=1)] == [2]
    bad = to_arrow(history_of([*Workload(100, 1).run(1), Event(0, 7, "ok", key="k0")]))
    assert [len(piece) for piece, _ in cut_table(bad, events_min=1)] == [201]
    counter = to_arrow(History.of([Event(0, 0, "invoke", "add", "n", 1), Event(1, 0, "ok", result=1)]))
    assert [len(piece) for piece, _ in cut_table(counter, model="counter", events_min=1)] == [2]


def test_lines_that_are_no_events_are_told(tmp_path: Path) -> None:
    """The rest is read; the history does not count as checked."""
    path = tmp_path / "history.jsonl"
    path.write_text(
        '{"seq": 0, "process": 0, "kind": "invoke", "operation": "write", "key": "k", "arguments": 1}\n'
        "\n"
        "not JSON\n"
        '{"process": 0}\n'
        '{"process": 0, "kind": "ok", "colour": 1}\n'
        '{"process": 0.5, "kind": "ok"}\n'
        '{"process": 0, "kind": "ok", "revision": "high"}\n'
        "[1]\n"
        '{"seq": 99, "process": 0, "kind": "ok"}\n'
    )
    history = read_history(path)
    assert [one.row for one in history.quarantined] == [2, 3, 4, 5, 6, 7]
    assert "colour" in history.quarantined[2].reason
    assert len(history) == 2
    assert check(history, model="kv").verdict == "unknown"


JEPSEN = """
{:process 0, :type :invoke, :f :write, :value [x 1], :index 0, :time 10}
{:process 1, :type :invoke, :f :cas, :value [x [1 2]], :index 1, :time 11}
{:process :nemesis, :type :info, :f :start-partition, :value nil, :index 2, :time 12}
{:process :nemesis, :type :info, :f :start-partition, :value "cut", :index 3, :time 14}
{:process 0, :type :ok, :f :write, :value [x 1], :index 4, :time 15} ; fine
#jepsen.history.Op{:process 1, :type :ok, :f :cas, :value [x [1 2]], :index 5, :time 16}
{:process 2, :type :invoke, :f :read, :value [x nil], :index 6, :time 17}
{:process :nemesis, :type :info, :f :stop-partition, :value nil, :index 7, :time 18}
{:process 2, :type :ok, :f :read, :value [x 2], :index 8, :time 19}
{:process 3, :type :invoke, :f :cas, :value [x [9 8]], :index 9, :time 20}
{:process 3, :type :fail, :f :cas, :value [x [9 8]], :index 10, :time 21}
"""


def test_a_history_of_jepsen_is_understood(tmp_path: Path) -> None:
    """One map per line or one vector, keys of `independent`, faults from the nemesis."""
    path = tmp_path / "history.edn"
    for text in (JEPSEN, f"[{JEPSEN}]"):
        path.write_text(text)
        history = read_history(path, is_keyed=True)
        assert history.faults == [Fault("partition", 12, 18)]
        checked = check(history, model="cas-register")
        assert (checked.verdict, checked.operations, checked.failed) == ("ok", 3, 1)
    path.write_text(JEPSEN.replace("[x 2], :index 8", "[x 1], :index 8"))
    assert check(read_history(path, is_keyed=True), model="cas-register").verdict == "violation"


def test_transactions_and_objects_of_jepsen_are_understood(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text(
        "{:process 0 :type :invoke :f :txn :value [[:w :x 1] [:r :y nil]]}\n"
        "{:process 0 :type :ok :f :txn :value [[:w :x 1] [:r :y nil]]}\n"
    )
    assert check(read_history(path), model="kv").verdict == "ok"
    path.write_text(
        "{:process 0 :type :invoke :f :add :value 1} {:process 0 :type :ok :f :add :value 1}\n"
        "{:process 0 :type :invoke :f :read :value nil} {:process 0 :type :ok :f :read :value #{1}}\n"
    )
    assert check(read_history(path), model="set").verdict == "ok"
    path.write_text(
        "{:process 0 :type :invoke :f :acquire :value nil} {:process 0 :type :ok :f :acquire :value nil}\n"
        "{:process 1 :type :invoke :f :acquire :value nil} {:process 1 :type :ok :f :acquire :value nil}\n"
    )
    assert check(read_history(path), model="lock").verdict == "violation"


def test_maps_that_are_no_events_are_told(tmp_path: Path) -> None:
    path = tmp_path / "history.edn"
    path.write_text("{:a 1} 7 {:process 0 :type :invoke :f :read :value 3} {:process 0 :type :ok :value 3}")
    history = read_history(path, is_keyed=True)
    assert len(history.quarantined) == 4


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("nil true false", [None, True, False]),
        ("1 -2 3N 1.5 2e3 4M", [1, -2, 3, 1.5, 2000.0, 4.0]),
        (':a sym/x "q\\"\\n\\u00fc" \\c \\newline \\u0041', ["a", "sym/x", 'q"\nü', "c", "\n", "A"]),
        ("(1 [2 #{3}] {})", [[1, [2, [3]], {}]]),
        ("{:a 1, 2 :b} ; comment", [{"a": 1, "2": "b"}]),
        ('#inst "2026" #_ gone 1 [#_ 2 3]', ["2026", 1, [3]]),
        ("", []),
    ],
)
def test_edn_is_read(text: str, values: list[Any]) -> None:
    assert list(read_edn(text)) == values


@pytest.mark.parametrize("text", ["(1", "]", "[1)", "{:a}", '"open', "#", "(" * 200])
def test_what_is_not_edn_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"EDN|character"):
        list(read_edn(text))


def test_a_name_without_a_known_suffix_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"\.jsonl, \.edn, \.parquet"):
        read_history(tmp_path / "history.csv")
    with pytest.raises(ValueError, match="not written"):
        write_history(History.of([]), tmp_path / "history.edn")


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"raftmeta\[parquet\]"):
        write_history(History.of([]), tmp_path / "history.parquet")
    with pytest.raises(ImportError, match=r"raftmeta\[parquet\]"):
        read_history(tmp_path / "history.parquet")


def test_fields_that_were_not_given_stay_so() -> None:
    (event,) = History.of([Event(0, 0, "ok")])
    assert (event.key, event.arguments, event.result) == (Nothing, Nothing, Nothing)
