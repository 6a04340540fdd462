"""Nodes with a Kafka door, and a client that shows each byte of the protocol."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import raftmeta
from tests.kafka.codec import Reader, decode, encode, header_of_answer
from tests.kafka.schema import messages
from tests.node.doors import nodes_with_doors
from tests.processes.waiting import wait_until

LEVEL_OF_CONSUMER_GROUPS = 7
WAIT_S = 30.0
KEYS = {message.name: key for key, message in messages().items()}
GROUPS = {"kafka_session_min_s": 0.1, "kafka_initial_delay_s": 0.0}  # as quick as tests want them


@contextlib.contextmanager
def doors(
    folder: Path,
    *,
    names: str = "a",
    tls: raftmeta.Tls | None = None,
    audit: raftmeta.Audit | None = None,
    client_listen: str | None = None,
    hosts: Mapping[str, raftmeta.KafkaDoor] | None = None,
    **settings: Any,
) -> Iterator[tuple[dict[str, raftmeta.Node], dict[str, int]]]:
    """Ready nodes with a door each, and the ports of the doors. hosts: programs that keep records, by node."""
    with nodes_with_doors(
        folder,
        door="kafka_listen",
        names=names,
        settings={**GROUPS, **settings},
        of_node={name: {"kafka": host} for name, host in (hosts or {}).items()},
        client_listen=client_listen,
        tls=tls,
        audit=audit,
    ) as (nodes, at):
        wait_until(
            lambda: all(node.status().feature_level >= LEVEL_OF_CONSUMER_GROUPS for node in nodes.values()),
            timeout_s=WAIT_S,
            what="the level of the door",
        )
        yield nodes, at


class RawClient:
    """A connection to a Kafka door; requests and answers are those of tests/kafka/codec."""

    def __init__(self, port: int, *, client_id: str = "test", stream: socket.socket | None = None) -> None:
        self.stream = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) if stream is None else stream
        self.client_id = client_id
        self.correlation = 0
        self.asked: dict[int, tuple[int, int]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stream.close()

    def send(self, name: str, version: int, **values: Any) -> int:
        """Send a request; its correlation id."""
        key = KEYS[name]
        message = messages()[key]
        self.correlation += 1
        head = struct.pack(">hhih", key, version, self.correlation, len(self.client_id)) + self.client_id.encode()
        if message.is_flexible(version):
            head += b"\0"
        body = head + encode(message, version, values, is_request=True)
        self.asked[self.correlation] = key, version
        self.stream.sendall(struct.pack(">i", len(body)) + body)
        return self.correlation

    def take(self) -> tuple[int, dict[str, Any]]:
        """The next answer: correlation id and fields."""
        (length,) = struct.unpack(">i", self._exactly(4))
        reader = Reader(self._exactly(length))
        (correlation,) = struct.unpack(">i", reader.data[:4])
        key, version = self.asked.pop(correlation)
        message = messages()[key]
        header_of_answer(message, version, reader)
        return correlation, decode(message, version, reader.data[reader.at :], is_request=False)

    def ask(self, name: str, version: int, **values: Any) -> dict[str, Any]:
        sent = self.send(name, version, **values)
        correlation, answer = self.take()
        assert correlation == sent
        return answer

    def is_closed(self) -> bool:
        """Whether the door closed the connection; nothing else is awaited on it."""
        try:
            return self.stream.recv(1) == b""
        except ConnectionError:
            return True

    def _exactly(self, count: int) -> bytes:
        got = b""
        while len(got) < count:
            part = self.stream.recv(count - len(got))
            if not part:
                raise ConnectionError("the door closed the connection")
            got += part
        return got


class Member:
    """A member of a group over one connection, in a given version of JoinGroup and of what goes with it."""

    def __init__(self, client: RawClient, group: str = "g", *, instance: str | None = None, session_ms: int = 10_000):
        self.client = client
        self.group = group
        self.instance = instance
        self.session_ms = session_ms
        self.id = ""
        self.generation = -1
        self.leader = ""
        self.members: list[dict[str, Any]] = []

    def send_join(self, version: int = 9, *, protocols: tuple[tuple[str, bytes], ...] = (("range", b"me"),)) -> int:
        return self.client.send(
            "JoinGroup",
            version,
            group_id=self.group,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=20_000,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocols=[{"name": name, "metadata": said} for name, said in protocols],
        )

    def take_join(self) -> int:
        """The error of the answer."""
        _, answer = self.client.take()
        self.id = answer["member_id"]
        if answer["error_code"] == 0:
            self.generation, self.leader = answer["generation_id"], answer["leader"]
            self.members = answer["members"]
        return int(answer["error_code"])

    def join(self, version: int = 9, **options: Any) -> int:
        """Both steps. The error of the last answer."""
        self.send_join(version, **options)
        error = self.take_join()
        if error == MEMBER_ID_REQUIRED:
            self.send_join(version, **options)
            error = self.take_join()
        return error

    def send_sync(self, version: int = 5, shares: dict[str, bytes] | None = None) -> int:
        given = {} if shares is None else shares
        return self.client.send(
            "SyncGroup",
            version,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": member, "assignment": share} for member, share in given.items()],
        )

    def sync(self, version: int = 5, shares: dict[str, bytes] | None = None) -> dict[str, Any]:
        self.send_sync(version, shares)
        return self.client.take()[1]

    def beat(self, version: int = 4) -> int:
        answer = self.client.ask(
            "Heartbeat",
            version,
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.id,
            group_instance_id=self.instance,
        )
        return int(answer["error_code"])


MEMBER_ID_REQUIRED = 79
