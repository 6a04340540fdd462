"""The order of a run: what several processes wrote down becomes one history that claims no more than was true."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jepsen.spool import Spool, read_spool
from jepsen.store import Fault, RunFolder
from raftmeta.check import check


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path, workload="register", nemesis="none", seed=1)


def spool_lines(folder: RunFolder, name: str, *lines: list[object]) -> None:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder.spools / f"{name}.jsonl").write_text(text)


def test_two_processes_become_one_legal_history(folder: RunFolder) -> None:
    """A write in one process is read in another; the tables are written and the spools are gone."""
    writer, reader = Spool(folder.spools / "w.jsonl"), Spool(folder.spools / "r.jsonl", node="n1")
    writer.invoke("register", 1, "write", "x", 5)
    reader.invoke("register", 2, "read", "x", None)
    writer.ok("register", 1, None, 1)
    reader.ok("register", 2, 5, 1)
    reader.observe("watch_event", "x", revision=1)
    histories, _ = folder.gather({"register": "cas-register"}, [])
    checked = check(histories["register"], model="cas-register")
    assert (checked.verdict, checked.operations) == ("ok", 2)
    assert pq.read_table(folder.path / "history-register.parquet").num_rows == 4
    (row,) = pq.read_table(folder.path / "observations.parquet").to_pylist()
    assert (row["kind"], row["node"], row["revision"], row["seq"]) == ("watch_event", "n1", 1, 4)
    assert not folder.spools.exists()


def test_a_tie_overlaps_and_accuses_nobody(folder: RunFolder) -> None:
    """A read that begins at the very moment a write completes may still see the old value."""
    spool_lines(folder, "w", ["invoke", 10, "register", 1, "write", "x", 5], ["ok", 20, "register", 1, None, 1])
    spool_lines(folder, "r", ["invoke", 20, "register", 2, "read", "x", None], ["ok", 30, "register", 2, None, 0])
    histories, _ = folder.gather({"register": "cas-register"}, [])
    assert check(histories["register"], model="cas-register").verdict == "ok"


def test_a_stale_read_is_found(folder: RunFolder) -> None:
    """The same, one nanosecond later, is a violation: the order is not blurred more than it has to be."""
    spool_lines(folder, "w", ["invoke", 10, "register", 1, "write", "x", 5], ["ok", 20, "register", 1, None, 1])
    spool_lines(folder, "r", ["invoke", 21, "register", 2, "read", "x", None], ["ok", 30, "register", 2, None, 0])
    histories, _ = folder.gather({"register": "cas-register"}, [])
    assert check(histories["register"], model="cas-register").verdict == "violation"


def test_half_a_line_of_a_killed_process_is_left_out(folder: RunFolder) -> None:
    """What a process had not yet written down whole, it had not yet sent."""
    path = folder.spools / "k.jsonl"
    path.write_bytes(b'["invoke",1,"register",1,"read","x",null]\n["ok",2,"regis')
    assert [line[0] for line in read_spool(path)] == ["invoke"]


def test_faults_stand_in_the_order_of_the_operations(folder: RunFolder) -> None:
    """The bounds of a strike are places in the one order of all events."""
    spool_lines(folder, "w", ["invoke", 10, "register", 1, "write", "x", 5], ["ok", 20, "register", 1, None, 1])
    folder.gather({"register": "cas-register"}, [Fault("kill", "one: n1", 15, 25, "SIGKILL", 1)])
    (row,) = pq.read_table(folder.path / "faults.parquet").to_pylist()
    assert (row["seq_begin"], row["seq_end"], row["observed"]) == (1, 3, 1)
    assert row["end_ns"] - row["begin_ns"] == 10
