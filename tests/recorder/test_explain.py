"""The causes that `raftmeta explain` names: real processes, killed, paused, cut off, stopped (docs/explain.md)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from raftmeta.cli.app import app
from raftmeta.explain import Incident
from tests.processes.cluster import Cluster
from tests.recorder.incidents import KINDS, Kind, cluster_under_shims, done, explained

TRIES = 4  # on a busy machine the leader may change for reasons of its own just before it is struck
SURE = {"cut": "likely", "kill": "", "gil": ""}  # the others are certain; these may be either, as others saw it


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster_under_shims(tmp_path_factory.mktemp("explain")) as running:
        yield running


def named(cluster: Cluster, kind: Kind) -> Incident:
    """The incident that names the cause of one of that kind."""
    for _ in range(TRIES):
        verdict = done(cluster, kind)
        assert not verdict.wrong
        if verdict.judged is not None and verdict.is_named:
            return verdict.judged
    raise AssertionError(f"{kind.name} was not named: {explained(cluster).incidents}")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_cause_is_named(cluster: Cluster, kind: Kind) -> None:
    incident = named(cluster, kind)
    assert incident.cause.confidence in (SURE.get(kind.name, "certain") or ("certain", "likely"))


def test_the_command_tells_what_was_found(cluster: Cluster, tmp_path: Path) -> None:
    """Text, JSON and a page that loads nothing."""
    named(cluster, KINDS[0])
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
    assert "href" not in text
    assert "http" not in text.replace("http-equiv", "")
    assert run("explain", "--since", "2999-01-01", *folders) == ""
    at = datetime.fromtimestamp(last.ended_s, UTC).isoformat()
    assert f"leader_change {last.number}: {last.text}" in run("explain", "--at", at, *folders)
    assert run("explain", "--at", "2999-01-01", *folders) == "nothing was recorded within 1 s of that moment\n"
    before = run("explain", "--at", "1999-01-01", *folders)
    assert "nothing was recorded" in before
    assert "a's records begin later at " in before
    assert "no leader change 999" in run("explain", "--leader-change", "999", *folders, code=2)
    assert "is no time" in run("explain", "--since", "yesterday", *folders, code=2)
