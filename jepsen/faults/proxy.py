"""A proxy that knows frames: it stands before the nodes and harms what one of them says to another, a frame at a time.

    python -m jepsen.faults.proxy '{"targets": {"b": ["127.0.0.1:7101", "127.0.0.1:7001"]}, "seed": 1}'

listens at the first address of each target and connects to the second; peers are told the first one. Who speaks on a
connection stands in its HELLO (docs/formats.md "HELLO"), so one address for each target is enough. On standard
input it takes one line of JSON for each order, and answers each by its counters: Proxy, below, is that from outside.

With TLS no frame can be seen. A record of TLS takes its place, and the address that a connection comes from says who
speaks ("sources" in the settings). Where all come from one address, a fault strikes whoever speaks with its target. A
record that is lost, repeated, overtaken or damaged costs the connection, since the receiver notices each of these.

A fault acts on a direction (source, target): on what an opener of connections says, and on the other side's HELLO.
What is harmed is always a whole frame; what befalls packets, TCP mends. A damaged frame goes on as it is: to refuse it
is the node's part. HELLOs are damaged, cut and delayed like any frame, but not dropped, repeated or overtaken, since
there is no connection without them. The first records of each side are spared in the same way.

It never parses a body but that of a HELLO, and never closes a connection of its own accord but to truncate.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import struct
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

HEADER = struct.Struct("<IIBBHIII")  # magic, checksum, version, type, flags, group, bytes of body, bytes of records
HEADER_BYTES = 96
MAGIC = int.from_bytes(b"RFTM", "little")
TYPE_AT, FRAME_HELLO = 9, 1
HELLO_NAME = 9  # its place in the array
TLS_HEADER = struct.Struct(">BHH")  # RFC 8446 5.1: type, version, bytes of the record behind it
TLS_HANDSHAKE = 22  # the type of the first record of each side
TLS_OPENING = 8  # records in which a side says its part of the handshake
READ_BYTES = 256 * 1024
BIN8 = 0xC4
MSGPACK_NUMBER_BYTES = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}
QUEUE_FRAMES = 10_000
END_S = 5.0
ROOT = Path(__file__).resolve().parents[2]

Direction = tuple[str, str]  # (source, target), names of nodes
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True, kw_only=True)
class FrameFault:
    """What happens to frames of one direction. drop ... truncate: probabilities of each frame, from 0 to 1.

    delay_s: every frame is so much later, and up to jitter_s more; order is kept. reorder: the frame is held back
    until the next one has passed. corrupt: one bit is flipped. truncate: its end is missing, and the connection closes.
    """

    drop: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    truncate: float = 0.0
    delay_s: float = 0.0
    jitter_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("drop", "duplicate", "reorder", "corrupt", "truncate"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name}: must be a probability from 0 to 1, not {getattr(self, name)!r}")
        for name in ("delay_s", "jitter_s"):
            if getattr(self, name) < 0.0:
                raise ValueError(f"{name}: must be 0 s or more, not {getattr(self, name)!r}")

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.3g}" for name, value in asdict(self).items() if value)


NO_FAULT = FrameFault()


# --- in the proxy's process -------------------------------------------------------------------------------------------


def frame_length(header: bytes) -> int | None:
    """Bytes of the whole frame that begins with this header; None: it is no frame of ours."""
    magic, _, _, _, _, _, body, records = HEADER.unpack_from(header)
    return HEADER_BYTES + body + records if magic == MAGIC else None


def name_of_hello(body: bytes) -> str:
    """The sender's name in the body of a HELLO; "" when it cannot be read: then nobody's faults strike."""
    at = 1  # behind the head of the array
    try:
        for _ in range(HELLO_NAME):
            at += 1 + MSGPACK_NUMBER_BYTES.get(body[at], 0)
        head, length = body[at], body[at + 1]
        return body[at + 2 : at + 2 + length].decode() if head == BIN8 else ""
    except (IndexError, UnicodeDecodeError):
        return ""


@dataclass(slots=True)
class Faults:
    """The faults in force, their counts, and the source of chance. sources: the name behind each address."""

    random: random.Random
    sources: dict[str, str] = field(default_factory=dict)
    of: dict[Direction, FrameFault] = field(default_factory=dict)
    counters: Counter[str] = field(default_factory=Counter)


class Connection:
    """Two pipes: opener says frames to the target, whose only word is its HELLO. opener: unknown until its own.

    host: where it comes from. is_tls: it speaks TLS.
    """

    def __init__(self, faults: Faults, target: str, host: str) -> None:
        self.faults = faults
        self.target = target
        self.host = host
        self.opener = ""
        self.is_tls = False

    def begin_tls(self) -> None:
        """No HELLO will be seen: its address says who the opener is, if it says anything."""
        self.is_tls, self.opener = True, self.faults.sources.get(self.host, "")

    def fault(self, *, is_answer: bool) -> FrameFault:
        """Of what the opener says, or of what it is answered."""
        if self.is_tls and not self.opener:
            place = 0 if is_answer else 1
            of_target = (fault for names, fault in self.faults.of.items() if names[place] == self.target)
            return next(of_target, NO_FAULT)
        names = (self.opener, self.target)
        return self.faults.of.get(names[::-1] if is_answer else names, NO_FAULT)

    async def run(self, opened: Stream, behind: Stream) -> None:
        """Until one side ends, or a frame was truncated."""
        halves = [
            asyncio.create_task(Pipe(self, opened, behind, is_answer=False).run()),
            asyncio.create_task(Pipe(self, behind, opened, is_answer=True).run()),
        ]
        try:
            await asyncio.wait(halves, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for half in halves:
                half.cancel()
            for ended in await asyncio.gather(*halves, return_exceptions=True):
                if isinstance(ended, Exception) and not isinstance(ended, OSError):
                    raise ended


class Pipe:
    """One half of a connection, frame by frame, in order of arrival."""

    def __init__(self, connection: Connection, source: Stream, target: Stream, *, is_answer: bool) -> None:
        self._connection = connection
        self._faults = connection.faults
        self._reader, self._writer = source[0], target[1]
        self._is_answer = is_answer
        self._records = 0  # of TLS, so far
        self._held = b""  # overtaken by the next frame
        self._queue: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue(QUEUE_FRAMES)

    async def run(self) -> None:
        sender = asyncio.create_task(self._send())
        try:
            await self._receive()
            await self._queue.put(None)
            await sender
        finally:
            sender.cancel()

    async def _receive(self) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            head = await self._reader.readexactly(TLS_HEADER.size)
            if head[0] == TLS_HANDSHAKE and not self._connection.is_tls:
                self._connection.begin_tls()
            while (unit := await self._read(head)) is not None and await self._judge(unit):
                head = await self._reader.readexactly(TLS_HEADER.size)

    async def _read(self, head: bytes) -> bytes | None:
        """The frame, or the record of TLS, that begins so; None: it was none, and all that comes is passed on."""
        if self._connection.is_tls:
            self._records += 1
            return head + await self._reader.readexactly(TLS_HEADER.unpack(head)[2])
        header = head + await self._reader.readexactly(HEADER_BYTES - len(head))
        length = frame_length(header)
        if length is None:
            await self._pass_on(header)
            return None
        return header + await self._reader.readexactly(length - HEADER_BYTES)

    async def _pass_on(self, header: bytes) -> None:
        """Something that is no frame: the node will judge it."""
        await self._queue.put((0.0, header))
        while data := await self._reader.read(READ_BYTES):
            await self._queue.put((0.0, data))

    def _is_hello(self, frame: bytes) -> bool:
        """Whether there is no connection without it."""
        if self._connection.is_tls:
            return self._records <= TLS_OPENING
        is_hello = frame[TYPE_AT] == FRAME_HELLO
        if is_hello and not self._is_answer:
            self._connection.opener = name_of_hello(frame[HEADER_BYTES:])
        return is_hello

    async def _judge(self, frame: bytes) -> bool:
        """Let the frame pass, or not, or twice, or otherwise; false: the connection ends here."""
        is_hello = self._is_hello(frame)
        fault = self._connection.fault(is_answer=self._is_answer)
        self._faults.counters["seen"] += 1
        if not is_hello and self._happens("drop", fault.drop):
            return True
        if self._happens("truncate", fault.truncate):
            await self._put(fault, frame[: self._faults.random.randrange(1, len(frame))])
            return False
        if self._happens("corrupt", fault.corrupt):
            frame = self._flipped(frame)
        if not is_hello and not self._held and self._happens("reorder", fault.reorder):
            self._held = frame
            return True
        await self._put(fault, frame)
        if not is_hello and self._happens("duplicate", fault.duplicate):
            await self._put(fault, frame)
        if self._held:
            held, self._held = self._held, b""
            await self._put(fault, held)
        return True

    def _happens(self, what: str, probability: float) -> bool:
        if probability == 0.0 or self._faults.random.random() >= probability:
            return False
        self._faults.counters[what] += 1
        return True

    def _flipped(self, frame: bytes) -> bytes:
        place, bit = self._faults.random.randrange(len(frame)), self._faults.random.randrange(8)
        return frame[:place] + bytes([frame[place] ^ 1 << bit]) + frame[place + 1 :]

    async def _put(self, fault: FrameFault, frame: bytes) -> None:
        at = 0.0
        if fault.delay_s or fault.jitter_s:
            self._faults.counters["delay"] += 1
            at = asyncio.get_running_loop().time() + fault.delay_s + fault.jitter_s * self._faults.random.random()
        await self._queue.put((at, frame))

    async def _send(self) -> None:
        """Frames at their time; one that is late delays those behind it, as TCP would."""
        loop = asyncio.get_running_loop()
        while (item := await self._queue.get()) is not None:
            at, frame = item
            if at > loop.time():
                await asyncio.sleep(at - loop.time())
            self._writer.write(frame)
            await self._writer.drain()


async def listen(faults: Faults, target: str, address: str, behind: str) -> None:
    """Stand before one target from now on."""

    async def opened(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there: asyncio.StreamWriter | None = None
        try:
            answers, there = await asyncio.open_connection(*_parse(behind), limit=READ_BYTES)
            host = writer.get_extra_info("peername")[0]
            await Connection(faults, target, host).run((reader, writer), (answers, there))
        except OSError:
            faults.counters["refused"] += 1  # the target does not run
        finally:
            for one in (writer, there):
                if one is not None:
                    one.close()

    await asyncio.start_server(opened, *_parse(address), limit=READ_BYTES)


async def obey(faults: Faults) -> None:
    """Orders from standard input until it ends: {"faults": [[source, target, {...}], ...]} replaces those in force."""
    orders = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    while line := await orders.readline():
        order = json.loads(line)
        if "faults" in order:
            faults.of = {(source, target): FrameFault(**fault) for source, target, fault in order["faults"]}
        _say(dict(faults.counters))


def _say(answer: dict[str, int]) -> None:
    print(json.dumps(answer), flush=True)


def _parse(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


async def main(settings: dict[str, Any]) -> None:
    faults = Faults(random.Random(settings["seed"]), sources=settings.get("sources", {}))
    for target, (address, behind) in settings["targets"].items():
        await listen(faults, target, address, behind)
    _say({})
    await obey(faults)


# --- from outside -----------------------------------------------------------------------------------------------------


class ProxyGone(Exception):
    """The proxy's process has ended; the message has what it said last."""


