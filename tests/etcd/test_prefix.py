"""A door with a prefix: etcd's clients see the keys below it, without it, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.migrate import EtcdSource
from tests.etcd.client import EtcdClient
from tests.etcd.gateway import Gateway, Refused, Stream, b64, create, doors, take_events, unb64
from tests.etcd.test_snapshot import kept, saved

PREFIX = "app/"
ALL = b"\0"
READ = "READ"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[raftmeta.Node, int]]:
    with doors(tmp_path_factory.mktemp("prefix"), etcd_prefix=PREFIX) as (nodes, ports):
        for key in ("app", "app.", "app/", "app0", "other", "\x01"):  # beside the prefix, and the prefix itself
            nodes["a"].put(key, b"not theirs")
        yield nodes["a"], ports["a"]


@pytest.fixture
def node(running: tuple[raftmeta.Node, int]) -> raftmeta.Node:
    return running[0]


@pytest.fixture
def etcd(running: tuple[raftmeta.Node, int]) -> Iterator[Gateway]:
    with Gateway(running[1]) as gateway:
        yield gateway
        gateway.delete(ALL, ALL)


def put(key: bytes, value: bytes) -> dict[str, Any]:
    return {"requestPut": {"key": b64(key), "value": b64(value)}}


def test_a_key_of_a_client_is_the_nodes_key_below_the_prefix(node: raftmeta.Node, etcd: Gateway) -> None:
    etcd.put(b"k", b"1")
    assert node.get("app/k").value == b"1"
    node.put("app/n", b"2")
    assert etcd.values(b"n") == {b"n": b"2"}
    etcd.delete(b"k")
    assert node.get("app/k") is None


def test_all_keys_are_those_below_the_prefix(node: raftmeta.Node, etcd: Gateway) -> None:
    for key in (b"a", b"b", b"\xff\xff"):
        etcd.put(key, key)
    assert list(etcd.values(ALL, ALL)) == [b"a", b"b", b"\xff\xff"]
    assert list(etcd.values(b"b", ALL)) == [b"b", b"\xff\xff"]
    assert list(etcd.values(b"a", b"b")) == [b"a"]
    assert etcd.ask("kv/range", key=b64(ALL), range_end=b64(ALL), count_only=True)["count"] == "3"
    assert etcd.ask("kv/deleterange", key=b64(ALL), range_end=b64(ALL))["deleted"] == "3"
    assert node.get("other").value == node.get("app0").value == node.get("app/").value == b"not theirs"


def test_a_transaction_has_the_prefix_in_compares_and_in_what_it_nests(node: raftmeta.Node, etcd: Gateway) -> None:
    node.put("k", b"of the node")
    etcd.put(b"k", b"1")
    answer = etcd.ask(
        "kv/txn",
        compare=[
            {"key": b64(b"k"), "target": "VALUE", "value": b64(b"1")},
            {"key": b64(b"other"), "target": "VERSION", "version": "0"},
            {"key": b64(b"x"), "range_end": b64(ALL), "target": "CREATE", "create_revision": "0"},
        ],
        success=[
            {"requestTxn": {"success": [put(b"nested", b"2")]}},
            {"requestRange": {"key": b64(ALL), "range_end": b64(ALL)}},
            {"requestDeleteRange": {"key": b64(b"k"), "prev_kv": True}},
        ],
    )
    assert answer["succeeded"] is True
    _, ranged, deleted = answer["responses"]
    assert [unb64(kv["key"]) for kv in ranged["response_range"]["kvs"]] == [b"k", b"nested"]
    assert [unb64(kv["key"]) for kv in deleted["response_delete_range"]["prev_kvs"]] == [b"k"]
    assert (node.get("k").value, node.get("app/nested").value) == (b"of the node", b"2")


def test_a_watch_of_all_keys_tells_of_those_below_the_prefix(running: tuple[raftmeta.Node, int], etcd: Gateway) -> None:
    """Also one that names no key at all, which is the first key of all."""
    node, port = running
    nameless = {"create_request": {"range_end": b64(ALL)}}
    for request in (create(ALL, ALL, prev_kv=True), nameless):
        with Stream(port, "watch", request) as stream:
            assert stream.take()["created"] is True
            node.put("other", b"1")
            node.put("\x01", b"1")
            etcd.put(b"k", b"2")
            node.delete("app/k")
            node.put("app0", b"not theirs")
            etcd.put(b"z", b"3")
            seen = take_events(stream, 3)
        assert [(kind, key) for kind, key, _, _ in seen] == [("PUT", b"k"), ("DELETE", b"k"), ("PUT", b"z")]


def test_a_lease_shows_its_keys_below_the_prefix(node: raftmeta.Node, etcd: Gateway) -> None:
    lease = etcd.ask("lease/grant", TTL="600")["ID"]
    etcd.put(b"leased", b"", lease=lease)
    told = etcd.ask("lease/timetolive", ID=lease, keys=True)
    assert [unb64(key) for key in told["keys"]] == [b"leased"]
    etcd.ask("lease/revoke", ID=lease)
    assert node.get("app/leased") is None


def test_locks_and_elections_stand_below_the_prefix(node: raftmeta.Node, etcd: Gateway) -> None:
    lease = etcd.ask("lease/grant", TTL="600")["ID"]
    for name in (b"lock", b""):
        key = unb64(etcd.ask("lock/lock", name=b64(name), lease=lease)["key"])
        assert key == b"%s/%x" % (name, int(lease))
        assert node.get("app/" + key.decode()) is not None
        etcd.ask("lock/unlock", key=b64(key))
        assert node.get("app/" + key.decode()) is None
    leader = etcd.ask("election/campaign", name=b64(b"lead"), lease=lease, value=b64(b"me"))["leader"]
    assert unb64(leader["name"]) == b"lead"
    etcd.ask("election/proclaim", leader=leader, value=b64(b"again"))
    shown = etcd.ask("election/leader", name=b64(b"lead"))["kv"]
    assert (shown["key"], unb64(shown["value"])) == (leader["key"], b"again")
    etcd.ask("election/resign", leader=leader)


def test_a_permission_is_over_keys_below_the_prefix(node: raftmeta.Node, etcd: Gateway) -> None:
    etcd.ask("auth/role/add", name="r")
    wanted = [(b"a", b"b"), (b"k", b""), (b"x", ALL)]
    for key, end in wanted:
        etcd.ask("auth/role/grant", name="r", perm={"permType": READ, "key": b64(key), "range_end": b64(end)})
    node.auth.grant("r", "read", prefix="elsewhere/")
    told = etcd.ask("auth/role/get", role="r")["perm"]
    assert [(unb64(one["key"]), unb64(one.get("range_end", ""))) for one in told] == wanted
    etcd.ask("auth/role/revoke", role="r", key=b64(b"k"))
    assert len(etcd.ask("auth/role/get", role="r")["perm"]) == len(wanted) - 1
    etcd.ask("auth/role/delete", role="r")


def test_hash_and_snapshot_are_of_the_keys_below_the_prefix(
    running: tuple[raftmeta.Node, int], etcd: Gateway, tmp_path: Path
) -> None:
    node, port = running
    revision = etcd.put(b"k", b"1")
    before = etcd.ask("maintenance/hashkv", revision=str(revision))["hash"]
    node.put("other", b"changed")
    assert etcd.ask("maintenance/hashkv")["hash"] == before
    with EtcdClient(f"127.0.0.1:{port}") as client, EtcdSource(saved(client, tmp_path / "db")) as source:
        assert {key: row[0] for key, row in kept(source).items()} == {b"k": b"1"}


def test_an_empty_key_is_refused_as_ever(etcd: Gateway) -> None:
    for path, request in (("kv/range", {}), ("kv/put", {"value": b64(b"1")}), ("kv/deleterange", {})):
        with pytest.raises(Refused, match="key is not provided"):
            etcd.ask(path, **request)


def test_a_prefix_has_its_bound() -> None:
    with pytest.raises(raftmeta.ConfigError, match="etcd_prefix"):
        raftmeta.Config(etcd_prefix="x" * 257)
