"""Brokers, controllers and outages out of the changes of their keys, one after the other: they are few.

Rows come in order of revision; those of the state before come first (is_base). A broker is up while its key is there. A
broker whose key was replaced in one step came back before it was missed. The controller is the holder of the
controller's key, or the candidate whose key was created first.

It decides what is an event. It gives back rows that it cannot read as unreadable.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from typing import Any

from raftmeta.recipes.keys import unpack_holder
from raftmeta.spark.layout import Layout, regex_of

__all__ = ["broker_rows", "controller_rows", "outage_rows"]

Row = dict[str, Any]
RAW_MAX = 500
HOLDERS = "_raftmeta/"  # below it values are what recipes wrote


def _ms(row: Row) -> int:
    at: datetime.datetime = row["ts"]
    return round(at.timestamp() * 1000)


def _part_in(key: str, patterns: tuple[str, ...], part: str) -> str | None:
    """The part of this key for {part}; "" when the pattern has no such part, None when no pattern fits."""
    for pattern in patterns:
        regex, parts = regex_of(pattern)
        match = re.match(regex, key)
        if match:
            return match.group(parts.index(part) + 1) if part in parts else ""
    return None


def _unreadable(row: Row) -> Row:
    raw = (row["value"] or b"")[:RAW_MAX].decode("utf-8", "backslashreplace")
    return {"revision": row["revision"], "key_text": row["key_text"], "raw": raw}


# --- brokers ----------------------------------------------------------------------------------------------------------
def broker_rows(rows: list[Row], layout: Layout) -> tuple[list[Row], list[Row]]:
    """Rows of the table brokers, and rows whose registration cannot be read; the latter are events, too.

    event: there (at the beginning), up, down, rejoined (a new registration in the place of the old one), changed.
    """
    found, strange = [], []
    up: dict[str, Row] = {}
    gone_at: dict[str, int] = {}  # revision at which a broker went: it may be back in the same one
    for row in rows:
        broker = _part_in(row["key_text"], layout.brokers, "broker")
        if broker is None:
            continue
        if row["op"] == "delete":
            was = up.pop(row["key_text"], None)
            if was is not None:
                gone_at[broker] = row["revision"]
                found.append({**was, **_place(row), "event": "down", "broker": broker})
            continue
        facts = _registration(row)
        if facts is None:
            strange.append(_unreadable(row))
            facts = {}
        event = _event(row, up.get(row["key_text"]))
        if gone_at.get(broker) == row["revision"] and found[-1]["event"] == "down" and found[-1]["broker"] == broker:
            found.pop()  # replaced within one revision
            event = "rejoined"
        up[row["key_text"]] = {
            **_place(row), "broker": broker, "event": event, "epoch": row["create_revision"], "lease": row["lease"],
            "rack": facts.get("rack"), "endpoints": facts.get("endpoints") or [],
        }  # fmt: skip
        found.append(up[row["key_text"]])
    return found, strange


def _place(row: Row) -> Row:
    return {"revision": row["revision"], "ts_ms": _ms(row), "ts": row["ts"]}


def _event(row: Row, was: Row | None) -> str:
    if row["is_base"]:
        return "there"
    if was is None:
        return "up"
    return "changed" if was["epoch"] == row["create_revision"] else "rejoined"


def _registration(row: Row) -> dict[str, Any] | None:
    """The registration that a broker wrote; {} for an empty one, None for one that cannot be read."""
    value = row["value"]
    if row["key_text"].startswith(HOLDERS):
        value = unpack_holder(value).data
    if not value:
        return {}
    try:
        facts = json.loads(value)
    except ValueError:
        return None
    if not isinstance(facts, dict):
        return None
    endpoints = facts.get("endpoints")
    is_listed = isinstance(endpoints, list) and all(isinstance(one, str) for one in endpoints)
    rack = facts.get("rack")
    return {"rack": None if rack is None else str(rack), "endpoints": endpoints if is_listed else []}


def outage_rows(brokers: list[Row], together_ms: int, end_ms: int) -> list[Row]:
    """Brokers that left within together_ms of one another, as one outage each; until the last of them is back."""
    outages: list[list[Row]] = []
    for row in brokers:
        if row["event"] == "down":
            if not outages or row["ts_ms"] - outages[-1][-1]["ts_ms"] > together_ms:
                outages.append([])
            outages[-1].append(row)
    return [_outage(downs, brokers, end_ms) for downs in outages]


def _outage(downs: list[Row], brokers: list[Row], end_ms: int) -> Row:
    back = [
        next((row["ts_ms"] for row in brokers if row["broker"] == down["broker"] and row["event"] == "up"
              and row["revision"] > down["revision"]), None)
        for down in downs
    ]  # fmt: skip
    are_back = all(ms is not None for ms in back)
    until_ms = max(ms for ms in back if ms is not None) if are_back else end_ms
    return {
        "started": downs[0]["ts"],
        "revision": downs[0]["revision"],
        "brokers": sorted({down["broker"] for down in downs}),
        "within_ms": downs[-1]["ts_ms"] - downs[0]["ts_ms"],
        "are_back": are_back,
        "lasted_ms": max(until_ms - downs[0]["ts_ms"], 0),
    }


# --- controllers ------------------------------------------------------------------------------------------------------
def controller_rows(rows: list[Row], layout: Layout, end_ms: int) -> tuple[list[Row], list[Row]]:
    """Rows of the table controllers: the controller, its beginning, its duration, and the time without one before."""
    strange: list[Row] = []
    found: list[Row] = []
    free_since_ms: int | None = None
    for place, controller, epoch in _controllers(rows, layout, strange):
        if found and found[-1]["duration_ms"] is None:
            found[-1]["duration_ms"] = place["ts_ms"] - found[-1]["ts_ms"]
        if controller is None:
            free_since_ms = place["ts_ms"]
            continue
        vacant_ms = 0 if free_since_ms is None else place["ts_ms"] - free_since_ms
        found.append({**place, "controller": controller, "epoch": epoch, "duration_ms": None, "vacant_ms": vacant_ms})
        free_since_ms = None
    if found and found[-1]["duration_ms"] is None:
        found[-1]["duration_ms"] = max(end_ms - found[-1]["ts_ms"], 0)
    return found, strange


def _controllers(rows: list[Row], layout: Layout, strange: list[Row]) -> Iterator[tuple[Row, str | None, int | None]]:
    """Each change of (controller, epoch), looked at after each whole revision."""
    candidates: dict[str, tuple[int, str]] = {}
    holder: str | None = None
    epoch: int | None = None
    known: tuple[str | None, int | None] = (None, None)
    for number, row in enumerate(rows):
        key = row["key_text"]
        candidate = _part_in(key, layout.candidates, "broker")
        if candidate is not None:
            candidates.pop(key, None)
            if row["op"] == "put":
                candidates[key] = row["create_revision"], candidate
        elif _part_in(key, layout.controller, "") is not None:
            holder = _holder(row, layout, strange)
        elif _part_in(key, layout.controller_epoch, "") is not None:
            epoch = _epoch(row, strange)
        is_whole = number + 1 == len(rows) or rows[number + 1]["revision"] != row["revision"]
        if not is_whole or (row["is_base"] and number + 1 < len(rows) and rows[number + 1]["is_base"]):
            continue
        first = min(candidates.values(), default=None)
        now = (holder, epoch) if holder is not None or first is None else (first[1], first[0])
        now = (None, None) if now[0] is None else now
        if now != known:
            known = now
            yield _place(row), *now


def _holder(row: Row, layout: Layout, strange: list[Row]) -> str | None:
    if row["op"] == "delete":
        return None
    try:
        return str(json.loads(row["value"])[layout.controller_id])
    except (ValueError, KeyError, TypeError):
        strange.append(_unreadable(row))
        return None


def _epoch(row: Row, strange: list[Row]) -> int | None:
    try:
        return None if row["op"] == "delete" else int(row["value"])
    except ValueError:
        strange.append(_unreadable(row))
        return None
