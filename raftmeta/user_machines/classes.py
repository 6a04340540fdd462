"""Makes a plain class a user machine: one object on every node, changed by commands that go through the log.

    @raftmeta.replicated
    class Board:
        def __init__(self):
            self.places = {}

        @raftmeta.command
        def move(self, who, where):
            if where in self.places.values():
                raise raftmeta.Rejected(f"{where} is taken")
            self.places[who] = where

        def place_of(self, who):                # a read
            return self.places.get(who)

It decides what a class may look like, and says so when the class is made. It never runs a command:
raftmeta/user_machines/copy does. Contracts, in full: docs/replicated.md.
"""

from __future__ import annotations

import inspect
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from raftmeta.errors import ConfigError
from raftmeta.user_machines.values import pack, unpack

__all__ = ["Entry", "MachineClass", "command", "current_entry", "invariant", "machine_class_of", "replicated"]

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])

# Keywords of every call: how it is made, not what is asked.
CALL_OPTIONS = frozenset({"timeout_s", "fence", "local"})
STATE_METHODS = frozenset({"dump", "load"})
OWN_METHODS = frozenset({"metrics", "upgrade"})  # of raftmeta.UserMachine
_SINCE = "__raftmeta_since__"
_INVARIANT = "__raftmeta_invariant__"
_CLASS = "__raftmeta_class__"


@dataclass(frozen=True, slots=True)
class MachineClass:
    """A class as its copies run it. commands: since which version of the class each is there."""

    cls: type[Any]
    version: int
    commands: dict[str, int]
    reads: frozenset[str]
    invariants: frozenset[str] = frozenset()  # a simulation asks them, a node never does

    def make(self) -> Any:
        return self.cls()

    def dump(self, state: Any) -> bytes:
        """The state as bytes: by the class's own dump(), else the attributes."""
        if not hasattr(self.cls, "dump"):
            return pack(vars(state))
        dumped = state.dump()
        if type(dumped) is not bytes:
            raise TypeError(f"dump() must give bytes, not {type(dumped).__name__}")
        return dumped

    def load(self, data: bytes) -> Any:
        """A state from bytes that dump gave."""
        if hasattr(self.cls, "load"):
            return self.cls.load(data)
        state = object.__new__(self.cls)
        vars(state).update(unpack(data))
        return state


@dataclass(frozen=True, slots=True)
class Entry:
    """The entry that a command runs for, the same on every node.

    index: of the entry, ascending from command to command. wall_s: when its leader took it, in seconds since 1970,
    never going back: the only clock that a command may read.
    """

    index: int
    wall_s: float

    def random(self) -> random.Random:
        """Random numbers that are the same on every node; each call begins again."""
        return random.Random(self.index)


_running = threading.local()


def current_entry() -> Entry:
    """The entry of the command that runs on this thread. Raises RuntimeError outside of a command."""
    entry: Entry | None = getattr(_running, "entry", None)
    if entry is None:
        raise RuntimeError("current_entry() has an answer only inside a command of a replicated class")
    return entry


def set_current_entry(entry: Entry | None) -> None:
    """For the thread that runs commands."""
    _running.entry = entry


def command(function: F | None = None, *, since: int = 1) -> Any:
    """Mark a method as a command: it may change the object, and runs once on every node, in the order of the log.

    It must be deterministic: a function of the object and its arguments; current_entry() has a clock and random
    numbers. Arguments and result are plain values (user_machines/values.py). since: the version of the class that
    brought the command; before the machine has that version it fails, on every node alike.
    """

    def mark(function: F) -> F:
        setattr(function, _SINCE, since)
        return function

    return mark if function is None else mark(function)


def invariant(function: F) -> F:
    """Mark a method as something that holds after every command; `raftmeta sim module:Class` asks it, no node does.

    It takes no arguments, changes nothing, and raises (an assert will do) or returns False when it is broken.
    """
    setattr(function, _INVARIANT, True)
    return function


def replicated(cls: C | None = None, *, version: int = 1) -> Any:
    """Make a class usable with Node.replicated(name, cls).

    version: of its commands, from 1; it only grows. Methods marked with @command are commands, all other public methods
    are reads. The class is made without arguments. Its state is what dump() -> bytes and the classmethod
    load(bytes) say, or else its attributes, which then must be plain values.
    Raises ConfigError: the class cannot be one; the message says what to change.
    """

    def wrap(cls: C) -> C:
        setattr(cls, _CLASS, _described(cls, version))
        return cls

    return wrap if cls is None else wrap(cls)


def machine_class_of(cls: type) -> MachineClass:
    """The facts that @replicated found about a class. Raises ConfigError when it was not used on it."""
    description = vars(cls).get(_CLASS) if isinstance(cls, type) else None
    if not isinstance(description, MachineClass):
        raise ConfigError(f"cls: {cls!r} is not a class marked with @raftmeta.replicated", field="cls")
    return description


def _refuse(cls: type, why: str) -> ConfigError:
    return ConfigError(f"{cls.__qualname__}: {why}", field="cls")


def _described(cls: type, version: int) -> MachineClass:
    if type(version) is not int or version < 1:
        raise _refuse(cls, f"version must be an integer from 1, not {version!r}")
    if callable(getattr(cls, "dump", None)) != callable(getattr(cls, "load", None)):
        raise _refuse(cls, "give both dump() and the classmethod load(data), or neither")
    commands: dict[str, int] = {}
    reads: set[str] = set()
    invariants: set[str] = set()
    for name, member in inspect.getmembers(cls, inspect.isfunction):
        since = getattr(member, _SINCE, None)
        if since is not None:
            _check_command(cls, name, since, version)
            commands[name] = since
        elif hasattr(member, _INVARIANT):
            invariants.add(name)
        elif not name.startswith("_") and name not in STATE_METHODS:
            reads.add(name)
        if since is not None or name in reads:
            _check_parameters(cls, name, member)
    if not commands:
        raise _refuse(cls, "no method is marked with @raftmeta.command")
    _check_state(cls)
    return MachineClass(cls, version, commands, frozenset(reads), frozenset(invariants))


def _check_command(cls: type, name: str, since: Any, version: int) -> None:
    if name.startswith("_") or name in STATE_METHODS:
        raise _refuse(cls, f"{name}() cannot be a command")
    if type(since) is not int or not 1 <= since <= version:
        raise _refuse(cls, f"{name}(): since must be from 1 to the version of the class, {version}, not {since!r}")


def _check_parameters(cls: type, name: str, member: Callable[..., Any]) -> None:
    if inspect.iscoroutinefunction(member) or inspect.isgeneratorfunction(member) or inspect.isasyncgenfunction(member):
        raise _refuse(cls, f"{name}() must be a plain function: it runs to its end at once")
    if name in OWN_METHODS:
        raise _refuse(cls, f"{name}() is a method of every user machine; rename it")
    taken = CALL_OPTIONS & inspect.signature(member).parameters.keys()
    if taken:
        raise _refuse(cls, f"{name}(): the parameter {min(taken)} is an option of every call; rename it")


def _check_state(cls: type) -> None:
    try:
        state = cls()
    except TypeError as error:
        raise _refuse(cls, f"it must be possible to make one without arguments: {error}") from error
    if not hasattr(cls, "dump"):
        if not hasattr(state, "__dict__"):
            raise _refuse(cls, "it has no __dict__: give dump() and the classmethod load(data)")
        try:
            pack(vars(state))
        except ValueError as error:
            raise _refuse(cls, f"its attributes are not plain values, give dump() and load(data): {error}") from None
