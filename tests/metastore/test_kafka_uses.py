"""M11: what Kafka's brokers and their controller do, on every store and both faces."""

from __future__ import annotations

import contextlib
import json
import threading

import pytest

from raftmeta.metastore import Code, CreateOp, DeleteOp, ExistsRequest, RequestRefused, SetDataOp
from tests.metastore.conftest import Connect
from tests.metastore.kafka_uses import UNKNOWN_VERSION, BrokerExists, ControllerMoved, KafkaStore, state
from tests.metastore.places import Place, expire
from tests.metastore.told import Children, Node


@pytest.fixture
def brokers(connect: Connect) -> list[KafkaStore]:
    """Three brokers of one cluster, whose paths are made."""
    found = [KafkaStore(connect(max_in_flight_requests=10)) for _ in range(3)]
    found[0].make_persistent_paths()
    found[1].make_persistent_paths()  # each broker does
    return found


def test_a_brokers_epoch_is_the_czxid_of_its_registration(brokers: list[KafkaStore]) -> None:
    """registerBroker: epochs only grow over all registrations, and all brokers see the same ones."""
    epochs = [broker.register_broker(id, b"%d" % id) for id, broker in enumerate(brokers)]
    assert epochs == sorted(set(epochs)) and epochs[0] > 0
    assert all(broker.broker_epochs() == dict(enumerate(epochs)) for broker in brokers)
    assert brokers[0].register_broker(0, b"again") == epochs[0], "its own is found"
    with pytest.raises(BrokerExists):
        brokers[1].register_broker(0, b"not mine")
    brokers[0].store.close()
    again = brokers[1].register_broker(0, b"restarted")
    assert again > epochs[2]
    assert brokers[2].broker_epochs() == {0: again, 1: epochs[1], 2: epochs[2]}


def test_brokers_that_come_and_go_are_noticed(brokers: list[KafkaStore], connect: Connect) -> None:
    """The controller's broker change handler: armed by the read of ids, and data changes by that of each broker."""
    ids, node = Children("/brokers/ids"), Node("/brokers/ids/1")
    controller = brokers[0]
    controller.store.register_znode_child_change_handler(ids)
    controller.store.register_znode_change_handler(node)
    assert controller.broker_epochs() == {}
    brokers[1].register_broker(1, b"one")
    ids.wait(1)
    assert list(controller.broker_epochs()) == [1]
    brokers[2].register_broker(2, b"two")
    ids.wait(2)
    assert list(controller.broker_epochs()) == [1, 2]
    brokers[1].store.close()
    ids.wait(3)
    node.wait("deleted")
    assert list(controller.broker_epochs()) == [2]


