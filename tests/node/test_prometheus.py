"""The metrics as Prometheus sees them."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

import raftmeta
from raftmeta import prometheus
from tests.processes.waiting import free_addresses, wait_until

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def node(tmp_path: Path) -> raftmeta.Node:
    (address,) = free_addresses(1)
    return raftmeta.Node("a", peers={"a": address}, data_dir=tmp_path / "a")


def scraped(address: str) -> dict[str, tuple[str, float]]:
    """Name: (kind, value) of every sample of one node."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        sample.name: (family.type, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_metric_is_served_with_its_kind(node: raftmeta.Node) -> None:
    """What node.metrics() gives is there, counters as counters, times in seconds."""
    (address,) = free_addresses(1)
    with node, prometheus.serve(node, address):
        node.ready(20)
        node.put("k", b"v")
        found = scraped(address)
        for name in node.metrics():
            shown = "raftmeta_" + name.replace("_time_ns", "_time_seconds")
            kind = "counter" if name in prometheus.COUNTERS else "gauge"
            assert found[shown + ("_total" if kind == "counter" else "")][0] == kind
        assert found["raftmeta_up"] == ("gauge", 1)
        assert found["raftmeta_is_leader"] == ("gauge", 1)
        assert 0 < found["raftmeta_log_sync_time_seconds_total"][1] < 60


def test_worker_groups_are_counted_by_state(node: raftmeta.Node) -> None:
    (address,) = free_addresses(1)
    with node, prometheus.serve(node, address):
        node.ready(20)
        wait_until(lambda: node.status().feature_level >= 5, timeout_s=30, what="the level of groups")
        lease = node.lease(30)
        for name in ("one", "two"):
            me = node.groups.join(name, {"p": b""}, lease=lease, initial_delay_s=0, timeout_s=20)
        node.groups.sync("two", me.generation, me.member_id, {}, timeout_s=20)
        assert node.groups.counts() == node.groups.counts(local=True)
        assert node.groups.counts("one").states["Completing"] == 1
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=20) as page:
            families = {family.name: family for family in text_string_to_metric_families(page.read().decode())}
    states = {sample.labels["state"]: sample.value for sample in families["raftmeta_groups"].samples}
    assert states == {"Empty": 0, "Preparing": 0, "Completing": 1, "Stable": 1}
    assert [families[f"raftmeta_group_{name}"].samples[0].value for name in ("members", "generations")] == [2, 2]


def metrics_section() -> str:
    """The part of docs/operations.md below its heading "Metrics"."""
    text = (ROOT / "docs/operations.md").read_text()
    return text.split("\n## Metrics\n", 1)[1].split("\n## ", 1)[0]


def test_the_kinds_are_those_of_the_document() -> None:
    """docs/operations.md "Metrics" and the code name the same counters."""
    documented = set()
    for names, kinds in re.findall(r"^\| (`.*`) \| (.*?) \|", metrics_section(), re.MULTILINE):
        words, each = re.findall(r"`(\w+)`", names), kinds.split(", ")
        each *= len(words) if len(each) == 1 else 1
        documented |= {word for word, kind in zip(words, each, strict=True) if kind == "counter"}
    assert documented == prometheus.COUNTERS


def test_a_closed_node_is_down_and_says_nothing_else(node: raftmeta.Node) -> None:
    (address,) = free_addresses(1)
    with prometheus.serve(node, address):
        with node:
            node.ready(20)
        assert scraped(address) == {"raftmeta_up": ("gauge", 0)}


@pytest.mark.parametrize(("address", "match"), [("nowhere", "host:port"), ("0.0.0.0:9464", "insecure=True")])
def test_a_wrong_address_is_a_config_error(node: raftmeta.Node, address: str, match: str) -> None:
    with pytest.raises(raftmeta.ConfigError, match=match):
        prometheus.serve(node, address)


def test_an_address_in_use_is_named(node: raftmeta.Node) -> None:
    (address,) = free_addresses(1)
    with prometheus.serve(node, address), pytest.raises(raftmeta.AddressInUse, match=address):
        prometheus.serve(node, address)


def page(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_probes_tell_a_live_node_from_a_ready_one(tmp_path: Path) -> None:
    """A member of two without the other one lives and is not ready: a probe that is always green restarts nobody."""
    here, other, address = free_addresses(3)
    node = raftmeta.Node("a", peers={"a": here, "b": other}, data_dir=tmp_path / "a")
    with prometheus.serve(node, address):
        assert [page(address, path)[0] for path in ("/livez", "/readyz")] == [503, 503]
        with node:
            assert page(address, "/livez") == (200, "starting\n")
            status, text = page(address, "/readyz")
            assert status == 503
            assert text == "not ready: no connection to b\n"
        assert [page(address, path)[0] for path in ("/livez", "/readyz")] == [503, 503]


def test_a_ready_node_is_ready_and_other_paths_are_not_there(node: raftmeta.Node) -> None:
    """Every path answered 200 with metrics, also /health and /ready."""
    (address,) = free_addresses(1)
    with node, prometheus.serve(node, address):
        node.ready(20)
        assert page(address, "/readyz") == (200, "ready\n")
        assert page(address, "/livez") == (200, "running\n")
        for path in ("/", "/health", "/ready", "/metrics/", "/../metrics"):
            assert page(address, path)[0] == 404, path
        assert page(address, "/metrics?name[]=raftmeta_up")[0] == 200
