"""KV at the etcd door, as etcd's rpc.proto tells it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.etcd.client import EtcdClient, RpcError
from tests.etcd.conftest import Door
from tests.processes.waiting import wait_until

INVALID_ARGUMENT, NOT_FOUND, OUT_OF_RANGE = 3, 5, 11
EQUAL, GREATER, LESS, NOT_EQUAL = range(4)
VERSION, CREATE, MOD, VALUE, LEASE = range(5)
ASCEND, DESCEND = 1, 2
OPS_MAX = 128
LEVEL_S = 30.0


def after(prefix: bytes) -> bytes:
    """The end of the range of all keys that begin so."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def keys_of(reply: dict[str, Any]) -> list[bytes]:
    return [kv["key"] for kv in reply.get("kvs", [])]


def refusal(client: EtcdClient, name: str, **values: Any) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        client.ask(name, **values)
    return caught.value.code, caught.value.text


def revision_of(reply: dict[str, Any]) -> int:
    return int(reply["header"]["revision"])


# --- Put and Range ----------------------------------------------------------------------------------------------------
def test_a_key_has_its_revisions_and_its_version(client: EtcdClient, prefix: bytes) -> None:
    key = prefix + b"k"
    first = revision_of(client.ask("Put", key=key, value=b"1"))
    second = revision_of(client.ask("Put", key=key, value=b"2"))
    assert second == first + 1
    reply = client.ask("Range", key=key)
    (kv,) = reply["kvs"]
    assert kv == {"key": key, "value": b"2", "create_revision": first, "mod_revision": second, "version": 2}
    assert (reply["count"], revision_of(reply)) == (1, second)
    assert "kvs" not in client.ask("Range", key=prefix + b"nothing")


def test_a_header_names_cluster_member_and_term(client: EtcdClient, door: Door) -> None:
    header = client.ask("Range", key=b"x")["header"]
    status = door.node.status()
    assert header["raft_term"] == status.term and header["cluster_id"] and header["member_id"]


def test_a_key_of_the_node_is_a_key_of_the_door(client: EtcdClient, door: Door, prefix: bytes) -> None:
    """One keyspace; etcd's revisions are the node's and one (docs/etcd.md)."""
    revision = door.node.put(f"{prefix.decode()}n", b"by the node")
    (kv,) = client.ask("Range", key=prefix + b"n")["kvs"]
    assert (kv["value"], kv["mod_revision"]) == (b"by the node", int(revision) + 1)
    client.ask("Put", key=prefix + b"n", value=b"by the door")
    record = door.node.get(f"{prefix.decode()}n")
    assert record is not None and record.value == b"by the door"


def test_put_gives_what_was_there_before(client: EtcdClient, prefix: bytes) -> None:
    assert "prev_kv" not in client.ask("Put", key=prefix, value=b"1", prev_kv=True)
    assert client.ask("Put", key=prefix, value=b"2", prev_kv=True)["prev_kv"]["value"] == b"1"


def test_put_may_keep_value_or_lease(client: EtcdClient, door: Door, prefix: bytes) -> None:
    lease = door.node.lease(60)
    assert refusal(client, "Put", key=prefix, ignore_value=True) == (INVALID_ARGUMENT, "etcdserver: key not found")
    assert refusal(client, "Put", key=prefix, ignore_lease=True) == (INVALID_ARGUMENT, "etcdserver: key not found")
    client.ask("Put", key=prefix, value=b"1", lease=lease.id)
    client.ask("Put", key=prefix, value=b"2", ignore_lease=True)
    (kv,) = client.ask("Range", key=prefix)["kvs"]
    assert (kv["value"], kv["lease"]) == (b"2", lease.id)
    client.ask("Put", key=prefix, ignore_value=True)
    (kv,) = client.ask("Range", key=prefix)["kvs"]
    assert kv["value"] == b"2" and "lease" not in kv
    lease.revoke()


