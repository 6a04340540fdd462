"""The demonstration tells the truth: it runs, it cleans up, and its table turns red when something was lost."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

import raftmeta
from demo.display import LiveDisplay, MemberView, PlainDisplay
from demo.ledger import Acknowledgement, digest_of
from demo.processes import LedgerProcess
from demo.report import PeerReport, Report, failover_ns, longest_gap_ns, lost_writes, read_records
from demo.stage import Flow, LedgerTail
from tests.lint.sources import imports_at_load, imports_of
from tests.processes.waiting import wait_until

ROOT = Path(__file__).resolve().parents[1]


def start(*arguments: str, folder: Path, **options: Any) -> subprocess.Popen[str]:
    """The demonstration, with its temporary files in folder."""
    command = [sys.executable, "-m", "demo", *arguments]
    environment = {**os.environ, "TMPDIR": str(folder)}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, **options)


def processes_of(folder: Path) -> list[int]:
    """The processes that have a path below folder among their arguments."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                arguments = (process / "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if f"{folder}/raftmeta-demo-".encode() in arguments:
                found.append(int(process.name))
    return found


# --- as it is called --------------------------------------------------------------------------------------------------


def test_the_demonstration_ends_well(tmp_path: Path) -> None:
    """Every act on raftmeta and on PySyncObj, however long its folder's path is; one JSON object tells that nothing was
    lost; nothing is left.
    """
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    process = start("--json", "--topics", "50", "--gil-seconds", "2", folder=folder, stderr=subprocess.PIPE)
    out, told = process.communicate(timeout=110)
    assert process.returncode == 0, told + out
    table = json.loads(out)
    assert (table["right"], table["lost"], table["watch_gaps"], table["late_writes_accepted"]) == (True, 0, 0, 0)
    assert table["late_writes_refused_as"] == ["Fenced"]
    assert table["is_leader_unchanged"]
    assert table["partitions"] == {"1": 150, "2": 150, "3": 150}
    assert len(table["state_hashes"]) == 3
    assert table["acknowledged"] > 500
    assert table["peer"]["acknowledged"] > 50
    assert told.count("kill -9") == 4
    assert processes_of(folder) == []
    assert list(folder.iterdir()) == []


