"""The Kafka door of one node, byte by byte: versions, brokers, groups, bounds."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import raftmeta
from tests.kafka.compare import random_values
from tests.kafka.nodes import KEYS, MEMBER_ID_REQUIRED, Member, RawClient, doors
from tests.kafka.schema import messages
from tests.processes.waiting import free_ports, wait_until
from tests.security.test_audit_trail import on_full_disk

COORDINATOR_NOT_AVAILABLE, ILLEGAL_GENERATION, INVALID_GROUP_ID, UNKNOWN_MEMBER_ID = 15, 22, 24, 25
INVALID_SESSION_TIMEOUT, REBALANCE_IN_PROGRESS, UNSUPPORTED_VERSION = 26, 27, 35
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED, FENCED_INSTANCE_ID = 68, 69, 81, 82
FRAME_BYTES_MAX = 6 << 20


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with doors(tmp_path_factory.mktemp("door")) as (_, at):
        yield at["a"]


def offered(port: int) -> dict[int, range]:
    with RawClient(port) as client:
        answer = client.ask("ApiVersions", 3, client_software_name="test", client_software_version="1")
    assert answer["error_code"] == 0
    return {row["api_key"]: range(row["min_version"], row["max_version"] + 1) for row in answer["api_keys"]}


# --- a connection begins ----------------------------------------------------------------------------------------------
def test_every_version_that_is_offered_is_in_the_pages(door: int) -> None:
    """A client takes the newest version that both know, so each one must be one that tests can read."""
    for key, versions in offered(door).items():
        message = messages()[key]
        assert message.first <= versions.start or message.name == "SaslHandshake"
        assert versions[-1] <= message.last, message.name


@pytest.mark.parametrize("version", range(5))
def test_api_versions_are_told_in_each_version(door: int, version: int) -> None:
    with RawClient(door) as client:
        answer = client.ask("ApiVersions", version, client_software_name="test", client_software_version="1")
    assert answer["error_code"] == 0
    assert {row["api_key"] for row in answer["api_keys"]} == set(offered(door))


def test_an_unknown_version_of_api_versions_is_answered_as_version_0(door: int) -> None:
    """KIP-511: the client asks again, in a version that both know."""
    with RawClient(door) as client:
        client.correlation += 1
        body = struct.pack(">hhih", KEYS["ApiVersions"], 99, client.correlation, -1) + b"\0whatever"
        client.stream.sendall(struct.pack(">i", len(body)) + body)
        client.asked[client.correlation] = KEYS["ApiVersions"], 0
        _, answer = client.take()
        assert answer["error_code"] == UNSUPPORTED_VERSION
        assert answer["api_keys"]
        assert client.ask("ApiVersions", 0)["error_code"] == 0


@pytest.mark.parametrize("version", range(13))
def test_the_node_is_the_broker_and_the_controller(door: int, version: int) -> None:
    topics = [] if version == 0 else None
    with RawClient(door) as client:
        answer = client.ask("Metadata", version, topics=topics)
    (broker,) = answer["brokers"]
    assert (broker["host"], broker["port"]) == ("127.0.0.1", door)
    if version >= 1:
        assert answer["controller_id"] == broker["node_id"]


def test_a_topic_that_is_not_there_is_told_so(door: int) -> None:
    with RawClient(door) as client:
        answer = client.ask("Metadata", 12, topics=[{"name": "nothing"}], allow_auto_topic_creation=False)
    assert [(topic["name"], topic["error_code"]) for topic in answer["topics"]] == [("nothing", 3)]


@pytest.mark.parametrize("version", range(7))
def test_the_node_that_is_asked_coordinates(door: int, version: int) -> None:
    with RawClient(door) as client:
        answer = client.ask("FindCoordinator", version, key="g", coordinator_keys=["g"])
    found = answer["coordinators"][0] if version >= 4 else answer
    assert (found["error_code"], found["host"], found["port"]) == (0, "127.0.0.1", door)


@pytest.mark.parametrize("version", range(2))
def test_the_cluster_is_described(door: int, version: int) -> None:
    with RawClient(door) as client:
        answer = client.ask("DescribeCluster", version)
    assert answer["error_code"] == 0
    assert [broker["port"] for broker in answer["brokers"]] == [door]


# --- groups -----------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def members(port: int, group: str, count: int) -> Iterator[list[Member]]:
    with contextlib.ExitStack() as stack:
        yield [Member(stack.enter_context(RawClient(port)), group) for _ in range(count)]


@pytest.mark.parametrize("version", range(10))
def test_one_member_joins_and_syncs_in_each_version(door: int, version: int) -> None:
    sync, beat = min(version, 5), min(version, 4)
    with RawClient(door) as client:
        me = Member(client, f"alone-{version}")
        assert me.join(version) == 0
        assert me.leader == me.id
        assert [member["metadata"] for member in me.members] == [b"me"]
        answer = me.sync(sync, {me.id: b"all"})
        assert (answer["error_code"], answer["assignment"]) == (0, b"all")
        assert me.beat(beat) == 0
        who = {"member_id": me.id} if sync < 3 else {"members": [{"member_id": me.id}]}
        left = client.ask("LeaveGroup", sync, group_id=me.group, **who)
        assert left["error_code"] == 0
        assert me.beat(beat) == UNKNOWN_MEMBER_ID


def test_a_dynamic_member_joins_in_two_steps(door: int) -> None:
    with RawClient(door, client_id="named") as client:
        me = Member(client, "two-steps")
        me.send_join(4)
        assert me.take_join() == MEMBER_ID_REQUIRED
        assert me.id.startswith("named-")
        me.send_join(4)
        assert me.take_join() == 0


def test_members_wait_for_each_other(door: int) -> None:
    """Act: a second member joins. Check: the first hears of it, both join, and each gets its share."""
    with members(door, "pair", 2) as (first, second):
        assert first.join() == 0
        assert first.sync(shares={first.id: b"all"})["assignment"] == b"all"
        second.send_join()
        assert second.take_join() == MEMBER_ID_REQUIRED
        second.send_join()
        wait_until(lambda: first.beat() == REBALANCE_IN_PROGRESS, timeout_s=10, what="the rebalance")
        first.send_join()
        assert (first.take_join(), second.take_join()) == (0, 0)
        assert first.generation == second.generation == 2
        assert second.leader == first.id
        assert {member["member_id"] for member in first.members} == {first.id, second.id}
        assert not second.members
        second.send_sync()
        first.send_sync(shares={first.id: b"1", second.id: b"2"})
        assert [one.client.take()[1]["assignment"] for one in (first, second)] == [b"1", b"2"]


def test_a_member_that_falls_silent_is_removed(door: int) -> None:
    with members(door, "silent", 2) as (first, second):
        first.session_ms = second.session_ms = 700
        assert first.join() == 0
        first.sync(shares={})
        second.send_join()
        second.take_join()
        second.send_join()
        wait_until(lambda: first.beat() == REBALANCE_IN_PROGRESS, timeout_s=10, what="the rebalance")
        first.send_join()
        assert (first.take_join(), second.take_join()) == (0, 0)
        first.sync(shares={})
        second.client.stream.close()
        wait_until(lambda: first.beat() == REBALANCE_IN_PROGRESS, timeout_s=20, what="the end of the second")
        first.send_join()
        assert first.take_join() == 0
        assert [member["member_id"] for member in first.members] == [first.id]


def test_a_member_that_waits_is_kept_alive(door: int) -> None:
    """Its session is shorter than its wait for the others."""
    with members(door, "waits", 2) as (first, second):
        first.session_ms = 10_000
        second.session_ms = 300
        assert first.join() == 0
        first.sync(shares={})
        second.send_join()
        second.take_join()
        second.send_join()
        for _ in range(8):
            with pytest.raises(TimeoutError):
                second.client.stream.settimeout(0.2)
                second.client.stream.recv(1)
        second.client.stream.settimeout(10)
        first.send_join()
        assert (first.take_join(), second.take_join()) == (0, 0)


def test_a_static_member_takes_its_place_and_fences_the_holder_before(door: int) -> None:
    with members(door, "static", 2) as (first, second):
        first.instance = second.instance = "i"
        assert first.join() == 0
        first.sync(shares={first.id: b"all"})
        generation = first.generation
        assert second.join() == 0
        assert second.generation == generation
        assert second.sync()["assignment"] == b"all"
        assert first.beat() == FENCED_INSTANCE_ID


def test_requests_of_nobody_are_refused(door: int) -> None:
    with RawClient(door) as client:
        me = Member(client, "refused")
        assert me.beat() == UNKNOWN_MEMBER_ID
        me.group = ""
        assert me.beat() == INVALID_GROUP_ID
        assert me.join() == INVALID_GROUP_ID
        me.group = "refused"
        me.session_ms = 10
        assert me.join() == INVALID_SESSION_TIMEOUT
        me.session_ms = 10_000
        assert me.join() == 0
        me.generation += 1
        assert me.beat() == ILLEGAL_GENERATION
        assert me.sync()["error_code"] == ILLEGAL_GENERATION


def test_groups_are_described_listed_and_deleted(door: int) -> None:
    with RawClient(door) as client:
        me = Member(client, "shown")
        assert me.join() == 0
        me.sync(shares={me.id: b"share"})
        for version in range(6):
            answer = client.ask("DescribeGroups", version, groups=["shown", "none"])
            found, none = answer["groups"]
            assert (found["group_state"], none["group_state"]) == ("Stable", "Dead")
            (member,) = found["members"]
            assert (member["member_id"], member["member_assignment"]) == (me.id, b"share")
        for version in range(6):
            listed = client.ask("ListGroups", version)["groups"]
            assert ("shown", "consumer") in {(one["group_id"], one["protocol_type"]) for one in listed}
        assert not client.ask("ListGroups", 4, states_filter=["Dead"])["groups"]
        for version in range(3):
            codes = client.ask("DeleteGroups", version, groups_names=["shown", "none"])["results"]
            assert [one["error_code"] for one in codes] == [NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND]
        client.ask("LeaveGroup", 5, group_id="shown", members=[{"member_id": me.id}])
        assert client.ask("DeleteGroups", 2, groups_names=["shown"])["results"][0]["error_code"] == 0
        assert client.ask("DescribeGroups", 5, groups=["shown"])["groups"][0]["group_state"] == "Dead"


def test_answers_come_in_the_order_of_requests(door: int) -> None:
    """A request that waits holds those behind it, as Kafka's broker does."""
    with members(door, "order", 2) as (first, second):
        assert first.join() == 0
        first.sync(shares={})
        second.send_join()
        second.take_join()
        waits = second.send_join()
        behind = second.client.send("ApiVersions", 0)
        first.send_join()
        assert first.take_join() == 0
        assert [second.client.take()[0] for _ in range(2)] == [waits, behind]


