"""Where the recipes keep what they hold, and what the values are made of (docs/formats.md "Keys of the recipes").

All keys of the recipes begin with ROOT. A name given by a user is one part of a key: "/" and everything else that is
not plain text is written in percent encoding, so that no two names give one key. A name that would be long so is "="
and its SHA-256, and its holder's value has the name. Nothing here talks to a store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

import msgpack

from raftmeta.errors import InvalidArgument
from raftmeta.interfaces import Data, FenceLike, Owner
from raftmeta.operations import Fence, Key

ROOT = "_raftmeta/"
FORMAT_HOLDER = 1
FORMAT_NAMED_HOLDER = 2  # its key does not tell its name
FORMAT_PART_BYTES_MAX = 200  # of a name in percent encoding; two of them, ROOT and a kind fit into a key
NAME_CHARACTERS_MAX = 1024
_HASHED = "="  # percent encoding never leaves it as it is
_NOBODY = Owner("", 0, 0)


class Holder(NamedTuple):
    """The value of a key that somebody holds. id: "" where the key tells it."""

    owner: Owner
    data: bytes
    id: str = ""


def to_bytes(data: Data, field: str = "data") -> bytes:
    """str as its UTF-8."""
    if isinstance(data, str):
        try:
            return data.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"{field}: has no UTF-8 form", field=field) from error
    if isinstance(data, bytes):
        return data
    raise InvalidArgument(f"{field}: must be bytes or str, not {type(data).__name__}", field=field)


def fence_of(fence: FenceLike | None) -> Fence | None:
    """The fence of whatever is held."""
    return fence if fence is None or isinstance(fence, Fence) else fence.fence


def quoted(name: str, field: str) -> str:
    """A name in percent encoding: no two names give the same text. Raises InvalidArgument that names field."""
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"{field}: must be a str that is not empty, not {name!r:.100}", field=field)
    if len(name) > NAME_CHARACTERS_MAX:
        raise InvalidArgument(f"{field}: {len(name)} characters, more than {NAME_CHARACTERS_MAX}", field=field)
    try:
        return quote(name, safe="")
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{field}: {name!r:.100} is no text: {error.reason}", field=field) from None


def part_of(name: str, field: str) -> str:
    """A name as one part of a key. Raises InvalidArgument that names field."""
    part = quoted(name, field)
    return part if len(part) <= FORMAT_PART_BYTES_MAX else _HASHED + hashlib.sha256(name.encode()).hexdigest()


def prefix_of(kind: str, name: str, field: str = "name") -> str:
    """The prefix of all keys of one group, service, lock ..., for instance prefix_of("groups", "brokers")."""
    return f"{ROOT}{kind}/{part_of(name, field)}/"


def tells_name(key: bytes, prefix: str) -> bool:
    """Whether the last part of a key below prefix is a name, and not the hash of one."""
    return not key.startswith(_HASHED.encode(), len(prefix))


def name_in(key: bytes, prefix: str) -> str:
    """The name that the last part of a key below prefix stands for, if it tells it."""
    return unquote(key[len(prefix) :].decode(errors="replace"))


def key_of(raw: bytes) -> Key:
    """A key as the verbs take it: str if it is text, else bytes. Anybody may put keys that are none below a prefix."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def is_reserved(key: Key) -> bool:
    """Whether a key belongs to the recipes."""
    return key.startswith(ROOT) if isinstance(key, str) else key.startswith(ROOT.encode())


def check_key(key: object) -> str:
    """A key of a user's own."""
    if not isinstance(key, str):
        raise InvalidArgument(f"key: must be str, not {type(key).__name__}", field="key")
    if is_reserved(key):
        raise InvalidArgument(f"key: {key!r} begins with {ROOT!r}, which belongs to the recipes", field="key")
    return key


def key_set(keys: Iterable[bytes]) -> frozenset[str]:
    """The user's own keys among these."""
    return frozenset(key.decode(errors="surrogateescape") for key in keys if not is_reserved(key))


def pack_holder(owner: Owner, data: bytes, *, key: str = "", id: str = "") -> bytes:
    """id: of what is held, if it has one; it is packed where the key does not tell it."""
    fields = [FORMAT_HOLDER, owner.name, owner.incarnation, owner.boot, data]
    if id and not tells_name(key.encode(), key[: key.rindex("/") + 1]):
        fields = [FORMAT_NAMED_HOLDER, *fields[1:], id]
    packed: bytes = msgpack.packb(fields)
    return packed


def unpack_holder(value: bytes) -> Holder:
    """Take a value apart. A value that no recipe wrote is all data, of an owner that nobody succeeds."""
    try:
        fields: Any = msgpack.unpackb(value)
        form, name, incarnation, boot, data, *rest = fields
    except (ValueError, TypeError, msgpack.UnpackException):
        return Holder(_NOBODY, value)
    kinds = [type(field) for field in (form, name, incarnation, boot, data)]
    is_named = form == FORMAT_NAMED_HOLDER and len(rest) == 1 and type(rest[0]) is str
    if kinds != [int, str, int, int, bytes] or not (is_named or (form == FORMAT_HOLDER and not rest)):
        return Holder(_NOBODY, value)
    return Holder(Owner(name, incarnation, boot), data, rest[0] if is_named else "")
