"""Every verb of the blocking face, on a cluster of one: what it does and how it refuses."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from raftmeta import Node, Revision
from raftmeta.operations import (
    Add,
    Create,
    Delete,
    Fence,
    Get,
    ModRevision,
    Put,
    Range,
    RangeEmpty,
    Version,
    prefix_end,
)
from tests.node.nodes import one_node


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    with one_node(tmp_path_factory.mktemp("verbs")) as made:
        yield made


def value_of(node: Node, key: str) -> bytes | None:
    record = node.get(key)
    return None if record is None else record.value


# --- writes -----------------------------------------------------------------------------------------------------------


def test_put_many_sets_every_key_in_few_revisions(node: Node) -> None:
    """10,000 items are three groups: each is one revision, and of a key that comes twice the later item counts."""
    before = node.put("many", b"")
    revision = node.put_many([(f"many/{number % 9_999:05}", str(number)) for number in range(10_000)])
    assert revision is not None and int(revision) == int(before) + 3
    found = node.range(prefix="many/")
    assert (found.count, found.records[0].value, found.records[9_998].value) == (9_999, b"9999", b"9998")
    assert {record.mod_revision for record in found.records} == {int(before) + group for group in (1, 2, 3)}
    node.put_many({"many/00000": bytes(1_000_000), b"many/00001": bytes(1_000_000)})
    assert int(node.put("many", b"")) == int(before) + 6  # two groups: they are too large for one
    assert node.put_many([]) is None


def test_put_many_finds_a_wrong_item_before_it_sets_one(node: Node) -> None:
    revision = node.put("wrong", b"")
    for items, field in (
        ([("wrong/a", b"1"), ("", b"2")], "items[1].key"),
        ([("wrong/a", b"1"), ("wrong/b", None)], "items[1].value"),
        ([("wrong/a", b"1", 2)], "items[0].pair"),
        ([b"ab"], "items[0].pair"),
        (7, "items"),
    ):
        with pytest.raises(raftmeta.InvalidArgument) as caught:
            node.put_many(items)  # type: ignore[arg-type]
        assert caught.value.field == field
    assert int(node.put("wrong", b"")) == int(revision) + 1


def test_put_many_takes_a_lease_and_a_fence(node: Node) -> None:
    lease = node.lease(60)
    held = Fence("proof", int(node.create("proof", b"")))
    items = [(f"proof/{number}", b"") for number in range(5_000)]
    node.put_many(items, fence=held, lease=lease)
    assert {record.lease for record in node.range(prefix="proof/").records} == {lease.id}
    node.delete("proof")
    with pytest.raises(raftmeta.Fenced) as caught:
        node.put_many(items, fence=held)
    assert caught.value.items_done == 0
    lease.revoke()
    with pytest.raises(raftmeta.LeaseExpired):
        node.put_many(items, lease=lease)
    assert node.range(prefix="proof/").count == 0


def test_put_replaces_and_counts(node: Node) -> None:
    first = node.put("put/k", b"1")
    second = node.put(b"put/k", "2")
    record = node.get("put/k")
    assert record is not None
    assert (record.key, record.value, record.version) == (b"put/k", b"2", 2)
    assert (record.create_revision, record.mod_revision) == (first, second)
    assert second.revision == first.revision + 1
    assert second.index > first.index


def test_put_gives_the_record_before_when_asked(node: Node) -> None:
    assert node.put("previous/k", b"1", previous=True).result is None
    before = node.put("previous/k", b"2", previous=True).result
    assert before.value == b"1"
    assert node.put("previous/k", b"3").result is None


def test_put_of_none_keeps_the_value(node: Node) -> None:
    node.put("keep/k", b"1")
    node.put("keep/k", None)
    assert value_of(node, "keep/k") == b"1"
    with pytest.raises(raftmeta.KeyMissing):
        node.put("keep/other", None)


def test_create_refuses_a_key_that_exists(node: Node) -> None:
    made = node.create("create/k", b"1")
    with pytest.raises(raftmeta.KeyExists) as caught:
        node.create("create/k", b"2")
    assert caught.value.revision >= made
    assert value_of(node, "create/k") == b"1"


def test_update_refuses_a_key_that_is_missing_or_another_revision(node: Node) -> None:
    with pytest.raises(raftmeta.KeyMissing):
        node.update("update/k", b"1")
    first = node.put("update/k", b"1")
    second = node.update("update/k", b"2", expected_revision=first.revision)
    with pytest.raises(raftmeta.CompareFailed):
        node.update("update/k", b"3", expected_revision=first.revision)
    assert node.update("update/k", b"4", expected_revision=second.revision, previous=True).result.value == b"2"


def test_delete_removes_and_is_content_with_nothing(node: Node) -> None:
    node.put("delete/k", b"1")
    assert node.delete("delete/k", previous=True).result.value == b"1"
    assert node.get("delete/k") is None
    assert node.delete("delete/k", previous=True).result is None
    with pytest.raises(raftmeta.KeyMissing):
        node.delete("delete/k", must_exist=True)


def test_delete_range_tells_how_many(node: Node) -> None:
    for i in range(5):
        node.put(f"delete_range/{i}", b"x")
    assert node.delete_range("delete_range/1", "delete_range/3").result == 2
    gone = node.delete_range(prefix="delete_range/", previous=True).result
    assert [record.key for record in gone.records] == [b"delete_range/0", b"delete_range/3", b"delete_range/4"]
    assert node.range(prefix="delete_range/").count == 0


def test_add_counts_up_and_down(node: Node) -> None:
    assert node.add("add/k").result == 1
    assert node.add("add/k", -5).result == -4
    node.put("add/other", b"text")
    with pytest.raises(raftmeta.CommandRefused):
        node.add("add/other")


def test_a_transaction_is_all_or_nothing(node: Node) -> None:
    node.put("txn/a", b"1")
    reply = node.txn([Version("txn/a") == 1, RangeEmpty.prefix("txn/b")], [Put("txn/b", b"2"), Get("txn/a")], [])
    assert reply.succeeded
    assert reply.results[1] == node.get("txn/a")
    reply = node.txn([ModRevision("txn/a") == 0], [Delete("txn/a")], [Range.prefix("txn/"), Add("txn/n", 7)])
    assert not reply.succeeded
    assert (reply.results[0].count, reply.results[1]) == (2, 7)  # type: ignore[union-attr]
    with pytest.raises(raftmeta.KeyExists):
        node.txn([], [Put("txn/c", b"3"), Create("txn/a", b"4")])
    assert node.get("txn/c") is None


def test_a_fence_is_checked_before_anything_else(node: Node) -> None:
    lead = node.create("fence/lead", b"me")
    held = Fence("fence/lead", lead.revision)
    node.put("fence/k", b"1", fence=held)
    node.delete("fence/lead")
    with pytest.raises(raftmeta.Fenced):
        node.put("fence/k", b"2", fence=held)
    with pytest.raises(raftmeta.Fenced):
        node.txn([], [Put("fence/k", b"3")], fence=held)
    assert value_of(node, "fence/k") == b"1"


# --- reads ------------------------------------------------------------------------------------------------------------


def test_reads_of_the_past_answer_from_history(node: Node) -> None:
    first = node.put("past/k", b"1")
    node.put("past/k", b"2")
    gone = node.delete("past/k")
    assert node.get("past/k", revision=first.revision).value == b"1"  # type: ignore[union-attr]
    assert node.range(prefix="past/", revision=gone.revision - 1).records[0].value == b"2"
    assert node.get("past/k") is None
    with pytest.raises(raftmeta.FutureRevision):
        node.get("past/k", revision=gone.revision + 1000)


def test_history_below_the_floor_is_compacted(node: Node) -> None:
    node.put("floor/k", b"1")
    second = node.put("floor/k", b"2")
    node.put("floor/k", b"3")
    node.compact(second.revision)
    assert node.get("floor/k", revision=second.revision + 1).value == b"3"  # type: ignore[union-attr]
    with pytest.raises(raftmeta.Compacted):
        node.get("floor/k", revision=second.revision - 1)


def test_range_is_in_order_of_bytes_and_limited(node: Node) -> None:
    keys = [f"range/{i:03}" for i in range(50)]
    for key in reversed(keys):
        node.put(key, key)
    found = node.range(prefix="range/")
    assert [record.key.decode() for record in found.records] == keys
    part = node.range("range/010", "range/020", limit=3)
    assert [record.key for record in part.records] == [b"range/010", b"range/011", b"range/012"]
    assert (part.count, part.more) == (3, True)
    assert node.range("range/010", "range/020", limit=10).more is False
    counted = node.range("range/010", "range/020", limit=3, count=True)
    assert (counted.count, counted.records, counted.more) == (10, part.records, True)
    counted = node.range(prefix="range/", count_only=True)
    assert (counted.count, counted.records, counted.more) == (50, [], False)
    assert {record.value for record in node.range(prefix="range/", keys_only=True).records} == {b""}


def test_pages_make_up_the_range(node: Node) -> None:
    """The page after one that has more begins behind its last key."""
    keys = {node.put(f"page/{i:02}", b"").revision: f"page/{i:02}" for i in range(25)}
    pages = [node.range(prefix="page/", limit=10)]
    while pages[-1].more:
        pages.append(node.range(pages[-1].records[-1].key + b"\0", prefix_end("page/"), limit=10))
    assert [page.count for page in pages] == [10, 10, 5]
    assert [record.key.decode() for page in pages for record in page.records] == list(keys.values())


def test_a_range_in_groups_gives_direct_children(node: Node) -> None:
    """Keys with the delimiter behind the prefix come once, as what they begin with; the others are records."""
    for path in ("a", "b", "b/1", "b/2/x", "c/1", "c/2"):
        node.put(f"children/{path}", path)
    found = node.range(prefix="children/", delimiter="/")
    assert found.prefixes == (b"children/b/", b"children/c/")
    assert [record.value for record in found.records] == [b"a", b"b"]
    assert (found.count, found.more) == (4, False)
    assert node.range(prefix="children/", delimiter="/", count_only=True).count == 4
    assert node.range(prefix="children/", delimiter=b"/", local=True) == found
    assert node.range("children/", "children0", delimiter="/").prefixes == (b"children/",)
    assert node.range(prefix="children/b", delimiter="/").prefixes == (b"children/b/",)
    node.delete_range(prefix="children/b/")
    assert node.range(prefix="children/", delimiter="/").prefixes == (b"children/c/",)
    assert node.range(prefix="children/", delimiter="/", revision=found.revision) == found


def test_pages_of_groups_go_on_behind_the_last(node: Node) -> None:
    """A page begins within the prefix at next_start, whether a record or a group ended the one before."""
    for path in ("a", "b/1", "b/2", "c", "d/1", "e/1", "e/2"):
        node.put(f"grouped/{path}", b"")
    start, found = b"", []
    while True:
        page = node.range(start, prefix="grouped/", delimiter="/", limit=2, count=True)
        assert page.count == len(node.range(start, prefix="grouped/", delimiter="/").prefixes) + len(
            node.range(start, prefix="grouped/", delimiter="/").records
        )
        found += sorted([*page.prefixes, *[record.key for record in page.records]])
        if not page.more:
            break
        start = page.next_start
    assert found == [b"grouped/" + name for name in (b"a", b"b/", b"c", b"d/", b"e/")]


def test_a_long_range_comes_whole_and_of_one_revision(node: Node) -> None:
    """It is read in several native calls; writes in between are not in it."""
    value = b"x" * 100_000
    for i in range(12):
        node.put(f"long/{i:02}", value)
    found = node.range(prefix="long/")
    assert [record.value for record in found.records] == [value] * 12
    assert found.count == 12


def test_local_reads_see_what_this_node_applied(node: Node) -> None:
    node.put("local/k", b"1")
    assert node.get("local/k", local=True) == node.get("local/k")
    assert node.range(prefix="local/", local=True) == node.range(prefix="local/")


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda node: node.put("", b"1"), "key"),
        (lambda node: node.put("k" * 481, b"1"), "key"),
        (lambda node: node.put(7, b"1"), "key"),
        (lambda node: node.put("k", 7), "value"),
        (lambda node: node.put("k", b"x" * (1024 * 1024 + 1)), "value"),
        (lambda node: node.put("k", b"1", lease="mine"), "lease"),
        (lambda node: node.create("k", b"1", lease=None), "lease"),
        (lambda node: node.put("k", b"1", timeout_s=-1), "timeout_s"),
        (lambda node: node.put("k", b"1", timeout_s="soon"), "timeout_s"),
        (lambda node: node.put("k", b"1", fence="mine"), "fence"),
        (lambda node: node.update("k", b"1", expected_revision=-1), "expected_revision"),
        (lambda node: node.range(limit=-1), "limit"),
        (lambda node: node.range("a", prefix="b"), "prefix"),
        (lambda node: node.range(prefix=7), "prefix"),
        (lambda node: node.range(prefix="b", delimiter=""), "delimiter"),
        (lambda node: node.range(prefix="b", delimiter=7), "delimiter"),
        (lambda node: node.range(prefix="b", delimiter="/" * 481), "delimiter"),
        (lambda node: node.get("k", revision=-1), "revision"),
        (lambda node: node.txn([], [Put("", b"1")]), "then[0].key"),
        (lambda node: node.txn([], ["put"]), "then[0].operation"),
        (lambda node: node.lease(0), "ttl_s"),
        (lambda node: node.lease("long"), "ttl_s"),
        (lambda node: node.transfer("nobody"), "to"),
        (lambda node: node.watch(), "key"),
        (lambda node: node.watch("a", prefix="b"), "prefix"),
    ],
)
def test_a_wrong_argument_is_named_and_sends_nothing(node: Node, call: object, field: str) -> None:
    before = node.metrics()["commands_completed"]
    with pytest.raises(raftmeta.InvalidArgument) as caught:
        call(node)  # type: ignore[operator]
    assert caught.value.field == field
    assert node.metrics()["commands_completed"] == before


# --- the node itself --------------------------------------------------------------------------------------------------


def test_a_revision_is_a_number_that_knows_its_index() -> None:
    with_index = pickle.loads(pickle.dumps(_revision(5, 9)))
    assert (with_index, with_index.index, int(with_index), hash(with_index)) == (5, 9, 5, hash(5))
    assert with_index == _revision(5, 10) != _revision(6, 9)
    assert 4 < with_index <= 5 < _revision(6, 9)
    assert [10, 11, 12, 13, 14, 15][with_index] == 15
    assert with_index != "5"
    assert repr(with_index) == "Revision(5, index=9)"


def _revision(revision: int, index: int) -> Revision:
    make, _ = Revision.__new__(Revision).__reduce__()[:2]
    return make(revision, index, None)  # type: ignore[no-any-return]


def test_status_names_everything(node: Node) -> None:
    status = node.status()
    assert (status.name, status.role, status.leader, status.state) == ("a", "leader", "a", "running")
    assert status.is_ready
    assert status.is_leader
    assert status.committed >= status.applied > 0
    assert len(status.cluster_id) == 32
    assert [(member.name, member.role, member.is_self) for member in status.members] == [("a", "voter", True)]


def test_events_tell_how_it_came_to_be(node: Node) -> None:
    told = list(node.events(timeout_s=0))
    names = [event.name for event in told]
    assert names.index("log_opened") < names.index("cluster_founded") < names.index("became_leader")
    assert [event.number for event in told] == list(range(1, len(told) + 1))
    leader = told[names.index("became_leader")]
    assert str(leader) == f"became_leader term={node.status().term}"


def test_what_was_written_is_there_after_a_restart(tmp_path: Path) -> None:
    with one_node(tmp_path) as first:
        written = first.put("k", b"v")
        boot = first.status().boot
    with one_node(tmp_path) as second:
        assert second.get("k").mod_revision == written  # type: ignore[union-attr]
        assert second.status().boot == boot + 1
