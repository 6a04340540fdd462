"""Pickles as PySyncObj makes and reads them: protocol 2, and text of Python 2 that is no text comes back as bytes.

Calls, results of dumps and answers of the admin protocol that this package reads from a network are no pickles.
"""

from __future__ import annotations

import io
import pickle
import struct
from typing import IO, Any, ClassVar

__all__ = ["dump", "dumps", "load", "loads", "to_bytes"]

PROTOCOL = 2


def to_bytes(data: bytes | str) -> bytes:
    return data if isinstance(data, bytes) else data.encode("utf-8")


def _text_or_bytes(unpickler: Any, size: int) -> None:
    data = unpickler.read(size)
    try:
        unpickler.append(data.decode(unpickler.encoding, unpickler.errors))
    except UnicodeDecodeError:
        unpickler.append(data)


def _short_text(unpickler: Any) -> None:
    _text_or_bytes(unpickler, unpickler.read(1)[0])


def _long_text(unpickler: Any) -> None:
    (size,) = struct.unpack("<i", unpickler.read(4))
    if size < 0:
        raise pickle.UnpicklingError("a text of negative length")
    _text_or_bytes(unpickler, size)


class _OldUnpickler(pickle._Unpickler):  # the one in Python, whose opcodes can be replaced
    dispatch: ClassVar[dict[int, Any]] = {
        **pickle._Unpickler.dispatch,
        pickle.SHORT_BINSTRING[0]: _short_text,
        pickle.BINSTRING[0]: _long_text,
    }


def load(file: IO[bytes]) -> Any:
    return loads(file.read())


def loads(data: bytes | str) -> Any:
    """The value. A pickle runs code of whoever made it (docs/pysyncobj.md "Who may connect")."""
    data = to_bytes(data)
    try:
        return pickle.loads(data)  # noqa: S301
    except UnicodeDecodeError:
        return _OldUnpickler(io.BytesIO(data)).load()


def dump(obj: Any, file: IO[bytes], protocol: int | None = None) -> None:
    file.write(dumps(obj, protocol))


def dumps(obj: Any, protocol: int | None = None) -> bytes:
    return pickle.dumps(obj, PROTOCOL if protocol is None else protocol)
