"""Back ends on raftmeta itself, on ZooKeeper and on PySyncObj: the conformance suite, as etcd and its like have it.

Nodes of raftmeta and servers of ZooKeeper are processes, three each, that are killed and frozen. The nodes of
embedded:// and pysyncobj:// are in this process: no check of them crashes every server.
"""

from __future__ import annotations

import importlib.metadata
import re

import raftmeta
from tests.conformance.kits import embedded_kit, pysyncobj_kit
from tests.conformance.raft_nodes import RaftNodes
from tests.conformance.real_suite import run_kit, run_suite
from tests.conformance.zookeeper_ensemble import Ensemble
from tests.doors.acceptance.trial import Trial
from tests.migrate.zookeeper_server import classpath

OWN = f"raftmeta {raftmeta.__version__}, three nodes"
TTL_S = 4


def run(trial: Trial, only: str = "") -> None:
    """only: one of the schemes."""
    suites = {"raft": _raft, "http": _http, "embedded": _embedded, "zookeeper": _zookeeper, "pysyncobj": _pysyncobj}
    for scheme, suite in suites.items():
        if only in ("", scheme):
            suite(trial)


def _raft(trial: Trial) -> None:
    with RaftNodes(trial.folder / "raft") as nodes:
        run_suite(trial, f"raft://{nodes.addresses}", nodes.servers(), has_one_server=False, server=OWN)


def _http(trial: Trial) -> None:
    with RaftNodes(trial.folder / "http") as nodes:
        url = f"http://{nodes.http_addresses}?ttl_s={TTL_S}"
        run_suite(trial, url, nodes.servers(), has_one_server=False, server=OWN)


def _embedded(trial: Trial) -> None:
    folder = trial.folder / "embedded"
    folder.mkdir()
    with embedded_kit(folder) as kit:
        run_kit(trial, "embedded", kit, server=OWN)


def _zookeeper(trial: Trial) -> None:
    with Ensemble(trial.folder / "zookeeper") as ensemble:
        url = f"zookeeper://{ensemble.addresses}/suite?session_timeout_s={TTL_S}&reads=quorum"
        version = re.findall(r"/zookeeper-([\d.]+)\.jar", classpath(trial.folder))[0]
        server = f"ZooKeeper {version}, three servers"
        run_suite(trial, url, ensemble.servers(), has_one_server=False, server=server)


def _pysyncobj(trial: Trial) -> None:
    with pysyncobj_kit(trial.folder / "pysyncobj") as kit:
        run_kit(trial, "pysyncobj", kit, server=f"PySyncObj {importlib.metadata.version('pysyncobj')}, three nodes")
