"""The answer to each request for a group, in each state of the group, as bytes of Kafka's protocol.

A cell makes a group, brings it to a state by members with connections of their own, sends one request, and tells the
answer in a line: ids of members as names, no texts for people. tests/doors/testdata/kafka_group_table.txt has the lines
of a real Kafka 3.9.2.

    members   A leads and is dynamic; B is static, with the instance b
    states    Dead, Empty, Preparing (B waits in its join), Completing (nobody has synced), Stable
"""

from __future__ import annotations

import contextlib
import json
import select
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kafka.nodes import WAIT_S, Member, RawClient

RECORDED = Path(__file__).parent.parent / "doors" / "testdata" / "kafka_group_table.txt"
STATES = ("Dead", "Empty", "Preparing", "Completing", "Stable")
TOPIC = "table"
UNKNOWN_ID = "nobody-0123"
SESSION_MS = 60_000
QUIET_S = 2.0  # a request that is not answered for so long waits
WAITS = "waits"
SIDE_BY_SIDE = 8  # cells
UNTOLD = {"throttle_time_ms", "error_message", "client_host"}  # no group here keeps the host of a client


@dataclass(slots=True)
class Group:
    """A group that was brought to a state. names: of members, by their ids."""

    port: int
    name: str
    stack: contextlib.ExitStack
    names: dict[str, str] = field(default_factory=dict)
    members: dict[str, Member] = field(default_factory=dict)
    generation: int = 1

    def connect(self) -> RawClient:
        return self.stack.enter_context(RawClient(self.port))

    def member(self, name: str, instance: str | None = None) -> Member:
        self.members[name] = Member(self.connect(), self.name, instance=instance, session_ms=SESSION_MS)
        return self.members[name]

    def id_of(self, name: str) -> str:
        """The id of a member; in a state without it one that nobody has."""
        return self.members[name].id if name in self.members and self.members[name].id else UNKNOWN_ID

    def pending(self) -> str:
        """The id of a member between the two steps of a join."""
        member = Member(self.connect(), self.name, session_ms=SESSION_MS)
        member.send_join()
        member.take_join()
        self.names[member.id] = "P"
        return member.id


def bring(group: Group, state: str) -> None:
    """Bring a group that there is not to the state."""
    if state == "Dead":
        return
    first = group.member("A")
    assert first.join() == 0
    group.names[first.id] = "A"
    assert first.sync(shares={first.id: b"share of A"})["error_code"] == 0
    if state == "Empty":
        answer = first.client.ask("LeaveGroup", 5, group_id=group.name, members=[{"member_id": first.id}])
        assert answer["error_code"] == 0
        return
    second = group.member("B", instance="b")
    second.send_join()
    wait_for_state(group, "PreparingRebalance")
    if state == "Preparing":
        return
    group.generation = 2
    first.send_join()
    for member in (first, second):
        assert member.take_join() == 0
    group.names[second.id] = "B"
    if state == "Stable":
        shares = {first.id: b"share of A", second.id: b"share of B"}
        for member in (first, second):
            assert member.sync(shares=shares if member is first else {})["error_code"] == 0


def wait_for_state(group: Group, state: str) -> None:
    client = group.connect()
    while True:
        (found,) = client.ask("DescribeGroups", 5, groups=[group.name])["groups"]
        if found["group_state"] == state:
            return


# --- requests ---------------------------------------------------------------------------------------------------------
Asked = tuple[str, int, dict[str, Any]]


def join(group: Group, version: int = 9, id: str = "", *, instance: str | None = None, **more: Any) -> Asked:
    values = {
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "member_id": id,
        "group_instance_id": instance,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"me"}],
    }
    return "JoinGroup", version, {"group_id": group.name, **values, **more}


def other(name: str) -> dict[str, Any]:
    return {"protocols": [{"name": name, "metadata": b"me"}]}


def sync(group: Group, id: str, **more: Any) -> Asked:
    values = {"generation_id": group.generation, "member_id": id, "protocol_type": "consumer", "protocol_name": "range"}
    shares = [{"member_id": group.id_of(name), "assignment": name.encode()} for name in ("A", "B")]
    return "SyncGroup", 5, {"group_id": group.name, **values, "assignments": shares, **more}


