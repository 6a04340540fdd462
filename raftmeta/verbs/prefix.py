"""Prefix: keys below it, put below it on the way in and taken from below it on the way out.

It decides what becomes of each key in a request and in an answer, and never asks a store. An argument that is no key
stays as it is: the encoder refuses it by the name of its field. So no key leaves without the prefix.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from raftmeta.bindings.revision import Revision
from raftmeta.bindings.verbs import raw_bound, with_result
from raftmeta.common import numbers
from raftmeta.errors import InvalidArgument, InvariantBroken
from raftmeta.operations import (
    Add,
    Compare,
    Create,
    Delete,
    DeleteRange,
    Fence,
    Get,
    Key,
    KeyRecord,
    Put,
    Range,
    RangeEmpty,
    RangeResult,
    Txn,
    TxnResult,
    Update,
    prefix_end,
    with_key,
)
from raftmeta.results import TxnReply, WatchBatch, WatchEvent, WatchReset
from raftmeta.verbs.asked import RangeAsked, WatchAsked

__all__ = ["Prefix"]

TUNE_DEPTH_MAX = 100  # of transactions; the encoder refuses them at a fraction of this
_KEYED = (Put, Create, Update, Delete, Get, Add)
_GRANT = struct.Struct("<BHH")  # docs/formats.md "Rights"


class Prefix:
    """All keys that begin with a prefix."""

    __slots__ = ("_end", "_length", "raw")

    def __init__(self, prefix: Key) -> None:
        """Raises InvalidArgument."""
        self.raw = raw_bound(prefix, "prefix")
        if not self.raw:
            raise InvalidArgument("prefix: is empty", field="prefix")
        self._end = prefix_end(self.raw)
        self._length = len(self.raw)

    def within(self, prefix: Key) -> Prefix:
        """The prefix below this one."""
        return Prefix(self.raw + Prefix(prefix).raw)

    # --- on the way in ------------------------------------------------------------------------------------------------

    def key(self, key: Any) -> Any:
        """A key below the prefix as a key of the store."""
        return self._bound(key) if key else key

    def bounds(self, start: Any, end: Any) -> tuple[Any, Any]:
        """[start, end) below the prefix; an empty end is behind all keys below it."""
        return self._bound(start), self._end if end in (b"", "") else self._bound(end)

    def _bound(self, bound: Any) -> Any:
        if isinstance(bound, bytes):
            return self.raw + bound
        if isinstance(bound, str):
            try:
                return self.raw + bound.encode()
            except UnicodeEncodeError:
                return bound
        return bound

    def items(self, items: Any) -> Any:
        """Of put_many: a mapping, or pairs."""
        try:
            pairs = list(items.items() if hasattr(items, "items") else items)
        except TypeError:
            return items
        return [
            (self.key(pair[0]), pair[1]) if isinstance(pair, tuple | list) and len(pair) == 2 else pair
            for pair in pairs
        ]

    def fence(self, fence: Any) -> Any:
        """A fence that was made below the prefix."""
        return replace(fence, key=self.key(fence.key)) if type(fence) is Fence else fence

    def compare(self, compare: Any) -> Any:
        if type(compare) is Compare:
            return replace(compare, key=self.key(compare.key))
        if type(compare) is RangeEmpty:
            start, end = self.bounds(compare.start, compare.end)
            return replace(compare, start=start, end=end)
        return compare

    def operation(self, operation: Any, depth: int = 1) -> Any:
        if isinstance(operation, _KEYED):
            return replace(operation, key=self.key(operation.key))
        if isinstance(operation, Range | DeleteRange):
            start, end = self.bounds(operation.start, operation.end)
            return replace(operation, start=start, end=end)
        if isinstance(operation, Txn):
            if depth == TUNE_DEPTH_MAX:
                raise InvalidArgument("operation: transactions nest too deep", field="operation")
            return Txn(
                _each(self.compare, operation.compares),
                _each(lambda each: self.operation(each, depth + 1), operation.then),
                _each(lambda each: self.operation(each, depth + 1), operation.otherwise),
            )
        return operation

    def rights(self, verb: int, data: bytes) -> bytes:
        """The data of a rights command: a grant is one over keys below the prefix."""
        if verb not in (numbers.RIGHTS_GRANT, numbers.RIGHTS_REVOKE):
            return data
        rights, length, _ = _GRANT.unpack_from(data)
        start = data[_GRANT.size : _GRANT.size + length]
        first, last = self.bounds(start, data[_GRANT.size + length :])
        raw_first, raw_last = raw_bound(first, "start"), raw_bound(last, "end")
        return _GRANT.pack(rights, len(raw_first), len(raw_last)) + raw_first + raw_last

    def range(self, asked: RangeAsked) -> RangeAsked:
        start, end = self.bounds(asked.start, asked.end)
        return replace(asked, start=start, end=end, skip=asked.skip + self._length)

    def watch(self, asked: WatchAsked) -> WatchAsked:
        """Raises InvalidArgument: too long with the prefix."""
        start, end = self.bounds(asked.start, asked.end)
        raw_bound(start, "key", is_page=True)
        return replace(asked, start=start, end=raw_bound(end, "end", is_page=True))

    # --- on the way out -----------------------------------------------------------------------------------------------

    def record(self, record: KeyRecord) -> KeyRecord:
        return with_key(record, self._rest(record.key))

    def found(self, record: KeyRecord | None) -> KeyRecord | None:
        return None if record is None else self.record(record)

    def found_range(self, found: RangeResult) -> RangeResult:
        records = [self.record(record) for record in found.records]
        return replace(found, records=records, prefixes=tuple([self._rest(shared) for shared in found.prefixes]))

    def answer(self, answer: Any) -> Any:
        """The answer of any request."""
        if isinstance(answer, Revision):
            return answer if answer.result is None else with_result(answer, self._result(answer.result))
        if isinstance(answer, TxnReply):
            return replace(answer, results=[self._result(result) for result in answer.results])
        return answer

    def news(self, news: WatchBatch | WatchReset) -> WatchBatch | WatchReset:
        if isinstance(news, WatchReset):
            return WatchReset(news.revision, [self.record(record) for record in news.records])
        return news._replace(events=[self._event(event) for event in news.events])

    def _event(self, event: WatchEvent) -> WatchEvent:
        return WatchEvent(event.type, self.record(event.record), self.found(event.previous), event.revision)

    def _result(self, result: Any) -> Any:
        if isinstance(result, KeyRecord):
            return self.record(result)
        if isinstance(result, RangeResult):
            return self.found_range(result)
        if isinstance(result, TxnResult):
            return TxnResult(result.succeeded, [self._result(each) for each in result.results])
        return result

    def _rest(self, key: bytes) -> bytes:
        if not key.startswith(self.raw):
            raise InvariantBroken(f"the key {key!r} was found below {self.raw!r}")
        return key[self._length :]


def _each(change: Any, values: Any) -> Any:
    return tuple([change(value) for value in values]) if isinstance(values, Iterable) else values
