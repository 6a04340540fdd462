"""Changes of members through the door. Source: etcd server/etcdserver/api/v3rpc member.go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import raftmeta
from tests.etcd.client import EtcdClient, RpcError
from tests.etcd.gateway import doors
from tests.processes.waiting import wait_until

NOT_FOUND, PRECONDITION, UNIMPLEMENTED, UNAVAILABLE = 5, 9, 12, 14
CHANGED_S = 30.0

Cluster = tuple[dict[str, raftmeta.Node], dict[str, int]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with doors(tmp_path_factory.mktemp("members"), names="abc") as (nodes, ports):
        yield nodes, ports


def door_of(cluster: Cluster, name: str) -> EtcdClient:
    return EtcdClient(f"127.0.0.1:{cluster[1][name]}")


def members(cluster: Cluster) -> dict[str, dict[str, Any]]:
    with door_of(cluster, "a") as client:
        return {one["name"]: one for one in client.ask("MemberList")["members"]}


def ids(cluster: Cluster) -> dict[str, int]:
    return {name: one["ID"] for name, one in members(cluster).items()}


def refusal(client: EtcdClient, method: str, **values: object) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        client.ask(method, **values)
    return caught.value.code, caught.value.text.removeprefix("etcdserver: ")


def test_a_stranger_and_a_voter_are_told_apart(cluster: Cluster) -> None:
    member = ids(cluster)["b"]
    with door_of(cluster, "a") as client:
        for method in ("MemberRemove", "MemberPromote", "MemberUpdate"):
            assert refusal(client, method, ID=77) == (NOT_FOUND, "member not found")
        assert refusal(client, "MemberPromote", ID=member) == (PRECONDITION, "can only promote a learner member")


def test_what_etcds_requests_cannot_say_is_refused(cluster: Cluster) -> None:
    known = members(cluster)
    with door_of(cluster, "a") as client:
        code, text = refusal(client, "MemberAdd", peerURLs=["http://127.0.0.1:1"])
        assert code == UNIMPLEMENTED and "raftmeta member add" in text
        code, text = refusal(client, "MemberUpdate", ID=known["b"]["ID"], peerURLs=["http://127.0.0.1:1"])
        assert code == UNIMPLEMENTED and "advertise" in text
        told = client.ask("MemberUpdate", ID=known["b"]["ID"], peerURLs=known["b"]["peerURLs"])
        assert [one["name"] for one in told["members"]] == ["a", "b", "c"]


def test_a_member_without_a_vote_gets_one(cluster: Cluster) -> None:
    nodes, _ = cluster
    nodes["a"].demote("c")
    wait_until(lambda: _role(nodes["a"], "c") != "voter", timeout_s=CHANGED_S, what="c to lose its vote")

    def is_promoted() -> bool:
        """A member that has just lost its vote may have to catch up first."""
        try:
            with door_of(cluster, "b") as client:
                told = client.ask("MemberPromote", ID=ids(cluster)["c"])["members"]
        except RpcError as error:
            assert error.code == PRECONDITION and "in sync" in error.text
            return False
        return not any(one.get("isLearner") for one in told)

    wait_until(is_promoted, timeout_s=CHANGED_S, what="c to vote again")
    assert _role(nodes["b"], "c") == "voter"


def test_a_member_is_removed_and_a_leader_hands_over_first(tmp_path_factory: pytest.TempPathFactory) -> None:
    with doors(tmp_path_factory.mktemp("removal"), names="abc") as cluster:
        nodes, _ = cluster
        known = ids(cluster)
        leader = nodes["a"].status().leader
        others = [name for name in "abc" if name != leader]
        with door_of(cluster, others[0]) as client:
            told: dict[str, Any] = client.ask("MemberRemove", ID=known[others[1]])
            assert {one["name"] for one in told["members"]} == {leader, others[0]}
        with door_of(cluster, leader) as client:
            try:
                client.ask("MemberRemove", ID=known[leader])
            except RpcError as error:
                assert error.code == 14  # its door goes with it: the removal itself may be heard of or not
        wait_until(
            lambda: [one.name for one in nodes[others[0]].status().members if one.role] == [others[0]],
            timeout_s=CHANGED_S,
            what="one member to be left",
        )
        with door_of(cluster, others[0]) as client:
            assert refusal(client, "MemberRemove", ID=known[others[0]])[0] == PRECONDITION


def _role(node: raftmeta.Node, name: str) -> str:
    return next((one.role for one in node.status().members if one.name == name), "")
