"""Requests for znodes as msgpack, and a plain model of what they do, after ZooKeeper's PrepRequestProcessor."""

from __future__ import annotations

import copy
import struct
from dataclasses import dataclass, field
from typing import Any

import msgpack

from tests.machine import commands as c

CREATE, DELETE, SET_DATA, SET_ACL, CHECK = range(1, 6)
PERSISTENT, EPHEMERAL, CONTAINER, TTL = range(4)
READ, WRITE, CREATE_CHILD, DELETE_CHILD, ADMIN, ALL = 1, 2, 4, 8, 16, 31
OK, BAD_ARGUMENTS, NO_NODE, NO_AUTH, BAD_VERSION = 0, -8, -101, -102, -103
NO_CHILDREN_FOR_EPHEMERALS, NODE_EXISTS, NOT_EMPTY, SESSION_EXPIRED, INVALID_ACL = -108, -110, -111, -112, -114
TREE_BLOCKED = -3
CONTAINER_MS = 60_000
ROOT = b"zookeeper"
FOUNDED = {b"/": 1, b"/zookeeper": 2, b"/zookeeper/quota": 0, b"/zookeeper/config": 0}
READ_ONLY = [[READ, b"world", b"anyone"]]
META = struct.Struct("<QQQQQiiIIIBBH")
STAT = struct.Struct("<QQQQiiiQiiQ")


def create(
    path: bytes,
    data: bytes | None = b"",
    *,
    acl: Any = None,
    kind: int = PERSISTENT,
    sequential: bool = False,
    width: int = 0,
    ttl_ms: int = 0,
) -> list[Any]:
    return [CREATE, path, data, None if acl is None else c.pack(acl), kind, sequential, width, ttl_ms]


def delete(path: bytes, version: int = -1) -> list[Any]:
    return [DELETE, path, version]


def set_data(path: bytes, data: bytes | None, version: int = -1) -> list[Any]:
    return [SET_DATA, path, data, version]


def set_acl(path: bytes, acl: Any, version: int = -1) -> list[Any]:
    return [SET_ACL, path, c.pack(acl), version]


def check(path: bytes, version: int = -1) -> list[Any]:
    return [CHECK, path, version]


def request(
    *operations: list[Any],
    owner: int = 0,
    identities: Any = (),
    after: int = 0,
    root: bytes = ROOT,
    multi: bool | None = None,
    **envelope: Any,
) -> bytes:
    is_multi = len(operations) != 1 if multi is None else multi
    data = c.pack([is_multi, [list(who) for who in identities], [list(operation) for operation in operations]])
    return c.command(c.ZNODES, owner, root, data, after, **envelope)


@dataclass
class Znode:
    """A znode of the model. deadline_ms: of its own lease; None: it has none."""

    data: bytes | None = b""
    acl: Any = None
    kind: int = PERSISTENT
    owner: int = 0
    ttl_ms: int = 0
    version: int = 0
    aversion: int = 0
    creates: int = 0
    children: int = 0
    czxid: int = 0
    mzxid: int = 0
    pzxid: int = 0
    ctime_ms: int = 0
    mtime_ms: int = 0
    deadline_ms: int | None = None

    def stat(self) -> bytes:
        owner = {PERSISTENT: 0, EPHEMERAL: self.owner, CONTAINER: 1 << 63, TTL: 0xFF << 56 | self.ttl_ms}[self.kind]
        return STAT.pack(
            self.czxid, self.mzxid, self.ctime_ms, self.mtime_ms, self.version, 2 * self.creates - self.children,
            self.aversion, owner, len(self.data or b""), self.children, self.pzxid,
        )  # fmt: skip


class Refusal(Exception):
    """args: ZooKeeper's code."""


def path_is_valid(path: bytes) -> bool:
    """PathUtils.validatePath, for the paths that these tests use."""
    if not path.startswith(b"/") or b"\0" in path:
        return False
    names = path[1:].split(b"/")
    return path == b"/" or all(name not in (b"", b".", b"..") and min(name) >= 0x20 for name in names)


def parent_of(path: bytes) -> bytes:
    return path.rsplit(b"/", 1)[0] or b"/"


def allows(node: Znode, perm: int, identities: Any) -> bool:
    if node.acl is None or any(scheme == b"super" for scheme, _ in identities):
        return True
    everyone = [(b"world", b"anyone"), *map(tuple, identities)]
    return any(perms & perm and (scheme, name) in everyone for perms, scheme, name in node.acl)


