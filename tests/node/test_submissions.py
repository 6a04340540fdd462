"""The engine's contract: one closed list of submissions and one of events, each member of which somebody takes."""

from __future__ import annotations

import re
from pathlib import Path

from tests.core.names import PACKAGE


def members(header: str, enum: str) -> dict[str, int]:
    """The members of an enum of a header, in the order in which they stand there."""
    body = (PACKAGE / header).read_text().split(f"cdef enum {enum}:\n")[1].split("\ncdef ")[0]
    return {name: int(number) for name, number in re.findall(r"^    (\w+) = (\d+)", body, re.MULTILINE)}


KINDS = members("engine/submission.pxd", "SubmissionKind")
RANGES = members("engine/submission.pxd", "SubmissionRange")
EVENTS = members("engine/state.pxd", "EngineEventType")
LOOP_EVENTS = members("loop/event_log.pxd", "LoopEventType")


def told_apart(*files: str) -> set[str]:
    """The kinds that these files compare a submission or an awaited one with."""
    text = "".join((PACKAGE / file).read_text() for file in files)
    return set(re.findall(r"\b(?:submission|item)\.kind == (\w+)", text))


def events_told() -> set[str]:
    """The events that the engine, the loop and the copies of user machines tell."""
    files: list[Path] = [PACKAGE / "face/user_port.pyx"]
    for folder in ("engine", "loop"):
        files += (PACKAGE / folder).rglob("*.pyx")
    return {name for file in files for name in re.findall(r"\bEVENT_\w+", file.read_text())}


def test_kinds_stand_in_order_and_in_their_range() -> None:
    """Commands, then wishes, then what is awaited; each list counts up, so that the next kind has one place."""
    assert list(KINDS.values()) == sorted(KINDS.values())
    awaited = {name for name in KINDS if name.startswith("AWAIT_")}
    commands = {name for name in KINDS if name.endswith("COMMAND")}
    assert {name for name, kind in KINDS.items() if kind >= RANGES["SUBMIT_AWAITED_FROM"]} == awaited
    assert {name for name, kind in KINDS.items() if kind < RANGES["SUBMIT_WISHES_FROM"]} == commands


def test_each_kind_is_taken_by_the_engine_or_by_the_loop() -> None:
    """The engine takes every command and every wish but the loop's own; AWAIT_READY is what the loop looks for else."""
    engine, loop = told_apart("engine/engine.pyx"), told_apart("loop/loop.pyx")
    assert not engine & loop
    assert engine | loop == KINDS.keys() - {"AWAIT_READY"}


def test_no_other_header_names_a_kind() -> None:
    """A kind that stands in a second header would be a second list."""
    others = [path for path in PACKAGE.rglob("*.pxd") if path.name != "submission.pxd"]
    assert not [path for path in others if re.search(r"^\s+(?:SUBMIT|AWAIT)_\w+ = \d", path.read_text(), re.MULTILINE)]


def test_events_stand_in_order_and_each_is_told_by_somebody() -> None:
    """An event without a sender would be a line that no one can ever read."""
    assert list(EVENTS.values()) == list(range(1, len(EVENTS) + 1))
    assert min(LOOP_EVENTS.values()) > max(EVENTS.values())
    assert EVENTS.keys() | LOOP_EVENTS.keys() == events_told()
