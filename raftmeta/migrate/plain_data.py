"""Data out of a file in Python's object format, without running any of it.

The format is a program: its opcodes import names and call them. This module follows only opcodes that make data (None,
numbers, texts, bytes, lists, tuples, dicts, sets). It refuses everything that would import, call or build, except the
few names with which Python itself writes data. It does not import those either: it makes their results itself. The
standard library's pickletools takes the opcodes apart and executes nothing.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import Any, BinaryIO

from raftmeta.errors import RaftmetaError

__all__ = ["NotData", "Opaque", "read_data"]

_MARK = object()


class NotData(RaftmetaError):
    """The file would run code, or is broken. offset: of the opcode in the data."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(f"byte {offset}: {what}")
        self.offset = offset


class Opaque:
    """Stands in for an object whose class is known to be no data and that nobody needs. name: of the class."""

    def __init__(self, name: str) -> None:
        self.name = name


def _bytes_of(arguments: tuple[Any, ...]) -> bytes:
    """Bytes as protocol 2 writes them: a text, to be encoded as Latin-1."""
    text, encoding = arguments
    if encoding != "latin1":
        raise ValueError(f"an encoding {encoding!r}")
    return bytes(text.encode("latin-1"))


# The names that are followed, and what they make of their arguments.
_MAKERS: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "_codecs encode": _bytes_of,
    "__builtin__ bytes": lambda arguments: _bytes_of(arguments) if arguments else b"",
    "__builtin__ set": lambda arguments: set(*arguments),
    "builtins set": lambda arguments: set(*arguments),
    "__builtin__ frozenset": lambda arguments: frozenset(*arguments),
    "builtins frozenset": lambda arguments: frozenset(*arguments),
    "__builtin__ bytearray": lambda arguments: _bytes_of(arguments) if arguments else b"",
    "collections deque": lambda arguments: list(*arguments[:1]),
    "collections OrderedDict": lambda arguments: dict(*arguments),
}


class _Name:
    """A name that may be called, and used in no other way."""

    def __init__(self, name: str) -> None:
        self.name = name


def read_data(stream: BinaryIO | bytes, *, opaque: frozenset[str] = frozenset()) -> Any:
    """The one object of a stream. opaque: names ("module name") of classes of which an Opaque is made.

    Raises NotData: something in it is no data. Raises OSError, EOFError as the stream does.
    """
    return _Reader(opaque).read(stream)


