"""Calls of a user machine as bytes, and their outcomes: what a node and a client of it agree on.

It decides which methods of a class may be called and with which options, and what a caller gets for an outcome. It
never runs a method, and knows no node.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from raftmeta.errors import CommandFailed, InvalidArgument, Rejected
from raftmeta.user_machines.classes import CALL_OPTIONS, MachineClass
from raftmeta.user_machines.values import pack, unpack

__all__ = [
    "COMMAND_OPTIONS",
    "FORMAT_FAILED",
    "FORMAT_REJECTED",
    "FORMAT_RESULT",
    "READ_OPTIONS",
    "check_options",
    "check_version",
    "failed_by",
    "failed_outcome",
    "no_method",
    "packed_call",
    "packed_upgrade",
    "split_options",
    "value_of",
]

# FORMAT_: kinds of outcomes.
FORMAT_RESULT = 0
FORMAT_REJECTED = 1
FORMAT_FAILED = 2
# Calls that may be nested in a command. Below CPython's usual limit of 1,000, so that no host needs to change it.
FORMAT_CALL_DEPTH = 900
FORMAT_MESSAGE_MAX = 1000
COMMAND_OPTIONS = frozenset({"timeout_s", "fence"})
READ_OPTIONS = frozenset({"timeout_s", "local"})
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


# --- calls and outcomes as bytes --------------------------------------------------------------------------------------
def packed_call(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> bytes:
    """A call of a command or a read. Raises InvalidArgument for arguments that are no plain values."""
    return pack([name, list(args), kwargs])


def packed_upgrade(version: int) -> bytes:
    """The command that raises the version of the machine: the call without a name."""
    return pack(["", [version], {}])


def value_of(outcome: bytes) -> Any:
    """Return the value of an outcome to its caller. Raises Rejected or CommandFailed."""
    kind, *rest = unpack(outcome)
    if kind == FORMAT_REJECTED:
        raise Rejected(rest[0], rest[1])
    if kind == FORMAT_FAILED:
        raise CommandFailed(f"{rest[0]}: {rest[1]}" if rest[1] else rest[0], kind=rest[0])
    return rest[0]


def failed_outcome(kind: str, message: str) -> bytes:
    return pack([FORMAT_FAILED, kind, message])


def failed_by(error: BaseException) -> bytes:
    """Alike on every node: addresses of objects, which messages like to show, are not."""
    if isinstance(error, RecursionError):  # its text names the place, which differs between versions of Python
        return failed_outcome("RecursionError", f"more than {FORMAT_CALL_DEPTH} calls nested")
    try:
        message = _ADDRESS.sub("0x...", str(error))[:FORMAT_MESSAGE_MAX]
        return failed_outcome(type(error).__name__, message)
    except Exception:  # an exception may even raise when it is shown
        return failed_outcome(type(error).__name__, "")


# --- what may be called -----------------------------------------------------------------------------------------------
def split_options(kwargs: dict[str, Any]) -> dict[str, Any]:
    """Take the options of the call out of its keywords."""
    return {name: kwargs.pop(name) for name in CALL_OPTIONS & kwargs.keys()}


def check_options(name: str, given: dict[str, Any], allowed: frozenset[str]) -> None:
    strange = given.keys() - allowed
    if strange:
        raise InvalidArgument(
            f"{min(strange)}: {name}() takes only the options {', '.join(sorted(allowed))}", field=min(strange)
        )


def check_version(machine_class: MachineClass, version: int) -> None:
    if type(version) is not int or not 1 <= version <= machine_class.version:
        raise InvalidArgument(
            f"version: must be from 1 to {machine_class.version}, that of the class here, not {version!r}",
            field="version",
        )


def no_method(machine_class: MachineClass, name: str) -> AttributeError:
    known = ", ".join(sorted({*machine_class.commands, *machine_class.reads}))
    return AttributeError(f"{machine_class.cls.__qualname__} has no command or read {name!r}; it has {known}")
