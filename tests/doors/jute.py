"""ZooKeeper's client protocol as text: each frame is one line, in which ids, zxids and times are masked.

Two servers that behave alike give the same lines for the same program. A mask keeps what a client may rely on: whether
zxids of a Stat are equal or ordered, whose an ephemeral is, and that the zxids of replies never fall.

Formats: ZooKeeper's zookeeper.jute; numbers are big-endian, a buffer of length -1 is null.
"""

from __future__ import annotations

import re
import struct
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

# Opcode: name, fields of the request, fields of the reply.
REQUESTS: dict[int, tuple[str, str, str]] = {
    1: ("create", "path data acl flags", "path"),
    2: ("delete", "path version", ""),
    3: ("exists", "path watch", "stat"),
    4: ("getData", "path watch", "data stat"),
    5: ("setData", "path data version", "stat"),
    6: ("getACL", "path", "acl stat"),
    7: ("setACL", "path acl version", "stat"),
    8: ("getChildren", "path watch", "names"),
    9: ("sync", "path", "path"),
    11: ("ping", "", ""),
    12: ("getChildren2", "path watch", "names stat"),
    13: ("check", "path version", ""),
    14: ("multi", "operations", "results"),
    15: ("create2", "path data acl flags", "path stat"),
    16: ("reconfig", "text text text long", "data stat"),
    17: ("checkWatches", "path watcher", ""),
    18: ("removeWatches", "path watcher", ""),
    19: ("createContainer", "path data acl flags", "path stat"),
    21: ("createTTL", "path data acl flags ttl", "path stat"),
    22: ("multiRead", "operations", "results"),
    100: ("auth", "type scheme data", ""),
    101: ("setWatches", "zxid names names names", ""),
    102: ("sasl", "data", "data"),
    103: ("getEphemerals", "path", "names"),
    104: ("getAllChildrenNumber", "path", "number"),
    105: ("setWatches2", "zxid names names names names names", ""),
    106: ("addWatch", "path mode", "number"),
    107: ("whoAmI", "", "identities"),
    -11: ("closeSession", "", ""),
}
NUMBERS = {name: number for number, (name, _, _) in REQUESTS.items()}
EVENTS = {
    -1: "none",
    1: "created",
    2: "deleted",
    3: "dataChanged",
    4: "childrenChanged",
    5: "dataWatchRemoved",
    6: "childWatchRemoved",
    7: "persistentWatchRemoved",
}
STATES = {0: "disconnected", 3: "connected", 4: "authFailed", 5: "connectedReadOnly", 6: "saslAuthenticated"}
XID_EVENT, XID_PING, XID_AUTH, XID_SET_WATCHES = -1, -2, -4, -8
ERROR = -1  # the type of a result of a multi that failed
CONTAINER_OWNER, TTL_MARK, TTL_MAX_MS = -(1 << 63), 0xFF << 56, (1 << 40) - 1
DATA_SHOWN_BYTES = 60
UUID = re.compile(r"[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


class Reader:
    """The fields of one frame, in order. Raises struct.error where the frame is too short."""

    def __init__(self, frame: bytes) -> None:
        self.frame = frame
        self.at = 0

    def _take(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.frame, self.at)
        self.at += struct.calcsize(form)
        return value

    def integer(self) -> int:
        return int(self._take(">i"))

    def long(self) -> int:
        return int(self._take(">q"))

    def flag(self) -> bool:
        return bool(self._take(">?"))

    def buffer(self) -> bytes | None:
        length = self.integer()
        if length < 0:
            return None
        if self.at + length > len(self.frame):
            raise struct.error(f"a buffer of {length} bytes in {len(self.frame)}")
        self.at += length
        return self.frame[self.at - length : self.at]

    def text(self) -> str:
        return (self.buffer() or b"").decode(errors="backslashreplace")

    def items(self, one: Callable[[], str]) -> list[str]:
        return [one() for _ in range(self.integer())]

    def is_at_end(self) -> bool:
        return self.at == len(self.frame)


def masked(text: str) -> str:
    """Without what is made anew in each run: identifiers of recipes. Each character can be printed."""
    return UUID.sub("<uuid>", "".join(one if one.isprintable() else repr(one)[1:-1] for one in text))


def shown_data(data: bytes | None) -> str:
    if data is None:
        return "null"
    text = data.decode(errors="backslashreplace")
    return masked(repr(text if len(text) <= DATA_SHOWN_BYTES else f"{text[:DATA_SHOWN_BYTES]}... {len(data)} bytes"))


def no_zxid(zxid: int) -> str:
    """How a header is told that names no change: 0 or -1 stands there."""
    return "" if zxid > 0 else f" zxid={zxid}"


def order(left: int, right: int) -> str:
    return "<" if left < right else ">" if left > right else "="


@dataclass(slots=True)
class Conversation:
    """One connection: the lines of its frames, in the order in which the server sent its own.

    A request stands before its reply, however many were sent before the first reply: so the lines do not depend on how
    the two directions meet in a tap. unanswered: requests without a reply yet.

    session: of the last connect reply. order_faults: replies whose zxid fell or whose xid was not the next one.
    """

    lines: list[str] = field(default_factory=list)
    order_faults: list[str] = field(default_factory=list)
    is_readable: bool = True
    _session: int = 0
    _zxid: int = 0
    _waiting: deque[tuple[int, int, str]] = field(default_factory=deque)
    _is_connected: list[bool] = field(default_factory=lambda: [False, False])
    _rest: list[bytes] = field(default_factory=lambda: [b"", b""])

    def feed(self, data: bytes, *, is_request: bool) -> None:
        """Take bytes of one direction. What cannot be read makes a line and ends the reading."""
        if not self.is_readable:
            return
        buffer = self._rest[is_request] + data
        if is_request and not self._is_connected[True] and buffer[:4].isalpha():
            self.lines.append(f"> four letters {buffer[:4].decode()}")
            self.is_readable = False
            return
        while len(buffer) >= 4:
            (length,) = struct.unpack_from(">i", buffer)
            if len(buffer) < 4 + length:
                break
            frame, buffer = buffer[4 : 4 + length], buffer[4 + length :]
            try:
                (self._request if is_request else self._reply)(Reader(frame))
            except (struct.error, ValueError) as error:
                self.lines.append(f"{'>' if is_request else '<'} unreadable: {error}")
                self.is_readable = False
                return
        self._rest[is_request] = buffer

    @property
    def unanswered(self) -> list[str]:
        return [request for _, _, request in self._waiting]

    # --- requests -----------------------------------------------------------------------------------------------------

    def _request(self, reader: Reader) -> None:
        if not self._is_connected[True]:
            self._is_connected[True] = True
            version, _, timeout_ms, session = reader.integer(), reader.long(), reader.integer(), reader.long()
            reader.buffer()
            form = "" if reader.is_at_end() else f" read-only={reader.flag()}"
            whose = "resume" if session else "new"
            self.lines.append(f"> connect version={version} timeout={timeout_ms} {whose}{form}")
            return
        xid, kind = reader.integer(), reader.integer()
        name, fields, _ = REQUESTS.get(kind, (f"opcode {kind}", "", ""))
        if xid == XID_PING:
            return
        try:
            shown = self._shown(reader, fields)
        except struct.error:
            shown = [f"cut after {len(reader.frame)} bytes"]
        self._waiting.append((xid, kind, " ".join([f"> {name}", *shown])))

    def _shown(self, reader: Reader, fields: str) -> list[str]:
        return [_FIELDS[name](self, reader) for name in fields.split()]

    def _operations(self, reader: Reader) -> str:
        shown: list[str] = []
        while True:
            kind, is_end, _ = reader.integer(), reader.flag(), reader.integer()
            if is_end:
                return "; ".join(shown)
            name, fields, _ = REQUESTS[kind]
            shown.append(" ".join([name, *self._shown(reader, fields)]))

    # --- replies ------------------------------------------------------------------------------------------------------

    def _reply(self, reader: Reader) -> None:
        if not self._is_connected[False]:
            self._is_connected[False] = True
            version, timeout_ms, self._session = reader.integer(), reader.integer(), reader.long()
            reader.buffer()
            form = "" if reader.is_at_end() else f" read-only={reader.flag()}"
            session = "a session" if self._session else "no session"
            self.lines.append(f"< connected version={version} timeout={timeout_ms} {session}{form}")
            return
        xid, zxid, error = reader.integer(), reader.long(), reader.integer()
        if xid == XID_EVENT:
            kind, state, path = reader.integer(), reader.integer(), masked(reader.text())
            self.lines.append(f"! {EVENTS.get(kind, kind)} {STATES.get(state, state)} {path}{no_zxid(zxid)}")
            return
        if xid == XID_PING:
            return
        if zxid > 0:
            if zxid < self._zxid:
                self.order_faults.append(f"zxid {zxid:#x} after {self._zxid:#x}")
            self._zxid = max(zxid, self._zxid)
        expected, kind, request = self._waiting.popleft() if self._waiting else (None, 0, "> nothing")
        if expected != xid:
            self.order_faults.append(f"xid {xid} where {expected} was due")
        name, _, fields = REQUESTS.get(kind, (f"opcode {kind}", "", ""))
        body = self._shown(reader, fields) if error == 0 and not reader.is_at_end() else []
        more = [] if reader.is_at_end() else [f"and {len(reader.frame) - reader.at} bytes"]
        self.lines += [request, " ".join([f"< {name} {error}", *body, *more]) + no_zxid(zxid)]

    def _results(self, reader: Reader) -> str:
        shown: list[str] = []
        while True:
            kind, is_end, error = reader.integer(), reader.flag(), reader.integer()
            if is_end:
                return "; ".join(shown)
            if kind == ERROR:
                shown.append(f"error {error} {reader.integer()}")
            else:
                name, _, fields = REQUESTS[kind]
                shown.append(" ".join([f"{name} {error}", *self._shown(reader, fields)]))

    def _stat(self, reader: Reader) -> str:
        czxid, mzxid = reader.long(), reader.long()
        ctime, mtime = reader.long(), reader.long()
        version, cversion, aversion = reader.integer(), reader.integer(), reader.integer()
        owner, length, children, pzxid = reader.long(), reader.integer(), reader.integer(), reader.long()
        zxids = f"czxid{order(czxid, mzxid)}mzxid{order(mzxid, pzxid)}pzxid"
        times = f"ctime{'<=' if ctime <= mtime else '>'}mtime"
        versions = f"versions={version},{cversion},{aversion}"
        return f"{{{zxids} {times} {versions} owner={self._owner(owner)} length={length} children={children}}}"

    def _owner(self, owner: int) -> str:
        if owner in (0, CONTAINER_OWNER):
            return "container" if owner else "none"
        if owner & TTL_MARK == TTL_MARK:
            return f"ttl:{owner & TTL_MAX_MS}"
        return "self" if owner == self._session else "other"


def _right(reader: Reader) -> str:
    return f"{reader.integer()} {reader.text()}:{reader.text()}"


_FIELDS: dict[str, Callable[[Conversation, Reader], str]] = {
    "path": lambda _, reader: masked(reader.text()),
    "text": lambda _, reader: repr(reader.text()),
    "scheme": lambda _, reader: reader.text(),
    "data": lambda _, reader: shown_data(reader.buffer()),
    "acl": lambda _, reader: f"[{', '.join(reader.items(lambda: _right(reader)))}]",
    "flags": lambda _, reader: f"flags={reader.integer()}",
    "version": lambda _, reader: f"version={reader.integer()}",
    "type": lambda _, reader: f"type={reader.integer()}",
    "watcher": lambda _, reader: f"watcher={reader.integer()}",
    "mode": lambda _, reader: f"mode={reader.integer()}",
    "ttl": lambda _, reader: f"ttl={reader.long()}",
    "long": lambda _, reader: str(reader.long()),
    "number": lambda _, reader: str(reader.integer()),
    "zxid": lambda _, reader: f"zxid={'some' if reader.long() else 0}",
    "watch": lambda _, reader: "watch" if reader.flag() else "-",
    # A server may tell names in any order.
    "names": lambda _, reader: f"[{', '.join(sorted(masked(name) for name in reader.items(reader.text)))}]",
    "identities": lambda _, reader: f"[{', '.join(sorted(reader.items(lambda: f'{reader.text()}:{reader.text()}')))}]",
    "stat": Conversation._stat,
    "operations": Conversation._operations,
    "results": Conversation._results,
}