def beat(group: Group, id: str, **more: Any) -> Asked:
    return "Heartbeat", 4, {"group_id": group.name, "generation_id": group.generation, "member_id": id, **more}


def leave(group: Group, *ids: tuple[str, str | None]) -> Asked:
    members = [{"member_id": id, "group_instance_id": instance} for id, instance in ids]
    return "LeaveGroup", 5, {"group_id": group.name, "members": members}


def commit(group: Group, id: str = "", generation: int = -1, **more: Any) -> Asked:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0, "committed_offset": 5}]}]
    values = {"generation_id_or_member_epoch": generation, "member_id": id, "topics": topics}
    return "OffsetCommit", 8, {"group_id": group.name, **values, **more}


def forget(group: Group) -> Asked:
    topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
    return "OffsetDelete", 0, {"group_id": group.name, "topics": topics}


REQUESTS: dict[str, Callable[[Group], Asked]] = {
    "join, two steps": join,
    "join, one step": lambda group: join(group, 3),
    "join, new instance": lambda group: join(group, instance="c"),
    "join, known instance": lambda group: join(group, instance="b"),
    "join, known instance, other protocol": lambda group: join(group, instance="b", **other("roundrobin")),
    "join, unknown id": lambda group: join(group, id=UNKNOWN_ID),
    "join, unknown id and instance": lambda group: join(group, id=UNKNOWN_ID, instance="c"),
    "join, fenced id": lambda group: join(group, id=UNKNOWN_ID, instance="b"),
    "join, pending": lambda group: join(group, id=group.pending()),
    "join of A": lambda group: join(group, id=group.id_of("A")),
    "join of A, other metadata": lambda group: join(
        group, id=group.id_of("A"), protocols=[{"name": "range", "metadata": b"new"}]
    ),
    "join of B": lambda group: join(group, id=group.id_of("B"), instance="b"),
    "join, other type": lambda group: join(group, protocol_type="connect"),
    "join, no common protocol": lambda group: join(group, **other("mine")),
    "join, no protocol": lambda group: join(group, protocols=[]),
    "join, no type": lambda group: join(group, protocol_type=""),
    "join, no group": lambda group: join(group, group_id=""),
    "join, short session": lambda group: join(group, session_timeout_ms=1),
    "join, long session": lambda group: join(group, session_timeout_ms=1 << 30),
    "sync of A": lambda group: sync(group, group.id_of("A")),
    "sync of B": lambda group: sync(group, group.id_of("B"), group_instance_id="b"),
    "sync of A, old generation": lambda group: sync(group, group.id_of("A"), generation_id=group.generation - 1),
    "sync of A, other type": lambda group: sync(group, group.id_of("A"), protocol_type="connect"),
    "sync of A, other protocol": lambda group: sync(group, group.id_of("A"), protocol_name="mine"),
    "sync, unknown id": lambda group: sync(group, UNKNOWN_ID),
    "sync, fenced id": lambda group: sync(group, UNKNOWN_ID, group_instance_id="b"),
    "sync, unknown instance": lambda group: sync(group, group.id_of("A"), group_instance_id="c"),
    "sync, pending": lambda group: sync(group, group.pending()),
    "heartbeat of A": lambda group: beat(group, group.id_of("A")),
    "heartbeat of B": lambda group: beat(group, group.id_of("B"), group_instance_id="b"),
    "heartbeat of A, old generation": lambda group: beat(group, group.id_of("A"), generation_id=group.generation - 1),
    "heartbeat of A, next generation": lambda group: beat(group, group.id_of("A"), generation_id=group.generation + 1),
    "heartbeat, unknown id": lambda group: beat(group, UNKNOWN_ID),
    "heartbeat, fenced id": lambda group: beat(group, UNKNOWN_ID, group_instance_id="b"),
    "heartbeat, unknown instance": lambda group: beat(group, group.id_of("A"), group_instance_id="c"),
    "heartbeat, pending": lambda group: beat(group, group.pending()),
    "heartbeat, no group": lambda group: beat(group, group.id_of("A"), group_id=""),
    "leave of A": lambda group: leave(group, (group.id_of("A"), None)),
    "leave of B": lambda group: leave(group, (group.id_of("B"), "b")),
    "leave of B by its instance": lambda group: leave(group, ("", "b")),
    "leave, unknown id": lambda group: leave(group, (UNKNOWN_ID, None)),
    "leave, fenced id": lambda group: leave(group, (UNKNOWN_ID, "b")),
    "leave, unknown instance": lambda group: leave(group, ("", "c")),
    "leave, pending": lambda group: leave(group, (group.pending(), None)),
    "leave of both": lambda group: leave(group, (group.id_of("A"), None), ("", "b")),
    "leave of nobody": leave,
    "leave of A, old request": lambda group: (
        "LeaveGroup",
        2,
        {"group_id": group.name, "member_id": group.id_of("A")},
    ),
    "commit, no member": commit,
    "commit of A": lambda group: commit(group, group.id_of("A"), group.generation),
    "commit of B": lambda group: commit(group, group.id_of("B"), group.generation, group_instance_id="b"),
    "commit of A, old generation": lambda group: commit(group, group.id_of("A"), group.generation - 1),
    "commit, unknown id": lambda group: commit(group, UNKNOWN_ID, group.generation),
    "commit, fenced id": lambda group: commit(group, UNKNOWN_ID, group.generation, group_instance_id="b"),
    "commit, pending": lambda group: commit(group, group.pending(), group.generation),
    "delete offset": forget,
    "describe": lambda group: ("DescribeGroups", 5, {"groups": [group.name]}),
    "delete": lambda group: ("DeleteGroups", 2, {"groups_names": [group.name]}),
}


