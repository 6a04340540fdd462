"""Calls of a user's class, made up: names of commands, and arguments by their type hints or by the class itself.

A class says how it is called with a classmethod:

    @classmethod
    def simulated_call(cls, random):
        return "move", (random.choice("abc"), random.randrange(9))      # name, args[, kwargs]

Without it arguments come from the hints, out of small pools, so that commands meet the same keys again. Everything is
drawn from the one stream that is given, so a seed makes the same calls again.
"""

from __future__ import annotations

import inspect
import random
import types
import typing
from collections.abc import Callable
from typing import Any, Literal, Union, get_args, get_origin

from raftmeta.user_machines.classes import MachineClass

__all__ = ["Call", "call_text", "drawn_call", "drawn_read"]

Call = tuple[str, list[Any], dict[str, Any]]

GENERATOR = "simulated_call"
_POOLS: dict[Any, tuple[Any, ...]] = {
    int: (0, 1, 2, 3, 5, 8, 100, -1, 2**40),
    float: (0.0, 0.5, 1.0, -2.25, 1e9),
    bool: (False, True),
    str: ("a", "b", "c", "ann", "bob", "carl", "", "größe"),
    bytes: (b"a", b"b", b"", b"\x00\xff"),
    type(None): (None,),
    None: (None,),
}
_ANYTHING = (int, str)
ITEMS_MAX = 4  # of a list or dict that is made up


def drawn_call(machine_class: MachineClass, stream: random.Random) -> Call:
    """The next command. Raises ValueError: its arguments cannot be made up, or the class's own generator errs."""
    generator = getattr(machine_class.cls, GENERATOR, None)
    if generator is None:
        name = stream.choice(sorted(machine_class.commands))
        return (name, *_arguments(machine_class.cls, name, stream))
    made = generator(stream)
    if not isinstance(made, tuple) or not 2 <= len(made) <= 3 or made[0] not in machine_class.commands:
        raise ValueError(
            f"{GENERATOR}() must give (name of a command, arguments) or (name, arguments, keywords), not {made!r}"
        )
    return made[0], list(made[1]), dict(made[2]) if len(made) == 3 else {}


def drawn_read(machine_class: MachineClass, stream: random.Random) -> Call | None:
    """A read of the class; None: it has none whose arguments can be made up."""
    names = sorted(machine_class.reads)
    if not names:
        return None
    name = stream.choice(names)
    try:
        return (name, *_arguments(machine_class.cls, name, stream))
    except ValueError:
        return None


def call_text(call: Call) -> str:
    """As it would stand in a program."""
    name, args, kwargs = call
    return f"{name}({', '.join([*map(repr, args), *(f'{key}={value!r}' for key, value in kwargs.items())])})"


def _arguments(cls: type, name: str, stream: random.Random) -> tuple[list[Any], dict[str, Any]]:
    function = getattr(cls, name)
    hints = _hints(function)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for parameter in list(inspect.signature(function).parameters.values())[1:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.default is not parameter.empty and stream.random() < 0.5:
            if parameter.kind is not parameter.KEYWORD_ONLY:
                break  # those behind it would move into its place
            continue
        try:
            value = _value(hints.get(parameter.name, Any), stream)
        except ValueError as error:
            raise ValueError(f"{cls.__qualname__}.{name}(): {parameter.name}: {error}") from None
        if parameter.kind is parameter.KEYWORD_ONLY:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    return args, kwargs


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function)
    except NameError as error:
        raise ValueError(f"a type hint of {function.__qualname__}() cannot be resolved: {error}") from None


def _value(hint: Any, stream: random.Random) -> Any:
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return _value(stream.choice(_ANYTHING), stream)
    if hint in _POOLS:
        return stream.choice(_POOLS[hint])
    if origin is Literal:
        return stream.choice(inner)
    if origin in (Union, types.UnionType):
        return _value(stream.choice(inner), stream)
    kind = origin or hint
    if kind is tuple and inner and inner[-1] is not Ellipsis:
        return tuple(_value(one, stream) for one in inner)
    if kind in (list, set, frozenset, tuple):
        return kind(_value(inner[0] if inner else Any, stream) for _ in range(stream.randrange(ITEMS_MAX)))
    if kind is dict:
        of_key, of_value = inner or (str, Any)
        return {_value(of_key, stream): _value(of_value, stream) for _ in range(stream.randrange(ITEMS_MAX))}
    raise ValueError(f"no value of {hint!r} can be made up; give the class a classmethod {GENERATOR}(random)")
