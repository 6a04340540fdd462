"""The parts of a transaction as plain values: operations, compares, and what comes back.

    node.txn(
        compares=[Version("jobs/7") == 0, LeaseId("worker/a") != 0],
        then=[Put("jobs/7", b"run", lease=lease.id)],
        otherwise=[Get("jobs/7")],
    )

Nothing here talks to a node, and nothing is checked before it is sent: bindings/commands does that, with an
InvalidArgument that names the field (`then[0].key`). Keys are bytes or str (UTF-8), 1 to 480 bytes; a range is
[start, end) and an empty end means to the last key. A `revision` of 0 means none in particular.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from raftmeta.common import numbers
from raftmeta.errors import InvalidArgument

__all__ = [
    "Add",
    "Compare",
    "CompareOperator",
    "Create",
    "CreateRevision",
    "Delete",
    "DeleteRange",
    "Fence",
    "Get",
    "Key",
    "KeyRecord",
    "LeaseId",
    "ModRevision",
    "Operation",
    "Put",
    "Range",
    "RangeEmpty",
    "RangeResult",
    "Txn",
    "TxnResult",
    "Update",
    "Value",
    "Version",
    "Znode",
    "ZnodeAcl",
    "ZnodeCheck",
    "ZnodeCreate",
    "ZnodeCreated",
    "ZnodeDelete",
    "ZnodeOperation",
    "ZnodeRecord",
    "ZnodeSetAcl",
    "ZnodeSetData",
    "ZnodeStat",
    "check_callable",
    "prefix_end",
    "with_key",
    "znode_record",
]

Key: TypeAlias = bytes | str
ZnodeAcl: TypeAlias = Sequence[tuple[int, Key, Key]]


def check_callable(given: Any, field: str) -> Any:
    """Return a callback to be called later. Raises InvalidArgument now."""
    if given is not None and not callable(given):
        raise InvalidArgument(f"{field}: must be a function to call, not {given!r}", field=field)
    return given


def prefix_end(prefix: Key) -> bytes:
    """The end of the range of all keys that begin with prefix; empty (to the last key) when there is no such bound."""
    try:
        raw = prefix.encode() if isinstance(prefix, str) else prefix
    except UnicodeEncodeError as error:
        raise InvalidArgument("prefix: has no UTF-8 form", field="prefix") from error
    stem = raw.rstrip(b"\xff")
    return stem[:-1] + bytes([stem[-1] + 1]) if stem else b""


# --- operations -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Put:
    """Set a key, new or not. Result: None, or the record before with previous=True.

    value, lease: None leaves it as it is; without a value the key must exist (KeyMissing).
    number_from: position of an earlier Add in the same list; its result, 20 decimal digits, is put behind the key.
    """

    key: Key
    value: bytes | str | None
    lease: int | None = 0
    previous: bool = False
    number_from: int | None = None


@dataclass(frozen=True, slots=True)
class Create:
    """Set a key that must not exist (KeyExists). Result: None. number_from: as in Put."""

    key: Key
    value: bytes | str
    lease: int = 0
    number_from: int | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """Set a key that must exist (KeyMissing), and have this mod revision if one is given (CompareFailed).

    Result: None, or the record before with previous=True. value, lease: None leaves it as it is.
    """

    key: Key
    value: bytes | str | None
    lease: int | None = 0
    expected_revision: int = 0
    previous: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove a key, with must_exist=True only one that is there (KeyMissing).

    expected_revision: the mod revision it must have (CompareFailed). Result: how many keys were removed, 0 or 1; with
    previous=True the record before, or None.
    """

    key: Key
    expected_revision: int = 0
    must_exist: bool = False
    previous: bool = False


@dataclass(frozen=True, slots=True)
class DeleteRange:
    """Remove every key of [start, end). Result: how many, or a RangeResult of the records with previous=True."""

    start: Key
    end: Key = b""
    previous: bool = False

    @classmethod
    def prefix(cls, prefix: Key, *, previous: bool = False) -> DeleteRange:
        """Every key that begins with prefix."""
        return cls(prefix, prefix_end(prefix), previous)


@dataclass(frozen=True, slots=True)
class Get:
    """Read a key. Result: its KeyRecord, or None."""

    key: Key


@dataclass(frozen=True, slots=True)
class Range:
    """Read the keys of [start, end) in order, at most limit (0: all, CommandRefused over 10,000).

    Result: a RangeResult, which says whether there are more.
    """

    start: Key
    end: Key = b""
    limit: int = 0

    @classmethod
    def prefix(cls, prefix: Key, *, limit: int = 0) -> Range:
        """Every key that begins with prefix."""
        return cls(prefix, prefix_end(prefix), limit)


@dataclass(frozen=True, slots=True)
class Add:
    """Add a signed 64-bit number to a counter, which begins at 0 and keeps its lease. Result: the new number."""

    key: Key
    number: int = 1


