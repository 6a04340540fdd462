"""Who may do what through the Kafka door: SCRAM and PLAIN, certificates, rights over groups, the audit trail."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import hmac
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import raftmeta
from raftmeta.security.audit_trail import files_of, lines_of
from tests.kafka.batches import Record, batch
from tests.kafka.nodes import Member, RawClient, doors
from tests.processes.waiting import wait_until
from tests.security.certificates import Authority, Held

TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED = 29, 30
UNSUPPORTED_SASL_MECHANISM, ILLEGAL_SASL_STATE = 33, 34
SASL_AUTHENTICATION_FAILED = 58
PASSWORD = "correct horse"
START_S = 20.0


def token_of(client: RawClient, token: bytes) -> dict[str, Any]:
    return client.ask("SaslAuthenticate", 2, auth_bytes=token)


def scram(client: RawClient, user: str, password: str, *, nonce: str = "abcdefgh") -> tuple[int, bool]:
    """The error of the last answer, and whether the door proved that it knows the user (RFC 5802)."""
    assert client.ask("SaslHandshake", 1, mechanism="SCRAM-SHA-256")["error_code"] == 0
    bare = f"n={user},r={nonce}"
    answer = token_of(client, b"n,," + bare.encode())
    if answer["error_code"]:
        return int(answer["error_code"]), False
    said = answer["auth_bytes"].decode()
    fields = dict(part.split("=", 1) for part in said.split(","))
    assert fields["r"].startswith(nonce)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), base64.b64decode(fields["s"]), int(fields["i"]))
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    last = f"c=biws,r={fields['r']}"
    message = f"{bare},{said},{last}".encode()
    mask = hmac.digest(hashlib.sha256(client_key).digest(), message, "sha256")
    proof = bytes(one ^ other for one, other in zip(client_key, mask, strict=True))
    answer = token_of(client, f"{last},p={base64.b64encode(proof).decode()}".encode())
    signature = hmac.digest(hmac.digest(salted, b"Server Key", "sha256"), message, "sha256")
    return int(answer["error_code"]), answer["auth_bytes"] == b"v=" + base64.b64encode(signature)


def found_users(node: raftmeta.Node) -> None:
    """ann may join groups that begin with `mine`, bob may only see them."""
    auth = node.auth
    for name, rights in (("ann", ("read", "write", "lease")), ("bob", ("read",))):
        auth.put_role(name)
        auth.grant(name, *rights, prefix="groups/mine")
        auth.put_user(name, PASSWORD)
        auth.bind(name, name)
    auth.grant("ann", "read", "write", prefix="kafka-topics/mine")
    auth.grant("ann", "read", "write", prefix="kafka-logs/mine")
    auth.put_role("all")
    auth.grant("all", "admin")
    auth.put_user("chief", PASSWORD)
    auth.bind("chief", "all")
    auth.enable()


@contextlib.contextmanager
def guarded(folder: Path, **options: Any) -> Iterator[tuple[raftmeta.Node, int]]:
    with doors(folder, **options) as (nodes, at):
        found_users(nodes["a"])
        yield nodes["a"], at["a"]


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with guarded(tmp_path_factory.mktemp("rights")) as (_, port):
        yield port


# --- SCRAM ------------------------------------------------------------------------------------------------------------
def test_a_user_proves_its_password_and_the_door_proves_that_it_knows_it(port: int) -> None:
    with RawClient(port) as client:
        assert client.ask("ApiVersions", 3)["error_code"] == 0
        assert scram(client, "ann", PASSWORD) == (0, True)
        assert Member(client, "mine-1").join() == 0


def test_a_door_that_served_before_there_were_rights_goes_on_at_once(tmp_path: Path) -> None:
    """Init: the door has a session with its node. Act: turn rights on. Check: the first command is done.

    The session had no owner until the door's next look at its connections, so commands were refused for up to a second.
    """
    with doors(tmp_path, session_ttl_s=600.0) as (nodes, at):

        def is_served() -> bool:
            with RawClient(at["a"]) as client:
                return Member(client, "before").join() == 0

        wait_until(is_served, timeout_s=START_S, what="the door to serve")
        found_users(nodes["a"])
        with RawClient(at["a"]) as client:
            assert scram(client, "ann", PASSWORD) == (0, True)
            assert Member(client, "mine-1").join() == 0


@pytest.mark.parametrize("user", ["ann", "nobody"])
def test_a_wrong_password_and_an_unknown_user_are_told_alike(port: int, user: str) -> None:
    with RawClient(port) as client:
        assert scram(client, user, "wrong") == (SASL_AUTHENTICATION_FAILED, False)
        assert client.is_closed()


def test_nothing_is_answered_before_a_proof(port: int) -> None:
    with RawClient(port) as client:
        assert client.ask("ApiVersions", 3)["error_code"] == 0
        client.send("Metadata", 12, topics=[])
        assert client.is_closed()


def test_steps_of_a_proof_have_an_order(port: int) -> None:
    with RawClient(port) as client:
        assert token_of(client, b"n,,n=ann,r=abc")["error_code"] == ILLEGAL_SASL_STATE
        assert client.ask("SaslHandshake", 1, mechanism="GSSAPI")["error_code"] == UNSUPPORTED_SASL_MECHANISM
        assert client.ask("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == UNSUPPORTED_SASL_MECHANISM


@pytest.mark.parametrize(
    "token", [b"", b"n,,", b"y,,n=ann,r=x", b"n,,n=ann", b"n,,n=,r=x", b"n,,n=a=ZZ,r=x", b"n,,n=" + b"a" * 99 + b",r=x"]
)
def test_what_is_no_first_token_is_a_failed_proof(port: int, token: bytes) -> None:
    with RawClient(port) as client:
        assert client.ask("SaslHandshake", 1, mechanism="SCRAM-SHA-256")["error_code"] == 0
        assert token_of(client, token)["error_code"] == SASL_AUTHENTICATION_FAILED
        assert client.is_closed()


def test_proofs_for_one_name_are_bounded(tmp_path: Path) -> None:
    """Beyond ten failures at once not even the right password is looked at."""
    with guarded(tmp_path) as (node, port):
        for _ in range(11):
            with RawClient(port) as client:
                assert scram(client, "ann", "wrong")[0] == SASL_AUTHENTICATION_FAILED
        with RawClient(port) as client:
            assert scram(client, "ann", PASSWORD)[0] == SASL_AUTHENTICATION_FAILED
        with RawClient(port) as client:
            assert scram(client, "bob", PASSWORD) == (0, True)
        wait_until(
            lambda: node.metrics()["kafka_authentications_failed"] >= 12, timeout_s=10, what="failures to be counted"
        )


def test_a_changed_password_ends_connections(tmp_path: Path) -> None:
    with guarded(tmp_path) as (node, port), RawClient(port) as client:
        assert scram(client, "ann", PASSWORD) == (0, True)
        node.auth.put_user("ann", "another one")
        assert client.is_closed()


# --- rights -----------------------------------------------------------------------------------------------------------
def test_a_group_is_for_those_who_may_write_its_keys(port: int) -> None:
    with RawClient(port) as ann, RawClient(port) as bob:
        assert scram(ann, "ann", PASSWORD) == (0, True)
        assert scram(bob, "bob", PASSWORD) == (0, True)
        assert Member(ann, "theirs").join() == GROUP_AUTHORIZATION_FAILED
        assert Member(bob, "mine-2").join() == GROUP_AUTHORIZATION_FAILED
        me = Member(ann, "mine-2")
        assert me.join() == 0
        assert me.sync(shares={})["error_code"] == 0
        shown = bob.ask("DescribeGroups", 5, groups=["mine-2", "theirs"])["groups"]
        assert [(one["error_code"], one["group_state"]) for one in shown] == [
            (0, "Stable"),
            (GROUP_AUTHORIZATION_FAILED, ""),
        ]
        assert bob.ask("DeleteGroups", 2, groups_names=["mine-2"])["results"][0]["error_code"] == 30


def test_a_consumer_needs_rights_over_its_group_and_its_topics(port: int) -> None:
    said = {"member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000, "topic_partitions": []}
    with RawClient(port) as ann, RawClient(port) as bob:
        assert scram(ann, "ann", PASSWORD) == (0, True)
        assert scram(bob, "bob", PASSWORD) == (0, True)

        def joined(client: RawClient, group: str, *names: str) -> int:
            values = {**said, "group_id": group, "subscribed_topic_names": list(names)}
            code: int = client.ask("ConsumerGroupHeartbeat", 1, **values)["error_code"]
            return code

        assert joined(ann, "theirs") == joined(bob, "mine-6") == GROUP_AUTHORIZATION_FAILED
        assert joined(ann, "mine-6", "t") == TOPIC_AUTHORIZATION_FAILED
        assert joined(ann, "mine-6") == 0
        shown = bob.ask("ConsumerGroupDescribe", 1, group_ids=["mine-6", "theirs"])["groups"]
        assert [(one["error_code"], one["group_state"]) for one in shown] == [
            (0, "Stable"),
            (GROUP_AUTHORIZATION_FAILED, ""),
        ]


# --- TLS --------------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def secured(port: int, authority: Authority, held: Held) -> Iterator[RawClient]:
    context = ssl.create_default_context(cafile=str(authority.path))
    context.check_hostname = False
    context.load_cert_chain(held.certificate, held.key)
    plain = RawClient(port)
    with context.wrap_socket(plain.stream) as stream:
        yield RawClient(port, stream=stream)


def test_a_certificate_names_a_user_and_plain_needs_tls(tmp_path: Path) -> None:
    """Check: a client whose certificate names ann is ann; one that proves bob by PLAIN is bob."""
    authority = Authority(tmp_path)
    tls = authority.tls(authority.node("a"))
    with guarded(tmp_path, tls=tls) as (_, port):
        with secured(port, authority, authority.client("ann")) as client:
            assert Member(client, "mine-3").join() == 0
        with secured(port, authority, authority.client("stranger")) as client:
            assert client.ask("SaslHandshake", 1, mechanism="PLAIN")["mechanisms"] == ["SCRAM-SHA-256", "PLAIN"]
            assert token_of(client, b"\0bob\0" + PASSWORD.encode())["error_code"] == 0
            assert Member(client, "mine-3").join() == GROUP_AUTHORIZATION_FAILED
        with secured(port, authority, authority.client("stranger")) as client:
            assert client.ask("SaslHandshake", 1, mechanism="PLAIN")["error_code"] == 0
            assert token_of(client, b"\0bob\0wrong")["error_code"] == SASL_AUTHENTICATION_FAILED
            assert client.is_closed()


# --- topics -----------------------------------------------------------------------------------------------------------
def test_a_topic_is_for_those_who_may_write_its_key(port: int) -> None:
    change = {"configs": [{"name": "retention.ms", "config_operation": 0, "value": "1"}]}
    with RawClient(port) as ann, RawClient(port) as chief:
        assert scram(ann, "ann", PASSWORD) == (0, True)
        assert scram(chief, "chief", PASSWORD) == (0, True)
        for name, code in (("mine-1", 0), ("theirs", TOPIC_AUTHORIZATION_FAILED)):
            answer = made(ann, name)
            assert answer["topics"][0]["error_code"] == code
            made(chief, name)
            asked = {"topics": [{"name": name, "count": 2}], "timeout_ms": 1000}
            assert ann.ask("CreatePartitions", 3, **asked)["results"][0]["error_code"] == code
            resources = [{"resource_type": 2, "resource_name": name, **change}]
            answer = ann.ask("IncrementalAlterConfigs", 1, resources=resources)
            assert answer["responses"][0]["error_code"] == code
            asked = {"topics": [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]}]}
            answer = ann.ask("DeleteRecords", 2, timeout_ms=1000, **asked)
            assert answer["topics"][0]["partitions"][0]["error_code"] == code


def made(client: RawClient, *names: str, config: str = "1") -> dict[str, Any]:
    topics = [
        {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": [{"name": "x", "value": config}]}
        for name in names
    ]
    return client.ask("CreateTopics", 7, topics=topics, timeout_ms=1000)


# --- the audit trail --------------------------------------------------------------------------------------------------
def wait_for_lines(folder: Path, wanted: list[dict[str, Any]]) -> None:
    """Until each of the lines stands in the trail."""

    def missing() -> list[dict[str, Any]]:
        lines = [line.facts for _, _, line in lines_of(folder) if line is not None]
        return [facts for facts in wanted if not any(facts.items() <= line.items() for line in lines)]

    wait_until(lambda: not missing(), timeout_s=START_S, what=lambda: f"{missing()}")


def test_requests_of_groups_are_lines_with_their_user(tmp_path: Path) -> None:
    """Check: the proof, the join and a refusal are told. No word of a member and no password stands there."""
    folder = tmp_path / "trail"
    with guarded(tmp_path, audit=raftmeta.Audit(folder=folder, writes=True)) as (_, port), RawClient(port) as client:
        assert scram(client, "ann", PASSWORD) == (0, True)
        assert Member(client, "mine-4").join(protocols=(("range", b"a-word-of-a-member"),)) == 0
        assert Member(client, "theirs").join() == GROUP_AUTHORIZATION_FAILED
        said = {"group_id": "mine-7", "member_id": "m", "rebalance_timeout_ms": 1000, "subscribed_topic_names": []}
        for epoch in (0, 1, -1):
            answer = client.ask("ConsumerGroupHeartbeat", 1, **said, member_epoch=epoch, topic_partitions=[])
            assert answer["error_code"] == 0

        wanted: list[dict[str, Any]] = [
            {"operation": "authenticate", "principal": "ann", "verdict": "ok"},
            {"operation": "group_join", "principal": "ann", "key": "groups/mine-4", "verdict": "ok"},
            {"operation": "group_join", "principal": "ann", "key": "groups/theirs", "verdict": "denied"},
            {"operation": "group_join", "principal": "ann", "key": "groups/mine-7", "verdict": "ok"},
            {"operation": "group_leave", "principal": "ann", "key": "groups/mine-7", "verdict": "ok"},
        ]
        wait_for_lines(folder, wanted)
    content = b"".join(path.read_bytes() for _, path in files_of(folder))
    assert b"a-word-of-a-member" not in content and PASSWORD.encode() not in content


def test_requests_of_topics_and_records_are_lines_without_values(tmp_path: Path) -> None:
    """Check: who changed which topic, group or log, and what came of it. No config, metadata or record stands there."""
    folder = tmp_path / "trail"
    audit = raftmeta.Audit(folder=folder, writes=True, reads=True)
    with guarded(tmp_path, audit=audit) as (_, port), RawClient(port) as client:
        assert scram(client, "ann", PASSWORD) == (0, True)
        made(client, "mine-1", config="a-config")
        made(client, "mine-1")
        made(client, "mine-2", "mine-3")
        made(client, "theirs")
        client.ask("Metadata", 12, topics=[{"name": "mine-auto"}], allow_auto_topic_creation=True)
        client.ask("CreatePartitions", 3, topics=[{"name": "mine-none", "count": 2}], timeout_ms=1000)
        changes = [{"name": "retention.ms", "config_operation": 0, "value": "123454321"}]
        resources = [{"resource_type": 2, "resource_name": "mine-1", "configs": changes}]
        client.ask("IncrementalAlterConfigs", 1, resources=resources)
        records = batch([Record(b"a-key", b"a-record")])
        topics: list[dict[str, Any]] = [{"name": "mine-1", "partition_data": [{"index": 0, "records": records}]}]
        client.ask("Produce", 9, acks=-1, timeout_ms=1000, topic_data=topics)
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
        client.ask("Fetch", 12, max_wait_ms=0, session_id=0, topics=[{"topic": "mine-1", "partitions": [part]}])
        offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "a-metadata"}
        client.ask("OffsetCommit", 8, group_id="mine", topics=[{"name": "mine-1", "partitions": [offset]}])
        client.ask("OffsetCommit", 8, group_id="mine", topics=[{"name": "mine-none", "partitions": [offset]}])
        client.ask("OffsetFetch", 8, groups=[{"group_id": "mine", "topics": None}])
        topics = [{"name": "mine-1", "partitions": [{"partition_index": 0}]}]
        client.ask("OffsetDelete", 0, group_id="mine", topics=topics)
        topics = [{"name": "mine-1", "partitions": [{"partition_index": 0, "offset": -1}]}]
        client.ask("DeleteRecords", 2, topics=topics, timeout_ms=1000)
        client.ask("DeleteGroups", 2, groups_names=["mine"])
        client.ask("DeleteTopics", 6, topics=[{"name": "mine-1"}], timeout_ms=1000)
        both = [{"operation": "topic_create", "key": f"kafka-topics/mine-{number}"} for number in (2, 3)]
        facts = [
            ("topic_create", {"key": "kafka-topics/mine-1", "verdict": "ok"}),
            ("topic_create", {"key": "kafka-topics/mine-1", "verdict": "KeyExists"}),
            ("topic_create", {"operations": both, "verdict": "ok"}),
            ("topic_create", {"key": "kafka-topics/theirs", "verdict": "denied"}),
            ("topic_create", {"key": "kafka-topics/mine-auto", "verdict": "ok"}),
            ("topic_extend", {"key": "kafka-topics/mine-none", "verdict": "KeyMissing"}),
            ("topic_configure", {"key": "kafka-topics/mine-1", "verdict": "ok"}),
            ("records_append", {"key": "kafka-logs/mine-1/", "verdict": "ok"}),
            ("range", {"key": "kafka-logs/mine-1/", "verdict": "ok"}),
            ("offset_commit", {"key": "groups/mine", "verdict": "ok"}),
            ("offset_commit", {"key": "groups/mine", "verdict": "KeyMissing"}),
            ("range", {"key": "groups/mine", "verdict": "ok"}),
            ("offset_delete", {"key": "groups/mine", "verdict": "ok"}),
            ("records_delete", {"key": "kafka-logs/mine-1/", "verdict": "ok"}),
            ("group_delete", {"key": "groups/mine", "verdict": "ok"}),
            ("topic_delete", {"key": "kafka-topics/mine-1", "verdict": "ok"}),
        ]
        wait_for_lines(folder, [{"operation": word, "principal": "ann", **more} for word, more in facts])
    content = b"".join(path.read_bytes() for _, path in files_of(folder))
    for word in (b"a-config", b"123454321", b"a-key", b"a-record", b"a-metadata", PASSWORD.encode()):
        assert word not in content
