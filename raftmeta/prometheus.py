"""A node's metrics for Prometheus: `pip install raftmeta[prometheus]`.

    with raftmeta.prometheus.serve(node, "127.0.0.1:9464"):
        ...

The address serves three paths: `/metrics`, `/livez` (200 while the node runs, else 503) and `/readyz` (200 while it is
ready, else 503 and why). Every other path is 404.

Or register a NodeCollector with a registry of your own. Every name begins with `raftmeta_`, counters end with `_total`,
times are in seconds, and every sample names its node and cluster. This module only decides the names of numbers there;
docs/operations.md "Metrics" explains each number.
"""

from __future__ import annotations

import errno
import socket
import threading
from collections.abc import Iterable, Iterator
from socketserver import ThreadingMixIn
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftmeta.config import Address
from raftmeta.errors import AddressInUse, ConfigError, RaftmetaError
from raftmeta.results import NodeStatus
from raftmeta.verbs.groups import BlockingGroups

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

__all__ = ["COUNTERS", "NodeCollector", "PrometheusServer", "serve"]

NS_PER_S = 1e9
GROUPS_S = 1.0  # for a look at the groups: a page must come in any case
LABELS = ("node", "cluster")

# All other metrics are gauges.
COUNTERS = frozenset(
    {
        "apply_time_ns",
        "audit_dropped",
        "audit_records",
        "audit_suppressed",
        "bytes_in",
        "bytes_out",
        "commands_completed",
        "connections_accepted",
        "connections_evicted",
        "connections_refused",
        "elections",
        "entries_applied",
        "frames_dropped",
        "frames_received",
        "frames_refused",
        "frames_sent",
        "leader_changes",
        "leases_expired",
        "log_sync_time_ns",
        "log_syncs",
        "log_write_bytes",
        "log_writes",
        "machine_commands",
        "machine_commands_failed",
        "machines_diverged",
        "proposals",
        "proposals_repeated",
        "reads_served",
        "snapshot_bytes_received",
        "snapshot_bytes_sent",
        "snapshots_installed",
        "snapshots_taken",
        "state_differences",
        "states_compared",
        "tls_connections_in_kernel",
        "tls_connections_plain",
        "tls_handshakes",
        "tls_handshakes_refused",
        "tls_handshakes_resumed",
        "tls_readings",
        "turns",
    }
)


class Measured(Protocol):
    """A node of either face, or a client of one."""

    def status(self) -> NodeStatus: ...
    def metrics(self) -> dict[str, int]: ...


@runtime_checkable
class HasKeys(Protocol):
    """A node of this process."""

    def encryption_keys(self) -> dict[str, int]: ...


class NodeCollector(Collector):
    """The metrics of one node, read when Prometheus asks. A closed node has only the metric `raftmeta_up`, 0."""

    def __init__(self, node: Measured) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("raftmeta_up", "whether the node runs")
        try:
            status, metrics = self._node.status(), self._node.metrics()
        except RaftmetaError:
            up.add_metric([], 0)
            yield up
            return
        up.add_metric([], 1)
        yield up
        for name, value in sorted(metrics.items()):
            yield _family(name, value, [status.name, status.cluster])
        yield from _of_peers(status)
        yield from _of_keys(status, self._node)
        yield from _of_groups(status, self._node)


def _family(name: str, value: int, labels: list[str]) -> Metric:
    in_seconds = "_time_ns" in name
    shown = "raftmeta_" + name.replace("_time_ns", "_time_seconds")
    kind = CounterMetricFamily if name in COUNTERS else GaugeMetricFamily
    family = kind(shown, f"node.metrics()[{name!r}]", labels=LABELS)
    family.add_metric(labels, value / NS_PER_S if in_seconds else value)
    return family


def _of_peers(status: NodeStatus) -> Iterator[Metric]:
    labels = (*LABELS, "peer")
    connected = GaugeMetricFamily("raftmeta_peer_connected", "whether our connection to the peer is up", labels=labels)
    for member in status.members:
        if not member.is_self:
            connected.add_metric([status.name, status.cluster, member.name], int(member.is_connected))
    yield connected


