"""Topics at the Kafka door, byte by byte: every version that it offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.kafka.nodes import RawClient, doors

UNKNOWN_TOPIC, INVALID_TOPIC, TOPIC_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION = 3, 17, 36, 37, 38
INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_ID = 40, 42, 100
SET, UNSET, APPEND, SUBTRACT = range(4)
TOPIC, BROKER = 2, 4
NO_ID = bytes(16)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with doors(tmp_path_factory.mktemp("door")) as (_, at):
        yield at["a"]


@pytest.fixture
def client(door: int) -> Iterator[RawClient]:
    with RawClient(door) as client:
        yield client


def new(name: str, partitions: int = 2, replicas: int = 1, **options: Any) -> dict[str, Any]:
    return {"name": name, "num_partitions": partitions, "replication_factor": replicas, **options}


def create(client: RawClient, *topics: dict[str, Any], version: int = 7, **options: Any) -> list[dict[str, Any]]:
    answer = client.ask("CreateTopics", version, topics=list(topics), timeout_ms=1000, **options)
    told: list[dict[str, Any]] = answer["topics"]
    return told


def seen(client: RawClient, name: str, version: int = 12) -> dict[str, Any]:
    answer = client.ask("Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=False)
    found: dict[str, Any] = answer["topics"][0]
    return found


@pytest.mark.parametrize("version", range(2, 8))
def test_a_topic_is_made_and_seen(client: RawClient, version: int) -> None:
    name = f"made.{version}"
    (made,) = create(client, new(name, configs=[{"name": "cleanup.policy", "value": "compact"}]), version=version)
    assert made["error_code"] == 0
    found = seen(client, name)
    assert (found["error_code"], len(found["partitions"])) == (0, 2)
    if version >= 5:
        assert (made["num_partitions"], made["configs"][0]["value"]) == (2, "compact")
    if version >= 7:
        assert made["topic_id"] == found["topic_id"] != NO_ID
    assert create(client, new(name), version=version)[0]["error_code"] == TOPIC_EXISTS


@pytest.mark.parametrize("version", range(14))
def test_metadata_makes_a_topic_and_tells_it(client: RawClient, version: int) -> None:
    name = f"auto.{version}"
    if version >= 4:
        assert seen(client, name, version)["error_code"] == UNKNOWN_TOPIC
    answer = client.ask("Metadata", version, topics=[{"name": name}], allow_auto_topic_creation=True)
    (found,) = answer["topics"]
    assert (found["name"], found["error_code"]) == (name, 0)
    (partition,) = found["partitions"]
    assert partition["leader_id"] == answer["brokers"][0]["node_id"]
    assert partition["replica_nodes"] == partition["isr_nodes"] == [partition["leader_id"]]
    every = client.ask("Metadata", version, topics=[] if version == 0 else None)
    assert name in {topic["name"] for topic in every["topics"]}
    if version >= 10:
        by_id = client.ask("Metadata", version, topics=[{"name": None, "topic_id": found["topic_id"]}])["topics"][0]
        assert by_id == found


@pytest.mark.parametrize("version", range(1, 7))
def test_a_topic_is_removed(client: RawClient, version: int) -> None:
    name = f"gone.{version}"
    create(client, new(name))
    if version < 6:
        answer = client.ask("DeleteTopics", version, topic_names=[name, "nowhere"], timeout_ms=1000)
    else:
        topics = [{"name": None, "topic_id": seen(client, name)["topic_id"]}, {"name": "nowhere"}]
        answer = client.ask("DeleteTopics", version, topics=topics, timeout_ms=1000)
    assert [one["error_code"] for one in answer["responses"]] == [0, UNKNOWN_TOPIC]
    assert seen(client, name)["error_code"] == UNKNOWN_TOPIC


def test_an_id_that_nothing_has_is_told_so(client: RawClient) -> None:
    unknown = {"name": None, "topic_id": b"i" * 16}
    answer = client.ask("DeleteTopics", 6, topics=[unknown], timeout_ms=1000)
    assert answer["responses"][0]["error_code"] == UNKNOWN_ID
    assert client.ask("Metadata", 12, topics=[unknown])["topics"][0]["error_code"] == UNKNOWN_ID


@pytest.mark.parametrize("version", range(1, 5))
def test_configs_are_described(client: RawClient, version: int) -> None:
    name = f"configs.{version}"
    create(client, new(name, configs=[{"name": "cleanup.policy", "value": "compact"}, {"name": "z", "value": "1"}]))
    resources = [
        {"resource_type": 2, "resource_name": name, "configuration_keys": None},
        {"resource_type": 2, "resource_name": name, "configuration_keys": ["cleanup.policy", "none"]},
        {"resource_type": 2, "resource_name": "nowhere", "configuration_keys": None},
    ]
    every, some, nothing = client.ask("DescribeConfigs", version, resources=resources)["results"]
    told = {one["name"]: (one["value"], one["config_source"]) for one in every["configs"]}
    assert told["cleanup.policy"] == ("compact", 1)
    assert told["z"] == ("1", 1)
    assert told["min.insync.replicas"] == ("1", 5)
    assert [one["name"] for one in some["configs"]] == ["cleanup.policy"]
    assert (nothing["error_code"], nothing["configs"]) == (UNKNOWN_TOPIC, [])


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (new("no/name"), INVALID_TOPIC),
        (new(".."), INVALID_TOPIC),
        (new("n" * 250), INVALID_TOPIC),
        (new("x", 0), INVALID_PARTITIONS),
        (new("x", 10_001), INVALID_PARTITIONS),
        (new("x", replicas=0), INVALID_REPLICATION),
        (new("x", assignments=[{"partition_index": 0, "broker_ids": [1]}]), INVALID_REQUEST),
        (new("x", configs=[{"name": "a", "value": "1"}, {"name": "a", "value": "2"}]), INVALID_CONFIG),
        (new("x", configs=[{"name": "cleanup.policy", "value": "burn"}]), INVALID_CONFIG),
        (new("x", configs=[{"name": "retention.ms", "value": None}]), INVALID_CONFIG),
        (new("x", configs=[{"name": "retention.ms", "value": "soon"}]), INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused_alone(client: RawClient, asked: dict[str, Any], code: int) -> None:
    told = create(client, asked, new("beside", -1, -1))
    assert told[0]["error_code"] == code
    assert told[1]["error_code"] in (0, TOPIC_EXISTS)
    assert seen(client, asked["name"])["error_code"] in (UNKNOWN_TOPIC, INVALID_TOPIC)


def test_a_trial_makes_nothing(client: RawClient) -> None:
    assert create(client, new("trial"), validate_only=True)[0]["error_code"] == 0
    assert seen(client, "trial")["error_code"] == UNKNOWN_TOPIC


# --- CreatePartitions -------------------------------------------------------------------------------------------------
def extend(client: RawClient, *topics: tuple[str, int], version: int = 3, is_trial: bool = False) -> list[int]:
    """The code for each topic."""
    asked = [{"name": name, "count": count} for name, count in topics]
    answer = client.ask("CreatePartitions", version, topics=asked, timeout_ms=1000, validate_only=is_trial)
    assert [one["name"] for one in answer["results"]] == [name for name, _ in topics]
    return [one["error_code"] for one in answer["results"]]


@pytest.mark.parametrize("version", range(4))
def test_a_topic_gets_more_partitions_and_never_fewer(client: RawClient, version: int) -> None:
    name = f"more.{version}"
    create(client, new(name, 2))
    asked = [(name, 2), (name, 1), ("nowhere", 3), ("no/name", 3), (name, 10_001)]
    wrong = [INVALID_PARTITIONS, INVALID_PARTITIONS, UNKNOWN_TOPIC, UNKNOWN_TOPIC, INVALID_PARTITIONS]
    assert extend(client, *asked, version=version) == wrong
    assert extend(client, (name, 5), version=version, is_trial=True) == [0]
    assert len(seen(client, name)["partitions"]) == 2
    before = seen(client, name)["topic_id"]
    assert extend(client, (name, 5), version=version) == [0]
    assert len(seen(client, name)["partitions"]) == 5
    assert seen(client, name)["topic_id"] == before


def test_an_assignment_of_replicas_says_nothing(client: RawClient) -> None:
    create(client, new("assigned", 1))
    asked = [{"name": "assigned", "count": 2, "assignments": [{"broker_ids": [1, 2]}]}]
    answer = client.ask("CreatePartitions", 3, topics=asked, timeout_ms=1000)
    assert [one["error_code"] for one in answer["results"]] == [0]


# --- AlterConfigs, IncrementalAlterConfigs ----------------------------------------------------------------------------
def resource(name: str, *changes: tuple[str, int, str | None], type: int = TOPIC) -> dict[str, Any]:
    configs = [{"name": config, "config_operation": kind, "value": value} for config, kind, value in changes]
    return {"resource_type": type, "resource_name": name, "configs": configs}


def alter(client: RawClient, *resources: dict[str, Any], version: int = 1, is_trial: bool = False) -> list[int]:
    answer = client.ask("IncrementalAlterConfigs", version, resources=list(resources), validate_only=is_trial)
    return [one["error_code"] for one in answer["responses"]]


def configs(client: RawClient, name: str) -> dict[str, str]:
    """Those that the topic has of its own."""
    asked = [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}]
    (found,) = client.ask("DescribeConfigs", 4, resources=asked)["results"]
    assert found["error_code"] == 0
    return {one["name"]: one["value"] for one in found["configs"] if one["config_source"] == 1}


@pytest.mark.parametrize("version", range(2))
def test_configs_change_one_by_one(client: RawClient, version: int) -> None:
    name = f"changed.{version}"
    create(client, new(name, configs=[{"name": "retention.ms", "value": "1000"}, {"name": "z", "value": "1"}]))
    changes = (("z", UNSET, None), ("cleanup.policy", APPEND, "compact"), ("a", SET, "x"))
    assert alter(client, resource(name, *changes), version=version, is_trial=True) == [0]
    assert configs(client, name) == {"retention.ms": "1000", "z": "1"}
    assert alter(client, resource(name, *changes), version=version) == [0]
    assert configs(client, name) == {"retention.ms": "1000", "cleanup.policy": "delete,compact", "a": "x"}
    assert alter(client, resource(name, ("cleanup.policy", SUBTRACT, "delete")), version=version) == [0]
    assert configs(client, name)["cleanup.policy"] == "compact"


@pytest.mark.parametrize("version", range(3))
def test_configs_are_replaced_as_a_whole(client: RawClient, version: int) -> None:
    name = f"replaced.{version}"
    create(client, new(name, configs=[{"name": "retention.ms", "value": "1000"}, {"name": "z", "value": "1"}]))
    asked = [resource(name, ("retention.ms", SET, "2000")), resource("nowhere", ("a", SET, "b"))]
    answer = client.ask("AlterConfigs", version, resources=asked)
    assert [one["error_code"] for one in answer["responses"]] == [0, UNKNOWN_TOPIC]
    assert configs(client, name) == {"retention.ms": "2000"}


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (resource("kept", ("cleanup.policy", SET, "burn")), INVALID_CONFIG),
        (resource("kept", ("cleanup.policy", APPEND, "burn")), INVALID_CONFIG),
        (resource("kept", ("retention.ms", SET, "-2")), INVALID_CONFIG),
        (resource("kept", ("retention.ms", SET, "")), INVALID_CONFIG),
        (resource("kept", ("min.insync.replicas", SET, "0")), INVALID_CONFIG),
        (resource("kept", ("compression.type", SET, "brotli")), INVALID_CONFIG),
        (resource("kept", ("retention.ms", APPEND, "1")), INVALID_CONFIG),
        (resource("kept", ("", SET, "1")), INVALID_CONFIG),
        (resource("kept", ("a", SET, "x" * 4097)), INVALID_CONFIG),
        (resource("kept", *((f"{number:03}", SET, "") for number in range(129))), INVALID_CONFIG),
        (resource("kept", ("retention.ms", SET, None)), INVALID_REQUEST),
        (resource("kept", ("retention.ms", 4, "1")), INVALID_REQUEST),
        (resource("kept", ("a", SET, "1"), ("a", UNSET, None)), INVALID_REQUEST),
        (resource("1", ("a", SET, "1"), type=BROKER), INVALID_REQUEST),
        (resource("no/name", ("a", SET, "1")), INVALID_TOPIC),
        (resource("", ("a", SET, "1")), INVALID_REQUEST),
    ],
)
def test_a_config_that_cannot_be_is_refused_alone(client: RawClient, asked: dict[str, Any], code: int) -> None:
    create(client, new("kept"), new("beside"))
    assert alter(client, asked, resource("beside", ("retention.ms", SET, "-1"))) == [code, 0]
    assert configs(client, "kept") == {}


def test_a_resource_that_comes_twice_is_refused_twice(client: RawClient) -> None:
    create(client, new("twice"))
    change = resource("twice", ("a", SET, "1"))
    assert alter(client, change, resource("twice", ("b", SET, "1"))) == [INVALID_REQUEST] * 2
    assert configs(client, "twice") == {}


def test_an_id_of_a_topic_that_was_made_again_names_nothing(client: RawClient) -> None:
    create(client, new("again"))
    old = seen(client, "again")["topic_id"]
    by_id = {"name": None, "topic_id": old}
    assert client.ask("Metadata", 12, topics=[by_id])["topics"][0]["name"] == "again"
    client.ask("DeleteTopics", 6, topics=[{"name": "again"}], timeout_ms=1000)
    create(client, new("again"))
    assert client.ask("Metadata", 12, topics=[by_id])["topics"][0]["error_code"] == UNKNOWN_ID
    by_id = {"name": None, "topic_id": seen(client, "again")["topic_id"]}
    assert client.ask("Metadata", 12, topics=[by_id])["topics"][0]["name"] == "again"