@pytest.mark.parametrize(
    ("name", "values", "code", "text"),
    [
        ("Range", {}, INVALID_ARGUMENT, "etcdserver: key is not provided"),
        ("Put", {"value": b"v"}, INVALID_ARGUMENT, "etcdserver: key is not provided"),
        ("DeleteRange", {}, INVALID_ARGUMENT, "etcdserver: key is not provided"),
        ("Put", {"key": b"k", "value": b"v", "ignore_value": True}, INVALID_ARGUMENT, "etcdserver: value is provided"),
        ("Put", {"key": b"k", "lease": 1, "ignore_lease": True}, INVALID_ARGUMENT, "etcdserver: lease is provided"),
        ("Put", {"key": b"k", "lease": 77}, NOT_FOUND, "etcdserver: requested lease not found"),
        ("Put", {"key": b"k" * 481}, INVALID_ARGUMENT, "etcdserver: request is too large"),
        ("Range", {"key": b"k", "sort_target": 9}, INVALID_ARGUMENT, "etcdserver: invalid sort option"),
        (
            "Range",
            {"key": b"k", "revision": 1 << 40},
            OUT_OF_RANGE,
            "etcdserver: mvcc: required revision is a future revision",
        ),
    ],
)
def test_a_refusal_has_the_code_and_the_words_of_etcd(
    client: EtcdClient, name: str, values: dict[str, Any], code: int, text: str
) -> None:
    assert refusal(client, name, **values) == (code, text)


def test_range_has_all_options(client: EtcdClient, prefix: bytes) -> None:
    for key, value in ((b"a", b"3"), (b"b", b"1"), (b"c", b"2"), (b"b", b"1")):
        client.ask("Put", key=prefix + key, value=value)
    where = {"key": prefix, "range_end": after(prefix)}
    whole = client.ask("Range", **where)
    a, b, c = keys_of(whole)
    assert [a, b, c] == [prefix + b"a", prefix + b"b", prefix + b"c"] and whole["count"] == 3
    page = client.ask("Range", **where, limit=2)
    assert (keys_of(page), page["count"], page["more"]) == ([a, b], 3, True)
    assert keys_of(client.ask("Range", **where, sort_order=DESCEND)) == [c, b, a]
    assert keys_of(client.ask("Range", **where, sort_target=4)) == [b, c, a]
    assert keys_of(client.ask("Range", **where, sort_target=1, sort_order=DESCEND, limit=1)) == [b]
    assert keys_of(client.ask("Range", **where, sort_target=2, sort_order=ASCEND)) == [a, b, c]
    assert keys_of(client.ask("Range", **where, sort_target=3)) == [a, c, b]
    assert client.ask("Range", **where, count_only=True)["count"] == 3
    assert all("value" not in kv for kv in client.ask("Range", **where, keys_only=True)["kvs"])
    newest = whole["kvs"][1]["mod_revision"]
    assert keys_of(client.ask("Range", **where, min_mod_revision=newest)) == [b]
    filtered = client.ask("Range", **where, max_create_revision=whole["kvs"][0]["create_revision"])
    assert keys_of(filtered) == [a] and filtered["count"] == 3
    assert keys_of(client.ask("Range", **where, serializable=True)) == [a, b, c]
    assert keys_of(client.ask("Range", key=b, range_end=b"\0", limit=2)) == [b, c]
    assert "kvs" not in client.ask("Range", key=c, range_end=a)


def test_the_past_is_read_until_it_is_compacted(client: EtcdClient, prefix: bytes) -> None:
    first = revision_of(client.ask("Put", key=prefix, value=b"1"))
    second = revision_of(client.ask("Put", key=prefix, value=b"2"))
    client.ask("DeleteRange", key=prefix)
    assert client.ask("Range", key=prefix, revision=first)["kvs"][0]["value"] == b"1"
    assert "kvs" not in client.ask("Range", key=prefix)
    client.ask("Compaction", revision=second)
    compacted = (OUT_OF_RANGE, "etcdserver: mvcc: required revision has been compacted")
    assert client.ask("Range", key=prefix, revision=second)["kvs"][0]["value"] == b"2"
    assert refusal(client, "Range", key=prefix, revision=first) == compacted
    assert refusal(client, "Compaction", revision=second) == compacted
    assert refusal(client, "Compaction", revision=1 << 40)[0] == OUT_OF_RANGE


