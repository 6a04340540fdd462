"""Clients of Kafka's protocol that cost little: frames are encoded once, and only their correlation id changes.

The same program loads a real Kafka and the door of raftmeta. A connection has several requests under way where a
function says so; else it waits for each answer.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

from tests.kafka.codec import Reader, decode, encode, header_of_answer
from tests.kafka.schema import messages

KEYS = {message.name: key for key, message in messages().items()}
CLIENT = b"load"
REBALANCE, MEMBER_ID_REQUIRED = 27, 79
# Codes after which a client asks again: the coordinator loads, is unknown, or is another one; a write took too long.
AGAIN = frozenset({7, 14, 15, 16})
PAUSE_S = 0.02
FIRST_GROUPS = 24
REBALANCE_MS = 60_000
NULL_TEXT = b"\xff\xff"
ONE = (1).to_bytes(4)  # elements of an array
PROTOCOL = "range"
# Words and share of a consumer without topics: version, topics, data of its own. Kafka reads them.
WORDS = struct.pack(">hii", 0, 0, 64) + bytes(64)


def frame(name: str, version: int, **values: Any) -> bytearray:
    """A request without a correlation id: bytes 8 to 11 are for it."""
    message = messages()[KEYS[name]]
    head = struct.pack(">hhih", KEYS[name], version, 0, len(CLIENT)) + CLIENT
    if message.is_flexible(version):
        head += b"\0"
    body = head + encode(message, version, values, is_request=True)
    return bytearray(struct.pack(">i", len(body)) + body)


def text(word: str) -> bytes:
    return len(word).to_bytes(2) + word.encode()


def blob(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


def bare(name: str, version: int, *fields: bytes) -> bytearray:
    """A request of a version that is not flexible, of fields that are encoded already."""
    body = struct.pack(">hhih", KEYS[name], version, 0, len(CLIENT)) + CLIENT + b"".join(fields)
    return bytearray(blob(body))


class Fields:
    """The fields of an answer behind its correlation id and its throttle time."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 8

    def number(self, width: int) -> int:
        self.at += width
        return int.from_bytes(self.data[self.at - width : self.at], signed=True)

    def window(self, width: int) -> bytes:
        """Bytes with their length before them; none where they are null."""
        length = max(self.number(width), 0)
        self.at += length
        return self.data[self.at - length : self.at]