@dataclass(frozen=True, slots=True)
class Txn:
    """All of `then` if every compare holds, else all of `otherwise`. Result: a TxnResult. Nests at most 4 deep."""

    compares: Sequence[CompareOperator] = ()
    then: Sequence[Operation] = ()
    otherwise: Sequence[Operation] = ()


Operation: TypeAlias = Put | Create | Update | Delete | DeleteRange | Get | Range | Add | Txn


# --- operations on znodes -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ZnodeCreate:
    """Make a znode whose parent exists. Result: a ZnodeCreated.

    data: None is null, which is not the same as empty. acl: as Znode.acl; None: everybody may do everything.
    kind: "persistent"; "ephemeral", which goes with the lease of the request; "container", which goes 60 s after its
        last child; "ttl", which goes when it had no children and was not written for ttl_ms milliseconds.
    sequential: the number of children that its parent ever had is put behind the path, with so many digits.
    """

    path: Key
    data: bytes | str | None = b""
    acl: ZnodeAcl | None = None
    kind: str = "persistent"
    sequential: bool = False
    digits: int = 10
    ttl_ms: int = 0


@dataclass(frozen=True, slots=True)
class ZnodeDelete:
    """Remove a znode without children. version: that its data must have, -1: any. Result: None."""

    path: Key
    version: int = -1


@dataclass(frozen=True, slots=True)
class ZnodeSetData:
    """Set the data of a znode. version: that its data must have, -1: any. Result: the ZnodeStat afterwards."""

    path: Key
    data: bytes | str | None
    version: int = -1


@dataclass(frozen=True, slots=True)
class ZnodeSetAcl:
    """Set the list of rights of a znode. version: that the list must have, -1: any. Result: the ZnodeStat then."""

    path: Key
    acl: ZnodeAcl | None
    version: int = -1


@dataclass(frozen=True, slots=True)
class ZnodeCheck:
    """Refuse the whole request unless the znode exists and its data has this version; -1: any. Result: None."""

    path: Key
    version: int = -1


ZnodeOperation: TypeAlias = ZnodeCreate | ZnodeDelete | ZnodeSetData | ZnodeSetAcl | ZnodeCheck


# --- compares -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compare:
    """One side of a key's record against an operand; made by `Version("k") == 3` and its like.

    target: CompareTarget, result: CompareResult (common/numbers). A key that does not exist has only zeros.
    """

    target: int
    result: int
    key: Key
    operand: int | bytes | str


@dataclass(frozen=True, slots=True)
class RangeEmpty:
    """[start, end) holds no key; with is_empty=False: holds one."""

    start: Key
    end: Key = b""
    is_empty: bool = True

    @classmethod
    def prefix(cls, prefix: Key, *, is_empty: bool = True) -> RangeEmpty:
        """No key begins with prefix."""
        return cls(prefix, prefix_end(prefix), is_empty)


CompareOperator: TypeAlias = Compare | RangeEmpty


class _Side:
    """The left side of a compare: `==`, `!=`, `<` and `>` make a Compare instead of comparing."""

    __slots__ = ("key",)
    _target = 0

    def __init__(self, key: Key) -> None:
        self.key = key

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r})"

    __hash__ = None  # type: ignore[assignment]  # no two sides are ever equal or different


class _NumberSide(_Side):
    __slots__ = ()

    def __eq__(self, operand: int) -> Compare:  # type: ignore[override]
        return Compare(self._target, numbers.COMPARE_EQUAL, self.key, operand)

    def __ne__(self, operand: int) -> Compare:  # type: ignore[override]
        return Compare(self._target, numbers.COMPARE_NOT_EQUAL, self.key, operand)

    def __lt__(self, operand: int) -> Compare:
        return Compare(self._target, numbers.COMPARE_LESS, self.key, operand)

    def __gt__(self, operand: int) -> Compare:
        return Compare(self._target, numbers.COMPARE_GREATER, self.key, operand)


class Version(_NumberSide):
    """How often the key was changed since its creation; 0: it does not exist."""

    __slots__ = ()
    _target = numbers.COMPARE_VERSION


class CreateRevision(_NumberSide):
    """The revision that created the key; 0: it does not exist."""

    __slots__ = ()
    _target = numbers.COMPARE_CREATE_REVISION


class ModRevision(_NumberSide):
    """The revision that changed the key last; 0: it does not exist."""

    __slots__ = ()
    _target = numbers.COMPARE_MOD_REVISION


class Value(_Side):
    """The value of the key, by bytes in their order; of a key that does not exist no comparison holds."""

    __slots__ = ()
    _target = numbers.COMPARE_VALUE

    def __eq__(self, operand: bytes | str) -> Compare:  # type: ignore[override]
        return Compare(self._target, numbers.COMPARE_EQUAL, self.key, operand)

    def __ne__(self, operand: bytes | str) -> Compare:  # type: ignore[override]
        return Compare(self._target, numbers.COMPARE_NOT_EQUAL, self.key, operand)

    def __lt__(self, operand: bytes | str) -> Compare:
        return Compare(self._target, numbers.COMPARE_LESS, self.key, operand)

    def __gt__(self, operand: bytes | str) -> Compare:
        return Compare(self._target, numbers.COMPARE_GREATER, self.key, operand)


