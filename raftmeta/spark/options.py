"""The options of `format("raftmeta")`: what each means, and errors that name the one that is wrong.

It decides what a query asks for. It never opens a file or a connection.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

from raftmeta.errors import InvalidArgument
from raftmeta.operations import prefix_end
from raftmeta.scan import Scope
from raftmeta.scan.batches import TABLES, columns_of

__all__ = ["SinkOptions", "SourceOptions", "is_of_catalog", "options_of_catalog"]

NUMBER_MAX = (1 << 63) - 1
OTHER_TABLES = {
    "members": "name string, id bigint, address string, role string",
    "leases": "id bigint, ttl_ms bigint, remaining_ms bigint, note binary",
}
NEEDED_BY = {  # tables that an option says something about; without an entry: all
    "prefix": ("kv", "changes"),
    "start": ("kv", "changes"),
    "end": ("kv", "changes"),
    "keys": ("kv", "changes"),
    "columns": ("kv", "changes"),
    "partitions": ("kv", "changes"),
    "revision": ("kv", "changes"),
    "start_revision": ("changes",),
    "previous": ("changes",),
    "revisions_per_batch": ("changes",),
}
NAMES = ("path", "url", "cluster", "table", "timeout_s", *NEEDED_BY)


CATALOG_PROPERTY = "provider"  # Spark adds it, and others, to the options of CREATE TABLE ... USING raftmeta
CATALOG_OPTION = "option."  # what OPTIONS (...) gave has this in front of its name


def is_of_catalog(options: Mapping[str, str]) -> bool:
    """Whether these are the properties of a table of Spark's catalog, instead of options of a reader."""
    return CATALOG_PROPERTY in options


def options_of_catalog(properties: Mapping[str, str]) -> dict[str, str]:
    """The options among the properties of a table of the catalog: those of OPTIONS (...), and LOCATION as path."""
    given = {
        name.removeprefix(CATALOG_OPTION): text for name, text in properties.items() if name.startswith(CATALOG_OPTION)
    }
    if "location" in properties:
        given["path"] = unquote(urlsplit(properties["location"]).path)
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The source of a query. Either path or url is given.

    revision: of the keyspace, or the last one of changes; 0: the newest. start_revision: the first one of changes; 0:
    the oldest that there is; -1: only new ones (a stream only).
    """

    path: str
    url: str
    cluster: str
    table: str
    scope: Scope
    revision: int
    start_revision: int
    partitions: int
    revisions_per_batch: int
    timeout_s: float

    @staticmethod
    def parse(options: Mapping[str, str]) -> SourceOptions:
        """The options of a reader, whose names Spark gives in lower case. Raises InvalidArgument with the field."""
        given = {name.lower(): value for name, value in options.items()}
        _expect_known(given, NAMES)
        table = given.get("table", "kv")
        if table not in TABLES and table not in OTHER_TABLES:
            raise _wrong("table", f"must be one of {', '.join([*TABLES, *OTHER_TABLES])}, not {table!r}")
        for name in given:
            if table not in NEEDED_BY.get(name, (table,)):
                raise _wrong(name, f"means nothing for the table {table}")
        if bool(given.get("path")) == bool(given.get("url")):
            raise _wrong("path", "give either path, a sealed file or a folder with some, or url, raft://host:port,...")
        return SourceOptions(
            path=given.get("path", ""),
            url=given.get("url", ""),
            cluster=given.get("cluster", "default"),
            table=table,
            scope=_scope(given, table),
            revision=_number(given, "revision", 0, 1, NUMBER_MAX),
            start_revision=_start_revision(given),
            partitions=_number(given, "partitions", 8, 1, 10_000),
            revisions_per_batch=_number(given, "revisions_per_batch", 200_000, 1, NUMBER_MAX),
            timeout_s=_number(given, "timeout_s", 30, 1, 86_400),
        )


SINK_NAMES = ("url", "cluster", "sink", "split", "query", "batch", "timeout_s", "checkpointlocation")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The target of rows. query, batch: whose batch it is, and its number; "": known by checkpoint, or new."""

    url: str
    cluster: str
    sink: str
    split: bool
    query: str
    batch: int
    timeout_s: float
    checkpoint: str

    @staticmethod
    def parse(options: Mapping[str, str]) -> SinkOptions:
        """The options of a writer, whose names Spark gives in lower case. Raises InvalidArgument with the field."""
        given = {name.lower(): value for name, value in options.items()}
        _expect_known(given, SINK_NAMES)
        for name in ("url", "sink"):
            if not given.get(name):
                raise _wrong(name, "give url, raft://host:port,..., and sink, the name under which batches are counted")
        return SinkOptions(
            url=given["url"],
            cluster=given.get("cluster", "default"),
            sink=given["sink"],
            split=_truth(given, "split"),
            query=given.get("query", ""),
            batch=_number(given, "batch", 0, 0, NUMBER_MAX),
            timeout_s=_number(given, "timeout_s", 30, 1, 86_400),
            checkpoint=given.get("checkpointlocation", ""),
        )