# --- hostile frames ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">i", -1),
        struct.pack(">i", FRAME_BYTES_MAX + 1),
        struct.pack(">i", 4) + b"\0\0\0\0",
        struct.pack(">ihhih", 10, 99, 0, 1, -1),
        struct.pack(">ihhih", 10, KEYS["JoinGroup"], 99, 1, -1),
        struct.pack(">ihhihh", 12, KEYS["Heartbeat"], 0, 1, -1, 500),
        struct.pack(">ihhihi", 14, KEYS["ListGroups"], 0, 1, -1, 7),
    ],
    ids=["negative", "too long", "no head", "unknown key", "unknown version", "cut short", "bytes left"],
)
def test_what_is_no_request_closes_the_connection(door: int, sent: bytes) -> None:
    with RawClient(door) as client:
        client.stream.sendall(sent)
        assert client.is_closed()
    with RawClient(door) as client:
        assert client.ask("ApiVersions", 0)["error_code"] == 0


def test_an_array_cannot_claim_more_than_the_frame_has(door: int) -> None:
    with RawClient(door) as client:
        body = struct.pack(">hhih", KEYS["DescribeGroups"], 0, 1, -1) + struct.pack(">i", 1 << 30)
        client.stream.sendall(struct.pack(">i", len(body)) + body)
        assert client.is_closed()


