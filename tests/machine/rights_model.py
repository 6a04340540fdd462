"""Rights as a plain model: sets of grants, asked key by key. Ranges are judged over a small world of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.machine import commands as c

Range = tuple[bytes, bytes]  # [start, end); end b"": behind the last key


def holds(start: bytes, end: bytes, key: bytes) -> bool:
    return start <= key and (not end or key < end)


@dataclass
class RightsModel:
    """Users, their roles, and what the roles grant."""

    grants: dict[bytes, dict[Range, int]] = field(default_factory=dict)
    roles: dict[bytes, set[bytes]] = field(default_factory=dict)

    def change(self, verb: int, name: bytes, other: bytes = b"", bits: int = 0, keys: Range = (b"", b"")) -> None:
        if verb == c.GRANT_RIGHT:
            granted = self.grants[name]
            granted[keys] = granted.get(keys, 0) | bits
        elif verb == c.REVOKE_RIGHT:
            self.grants[name][keys] = self.grants[name].get(keys, 0) & ~bits
        elif verb == c.BIND:
            self.roles[name].add(other)
        else:
            self.roles[name].discard(other)

    def granted(self, user: bytes) -> list[tuple[Range, int]]:
        return [item for role in self.roles.get(user, ()) for item in self.grants[role].items()]

    def has(self, user: bytes, right: int) -> bool:
        """Whether the user has the right over any range at all."""
        return any(bits & (right | c.ADMIN) for _, bits in self.granted(user))

    def may(self, user: bytes, right: int, key: bytes) -> bool:
        return any(bits & c.ADMIN or (bits & right and holds(*keys, key)) for keys, bits in self.granted(user))

    def may_all(self, user: bytes, right: int, start: bytes, end: bytes, bounds: Sequence[bytes]) -> bool:
        """The same over [start, end). bounds: all places at which a grant begins or ends."""
        if end and end <= start:
            return True
        places = [start, *(bound for bound in bounds if start < bound and (not end or bound < end))]
        return all(self.may(user, right, place) for place in places)


Need = tuple[int, bytes, bytes | None]  # a right over [start, end); None: over the key `start`


def needs_of_txn(txn: Sequence[Any]) -> Iterator[Need]:
    """All that a transaction could do, in whichever branch."""
    compares, then, otherwise = txn
    for target, _, key, operand in compares:
        yield c.READ, key, operand if target == c.RANGE_EMPTY else None
    for operation in [*then, *otherwise]:
        yield from needs_of(operation)


def needs_of(operation: Sequence[Any]) -> Iterator[Need]:
    kind, flags, first = operation[:3]
    if kind == c.TXN:
        yield from needs_of_txn(first)
        return
    start, end = first, operation[3] if kind in (c.RANGE, c.DELETE_RANGE) else None
    if flags & c.KEY_FROM_RESULT and kind in (c.PUT, c.CREATE):
        start, end = first + b"0", first + b":"
    lease = operation[4] if kind in (c.PUT, c.CREATE, c.UPDATE) else 0
    if kind not in (c.GET, c.RANGE):
        yield c.WRITE, start, end
    if kind != c.PUT or flags & (c.WANT_PREVIOUS | c.KEEP_VALUE) or lease:
        yield c.READ, start, end
    if lease:
        yield c.HOLD, start, end
