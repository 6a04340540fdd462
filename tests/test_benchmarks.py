"""The benchmarks' own arithmetic: what is counted, compared, and allowed to stand as a result."""

from __future__ import annotations

import asyncio
import json
import socket
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hpack import Decoder

import raftmeta
from benchmarks import against, limit, processors, readme
from benchmarks.bench import Bench, all_suites, chosen_suites
from benchmarks.compare.grpc_pipe import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FRAME_HEADER,
    HEADERS,
    PREFACE,
    GrpcError,
    GrpcPipe,
    frame,
    header_block,
)
from benchmarks.load import inside
from benchmarks.load.closed import closed_loop, closed_threads
from benchmarks.load.values import KEYS, VALUES, values_of
from benchmarks.measure import Row, Sample, at_least, at_most, compare_with, interleaved, row_of
from benchmarks.native import ROOT
from benchmarks.page import write_page
from benchmarks.results import read_all, report, write
from benchmarks.suites import peers
from benchmarks.table import lines_of


def sample(per_second: float, p99_ms: float = 1.0) -> Sample:
    return Sample(round(per_second), 1.0, 0.5, p99_ms, 2.0)


# --- figures ----------------------------------------------------------------------------------------------------------


def test_a_row_is_the_median_of_its_rounds() -> None:
    told = row_of("puts", [sample(100), sample(300, p99_ms=9), sample(200)]).to_json()
    assert (told["value"], told["least"], told["greatest"], told["rounds"]) == (200, 100, 300, 3)
    assert told["details"]["p99_ms"] == 1.0


@pytest.mark.parametrize(
    ("delays", "alone_s"),
    [({1: 5.0}, 10.0), ({1: 9.0}, 6.0), ({1: 9.0, 2: 1.0}, 5.0), ({1: 25.0}, 2.0)],
    ids=["nobody else", "one thread waited", "a new thread waited, too", "no less than the processor time"],
)
def test_a_stopwatch_leaves_out_the_wait_for_a_processor(
    monkeypatch: pytest.MonkeyPatch, delays: dict[int, float], alone_s: float
) -> None:
    """10 s by the clock, 2 s on processors; thread 1 had waited 5 s when the watch was made."""
    told = iter([({1: 5.0}, 100.0, 7.0), (delays, 110.0, 9.0)])
    now: dict[str, Any] = {}

    def delays_s() -> dict[int, float]:
        found: dict[int, float] = now["delays"]
        return found

    def advance() -> None:
        now["delays"], now["wall"], now["used"] = next(told)

    monkeypatch.setattr(processors, "thread_delays_s", delays_s)
    monkeypatch.setattr(processors.time, "perf_counter", lambda: now["wall"])
    monkeypatch.setattr(processors.time, "process_time", lambda: now["used"])
    advance()
    watch = processors.Stopwatch()
    advance()
    assert watch.read() == (10.0, 2.0, alone_s)


def test_the_kernel_tells_how_long_each_thread_waited() -> None:
    found = processors.thread_delays_s()
    assert threading.get_native_id() in found
    assert all(delay_s >= 0 for delay_s in found.values())


def test_a_row_has_its_unit_also_where_it_counts() -> None:
    told = Row("elections", "", [0], targets=[at_most("elections", 0, 0)]).to_json()
    (line,) = lines_of([told])
    assert line.split() == ["elections", "0", "elections", "<=", "0:", "reached"]


def test_percentiles_are_of_what_was_timed() -> None:
    found = Sample.of_latencies(2.0, [number / 1000 for number in range(101)], count=1000)
    assert (found.per_second, found.p50_ms, found.p99_ms) == (500, 50, 99)


def test_ratios_are_taken_round_by_round() -> None:
    """A machine that slows down in one round slows both down: the ratio does not see it."""
    row = Row("ours", "/s", [1.0])
    assert compare_with(row, "theirs", [sample(200), sample(20)], [sample(100), sample(10)]) == 2
    assert row.details["x theirs, least"] == row.details["x theirs, greatest"] == 2


def test_competitors_take_turns() -> None:
    order: list[str] = []
    found = interleaved({"a": lambda: sample(1), "b": lambda: sample(2)}, rounds=2, advance=order.append)
    assert order == ["a", "b", "a", "b"]
    assert [one.per_second for one in found["b"]] == [2, 2]


@pytest.mark.parametrize(("value", "is_reached"), [(1.9, False), (2.0, True), (2.1, True)])
def test_a_target_is_reached_at_its_bound(value: float, is_reached: bool) -> None:
    assert at_least("rate", value, 2.0).is_reached is is_reached
    assert at_most("time", -value, -2.0).is_reached is is_reached


def test_no_key_gets_the_same_value_twice_running() -> None:
    """The numbers of keys and values share no factor, and no value is like another."""
    assert len(set(values_of(16))) == VALUES
    assert {(number + KEYS) % VALUES != number % VALUES for number in range(VALUES)} == {True}


