"""librdkafka's administrator on the door: a real client finds the brokers, proves a user, and handles groups."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.nodes import Member, RawClient, doors
from tests.kafka.test_door_rights import PASSWORD, found_users

kafka = pytest.importorskip("confluent_kafka")
admin = pytest.importorskip("confluent_kafka.admin")

ASK_S = 20.0
NO_TOPICS = struct.pack(">hii", 0, 0, -1)  # a consumer's words and share: version, topics, data of its own


def administrator(*ports: int, **settings: Any) -> Any:
    servers = ",".join(f"127.0.0.1:{port}" for port in ports)
    return admin.AdminClient({"bootstrap.servers": servers, "socket.timeout.ms": 10_000, **settings})


def test_an_administrator_finds_the_brokers_and_handles_groups(tmp_path: Path) -> None:
    with doors(tmp_path, names="abc") as (_, at), RawClient(at["a"], client_id="raw") as client:
        asked = administrator(*at.values())
        cluster = asked.describe_cluster(request_timeout=ASK_S).result(ASK_S)
        assert {node.port for node in cluster.nodes} <= set(at.values())
        me = Member(client, "shown")
        assert me.join(protocols=(("range", NO_TOPICS),)) == 0
        assert me.sync(shares={me.id: NO_TOPICS})["error_code"] == 0
        listed = asked.list_consumer_groups(request_timeout=ASK_S).result(ASK_S)
        assert {(one.group_id, one.state) for one in listed.valid} == {("shown", kafka.ConsumerGroupState.STABLE)}
        found = asked.describe_consumer_groups(["shown"], request_timeout=ASK_S)["shown"].result(ASK_S)
        assert [member.client_id for member in found.members] == ["raw"]
        assert found.coordinator.port in at.values()
        client.ask("LeaveGroup", 5, group_id="shown", members=[{"member_id": me.id}])
        asked.delete_consumer_groups(["shown"], request_timeout=ASK_S)["shown"].result(ASK_S)
        assert not asked.list_consumer_groups(request_timeout=ASK_S).result(ASK_S).valid


def test_an_administrator_proves_a_user_by_scram(tmp_path: Path) -> None:
    """Check: with the right password it sees the groups that its user may see; with a wrong one it sees nothing."""
    with doors(tmp_path) as (nodes, at), RawClient(at["a"]) as client:
        me = Member(client, "mine")
        assert me.join() == 0
        found_users(nodes["a"])
        settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "ann"}
        asked = administrator(at["a"], **settings, **{"sasl.password": PASSWORD})
        listed = asked.list_consumer_groups(request_timeout=ASK_S).result(ASK_S)
        assert [one.group_id for one in listed.valid] == ["mine"]
        refused = administrator(at["a"], **settings, **{"sasl.password": "wrong"})
        told = refused.list_consumer_groups(request_timeout=2).result(ASK_S)
        assert told.errors and not told.valid
