"""A proxy before an etcd door that tells lies, over its JSON gateway: each is a mistake that a server could make."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from typing import Any

from tests.jepsen.lying_door import Lie, LyingDoor

STALE_EVERY = 3
LINE_BYTES_MAX = 1 << 24
CHUNKED = b"Host: a\r\nTransfer-Encoding: chunked\r\n\r\n"

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

Fields = dict[str, Any]


class EtcdLie(Lie):
    """None: the proxy is honest. One object for one connection; what lies remember longer stands in the class."""

    def ask(self, path: str, fields: Fields) -> Fields:
        """Return the request for the door."""
        return fields

    def answer(self, path: str, fields: Fields, answer: Fields) -> Fields:
        """Return the answer for the client. fields: of its request."""
        return answer

    def told(self, answer: bytes) -> list[bytes]:
        """Return the line for the client instead of a watch's answer."""
        return [answer]


class Stale(EtcdLie):
    """A range is answered with what the first one of this key found, every third time."""

    def __init__(self) -> None:
        self._first: dict[str, Fields] = {}
        self._ranges = 0

    def answer(self, path: str, fields: Fields, answer: Fields) -> Fields:
        if path != "kv/range":
            return answer
        self._ranges += 1
        first = self._first.setdefault(fields["key"], answer)
        return first if self._ranges % STALE_EVERY == 0 else answer


class Unchecked(EtcdLie):
    """Compares of values count for nothing."""

    def ask(self, path: str, fields: Fields) -> Fields:
        compares = [one for one in fields.get("compare", ()) if one["target"] != "VALUE"]
        return {**fields, "compare": compares} if "compare" in fields else fields


class Half(EtcdLie):
    """Of several writes of a Txn the last is left out, and a range stands in its place."""

    def ask(self, path: str, fields: Fields) -> Fields:
        steps = list(fields.get("success", ()))
        writes = [at for at, step in enumerate(steps) if "request_put" in step]
        if len(writes) < 2:
            return fields
        steps[writes[-1]] = {"request_range": {"key": steps[writes[-1]]["request_put"]["key"]}}
        return {**fields, "success": steps}


class Fenceless(EtcdLie):
    """Compares of create revisions always hold, but those that ask whether a key is free."""

    def ask(self, path: str, fields: Fields) -> Fields:
        if "compare" not in fields:
            return fields
        kept = [one for one in fields["compare"] if one["target"] != "CREATE" or one["create_revision"] == "0"]
        return {**fields, "compare": kept}


class Kept(EtcdLie):
    """A key outlives its lease."""

    def ask(self, path: str, fields: Fields) -> Fields:
        steps = [
            {"request_put": {name: value for name, value in step["request_put"].items() if name != "lease"}}
            if "request_put" in step
            else step
            for step in fields.get("success", ())
        ]
        return {**fields, "success": steps} if steps else fields


class Silent(EtcdLie):
    """Every third answer of a watch is not told, and to each watch another one."""

    _places = itertools.count()

    def __init__(self) -> None:
        self._told = next(self._places)

    def told(self, answer: bytes) -> list[bytes]:
        self._told += b"events" in answer
        return [] if b"events" in answer and self._told % STALE_EVERY == 0 else [answer]


class Twice(EtcdLie):
    """Events are told twice."""

    def told(self, answer: bytes) -> list[bytes]:
        return [answer] * (2 if b"events" in answer else 1)


class LyingEtcd(LyingDoor):
    """For one request after the other, on each connection. A watch has its connection alone."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        door_reader, door_writer = await asyncio.open_connection("127.0.0.1", self._port, limit=LINE_BYTES_MAX)
        lie = self._lie()
        assert isinstance(lie, EtcdLie)
        try:
            with contextlib.suppress(OSError, EOFError):
                while True:
                    line, head, body = await _received(reader)
                    if "/v3/watch " in line:
                        await _watched(line, lie, (reader, writer), (door_reader, door_writer))
                        return
                    path, fields = line.split()[1].removeprefix("/v3/"), json.loads(body)
                    _send(door_writer, line, head, json.dumps(lie.ask(path, fields)).encode())
                    line, head, body = await _received(door_reader)
                    if "chunked" not in head.get("transfer-encoding", ""):
                        body = json.dumps(lie.answer(path, fields, json.loads(body))).encode()
                    _send(writer, line, head, body)
        finally:
            for end in (writer, door_writer):
                end.close()


async def _received(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """The first line of a request or answer, its fields and its body; one that comes in chunks as it came."""
    line, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
    head = {name.strip().lower(): value.strip() for name, _, value in (one.partition(":") for one in lines)}
    if "chunked" in head.get("transfer-encoding", ""):
        if line.startswith("POST"):
            return line, head, b""
        return line, head, await reader.readuntil(b"0\r\n\r\n")
    return line, head, await reader.readexactly(int(head["content-length"]))


async def _watched(line: str, lie: EtcdLie, client: Ends, door: Ends) -> None:
    """Until one of both ends."""
    door[1].write(f"{line}\r\n".encode() + CHUNKED)
    tasks = [asyncio.ensure_future(way) for way in (_pass_on(client[0], door[1]), _tell(lie, door[0], client[1]))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(1 << 16):
        writer.write(piece)


async def _tell(lie: EtcdLie, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The head, then lines: each is a chunk of the door, and one of ours."""
    writer.write(await reader.readuntil(b"\r\n\r\n"))
    while length := int(await reader.readuntil(b"\r\n"), 16):
        answer = await reader.readexactly(length)
        await reader.readexactly(2)
        for one in lie.told(answer):
            writer.write(f"{len(one):x}\r\n".encode() + one + b"\r\n")


def _send(writer: asyncio.StreamWriter, line: str, head: dict[str, str], body: bytes) -> None:
    if "content-length" in head:
        head = {**head, "content-length": str(len(body))}
    fields = "".join(f"{name}: {value}\r\n" for name, value in head.items())
    writer.write(f"{line}\r\n{fields}\r\n".encode() + body)
