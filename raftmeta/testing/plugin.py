"""The pytest plugin of raftmeta, found by its entry point: a cluster of real nodes for each test that asks for one.

    @pytest.mark.raftmeta_cluster(nodes=5)
    def test_survives_two(raftmeta_cluster):
        raftmeta_cluster.kill("a")
        raftmeta_cluster.kill("b")
        raftmeta_cluster.leader().put("key", b"value")

A failed test shows how each node saw itself, and its last events. An asyncio test wraps the fixture:
`async with raftmeta.testing.aio.Cluster(cluster=raftmeta_cluster) as cluster`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from raftmeta.testing.cluster import Cluster  # loaded by the first test that asks for one: others do not pay for it

_CLUSTER: pytest.StashKey[Cluster] = pytest.StashKey()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "raftmeta_cluster(nodes=3, config=None, seed=1): what the fixture of this name starts; arguments of "
        "raftmeta.testing.Cluster",
    )


@pytest.fixture
def raftmeta_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """A running raftmeta.testing.Cluster of this test's own; the marker of the same name gives its arguments."""
    from raftmeta.testing.cluster import Cluster

    marker = request.node.get_closest_marker("raftmeta_cluster")
    with Cluster(*marker.args, **marker.kwargs) if marker else Cluster() as cluster:
        request.node.stash[_CLUSTER] = cluster
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and call.when == "call" and _CLUSTER in item.stash:
        report.sections.append(("raftmeta cluster", item.stash[_CLUSTER].report()))
    return report