@pytest.mark.parametrize("key", sorted(set(KEYS.values())))
def test_requests_with_random_fields_are_answered_or_end_the_connection(door: int, key: int) -> None:
    """Every version that is offered, with the longest numbers, null, nothing and words that mean nothing."""
    versions = offered(door).get(key)
    if versions is None:
        return
    message = messages()[key]
    source = random.Random(key)
    for version in versions:
        for _ in range(6):
            values = random_values(message.request, version, source)
            # A Produce without acks has no answer, and a Fetch may wait for days.
            values |= (
                {"acks": 1} if message.name == "Produce" else {"max_wait_ms": 0} if message.name == "Fetch" else {}
            )
            with RawClient(door) as client:
                client.send(message.name, version, **values)
                with contextlib.suppress(ConnectionError):
                    client.stream.settimeout(2)
                    client.take()
    with RawClient(door) as client:
        assert client.ask("ApiVersions", 0)["error_code"] == 0


def test_figures_of_the_door_are_told(tmp_path: Path) -> None:
    with doors(tmp_path) as (nodes, at), RawClient(at["a"]) as client:
        client.ask("ApiVersions", 0)
        wait_until(lambda: nodes["a"].metrics()["kafka_requests"] >= 1, timeout_s=10, what="a request")
        assert nodes["a"].metrics()["kafka_connections"] == 1