# --- loads ------------------------------------------------------------------------------------------------------------


@pytest.mark.asyncio
async def test_a_closed_loop_keeps_so_many_under_way() -> None:
    under_way, most = 0, 0

    async def operation(number: int) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1

    told = await closed_loop(operation, outstanding=20, seconds=0.05, warmup_s=0.01)
    assert (most, under_way) == (20, 0)
    assert told["count"] > 20 and told["p99_ms"] > 0


@pytest.mark.asyncio
async def test_a_failed_operation_ends_a_closed_loop() -> None:
    async def operation(number: int) -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        await closed_loop(operation, outstanding=2, seconds=60, warmup_s=60)


def test_threads_count_what_they_end_in_time() -> None:
    called: list[int] = []
    told = closed_threads(called.append, threads=2, seconds=0.02, warmup_s=0.01)
    assert 0 < told["count"] <= len(called)


@pytest.mark.uninstrumented
def test_the_native_generator_writes_what_it_counts(tmp_path: Path) -> None:
    """A cluster of one in this process: each put that was answered is in the state."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    with raftmeta.Node("a", peers={"a": address}, data_dir=tmp_path / "a") as node:
        node.ready()
        before = node.metrics()["commands_completed"]
        told = inside.puts_native(node, 32, 64, KEYS, 0.1, 0.02)
        assert 0 < told["count"] <= node.metrics()["commands_completed"] - before
        assert node.get("key-00000007", local=True).value in values_of(64)
        assert node.put("after", b"its sequences go on") > told["count"]
        offered = inside.offer_puts(node, 1000, 64, 0.2)
        assert 0 < offered["count"] <= 200


@pytest.mark.uninstrumented
@pytest.mark.parametrize("face", ["native", "asyncio"])
def test_the_limit_runs(face: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = limit.run(Path(folder), face=face, value_bytes=256, outstanding=64, seconds=0.1, warmup_s=0.05)
        assert found.count > 64
        assert list(Path(folder).iterdir()) == []


# --- the gRPC client --------------------------------------------------------------------------------------------------


def test_a_request_carries_the_headers_of_grpc() -> None:
    headers = dict(Decoder().decode(header_block("/etcdserverpb.KV/Put", "127.0.0.1:2379")))
    assert headers[":method"] == "POST" and headers[":path"] == "/etcdserverpb.KV/Put"
    assert headers["content-type"] == "application/grpc" and headers["te"] == "trailers"


def answer(stream: int, status: bytes) -> bytes:
    """Headers, a message, and trailers whose literals go into the dynamic table, as servers send them."""
    trailers = b"\x40\x0bgrpc-status" + bytes([len(status)]) + status
    return (
        frame(HEADERS, END_HEADERS, stream, b"\x88")
        + frame(DATA, 0, stream, b"\0\0\0\0\0")
        + frame(HEADERS, END_HEADERS | END_STREAM, stream, trailers)
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(("status", "is_answered"), [(b"0", True), (b"14", False)])
async def test_a_call_is_done_only_with_status_0(status: bytes, is_answered: bool) -> None:
    """The answer comes in pieces of one byte: frames are put together whatever the reads were."""

    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.readexactly(len(PREFACE)) == PREFACE
        kind = -1
        while kind != DATA:
            high, low, kind, _, stream = FRAME_HEADER.unpack(await reader.readexactly(FRAME_HEADER.size))
            await reader.readexactly(high << 8 | low)
        for byte in answer(stream, status):
            writer.write(bytes([byte]))
            await writer.drain()
        await reader.read()
        writer.close()
        await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        pipe = await GrpcPipe.connect(address, "/etcdserverpb.KV/Put")
        call = pipe.call(b"message")
        if is_answered:
            await asyncio.wait_for(call, 5)
        else:
            with pytest.raises(GrpcError, match="14"):
                await asyncio.wait_for(call, 5)
        pipe.close()
        await asyncio.wait_for(ended.wait(), 5)


# --- what is written --------------------------------------------------------------------------------------------------


def peers_report(busy: float) -> dict[str, Any]:
    rows = []
    for who, rate in (("limit, asyncio", 400_000.0), ("raftmeta, embedded", 200_000.0)):
        for outstanding in readme.OUTSTANDING:
            parameters = {"peer": who, "verb": "put", "outstanding": outstanding}
            rows.append(
                row_of(f"{who}, put, {outstanding}", [sample(rate)], parameters=parameters, note="default settings")
            )
    return report("peers", "Peers", rows, command="./build.sh bench", busy=(busy, busy), folder=Path("/proc"))


def test_reports_are_read_as_they_were_written(tmp_path: Path) -> None:
    told = peers_report(0.0)
    path = write(told, tmp_path)
    assert read_all(tmp_path) == {"peers": json.loads(path.read_text())} == {"peers": told}


def test_the_readme_has_each_share_of_the_limit() -> None:
    table = readme.table_of({"peers": peers_report(0.0)})
    assert "| raftmeta, embedded | 200,000 (50 %), p99 1 ms |" in table


def test_noisy_figures_never_reach_the_readme() -> None:
    with pytest.raises(readme.NoResult, match="other programs"):
        readme.table_of({"peers": peers_report(3.0)})


def test_the_page_is_one_small_file_with_plots(tmp_path: Path) -> None:
    written = write_page({"peers": peers_report(0.0)}, tmp_path).read_text()
    assert "<svg" in written and "<script" not in written and "reached" not in written
    assert len(written) < 200_000


def test_a_selection_names_suites_and_rows(tmp_path: Path) -> None:
    bench = Bench(tmp_path, selection="^puts: .*1024", is_trial=True, progress=lambda what: None)
    bench.suite = "puts"
    assert bench.wants("asyncio, leader, 1024") and not bench.wants("asyncio, leader, 64")
    bench.suite = "reads"
    assert not bench.wants("asyncio, leader, 1024")


def test_suites_have_their_order_and_title() -> None:
    found = all_suites()
    assert next(iter(found)) == "puts" and all(suite.TITLE for suite in found.values())
    assert set(found) - set(chosen_suites([])) == {"doors", "endurance", "etcd", "groups", "observers"}
    assert list(chosen_suites(["endurance", "puts"])) == ["puts", "endurance"]
    assert threading.active_count() < 20  # importing them starts nothing


class Hanging:
    """A peer that is founded, measures one row, and then waits for an answer that does not come."""

    name = "hanging"
    is_embedded = True
    settings = "none"
    founded = 0

    def __init__(self, folder: Path) -> None:
        type(self).founded += 1

    def __enter__(self) -> Hanging:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def puts(self, *, outstanding: int, **_: object) -> Sample:
        if outstanding == 64:
            raise TimeoutError("no answer after 10 s")
        return sample(1000.0 * type(self).founded)


class Sound(Hanging):
    """The same without a fault."""

    name = "sound"

    def puts(self, *, outstanding: int, **_: object) -> Sample:
        return sample(500)


def test_a_peer_that_times_out_has_a_row_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not tried again, what it had measured stands, and the others are measured as ever."""
    monkeypatch.setattr(peers, "PEERS", (Hanging, Sound))
    monkeypatch.setattr(peers, "limit_case", lambda *_: lambda: sample(2000))
    bench = Bench(tmp_path, selection="", is_trial=False, progress=lambda _: None)
    rows = {row.name: row for row in peers.run(bench)}
    assert Hanging.founded == 1
    assert rows["hanging: not measured"].note == "failed, and was not tried again: TimeoutError: no answer after 10 s"
    assert list(rows["hanging, put, 1"].values) == [1000.0] and "hanging, put, 64" not in rows
    assert [list(rows[f"sound, put, {outstanding}"].values) for outstanding in (1, 64, 1024)] == [[500.0] * 3] * 3