def test_a_range_of_many_keys_comes_whole(client: EtcdClient, prefix: bytes) -> None:
    """More than the client's window at once."""
    value = b"v" * 4000
    streams = [client.start("Put", key=prefix + b"%03d" % number, value=value) for number in range(100)]
    for stream in streams:
        client.end("Put", stream)
    reply = client.ask("Range", key=prefix, range_end=after(prefix))
    assert reply["count"] == 100 and all(kv["value"] == value for kv in reply["kvs"])


# --- DeleteRange ------------------------------------------------------------------------------------------------------
def test_a_range_is_deleted_in_one_revision(client: EtcdClient, prefix: bytes) -> None:
    for key in (b"a", b"b", b"c"):
        last = revision_of(client.ask("Put", key=prefix + key, value=key))
    reply = client.ask("DeleteRange", key=prefix, range_end=prefix + b"c", prev_kv=True)
    assert (reply["deleted"], [kv["value"] for kv in reply["prev_kvs"]]) == (2, [b"a", b"b"])
    assert revision_of(reply) == last + 1
    reply = client.ask("DeleteRange", key=prefix + b"c", prev_kv=True)
    assert (reply["deleted"], reply["prev_kvs"][0]["value"]) == (1, b"c")
    again = client.ask("DeleteRange", key=prefix, range_end=after(prefix))
    assert "deleted" not in again and revision_of(again) == revision_of(reply)


# --- Txn --------------------------------------------------------------------------------------------------------------
def put_op(key: bytes, value: bytes) -> dict[str, Any]:
    return {"put": {"key": key, "value": value}}


def test_a_transaction_takes_one_way(client: EtcdClient, prefix: bytes) -> None:
    txn = {
        "compare": [{"key": prefix, "target": CREATE, "result": EQUAL, "create_revision": 0}],
        "success": [put_op(prefix, b"made"), {"range": {"key": prefix}}],
        "failure": [{"range": {"key": prefix}}, {"delete": {"key": prefix}}, {"range": {"key": prefix}}],
    }
    made = client.ask("Txn", **txn)
    assert made["succeeded"] and made["responses"][1]["range"]["kvs"][0]["value"] == b"made"
    gone = client.ask("Txn", **txn)
    assert "succeeded" not in gone and revision_of(gone) == revision_of(made) + 1
    found, deleted, missed = gone["responses"]
    assert found["range"]["kvs"][0]["mod_revision"] == revision_of(made)
    assert deleted["delete"]["deleted"] == 1 and "kvs" not in missed["range"]


@pytest.mark.parametrize(
    ("compare", "holds"),
    [
        ({"target": VERSION, "version": 2}, True),
        ({"target": VERSION, "result": GREATER, "version": 2}, False),
        ({"target": VERSION, "result": NOT_EQUAL, "version": -1}, True),
        ({"target": VALUE, "value": b"2"}, True),
        ({"target": VALUE, "result": LESS, "value": b"3"}, True),
        ({"target": CREATE, "result": GREATER, "create_revision": 0}, True),
        ({"target": CREATE, "create_revision": 1}, False),
        ({"target": CREATE, "result": NOT_EQUAL, "create_revision": 1}, True),
        ({"target": MOD, "result": GREATER, "mod_revision": 1}, True),
        ({"target": MOD, "result": LESS, "mod_revision": 1}, False),
        ({"target": MOD, "result": LESS, "mod_revision": 1 << 40}, True),
        ({"target": MOD, "result": GREATER, "mod_revision": -5}, True),
        ({"target": LEASE, "lease": 0}, True),
        ({"target": VERSION, "result": GREATER, "version": 0, "range_end": b"\0"}, True),
        ({"target": VERSION, "version": 0, "range_end": b"\0"}, False),
    ],
)
def test_compares_are_those_of_etcd(client: EtcdClient, prefix: bytes, compare: dict[str, Any], holds: bool) -> None:
    for value in (b"1", b"2"):
        client.ask("Put", key=prefix, value=value)
    assert client.ask("Txn", compare=[{"key": prefix, **compare}]).get("succeeded", False) is holds
    client.ask("DeleteRange", key=prefix)


