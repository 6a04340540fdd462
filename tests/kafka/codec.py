"""Kafka's messages as Python values, by the pages of tests/kafka/schema. For tests and tools: it is slow.

A message is a dict with a value for each field of its version. Text is str, bytes and records are bytes, a uuid is 16
bytes, an array is a list, a structure is a dict. Tagged fields that nobody knows are passed over.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from tests.kafka.schema import INT_BYTES, Field, Message, messages

FORMS = {"bool": ">?", "int8": ">b", "int16": ">h", "int32": ">i", "int64": ">q"}
VARINT_BYTES_MAX = 5
NULL_STRUCT, SOME_STRUCT = -1, 1
Values = dict[str, Any]


class BadMessage(Exception):
    """Bytes that are no message; in words."""


class Reader:
    """The bytes of a message from the first to the last. Raises BadMessage where they end too early."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        if count < 0 or count > self.left:
            raise BadMessage(f"{count} bytes at {self.at} of {len(self.data)}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, kind: str) -> Any:
        (value,) = struct.unpack(FORMS[kind], self.take(INT_BYTES[kind]))
        return value

    def varint(self) -> int:
        """Unsigned, of 32 bits."""
        value = 0
        for place in range(VARINT_BYTES_MAX):
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:
                break
        else:
            raise BadMessage(f"a varint without an end at {self.at}")
        if value >= 1 << 32:
            raise BadMessage(f"a varint of more than 32 bits at {self.at}")
        return value

    def length(self, kind: str, *, is_flexible: bool) -> int:
        """-1 for null. kind: of the number before flexible versions."""
        length = self.varint() - 1 if is_flexible else int(self.number(kind))
        if length < -1:
            raise BadMessage(f"the length {length} at {self.at}")
        return length


def varint(value: int) -> bytes:
    """Unsigned."""
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def decode(message: Message, version: int, data: bytes, *, is_request: bool) -> Values:
    """The fields of a request or an answer without its header. Raises BadMessage, also for bytes that are left."""
    reader = Reader(data)
    fields = message.request if is_request else message.answer
    values = _decoded(fields, version, reader, is_flexible=message.is_flexible(version))
    if reader.left:
        raise BadMessage(f"{reader.left} bytes are left of {message.name} {version}")
    return values


def encode(message: Message, version: int, values: Mapping[str, Any], *, is_request: bool) -> bytes:
    """The bytes of a request or an answer without its header. A value that is not given is the default."""
    fields = message.request if is_request else message.answer
    return _encoded(fields, version, values, is_flexible=message.is_flexible(version))


# --- headers ----------------------------------------------------------------------------------------------------------

API_VERSIONS = 18


def header_of_request(reader: Reader) -> tuple[int, int, int, str | None]:
    """API key, version, correlation id and client id. Raises BadMessage for a key that no page has."""
    key, version, correlation = reader.number("int16"), reader.number("int16"), reader.number("int32")
    client_id = _text(reader, reader.length("int16", is_flexible=False))
    if key not in messages():
        raise BadMessage(f"the API key {key}")
    if messages()[key].is_flexible(version):
        _pass_over_tags(reader)
    return key, version, correlation, client_id


def header_of_answer(message: Message, version: int, reader: Reader) -> int:
    """The correlation id. Answers of ApiVersions have the old header in all versions."""
    correlation = int(reader.number("int32"))
    if message.is_flexible(version) and message.key != API_VERSIONS:
        _pass_over_tags(reader)
    return correlation


# --- from bytes -------------------------------------------------------------------------------------------------------


def _decoded(fields: tuple[Field, ...], version: int, reader: Reader, *, is_flexible: bool) -> Values:
    known = [field for field in fields if field.is_in(version)]
    values = {
        field.name: _value(field, version, reader, is_flexible=is_flexible) for field in known if field.tag is None
    }
    if not is_flexible:
        return values
    tagged = {field.tag: field for field in known if field.tag is not None}
    values |= {field.name: default(field, version) for field in tagged.values()}

    def take(tag: int, within: Reader) -> None:
        if (field := tagged.get(tag)) is None:
            return
        values[field.name] = _value(field, version, within, is_flexible=True)
        if within.left:
            raise BadMessage(f"{within.left} bytes are left of the tagged field {field.name}")

    _tags(reader, take)
    return values


def _tags(reader: Reader, take: Callable[[int, Reader], None]) -> None:
    before = -1
    for _ in range(reader.varint()):
        tag, length = reader.varint(), reader.varint()
        if tag <= before:
            raise BadMessage(f"the tag {tag} after {before}")
        take(tag, Reader(reader.take(length)))
        before = tag


def _pass_over_tags(reader: Reader) -> None:
    _tags(reader, lambda tag, within: None)


def _text(reader: Reader, length: int) -> str | None:
    if length < 0:
        return None
    try:
        return reader.take(length).decode()
    except UnicodeDecodeError as error:
        raise BadMessage(f"text that is no UTF-8 at {reader.at}") from error


def _value(field: Field, version: int, reader: Reader, *, is_flexible: bool) -> Any:
    may_be_null = version >= field.null_since
    if field.is_array:
        count = reader.length("int32", is_flexible=is_flexible)
        if count < 0:
            return _null(field, may_be_null)
        if count > reader.left:
            raise BadMessage(f"{field.name}: {count} items in {reader.left} bytes")
        return [_item(field, version, reader, is_flexible=is_flexible, may_be_null=False) for _ in range(count)]
    return _item(field, version, reader, is_flexible=is_flexible, may_be_null=may_be_null)


def _item(field: Field, version: int, reader: Reader, *, is_flexible: bool, may_be_null: bool) -> Any:
    kind = field.kind
    if kind in FORMS:
        return reader.number(kind)
    if kind == "uuid":
        return reader.take(16)
    if kind == "struct":
        if may_be_null and reader.number("int8") < 0:
            return None
        return _decoded(field.fields, version, reader, is_flexible=is_flexible)
    length = reader.length("int16" if kind == "text" else "int32", is_flexible=is_flexible)
    if length < 0:
        return _null(field, may_be_null)
    return _text(reader, length) if kind == "text" else reader.take(length)


def _null(field: Field, may_be_null: bool) -> None:
    if not may_be_null:
        raise BadMessage(f"{field.name} is null")


# --- to bytes ---------------------------------------------------------------------------------------------------------


def default(field: Field, version: int) -> Any:
    """The value of a field that is not said."""
    if field.kind == "struct" and not field.is_array and field.default is not None:
        return {one.name: default(one, version) for one in field.fields if one.is_in(version)}
    return field.default


def _encoded(fields: tuple[Field, ...], version: int, values: Mapping[str, Any], *, is_flexible: bool) -> bytes:
    known = [field for field in fields if field.is_in(version)]
    parts = []
    tagged: list[tuple[int, bytes]] = []
    for field in known:
        value = values.get(field.name, default(field, version))
        if field.tag is None:
            parts.append(_bytes(field, version, value, is_flexible=is_flexible))
        elif value != default(field, version):
            tagged.append((field.tag, _bytes(field, version, value, is_flexible=True)))
    if is_flexible:
        parts.append(varint(len(tagged)))
        parts += [part for tag, data in sorted(tagged) for part in (varint(tag), varint(len(data)), data)]
    return b"".join(parts)


def _bytes(field: Field, version: int, value: Any, *, is_flexible: bool) -> bytes:
    may_be_null = version >= field.null_since
    assert value is not None or may_be_null, f"{field.name} may not be null in version {version}"
    if not field.is_array:
        return _item_bytes(field, version, value, is_flexible=is_flexible, may_be_null=may_be_null)
    if value is None:
        return _length(-1, "int32", is_flexible=is_flexible)
    items = [_item_bytes(field, version, one, is_flexible=is_flexible, may_be_null=False) for one in value]
    return b"".join([_length(len(items), "int32", is_flexible=is_flexible), *items])


def _length(length: int, kind: str, *, is_flexible: bool) -> bytes:
    return varint(length + 1) if is_flexible else struct.pack(FORMS[kind], length)


def _item_bytes(field: Field, version: int, value: Any, *, is_flexible: bool, may_be_null: bool) -> bytes:
    kind = field.kind
    if kind in FORMS:
        return struct.pack(FORMS[kind], value)
    if kind == "uuid":
        return bytes(value)
    if kind == "struct":
        if value is None:
            return struct.pack(">b", NULL_STRUCT)
        mark = struct.pack(">b", SOME_STRUCT) if may_be_null else b""
        return mark + _encoded(field.fields, version, value, is_flexible=is_flexible)
    number = "int16" if kind == "text" else "int32"
    if value is None:
        return _length(-1, number, is_flexible=is_flexible)
    data: bytes = value.encode() if kind == "text" else value
    return _length(len(data), number, is_flexible=is_flexible) + data
