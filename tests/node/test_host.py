"""The host process: what a node takes from it and leaves behind; forks, a held GIL, a folder and a port in use."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

import raftmeta
from tests.node.nodes import make_nodes, one_node, running
from tests.processes.waiting import wait_until


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> int:
    return len(os.listdir("/proc/self/task"))


def is_no_more_than(before: tuple[int, int]) -> bool:
    """Of descriptors and threads. Fewer: of tests before this one some threads have ended since, or were collected."""
    return descriptors() <= before[0] and threads() <= before[1]


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# --- what is left behind ----------------------------------------------------------------------------------------------


@pytest.mark.uninstrumented
def test_two_hundred_starts_and_stops_leave_nothing_behind(memory_folder: Path) -> None:
    """features.md 19: descriptors, threads, memory."""
    first = make_nodes(memory_folder, names="a")["a"]
    peers = {"a": str(first.identity.listen)}

    def start_and_stop(count: int) -> None:
        for _ in range(count):
            with raftmeta.Node("a", peers=peers, data_dir=memory_folder / "a", config=first.config):
                pass
        gc.collect()

    with first:
        first.ready(30)
        first.put("k", b"v")
    start_and_stop(50)
    before = descriptors(), threads(), resident_bytes()
    start_and_stop(150)
    assert is_no_more_than(before[:2])
    assert resident_bytes() - before[2] < 4 * 1024 * 1024


def test_a_node_that_nobody_holds_ends_by_itself(tmp_path: Path) -> None:
    gc.collect()
    before = descriptors(), threads()
    with one_node(tmp_path) as node:
        peers = {"a": str(node.identity.listen)}
        config = node.config
    forgotten = raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a", config=config)
    forgotten.start()
    forgotten.ready(30)
    lease = forgotten.lease(5)
    watch = forgotten.watch(prefix="")
    del forgotten, lease, watch
    gc.collect()
    # A thread that was joined stands among the tasks until the kernel has put it away.
    wait_until(lambda: is_no_more_than(before), timeout_s=30, what="nothing to be left")


def test_several_nodes_live_in_one_process(tmp_path: Path) -> None:
    """Two clusters side by side know nothing of each other."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    with running(tmp_path / "one") as one, running(tmp_path / "two") as two:
        one["a"].put("k", b"one")
        two["a"].put("k", b"two")
        assert one["b"].get("k").value == b"one"  # type: ignore[union-attr]
        assert two["b"].get("k").value == b"two"  # type: ignore[union-attr]


def test_nothing_of_the_host_is_taken(tmp_path: Path) -> None:
    """No signal handler, no logger configured, every descriptor close-on-exec, native threads take no signals."""
    import logging

    handlers = {number: signal.getsignal(number) for number in signal.valid_signals()}
    before = set(os.listdir("/proc/self/fd"))
    tasks = set(os.listdir("/proc/self/task"))
    with one_node(tmp_path):
        for name in set(os.listdir("/proc/self/fd")) - before:
            with contextlib.suppress(OSError):  # the listing's own
                assert not os.get_inheritable(int(name))
        natives = set(os.listdir("/proc/self/task")) - tasks
        blocked = [Path(f"/proc/self/task/{task}/status").read_text() for task in natives]
        assert len(natives) == 6  # loop, log, memory, checkpoint, flight, host
        for status in blocked:
            mask = int(next(line for line in status.splitlines() if line.startswith("SigBlk")).split()[1], 16)
            assert mask & (1 << (signal.SIGINT - 1))
            assert mask & (1 << (signal.SIGTERM - 1))
    assert {number: signal.getsignal(number) for number in signal.valid_signals()} == handlers
    assert logging.getLogger("raftmeta").handlers == []


# --- forks ------------------------------------------------------------------------------------------------------------