def test_ctrl_c_leaves_neither_processes_nor_files(tmp_path: Path) -> None:
    process = start("--plain", folder=tmp_path, stderr=subprocess.PIPE)
    assert process.stdout is not None
    while "is elected controller" not in process.stdout.readline():
        assert process.poll() is None
    assert len(processes_of(tmp_path)) == 4
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    assert processes_of(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_acts_are_shown_on_a_page_that_ends_with_them(tmp_path: Path) -> None:
    """`--web`: the page is there before the first act, and knows the brokers; Ctrl-C ends it with all else."""
    process = start("--plain", "--web", "--topics", "10", folder=tmp_path, stderr=subprocess.PIPE)
    assert process.stdout is not None
    while (found := re.search(r"open (http://\S+) to see", line := process.stdout.readline())) is None:
        assert line or process.poll() is None
    with httpx.Client(base_url=found.group(1), timeout=30.0, trust_env=False) as browser:
        assert browser.get("api/session").json()["allows_changes"] is False
        with browser.stream("GET", "api/live/cluster") as events:
            pictures = (json.loads(text[6:]).get("picture") for text in events.iter_lines() if text[:5] == "data:")
            picture = next(one for one in pictures if one and len(one["members"]) == 3)
    assert [member["name"] for member in picture["members"]] == ["1", "2", "3"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode == 130
    with pytest.raises(httpx.HTTPError):
        httpx.get(found.group(1), trust_env=False)
    assert processes_of(tmp_path) == []


def test_children_end_when_the_demonstration_is_killed(tmp_path: Path) -> None:
    """Nobody cleans up after kill -9: each child notices by itself that its parent is gone."""
    process = start("--plain", folder=tmp_path)
    assert process.stdout is not None
    while "is elected controller" not in process.stdout.readline():
        assert process.poll() is None
    process.kill()
    process.communicate(timeout=20)
    wait_until(lambda: not processes_of(tmp_path), timeout_s=20, what="the children to end")


@pytest.mark.parametrize("wrong", [("--topics", "0"), ("--topics", "x"), ("--brokers", "2"), ("--fast",)])
def test_a_wrong_option_is_told(wrong: tuple[str, ...], tmp_path: Path) -> None:
    process = start(*wrong, folder=tmp_path, stderr=subprocess.PIPE)
    _, told = process.communicate(timeout=20)
    assert process.returncode == 2
    assert wrong[0] in told


# --- what it is built from --------------------------------------------------------------------------------------------


def public_homes() -> list[str]:
    """The modules of those public names of the package that the demonstration says: it loads no others."""
    sources = [*(ROOT / "demo").glob("**/*.py"), *(ROOT / "tests" / "processes").glob("*.py")]
    words = {word for source in sources for word in re.findall(r"\w+", source.read_text())}
    homes = [home for name, home in raftmeta._HOMES.items() if name in words]
    return [*homes, *(f"raftmeta.{name}" for name in raftmeta._MODULES if name in words)]


def needed_modules(*programs: str) -> set[str]:
    """All modules of the checkout that these import or cimport, at their start or later, or by way of others."""
    needed: set[str] = set()
    waiting = list(programs)
    while waiting:
        name = waiting.pop()
        stem = ROOT.joinpath(*name.split("."))
        paths = [*stem.parent.glob(f"{stem.name}.p[yx]*"), *stem.glob("__init__.py")]
        if name and name not in needed and paths:
            needed.add(name)
            if name == "raftmeta":
                waiting += [*imports_at_load(paths[0].read_text(), is_python=True), *public_homes()]
                continue
            for path in paths:
                if path.suffix != ".pyi":
                    waiting += imports_of(path.read_text(), is_python=path.suffix == ".py")
        if "." in name:
            waiting.append(name.rpartition(".")[0])  # the package, and the module of an imported name
    return needed


def test_the_demonstration_needs_no_module_that_is_not_built_for_it() -> None:
    """`./build.sh demo` on a bare clone leaves out whole packages, and some modules."""
    lists = re.findall(r"^NOT_IN_DEMO\+?=,?(\S+)", (ROOT / "build.sh").read_text(), re.MULTILINE)
    names = ",".join(lists).split(",")
    left_out = tuple(f"{name}." for name in names)
    of_page = ("raftmeta.dashboard", "raftmeta.cli.app", "raftmeta.cli.dashboard")
    needed = needed_modules("demo.__main__", "demo.broker", "demo.peer", "tests.processes.__main__", *of_page)
    native = {name for name in needed if ROOT.joinpath(*name.split(".")).with_suffix(".pyx").exists()}
    assert {"raftmeta._core", "raftmeta.face.aio", "raftmeta.storage.wal"} <= native
    assert not [name for name in native if f"{name}.".startswith(left_out)]
    for name in names:
        place = name.replace(".", "/")
        assert (ROOT / f"{place}.pyx").exists() or any(ROOT.glob(f"{place}/**/*.pyx")), f"there is no {name}"


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_neither_the_ledger_nor_the_judge_knows_raftmeta() -> None:
    """Only the nodes' own processes import what is under test."""
    program = "import sys, demo.ledger, demo.acts, demo.report; sys.exit('raftmeta' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0


def test_the_ledger_answers_how_many_lines_of_a_client_are_in_its_file(tmp_path: Path) -> None:
    """Lines of two clients, one of which dies in the middle of a line; the ledger ends with its standard input."""
    ledger = LedgerProcess(tmp_path)
    try:
        ledger.open()
        address = "127.0.0.1", ledger.port
        lines = [Acknowledgement(f"k{i}", digest_of(b"%d" % i), i, 10, 20).line() for i in range(3)]
        with socket.create_connection(address) as first, socket.create_connection(address) as second:
            first.sendall(lines[0] + lines[1][:5])
            assert first.recv(100) == b"1\n"
            second.sendall(lines[2])
            assert second.recv(100) == b"1\n"
            first.close()
            second.sendall(lines[1])
            assert second.recv(100) == b"2\n"
        assert ledger.file.read_bytes() == lines[0] + lines[2] + lines[1]
        assert ledger.end() == 0
    finally:
        ledger.kill()


def test_a_line_that_is_not_whole_yet_is_read_when_it_is(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    one = Acknowledgement("k", "d", 3, 10, 20)
    path.write_bytes(one.line() + one.line()[:4])
    tail = LedgerTail(path)
    assert tail.read() == [one]
    with path.open("ab") as file:
        file.write(one.line()[4:])
    assert tail.read() == [one]
    assert tail.promised == [one, one]
    tail.close()


# --- the verdict ------------------------------------------------------------------------------------------------------

PROMISED = [Acknowledgement("x", "aa", 1, 100, 150), Acknowledgement("y", "bb", 2, 160, 200)]
RIGHT = Report(
    seconds=2.0,
    topics=10,
    topics_ms=100.0,
    partitions={"1": 30, "2": 30, "3": 30},
    acknowledged=2,
    unknown=0,
    lost=[],
    watch_gaps=0,
    late_writes_accepted=0,
    late_writes_refused_as=["Fenced"],
    controller_killed_ms=2000.0,
    writes_after_kill_ms=50.0,
    controller_frozen_ms=2100.0,
    is_leader_unchanged=True,
    calm=Flow(rate=500.0, gap_ms=20.0),
    held=Flow(rate=480.0, gap_ms=30.0),
    wiped_ms=300.0,
    restart_ms=900.0,
    applied=7,
    state_hashes={"1": "f0", "2": "f0", "3": "f0"},
)


@pytest.mark.parametrize(
    "lines", [["x aa 1"], ["x aa 1", "y cc 2"], ["x aa 1", "y bb 3"]], ids=["missing", "other value", "other revision"]
)
def test_a_write_that_one_node_does_not_have_is_lost(lines: list[str]) -> None:
    good = read_records(["x aa 1\n", "y bb 2\n", "z cc 9\n"])  # z: nobody was promised anything
    assert lost_writes(PROMISED, {"a": good, "b": good}) == []
    lost = lost_writes(PROMISED, {"a": good, "b": read_records(lines)})
    assert len(lost) == 1
    assert lost[0].startswith("y at revision 2: b has")


def test_failover_ends_with_a_write_that_was_begun_after_the_kill() -> None:
    """A write that was under way at the kill says nothing: it may have been decided before."""
    assert failover_ns(PROMISED, 120) == 80
    assert failover_ns(PROMISED, 160) is None


def test_the_longest_gap_has_the_edges_too() -> None:
    assert longest_gap_ns([30, 20], 10, 45) == 15
    assert longest_gap_ns([], 10, 45) == 35


def test_a_peer_that_did_not_come_back_is_told_and_not_judged() -> None:
    peer = PeerReport(
        acknowledged=9,
        lost=None,
        leader_killed_ms=700.0,
        is_leader_unchanged=False,
        calm=RIGHT.calm,
        held=RIGHT.held,
        restart_ms=None,
    )
    report = dataclasses.replace(RIGHT, peer=peer)
    assert report.is_right
    assert [row.peer for row in report.rows()].count("did not come back") == 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"acknowledged": 0},
        {"lost": ["x at revision 1: a has None"]},
        {"watch_gaps": 1},
        {"late_writes_accepted": 1},
        {"late_writes_refused_as": ["NoLeader"]},
        {"late_writes_refused_as": []},
        {"partitions": {"1": 30, "2": 29, "3": 30}},
        {"is_leader_unchanged": False},
        {"held": Flow(rate=1.0, gap_ms=4000.0)},
        {"state_hashes": {"1": "f0", "2": "f0", "3": "f1"}},
    ],
    ids=lambda wrong: next(iter(wrong)),
)
def test_one_wrong_number_makes_the_table_wrong(wrong: dict[str, Any]) -> None:
    """Both displays show it."""
    assert RIGHT.is_right
    report = dataclasses.replace(RIGHT, **wrong)
    assert not report.is_right
    assert not report.as_json()["right"]
    plain, live = io.StringIO(), io.StringIO()
    with PlainDisplay(plain) as display:
        display.verdict(report)
    with LiveDisplay(Console(file=live, force_terminal=True, width=140)) as moving:
        moving.verdict(report)
    assert "WRONG" in plain.getvalue()
    assert "WRONG" in live.getvalue()


def test_the_picture_shows_each_broker_and_the_last_events() -> None:
    out = io.StringIO()
    with LiveDisplay(Console(file=out, force_terminal=True, width=140)) as display:
        view = MemberView(
            name="1",
            pid=17,
            life=2,
            state="",
            role="leader",
            is_controller=True,
            epoch=5,
            term=3,
            applied=9,
            partitions=30,
        )
        display.event("kill -9 17")
        views = [view, *(dataclasses.replace(view, state=state) for state in ("killed", "frozen", "starting"))]
        display.picture("raftmeta", views, promised=1234, rate=50.0)
        display.verdict(RIGHT)
    for word in ("kill -9 17", "leader", "epoch 5", "killed", "frozen", "starting", "1,234", "ok"):
        assert word in out.getvalue(), word
    assert "WRONG" not in out.getvalue()
