"""Records, operations and fences as JSON and as headers, in both directions.

A key is text. A key that is none is shown as "key_base64". Values are base64 in JSON, and plain bytes as a body of
their own. Input from outside is checked here, and an InvalidArgument names the field.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any
from urllib.parse import quote, unquote

from raftmeta.errors import InvalidArgument
from raftmeta.operations import (
    CompareOperator,
    Create,
    CreateRevision,
    Delete,
    Fence,
    KeyRecord,
    ModRevision,
    Operation,
    Put,
    Update,
    Version,
)
from raftmeta.results import WatchEvent

__all__ = [
    "change_shape",
    "checks_of",
    "fence_of",
    "fence_text",
    "operation_of",
    "operations_of",
    "record_shape",
    "session_of",
    "session_text",
    "whole_number",
]

OPERATIONS_MAX = 1000
NUMBER_MAX = 2**64 - 1
_KINDS = ("create", "delete", "put", "update")
_FIELDS = {"op", "key", "value", "session", "expected_revision", "must_exist"}


def whole_number(value: Any, field: str, *, least: int = 0) -> int:
    """A number of a JSON body or of a query. Raises InvalidArgument."""
    text = value if isinstance(value, str) else ""
    if text.isascii() and text.isdecimal() and len(text) <= 20:
        value = int(text)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= NUMBER_MAX:
        raise InvalidArgument(f"{field}: must be a whole number from {least} on, not {value!r:.100}", field=field)
    return value


def session_text(lease: int) -> str:
    """A session as its user sees it."""
    return f"{lease:016x}"


def session_of(text: Any, field: str = "session") -> int:
    """The lease of a session. Raises InvalidArgument."""
    try:
        lease = int(text, 16) if isinstance(text, str) and len(text) == 16 else 0
    except ValueError:
        lease = 0
    if not lease:
        raise InvalidArgument(f"{field}: must be a session, 16 hexadecimal digits, not {text!r:.100}", field=field)
    return lease


def fence_text(key: bytes, epoch: int) -> str:
    """A fence as the header Raftmeta-Fence has it."""
    return f"{quote(key, safe='/')}@{epoch}"


def fence_of(text: str | None) -> Fence | None:
    """The fence of a header. Raises InvalidArgument."""
    if text is None:
        return None
    key, _, epoch = text.rpartition("@")
    if not key:
        raise InvalidArgument("Raftmeta-Fence: must be the fence of a member or a candidate", field="Raftmeta-Fence")
    return Fence(unquote(key), whole_number(epoch, "Raftmeta-Fence", least=1))


def _text_key(key: bytes) -> dict[str, str]:
    try:
        return {"key": key.decode()}
    except UnicodeDecodeError:
        return {"key_base64": base64.b64encode(key).decode()}


def record_shape(record: KeyRecord, *, has_value: bool = True) -> dict[str, Any]:
    """A record as JSON."""
    shape: dict[str, Any] = _text_key(record.key)
    if has_value:
        shape["value"] = base64.b64encode(record.value).decode()
    shape["revision"] = record.mod_revision
    shape["create_revision"] = record.create_revision
    shape["version"] = record.version
    if record.lease:
        shape["session"] = session_text(record.lease)
    return shape


def change_shape(event: WatchEvent) -> dict[str, Any]:
    """A change as JSON."""
    if event.type == "delete":
        return {"type": "delete", **_text_key(event.key), "revision": event.revision}
    return {"type": "put", **record_shape(event.record)}


def _key(told: dict[str, Any], field: str) -> str:
    key = told.get("key")
    if not isinstance(key, str) or not key:
        raise InvalidArgument(f"{field}.key: must be text that is not empty", field=f"{field}.key")
    return key


def _value(told: dict[str, Any], field: str) -> bytes:
    try:
        return base64.b64decode(told.get("value", ""), validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise InvalidArgument(f"{field}.value: must be base64", field=f"{field}.value") from None


def _is_object(told: Any, field: str) -> dict[str, Any]:
    if not isinstance(told, dict):
        raise InvalidArgument(f"{field}: must be an object", field=field)
    return told


def operation_of(told: Any, number: int) -> Operation:
    """One operation of a transaction. Raises InvalidArgument."""
    field = f"operations[{number}]"
    told = _is_object(told, field)
    kind = told.get("op")
    if kind not in _KINDS:
        raise InvalidArgument(f"{field}.op: must be one of {', '.join(_KINDS)}", field=f"{field}.op")
    if strange := told.keys() - _FIELDS:
        raise InvalidArgument(f"{field}: has no field {min(strange)!r:.100}", field=field)
    key = _key(told, field)
    expected = whole_number(told.get("expected_revision", 0), f"{field}.expected_revision")
    if kind == "delete":
        return Delete(key, expected, bool(told.get("must_exist", False)))
    value = _value(told, field)
    lease = session_of(told["session"], f"{field}.session") if told.get("session") else 0
    if kind == "update":
        return Update(key, value, lease, expected)
    return Create(key, value, lease) if kind == "create" else Put(key, value, lease)


def checks_of(told: Any) -> tuple[list[str], list[CompareOperator]]:
    """The checks of a transaction: their keys, and compares. Raises InvalidArgument.

    {"key": "a", "revision": 7}: it has this revision. "create_revision": of its creation. "exists": whether it exists.
    """
    keys: list[str] = []
    compares: list[CompareOperator] = []
    for number, check in enumerate(_is_list(told, "checks")):
        field = f"checks[{number}]"
        check = _is_object(check, field)
        key = _key(check, field)
        keys.append(key)
        if "exists" in check:
            compares.append(Version(key) != 0 if check["exists"] is True else Version(key) == 0)
        elif "create_revision" in check:
            compares.append(CreateRevision(key) == whole_number(check["create_revision"], f"{field}.create_revision"))
        else:
            compares.append(ModRevision(key) == whole_number(check.get("revision"), f"{field}.revision"))
    return list(dict.fromkeys(keys)), compares


def _is_list(told: Any, field: str) -> list[Any]:
    if not isinstance(told, list) or len(told) > OPERATIONS_MAX:
        raise InvalidArgument(f"{field}: must be a list of at most {OPERATIONS_MAX}", field=field)
    return told


def operations_of(told: Any) -> list[Operation]:
    """The operations of a transaction. Raises InvalidArgument."""
    return [operation_of(one, number) for number, one in enumerate(_is_list(told, "operations"))]