def in_child(work: Callable[[], bool], until: int) -> int:
    """Fork; the child does `work`, then waits until the pipe `until` ends. The pid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # a process with threads forks: that is the point
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if work() else 2
            os.read(until, 1)
        finally:
            os._exit(code)
    return pid


def test_a_forked_child_cannot_use_the_node_and_holds_nothing_of_it(tmp_path: Path) -> None:
    before = descriptors()
    with one_node(tmp_path) as node:
        peers = {"a": str(node.identity.listen)}
        node.put("k", b"v")
        release, keep = os.pipe()
        told, tell = os.pipe()

        def refused(call: Callable[[], object]) -> bool:
            try:
                call()
            except raftmeta.ForkedProcess:
                return True
            return False

        def work() -> bool:
            os.close(keep)
            os.write(tell, b"x")
            if descriptors() > before + 3:  # the pipes; fewer: what earlier tests left to the garbage collector
                return False
            node.close()
            calls = (node.status, node.start, lambda: node.put("k", b"w"), lambda: node.get("k", local=True))
            return all(refused(call) for call in calls)

        pid = in_child(work, release)
        os.close(release)
        assert node.put("k", b"x") == 2
        assert os.read(told, 1) == b"x"  # a child that has not run yet holds every descriptor
        node.close()
        # The child lives on: neither the port nor the folder may be taken by it.
        with raftmeta.Node("a", peers=peers, data_dir=tmp_path / "a", config=node.config) as again:
            again.ready(30)
            assert again.get("k").value == b"x"  # type: ignore[union-attr]
        for end in (keep, told, tell):
            os.close(end)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# --- what stands in the way -------------------------------------------------------------------------------------------


def refusal(node: raftmeta.Node, *, looks_at: str = "*") -> raftmeta.ConfigError:
    """The error of start(), which comes before anything is waited for and leaves the folder as it was (its lock apart).

    looks_at: the files of the folder that nobody else may be writing meanwhile.
    """
    folder = Path(node.identity.data_dir)

    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in folder.rglob(looks_at) if path.name != "lock"}

    before = written()
    began = time.monotonic()
    with pytest.raises(raftmeta.ConfigError) as caught:
        node.start()
    assert time.monotonic() - began < 5  # of which a busy machine takes nearly all
    assert written() == before
    return caught.value


def test_a_port_in_use_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        error = refusal(raftmeta.Node("a", peers={"a": address}, data_dir=tmp_path / "a"))
        assert isinstance(error, raftmeta.AddressInUse)
        assert error.address == address
        assert not (tmp_path / "a").exists()


def test_a_folder_in_use_names_the_process(tmp_path: Path) -> None:
    with one_node(tmp_path) as node:
        other = make_nodes(tmp_path, names="a")["a"]
        error = refusal(other, looks_at="identity")  # its owner runs, and writes its log
        assert isinstance(error, raftmeta.FolderInUse)
        assert error.pid == os.getpid()
        assert str(os.getpid()) in str(error)
        node.put("k", b"v")


def test_a_folder_of_another_node_or_cluster_is_refused(tmp_path: Path) -> None:
    with one_node(tmp_path) as node:
        address = str(node.identity.listen)
        config = node.config
    for name, cluster in (("b", "default"), ("a", "other")):
        wrong = raftmeta.Node(name, peers={name: address}, data_dir=tmp_path / "a", cluster=cluster, config=config)
        assert isinstance(refusal(wrong), raftmeta.ForeignFolder)


def test_a_folder_whose_parent_is_missing_is_a_setting_that_is_wrong(tmp_path: Path) -> None:
    node = make_nodes(tmp_path / "missing", names="a")["a"]
    assert refusal(node).field == "data_dir"


def test_an_address_that_is_not_here_cannot_be_listened_on(tmp_path: Path) -> None:
    settings = raftmeta.Config(insecure=True)
    node = raftmeta.Node("a", peers={"a": "192.0.2.1:7001"}, data_dir=tmp_path / "a", config=settings)
    assert refusal(node).field == "listen"
