"""PySyncObj's journal, and the effect of its commands on PySyncObj's own classes.

A journal is "PYSYNCOBJ", versions, the offset of its end, then (size, index, term, command, size) for each entry. It
has no checksum, so a reader can check only three things: both sizes, indexes without gaps, and an end within the file.
A command names its method by a number: methods of all replicated objects are counted in order of (version, object,
name). This module knows the numbers of PySyncObj's own classes only, and imports and runs nothing of a user's class.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from raftmeta.migrate.plain_data import NotData, read_data
from raftmeta.migrate.problems import SourceDamaged

__all__ = ["Entry", "UnknownMethod", "apply_command", "method_names", "read_journal"]

FORMAT_NAME = b"PYSYNCOBJ"
FORMAT_VERSION = 1
_HEADER = struct.Struct("<24s8sII")
_SIZE = struct.Struct("<I")
_ENTRY = struct.Struct("<QQ")
REGULAR, NO_OP, MEMBERSHIP, VERSION = range(4)


class Entry(NamedTuple):
    """One entry of the journal. number: its index. offset: of its record in the file."""

    offset: int
    number: int
    term: int
    command: bytes


class UnknownMethod(Exception):
    """A command calls a method that is not PySyncObj's own."""


def read_journal(path: Path) -> Iterator[Entry]:
    """The entries of a journal. Raises SourceDamaged."""
    data = path.read_bytes()
    if len(data) < _HEADER.size:
        raise SourceDamaged(path, 0, "no journal of PySyncObj's: it is too short")
    name, _, version, end = _HEADER.unpack_from(data)
    if name.rstrip(b"\0") != FORMAT_NAME or version != FORMAT_VERSION:
        raise SourceDamaged(path, 0, f"no journal of PySyncObj's of format {FORMAT_VERSION}")
    if not _HEADER.size <= end <= len(data):
        raise SourceDamaged(path, _HEADER.size - 4, f"the journal should end at byte {end} and has {len(data)}")
    offset, previous = _HEADER.size, 0
    while offset < end:
        size = _SIZE.unpack_from(data, offset)[0] if offset + 4 <= end else 0
        last = offset + 4 + size
        if size < _ENTRY.size or last + 4 > end or _SIZE.unpack_from(data, last)[0] != size:
            raise SourceDamaged(path, offset, f"an entry of {size} bytes that does not end so")
        index, term = _ENTRY.unpack_from(data, offset + 4)
        if previous and index != previous + 1:
            raise SourceDamaged(path, offset, f"entry {index} follows entry {previous}")
        yield Entry(offset, index, term, data[offset + 4 + _ENTRY.size : last])
        previous = index
        offset = last + 4


# --- PySyncObj's own classes (batteries.py) ---------------------------------------------------------------------------

State = dict[str, Any]
Method = Callable[..., None]


def _set_field(field: str) -> Method:
    def method(state: State, value: Any) -> None:
        state[field] = value

    return method


def _call(field: str, name: str) -> Method:
    """A method of the list, dict or set that the object keeps."""

    def method(state: State, *arguments: Any, **named: Any) -> None:
        getattr(state[field], name)(*arguments, **named)

    return method


def _add(sign: int) -> Method:
    def method(state: State, value: int = 1) -> None:
        state["counter"] += sign * value

    return method


def _set_at(state: State, position: Any, value: Any) -> None:
    state["data"][position] = value


def _pop_position(state: State, position: Any = None) -> None:
    state["data"].pop(position)  # as PySyncObj's own does: without a position it raises


def _pop_key(state: State, key: Any, default: Any = None) -> None:
    state["data"].pop(key, default)


def _pop_any(state: State) -> None:
    raise UnknownMethod("pop of a set: which element it took is not written")


_DATA = {name: _call("data", name) for name in ("append", "extend", "insert", "remove", "update", "add", "discard")}

# kind -> (name of the attribute that tells it, its short name here, method with its version -> what it does)
KINDS: dict[str, tuple[str, str, dict[str, Method]]] = {
    "counter": (
        "_ReplCounter__counter",
        "counter",
        {"add_v0": _add(1), "inc_v0": _add(1), "set_v0": _set_field("counter"), "sub_v0": _add(-1)},
    ),
    "list": (
        "_ReplList__data",
        "data",
        {
            "__setitem___v1": _set_at,
            "append_v0": _DATA["append"],
            "extend_v0": _DATA["extend"],
            "insert_v0": _DATA["insert"],
            "pop_v0": _pop_position,
            "remove_v0": _DATA["remove"],
            "reset_v0": _set_field("data"),
            "set_v0": _set_at,
            "sort_v0": _call("data", "sort"),
        },
    ),
    "dict": (
        "_ReplDict__data",
        "data",
        {
            "__setitem___v0": _set_at,
            "clear_v0": _call("data", "clear"),
            "pop_v0": _pop_key,
            "reset_v0": _set_field("data"),
            "set_v0": _set_at,
            "setdefault_v0": _call("data", "setdefault"),
            "update_v0": _DATA["update"],
        },
    ),
    "set": (
        "_ReplSet__data",
        "data",
        {
            "add_v0": _DATA["add"],
            "clear_v0": _call("data", "clear"),
            "discard_v0": _DATA["discard"],
            "pop_v0": _pop_any,
            "remove_v0": _DATA["remove"],
            "reset_v0": _set_field("data"),
            "update_v0": _DATA["update"],
        },
    ),
}


def method_names(kinds: Sequence[str]) -> list[tuple[int, str]]:
    """(position of the object, method) by the number that commands use. Raises UnknownMethod: a kind has no table."""
    methods = []
    for position, kind in enumerate(kinds):
        if kind not in KINDS:
            raise UnknownMethod(kind)
        methods += [(int(name.rpartition("_v")[2]), position, name) for name in KINDS[kind][2]]
    return [(position, name) for _, position, name in sorted(methods)]


def apply_command(path: Path, entry: Entry, kinds: Sequence[str], states: Sequence[State]) -> None:
    """Make the change of a command. Raises UnknownMethod, or SourceDamaged."""
    if entry.command[:1] != bytes([REGULAR]):
        return  # a new leader, a change of members, or of the code's version
    try:
        command = read_data(entry.command[1:])
    except NotData as error:
        raise SourceDamaged(path, entry.offset, f"the command of entry {entry.number}: {error}") from error
    number, *rest = command if isinstance(command, tuple) else (command,)
    arguments, named = (*rest, {})[:2] if rest else ((), {})
    methods = method_names(kinds)
    if not isinstance(number, int) or not 0 <= number < len(methods) or not isinstance(named, dict):
        raise UnknownMethod(f"method {number!r}")
    position, name = methods[number]
    try:
        KINDS[kinds[position]][2][name](states[position], *arguments, **named)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        # There it would have stopped the cluster for good, so it is another method that has this number.
        raise UnknownMethod(f"{name} raises {error!r}") from error