def _of_keys(status: NodeStatus, node: Measured) -> Iterator[Metric]:
    """Of a node of this process: a client cannot see the files."""
    if isinstance(node, HasKeys):
        labels = (*LABELS, "key")
        needed = GaugeMetricFamily("raftmeta_encryption_key_files", "node.encryption_keys()", labels=labels)
        for key, count in node.encryption_keys().items():
            needed.add_metric([status.name, status.cluster, key], count)
        yield needed


def _of_groups(status: NodeStatus, node: Measured) -> Iterator[Metric]:
    """Of the worker groups, as this node has applied them. A node that cannot answer just now says nothing."""
    groups = getattr(node, "groups", None)
    if not isinstance(groups, BlockingGroups):
        return
    try:
        counts = groups.counts(local=True, timeout_s=GROUPS_S)
    except RaftmetaError:
        return
    labels = [status.name, status.cluster]
    states = GaugeMetricFamily("raftmeta_groups", "worker groups by state", labels=(*LABELS, "state"))
    for state, count in counts.states.items():
        states.add_metric([*labels, state], count)
    yield states
    members = GaugeMetricFamily("raftmeta_group_members", "members of all worker groups", labels=LABELS)
    members.add_metric(labels, counts.members)
    yield members
    generations = GaugeMetricFamily("raftmeta_group_generations", "sum of the groups' generations", labels=LABELS)
    generations.add_metric(labels, counts.generations)
    yield generations


# --- probes -----------------------------------------------------------------------------------------------------------


def liveness(node: Measured) -> tuple[bool, str]:
    """Whether the node runs, and a line that says so. A node that stopped by itself stays so: restart its process."""
    try:
        state = node.status().state
    except RaftmetaError as error:
        return False, f"not running: {error}"
    return state != "stopped", state


def readiness(node: Measured) -> tuple[bool, str]:
    """Whether the node can serve: it has a session and knows a leader."""
    try:
        status = node.status()
    except RaftmetaError as error:
        return False, f"not running: {error}"
    why = "; ".join(problem.text for problem in status.problems) or status.state
    return status.is_ready, "ready" if status.is_ready else f"not ready: {why}"


_PROBES = {"/livez": liveness, "/readyz": readiness}


class _Pages:
    """The pages by path."""

    def __init__(self, node: Measured) -> None:
        registry = CollectorRegistry()
        registry.register(NodeCollector(node))
        self._node = node
        self._metrics = make_wsgi_app(registry)

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            pages: Iterable[bytes] = self._metrics(environ, start_response)
            return pages
        if path in _PROBES:
            is_well, line = _PROBES[path](self._node)
            status = "200 OK" if is_well else "503 Service Unavailable"
        else:
            status, line = "404 Not Found", "there are /metrics, /livez and /readyz"
        start_response(status, [("Content-Type", "text/plain; charset=utf-8")])
        return [f"{line}\n".encode()]


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each request: a probe does not wait for a slow reader of metrics."""

    daemon_threads = True


class _Quiet(WSGIRequestHandler):
    """Says nothing about each request."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


class PrometheusServer:
    """An HTTP endpoint with the metrics and probes of one node, made by serve(). Closing it does not close the node."""

    def __init__(self, node: Measured, address: Address) -> None:
        family = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0][0]
        server = type("_Server", (_Server,), {"address_family": family})
        self._server: WSGIServer = make_server(address.host, address.port, _Pages(node), server, handler_class=_Quiet)
        self._thread = threading.Thread(target=self._server.serve_forever, name="raftmeta-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening and end the thread. Idempotent."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


def serve(node: Measured, address: str, *, insecure: bool = False) -> PrometheusServer:
    """Serve the node's metrics at http://address/metrics, and the probes /livez and /readyz, until close().

    insecure: allow an address that other machines reach; every program that reaches it can read the metrics.
    Raises ConfigError: no such address, or an address that is not loopback without insecure; AddressInUse.
    """
    where = Address.parse(address, "address")
    if not where.is_loopback and not insecure:
        raise ConfigError(
            f"address: {where} is reachable from other machines and has no authentication; "
            "set insecure=True to allow that",
            field="address",
        )
    try:
        return PrometheusServer(node, where)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(
                f"address: another socket listens on {where}", address=str(where), field="address"
            ) from None
        raise ConfigError(f"address: {where}: {error.strerror}", field="address") from None
