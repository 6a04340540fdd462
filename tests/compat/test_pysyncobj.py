"""Programs written for PySyncObj on raftmeta: processes that are killed, and the parts that need no process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from raftmeta.compat.pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, SyncObjException, batteries, replicated
from raftmeta.compat.pysyncobj.files import Batch, LocalFiles, Position
from raftmeta.compat.pysyncobj.journal import createJournal
from raftmeta.compat.pysyncobj.pickle import loads
from raftmeta.compat.pysyncobj.syncobj_admin import executeAdminCommand
from raftmeta.compat.pysyncobj.wire import service_address
from tests.processes.program import Program
from tests.processes.remote import ROOT
from tests.processes.waiting import free_addresses, wait_until

COUNTER = Path(__file__).with_name("counter.py")
READY_S = 40.0


@contextlib.contextmanager
def counters(folder: Path, addresses: list[str]) -> Iterator[list[Program]]:
    with contextlib.ExitStack() as stack:
        programs = []
        for number, address in enumerate(addresses):
            others = [one for one in addresses if one != address]
            command = [sys.executable, "-m", "raftmeta.compat.pysyncobj", "--", COUNTER, folder / f"journal{number}"]
            program = Program(
                [*command, address, *others],
                log=folder / f"log{number}",
                environment={"PYTHONPATH": str(ROOT)},
                folder=folder,
                talks=True,
            )
            programs.append(stack.enter_context(program))
        yield programs


def await_ready(programs: list[Program]) -> None:
    for program in programs:
        program.wait_until(lambda program=program: program.ask("ready") == "True", timeout_s=READY_S, what="ready")


def test_a_program_keeps_its_state_over_a_kill_of_all_nodes(tmp_path: Path) -> None:
    """Nothing that was answered is lost by kill -9 of one node, of all nodes; a method that raises stops nobody."""
    with counters(tmp_path, free_addresses(3)) as programs:
        await_ready(programs)
        assert programs[0].ask("add 5 10") == "5"
        assert programs[1].ask("name first one") == "ok"
        assert programs[1].ask("add -1 10") == f"SyncObjException {FAIL_REASON.UNKNOWN_OUTCOME}"
        programs[2].kill()
        assert programs[0].ask("add 7 20") == "12"
        for program in programs[:2]:
            program.kill()
        for program in programs:
            program.start()
        await_ready(programs)
        # The index counts each command once, on every node alike.
        for program in programs:
            program.wait_until(
                lambda program=program: program.ask("show") == "12 [('first', 'one')] 5",
                timeout_s=READY_S,
                what="state",
            )
        assert programs[2].ask("add 1 10") == "13"


class Ledger(SyncObj):
    """Ticked by hand."""

    def __init__(self, address: str | None, others: list[str], **settings: Any) -> None:
        super().__init__(address, others, SyncObjConf(autoTick=False, appendEntriesUseBatch=False, **settings))
        self.lines: list[str] = []

    @replicated
    def write(self, line: str) -> int:
        self.lines.append(f"{line} at {self.raftLastApplied + 1}")
        return len(self.lines)

    @replicated
    def shout(self, line: str) -> None:
        self.lines.append(line)

    @replicated(ver=1)
    def shout(self, line: str) -> None:  # noqa: F811  # as programs for PySyncObj do it
        self.lines.append(line.upper())


@contextlib.contextmanager
def ledgers(*objects: SyncObj) -> Iterator[None]:
    try:
        yield
    finally:
        for one in objects:
            one.destroy()


def tick_until(objects: list[Any], condition: Any, what: str) -> None:
    def ticked() -> bool:
        for one in objects:
            one.doTick(0.005)
        return bool(condition())

    wait_until(ticked, timeout_s=READY_S, what=what)


def test_methods_and_callbacks_run_in_ticks_only(tmp_path: Path) -> None:
    """A call without a tick changes nothing; versions and the index of an entry are PySyncObj's."""
    (address,) = free_addresses(1)
    ledger = Ledger(address, [], fullDumpFile=str(tmp_path / "dump"))
    told: list[tuple[Any, int]] = []
    with ledgers(ledger):
        tick_until([ledger], ledger.isReady, "ready")
        ledger.write("one", callback=lambda result, error: told.append((result, error)))
        assert ledger.lines == []
        tick_until([ledger], lambda: told, "callback")
        assert told == [(1, FAIL_REASON.SUCCESS)]
        ledger.shout("two")
        ledger.setCodeVersion(1)
        tick_until([ledger], lambda: ledger.getCodeVersion() == 1, "version")
        ledger.shout("three")
        tick_until([ledger], lambda: len(ledger.lines) == 3, "third")
        assert ledger.lines == ["one at 2", "two", "THREE"]
        ledger.forceLogCompaction()
        ledger.doTick()
        assert ledger.getStatus()["log_len"] == 0
    again = Ledger(address, [], fullDumpFile=str(tmp_path / "dump"))
    with ledgers(again):
        again.doTick()  # before there is a leader
        assert (again.lines, again.raftLastApplied) == (["one at 2", "two", "THREE"], again.raftCommitIndex)
        assert again.getCodeVersion() == 1