def wait_level(client: EtcdClient) -> None:
    """A new cluster raises its feature level by an entry of its own."""

    def is_reached() -> bool:
        try:
            client.ask("Txn", compare=[{"key": b"a", "range_end": b"b", "target": LEASE}])
        except RpcError:
            return False
        return True

    wait_until(is_reached, timeout_s=LEVEL_S, what="the feature level")


@pytest.mark.parametrize(
    ("compare", "holds"),
    [
        ({"target": VERSION, "version": 1}, False),
        ({"target": VERSION, "result": LESS, "version": 3}, True),
        ({"target": VALUE, "value": b"1"}, False),
        ({"target": VALUE, "result": LESS, "value": b"3"}, True),
        ({"target": VALUE, "result": NOT_EQUAL, "value": b"2"}, False),
        ({"target": CREATE, "result": GREATER, "create_revision": 1}, True),
        ({"target": MOD, "result": LESS, "mod_revision": 1 << 40}, True),
        ({"target": LEASE, "lease": 0}, True),
        ({"target": LEASE, "result": GREATER, "lease": 0}, False),
    ],
)
def test_a_compare_over_a_range_holds_for_each_of_its_keys(
    client: EtcdClient, prefix: bytes, compare: dict[str, Any], holds: bool
) -> None:
    """Two keys with the values 1 and 2; the second has version 2."""
    wait_level(client)
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"b", b"2")):
        client.ask("Put", key=prefix + key, value=value)
    asked = {"key": prefix + b"a", "range_end": prefix + b"c", **compare}
    assert client.ask("Txn", compare=[asked]).get("succeeded", False) is holds
    client.ask("DeleteRange", key=prefix, range_end=after(prefix))


@pytest.mark.parametrize(
    ("compare", "holds"),
    [
        ({"target": VERSION, "result": LESS, "version": 1}, True),
        ({"target": MOD, "mod_revision": 7}, False),
        ({"target": LEASE, "lease": 0}, True),
        ({"target": VALUE, "result": NOT_EQUAL, "value": b"1"}, False),
    ],
)
def test_a_range_without_keys_compares_as_a_key_that_is_not_there(
    client: EtcdClient, prefix: bytes, compare: dict[str, Any], holds: bool
) -> None:
    wait_level(client)
    for start, end in ((b"a", b"c"), (b"c", b"a")):
        asked = {"key": prefix + start, "range_end": prefix + end, **compare}
        assert client.ask("Txn", compare=[asked]).get("succeeded", False) is holds


@pytest.mark.parametrize("field", ["mod_revision", "create_revision"])
def test_the_exact_revision_of_a_key_is_compared(client: EtcdClient, prefix: bytes, field: str) -> None:
    revision = revision_of(client.ask("Put", key=prefix, value=b"1"))
    target = MOD if field == "mod_revision" else CREATE
    for number, result, holds in (
        (revision, EQUAL, True),
        (revision - 1, EQUAL, False),
        (revision, LESS, False),
        (revision + 1, LESS, True),
        (revision - 1, GREATER, True),
        (revision, GREATER, False),
    ):
        compare = {"key": prefix, "target": target, "result": result, field: number}
        assert client.ask("Txn", compare=[compare]).get("succeeded", False) is holds, (number, result)


