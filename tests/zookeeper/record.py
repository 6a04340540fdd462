"""Records what a ZooKeeper answers to one request of each kind: python -m tests.zookeeper.record HOST:PORT FILE

`tests/zookeeper/recorded.txt` was made so from ZooKeeper 3.9.5 with extended types; test_recorded reads it. The
server must be new: paths and counters are those of an empty tree. Each line is a name, `>` or `<`, and the bytes.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.zookeeper import jute
from tests.zookeeper.jute import OPEN, Acl, Request

READ_ONLY_WORLD: list[Acl] = [(1, b"world", b"anyone"), (31, b"auth", b"")]


def requests() -> Iterator[tuple[str, Request]]:
    """In this order: later ones see what earlier ones made."""
    yield "ping", Request(11, xid=-2)
    yield "create", Request(1, path=b"/a", data=b"one", acl=OPEN)
    yield "create again", Request(1, path=b"/a", data=b"one", acl=OPEN)
    yield "create2", Request(15, path=b"/a/b", data=None, acl=OPEN)
    yield "create sequential", Request(1, path=b"/a/s-", data=b"", acl=OPEN, flags=2)
    yield "create2 ephemeral", Request(15, path=b"/a/e", data=b"e", acl=OPEN, flags=1)
    yield "create below ephemeral", Request(1, path=b"/a/e/x", data=b"", acl=OPEN)
    yield "create without parent", Request(1, path=b"/none/x", data=b"", acl=OPEN)
    yield "create container", Request(19, path=b"/c", data=b"", acl=OPEN, flags=4)
    yield "create ttl", Request(21, path=b"/t", data=b"", acl=OPEN, flags=5, ttl_ms=100_000)
    yield "create bad ttl", Request(21, path=b"/t2", data=b"", acl=OPEN, flags=5, ttl_ms=0)
    yield "create bad mode", Request(1, path=b"/m", data=b"", acl=OPEN, flags=9)
    yield "create bad path", Request(1, path=b"/a//b", data=b"", acl=OPEN)
    yield "create bad acl", Request(1, path=b"/m", data=b"", acl=[(31, b"digest", b"nohash")])
    yield "create no acl", Request(1, path=b"/m", data=b"", acl=[])
    yield "auth", Request(100, scheme=b"digest", data=b"ann:secret", xid=-4)
    yield "whoAmI", Request(107)
    yield "create with auth", Request(1, path=b"/r", data=b"r", acl=READ_ONLY_WORLD)
    yield "getACL of admin", Request(6, path=b"/r")
    yield "exists", Request(3, path=b"/a")
    yield "exists none", Request(3, path=b"/none")
    yield "getData", Request(4, path=b"/a", is_watching=True)
    yield "getData null", Request(4, path=b"/a/b")
    yield "getData ttl", Request(4, path=b"/t")
    yield "setData", Request(5, path=b"/a", data=b"two", version=0)
    yield "setData bad version", Request(5, path=b"/a", data=b"two", version=0)
    yield "setACL", Request(7, path=b"/a", acl=[(31, b"world", b"anyone"), (1, b"ip", b"10.0.0.0/8")], version=0)
    yield "getACL", Request(6, path=b"/a")
    yield "getChildren", Request(8, path=b"/a")
    yield "getChildren2", Request(12, path=b"/a")
    yield "getAllChildrenNumber", Request(104, path=b"/a")
    yield "getEphemerals", Request(103, path=b"/")
    yield "sync", Request(9, path=b"/a")
    yield "delete not empty", Request(2, path=b"/a", version=-1)
    yield "delete", Request(2, path=b"/a/b", version=-1)
    yield "delete system", Request(2, path=b"/zookeeper", version=-1)
    operations = [
        Request(13, path=b"/a", version=1),
        Request(1, path=b"/m1", data=b"1", acl=OPEN),
        Request(15, path=b"/m2", data=b"2", acl=OPEN),
        Request(5, path=b"/m1", data=b"11", version=0),
        Request(2, path=b"/m1", version=1),
        Request(1, path=b"/m2/s", data=b"", acl=OPEN, flags=3),
    ]
    yield "multi", Request(14, operations=operations)
    failing = [Request(13, path=b"/a", version=1), Request(2, path=b"/none"), Request(1, path=b"/z", acl=OPEN)]
    yield "multi failed", Request(14, operations=failing)
    yield "multi empty", Request(14)
    reads = [Request(4, path=b"/a"), Request(8, path=b"/m2"), Request(4, path=b"/none")]
    yield "multiRead", Request(22, operations=reads)
    yield "checkWatches none", Request(17, path=b"/a", mode=2)
    yield "addWatch", Request(106, path=b"/m2", mode=1)
    yield "checkWatches", Request(17, path=b"/m2", mode=3)
    yield "removeWatches", Request(18, path=b"/m2", mode=3)
    yield "setWatches", Request(101, zxid=1, watches={"data": [b"/a"], "exist": [b"/q"], "child": [b"/none"]}, xid=-8)
    yield "reconfig", Request(16, zxid=-1)
    yield "closeSession", Request(-11)


def frame(stream: socket.socket) -> bytes:
    head = stream.recv(4, socket.MSG_WAITALL)
    return head + stream.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)


def main(address: str, file: Path) -> None:
    host, _, port = address.rpartition(":")
    lines: list[tuple[str, str, bytes]] = []
    for name, flag in (("connect short", b""), ("connect", b"\x01")):
        with socket.create_connection((host, int(port)), timeout=10) as stream:
            body = jute.connect(timeout_ms=6000) + flag
            stream.sendall(jute.buffer(body))
            lines += [(name, ">", body), (name, "<", frame(stream))]
            if flag:
                for what, one in requests():
                    stream.sendall(jute.buffer(jute.request(one)))
                    lines.append((what, ">", jute.request(one)))
                    while (answer := frame(stream))[4:8] == b"\xff\xff\xff\xff":
                        lines.append((what, "!", answer))
                    lines.append((what, "<", answer))
    file.write_text("".join(f"{name} {way} {data.hex()}\n" for name, way, data in lines))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