class Proxy:
    """A proxy process: a context, gone at its end.

    targets: of each name, where the proxy listens and where the node does. launcher: what starts the process elsewhere,
    in the network namespace of its one target, say. seed: of the dice. sources: which name comes from which host, for
    connections with TLS. Any thread may call it.
    """

    def __init__(
        self,
        targets: Mapping[str, tuple[str, str]],
        *,
        seed: int = 0,
        launcher: Sequence[str] = (),
        sources: Mapping[str, str] | None = None,
    ) -> None:
        settings = json.dumps({"targets": dict(targets), "seed": seed, "sources": dict(sources or {})})
        self._command = [*launcher, sys.executable, "-m", "jepsen.faults.proxy", settings]
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()  # all of its addresses are open
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None and self._process.stdin is not None, "entered"
        with self._process, contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
            try:
                self._process.wait(END_S)
            except subprocess.TimeoutExpired:
                self._process.kill()

    def set(self, faults: Mapping[Direction, FrameFault]) -> None:
        """These faults are in force from now on, and no others. Raises ProxyGone."""
        self._order({"faults": [[*direction, asdict(fault)] for direction, fault in faults.items()]})

    def counters(self) -> Counter[str]:
        """Frames seen, and those that met each fault, since the beginning. Raises ProxyGone."""
        return Counter(self._order({}))

    def _order(self, order: dict[str, Any]) -> dict[str, int]:
        assert self._process is not None and self._process.stdin is not None, "entered"
        with self._lock:
            try:
                self._process.stdin.write(json.dumps(order) + "\n")
                self._process.stdin.flush()
            except BrokenPipeError as error:
                raise ProxyGone(f"the proxy ended with {self._process.poll()}") from error
            return self._answer()

    def _answer(self) -> dict[str, int]:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise ProxyGone(f"the proxy ended with {self._process.wait(END_S)}")
        answer: dict[str, int] = json.loads(line)
        return answer


if __name__ == "__main__":
    asyncio.run(main(json.loads(sys.argv[1])))