# --- cells ------------------------------------------------------------------------------------------------------------
def shown(group: Group, value: Any) -> Any:
    """Names for ids; the order of members does not count."""
    if isinstance(value, dict):
        return {key: shown(group, one) for key, one in value.items() if key not in UNTOLD}
    if isinstance(value, list):
        return sorted((shown(group, one) for one in value), key=str)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, str) and value not in (UNKNOWN_ID, TOPIC, "consumer", "range", ""):
        known = {**group.names, group.name: "the group", UNKNOWN_ID: "nobody"}
        return known.get(value, "a new id" if len(value) > len(UNKNOWN_ID) + 20 else value)
    return value


def cell(port: int, state: str, request: str, *, name: str, may_wait_s: float) -> str:
    """The answer in a line; WAITS if none has come after so many seconds."""
    with contextlib.ExitStack() as stack:
        group = Group(port, name, stack)
        bring(group, state)
        asked, version, values = REQUESTS[request](group)
        client = group.connect()
        client.send(asked, version, **values)
        if not select.select([client.stream], [], [], may_wait_s)[0]:
            return WAITS
        _, answer = client.take()
        return json.dumps(shown(group, answer), sort_keys=True)


def cells() -> Iterator[tuple[str, str]]:
    for request in REQUESTS:
        for state in STATES:
            yield state, request


def recorded() -> dict[tuple[str, str], str]:
    """The lines of a real Kafka by state and request."""
    found = (line.split(" | ", 2) for line in RECORDED.read_text().splitlines())
    return {(state, request): answer for state, request, answer in found}


def record(port: int) -> dict[tuple[str, str], str]:
    """Each cell, with all the time that an answer may take."""
    return {
        (state, request): cell(port, state, request, name=f"cell-{number}", may_wait_s=QUIET_S)
        for number, (state, request) in enumerate(cells())
    }


def write(found: dict[tuple[str, str], str]) -> None:
    RECORDED.write_text("".join(f"{state} | {request} | {answer}\n" for (state, request), answer in found.items()))


def differences(port: int, *, quiet_s: float) -> list[str]:
    """Where the door answers otherwise than Kafka. quiet_s: for cells that wait in Kafka."""
    expected = recorded()

    def difference(number: int, state: str, request: str) -> str:
        wanted = expected[state, request]
        may_wait_s = quiet_s if wanted == WAITS else WAIT_S
        told = cell(port, state, request, name=f"cell-{number}", may_wait_s=may_wait_s)
        return "" if told == wanted else f"{state}, {request}: {told} where Kafka says {wanted}"

    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        found = threads.map(lambda one: difference(one[0], *one[1]), enumerate(cells()))
        return [line for line in found if line]
