"""The proxy harms whole frames between real nodes, counts it, and the nodes survive it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

import raftmeta
from jepsen.faults.proxy import (
    NO_FAULT,
    Connection,
    Direction,
    Faults,
    FrameFault,
    Proxy,
    frame_length,
    name_of_hello,
)
from tests.jepsen.nodes import FaultyCluster
from tests.processes.cluster import NodeProcess
from tests.processes.load import Load
from tests.processes.waiting import free_ports, wait_until
from tests.security.nodes import Place

NAMES = ("a", "b", "c")
EVERY = [(source, target) for source in NAMES for target in NAMES if source != target]


def metrics(node: raftmeta.Node) -> dict[str, Any]:
    return {name: value for name, value in node.metrics().items() if isinstance(value, int | float)}


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FaultyCluster, Proxy]]:
    """Three nodes that reach each other through one proxy only."""
    ports = free_ports(6)
    peers = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports[:3], strict=True)}
    listen = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, ports[3:], strict=True)}
    folder = tmp_path_factory.mktemp("proxied")
    with (
        Proxy({name: (peers[name], listen[name]) for name in NAMES}, seed=3) as proxy,
        FaultyCluster(folder, peers=peers, listen=listen) as cluster,
    ):
        yield cluster, proxy


def refused(cluster: FaultyCluster) -> int:
    """Connections that a node closed for what came over them."""
    return sum(node.call(metrics)["connections_refused"] for node in cluster.nodes.values())


def under(proxied: tuple[FaultyCluster, Proxy], faults: dict[Direction, FrameFault], what: str) -> None:
    """Writes go on while frames meet the fault `what`; afterwards nothing that was acknowledged is lost."""
    cluster, proxy = proxied
    before = proxy.counters()[what]
    with Load(cluster, prefix=f"{what}/", writers=3) as load:
        load.wait_for_more(5)
        proxy.set(faults)
        wait_until(lambda: proxy.counters()[what] >= before + 5, timeout_s=20, what=f"five frames to meet {what}")
        load.wait_for_more(5)
        proxy.set({})
        load.wait_for_more(5)
    load.check(cluster)


def test_frames_pass_unharmed(proxied: tuple[FaultyCluster, Proxy]) -> None:
    """A cluster is founded and works through the proxy, which harms nothing unasked."""
    cluster, proxy = proxied
    cluster.leader()
    counters = proxy.counters()
    assert counters["seen"] > 10
    assert set(counters) <= {"seen", "refused"}


@pytest.mark.parametrize(
    "fault",
    [
        FrameFault(drop=0.2),
        FrameFault(duplicate=0.5),
        FrameFault(reorder=0.3),
        FrameFault(delay_s=0.01, jitter_s=0.02),
    ],
    ids=["drop", "duplicate", "reorder", "delay"],
)
def test_frames_are_lost_repeated_overtaken_and_late(
    proxied: tuple[FaultyCluster, Proxy], fault: FrameFault, request: pytest.FixtureRequest
) -> None:
    """Of every direction, while clients write."""
    under(proxied, dict.fromkeys(EVERY, fault), request.node.callspec.id)


@pytest.mark.parametrize("what", ["corrupt", "truncate"])
def test_damaged_frames_are_refused(proxied: tuple[FaultyCluster, Proxy], what: str) -> None:
    """Their checksums say so: the connection is closed and counted. One that is cut off is never a frame."""
    cluster, _ = proxied
    before = refused(cluster)
    under(proxied, dict.fromkeys(EVERY, FrameFault(**{what: 0.1})), what)
    assert refused(cluster) > before or what == "truncate"


def test_a_leader_that_nobody_hears_is_replaced(proxied: tuple[FaultyCluster, Proxy]) -> None:
    """One way only: it goes on hearing the others."""
    cluster, proxy = proxied
    former = cluster.leader()
    proxy.set({(former.name, other): FrameFault(drop=1.0) for other in NAMES if other != former.name})
    other = cluster.leader(other_than=former.name)
    proxy.set({})

    def follows(node: NodeProcess) -> bool:
        told = node.status()
        return told is not None and told["role"] == "follower" and told["leader"] != ""

    wait_until(lambda: follows(former), timeout_s=30, what=lambda: f"the former leader to follow\n{cluster.logs()}")
    assert other.name != former.name


# --- TLS --------------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, raftmeta.Node], Proxy]]:
    """Three nodes with TLS that reach each other through the proxy only."""
    place = Place(tmp_path_factory.mktemp("secured"))
    listen = dict(place.peers)
    place.peers = {name: f"127.0.0.1:{port}" for name, port in zip(NAMES, free_ports(3), strict=True)}
    targets = {name: (place.peers[name], listen[name]) for name in NAMES}
    with Proxy(targets, seed=4) as proxy, contextlib.ExitStack() as stack:
        nodes = {name: place.node(name, place.tls(name), listen=listen[name]) for name in NAMES}
        for node in nodes.values():
            stack.callback(node.close, transfer=False)
            node.start()
        for node in nodes.values():
            node.ready(30)
        yield nodes, proxy


@pytest.mark.parametrize("what", ["drop", "duplicate", "reorder", "corrupt", "truncate"])
def test_a_harmed_record_of_tls_costs_the_connection_and_no_write(
    secured: tuple[dict[str, raftmeta.Node], Proxy], what: str
) -> None:
    """The other side notices each harm, and both shake hands anew."""
    nodes, proxy = secured
    before, shaken = proxy.counters()[what], handshakes(nodes)
    proxy.set(dict.fromkeys(EVERY, FrameFault(**{what: 0.05})))
    written = 0
    while proxy.counters()[what] < before + 3:
        with contextlib.suppress(raftmeta.OutcomeUnknown, raftmeta.NotExecuted):
            nodes["a"].put(f"{what}/{written}", b"v", timeout_s=5)
            written += 1
    proxy.set({})
    wait_until(lambda: handshakes(nodes) > shaken, timeout_s=30, what="another handshake")
    for node in nodes.values():
        node.ready(30)
    found = keys_below(nodes["b"], f"{what}/")
    assert found >= {f"{what}/{number}" for number in range(written)}


def keys_below(node: raftmeta.Node, prefix: str) -> set[str]:
    """The harm of a record shows with the next one: a read may be the one that ends its connection."""
    found: set[str] = set()

    def is_answered() -> bool:
        with contextlib.suppress(raftmeta.NotExecuted):
            found.update(one.key.decode() for one in node.range(prefix=prefix, timeout_s=20).records)
            return True
        return False

    wait_until(is_answered, timeout_s=60, what="a read to be answered")
    return found


def handshakes(nodes: dict[str, raftmeta.Node]) -> int:
    return sum(int(node.metrics()["tls_handshakes"]) for node in nodes.values())


def test_a_fault_behind_tls_strikes_by_address() -> None:
    """Where addresses tell who speaks, only that direction; where they do not, all that is said to the target."""
    faults = Faults(Random(1), sources={"10.0.0.1": "a"}, of={("a", "b"): FrameFault(drop=1.0)})
    for host, target, is_answer, is_struck in (
        ("10.0.0.1", "b", False, True),
        ("10.0.0.1", "b", True, False),
        ("10.0.0.1", "c", False, False),
        ("127.0.0.1", "b", False, True),
        ("127.0.0.1", "a", True, True),
        ("127.0.0.1", "a", False, False),
    ):
        connection = Connection(faults, target, host)
        connection.begin_tls()
        assert (connection.fault(is_answer=is_answer) != NO_FAULT) == is_struck, (host, target, is_answer)


def test_headers_and_names_are_read_as_documented() -> None:
    """docs/formats.md "Frame" and "HELLO", by bytes made by hand; what is none is said to be none."""
    header = b"RFTM" + bytes(12) + (7).to_bytes(4, "little") + (9).to_bytes(4, "little") + bytes(72)
    assert frame_length(header) == 96 + 7 + 9
    assert frame_length(b"HTTP" + header[4:]) is None
    hello = bytes([0x9D, 1, 1, 1, 3]) + b"\xcf" + bytes(8) + b"\xcf" + bytes(8) + b"\xcf" + bytes(8) + b"\x07\x01"
    assert name_of_hello(hello + b"\xc4\x02n1\xc4\x01x") == "n1"
    assert name_of_hello(hello) == ""
    assert name_of_hello(hello + b"\xc4\x02\xff\xfe") == ""


@pytest.mark.parametrize("wrong", [{"drop": 1.5}, {"corrupt": -0.1}, {"delay_s": -1.0}])
def test_a_fault_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    """A probability is one, and time goes forward."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        FrameFault(**wrong)
    assert FrameFault() == NO_FAULT
