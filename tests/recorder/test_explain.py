"""The causes that `raftmeta explain` names: real processes, killed, paused, cut off, stopped (docs/explain.md)."""

from __future__ import annotations

import errno
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import raftmeta
from jepsen.faults import shim
from jepsen.faults.shim import Action, Calls
from raftmeta import explain as explaining
from raftmeta.explain import words
from raftmeta.explain.rings import read_ring
from tests.processes.cluster import Cluster, NodeProcess, close, cut_off, put
from tests.processes.remote import ProcessGone, RemoteError
from tests.processes.waiting import wait_until

WAIT_S = 40.0
TRIES = 4  # on a busy machine the leader may change for reasons of its own just before it is struck
SLOW_S = 0.6


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Three members, each under a shim of its own; each test leaves all of them running and healthy."""
    folder = tmp_path_factory.mktemp("explain")
    running = Cluster(folder)
    for name, node in running.nodes.items():
        node.environment.update(shim.Page.make(folder / f"{name}.page").environment())
    with running:
        yield running


def page_of(node: NodeProcess) -> shim.Page:
    return shim.Page(node.folder.parent / f"{node.name}.page")


def explained(cluster: Cluster, since_s: float = 0.0) -> explaining.Explained:
    return explaining.explain([node.folder for node in cluster.nodes.values()], since_s=since_s)


def healthy(cluster: Cluster) -> None:
    """Every member runs, is not cut off, and knows the leader."""
    for node in cluster.nodes.values():
        if not node.is_alive:
            node.start()
        node.call(cut_off, [])
    cluster.wait_ready()


def leader_change(
    cluster: Cluster, strike: Callable[[NodeProcess], None], heal: Callable[[NodeProcess], None], *, word: str
) -> explaining.Incident:
    """Strike the leader until it is not the leader any more; the change from it, whose cause has word in it.

    Another change may come between; then it is tried again. Never is a wrong cause told as certain.
    """
    found: list[explaining.Incident] = []
    for _ in range(TRIES):
        leader = cluster.leader(timeout_s=WAIT_S)
        begun_s = time.time()
        strike(leader)
        cluster.leader(timeout_s=WAIT_S, other_than=leader.name)
        heal(leader)
        healthy(cluster)
        changes = [one for one in explained(cluster, begun_s).incidents if one.kind == "leader_change"]
        found = [one for one in changes if one.nodes[0] == leader.name]
        if found and word in found[0].cause.text:
            assert leader.name in found[0].cause.text
            return found[0]
        assert not [one for one in found[:1] if one.cause.confidence == "certain" and "paused" not in one.cause.text]
    raise AssertionError(f"no change with {word!r}: {found}")


def test_a_killed_leader_is_named(cluster: Cluster) -> None:
    change = leader_change(cluster, NodeProcess.kill, lambda _: None, word="was killed or crashed")
    assert change.cause.confidence in ("certain", "likely")


def test_a_paused_leader_is_named_with_how_long(cluster: Cluster) -> None:
    def heal(node: NodeProcess) -> None:
        node.resume()
        # Its threads write that down as they go on.
        wait_until(
            lambda: (
                {
                    record.part
                    for record in read_ring(node.folder).records
                    if record.kind == words.PAUSE and record.b >= 200_000_000
                }
                >= {0, 3}
            ),
            timeout_s=WAIT_S,
            what="records of the pause",
        )

    change = leader_change(cluster, NodeProcess.pause, heal, word="was paused")
    assert change.cause.confidence == "certain"


def test_a_leader_that_was_cut_off_is_named(cluster: Cluster) -> None:
    def cut(node: NodeProcess) -> None:
        node.call(cut_off, [name for name in cluster.nodes if name != node.name])

    change = leader_change(cluster, cut, lambda node: node.call(cut_off, []), word="it was cut off")
    assert change.cause.confidence == "likely"


def test_a_transfer_is_named(cluster: Cluster) -> None:
    change = leader_change(cluster, lambda node: node.call(transfer), lambda _: None, word="asked to transfer")
    assert change.cause.confidence == "certain"


def transfer(node: raftmeta.Node) -> None:
    node.transfer()


def test_an_orderly_stop_is_named(cluster: Cluster) -> None:
    change = leader_change(cluster, NodeProcess.close, lambda _: None, word="was stopped in order")
    assert change.cause.confidence == "certain"


def test_a_disk_that_fails_is_named_with_its_call(cluster: Cluster) -> None:
    def fail(node: NodeProcess) -> None:
        page_of(node).strike(Calls.SYNC, Action.FAIL, path=".log", value=errno.EIO, count=1)
        with pytest.raises((RemoteError, ProcessGone)):
            node.call(put, "k", b"v")

    def heal(node: NodeProcess) -> None:
        page_of(node).end_all()
        node.call(close)
        node.end()

    change = leader_change(cluster, fail, heal, word="its disk failed (sync: Input/output error)")
    assert change.cause.confidence == "certain"


def test_a_slow_disk_is_named(cluster: Cluster) -> None:
    """As the cause of a write that waited: an answer needs the entry on the disk of the node that answers."""

    def slow() -> list[explaining.Incident]:
        node = cluster.leader(timeout_s=WAIT_S)
        begun_s = time.time()
        rule = page_of(node).strike(Calls.SYNC, Action.DELAY, path=".log", value=round(SLOW_S * 1e9))
        node.call(put, "k", b"v")
        rule.end()
        return [
            one
            for one in explained(cluster, begun_s).incidents
            if one.kind == "slow_write" and one.cause.text.startswith(f"{node.name}'s disk: fdatasync")
        ]

    found = wait_until(slow, timeout_s=WAIT_S, what="a slow write with its cause")
    assert found[0].cause.confidence == "certain"


def test_a_clock_that_was_set_is_named(cluster: Cluster) -> None:
    node = cluster.nodes["a"]
    begun_s = time.time()
    page_of(node).set_wall_offset(-7.5)

    def stepped() -> bool:
        return any(
            one.kind == "clock" and one.nodes == ("a",) and "-75" in one.text for one in explained(cluster).incidents
        )

    wait_until(stepped, timeout_s=WAIT_S, what="the step of the clock")
    page_of(node).set_wall_offset(0.0)
    wait_until(
        lambda: any(one.kind == "clock" and " 7" in one.text for one in explained(cluster, begun_s - 60).incidents),
        timeout_s=WAIT_S,
        what="the step back",
    )


def test_the_command_tells_what_was_found(cluster: Cluster, tmp_path: Path) -> None:
    """Text, JSON and a page that loads nothing."""
    from click.testing import CliRunner

    from raftmeta.cli.app import app

    leader_change(cluster, NodeProcess.kill, lambda _: None, word="was killed or crashed")
    folders = [str(node.folder) for node in cluster.nodes.values()]
    last = [one for one in explained(cluster).incidents if one.kind == "leader_change"][-1]

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, [*arguments], catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result.output

    told = run("explain", "--leader-change", str(last.number), *folders)
    assert f"leader_change {last.number}: {last.text}" in told
    assert f"{last.cause.confidence}: {last.cause.text}" in told
    assert "became_leader" in told
    value = json.loads(run("--json", "explain", *folders))
    assert {one["name"] for one in value["nodes"]} == set(cluster.nodes)
    assert any(one["number"] == last.number and one["cause"] == last.cause.text for one in value["incidents"])
    page = tmp_path / "page.html"
    run("explain", "--all", "--html", str(page), *folders)
    text = page.read_text()
    assert last.cause.text.replace("'", "&#x27;") in text
    assert "default-src 'none'" in text
    assert "src=" not in text.replace("default-src", "").replace("style-src", "")
    assert "href" not in text
    assert run("explain", "--since", "2999-01-01", *folders) == ""
    assert "no leader change 999" in run("explain", "--leader-change", "999", *folders, code=2)
    assert "is no time" in run("explain", "--since", "yesterday", *folders, code=2)