def checked_acl(acl: bytes | None) -> Any:
    if acl is None:
        return None
    entries = msgpack.unpackb(acl)
    if not entries or any(scheme not in (b"world", b"digest") for _, scheme, _ in entries):
        raise Refusal(INVALID_ACL)
    return None if entries == [[ALL, b"world", b"anyone"]] else entries


@dataclass
class Model:
    """The tree under one root; leases maps an id to (ttl_ms, deadline_ms)."""

    nodes: dict[bytes, Znode] = field(default_factory=dict)
    leases: dict[int, tuple[int, int]] = field(default_factory=dict)
    revision: int = 0
    key_bytes_max: int = 480
    touched: set[bytes] = field(default_factory=set)

    def apply(
        self, operations: list[list[Any]], *, owner: int, identities: Any, clock_ms: int, wall_ms: int
    ) -> tuple[int, Any]:
        """A status, and the results or (position, code)."""
        before = copy.deepcopy(self.nodes)
        self.touched = set()
        results: list[Any] = []
        if owner and owner not in self.leases:
            return c.ZNODE_REFUSED, [0, SESSION_EXPIRED]
        if b"/" not in self.nodes:
            for path, children in FOUNDED.items():
                self.nodes[path] = Znode(children=children)
                self.touched.add(path)
            self.nodes[b"/zookeeper/config"].acl = READ_ONLY
            self.nodes[b"/zookeeper/config"].aversion = -1
        for position, operation in enumerate(operations):
            try:
                results.append(self.run(operation, owner, identities, wall_ms))
            except Refusal as refusal:
                self.nodes = before
                return c.ZNODE_REFUSED, [position, refusal.args[0]]
        if any(self.nodes.get(path) != before.get(path) for path in self.touched):
            self.revision += 1
        self.settle(before, clock_ms)
        return c.OK, results

    def run(self, operation: list[Any], owner: int, identities: Any, wall_ms: int) -> Any:
        if operation[0] == CREATE:
            return self.create(operation, owner, identities, wall_ms)
        if operation[0] == DELETE:
            return self.delete(operation, identities)
        kind, path, *rest, version = operation
        if not path_is_valid(path):
            raise Refusal(BAD_ARGUMENTS)
        acl = checked_acl(rest[0]) if kind == SET_ACL else None
        node = self.find(path)
        if not allows(node, {SET_DATA: WRITE, SET_ACL: ADMIN, CHECK: READ}[kind], identities):
            raise Refusal(NO_AUTH)
        if version not in (-1, node.aversion if kind == SET_ACL else node.version):
            raise Refusal(BAD_VERSION)
        if kind == CHECK:
            return None
        self.touched.add(path)
        if kind == SET_ACL:
            node.acl = acl
            node.aversion += 1
        else:
            node.data, node.mzxid, node.mtime_ms = rest[0], self.revision + 1, wall_ms
            node.version += 1
        return node.stat()

    def find(self, path: bytes) -> Znode:
        if path not in self.nodes:
            raise Refusal(NO_NODE)
        return self.nodes[path]

    def create(self, operation: list[Any], owner: int, identities: Any, wall_ms: int) -> list[Any]:
        _, path, data, packed, kind, sequential, width, ttl_ms = operation
        if kind == TTL and not 0 < ttl_ms < 1 << 40:
            raise Refusal(BAD_ARGUMENTS)
        if kind == EPHEMERAL and not owner:
            raise Refusal(SESSION_EXPIRED)
        if not path.startswith(b"/") or b"\0" in path:
            raise Refusal(BAD_ARGUMENTS)
        acl = checked_acl(packed)
        above = self.find(parent_of(path))
        if not allows(above, CREATE_CHILD, identities):
            raise Refusal(NO_AUTH)
        whole = path + b"%0*d" % (width, above.creates) if sequential else path
        if not path_is_valid(whole) or len(ROOT + whole) > self.key_bytes_max:
            raise Refusal(BAD_ARGUMENTS)
        if whole in self.nodes:
            raise Refusal(NODE_EXISTS)
        if above.kind == EPHEMERAL:
            raise Refusal(NO_CHILDREN_FOR_EPHEMERALS)
        above.creates += 1
        self.count(whole, 1)
        at = self.revision + 1
        made = Znode(
            data, acl, kind, owner if kind == EPHEMERAL else 0, ttl_ms,
            czxid=at, mzxid=at, pzxid=at, ctime_ms=wall_ms, mtime_ms=wall_ms,
        )  # fmt: skip
        self.nodes[whole] = made
        return [whole, made.stat()]

    def count(self, path: bytes, change: int) -> None:
        above = self.nodes[parent_of(path)]
        above.children += change
        above.pzxid = self.revision + 1
        self.touched |= {path, parent_of(path)}

    def delete(self, operation: list[Any], identities: Any) -> None:
        _, path, version = operation
        if not path.startswith(b"/") or b"\0" in path or path in FOUNDED:
            raise Refusal(BAD_ARGUMENTS)
        if not allows(self.find(parent_of(path)), DELETE_CHILD, identities):
            raise Refusal(NO_AUTH)
        node = self.find(path)
        if version not in (-1, node.version):
            raise Refusal(BAD_VERSION)
        if node.children:
            raise Refusal(NOT_EMPTY)
        self.count(path, -1)
        del self.nodes[path]

    def settle(self, before: dict[bytes, Znode], clock_ms: int) -> None:
        """The leases of the machine's own, after an entry that touched these znodes."""
        for path in self.touched & set(self.nodes):
            node, old = self.nodes[path], before.get(path)
            is_empty = node.kind == CONTAINER and node.creates > 0 and node.children == 0
            if node.kind != TTL and not is_empty:
                node.deadline_ms = None
                continue
            ttl_ms = node.ttl_ms if node.kind == TTL else CONTAINER_MS
            is_fresh = old is None or old.deadline_ms is None or old.czxid != node.czxid
            is_written = node.mzxid == self.revision or (node.pzxid == self.revision and node.children == 0)
            if is_fresh or is_written:
                node.deadline_ms = clock_ms + ttl_ms

    def expire(self, clock_ms: int) -> None:
        """All leases that are due end in one entry."""
        due = {lease for lease, (_, deadline_ms) in self.leases.items() if deadline_ms <= clock_ms}
        self.end(due, clock_ms)

    def end(self, due: set[int], clock_ms: int, *, only_sessions: bool = False) -> None:
        before = copy.deepcopy(self.nodes)
        self.touched = set()
        gone = {path for path, node in self.nodes.items() if node.kind == EPHEMERAL and node.owner in due}
        for path, node in self.nodes.items():
            if only_sessions or node.deadline_ms is None or node.deadline_ms > clock_ms:
                continue
            if node.children:
                node.deadline_ms = before[path].deadline_ms = clock_ms + node.ttl_ms
            else:
                gone.add(path)
        for path in gone:
            del self.nodes[path]
            self.touched.add(path)
        for path in gone:
            above = self.nodes[parent_of(path)]
            above.children -= 1
            above.pzxid = self.revision + 1
            self.touched.add(parent_of(path))
        self.revision += bool(gone)
        for lease in due:
            del self.leases[lease]
        self.settle(before, clock_ms)

    def shown(self) -> dict[bytes, tuple[Any, ...]]:
        """What a record says of each znode, as `shown` of a machine."""
        return {
            path: (node.data or b"", node.data is None, node.acl, node.kind, node.ttl_ms, node.stat())
            for path, node in self.nodes.items()
        }


def shown(records: list[Any], root: bytes = ROOT) -> dict[bytes, tuple[Any, ...]]:
    """Records of a range over the tree, by path."""
    found = {}
    for key, value, create_revision, _, _, lease, flags, extension in records:
        (
            mzxid,
            pzxid,
            ctime_ms,
            mtime_ms,
            ttl_ms,
            version,
            aversion,
            creates,
            children,
            acl_length,
            kind,
            marks,
            zero,
        ) = META.unpack(extension[-META.size :])
        assert (flags, zero, acl_length) == (4, 0, len(extension) - META.size)
        owner = {PERSISTENT: 0, EPHEMERAL: lease, CONTAINER: 1 << 63, TTL: 0xFF << 56 | ttl_ms}[kind]
        stat = STAT.pack(
            0 if marks & 2 else create_revision, mzxid, ctime_ms, mtime_ms, version, 2 * creates - children, aversion,
            owner, len(value), children, pzxid,
        )  # fmt: skip
        acl = msgpack.unpackb(extension[:acl_length]) if acl_length else None
        found[key[len(root) :]] = (value, bool(marks & 1), acl, kind, ttl_ms, stat)
    return found
