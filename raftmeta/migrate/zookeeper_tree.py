"""ZooKeeper's tree, rebuilt: the nodes of a snapshot and the transactions behind it, applied as a server applies them.

A snapshot is fuzzy: the server writes it while transactions go on, so a node may be newer than the snapshot's zxid, and
its neighbour not. Every transaction from that zxid on is applied again, in such a way that the result is one state.
Where a node is already there, or already gone, only the parent's counters move. This follows ZooKeeper's own DataTree:
create does not overwrite, delete takes an existing node, a version is set and not counted.

The tree lives in a Scratch, not in memory. Servers since 3.6 sum up a digest over all nodes, and write it with each
transaction. This module keeps the digest, too, and compares, which proves that both trees are the same.
"""

from __future__ import annotations

import json
import struct
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from raftmeta.migrate.items import Item
from raftmeta.migrate.problems import SourceDamaged
from raftmeta.migrate.scratch import Scratch
from raftmeta.migrate.zookeeper_files import Acl, LogRecord, SnapshotFile, read_acl, read_string
from raftmeta.migrate.zookeeper_handle import (
    CONTAINER_OWNER,
    children_of,
    create_of,
    items_of,
    new_record,
    node_digest,
    summed,
    with_children,
)

__all__ = ["ZooKeeperNode", "ZooKeeperTree"]

# Kinds of transactions: org.apache.zookeeper.ZooDefs.OpCode.
ERROR, CREATE, DELETE, SET_DATA, SET_ACL, CHECK, MULTI = -1, 1, 2, 5, 7, 13, 14
CREATE_2, RECONFIG, CREATE_CONTAINER, DELETE_CONTAINER, CREATE_TTL = 15, 16, 19, 20, 21
CREATE_SESSION, CLOSE_SESSION = -10, -11

FORMAT_DIGEST_VERSION = 2
OPEN_ACL = -1  # number of the list of rights that every snapshot means and none writes: world, everything
WORLD: Acl = ((31, "world", "anyone"),)
TTL_MARK, TTL_MASK, TTL_VALUE_MASK = 0xFF << 56, (0xFFFFFF << 40), (1 << 40) - 1

_HEADER = struct.Struct(">qiqqi")  # session, its own counter, zxid, time, kind
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_DIGEST = struct.Struct(">iq")
_STAT = struct.Struct(">qqqqiiiqq")  # czxid mzxid ctime mtime version cversion aversion owner pzxid
_NODE = struct.Struct(">qqqqqiiiqq")  # number of the list of rights, stat
_U64 = (1 << 64) - 1
OTHER_SERVER = "use snapshot and logs of another server"


class ZooKeeperNode(NamedTuple):
    """One node. data: None if it was created without any. owner: the session of an ephemeral, else 0.

    is_container, ttl_ms: when the server would remove it, once it is empty. cversion: the number of creations of
    children, which is the next number of sequential children. Times in milliseconds since 1970.
    """

    path: bytes
    data: bytes | None
    acl: Acl
    czxid: int
    mzxid: int
    pzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    owner: int
    is_container: bool
    ttl_ms: int


class _Stat(NamedTuple):
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    owner: int
    pzxid: int


def _is_session(owner: int) -> bool:
    return owner != 0 and owner != CONTAINER_OWNER and not _ttl_ms(owner)


def _ttl_ms(owner: int) -> int:
    """The time of a TTL node, which stands in the place of its owner; 0: it is no TTL node."""
    raw = owner & _U64
    return raw & TTL_VALUE_MASK if raw & (TTL_MARK | TTL_MASK) == TTL_MARK else 0


