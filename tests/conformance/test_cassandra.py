"""cassandra:// on a model of Cassandra: the plug-in's mistakes, unknown outcomes, and what times to live mean.

./build.sh doors cassandra has the conformance suite on three real servers.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from cassandra import OperationTimedOut, WriteTimeout, WriteType

import raftmeta
from raftmeta.backends import cassandra
from raftmeta.backends.cassandra import BUCKETS, PLUGIN, TABLES, bucket_of
from raftmeta.backends.plugin import Check, SystemStore, Write
from raftmeta.backends.url import BackendUrl
from raftmeta.conformance.kit import Told, eventually
from raftmeta.interfaces import Capabilities, Stored
from raftmeta.operations import Create
from raftmeta.recipes.deadline import Deadline
from tests.conformance.cassandra_model import SERIAL, Batch, Model, system_of

URL = BackendUrl.parse("cassandra://127.0.0.1:9042/space")
TTL_S = 2.0
GROUP = b"_raftmeta/groups/g/"


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Model:
    monkeypatch.setattr(cassandra, "BatchStatement", Batch)
    monkeypatch.setattr(cassandra, "SETTLE_S", 0.3)
    monkeypatch.setattr(cassandra, "POLL_S", 0.02)
    return Model()


@pytest.fixture
def connect(model: Model) -> Iterator[Callable[[], SystemStore]]:
    stores: list[SystemStore] = []

    def connected() -> SystemStore:
        store = SystemStore(system_of(model), PLUGIN.capabilities(URL), owner=None, ttl_s=TTL_S)
        stores.append(store)
        store.open(5.0)
        return store

    yield connected
    for store in stores:
        store.close()


@pytest.fixture
def store(connect: Callable[[], SystemStore]) -> SystemStore:
    return connect()


# --- the mistakes of the earlier plug-in, in the order of docs/kip30.md -----------------------------------------------
def test_join_looks_for_the_id_among_the_members_and_not_for_the_name_of_the_group(store: SystemStore) -> None:
    group = store.group("brokers")
    assert group.join("brokers").held()  # the name that the plug-in compared with
    assert group.join("1", b"host").held()
    assert group.membership() == {"brokers": b"", "1": b"host"}


def test_a_renewal_that_was_not_applied_ends_the_lead(store: SystemStore, model: Model) -> None:
    """Its row is gone, and the answer to the renewal says so: the leader is told, long before its time is over."""
    lost = Told()
    assert store.election("e").nominate("a", on_lost=lost)
    lead = store.election("e").lead("a")
    with model.lock:
        model.partition("leader_election", "e").rows.clear()
    lost.until(lambda held: held.epoch == lead.epoch, "the loss")
    assert not lead.held()


def test_a_candidate_that_resigned_is_not_elected_again(connect: Callable[[], SystemStore]) -> None:
    first, second = connect().election("e"), connect().election("e")
    assert first.nominate("a") and not second.nominate("b")
    first.resign("a")
    eventually(lambda: second.lead("b") is not None, "the next in line")
    second.withdraw("b")
    assert first.get_leader() is None and first.lead("a") is None


def test_every_write_is_on_condition_of_an_epoch_that_grows_over_removals(store: SystemStore, model: Model) -> None:
    epochs = []
    for _ in range(3):
        epochs.append(store.group("g").join("a").epoch)
        store.group("g").leave("a")
    assert epochs == sorted(set(epochs))
    key = [store.storage.put("k", "1"), store.storage.update("k", "2")]
    store.storage.delete("k")
    assert store.storage.put("k", "3") > max(key)
    assert all("IF epoch = ?" in text for text in model.prepared if text.startswith("UPDATE") and "SET epoch" in text)
    assert {kind for kind, _ in model.asked} & {
        "put",
        "remove",
    } == set()  # they are parts of batches with that condition


def test_groups_are_apart_in_what_is_read_and_in_what_listeners_hear(store: SystemStore) -> None:
    told, other = Told(), Told()
    store.group("g").add_listener(told)
    store.group("h").add_listener(other)
    store.group("h").join("b")
    other.until(lambda change: change.ids == {"b"}, "the member of the other group")
    assert told.changes == [] and store.group("g").membership_list() == frozenset()


def test_every_read_and_every_condition_is_at_serial(store: SystemStore, model: Model) -> None:
    store.group("g").join("a")
    store.storage.put("k", "1")
    store.storage.children("")
    store.storage.get("k", local=True)
    assert {level for _, level in model.asked} == {SERIAL}


def test_a_renewal_that_is_not_answered_is_told_when_the_time_is_over(store: SystemStore, model: Model) -> None:
    lost = Told()
    member = store.group("g").join("a", on_lost=lost)
    model.refuses_renewals = OperationTimedOut()
    lost.until(lambda held: held is member, "the loss")
    assert not member.held()
    assert model.partition("group_membership", "g").rows  # its row outlives it: nobody else has the place yet


def test_close_leaves_and_ends_everything(connect: Callable[[], SystemStore], model: Model) -> None:
    first = connect()
    first.group("g").join("a")
    first.election("e").nominate("a")
    first.close()
    first.close()
    assert not any(model.partition(*name).rows for name in list(model.partitions))
    with pytest.raises(raftmeta.NodeClosed):
        first.storage.get("k")


def test_a_listener_that_blocks_stops_neither_calls_nor_other_listeners(store: SystemStore) -> None:
    told, may_go = Told(), threading.Event()
    store.group("g").add_listener(lambda change: may_go.wait(20))
    store.group("g").add_listener(told)
    store.group("g").join("a")
    told.until(lambda change: change.ids == {"a"}, "the member")
    store.group("g").leave("a")
    may_go.set()


def test_no_text_of_a_user_stands_in_a_statement(store: SystemStore, model: Model) -> None:
    prepared = len(model.prepared)
    evil = "'; DROP TABLE kv; --"
    store.storage.put(evil, evil)
    store.group(evil).join(evil, evil)
    store.listeners.add_key_set_change_listener(evil, Told())
    assert store.storage.children(evil) == {evil} and store.group(evil).membership_list() == {evil}
    assert len(model.prepared) == prepared and not any(evil in text for text in model.prepared)


# --- unknown outcomes -------------------------------------------------------------------------------------------------
def timed_out() -> Exception:
    return WriteTimeout("CAS operation timed out", consistency=SERIAL, write_type=WriteType.CAS)


def test_a_write_that_was_done_and_not_answered_is_found_and_not_made_twice(store: SystemStore, model: Model) -> None:
    def done(write: Callable[[], bool]) -> bool:
        assert write()
        raise timed_out()

    model.faults.append(done)
    revision = store.storage.put("k", "1")
    assert store.storage.get("k") == Stored(b"1", revision)


def test_a_write_that_was_not_done_never_is_done_late(store: SystemStore, model: Model) -> None:
    late: list[Callable[[], bool]] = []

    def delayed(write: Callable[[], bool]) -> bool:
        late.append(write)
        raise timed_out()

    store.storage.put("k", "1")
    model.faults.append(delayed)
    revision = store.storage.update("k", "2")
    assert store.storage.get("k") == Stored(b"2", revision)
    store.storage.update("k", "3")
    assert [write() for write in late] == [False]  # its condition is never true again
    assert store.storage.get("k").data == b"3"


@pytest.mark.parametrize("error", [timed_out(), OperationTimedOut()], ids=["WriteTimeout", "OperationTimedOut"])
def test_a_write_that_nobody_answers_for_is_of_unknown_outcome(
    store: SystemStore, model: Model, error: Exception
) -> None:
    def silent(write: Callable[[], bool]) -> bool:
        model.read_faults.append(OperationTimedOut())
        raise error

    model.faults.append(silent)
    with pytest.raises(raftmeta.OutcomeUnknown):
        store.storage.put("k", "1")
    model.read_faults.clear()


def test_others_who_write_first_make_a_write_wait_and_not_fail(store: SystemStore, model: Model) -> None:
    def beaten(write: Callable[[], bool]) -> bool:
        other = system_of(model)
        assert other.commit([], [Write(b"k", b"first")], Deadline(5.0)).revision
        return write()

    model.faults.append(beaten)
    with pytest.raises(raftmeta.KeyExists):
        store.storage.put("k", "second")
    assert store.storage.get("k").data == b"first"


# --- times to live ----------------------------------------------------------------------------------------------------
def test_a_place_asks_for_one_second_more_because_its_row_ends_early(store: SystemStore, model: Model) -> None:
    """Whole seconds: a row of two seconds may be gone after one."""
    begun_s = time.time()
    member = store.group("g").join("a")
    assert model.times_to_live == [TTL_S + 1]
    (row,) = model.partition("group_membership", "g").rows.values()
    assert row.until >= begun_s + member.remaining_s()


def test_a_row_that_has_ended_gets_a_revision_of_its_own(model: Model) -> None:
    """Else two states had one revision, and a watch that goes on from one of them would miss the difference."""
    system = system_of(model)
    lease, _ = system.grant(TTL_S, Deadline(5.0))
    system.commit([Check(GROUP + b"a", 0)], [Write(GROUP + b"a", b"", lease)], Deadline(5.0))
    before, records = system.read(GROUP, is_prefix=True, deadline=Deadline(5.0))
    with model.lock:
        model.partition("group_membership", "g").rows.clear()
    after, nothing = system.read(GROUP, is_prefix=True, deadline=Deadline(5.0))
    assert (len(records), nothing) == (1, []) and after > before


def test_a_row_that_ended_is_not_renewed_into_life(model: Model) -> None:
    system = system_of(model)
    lease, _ = system.grant(TTL_S, Deadline(5.0))
    system.commit([], [Write(GROUP + b"a", b"", lease)], Deadline(5.0))
    assert system.renew(lease, Deadline(5.0)) == TTL_S
    with model.lock:
        model.partition("group_membership", "g").rows.clear()
    assert system.renew(lease, Deadline(5.0)) == 0.0
    assert not model.partition("group_membership", "g").rows


# --- promises ---------------------------------------------------------------------------------------------------------
def test_promises_are_those_that_one_partition_can_keep() -> None:
    assert PLUGIN.capabilities(URL) == Capabilities(
        epochs=True,
        lost_in_time=True,
        compare_and_set=True,
        linearizable_reads=True,
        durable=True,
        ttl_precision_s=cassandra.LATE_S,
    )


def test_multi_and_fences_are_refused_by_name(store: SystemStore) -> None:
    assert store.election("e").nominate("a")
    lead = store.election("e").lead("a")
    for capability, ask in (
        ("multi", lambda: store.storage.multi([Create("k", "1")])),
        ("fencing", lambda: lead.fence),
        ("fencing", lambda: store.storage.put("k", "1", fence=lead)),
    ):
        with pytest.raises(raftmeta.Unsupported) as refused:
            ask()
        assert refused.value.capability == capability
    assert store.storage.get("k") is None


def test_keys_of_users_lie_in_buckets_and_places_in_partitions_of_their_own(store: SystemStore, model: Model) -> None:
    keys = [f"k{number}" for number in range(3 * BUCKETS)]
    for key in keys:
        store.storage.put(key, "1")
    store.group("g").join("a")
    partitions = {name for table, name in model.partitions if table == "kv" and model.partition(table, name).rows}
    assert partitions == {bucket_of(key.encode()) for key in keys} and len(partitions) > BUCKETS / 2
    assert {table for table, _ in model.partitions} == {"kv", "group_membership"} < {table.name for table in TABLES}
    assert store.storage.children("k1") == {key for key in keys if key.startswith("k1")}


@pytest.mark.parametrize(
    ("url", "field"),
    [
        ("cassandra://127.0.0.1:1", "url"),
        ("cassandra://127.0.0.1:1/Space'", "url"),
        ("cassandra:///space", "url"),
        ("cassandra://127.0.0.1:1/space?dc=a'b", "dc"),
        ("cassandra://127.0.0.1:1/space?user=secret", "user"),
        ("cassandra://127.0.0.1:1/space?colour=red", "colour"),
    ],
)
def test_a_wrong_url_names_what_is_wrong(url: str, field: str) -> None:
    with pytest.raises(raftmeta.ConfigError) as caught:
        raftmeta.connect(url, timeout_s=0.5)
    assert caught.value.field == field and "secret" not in str(caught.value)


def test_nobody_there_is_told_in_time() -> None:
    with pytest.raises(raftmeta.ReadyTimeout):
        raftmeta.connect("cassandra://127.0.0.1:1/space", timeout_s=0.2)
