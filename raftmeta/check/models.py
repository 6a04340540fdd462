"""The objects of a history as one client alone would see them: sequential specifications (Herlihy & Wing 1990).

All that have a name are native: registers and the key-value store as programs (raftmeta/check/programs.pxd), the others
as objects (raftmeta/check/objects.pxd). The objects are defined here once more, as anybody can write a model: an
immutable state, and a function that says what an operation makes of it. Tests hold the native ones to these. The native
search asks a model written in Python each question once and remembers the answer, so such a model pays for its states,
not for the steps of the search.

It decides what an operation may return. It never knows about time, processes or order.
"""

from __future__ import annotations

import importlib
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol

from raftmeta.check.history import Nothing, canonical

__all__ = ["AppendList", "Call", "Counter", "Lock", "Model", "Program", "Queue", "Set", "Text", "model_named"]


@dataclass(frozen=True, slots=True)
class Call:
    """An operation as a model sees it: name, arguments, result. Of a crashed one the result is unknown, and Nothing."""

    operation: str
    arguments: Any
    result: Any
    is_crashed: bool

    def returned(self, result: Any) -> bool:
        """Can it have returned this? A crashed one can, and one whose result was not written down."""
        return self.is_crashed or self.result is Nothing or canonical(self.result) == canonical(result)


class Model(Protocol):
    """A sequential specification of one object. Objects of a history are told apart by their keys."""

    name: str
    operations: frozenset[str]
    observers: frozenset[str]  # of the operations, those that change no state, whatever they return

    def initial(self) -> Hashable:
        """The state before the first operation."""

    def step(self, state: Any, call: Call) -> Hashable | None:
        """The state after the call in this state; None when it cannot have returned what it returned.

        Raises ValueError for arguments or a result that make no sense to it.
        """


@dataclass(frozen=True, slots=True)
class Program:
    """A native model: keys with values, or one object, and these operations on them."""

    name: str
    operations: frozenset[str]
    is_object: bool = False


class Set:
    """add x, remove x: whether that changed it, if told. contains x: a boolean. read: all elements, in any order."""

    name = "set"
    operations = frozenset({"add", "remove", "contains", "read"})
    observers = frozenset({"contains", "read"})

    def initial(self) -> Hashable:
        return frozenset()

    def step(self, state: Any, call: Call) -> Any:
        if call.operation == "read":
            if call.is_crashed:
                return state
            if not isinstance(call.result, list):
                raise ValueError("read of a set returns a list")
            return state if frozenset(map(canonical, call.result)) == state else None
        element = canonical(call.arguments)
        is_there = element in state
        if call.operation == "contains":
            return state if call.returned(is_there) else None
        if not _says_whether(call, is_there if call.operation == "remove" else not is_there):
            return None
        return state | {element} if call.operation == "add" else state - {element}


class Queue:
    """First in, first out. enqueue x; dequeue: x, or null when it is empty."""

    name = "queue"
    operations = frozenset({"enqueue", "dequeue"})
    observers: frozenset[str] = frozenset()

    def initial(self) -> Hashable:
        return ()

    def step(self, state: Any, call: Call) -> Any:
        if call.operation == "enqueue":
            return (*state, canonical(call.arguments))
        first = state[0] if state else b"null"
        if not call.is_crashed and canonical(call.result) != first:
            return None
        return state[1:]


class Lock:
    """acquire x, release x, where x says who: true, or false when somebody else has it or nobody did.

    An operation that completed and told no result is taken to have succeeded.
    """

    name = "lock"
    operations = frozenset({"acquire", "release"})
    observers: frozenset[str] = frozenset()

    def initial(self) -> Hashable:
        return b""

    def step(self, state: Any, call: Call) -> Any:
        owner = canonical(call.arguments)
        is_acquire = call.operation == "acquire"
        has_succeeded = state == (b"" if is_acquire else owner)
        if call.is_crashed:
            return (owner if is_acquire else b"") if has_succeeded else state
        if has_succeeded != (call.result is not False):
            return None
        return state if not has_succeeded else owner if is_acquire else b""


class AppendList:
    """append x: the length after it, if told. read: the list."""

    name = "append-list"
    operations = frozenset({"append", "read"})
    observers = frozenset({"read"})

    def initial(self) -> Hashable:
        return ()

    def step(self, state: Any, call: Call) -> Any:
        if call.operation == "append":
            longer = (*state, canonical(call.arguments))
            return longer if not isinstance(call.result, int) or call.returned(len(longer)) else None
        if call.is_crashed:
            return state
        if call.result is not None and not isinstance(call.result, list):
            raise ValueError("read of a list returns a list, or null while there is none")
        return state if tuple(map(canonical, call.result or [])) == state else None


class Counter:
    """add n: the number after it, if told. read: the number. It begins with 0."""

    name = "counter"
    operations = frozenset({"add", "read"})
    observers = frozenset({"read"})

    def initial(self) -> Hashable:
        return 0

    def step(self, state: Any, call: Call) -> Any:
        if call.operation == "read":
            return state if call.is_crashed or call.result == state else None
        if not isinstance(call.arguments, int):
            raise ValueError("add takes a whole number")
        total: int = state + call.arguments
        return total if not isinstance(call.result, int) or call.result == total else None


class Text:
    """write x, append x: a string. read: the string, or null while it is empty."""

    name = "text"
    operations = frozenset({"write", "append", "read"})
    observers = frozenset({"read"})

    def initial(self) -> Hashable:
        return ""

    def step(self, state: Any, call: Call) -> Any:
        if call.operation == "read":
            if call.is_crashed:
                return state
            if call.result is not None and not isinstance(call.result, str):
                raise ValueError("read of a text returns a string, or null while it is empty")
            return state if (call.result or "") == state else None
        if not isinstance(call.arguments, str):
            raise ValueError(f"{call.operation} takes a string")
        return call.arguments if call.operation == "write" else state + call.arguments


def _says_whether(call: Call, has_changed: bool) -> bool:
    return not isinstance(call.result, bool) or call.returned(has_changed)


REGISTER = frozenset({"read", "write"})
MODELS: dict[str, Program | Model] = {
    model.name: model
    for model in (
        Program("register", REGISTER),
        Program("cas-register", REGISTER | {"cas"}),
        Program("kv", REGISTER | {"cas", "delete", "txn"}),
        *(Program(kind.name, kind.operations, True) for kind in (Set, Queue, Lock, AppendList, Counter, Text)),
    )
}


def model_named(name: str) -> Program | Model:
    """The model of this name: one of MODELS, or module:Class, a model of your own that is imported and made.

    Raises ValueError with the names that there are, or with what is wrong with the class.
    """
    if ":" in name:
        return _imported(name)
    try:
        return MODELS[name]
    except KeyError:
        raise ValueError(f"no model {name!r}; there are: {', '.join(MODELS)}, and module:Class") from None


def _imported(name: str) -> Model:
    module, _, attribute = name.partition(":")
    try:
        made: Model = getattr(importlib.import_module(module), attribute)()
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"model {name!r}: cannot be imported and made: {error}") from None
    if missing := [part for part in ("name", "operations", "observers", "initial", "step") if not hasattr(made, part)]:
        raise ValueError(f"model {name!r}: has no {', '.join(missing)}; raftmeta.check.Model says what a model has")
    return made