def test_nested_transactions_answer_in_their_place(client: EtcdClient, prefix: bytes) -> None:
    inner = {
        "compare": [{"key": prefix + b"x", "target": VERSION, "version": 0}],
        "success": [put_op(prefix + b"in", b"1")],
        "failure": [put_op(prefix + b"in", b"2")],
    }
    reply = client.ask(
        "Txn", success=[put_op(prefix + b"out", b"0"), {"txn": inner}, {"range": {"key": prefix + b"in"}}]
    )
    put, nested, read = reply["responses"]
    assert "put" in put and nested["txn"]["succeeded"] and len(nested["txn"]["responses"]) == 1
    (kv,) = read["range"]["kvs"]
    assert (kv["value"], kv["mod_revision"]) == (b"1", revision_of(reply))


def test_a_range_in_a_transaction_has_its_options(client: EtcdClient, prefix: bytes) -> None:
    first = revision_of(client.ask("Put", key=prefix + b"a", value=b"old"))
    client.ask("Txn", success=[put_op(prefix + name, name) for name in (b"a", b"b", b"c")])
    where = {"key": prefix, "range_end": after(prefix)}
    reply = client.ask(
        "Txn",
        success=[
            {"range": {**where, "limit": 1, "sort_order": DESCEND}},
            {"range": {**where, "count_only": True}},
            {"range": {**where, "revision": first}},
            {"range": {"key": prefix + b"c", "range_end": prefix + b"a"}},
            {"delete": {"key": prefix + b"c", "range_end": prefix + b"a"}},
            {"delete": {**where, "prev_kv": True}},
        ],
    )
    page, count, past, nothing, kept, gone = (next(iter(response.values())) for response in reply["responses"])
    assert (keys_of(page), page["more"], page["count"]) == ([prefix + b"c"], True, 3)
    assert count["count"] == 3 and past["kvs"][0]["value"] == b"old" and past["count"] == 1
    assert "kvs" not in nothing and "deleted" not in kept
    assert (gone["deleted"], [kv["value"] for kv in gone["prev_kvs"]]) == (3, [b"a", b"b", b"c"])


def test_a_key_is_written_once_in_a_transaction(client: EtcdClient, prefix: bytes) -> None:
    """etcd server/etcdserver/api/v3rpc key.go checkIntervals."""
    duplicate = (INVALID_ARGUMENT, "etcdserver: duplicate key given in txn request")
    put = put_op(prefix, b"v")
    delete = {"delete": {"key": prefix[:-1], "range_end": after(prefix)}}
    assert refusal(client, "Txn", success=[put, put]) == duplicate
    assert refusal(client, "Txn", failure=[delete, put]) == duplicate
    assert refusal(client, "Txn", success=[put, {"txn": {"failure": [put]}}]) == duplicate
    assert refusal(client, "Txn", success=[{"txn": {"success": [put]}}, {"txn": {"success": [put]}}]) == duplicate
    assert client.ask("Txn", success=[{"txn": {"success": [put], "failure": [put]}}])["succeeded"]
    assert client.ask("Txn", success=[put], failure=[put])["succeeded"]


def test_a_transaction_has_at_most_so_many_operations(client: EtcdClient, prefix: bytes) -> None:
    reads = [{"range": {"key": prefix}}]
    assert client.ask("Txn", success=reads * OPS_MAX)["succeeded"]
    too_many = (INVALID_ARGUMENT, "etcdserver: too many operations in txn request")
    assert refusal(client, "Txn", success=reads * (OPS_MAX + 1)) == too_many
    assert refusal(client, "Txn", success=[{"txn": {"success": reads * OPS_MAX}}]) == too_many
    assert refusal(client, "Txn", success=[{}]) == (INVALID_ARGUMENT, "etcdserver: key not found")


def test_a_refused_transaction_changes_nothing(client: EtcdClient, prefix: bytes) -> None:
    before = revision_of(client.ask("Range", key=prefix))
    bad = {"put": {"key": prefix + b"no", "ignore_value": True}}
    assert refusal(client, "Txn", success=[put_op(prefix, b"v"), bad]) == (
        INVALID_ARGUMENT,
        "etcdserver: key not found",
    )
    after_it = client.ask("Range", key=prefix)
    assert "kvs" not in after_it and revision_of(after_it) == before