def test_a_door_needs_an_address_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(raftmeta.ConfigError, match="kafka_listen"):
        raftmeta.Node("a", peers={"a": "127.0.0.1:7001"}, data_dir=tmp_path, kafka_listen="127.0.0.1:7001")


def test_an_address_that_is_taken_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        node = raftmeta.Node("a", peers={"a": "127.0.0.1:7001"}, data_dir=tmp_path, kafka_listen=f"127.0.0.1:{port}")
        with pytest.raises(raftmeta.AddressInUse, match="kafka_listen"):
            node.start()


def test_a_rate_of_requests_delays_its_principal(tmp_path: Path) -> None:
    """Act: more requests at once than the quota saves up. Check: all are answered, later, and none is lost."""
    settings = {"principal_requests_per_s": 20, "principal_burst_s": 0.1}
    with doors(tmp_path, **settings) as (nodes, at), RawClient(at["a"]) as client:
        sent = [client.send("ApiVersions", 0) for _ in range(12)]
        assert [client.take()[0] for _ in sent] == sent
        wait_until(lambda: nodes["a"].metrics()["kafka_requests_over_quota"] > 0, timeout_s=10, what="a delay")


def test_changes_wait_where_each_must_be_recorded_and_cannot_be(tmp_path: Path) -> None:
    audit = raftmeta.Audit(folder=tmp_path / "trail", writes=True, required=True)
    with doors(tmp_path, audit=audit) as (nodes, at), RawClient(at["a"]) as client:
        me = Member(client)
        assert me.join() == 0
        with on_full_disk(nodes["a"].trail):  # type: ignore[arg-type]
            assert me.sync(shares={})["error_code"] == 0
            wait_until(lambda: nodes["a"].metrics()["audit_failing"], timeout_s=20, what="the trail to fail")
            assert Member(client, "other").join() == COORDINATOR_NOT_AVAILABLE
            assert me.beat() == 0
        wait_until(lambda: not nodes["a"].metrics()["audit_failing"], timeout_s=20, what="the trail to be written")
        assert Member(client, "other").join() == 0


def test_members_of_one_principal_are_bounded(tmp_path: Path) -> None:
    """A member is a lease of who let it join; one that leaves gives its place back."""
    with doors(tmp_path, principal_leases_max=2) as (_, at), RawClient(at["a"]) as client:
        first, second, third = (Member(client, f"bounded-{number}") for number in range(3))
        assert (first.join(), second.join()) == (0, 0)
        assert third.join() == GROUP_MAX_SIZE_REACHED
        assert first.sync(shares={})["error_code"] == 0
        client.ask("LeaveGroup", 5, group_id=first.group, members=[{"member_id": first.id}])
        assert third.join() == 0


def test_a_member_and_a_lease_of_one_principal_are_of_one_account(tmp_path: Path) -> None:
    """Init: an address may have two leases. Act: it takes one at the clients' port and lets one member join. Check: no
    other member joins; when the lease is given back, one does."""
    (port,) = free_ports(1)
    with (
        doors(tmp_path, principal_leases_max=2, client_listen=f"127.0.0.1:{port}") as (_, at),
        raftmeta.Client(f"raft://127.0.0.1:{port}") as client,
        RawClient(at["a"]) as kafka,
    ):
        lease = client.lease(60.0)
        assert Member(kafka, "first").join() == 0
        assert Member(kafka, "second").join() == GROUP_MAX_SIZE_REACHED
        with pytest.raises(raftmeta.QuotaExceeded):
            client.lease(60.0)
        lease.revoke()
        assert Member(kafka, "second").join() == 0