class Connection(asyncio.Protocol):
    """One connection. `answered` gets each answer, without its length, in order of the requests."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.answered: Callable[[bytes], None] = lambda _: None
        self.lost = asyncio.get_running_loop().create_future()
        self._received = bytearray()
        self._number = 0

    @classmethod
    async def open(cls, address: str) -> Self:
        host, _, port = address.rpartition(":")
        _, made = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        await made.ask("ApiVersions", 0)  # as every client does
        return made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def connection_lost(self, _error: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)

    def data_received(self, data: bytes) -> None:
        self._received += data
        at, end = 0, len(self._received)
        while end - at >= 4:
            length = int.from_bytes(self._received[at : at + 4])
            if end - at < 4 + length:
                break
            self.answered(bytes(self._received[at + 4 : at + 4 + length]))
            at += 4 + length
        del self._received[:at]

    def send(self, made: bytearray) -> None:
        assert self.transport is not None
        self._number += 1
        made[8:12] = self._number.to_bytes(4)
        self.transport.write(bytes(made))

    async def take(self, made: bytearray) -> bytes:
        """The answer to a request, without its length. Raises ConnectionError."""
        answer = asyncio.get_running_loop().create_future()
        self.answered = lambda data: answer.done() or answer.set_result(data)
        self.send(made)
        await asyncio.wait((answer, self.lost), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            raise ConnectionError("the server closed the connection")
        return bytes(answer.result())

    async def ask(self, name: str, version: int, **values: Any) -> dict[str, Any]:
        """The fields of the answer. Raises ConnectionError."""
        message = messages()[KEYS[name]]
        reader = Reader(await self.take(frame(name, version, **values)))
        header_of_answer(message, version, reader)
        return decode(message, version, reader.data[reader.at :], is_request=False)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()


class Member:
    """A member of a group over one connection, as a client of Kafka behaves. Its leader gives each member a share."""

    def __init__(self, address: str, group: str, *, session_ms: int = 45_000) -> None:
        self.address, self.group, self.session_ms = address, group, session_ms
        self.id, self.generation = "", -1
        self.connection: Connection | None = None

    async def open(self) -> None:
        self.connection = await Connection.open(self.address)

    async def _take(self, made: bytearray) -> tuple[int, Fields]:
        """The error of an answer, and the fields behind it. It is asked again where a client would."""
        assert self.connection is not None
        while True:
            fields = Fields(await self.connection.take(made))
            if (code := fields.number(2)) not in AGAIN:
                return code, fields
            await asyncio.sleep(PAUSE_S)

    async def join(self) -> None:
        """Join, and sync; again as long as the group goes on to another generation meanwhile."""
        group = text(self.group)
        while True:
            words = struct.pack(">ii", self.session_ms, REBALANCE_MS), text(self.id), NULL_TEXT, text("consumer"), ONE
            code, fields = await self._take(bare("JoinGroup", 5, group, *words, text(PROTOCOL), blob(WORDS)))
            generation = fields.number(4)
            fields.window(2)
            leader, me = fields.window(2), fields.window(2)
            if code not in (0, MEMBER_ID_REQUIRED):
                raise RuntimeError(f"JoinGroup was answered with {code}")
            self.id, self.generation = me.decode(), generation
            if code:
                continue
            shares = []
            for _ in range(fields.number(4)):
                shares.append(text(fields.window(2).decode()) + blob(WORDS))
                fields.window(2)
                fields.window(4)
            if leader != me:
                shares = []
            mine = struct.pack(">i", generation), text(self.id), NULL_TEXT, len(shares).to_bytes(4)
            code, _ = await self._take(bare("SyncGroup", 3, group, *mine, *shares))
            if code == 0:
                return
            if code != REBALANCE:
                raise RuntimeError(f"SyncGroup was answered with {code}")

    async def beat(self) -> int:
        words = struct.pack(">i", self.generation), text(self.id), NULL_TEXT
        code, _ = await self._take(bare("Heartbeat", 3, text(self.group), *words))
        return code

    def frame(self, name: str, version: int, **values: Any) -> bytearray:
        return frame(
            name,
            version,
            group_id=self.group,
            generation_id=self.generation,
            generation_id_or_member_epoch=self.generation,
            member_id=self.id,
            group_instance_id=None,
            **values,
        )

    def close(self) -> None:
        if self.connection is not None:
            self.connection.close()


async def seconds_to_stable(address: str, group: str, count: int, *, beat_s: float = 0.1) -> float:
    """Seconds from the first join until all members have their share in one generation. They beat once in beat_s."""
    members = [Member(address, group) for _ in range(count)]
    for member in members:
        await member.open()
    stable: dict[int, int] = {}  # members that synced, by generation
    has_ended = asyncio.Event()

    async def live(member: Member) -> None:
        while not has_ended.is_set():
            await member.join()
            generation = member.generation
            stable[generation] = stable.get(generation, 0) + 1
            if stable[generation] == count:
                has_ended.set()
            while not has_ended.is_set() and await member.beat() == 0:
                await asyncio.sleep(beat_s)

    begun_s = time.monotonic()
    tasks = [asyncio.create_task(live(member)) for member in members]
    ended = asyncio.create_task(has_ended.wait())
    done, _ = await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
    took_s = time.monotonic() - begun_s
    for task in (*tasks, ended):
        task.cancel()
    await asyncio.gather(*tasks, ended, return_exceptions=True)
    for member in members:
        member.close()
    for task in done - {ended}:
        task.result()
    return took_s


async def first_groups(addresses: Sequence[str]) -> None:
    """Return when groups can be joined: a Kafka makes the log of its groups when it is first asked for one."""
    for number in range(FIRST_GROUPS):
        group = f"first-{number}"
        member = Member(await coordinator_of(addresses, group), group)
        await member.open()
        await member.join()
        member.close()


async def join_many(address: str, groups: Sequence[str], *, connections: int) -> list[list[Member]]:
    """One member for each group, by connection."""
    shared = [await Connection.open(address) for _ in range(connections)]
    found: list[list[Member]] = [[] for _ in shared]

    async def on(place: int) -> None:
        for group in groups[place::connections]:
            member = Member(address, group)
            member.connection = shared[place]
            await member.join()
            found[place].append(member)

    await asyncio.gather(*(on(place) for place in range(connections)))
    return found


async def beat_for(members: list[list[Member]], *, every_s: float, seconds: float) -> tuple[int, int]:
    """Each member beats once in every_s: heartbeats that were answered well, and others."""
    good = bad = 0

    def answered(data: bytes) -> None:
        nonlocal good, bad
        # After the correlation id: throttle time, error.
        if data[8:10] == b"\0\0":
            good += 1
        else:
            bad += 1

    async def on(mine: list[Member]) -> None:
        connection = mine[0].connection
        assert connection is not None
        connection.answered = answered
        frames = [member.frame("Heartbeat", 3) for member in mine]
        begun_s = time.monotonic()
        number = 0
        while (now_s := time.monotonic() - begun_s) < seconds:
            due = int(now_s / every_s * len(frames))
            while number < due:
                connection.send(frames[number % len(frames)])
                number += 1
            await asyncio.sleep(every_s / len(frames))

    await asyncio.gather(*(on(mine) for mine in members if mine))
    return good, bad


async def commit_for(members: list[list[Member]], topic: str, *, outstanding: int, seconds: float) -> tuple[int, float]:
    """OffsetCommit in a closed loop, so many under way over all connections: how many were answered, in which time."""
    count = 0
    failed: list[int] = []
    ends_s = time.monotonic() + seconds
    begun_s = time.monotonic()
    idle = asyncio.Event()
    under_way = 0

    def begin(mine: list[Member], share: int) -> None:
        nonlocal under_way
        connection = mine[0].connection
        assert connection is not None
        part = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
        frames = [
            member.frame("OffsetCommit", 7, topics=[{"name": topic, "partitions": [part]}], retention_time_ms=-1)
            for member in mine
        ]
        number = 0

        def again() -> None:
            nonlocal number
            connection.send(frames[number % len(frames)])
            number += 1

        def answered(data: bytes) -> None:
            nonlocal count, under_way
            count += 1
            if data[-2:] != b"\0\0":  # the error of the only partition is the last field
                failed.append(int.from_bytes(data[-2:], signed=True))
            if time.monotonic() < ends_s:
                again()
            else:
                under_way -= 1
                if under_way == 0:
                    idle.set()

        connection.answered = answered
        for _ in range(share):
            under_way += 1
            again()

    used = [mine for mine in members if mine]
    for mine in used:
        begin(mine, max(outstanding // len(used), 1))
    await idle.wait()
    if failed:
        raise RuntimeError(f"OffsetCommit was answered with {sorted(set(failed))}")
    return count, time.monotonic() - begun_s


async def coordinator_of(addresses: Sequence[str], group: str) -> str:
    """The address of the group's coordinator, as the first server that answers says."""
    while True:
        for address in addresses:
            try:
                connection = await Connection.open(address)
            except OSError:
                continue
            try:
                answer = await connection.ask("FindCoordinator", 2, key=group, key_type=0)
            except ConnectionError:
                continue
            finally:
                connection.close()
            if answer["error_code"] == 0:
                return f"{answer['host']}:{answer['port']}"
        await asyncio.sleep(PAUSE_S)


async def beat_again(addresses: Sequence[str], member: Member) -> tuple[float, bool]:
    """time.monotonic() when the coordinator of now accepted a heartbeat, and whether the group was rebalanced."""
    while True:
        member.close()
        member.address = await coordinator_of(addresses, member.group)
        try:
            await member.open()
            answer = await member.connection.ask(  # type: ignore[union-attr]
                "Heartbeat",
                3,
                group_id=member.group,
                group_instance_id=None,
                generation_id=member.generation,
                member_id=member.id,
            )
        except OSError:
            await asyncio.sleep(PAUSE_S)
            continue
        if answer["error_code"] not in AGAIN:
            return time.monotonic(), answer["error_code"] != 0
        await asyncio.sleep(PAUSE_S)