class ZooKeeperTree:
    """Nodes by path, the root "/". zxid: of the last transaction in it. sessions: open ones, id to time-out in ms."""

    def __init__(self, scratch: Scratch, zxid: int) -> None:
        self.zxid = zxid
        self.sessions: dict[int, int] = {}
        self.transactions = 0
        self.digest = 0  # as the servers count it
        self._scratch = scratch
        self._acls: dict[int, Acl] = {OPEN_ACL: WORLD}
        self._numbers: dict[Acl, int] = {WORLD: OPEN_ACL}
        self._known_rights: dict[bytes, int] = {}  # as bytes of a transaction; as many as there are lists of rights
        self._sharp_from = zxid  # until when the snapshot was written; before, the tree is none that ever was
        self._snapshot_digest = (0, 0)  # zxid, value

    # --- the snapshot -------------------------------------------------------------------------------------------------

    def load(self, snapshot: SnapshotFile) -> None:
        """Take all nodes of a snapshot. Raises SourceDamaged: then the tree is useless."""
        used: set[int] = set()
        for batch in snapshot.nodes():
            rows = batch if batch[0][0] else [(b"/", batch[0][1]), *batch[1:]]
            digest, owned, rights = summed(rows)
            self._scratch.put_many(rows)
            self._scratch.join_many(owned)
            self.digest += digest
            used |= rights
        self.sessions = dict(snapshot.sessions)
        self._acls |= snapshot.acls
        self._numbers |= {acl: number for number, acl in snapshot.acls.items()}
        if unknown := used - self._acls.keys():
            raise SourceDamaged(snapshot.path, 0, f"{len(unknown)} lists of rights are used and not in the file")
        self._sharp_from = max(self._sharp_from, snapshot.last_zxid or 0)
        if snapshot.digest is not None and snapshot.digest[1] == FORMAT_DIGEST_VERSION:
            self._snapshot_digest = (snapshot.digest[0], snapshot.digest[2] & _U64)
            self._sharp_from = max(self._sharp_from, snapshot.digest[0])

    def check_complete(self, snapshot: Path) -> None:
        """Check, after all transactions, that the tree is a state which the server had. Raises SourceDamaged."""
        if self.zxid < self._sharp_from:
            raise SourceDamaged(
                snapshot,
                0,
                f"it was written while transactions went on, up to zxid {self._sharp_from:#x}, and the logs end at "
                f"{self.zxid:#x}",
                "give the folder of the logs, too",
            )
        zxid, expected = self._snapshot_digest
        if zxid == self.zxid and expected != self.digest & _U64:
            raise SourceDamaged(
                snapshot,
                0,
                f"at zxid {zxid:#x} the tree is not that of the server: it was written while transactions went on, and "
                "those are missing, or is damaged",
                "give the folder of the logs, too, or another server's files",
            )

    # --- transactions -------------------------------------------------------------------------------------------------

    def apply(self, record: LogRecord) -> int:
        """Apply one transaction and return its zxid. Raises SourceDamaged."""
        try:
            session, _, zxid, time_ms, kind = _HEADER.unpack_from(record.body)
            end = self._apply(kind, record.body, _HEADER.size, session, zxid, time_ms, is_whole=True)
        except (struct.error, ValueError, IndexError) as error:
            raise SourceDamaged(record.path, record.offset, f"a transaction that makes no sense ({error})") from error
        self.zxid = max(self.zxid, zxid)
        self.transactions += 1
        rest = record.body[end:]
        if len(rest) not in (0, _DIGEST.size):
            raise SourceDamaged(record.path, record.offset, f"{len(rest)} bytes behind transaction {zxid:#x}")
        if rest and zxid > self._sharp_from:
            version, expected = _DIGEST.unpack(rest)
            if version == FORMAT_DIGEST_VERSION and expected & _U64 != self.digest & _U64:
                raise SourceDamaged(
                    record.path,
                    record.offset,
                    f"after transaction {zxid:#x} the tree is not that of the server",
                    OTHER_SERVER,
                )
        return int(zxid)

    def _apply(
        self, kind: int, body: bytes, position: int, session: int, zxid: int, time_ms: int, *, is_whole: bool
    ) -> int:
        """One transaction or part of a MULTI; returns where it ends."""
        if kind in (CREATE, CREATE_2, CREATE_CONTAINER, CREATE_TTL):
            return self._apply_create(kind, body, position, session, zxid, time_ms)
        if kind in (DELETE, DELETE_CONTAINER):
            path, position = read_string(body, position)
            self._delete(path, zxid)
            return position
        if kind in (SET_DATA, RECONFIG):
            path, position = read_string(body, position)
            data, position = _read_data(body, position)
            self._change(path, data=data, version=_int_at(body, position), mtime=time_ms, mzxid=zxid)
            return position + 4
        if kind == SET_ACL:
            path, position = read_string(body, position)
            acl, position = read_acl(body, position)
            self._change(path, acl=self._number_of(acl), aversion=_int_at(body, position))
            return position + 4
        if kind == CHECK:
            return read_string(body, position)[1] + 4
        if kind == ERROR:
            return position + 4
        if is_whole and kind == MULTI:
            return self._apply_multi(body, position, session, zxid, time_ms)
        if is_whole and kind == CREATE_SESSION:
            self.sessions[session] = _int_at(body, position)
            return position + 4
        if is_whole and kind == CLOSE_SESSION:
            return self._apply_close_session(body, position, session, zxid)
        raise ValueError(f"kind {kind} is not known")

    def _apply_create(self, kind: int, body: bytes, position: int, session: int, zxid: int, time_ms: int) -> int:
        path, data, rights, position = create_of(body, position)
        owner = 0
        if kind in (CREATE, CREATE_2):
            owner = session if body[position] else 0
            position += 1
        if kind == CREATE and len(body) == position:
            parent_cversion = -1  # as servers before 3.4 wrote it: they counted when they applied
        else:
            parent_cversion = _int_at(body, position)
            position += 4
        if kind == CREATE_CONTAINER:
            owner = CONTAINER_OWNER
        elif kind == CREATE_TTL:
            (ttl_ms,) = _LONG.unpack_from(body, position)
            position += 8
            owner = (TTL_MARK | ttl_ms) - (1 << 64)
        record = new_record(data, self._number_of_bytes(rights), zxid, time_ms, owner)
        self._create(path, record, owner, parent_cversion, zxid, kind)
        return position

    def _apply_multi(self, body: bytes, position: int, session: int, zxid: int, time_ms: int) -> int:
        """Apply all parts, or none if one of them failed: then the log has the other parts as they would have been."""
        count = _int_at(body, position)
        position += 4
        parts = []
        for _ in range(max(count, 0)):
            kind = _int_at(body, position)
            part, position = read_string(body, position + 4)
            parts.append((kind, part))
        if any(kind == ERROR for kind, _ in parts):
            return position
        for kind, part in parts:
            end = self._apply(kind, part, 0, session, zxid, time_ms, is_whole=False)
            if end != len(part):
                raise ValueError(f"{len(part) - end} bytes behind a part")
        return position

    def _apply_close_session(self, body: bytes, position: int, session: int, zxid: int) -> int:
        """Since 3.6 the record names the paths to delete; before, they are the paths of the session."""
        self.sessions.pop(session, None)
        paths, position = _read_paths(body, position)
        for path in [*paths, *self._scratch.members(session)]:
            self._delete(path, zxid)
        return position

    # --- what they do to nodes ----------------------------------------------------------------------------------------

    def _create(self, path: bytes, record: bytes, owner: int, parent_cversion: int, zxid: int, kind: int) -> None:
        parent = path.rpartition(b"/")[0] or b"/"
        before = self._scratch.get(parent)
        if before is None:
            return
        exists = self._scratch.get(path) is not None
        if exists and kind != CREATE:
            return
        old_cversion, _ = children_of(before)
        cversion = old_cversion + 1 if parent_cversion == -1 else parent_cversion
        if cversion > old_cversion:  # not where the snapshot saw later children
            self._replace(parent, before, with_children(before, cversion, zxid))
        if not exists:
            self._replace(path, None, record)
            if _is_session(owner):
                self._scratch.join_many([(owner, path)])

    def _delete(self, path: bytes, zxid: int) -> None:
        parent = path.rpartition(b"/")[0] or b"/"
        before = self._scratch.get(parent)
        if before is None:
            return
        cversion, pzxid = children_of(before)
        if zxid > pzxid:  # also where the snapshot did not see the node any more
            self._replace(parent, before, with_children(before, cversion, zxid))
        record = self._scratch.get(path)
        if record is None:
            return
        self.digest -= node_digest(path, record)
        self._scratch.delete(path)
        if _is_session(owner := _owner(record)):
            self._scratch.leave(owner, path)

    def _change(self, path: bytes, *, data: bytes | None = None, acl: int | None = None, **fields: int) -> None:
        before = self._scratch.get(path)
        if before is None:
            return
        old_data, old_acl, stat = _parts(before)
        if acl is None:
            after = _record(data, old_acl, stat._replace(**fields))
        else:
            after = _record(old_data, acl, stat._replace(**fields))
        self._replace(path, before, after)

    def _replace(self, path: bytes, before: bytes | None, after: bytes) -> None:
        if before is not None:
            self.digest -= node_digest(path, before)
        self.digest += node_digest(path, after)
        self._scratch.put(path, after)

    def _number_of_bytes(self, rights: bytes) -> int:
        """The number of a list of rights as a transaction has it: nearly all transactions have one of a few lists."""
        number = self._known_rights.get(rights)
        if number is None:
            number = self._known_rights[rights] = self._number_of(read_acl(rights, 0)[0])
        return number

    def _number_of(self, acl: Acl) -> int:
        number = self._numbers.get(acl)
        if number is None:
            number = max(self._acls) + 1
            self._acls[number] = acl
            self._numbers[acl] = number
        return number

    # --- what came out ------------------------------------------------------------------------------------------------

    def nodes(self) -> Iterator[ZooKeeperNode]:
        """All nodes, in order of their paths as bytes."""
        acls, unpack, make = self._acls, _NODE.unpack_from, ZooKeeperNode._make
        for path, record in chain.from_iterable(self._scratch.rows()):
            end = len(record) - _NODE.size
            number, czxid, mzxid, ctime, mtime, version, cversion, aversion, owner, pzxid = unpack(record, end)
            data = record[4:end] or (None if record[0] else b"")  # the length of no data is -1
            is_container, ttl_ms = False, 0
            if owner and not _is_session(owner):
                is_container, ttl_ms = owner == CONTAINER_OWNER, _ttl_ms(owner)
                owner = 0
            versions = (version, cversion, aversion, owner, is_container, ttl_ms)
            yield make((path, data, acls[number], czxid, mzxid, pzxid, ctime, mtime, *versions))

    def items(self, *, has_ephemerals: bool, dropped: Counter[str]) -> Iterator[Item]:
        """All nodes that are data, in order of their paths as bytes; other nodes are counted."""
        rights = {number: json.dumps(acl, separators=(",", ":")) for number, acl in self._acls.items()}
        rights |= {number: "" for number, acl in self._acls.items() if acl == WORLD}
        for rows in self._scratch.rows():
            yield from items_of(rows, rights, has_ephemerals, dropped)

    def ephemerals(self) -> list[tuple[int, int]]:
        """(session, how many ephemeral nodes it has)."""
        return self._scratch.owners()


