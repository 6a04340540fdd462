"""Messages of Kafka's own clients against the codec of these tests: the same values, and the same bytes.

A line is that of tests/doors/programs/KafkaMessages.java: key, version, request or answer, bytes in hex, JSON.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.kafka.codec import BadMessage, Values, decode, default, encode
from tests.kafka.schema import Field, Message, messages

RECORDED = Path(__file__).parent / "recorded.txt"
NOTHING = Path(__file__).parent / "recorded_nothing.txt"  # messages of which no field was set
RECORDED_EACH = 3  # messages for each version and side: full, with nulls, with zeros
LETTERS = 'ab-"zä日\U0001f600'


def shown(fields: tuple[Field, ...], version: int, values: Values) -> dict[str, Any]:
    """As the lines show values: bytes and uuids in hex, and no tagged field that has its default."""
    return {
        field.name: _shown(field, version, values[field.name])
        for field in fields
        if field.is_in(version) and (field.tag is None or values[field.name] != default(field, version))
    }


def _shown(field: Field, version: int, value: Any) -> Any:
    if isinstance(value, list):
        return [_shown(field, version, one) for one in value]
    if isinstance(value, dict):
        return shown(field.fields, version, value)
    return value.hex() if isinstance(value, bytes) else value


def difference(line: str) -> str:
    """In what the codec differs from the line; empty if it does not."""
    key, version, side, data, told = line.split(" ", 4)
    message, number, is_request = messages()[int(key)], int(version), side == "request"
    where = f"{message.name} {version} {side}"
    try:
        values = decode(message, number, bytes.fromhex(data), is_request=is_request)
    except BadMessage as error:
        return f"{where}: {error}"
    fields = message.request if is_request else message.answer
    if shown(fields, number, values) != json.loads(told):
        return f"{where}: {shown(fields, number, values)} where Kafka says {told}"
    written = encode(message, number, values, is_request=is_request)
    return "" if written.hex() == data else f"{where}: {written.hex()} where Kafka writes {data}"


def difference_from_nothing(line: str) -> str:
    """In what a message without a value differs from Kafka's; empty if it does not."""
    key, version, side, data = line.split(" ")
    message = messages()[int(key)]
    written = encode(message, int(version), {}, is_request=side == "request").hex()
    return "" if written == data else f"{message.name} {version} {side}: {written} where Kafka writes {data}"


def line_of(message: Message, version: int, data: bytes, *, is_request: bool) -> str:
    """The line without its last word."""
    return f"{message.key} {version} {'request' if is_request else 'answer'} {data.hex()}"


# --- random messages of ours ------------------------------------------------------------------------------------------


def random_values(fields: tuple[Field, ...], version: int, source: random.Random) -> Values:
    """A value for each field of the version."""
    return {field.name: _random(field, version, source) for field in fields if field.is_in(version)}


def _random(field: Field, version: int, source: random.Random) -> Any:
    if field.tag is not None and source.random() < 0.3:
        return default(field, version)
    if version >= field.null_since and source.random() < 0.3:
        return None
    if field.is_array:
        return [_random_item(field, version, source) for _ in range(source.randrange(3))]
    return _random_item(field, version, source)


def _random_item(field: Field, version: int, source: random.Random) -> Any:
    kind = field.kind
    if kind == "struct":
        return random_values(field.fields, version, source)
    if kind == "bool":
        return source.random() < 0.5
    if kind == "text":
        return "".join(source.choices(LETTERS, k=source.choice((0, 1, 5, 130))))
    if kind in ("bytes", "records"):
        return source.randbytes(source.choice((0, 1, 5, 130)))
    if kind == "uuid":
        return source.randbytes(16)
    bits = 8 * {"int8": 1, "int16": 2, "int32": 4, "int64": 8}[kind]
    return source.choice((0, -1, 1, -(1 << bits - 1), (1 << bits - 1) - 1, source.randrange(1 << bits - 1)))


def random_messages(seed: int, count: int) -> Iterator[tuple[Message, int, bool, bytes]]:
    """`count` messages for each version of each message and side, as our codec writes them."""
    source = random.Random(seed)
    for message in messages().values():
        for version in message.versions:
            for is_request, fields in ((True, message.request), (False, message.answer)):
                for _ in range(count):
                    values = random_values(fields, version, source)
                    yield message, version, is_request, encode(message, version, values, is_request=is_request)
