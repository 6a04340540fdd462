"""One node's copy of a user's class, in a process of its own: python -m raftmeta.sim.users.replica <number>.

It does what raftmeta/sim/users/world tells it over a pipe, with the Copy that nodes run. A process is what differs from
node to node: its hash seed, its clock (which is set off by the node's number), its time zone, the addresses of objects.
For each life of the node it forks and imports the class, so that a crash takes everything with it that was in memory.

It must never decide whether something is wrong. It reports, and user_world compares.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import IO, Any

from raftmeta.errors import RaftmetaError
from raftmeta.user_machines.classes import MachineClass, machine_class_of
from raftmeta.user_machines.copy import CommandRecord, Copy, MachineFault
from raftmeta.user_machines.values import pack, unpack

__all__ = ["load_class", "receive", "send"]

_LENGTH = struct.Struct("<I")
ENDED = 77  # exit code of a life that was told to end
CLOCK_OFFSET_S = 40_000_000.25  # between the clocks of two nodes: more than a year, and not whole seconds
TEXT_MAX = 200


# --- the pipe ---------------------------------------------------------------------------------------------------------
def send(stream: IO[bytes], value: Any) -> None:
    data = pack(value)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """The next value. Raises EOFError when the other side is gone."""
    return unpack(_exactly(stream, _LENGTH.unpack(_exactly(stream, _LENGTH.size))[0]))


def _exactly(stream: IO[bytes], length: int) -> bytes:
    """So many bytes and not one more: what follows may be for the next life."""
    data = b""
    while len(data) < length:
        part = stream.read(length - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def load_class(target: str) -> MachineClass:
    """The class that module:Class names. Raises ValueError: there is none, or it is not replicated."""
    module_name, _, class_name = target.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
        return machine_class_of(found)
    except (ImportError, AttributeError, ValueError, RaftmetaError) as error:
        raise ValueError(f"{target}: {error}") from error


# --- differences ------------------------------------------------------------------------------------------------------
def _short(value: Any) -> str:
    text = (
        f"{{{', '.join(sorted(map(repr, value)))}}}" if isinstance(value, (set, frozenset)) and value else repr(value)
    )
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}..."


def _differences(path: str, ours: Any, theirs: Any) -> list[str]:
    """Where two values differ, attribute by attribute and key by key."""
    if type(ours) is not type(theirs):
        return [f"{path}: {_short(ours)} here, {_short(theirs)} there"]
    if isinstance(ours, dict):
        found = [f"{path}[{key!r}]: only {'here' if key in ours else 'there'}" for key in ours.keys() ^ theirs.keys()]
        for key in ours.keys() & theirs.keys():
            found += _differences(f"{path}[{key!r}]", ours[key], theirs[key])
        if not found and list(ours) != list(theirs):
            found = [f"{path}: the keys come in another order, {_short(list(ours))} here, {_short(list(theirs))} there"]
        return found
    if isinstance(ours, (list, tuple)) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [text for i, (one, other) in pairs for text in _differences(f"{path}[{i}]", one, other)]
    if hasattr(ours, "__dict__") and type(ours).__dict__.get("__eq__") is None:
        return _attributes(path, ours, theirs)
    return [] if ours == theirs else [f"{path}: {_short(ours)} here, {_short(theirs)} there"]


def _attributes(path: str, ours: Any, theirs: Any) -> list[str]:
    found: list[str] = []
    mine, other = vars(ours), vars(theirs)
    for name in [*mine, *(name for name in other if name not in mine)]:
        if name not in mine or name not in other:
            found.append(f"{path}.{name}: only {'here' if name in mine else 'there'}")
        else:
            found += _differences(f"{path}.{name}", mine[name], other[name])
    return found


# --- one life of the node ---------------------------------------------------------------------------------------------
class Replica:
    """The copy, and what may be asked of it. Each method is an order by its name; it returns a plain value."""

    def __init__(self, machine_class: MachineClass) -> None:
        self.machine_class = machine_class
        self.copy = Copy(machine_class)

    def run(self, *fields: Any) -> list[Any]:
        """Run the next command: its outcome, the state after it, and the invariants that do not hold."""
        outcome = self.copy.run(CommandRecord(*fields))
        return [outcome, self._state(), self._broken_invariants()]

    def read(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
        """The answer to a read, or the exception that it raises, and the state after it."""
        try:
            answer = pack(["answers", getattr(self.copy.state, name)(*args, **kwargs)])
        except Exception as error:  # a read may refuse what was made up; it must do so everywhere
            answer = pack(["raises", type(error).__name__])
        return [answer, self._state()]

    def dump(self) -> list[Any]:
        """The copy as bytes, as a node puts it into the log."""
        dumped = self.copy.dump()
        return [dumped.pointer, dumped.data]

    def load(self, pointer: int, data: bytes) -> bytes:
        """Become the copy that was dumped; the state after it."""
        self.copy.load(data, pointer)
        return self._state()

    def reopen(self) -> None:
        """The node is closed and opened again in the same process: what the class keeps beside its objects stays."""
        self.copy = Copy(self.machine_class)

    def compare(self, theirs: bytes) -> list[str]:
        """Where this copy's state differs from what another one's dump is when it is loaded."""
        return _attributes("state", self.copy.state, self.machine_class.load(theirs))

    def _state(self) -> bytes:
        try:
            return self.machine_class.dump(self.copy.state)
        except Exception as error:
            raise MachineFault(f"its state cannot be dumped: {type(error).__name__}: {error}") from error

    def _broken_invariants(self) -> list[str]:
        broken = []
        for name in sorted(self.machine_class.invariants):
            try:
                if getattr(self.copy.state, name)() is False:
                    broken.append(f"{name}() is False")
            except Exception as error:
                broken.append(f"{name}(): {type(error).__name__}: {error}".rstrip(": "))
        return broken


def _serve(target: str, orders: IO[bytes], answers: IO[bytes]) -> None:
    """One life: until it is told to end, or user_world is gone."""
    try:
        replica = Replica(load_class(target))
        send(answers, ["ok", None])
    except ValueError as error:
        send(answers, ["died", str(error)])
        return
    while True:
        order, *arguments = receive(orders)
        if order == "end":
            return
        method: Callable[..., Any] = getattr(replica, order)
        try:
            send(answers, ["ok", method(*arguments)])
        except MachineFault as fault:
            send(answers, ["fault", str(fault)])


# --- the process ------------------------------------------------------------------------------------------------------
def _set_clock(number: int) -> None:
    """No two nodes have the same time. A class that asks for it gets this node's."""
    offset_s = number * CLOCK_OFFSET_S
    of_time, of_time_ns = time.time, time.time_ns
    time.time = lambda: of_time() + offset_s
    time.time_ns = lambda: of_time_ns() + int(offset_s * 1e9)


def main() -> None:
    orders = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb", buffering=0)
    os.dup2(2, 1)  # what the class prints is no answer
    _set_clock(int(sys.argv[1]))
    while True:
        _, target = receive(orders)
        child = os.fork()
        if child == 0:
            with contextlib.suppress(EOFError, BrokenPipeError):
                _serve(target, orders, answers)
            os._exit(ENDED)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != ENDED:
            send(answers, ["died", f"its process ended with code {code}"])


if __name__ == "__main__":
    with contextlib.suppress(EOFError, BrokenPipeError):
        main()