def test_one_broker_becomes_the_controller(brokers: list[KafkaStore]) -> None:
    """registerControllerAndIncrementControllerEpoch by all at once: one wins; the epoch counts up by one each time."""
    for round in range(1, 4):
        won: list[tuple[int, int, int]] = []

        def run(id: int, broker: KafkaStore, won: list[tuple[int, int, int]] = won) -> None:
            with contextlib.suppress(ControllerMoved):
                won.append((id, *broker.become_controller(id)))

        threads = [threading.Thread(target=run, args=each) for each in enumerate(brokers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        ((id, epoch, version),) = won
        assert (brokers[0].controller(), epoch) == (id, round)
        assert brokers[(id + 1) % 3].controller_epoch() == (epoch, version)
        brokers[id].resign(version)
        assert brokers[0].controller() is None


def test_a_winner_that_lost_its_answer_learns_that_it_won(brokers: list[KafkaStore]) -> None:
    """NODEEXISTS and BADVERSION after a lost connection: epoch and id are read again."""
    epoch, version = brokers[0].become_controller(0)
    stale = brokers[0].controller_epoch

    def before() -> tuple[int, int]:
        brokers[0].controller_epoch = stale  # type: ignore[method-assign]
        return epoch - 1, version - 1

    brokers[0].controller_epoch = before  # type: ignore[method-assign]
    assert brokers[0].become_controller(0) == (epoch, version)
    with pytest.raises(ControllerMoved):
        brokers[1].become_controller(1)


def test_every_write_of_a_former_controller_is_refused(brokers: list[KafkaStore], connect: Connect) -> None:
    """Each controller write is a multi with a check of the epoch: none of them takes effect after a change."""
    _, version = brokers[0].become_controller(0)
    brokers[0].create_topic("t", {0: [0, 1]})
    brokers[0].create_partitions("t", {0: [0, 1], 1: [1, 0]}, version)
    assert brokers[0].update_state("t", 0, [1], 0, version) == 1
    brokers[0].resign(version)
    _, new_version = brokers[1].become_controller(1)

    for op in (
        CreateOp("/brokers/topics/late", b""),
        SetDataOp("/brokers/topics/t", b""),
        DeleteOp("/brokers/topics/t/partitions/0/state"),
    ):
        with pytest.raises(ControllerMoved):
            brokers[0].fenced(op, version)
        with pytest.raises(ControllerMoved):
            brokers[0].fenced_all([op] * 3, version)
    with pytest.raises(ControllerMoved):
        brokers[0].update_state("t", 0, [0], 1, version)
    with pytest.raises(ControllerMoved):
        brokers[0].resign(version)
    with pytest.raises(ControllerMoved):
        brokers[0].delete_recursive("/brokers/topics/t", version)

    assert brokers[2].controller() == 1
    assert brokers[2].children("/brokers/topics") == ["t"]
    assert brokers[2].data("/brokers/topics/t/partitions/0/state") == (state([1]), 1)
    assert brokers[1].update_state("t", 0, [1, 0], 1, new_version) == 2
    with pytest.raises(RequestRefused) as caught:
        brokers[1].update_state("t", 0, [1, 0], 1, new_version)
    assert caught.value.code == Code.BADVERSION


def test_a_controller_whose_session_expires_is_followed(
    connect: Connect, place: Place, chroot: str, brokers: list[KafkaStore]
) -> None:
    """Its znode goes, the others are told and elect one; the zombie's writes are refused after it comes back."""
    with place.cuttable(chroot) as (url, gate):
        zombie = KafkaStore(connect(url, max_in_flight_requests=10))
        _, version = zombie.become_controller(9)
        first = zombie.register_broker(9, b"nine")
        node = Node("/controller")
        brokers[0].store.register_znode_change_handler(node)
        assert brokers[0].exists("/controller")
        expire(zombie.store, gate, brokers[1].store)
        node.wait("deleted")
        epoch, _ = brokers[0].become_controller(0)
        assert epoch == 2
        with pytest.raises(ControllerMoved):
            zombie.fenced(CreateOp("/brokers/topics/late", b""), version)
        assert zombie.register_broker(9, b"nine") > first, "without a work-around for an old znode (KAFKA-7165)"


def test_broker_ids_come_from_the_version_of_an_empty_set(brokers: list[KafkaStore]) -> None:
    """generateBrokerSequenceId: all at once, no number twice, counting up from 1."""
    ids: list[int] = []

    def run(broker: KafkaStore) -> None:
        ids.extend(broker.generate_broker_id() for _ in range(10))

    threads = [threading.Thread(target=run, args=(broker,)) for broker in brokers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ids) == list(range(1, 31))


def test_notifications_are_taken_in_their_order(brokers: list[KafkaStore]) -> None:
    """Sequential znodes: the controller is told, reads all of them in order, and deletes them."""
    controller = brokers[0]
    _, version = controller.become_controller(0)
    changes = Children("/isr_change_notification")
    controller.store.register_znode_child_change_handler(changes)
    assert controller.take_notifications("/isr_change_notification", version) == []
    sent = [b"%d" % number for number in range(12)]
    names = [
        brokers[number % 2 + 1].notify("isr_change_notification/isr_change_", data) for number, data in enumerate(sent)
    ]
    assert names == sorted(names) and names[0] == "/isr_change_notification/isr_change_0000000000"
    changes.wait(1)
    assert controller.take_notifications("/isr_change_notification", version) == sent
    assert controller.children("/isr_change_notification") == []
    assert brokers[1].notify("isr_change_notification/isr_change_", b"") == (
        "/isr_change_notification/isr_change_0000000012"
    ), "numbers are never used again"


def test_acls_are_changed_by_many_at_once(brokers: list[KafkaStore]) -> None:
    """Conditional ACL updates: nobody's change is lost; each one is told; deletion heeds the version, too."""
    brokers[0].make_path("/kafka-acl/Topic")
    principals = [f"User:{number}" for number in range(9)]

    def run(number: int) -> None:
        for principal in principals[number::3]:
            brokers[number].change_acl("Topic/t", principal)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data, version = brokers[0].data("/kafka-acl/Topic/t")
    assert data is not None and json.loads(data) == principals
    assert version == 8
    assert len(brokers[0].children("/kafka-acl-changes")) == 9
    assert not brokers[1].delete_conditionally("/kafka-acl/Topic/t", 7)
    assert brokers[1].delete_conditionally("/kafka-acl/Topic/t", 8)
    assert brokers[2].update_conditionally("/kafka-acl/Topic/t", b"[]", 8) == (False, 8)
    assert brokers[2].update_conditionally("/kafka-acl/Topic/t", b"[]", UNKNOWN_VERSION) == (True, 0)
    assert brokers[2].update_conditionally("/kafka-acl/Topic/t", b"[]", UNKNOWN_VERSION) == (False, UNKNOWN_VERSION)


def test_a_topic_is_deleted_with_all_that_is_below_it(brokers: list[KafkaStore]) -> None:
    """deleteRecursive: 20 partitions, by two brokers at once; what is beside the topic stays."""
    _, version = brokers[0].become_controller(0)
    for topic in ("t", "t2"):
        brokers[0].create_topic(topic, {number: [0] for number in range(20)})
        brokers[0].create_partitions(topic, {number: [0] for number in range(20)}, version)
    threads = [threading.Thread(target=broker.delete_recursive, args=("/brokers/topics/t",)) for broker in brokers[:2]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert brokers[2].children("/brokers/topics") == ["t2"]
    assert len(brokers[2].children("/brokers/topics/t2/partitions")) == 20
    assert not brokers[2].delete_recursive("/brokers/topics/t")
    assert brokers[2].store.handle_request(ExistsRequest("/brokers/topics/t2")).stat.num_children == 1
