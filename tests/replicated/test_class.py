"""What a replicated class may look like, and what is said when it does not (raftmeta/user_machines/classes.py)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import raftmeta
from raftmeta.user_machines.classes import machine_class_of
from tests.replicated.machines import Board


def test_commands_reads_and_what_is_neither() -> None:
    description = machine_class_of(Board)
    assert description.commands == {"move": 1, "tear": 1}
    assert description.reads == {"whose", "standing", "count"}


def test_an_inherited_command_is_one_and_the_subclass_is_marked_itself() -> None:
    class Larger(Board):
        pass

    with pytest.raises(raftmeta.ConfigError, match="not a class marked"):
        machine_class_of(Larger)
    assert machine_class_of(raftmeta.replicated(Larger)).commands == {"move": 1, "tear": 1}


def refused(body: dict[str, Any], match: str, **options: Any) -> None:
    with pytest.raises(raftmeta.ConfigError, match=match):
        raftmeta.replicated(type("Odd", (), body), **options)


def go(self: Any) -> None: ...


def with_option(self: Any, timeout_s: float) -> None: ...


def generates(self: Any) -> Iterator[int]:
    yield 1


async def awaits(self: Any) -> None: ...


async def streams(self: Any) -> AsyncIterator[int]:
    yield 1


def needs(self: Any, size: int) -> None: ...


def holds(self: Any) -> None:
    self.thing = object()


COMMAND = raftmeta.command(lambda self: None)


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ({"go": go}, "no method is marked"),
        ({"go": raftmeta.command(with_option)}, "timeout_s is an option of every call"),
        ({"go": COMMAND, "read": with_option}, "timeout_s is an option of every call"),
        ({"go": COMMAND, "read": generates}, "must be a plain function"),
        ({"go": COMMAND, "read": awaits}, "must be a plain function"),
        ({"go": COMMAND, "read": streams}, "must be a plain function"),
        ({"_go": COMMAND}, "cannot be a command"),
        ({"upgrade": COMMAND}, "is a method of every user machine"),
        ({"go": raftmeta.command(since=2)(lambda self: None)}, "since must be from 1 to the version of the class, 1"),
        ({"go": COMMAND, "dump": go}, "give both dump"),
        ({"go": COMMAND, "__init__": needs}, "without arguments"),
        ({"go": COMMAND, "__init__": holds}, "not plain values"),
        ({"go": COMMAND, "__slots__": ()}, "no __dict__"),
    ],
)
def test_a_class_that_cannot_be_replicated_says_why(body: dict[str, Any], match: str) -> None:
    refused(body, match)


@pytest.mark.parametrize("version", [0, True, "2"])
def test_versions_count_from_one(version: Any) -> None:
    refused({"go": COMMAND}, "version must be an integer", version=version)
