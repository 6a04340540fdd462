"""The layout of keys and values in a broker cluster, from which its history is read.

A layout names keys by patterns, in which {topic}, {partition} and {broker} stand for one part of a key, and fields of
JSON values by their names. Kafka's layout is built in; for brokers and controllers it has raftmeta's own group and
election (examples/broker.py) beside ZooKeeper's keys. Any other is a JSON file with the fields of Layout that differ:

    {"states": ["clusters/c1/{topic}/{partition}"], "leader": "owner", "isr": "in_sync"}

It decides what a key is about. It never looks at a value.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from raftmeta.errors import ConfigError

__all__ = ["KAFKA", "Layout", "layout_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Patterns of keys, and names of fields.

    brokers: a key for each broker that is up ({broker}). candidates: a key for each candidate for the controller
    ({broker}); the candidate whose key was created first is the controller. controller: the one key of the controller,
    whose value has its id in the field controller_id. controller_epoch: a key whose value is a number. topics: a key
    with the assignment ({topic}), whose field `assignment` gives the replicas of each partition. The fields `adding`
    and `removing`, where there are any, give those of the replicas that the partition moves to and from. states: a key
    for each partition ({topic}, {partition}).
    """

    brokers: tuple[str, ...]
    candidates: tuple[str, ...] = ()
    controller: tuple[str, ...] = ()
    controller_epoch: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    controller_id: str = "brokerid"
    assignment: str = "partitions"
    adding: str = "adding_replicas"
    removing: str = "removing_replicas"
    leader: str = "leader"
    leader_epoch: str = "leader_epoch"
    epoch_of_controller: str = "controller_epoch"
    isr: str = "isr"


PATTERNS = {
    "brokers": {"broker"},
    "candidates": {"broker"},
    "controller": set(),
    "controller_epoch": set(),
    "topics": {"topic"},
    "states": {"topic", "partition"},
}  # of Layout: which parts each pattern of the field must have

KAFKA = Layout(
    brokers=("/brokers/ids/{broker}", "_raftmeta/groups/brokers/{broker}"),
    candidates=("_raftmeta/elections/controller/{broker}",),
    controller=("/controller",),
    controller_epoch=("/controller_epoch",),
    topics=("/brokers/topics/{topic}",),
    states=("/brokers/topics/{topic}/partitions/{partition}/state",),
)


def layout_of(path: str | Path) -> Layout:
    """The layout in a JSON file: Kafka's, but for the fields in the file. Raises ConfigError that names the field."""
    try:
        facts: Any = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise ConfigError(f"{path}: not readable as JSON: {error}") from None
    known = {field.name for field in fields(Layout)}
    if not isinstance(facts, dict) or not set(facts) <= known:
        strange = sorted(set(facts) - known) if isinstance(facts, dict) else facts
        raise ConfigError(f"{path}: {strange!r}: a layout is an object with some of {', '.join(sorted(known))}")
    found: dict[str, Any] = {}
    for name, value in facts.items():
        if name in PATTERNS:
            patterns = [value] if isinstance(value, str) else value
            if not isinstance(patterns, list):
                raise ConfigError(f"{path}: {name}: must be a pattern or a list of them", field=name)
            found[name] = tuple(_checked(f"{path}: {name}", one, PATTERNS[name]) for one in patterns)
        elif isinstance(value, str) and value:
            found[name] = value
        else:
            raise ConfigError(f"{path}: {name}: must be the name of a field", field=name)
    return replace(KAFKA, **found)


def _checked(where: str, pattern: object, parts: set[str]) -> str:
    if not isinstance(pattern, str) or not pattern:
        raise ConfigError(f"{where}: {pattern!r} is no pattern")
    named = re.findall(r"\{(\w+)\}", pattern)
    if sorted(named) != sorted(parts):
        must = ", ".join(f"{{{part}}}" for part in sorted(parts)) or "no part"
        raise ConfigError(f"{where}: {pattern!r} must have {must}, each once")
    return pattern


def regex_of(pattern: str) -> tuple[str, list[str]]:
    """A regular expression of Java and Python for the whole key, and the parts of its groups, in their order."""
    pieces = re.split(r"\{(\w+)\}", pattern)
    literals = [re.sub(r"([^\w/-])", r"\\\1", piece) for piece in pieces[::2]]
    return "^" + "([^/]+)".join(literals) + "$", pieces[1::2]
