"""The text of transactions on the command line, as compares and operations.

    raftmeta txn --if 'version(jobs/7) = 0' --then 'create jobs/7 run' --else 'get jobs/7'

Compares: version, created, modified (revisions), value or lease of a key, then = != < >, then an operand;
`empty(prefix)` and `nonempty(prefix)` ask for keys with a prefix. Operations: put, create, update KEY VALUE; delete,
get KEY; delete-prefix, range PREFIX; add KEY NUMBER. Quoting is the shell's: 'put "a key" "a value"'.
"""

from __future__ import annotations

import operator as op
import re
import shlex
from collections.abc import Callable
from typing import Any

from raftmeta import operations
from raftmeta.operations import CompareOperator, Operation

__all__ = ["parse_compare", "parse_operation"]

_COMPARE = re.compile(
    r"\s*(?P<side>[a-z]+)\((?P<key>[^)]*)\)\s*(?:(?P<sign>=|!=|<|>)\s*(?P<operand>.*?))?\s*", re.DOTALL
)

_NUMBER_SIDES: dict[str, Callable[[str], operations.Version]] = {
    "version": operations.Version,
    "created": operations.CreateRevision,  # type: ignore[dict-item]
    "modified": operations.ModRevision,  # type: ignore[dict-item]
    "lease": operations.LeaseId,  # type: ignore[dict-item]
}


def parse_compare(text: str) -> CompareOperator:
    """Raises ValueError that quotes the text."""
    found = _COMPARE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no compare: write for example 'version(KEY) = 0'")
    side, key, sign, operand = found.group("side", "key", "sign", "operand")
    if side in ("empty", "nonempty") and sign is None:
        return operations.RangeEmpty.prefix(key, is_empty=side == "empty")
    if sign is None:
        raise ValueError(f"{text!r}: behind {side}({key}) stands =, !=, < or > and an operand")
    if side == "value":
        return _signed(operations.Value(key), sign, operand)
    if side not in _NUMBER_SIDES:
        raise ValueError(f"{text!r}: {side} is none of version, created, modified, value, lease, empty, nonempty")
    if not operand.lstrip("-").isdecimal():
        raise ValueError(f"{text!r}: {side} is compared with a number, not {operand!r}")
    return _signed(_NUMBER_SIDES[side](key), sign, int(operand))


def _signed(side: operations.Version | operations.Value, sign: str, operand: int | str) -> CompareOperator:
    # The sides make a Compare of a comparison, which a type checker cannot believe of `==` and `!=`.
    makers: dict[str, Callable[[Any, Any], Any]] = {"=": op.eq, "!=": op.ne, "<": op.lt, ">": op.gt}
    compare: operations.Compare = makers[sign](side, operand)
    return compare


# verb: (words behind it, what it makes)
_OPERATIONS: dict[str, tuple[int, Callable[..., Operation]]] = {
    "put": (2, operations.Put),
    "create": (2, operations.Create),
    "update": (2, operations.Update),
    "delete": (1, operations.Delete),
    "delete-prefix": (1, operations.DeleteRange.prefix),
    "get": (1, operations.Get),
    "range": (1, operations.Range.prefix),
    "add": (2, lambda key, number: operations.Add(key, int(number))),
}


def parse_operation(text: str) -> Operation:
    """Raises ValueError that quotes the text."""
    words = shlex.split(text)
    verb, arguments = words[0] if words else "", words[1:]
    if verb not in _OPERATIONS:
        raise ValueError(f"{text!r}: {verb!r} is none of {', '.join(_OPERATIONS)}")
    count, make = _OPERATIONS[verb]
    if len(arguments) != count:
        raise ValueError(f"{text!r}: {verb} takes {count} words, not {len(arguments)}")
    try:
        return make(*arguments)
    except ValueError as error:
        raise ValueError(f"{text!r}: {error}") from None
