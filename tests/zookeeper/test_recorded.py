"""What a real ZooKeeper 3.9.5 answered (tests/zookeeper/record.py): the door's protocol writes the same bytes."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import msgpack
import pytest

from tests.faces.zookeeper import Speaker, connect_decode, connected_encode, event, reply, request_decode, rows
from tests.faces.zookeeper_commands import read_body, reply_refused, reply_result
from tests.wire.guarded import guarded
from tests.wire.names import Status
from tests.zookeeper import jute
from tests.zookeeper.record import requests

RECORDED = [line.rsplit(" ", 2) for line in (Path(__file__).parent / "recorded.txt").read_text().splitlines()]
ASKED = {name: bytes.fromhex(data) for name, way, data in RECORDED if way == ">"}
ANSWERED = {name: bytes.fromhex(data) for name, way, data in RECORDED if way == "<"}
EVENTS = [bytes.fromhex(data) for _, way, data in RECORDED if way == "!"]
REQUESTS = dict(requests())
ANSWERS = {row[0]: row[3] for row in rows()}
NOTHING, PATH, PATH_STAT, STAT = range(4)


class Reply:
    """One answer, taken apart from its front."""

    def __init__(self, frame: bytes) -> None:
        self.xid, self.zxid, self.error = struct.unpack_from(">iqi", frame, 4)
        self.rest = frame[20:]

    def integer(self) -> int:
        value = int(struct.unpack_from(">i", self.rest)[0])
        self.rest = self.rest[4:]
        return value

    def buffer(self) -> bytes | None:
        length = self.integer()
        value, self.rest = self.rest[: max(length, 0)], self.rest[max(length, 0) :]
        return None if length < 0 else value

    def stat(self) -> tuple[int, ...]:
        value, self.rest = self.rest[: jute.STAT.size], self.rest[jute.STAT.size :]
        return jute.STAT.unpack(value)

    def stored_stat(self) -> bytes:
        return jute.STORED_STAT.pack(
            *(number & 2**64 - 1 if at == 7 else number for at, number in enumerate(self.stat()))
        )

    def acl(self) -> list[list[Any]]:
        return [[self.integer(), self.buffer(), self.buffer()] for _ in range(self.integer())]

    def outcome(self, answer: int) -> Any:
        """The result of the machine that reads as this answer."""
        if answer == NOTHING:
            return None
        if answer == STAT:
            return self.stored_stat()
        path = self.buffer()
        return [path, self.stored_stat() if answer == PATH_STAT else bytes(jute.STORED_STAT.size)]


def test_every_request_was_recorded() -> None:
    """All but sasl, setWatches2 (setWatches with more lists) and check, which stands in the multi."""
    assert set(REQUESTS) == set(ASKED) - {"connect", "connect short"} == set(ANSWERED) - {"connect", "connect short"}
    names = {row[0]: row[1] for row in rows()}
    assert set(names) - {one.opcode for one in REQUESTS.values()} == {13, 102, 105}


@pytest.mark.parametrize("name", list(REQUESTS))
def test_the_recorder_sent_what_jute_says(name: str) -> None:
    """So a real server understood the model in jute.py, and the codec reads it alike."""
    assert jute.request(REQUESTS[name]) == ASKED[name]
    status, found = request_decode(guarded(ASKED[name]))
    assert status == Status.OK and found is not None and found["error"] == 0
    assert (found["opcode"], found["path"]) == (REQUESTS[name].opcode, REQUESTS[name].path)


@pytest.mark.parametrize("name", ["connect", "connect short"])
def test_a_connect_is_answered_with_the_same_bytes(name: str) -> None:
    status, asked = connect_decode(guarded(ASKED[name]))
    assert status == Status.OK and asked is not None
    timeout_ms, session = struct.unpack_from(">iq", ANSWERED[name], 8)
    password = ANSWERED[name][24:40]
    made = connected_encode(timeout_ms, session, password, False, has_read_only=asked["has_read_only"])
    assert made == ANSWERED[name]


@pytest.mark.parametrize("name", [name for name in REQUESTS if Reply(ANSWERED[name]).error])
def test_an_error_is_a_header(name: str) -> None:
    """Also of a multi that could not be read."""
    heard = Reply(ANSWERED[name])
    assert reply(heard.xid, heard.zxid, heard.error) == ANSWERED[name]
    assert reply_refused(ASKED[name], heard.zxid, heard.error) == ANSWERED[name]


WRITES = {1, 2, 5, 7, 15, 19, 21}
WRITTEN = [name for name, one in REQUESTS.items() if one.opcode in WRITES and not Reply(ANSWERED[name]).error]


@pytest.mark.parametrize("name", WRITTEN)
def test_a_write_is_answered_with_the_same_bytes(name: str) -> None:
    """From the result that the machine would have."""
    heard = Reply(ANSWERED[name])
    outcome = heard.outcome(ANSWERS[REQUESTS[name].opcode])
    result = msgpack.packb([0, heard.zxid, [outcome]], use_bin_type=True)
    assert reply_result(ASKED[name], guarded(result)) == (Status.OK, heard.zxid, ANSWERED[name])


def test_a_multi_is_answered_with_the_same_bytes() -> None:
    """check, create, create2, setData, delete, and an ephemeral sequential one."""
    heard = Reply(ANSWERED["multi"])
    outcomes = []
    for one in REQUESTS["multi"].operations:
        head, heard.rest = heard.rest[:9], heard.rest[9:]
        assert struct.unpack(">ibi", head) == (one.opcode, 0, 0)
        outcomes.append(heard.outcome(ANSWERS[one.opcode]))
    assert heard.rest == jute.END
    result = msgpack.packb([0, heard.zxid, outcomes], use_bin_type=True)
    assert reply_result(ASKED["multi"], guarded(result))[2] == ANSWERED["multi"]


def test_a_failed_multi_is_answered_with_the_same_bytes() -> None:
    """The second of three has no node."""
    heard = Reply(ANSWERED["multi failed"])
    refused = msgpack.packb([int(Status.ZNODE_REFUSED), heard.zxid, [1, -101]], use_bin_type=True)
    assert reply_result(ASKED["multi failed"], guarded(refused))[2] == ANSWERED["multi failed"]
    empty = Reply(ANSWERED["multi empty"])
    result = msgpack.packb([0, empty.zxid, []], use_bin_type=True)
    assert reply_result(ASKED["multi empty"], guarded(result))[2] == ANSWERED["multi empty"]


@pytest.mark.parametrize("name", ["exists", "getData", "getData null", "getData ttl", "getACL", "getACL of admin"])
def test_a_read_is_answered_with_the_same_bytes(name: str) -> None:
    """From a node with this data, list and stat."""
    heard = Reply(ANSWERED[name])
    data = heard.buffer() if name.startswith("getData") else b""
    acl = heard.acl() if name.startswith("getACL") else []
    stat = tuple(number & 2**64 - 1 if at == 7 else number for at, number in enumerate(heard.stat()))
    speaker = Speaker()
    assert speaker.auth(b"digest", b"ann:secret") == 0
    node: Any = (data, msgpack.packb(acl, use_bin_type=True) if acl else b"", stat)
    error, body = read_body(ASKED[name], speaker, node)
    assert error == 0 and jute.reply(heard.xid, heard.zxid, 0, body) == ANSWERED[name]


def test_events_are_the_same_bytes() -> None:
    """The zxid of the change; those that setWatches finds late have -1."""
    assert len(EVENTS) == 3
    for frame in EVENTS:
        heard = Reply(frame)
        kind, state, path = heard.integer(), heard.integer(), heard.buffer()
        assert path is not None and event(heard.zxid & 2**64 - 1, kind, state, path) == frame
    assert [Reply(frame).zxid for frame in EVENTS][1:] == [-1, -1]
