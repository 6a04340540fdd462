"""The file of a flight recorder: written by native threads, read by raftmeta/explain/rings."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import raftmeta
from raftmeta.errors import ConfigError, InvalidArgument, StorageCorrupt
from raftmeta.explain import words
from raftmeta.explain.rings import PAGE_BYTES, RECORD_BYTES, Record, Ring, read_ring
from raftmeta.native.marks import __file__ as MARKS_FILE
from tests.faces.flight import FlightFace
from tests.node.nodes import one_node
from tests.processes.cluster import Cluster
from tests.processes.waiting import wait_until

SMALL_BYTES = 64 * 1024
PARTS = 4
LOOP, LOG, HOST, OWN = range(PARTS)
PACKAGE = Path(MARKS_FILE).parents[1]


def opened(folder: Path, *, size_bytes: int = SMALL_BYTES, name: bytes = b"a") -> FlightFace:
    return FlightFace(str(folder), size_bytes, name)


def kinds(ring: Ring, life: int | None = None) -> list[int]:
    return [record.kind for record in ring.records if life in (None, record.life)]


# --- the ring ---------------------------------------------------------------------------------------------------------


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    """Each part by itself, with texts of any length; a file for its owner alone, of the size that was asked for."""
    ring = opened(tmp_path)
    ring.begin_life(3, 77)
    ring.write(LOG, words.SYNC, 1, 2**64 - 1, 3, 4)
    ring.write(HOST, words.GIL, 5, 6, 7, 8)
    ring.text(HOST, b"x" * 70)
    assert ring.stop()
    found = read_ring(tmp_path / "flight.ring")
    assert (found.node, found.torn, found.is_running) == ("a", 0, None)
    assert kinds(found) == [words.START, words.MACHINE, words.SYNC, words.GIL]
    start, machine, sync, gil = found.records
    assert (start.a, start.b, start.c, start.d) == (3, 77, os.getpid(), 0)
    identity = Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    assert f"{machine.a:016x}{machine.b:016x}" == identity
    assert (sync.a, sync.b, sync.c, sync.d) == (1, 2**64 - 1, 3, 4)
    assert gil.text == "x" * 70
    file = tmp_path / "flight.ring"
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.stat().st_size == SMALL_BYTES + 2 * PAGE_BYTES


def test_the_newest_records_stay_when_a_part_is_full(tmp_path: Path) -> None:
    """Those of other parts are not touched."""
    capacity = SMALL_BYTES // PARTS // RECORD_BYTES
    ring = opened(tmp_path)
    ring.write(LOG, words.SYNC, 0, 0, 0, 0)
    ring.write_many(LOOP, words.WAITED, 3 * capacity + 5)
    assert ring.stop()
    found = read_ring(tmp_path / "flight.ring")
    waited = [record.a for record in found.records if record.kind == words.WAITED]
    assert waited == list(range(2 * capacity + 5, 3 * capacity + 5))
    assert kinds(found).count(words.SYNC) == 1


def test_the_thread_carries_what_is_recorded_while_it_runs(tmp_path: Path) -> None:
    """Also what several laps of a part leave, and a sign of life."""
    ring = opened(tmp_path)
    assert ring.start()
    ring.write(LOOP, words.WAITED, 1, 2, 3, 4)
    wait_until(lambda: words.WAITED in kinds(read_ring(tmp_path / "flight.ring")), timeout_s=30, what="the record")
    ring.write_many(LOOP, words.WAITED, 10_000)
    last = 10_000 - 1
    wait_until(
        lambda: any(record.a == last for record in read_ring(tmp_path / "flight.ring").records),
        timeout_s=30,
        what="the last record",
    )
    wait_until(lambda: read_ring(tmp_path / "flight.ring").alive, timeout_s=30, what="a sign of life")
    assert ring.stop()
    assert read_ring(tmp_path / "flight.ring").torn == 0


def test_another_life_goes_on_behind_the_one_before(tmp_path: Path) -> None:
    for boot in (1, 2, 3):
        ring = opened(tmp_path)
        ring.begin_life(boot, 7)
        assert ring.start()
        wait_until(lambda: read_ring(tmp_path / "flight.ring").alive, timeout_s=30, what="a sign of life")
        assert ring.stop()
    starts = [record for record in read_ring(tmp_path / "flight.ring").records if record.kind == words.START]
    assert [(start.life, start.a) for start in starts] == [(1, 1), (2, 2), (3, 3)]
    assert starts[0].d == 0
    assert starts[0].wall_ns < starts[1].d < starts[1].wall_ns  # the last sign of life of the life before


def test_a_torn_record_is_left_out(tmp_path: Path) -> None:
    """A power cut in the middle of a page; the others stay, and the next life goes on."""
    ring = opened(tmp_path)
    ring.write_many(LOOP, words.WAITED, 3)
    assert ring.stop()
    file = tmp_path / "flight.ring"
    raw = bytearray(file.read_bytes())
    raw[2 * PAGE_BYTES + RECORD_BYTES + 40] ^= 1
    file.write_bytes(raw)
    found = read_ring(file)
    assert found.torn == 1
    assert [record.a for record in found.records] == [0, 2]
    again = opened(tmp_path)
    again.write(LOOP, words.WAITED, 9, 0, 0, 0)
    assert again.stop()
    assert [record.a for record in read_ring(file).records] == [0, 2, 9]


@pytest.mark.parametrize("change", ["size", "name", "header", "shorter"])
def test_a_file_of_another_kind_begins_anew(tmp_path: Path, change: str) -> None:
    ring = opened(tmp_path)
    ring.write_many(LOOP, words.WAITED, 3)
    assert ring.stop()
    file = tmp_path / "flight.ring"
    raw = bytearray(file.read_bytes())
    if change == "header":
        raw[20] ^= 1
    file.write_bytes(raw[:-1] if change == "shorter" else raw)
    size_bytes = 2 * SMALL_BYTES if change == "size" else SMALL_BYTES
    again = opened(tmp_path, size_bytes=size_bytes, name=b"b" if change == "name" else b"a")
    again.write(LOOP, words.CLOCK, 1, 0, 0, 0)
    assert again.stop()
    found = read_ring(file)
    assert kinds(found) == [words.CLOCK]
    assert file.stat().st_size == size_bytes + 2 * PAGE_BYTES


def test_no_link_is_followed_and_no_pipe_is_opened_for_good(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"theirs")
    (tmp_path / "flight.ring").symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        opened(tmp_path)
    (tmp_path / "flight.ring").unlink()
    os.mkfifo(tmp_path / "flight.ring")
    with pytest.raises(OSError, match="exists"):
        opened(tmp_path)
    assert other.read_bytes() == b"theirs"


def test_what_is_no_recorders_file_is_refused(tmp_path: Path) -> None:
    """By name of the file, and never by a wrong story."""
    with pytest.raises(InvalidArgument, match=r"flight\.ring cannot be read"):
        read_ring(tmp_path)
    file = tmp_path / "flight.ring"
    file.write_bytes(b"x" * 10)
    with pytest.raises(StorageCorrupt, match="too short"):
        read_ring(tmp_path)
    file.write_bytes(b"x" * 20_000)
    with pytest.raises(StorageCorrupt, match="first page"):
        read_ring(file)
    file.unlink()
    assert opened(tmp_path).stop()
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(StorageCorrupt, match="was cut"):
        read_ring(file)


# --- the words --------------------------------------------------------------------------------------------------------


def enumerated(header: str, prefix: str) -> dict[str, int]:
    """The numbers of an enum in a header, by names without the prefix."""
    text = (PACKAGE / header).read_text()
    return {name: int(number) for name, number in re.findall(rf"^    {prefix}(\w+) = (\d+)", text, flags=re.MULTILINE)}


def test_every_kind_has_its_number_of_the_headers() -> None:
    flight = enumerated("flight/ring.pxd", "FLIGHT_")
    for name in ("TRACE", "START", "MACHINE", "STOP", "TEXT", "PAUSE", "CLOCK", "SYNC", "WRITE", "WAITED", "GIL"):
        assert getattr(words, name) == flight[name]
    traces = enumerated("raft/ready.pxd", "TRACE_")
    for name in (
        "BECAME_FOLLOWER",
        "BECAME_PRE_CANDIDATE",
        "BECAME_CANDIDATE",
        "BECAME_LEADER",
        "VOTE_REFUSED",
        "TRANSFER",
        "STEPPED_DOWN",
        "TRANSFER_ABORTED",
        "LEADER_LOST",
    ):
        assert getattr(words, name) == words.TRACE + traces[name]
    events = enumerated("engine/state.pxd", "EVENT_") | enumerated("loop/event_log.pxd", "EVENT_")
    for name in (
        "FATAL",
        "LINK_UP",
        "LINK_DOWN",
        "SESSION_LOST",
        "HOST_STALLED",
        "LEASES_EXPIRED",
        "PROCESS_ENDED",
    ):
        assert getattr(words, name) == events[name]
    assert enumerated("raft/ready.pxd", "STEPPED_DOWN_")["NO_QUORUM"] == words.STEPPED_DOWN_NO_QUORUM


def test_every_event_of_the_engine_has_a_word() -> None:
    """TRACE_COMMITTED is not recorded: there is one for each batch."""
    events = enumerated("engine/state.pxd", "EVENT_") | enumerated("loop/event_log.pxd", "EVENT_")
    traces = enumerated("raft/ready.pxd", "TRACE_")
    wanted = {number for name, number in events.items() if name not in ("TRACE", "S_KEPT")}
    wanted |= {words.TRACE + number for name, number in traces.items() if name != "COMMITTED"}
    assert wanted == words.EVENTS.keys() - {words.START, words.STOP}


def test_a_record_is_one_line(tmp_path: Path) -> None:
    def line(kind: int, *numbers: int, text: str = "") -> str:
        a, b, c, d = (*numbers, 0, 0, 0, 0)[:4]
        return words.described(Record("a", 0, 1, 1, kind, 0, 0, a, b, c, d, text), {5: "b"})

    assert line(words.VOTE_REFUSED, 5, 1, 0, 9) == "vote_refused term=9 member=b reason=leader_alive"
    assert line(words.BECAME_FOLLOWER, 0, 0, 0, 9) == "became_follower term=9 member=none"
    assert line(words.LINK_DOWN, 0, 1, text="c") == "link_down peer=c was_refused=1"
    assert line(words.CLOCK, 2**64 - 1500) == "clock_stepped by_ms=-1500"
    assert line(words.SYNC, 0, 1_900_000_000) == "slow_sync for=1.9 s"
    assert line(words.GIL, 0, 700_000_000, text="loads (json:1)") == "gil_held for=700 ms stack=loads (json:1)"
    assert line(99, 1, 2, 3) == "event_99 a=1 b=2 c=3"


# --- nodes ------------------------------------------------------------------------------------------------------------


def test_a_node_records_its_life(tmp_path: Path) -> None:
    """Start, election and an orderly end; while it runs its folder says so."""
    with one_node(tmp_path) as node:
        node.put("k", b"secret value")
        wait_until(lambda: words.BECAME_LEADER in kinds(read_ring(tmp_path / "a")), timeout_s=30, what="its election")
        assert read_ring(tmp_path / "a").is_running is True
    found = read_ring(tmp_path / "a")
    assert found.is_running is False
    assert kinds(found)[:2] == [words.START, words.MACHINE]
    own = [kind for kind in kinds(found) if kind not in (words.PAUSE, words.GIL, words.SYNC, words.WRITE)]
    assert own[-1] == words.STOP
    assert {words.BECAME_PRE_CANDIDATE, words.BECAME_CANDIDATE, words.BECAME_LEADER} <= set(own)
    assert b"secret value" not in Path(found.source).read_bytes()


def test_a_killed_node_leaves_what_it_saw(tmp_path: Path) -> None:
    """No end is recorded; the record of its election is there, and the next life goes on."""
    with Cluster(tmp_path, names="a") as cluster:
        node = cluster.nodes["a"]
        wait_until(lambda: words.BECAME_LEADER in kinds(read_ring(node.folder)), timeout_s=30, what="its election")
        node.kill()
        first = read_ring(node.folder)
        assert first.is_running is False
        assert words.STOP not in kinds(first)
        node.start()
        node.close()
        both = read_ring(node.folder)
        assert words.STOP not in kinds(both, life=1)
        assert words.STOP in kinds(both, life=2)


def test_an_aborted_node_has_not_stopped_in_order(tmp_path: Path) -> None:
    with one_node(tmp_path) as node:
        raftmeta.faults.abort(node)
    assert words.STOP not in kinds(read_ring(tmp_path / "a"))


def test_without_a_recorder_nothing_is_written(tmp_path: Path) -> None:
    with one_node(tmp_path, flight_recorder_bytes=0) as node:
        node.put("k", b"v")
        assert not (tmp_path / "a" / "flight.ring").exists()


def test_a_node_runs_without_its_recorder_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A recorder never keeps a node from its work."""
    (tmp_path / "a").mkdir(mode=0o700)
    (tmp_path / "a" / "flight.ring").mkdir(mode=0o700)
    with one_node(tmp_path) as node:
        node.put("k", b"v")
        assert node.get("k").value == b"v"  # type: ignore[union-attr]
    assert "flight_recorder_off node=a: Is a directory" in caplog.text


def test_a_folder_with_a_link_for_a_ring_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir(mode=0o700)
    (tmp_path / "a" / "flight.ring").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigError, match=r"flight\.ring is a symbolic link"), one_node(tmp_path):
        pass


def test_a_size_that_is_too_small_is_refused() -> None:
    with pytest.raises(ConfigError, match="at least 64 KiB"):
        raftmeta.Config(flight_recorder_bytes=1000)


# --- the host's Python ------------------------------------------------------------------------------------------------


def hold_the_gil(size: int) -> int:
    """One call into C that takes longer the larger size is."""
    return sum(range(size))


def test_the_holder_of_the_gil_is_named_with_its_stack(tmp_path: Path) -> None:
    """However slow the machine: longer and longer calls, until one is recorded."""

    def named(size: int) -> bool:
        hold_the_gil(size)
        return any(
            record.kind == words.GIL and "hold_the_gil" in record.text for record in read_ring(tmp_path / "a").records
        )

    sizes = iter(range(10_000_000, 1_000_000_000, 4_000_000))
    with one_node(tmp_path):
        wait_until(lambda: named(next(sizes)), timeout_s=60, what="the holder of the GIL", pause_s=0.1)