# --- records: data with its length, number of the list of rights, stat; as in a snapshot ------------------------------


def _parts(record: bytes) -> tuple[bytes | None, int, _Stat]:
    (length,) = _INT.unpack_from(record)
    stat = _Stat(*_STAT.unpack_from(record, len(record) - _STAT.size))
    (acl,) = _LONG.unpack_from(record, len(record) - _STAT.size - _LONG.size)
    return (None if length < 0 else record[4 : 4 + length]), acl, stat


def _record(data: bytes | None, acl: int, stat: _Stat) -> bytes:
    return b"".join((_INT.pack(-1 if data is None else len(data)), data or b"", _LONG.pack(acl), _STAT.pack(*stat)))


def _owner(record: bytes) -> int:
    return int(_LONG.unpack_from(record, len(record) - 16)[0])


def _int_at(body: bytes, position: int) -> int:
    return int(_INT.unpack_from(body, position)[0])


def _read_data(body: bytes, position: int) -> tuple[bytes | None, int]:
    """As read_string, but length -1 means no data."""
    data, end = read_string(body, position)
    return (None if _int_at(body, position) == -1 else data), end


def _read_paths(body: bytes, position: int) -> tuple[list[bytes], int]:
    """The paths at the end of a session, and where they end; none, if they do not fit the bytes that follow."""
    paths = []
    end = position + 4
    try:
        for _ in range(max(_int_at(body, position), 0)):
            path, end = read_string(body, end)
            paths.append(path)
    except (struct.error, ValueError):
        return [], position
    return (paths, end) if len(body) - end in (0, _DIGEST.size) else ([], position)
