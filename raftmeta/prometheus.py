"""A node's metrics for Prometheus: `pip install raftmeta[prometheus]`.

    with raftmeta.prometheus.serve(node, "127.0.0.1:9464"):
        ...

Or register a NodeCollector with a registry of your own. Every name begins with `raftmeta_`, counters end with `_total`,
times are in seconds, and every sample names its node and cluster. It decides only how a number is called there;
docs/operations.md "Metrics" says what each means.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator
from types import TracebackType
from typing import Protocol, Self

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from raftmeta.config import Address
from raftmeta.errors import AddressInUse, ConfigError, RaftmetaError
from raftmeta.results import NodeStatus

__all__ = ["COUNTERS", "NodeCollector", "PrometheusServer", "serve"]

NS_PER_S = 1e9
LABELS = ("node", "cluster")

# All other metrics are gauges.
COUNTERS = frozenset(
    {
        "apply_time_ns",
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
        "turns",
    }
)


class Measured(Protocol):
    """A node of either face, or a client of one."""

    def status(self) -> NodeStatus: ...
    def metrics(self) -> dict[str, int]: ...


class NodeCollector(Collector):
    """The metrics of one node, read when Prometheus asks. A node that is closed has the one metric `raftmeta_up` 0."""

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


class PrometheusServer:
    """An HTTP endpoint with the metrics of one node; serve() makes it. Closing it leaves the node."""

    def __init__(self, node: Measured, address: Address) -> None:
        registry = CollectorRegistry()
        registry.register(NodeCollector(node))
        self._server, self._thread = start_http_server(address.port, address.host, registry)

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
    """Serve the node's metrics at http://address/metrics until close().

    insecure: allow an address that other machines reach; whoever reaches it can read the metrics.
    Raises ConfigError: no such address, or one that is not loopback without insecure; AddressInUse.
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
            raise AddressInUse(f"address: another socket listens on {where}", address=str(where)) from None
        raise ConfigError(f"address: {where}: {error.strerror}", field="address") from None