def _expect_known(given: Mapping[str, str], names: tuple[str, ...]) -> None:
    for name in given:
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            meant = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names)}"
            raise _wrong(name, f"there is no such option{meant}")


def _truth(given: Mapping[str, str], name: str) -> bool:
    text = given.get(name, "false").lower()
    if text not in ("true", "false"):
        raise _wrong(name, f"must be true or false, not {given[name]!r}")
    return text == "true"


def _wrong(name: str, what: str) -> InvalidArgument:
    return InvalidArgument(f"{name}: {what}", field=name)


def _number(given: Mapping[str, str], name: str, default: int, least: int, most: int) -> int:
    text = given.get(name)
    if text is None:
        return default
    number = int(text) if text.isascii() and text.isdecimal() and len(text) <= len(str(NUMBER_MAX)) else -1
    if not least <= number <= most:
        raise _wrong(name, f"must be a whole number from {least} to {most}, not {text!r}")
    return number


def _start_revision(given: Mapping[str, str]) -> int:
    words = {"oldest": 0, "now": -1}
    text = given.get("start_revision", "1")
    return words[text] if text in words else _number(given, "start_revision", 1, 1, NUMBER_MAX)


def _columns(given: Mapping[str, str], table: str) -> tuple[str, ...]:
    has_previous = _truth(given, "previous")
    if "columns" not in given:
        return columns_of(table, previous=has_previous) if table in TABLES else ()
    columns = tuple(name.strip() for name in given["columns"].split(","))
    if len(set(columns)) != len(columns):
        raise _wrong("columns", f"{given['columns']!r} names one twice")
    if has_previous:
        raise _wrong("previous", "name the columns that you want of the record before in columns")
    return columns


def _scope(given: Mapping[str, str], table: str) -> Scope:
    """The range of keys. Keys are text, or hexadecimal digits with keys=hex."""
    ways: dict[str, Callable[[str], bytes]] = {"text": str.encode, "hex": bytes.fromhex}
    way = ways.get(given.get("keys", "text"))
    if way is None:
        raise _wrong("keys", f"must be text or hex, not {given['keys']!r}")
    bounds: dict[str, Any] = {}
    for name in ("prefix", "start", "end"):
        try:
            bounds[name] = way(given[name]) if name in given else None
        except ValueError:
            raise _wrong(name, f"{given[name]!r} is not made of hexadecimal digits, as keys=hex says") from None
    columns = _columns(given, table)
    if bounds["prefix"] is None:
        return Scope(bounds["start"] or b"", bounds["end"] or b"", columns)
    if bounds["start"] is not None or bounds["end"] is not None:
        raise _wrong("prefix", "give either prefix, or start and end")
    return Scope(bounds["prefix"], prefix_end(bounds["prefix"]), columns)
