"""Plain Python values as bytes and back: what commands, results and states of user machines are made of.

    None  bool  int (of any size)  float  str  bytes  list  tuple  dict  set  frozenset

A value comes back equal and of the same types, and equal values are the same bytes (dicts with the same order of keys),
on every node and in every version: a state that was loaded must behave as the one that was dumped. So subclasses and
everything else are refused, never approximated; only bytearray and memoryview are taken, as bytes. msgpack; what it
lacks stands in extension types.
"""

from __future__ import annotations

from typing import Any

import msgpack

from raftmeta.errors import InvalidArgument

__all__ = ["pack", "unpack"]

# FORMAT_: extension types.
FORMAT_TUPLE = 1
FORMAT_SET = 2
FORMAT_FROZENSET = 3
FORMAT_BIG_INT = 4  # two's complement, little-endian


def _extension(value: Any) -> msgpack.ExtType:
    kind = type(value)
    if kind is tuple:
        return msgpack.ExtType(FORMAT_TUPLE, pack(list(value)))
    if kind is set or kind is frozenset:
        # The order of a set differs between processes; that of its elements' bytes does not.
        elements = sorted(pack(element) for element in value)
        return msgpack.ExtType(FORMAT_SET if kind is set else FORMAT_FROZENSET, pack(elements))
    if kind is int:
        return msgpack.ExtType(FORMAT_BIG_INT, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    raise InvalidArgument(
        f"value: {kind.__module__}.{kind.__qualname__} is not a plain value (user_machines/values.py lists them)",
        field="value",
    )


def _value(code: int, data: bytes) -> Any:
    if code == FORMAT_TUPLE:
        return tuple(unpack(data))
    if code == FORMAT_SET:
        return {unpack(element) for element in unpack(data)}
    if code == FORMAT_FROZENSET:
        return frozenset(unpack(element) for element in unpack(data))
    if code == FORMAT_BIG_INT:
        return int.from_bytes(data, "little", signed=True)
    raise InvalidArgument(f"value: extension type {code} is not known to this version", field="value")


def pack(value: Any) -> bytes:
    """The bytes of a plain value. Raises InvalidArgument, naming the type, for anything else."""
    try:
        packed: bytes = msgpack.packb(value, default=_extension, strict_types=True, use_bin_type=True)
    except RecursionError:
        raise InvalidArgument("value: it is nested too deep", field="value") from None
    except (OverflowError, ValueError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"value: {error}", field="value") from None
    return packed


def unpack(data: bytes) -> Any:
    """The value of bytes that pack made. Raises InvalidArgument for other bytes."""
    try:
        return msgpack.unpackb(data, ext_hook=_value, strict_map_key=False, raw=False)
    except (TypeError, ValueError, msgpack.exceptions.ExtraData) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(f"value: these bytes are no value: {error}", field="value") from None