class _Reader:
    """The stack machine of the format, cut down to data."""

    def __init__(self, opaque: frozenset[str]) -> None:
        self._opaque = opaque
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def read(self, stream: BinaryIO | bytes) -> Any:
        offset = 0
        try:
            for opcode, argument, position in pickletools.genops(stream):
                offset = position or 0
                if opcode.name == "STOP":
                    break
                self._step(opcode.name, argument)
            (result,) = [self._data(value) for value in self._stack]
        except NotData:
            raise
        except _Refused as error:
            raise NotData(offset, str(error)) from None
        except (ValueError, TypeError, IndexError, KeyError, AttributeError, UnicodeError, RecursionError) as error:
            raise NotData(offset, f"makes no sense ({error})") from error
        return result

    def _step(self, name: str, argument: Any) -> None:
        if name in _IGNORED:
            return
        if name in _LITERALS:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name]())
        elif name in _STEPS:
            _STEPS[name](self, argument)
        else:
            raise _Refused(f"opcode {name} makes more than data")

    # --- the stack ----------------------------------------------------------------------------------------------------

    def _to_mark(self) -> list[Any]:
        position = len(self._stack) - 1
        while self._stack[position] is not _MARK:
            position -= 1
            if position < 0:
                raise ValueError("there is no mark")
        found = self._stack[position + 1 :]
        del self._stack[position:]
        return [self._data(value) for value in found]

    def _pop(self) -> Any:
        return self._data(self._stack.pop())

    def _data(self, value: Any) -> Any:
        if isinstance(value, _Name):
            raise _Refused(f"the name {value.name} is used as a value")
        if value is _MARK:
            raise ValueError("a mark is used as a value")
        return value

    # --- opcodes ------------------------------------------------------------------------------------------------------

    def mark(self, _argument: Any) -> None:
        self._stack.append(_MARK)

    def put(self, argument: Any) -> None:
        self._memo[int(argument)] = self._stack[-1]

    def memoize(self, _argument: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def get(self, argument: Any) -> None:
        self._stack.append(self._memo[int(argument)])

    def append(self, _argument: Any) -> None:
        value = self._pop()
        _list(self._stack[-1]).append(value)

    def appends(self, _argument: Any) -> None:
        values = self._to_mark()
        _list(self._stack[-1]).extend(values)

    def add_items(self, _argument: Any) -> None:
        values = self._to_mark()
        _of(self._stack[-1], set).update(values)

    def set_item(self, _argument: Any) -> None:
        value, key = self._pop(), self._pop()
        _of(self._stack[-1], dict)[key] = value

    def set_items(self, _argument: Any) -> None:
        values = self._to_mark()
        _of(self._stack[-1], dict).update(zip(values[::2], values[1::2], strict=True))

    def tuple_of(self, count: int) -> None:
        values = [self._pop() for _ in range(count)]
        self._stack.append(tuple(values[::-1]))

    def tuple_to_mark(self, _argument: Any) -> None:
        self._stack.append(tuple(self._to_mark()))

    def list_to_mark(self, _argument: Any) -> None:
        self._stack.append(self._to_mark())

    def dict_to_mark(self, _argument: Any) -> None:
        values = self._to_mark()
        self._stack.append(dict(zip(values[::2], values[1::2], strict=True)))

    def frozenset_to_mark(self, _argument: Any) -> None:
        self._stack.append(frozenset(self._to_mark()))

    def name(self, argument: Any) -> None:
        if argument not in _MAKERS and argument not in self._opaque:
            raise _Refused(f"it would import {argument!r} and run it: refused, because it is no plain data")
        self._stack.append(_Name(argument))

    def stack_name(self, _argument: Any) -> None:
        name, module = self._pop(), self._pop()
        self.name(f"{module} {name}")

    def call(self, _argument: Any) -> None:
        arguments, called = self._pop(), self._stack.pop()
        if not isinstance(called, _Name) or not isinstance(arguments, tuple):
            raise _Refused("it would call something that is no known name")
        maker = _MAKERS.get(called.name)
        self._stack.append(Opaque(called.name) if maker is None else maker(arguments))

    def build(self, _argument: Any) -> None:
        """Throw away the state of an Opaque; setting the state of any other object is refused."""
        self._pop()
        if not isinstance(self._stack[-1], Opaque):
            raise _Refused("it would set the state of an object")


class _Refused(Exception):
    """An opcode that is not followed."""


def _of(value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"a {kind.__name__} was expected")
    return value


def _list(value: Any) -> list[Any]:
    found: list[Any] = _of(value, list)
    return found


_IGNORED = {"PROTO", "FRAME"}
_LITERALS = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_DICT": dict,
    "EMPTY_SET": set,
}
_STEPS: dict[str, Callable[[_Reader, Any], None]] = {
    "MARK": _Reader.mark,
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _Reader.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Reader.get),
    "MEMOIZE": _Reader.memoize,
    "APPEND": _Reader.append,
    "APPENDS": _Reader.appends,
    "ADDITEMS": _Reader.add_items,
    "SETITEM": _Reader.set_item,
    "SETITEMS": _Reader.set_items,
    "TUPLE": _Reader.tuple_to_mark,
    "TUPLE1": lambda reader, _: reader.tuple_of(1),
    "TUPLE2": lambda reader, _: reader.tuple_of(2),
    "TUPLE3": lambda reader, _: reader.tuple_of(3),
    "LIST": _Reader.list_to_mark,
    "DICT": _Reader.dict_to_mark,
    "FROZENSET": _Reader.frozenset_to_mark,
    "GLOBAL": _Reader.name,
    "STACK_GLOBAL": _Reader.stack_name,
    "REDUCE": _Reader.call,
    "NEWOBJ": _Reader.call,
    "BUILD": _Reader.build,
}