class LeaseId(_NumberSide):
    """The id of the lease that the key is attached to; 0: none."""

    __slots__ = ()
    _target = numbers.COMPARE_LEASE


# --- what comes back ------------------------------------------------------------------------------------------------


class KeyRecord(NamedTuple):
    """One key at one revision. version counts its changes since create_revision, from 1; lease 0: none."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int
    lease: int

    @property
    def znode(self) -> Znode | None:
        """The znode beside its data; None: the key is no znode, or values were left out."""
        return None


class ZnodeStat(NamedTuple):
    """ZooKeeper's Stat: zxids are revisions, times are ms since 1970.

    owner: the lease of an ephemeral, 2**63 of a container, 0xff << 56 | ttl of a TTL node, else 0.
    """

    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    cversion: int
    aversion: int
    owner: int
    data_length: int
    children: int
    pzxid: int


class ZnodeCreated(NamedTuple):
    """The result of a ZnodeCreate. path: with its number, if it is sequential."""

    path: str
    stat: ZnodeStat


@dataclass(frozen=True, slots=True)
class Znode:
    """A znode beside its data, which is the value of its key.

    kind: "persistent", "ephemeral", "container" or "ttl". is_null: the data is null, not empty.
    acl: (rights, scheme, id) each, rights as in ZooKeeper: 1 read, 2 write, 4 create, 8 delete, 16 admin. Empty:
    everybody may do everything.
    """

    stat: ZnodeStat
    kind: str
    ttl_ms: int
    is_null: bool
    acl: tuple[tuple[int, bytes, bytes], ...]


class ZnodeRecord(KeyRecord):
    """The KeyRecord of a znode; it equals a KeyRecord of the same fields."""

    _znode: Znode

    @property
    def znode(self) -> Znode:
        """The znode beside its data."""
        return self._znode


_META = struct.Struct("<QQQQQiiIIIBBH")  # docs/formats.md "Znodes"
_KINDS = ("persistent", "ephemeral", "container", "ttl")


def znode_record(fields: tuple[Any, ...], extension: bytes, acl: list[Any]) -> ZnodeRecord:
    """The record of a znode. fields: of a KeyRecord; extension: as it came; acl: the rights at its beginning."""
    mzxid, pzxid, ctime_ms, mtime_ms, ttl_ms, version, aversion, creates, children, _, kind, flags, _ = _META.unpack(
        extension[-_META.size :]
    )
    record = ZnodeRecord(*fields)
    owner = (0, record.lease, 1 << 63, 0xFF << 56 | ttl_ms)[kind]
    czxid = 0 if flags & 2 else record.create_revision
    cversion = (2 * creates - children + (1 << 31)) % (1 << 32) - (1 << 31)
    stat = ZnodeStat(
        czxid, mzxid, ctime_ms, mtime_ms, version, cversion, aversion, owner, len(record.value), children, pzxid
    )
    record._znode = Znode(stat, _KINDS[kind], ttl_ms, bool(flags & 1), tuple(tuple(entry) for entry in acl))
    return record


def with_key(record: KeyRecord, key: bytes) -> KeyRecord:
    """The same record under another key; of a znode with all that belongs to it."""
    renamed = type(record)(key, *record[1:])
    if isinstance(record, ZnodeRecord) and isinstance(renamed, ZnodeRecord):
        renamed._znode = record._znode
    return renamed


@dataclass(frozen=True, slots=True)
class RangeResult:
    """records: in order of keys. more: the range has keys beyond the limit.

    count: how many records and prefixes these are; where it was asked for, how many the range has.
    revision: the records are as of this one; a watch from the next one on tells every later change. 0 among the results
    of a transaction, whose reply has the revision.
    prefixes: with a delimiter, the prefixes that keys share, in order, each up to and with the delimiter.
    """

    count: int
    records: list[KeyRecord]
    more: bool = False
    revision: int = field(default=0, compare=False)
    prefixes: tuple[bytes, ...] = ()

    @property
    def next_start(self) -> bytes:
        """The start of the page behind this one: range(found.next_start, prefix=...). Empty without a record."""
        last = self.records[-1].key if self.records else b""
        if self.prefixes and self.prefixes[-1] > last:
            return prefix_end(self.prefixes[-1])
        return last + b"\0" if last else b""


class TxnResult(NamedTuple):
    """succeeded: every compare held. results: one for each operation of the branch that ran."""

    succeeded: bool
    results: list[int | KeyRecord | RangeResult | TxnResult | None]


@dataclass(frozen=True, slots=True)
class Fence:
    """Proof that a lead, lock, membership or lease is still held: key exists with exactly this create revision."""

    key: Key
    create_revision: int