def test_a_failure_of_raftmeta_itself_misses_a_target() -> None:
    """A peer may fail; the project's own form may not, and the run says so."""
    row = peers.failed_row(peers.Embedded, TimeoutError("no answer"))
    assert [target.is_reached for target in row.targets] == [False]
    assert peers.failed_row(peers.Etcd, TimeoutError("no answer")).targets == []


def test_another_tree_takes_turns_and_each_turn_is_compared_with_itself(tmp_path: Path) -> None:
    """A machine that is three times slower in the second turn changes no ratio; a row of one tree only is left out."""
    turns: list[Path] = []

    def run(tree: Path, suites: Sequence[str], selection: str) -> dict[tuple[str, str], dict[str, Any]]:
        assert (list(suites), selection) == (["puts"], "1024")
        turns.append(tree)
        pace = 1.0 if len(turns) <= 2 else 1 / 3
        rate = (90.0 if tree == ROOT else 100.0) * pace
        rows = {("puts", "leader"): {"value": rate, "unit": "/s"}, ("puts", "elections"): {"value": 0, "unit": ""}}
        return rows | ({("puts", "new"): {"value": 1.0, "unit": "/s"}} if tree == ROOT else {})

    pairs = against.compare(tmp_path, ["puts"], "1024", turns=2, step=lambda _: None, run=run)
    assert turns == [ROOT, tmp_path, tmp_path, ROOT]
    assert [pair.name for pair in pairs] == ["leader", "elections"]
    told = pairs[0].to_json()
    assert (told["ratio"], told["least"], told["greatest"]) == (0.9, 0.9, 0.9)
    assert pairs[1].to_json()["ratio"] is None
    assert against.table_of(pairs, tmp_path).row_count == 1
