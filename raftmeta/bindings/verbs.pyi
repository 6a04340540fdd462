"""A caller's question: the arguments of a verb, its command, and how it is asked again."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Generic, Protocol, Self, TypeVar

from raftmeta.bindings.revision import Revision
from raftmeta.interfaces import FenceLike
from raftmeta.operations import CompareOperator, Key, Operation, ZnodeOperation
from raftmeta.results import TxnReply, ZnodesReply

_Answer_co = TypeVar("_Answer_co", covariant=True)

class _HasId(Protocol):
    """A lease of any store."""

    @property
    def id(self) -> int: ...

class _AioCarrier(Protocol):
    """How a request travels. A deadline is what `_prepare` made, by the carrier's own clock."""

    def _prepare(self, request: Request[Any], timeout_s: float | None) -> Any: ...
    def _has_session(self) -> bool: ...
    async def _session(self, deadline: Any) -> None: ...
    def _carry(self, request: Request[Any], deadline: Any) -> Awaitable[Any]: ...
    def _is_late(self, deadline: Any) -> bool: ...

class _Prefix(Protocol):
    """It puts keys below a prefix (verbs/prefix)."""

    def key(self, key: Any) -> Any: ...
    def bounds(self, start: Any, end: Any) -> tuple[Any, Any]: ...
    def items(self, items: Any) -> Any: ...
    def fence(self, fence: Any) -> Any: ...
    def compare(self, compare: Any) -> Any: ...
    def operation(self, operation: Any) -> Any: ...
    def rights(self, verb: int, data: bytes) -> bytes: ...

class Request(Generic[_Answer_co]):
    """One operation, from its arguments to its answer. It is asked once.

    purpose: what its answer looks like. is_answered: nothing of it is left to be asked.
    """

    @property
    def purpose(self) -> int: ...
    @property
    def is_answered(self) -> bool: ...
    async def ask_aio(self, carrier: _AioCarrier, timeout_s: float | None) -> _Answer_co:
        """Ask until it is answered, and return the answer.

        A command whose session ended before it arrived was certainly not executed, and is encoded anew.
        """
    def check(self, value_bytes_max: int) -> None:
        """Raise InvalidArgument, whose field names the argument that is wrong."""
    def under(self, prefix: _Prefix) -> Self:
        """This request, before it is asked, with all its keys put below a prefix."""

def put(
    key: Key,
    value: bytes | str | None,
    lease: int | _HasId | None = 0,
    fence: FenceLike | None = None,
    previous: bool = False,
) -> Request[Revision]:
    """Set a key, new or not."""

def create(key: Key, value: bytes | str, lease: int | _HasId = 0, fence: FenceLike | None = None) -> Request[Revision]:
    """Set a key that must not exist."""

def update(
    key: Key,
    value: bytes | str | None,
    expected_revision: int = 0,
    lease: int | _HasId | None = 0,
    fence: FenceLike | None = None,
    previous: bool = False,
) -> Request[Revision]:
    """Set a key that must exist."""

def delete(
    key: Key,
    expected_revision: int = 0,
    must_exist: bool = False,
    fence: FenceLike | None = None,
    previous: bool = False,
) -> Request[Revision]:
    """Remove a key."""

def delete_range(start: Key, end: Key, fence: FenceLike | None = None, previous: bool = False) -> Request[Revision]:
    """Remove the keys of [start, end)."""

def add(key: Key, number: int = 1, fence: FenceLike | None = None) -> Request[Revision]:
    """Add to a counter."""

def put_many(
    items: Mapping[Key, bytes | str] | Iterable[tuple[Key, bytes | str]],
    lease: int | _HasId = 0,
    fence: FenceLike | None = None,
) -> Request[Revision | None]:
    """Set many keys, in as many commands as they need. An error has items_done."""

def txn(
    compares: Iterable[CompareOperator] = (),
    then: Iterable[Operation] = (),
    otherwise: Iterable[Operation] = (),
    fence: FenceLike | None = None,
) -> Request[TxnReply]:
    """Do `then` or `otherwise`."""

def compact(revision: int) -> Request[Revision]:
    """Move the floor of the history."""

def grant(lease: int, ttl_ms: int) -> Request[int]:
    """Grant a lease; lease 0: the cluster chooses its id."""

def end_process(member: int, boot: int) -> Request[Revision]:
    """The processes of that incarnation up to this boot are gone. Raises InvalidArgument."""

def revoke(lease: int) -> Request[Revision]:
    """Revoke a lease."""

def change_rights(verb: int, name: bytes, data: bytes) -> Request[Revision]:
    """Change users, roles or rights; docs/formats.md "Rights"."""

def machine_call(machine: bytes, call: bytes, fence: FenceLike | None = None) -> Request[bytes]:
    """A command of a user machine, for a client: its answer is its outcome."""

def group(key: Key, asked: tuple[Any, ...], lease: int | _HasId = 0) -> Request[tuple[Any, int]]:
    """A request for a worker group: (verb, fields as in docs/formats.md "Groups"). Its answer: (body, revision)."""

def znodes(
    operations: Iterable[ZnodeOperation],
    lease: int | _HasId = 0,
    identities: Iterable[tuple[Key, Key]] = (),
    root: Key = "zookeeper",
    fence: FenceLike | None = None,
    after: Request[ZnodesReply] | None = None,
) -> Request[ZnodesReply]:
    """Change znodes, all or nothing.

    after: another request of this kind that was sent before, and perhaps not answered. This one is applied behind it. A
    node that has not applied `after` refuses this one as NotReady, and nothing is kept. The order ends with the first
    sending: who asks again because a session ended waits until the earlier requests are answered.
    """

def range_bounds(start: Key, end: Key, prefix: Key | None) -> tuple[Key, Key]:
    """(start, end) of the arguments of a range: prefix, or start and end. Raises InvalidArgument."""

def with_result(answer: Revision, result: Any) -> Revision:
    """The same answer with another result."""

def raw_bound(bound: Key, field: str, *, is_page: bool = False) -> bytes:
    """A bound of a range as bytes; is_page: where a page may start. Raises InvalidArgument with the name of the field."""

def watch_bounds(key: Key | None, end: Key | None, prefix: Key | None) -> tuple[bytes, bytes]:
    """[start, end) of the arguments of a watch: one key is the range up to its successor, an empty end that of all keys.

    Raises InvalidArgument.
    """

def revision_of(revision: Any, field: str) -> int:
    """An int from 0 to 2**63 - 1. Raises InvalidArgument with the name of the field."""

def check_ttl(ttl_s: float) -> int:
    """A time to live in milliseconds. Raises InvalidArgument unless it is 0.1 seconds to 10 years."""
