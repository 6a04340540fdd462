"""The word that a process is gone, and leases that are granted while a cluster learns of processes (docs/leases.md)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import raftmeta
from tests.node.nodes import running
from tests.processes.waiting import wait_until

TTL_S = 600.0  # a quarter of it, after which a keep-alive would be due anyway, is longer than a test waits
WAIT_S = 30.0
LEVEL_OF_PROCESSES = 7
CHANGES_MAX = 10_000  # keys of one entry (wire/commands)


def knows_processes(node: raftmeta.Node) -> bool:
    return node.status().feature_level >= LEVEL_OF_PROCESSES


def report(reporter: raftmeta.Node, process: raftmeta.Node) -> raftmeta.Revision:
    told = process.status()
    return reporter.report_dead(told.id, told.boot, timeout_s=WAIT_S)


def test_a_lease_is_its_process_s_from_the_moment_a_node_knows_of_processes(tmp_path: Path) -> None:
    """The session was opened before the level, and named the process an election time-out after it.

    Leases that were granted in between were nobody's for a quarter of their time: an end of the process left them.
    """
    with running(tmp_path, session_ttl_s=TTL_S, election_timeout_s=1.0) as nodes:
        holder, reporter = nodes["a"], nodes["b"]
        wait_until(lambda: knows_processes(holder), timeout_s=WAIT_S, what="the level")
        for key in ("first", "second"):
            holder.create(key, b"held", lease=holder.lease(TTL_S))
        wait_until(lambda: knows_processes(reporter), timeout_s=WAIT_S, what="the level of the other")
        report(reporter, holder)
        assert reporter.get("first") is reporter.get("second") is None


def test_all_leases_are_ended_on_return_also_those_of_several_entries(tmp_path: Path) -> None:
    """One entry has room for the keys of one of them. By both faces."""
    with running(tmp_path, session_ttl_s=TTL_S) as nodes:
        holder, reporter = nodes["a"], nodes["b"]
        for node in (holder, reporter):
            wait_until(lambda node=node: knows_processes(node), timeout_s=WAIT_S, what="the level")
        for face in ("blocking", "asyncio"):
            for lease in (1, 2):
                keys = {f"{face}/{lease}/{number}": b"" for number in range(CHANGES_MAX // 2 + 1)}
                holder.put_many(keys, lease=holder.lease(TTL_S), timeout_s=WAIT_S)
            told = holder.status()
            if face == "blocking":
                answer = report(reporter, holder)
            else:
                answer = asyncio.run(report_awaited(reporter, told.id, told.boot))
            assert reporter.range(prefix=f"{face}/", count_only=True).count == 0
            assert reporter.put("behind", b"").revision == answer.revision + 1


async def report_awaited(node: raftmeta.Node, member: int, boot: int) -> raftmeta.Revision:
    return await node.aio().report_dead(member, boot, timeout_s=WAIT_S)