def test_a_node_without_a_leader_says_so_at_once() -> None:
    """commandsWaitLeader=False: MISSING_LEADER, and a reader without a member has none."""
    ledger = Ledger(None, free_addresses(1), commandsWaitLeader=False)
    told: list[int] = []
    with ledgers(ledger):
        ledger.write("lost", callback=lambda _result, error: told.append(error))
        tick_until([ledger], lambda: told, "callback")
    assert told == [FAIL_REASON.MISSING_LEADER]
    assert not ledger.hasQuorum


def test_a_reader_follows_and_writes_through_a_password(tmp_path: Path) -> None:
    """It has the state and no vote, its calls are applied once; an admin with another password gets no answer."""
    (address,) = free_addresses(1)
    member = Ledger(address, [], password="right")
    reader = Ledger(None, [address], password="right")
    told: list[int] = []
    with ledgers(member, reader):
        tick_until([member, reader], lambda: reader.isReady() and member.isReady(), "ready")
        member.write("one")
        reader.write("two", callback=lambda result, _error: told.append(result))
        tick_until([member, reader], lambda: len(reader.lines) == 2 and told, "both")
        assert sorted(line[:3] for line in member.lines) == ["one", "two"]
        assert reader.lines == member.lines
        tick_until([member], lambda: member.getStatus()["readonly_nodes_count"] == 1, "reader counted")
        assert "version: " not in executeAdminCommand(["-conn", address, "-pass", "wrong", "-status"])
        assert "version: " not in executeAdminCommand(["-conn", address, "-status"])


def test_an_address_in_use_is_told() -> None:
    """BindError after maxBindRetries."""
    (address,) = free_addresses(1)
    first = Ledger(address, [])
    with ledgers(first), pytest.raises(SyncObjException) as error:
        Ledger(address, [], maxBindRetries=1)
    assert error.value.errorCode == "BindError"


def test_files_that_were_removed_begin_anew(tmp_path: Path) -> None:
    """A journal gives the state; without any named file the folder goes, too; a lost dump is not guessed."""
    conf = SyncObjConf(journalFile=str(tmp_path / "journal"), fullDumpFile=str(tmp_path / "dump"))
    files = LocalFiles(conf, "127.0.0.1:1")
    files.dumped(Position("life", 1, 0), None, ["127.0.0.1:1"])
    files.applied(Batch("me", 1, [b"a", b"b"]), 2, 10)
    files.close()
    (tmp_path / "dump").unlink()
    files = LocalFiles(conf, "127.0.0.1:1")
    assert (files.position, files.batches) == (Position("life", 3, 10), [(10, Batch("me", 1, [b"a", b"b"]))])
    files.dumped(Position("life", 3, 10), b"state", ["127.0.0.1:1"])
    files.applied(Batch("me", 2, [b"c"]), 4, 12)
    (files.folder / "mark").touch()
    files.close()
    (tmp_path / "dump").unlink()
    files = LocalFiles(conf, "127.0.0.1:1")
    assert (files.position.index, files.batches) == (1, [])
    assert (files.folder / "mark").exists()
    files.close()
    (tmp_path / "dump").unlink()
    (tmp_path / "journal").unlink()
    files = LocalFiles(conf, "127.0.0.1:1")
    assert not (files.folder / "mark").exists()
    files.close()


def test_a_journal_ends_at_the_first_entry_that_is_not_whole(tmp_path: Path) -> None:
    """A process that was killed while it wrote loses that entry only."""
    path = tmp_path / "journal"
    journal = createJournal(str(path))
    journal.add(b"one", 1, 1)
    whole = path.stat().st_size
    journal.add(b"two", 2, 1)
    journal._destroy()
    path.write_bytes(path.read_bytes()[:-1])
    journal = createJournal(str(path))
    assert journal[:] == [(b"one", 1, 1)]
    assert path.stat().st_size == whole
    journal._destroy()


def test_batteries_do_the_same_on_every_node() -> None:
    """The set takes the same element whatever the order of its hashes; a full queue refuses."""
    elements = batteries.ReplSet()
    elements.reset({"b", "c", "a"}, _doApply=True)
    assert elements.pop(_doApply=True) == "a"
    queue = batteries.ReplPriorityQueue(1)
    assert queue.put(2, _doApply=True)
    assert not queue.put(1, _doApply=True)
    assert queue.get(_doApply=True) == 2
    values = batteries.ReplList()
    values.reset([3, 1], _doApply=True)
    assert values.pop(_doApply=True) == 1


def test_text_of_python_2_that_is_no_text_is_bytes() -> None:
    """Old pickles have texts of either kind."""
    assert loads(b"U\x03fooU\x01\xfa\x86.") == ("foo", b"\xfa")


def test_the_second_port_is_always_a_port() -> None:
    """docs/pysyncobj.md "Ports"."""
    assert service_address("127.0.0.1:4321") == ("127.0.0.1", 14321)
    assert service_address("::1:60000") == ("::1", 50000)
