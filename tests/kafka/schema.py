"""The requests and answers of Kafka's protocol as data, read from the pages in tests/kafka/schema.

A page is a family of messages. A message begins with its line, and the two parts of the message follow:

    JoinGroup 11 versions 0-9 flexible 6      name, API key, versions that clients of today send, first flexible version
      request
        group_id text                         a field: name and type
        rebalance_timeout_ms int32 1+ = -1    since version 1; before, and when nobody says otherwise, it is -1
        name text?10                          null is allowed from version 10 on
        protocols []                          an array of what is written below it, further in
          name text
        broker_ids []int32                    an array of numbers
        assignment {}? = null                 one of what is written below it, or null
        node_endpoints [] 10+ tag 0           a tagged field: left out when it has its default

Without `=` a default is 0, false, "", an empty array, or a structure of defaults. A field without versions is in every
version of what contains it.

Sources: the protocol guide of Apache Kafka 3.9 and 4.x; KIP-482 for flexible versions and tagged fields. The names are
the guide's. tests/doors/acceptance/kafka_messages.py compares the pages with the messages of Kafka's own clients.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent / "schema"
NEVER, ALWAYS = 1 << 15, 0  # versions
INT_BYTES = {"bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8}
SCALARS = {*INT_BYTES, "uuid", "text", "bytes", "records"}
HEAD = re.compile(r"(\w+) (\d+) versions (\d+)-(\d+)(?: flexible (\d+))?")
FIELD = re.compile(
    r"(?P<name>\w+) (?P<many>\[\])?(?P<type>\{\}|\w+)?(?P<null>\?(?P<since>\d+)?)?"
    r"(?: (?P<first>\d+)(?:\+|-(?P<last>\d+)))?(?: tag (?P<tag>\d+))?(?: = (?P<default>\S+))?"
)


class BadPage(Exception):
    """A line of a page means nothing; in words."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message or of a structure in it.

    kind: of SCALARS, or "struct". is_array: many of that kind. first, last: the versions that have it. null_since: the
    first version in which it may be null. tag: None for an untagged field. fields: of a structure.
    """

    name: str
    kind: str
    is_array: bool
    first: int
    last: int
    null_since: int
    tag: int | None
    default: Any
    fields: tuple[Field, ...]

    def is_in(self, version: int) -> bool:
        return self.first <= version <= self.last


@dataclass(frozen=True, slots=True)
class Message:
    """A request with its answer. flexible: the first version with compact lengths and tagged fields."""

    name: str
    key: int
    first: int
    last: int
    flexible: int
    page: str
    request: tuple[Field, ...]
    answer: tuple[Field, ...]

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible

    @property
    def versions(self) -> range:
        return range(self.first, self.last + 1)


@cache
def messages() -> dict[int, Message]:
    """All messages by API key."""
    found = [message for page in sorted(PAGES.glob("*.txt")) for message in read(page.read_text(), page=page.stem)]
    return {message.key: message for message in sorted(found, key=lambda one: one.key)}


def read(text: str, *, page: str) -> Iterator[Message]:
    """The messages of one page. Raises BadPage."""
    lines = [
        (line, len(line) - len(line.lstrip()))
        for line in text.splitlines()
        if line.strip() and not line.startswith("#")
    ]
    at = 0
    while at < len(lines):
        head = HEAD.fullmatch(lines[at][0])
        if head is None:
            raise BadPage(f"{page}: {lines[at][0]!r} begins no message")
        name, key, first, last, flexible = head.groups()
        parts = {}
        at += 1
        for part in ("request", "answer"):
            if at == len(lines) or lines[at][0].strip() != part:
                raise BadPage(f"{page}: {name} has no {part}")
            parts[part], at = _fields(lines, at + 1, 4, page=page)
        since = int(flexible) if flexible else NEVER
        yield Message(name, int(key), int(first), int(last), since, page, parts["request"], parts["answer"])


def _fields(lines: list[tuple[str, int]], at: int, depth: int, *, page: str) -> tuple[tuple[Field, ...], int]:
    """The fields that stand at this depth, and the line behind them."""
    fields: list[Field] = []
    while at < len(lines) and lines[at][1] == depth:
        line = lines[at][0].strip()
        found = FIELD.fullmatch(line)
        if found is None:
            raise BadPage(f"{page}: {line!r} is no field")
        within, at = _fields(lines, at + 1, depth + 2, page=page)
        fields.append(_field(found, within, f"{page}: {line!r}"))
    return tuple(fields), at


def _field(found: re.Match[str], within: tuple[Field, ...], where: str) -> Field:
    is_array = found["many"] is not None
    kind = "struct" if within else found["type"] or ""
    if (not within and kind not in SCALARS) or (within and (found["type"] or "{}") != "{}"):
        raise BadPage(f"{where}: no type, or a type that has no fields")
    default = _default(found["default"], kind, is_array=is_array)
    return Field(
        name=found["name"],
        kind=kind,
        is_array=is_array,
        first=int(found["first"] or ALWAYS),
        last=int(found["last"] or NEVER - 1),
        null_since=NEVER if found["null"] is None else int(found["since"] or ALWAYS),
        tag=None if found["tag"] is None else int(found["tag"]),
        default=default,
        fields=within,
    )


def _default(said: str | None, kind: str, *, is_array: bool) -> Any:
    if said == "null":
        return None
    if is_array:
        return []
    if kind in INT_BYTES:
        return said == "true" if kind == "bool" else int(said or 0)
    return {"text": "", "bytes": b"", "records": b"", "uuid": bytes(16)}.get(kind, {})
