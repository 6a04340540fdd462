"""Keys, values and records as JSON for the page. The page shows all of it as text, and never as HTML.

A key is named by its bytes in base64url (`id`), so that a key that is no text has a name too. Text for people beside it
has every character that cannot be printed as an escape. A long value is cut, and says so.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from raftmeta.errors import InvalidArgument
from raftmeta.operations import KeyRecord
from raftmeta.recipes.keys import unpack_holder
from raftmeta.results import WatchEvent

__all__ = ["change_shape", "key_id", "key_shape", "key_text", "raw_of", "record_shape", "value_shape"]

LINE_CHARACTERS_MAX = 200  # of a value in a list
TEXT_BYTES_MAX = 64 * 1024  # of a value by itself
DUMP_BYTES_MAX = 4 * 1024
DUMP_WIDTH = 16
ID_CHARACTERS_MAX = 8192


def key_id(key: bytes) -> str:
    """The name of a key in requests."""
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def raw_of(id: str, field: str) -> bytes:
    """The key of a name. Raises InvalidArgument."""
    try:
        if len(id) > ID_CHARACTERS_MAX:
            raise ValueError(id)
        return base64.b64decode(id + "=" * (-len(id) % 4), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise InvalidArgument(f"{field}: must be base64url", field=field) from None


def key_text(raw: bytes) -> str:
    """Bytes for people: text as it is, anything else as escapes."""
    text = raw.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def key_shape(key: bytes) -> dict[str, str]:
    return {"id": key_id(key), "text": key_text(key)}


def _is_text(raw: bytes) -> bool:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return False
    return all(one.isprintable() or one in "\n\t\r" for one in text)


def _dump(raw: bytes) -> str:
    """Offsets, bytes and characters, as `xxd` prints them."""
    lines = []
    for start in range(0, min(len(raw), DUMP_BYTES_MAX), DUMP_WIDTH):
        part = raw[start : start + DUMP_WIDTH]
        characters = "".join(chr(one) if 32 <= one < 127 else "." for one in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{3 * DUMP_WIDTH - 1}}  {characters}")
    return "\n".join(lines)


def value_shape(value: bytes) -> dict[str, Any]:
    """A value by itself: as text, or as a dump of its bytes. holder: of a value that a recipe wrote."""
    is_cut = len(value) > TEXT_BYTES_MAX
    head = value[:TEXT_BYTES_MAX].decode("utf-8", "ignore").encode() if is_cut else value  # through no character
    is_text = _is_text(head)
    shape: dict[str, Any] = {
        "bytes": len(value),
        "text": head.decode() if is_text else _dump(value),
        "is_text": is_text,
        "is_cut": is_cut if is_text else len(value) > DUMP_BYTES_MAX,
    }
    holder = unpack_holder(value)
    if holder.owner.name:
        shape["holder"] = {"owner": holder.owner.name, "data": key_text(holder.data[:TEXT_BYTES_MAX])}
    return shape


def _line(value: bytes) -> str:
    holder = unpack_holder(value)
    raw = holder.data if holder.owner.name else value
    text = key_text(raw[: 4 * LINE_CHARACTERS_MAX])
    return text[:LINE_CHARACTERS_MAX] + ("…" if len(text) > LINE_CHARACTERS_MAX else "")


def record_shape(record: KeyRecord) -> dict[str, Any]:
    """A record in a list."""
    return {
        **key_shape(record.key),
        "line": _line(record.value),
        "bytes": len(record.value),
        "revision": record.mod_revision,
        "created": record.create_revision,
        "version": record.version,
        "lease": f"{record.lease:016x}" if record.lease else "",
    }


def change_shape(event: WatchEvent) -> dict[str, Any]:
    """A change that a watch tells."""
    if event.type == "delete":
        return {"type": "delete", **key_shape(event.key), "revision": event.revision}
    return {"type": "put", **record_shape(event.record)}
