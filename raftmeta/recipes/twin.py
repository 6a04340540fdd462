"""The blocking twin of a class whose methods are coroutines: each method runs the coroutine to its end.

    class Lock(Twin, of=lock.Lock):
        acquire = blocking(lock.Lock.acquire, Permit)

A twin has no logic. Its object `_of` was made on the blocking face (recipes/face), so that its coroutines never
suspend. Type checkers read arguments and result of a method off the coroutine. A Held has a twin of its own,
which the blocking face shows instead (twin_of).
"""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, Concatenate, ParamSpec, TypeVar, overload

from raftmeta.recipes.face import run

__all__ = ["Twin", "attribute", "blocking", "iterated", "twin_of"]

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")

_TWINS: dict[type, type[Twin]] = {}  # by the class with the coroutines; written while classes are made


class Twin:
    """Runs the coroutines of `_of`."""

    _of: Any

    def __init_subclass__(cls, of: type | None = None) -> None:
        if of is not None:
            _TWINS[of] = cls
        for name, method in vars(cls).items():
            if hasattr(method, "__wrapped__"):  # help() looks for contracts in the bases of the class that it names
                method.__module__, method.__qualname__ = cls.__module__, f"{cls.__qualname__}.{name}"

    def __repr__(self) -> str:
        return repr(self._of)


def twin_of(subject: object) -> Any:
    """The twin of an object that was made on the blocking face."""
    kind = next(_TWINS[base] for base in type(subject).__mro__ if base in _TWINS)
    made = object.__new__(kind)
    made._of = subject
    return made


@overload
def blocking(verb: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Any, P], T]: ...
@overload
def blocking(verb: Callable[Concatenate[Any, P], object], gives: type[S]) -> Callable[Concatenate[Any, P], S]: ...
def blocking(verb: Any, gives: Any = None) -> Any:
    """The method of a twin for this one of its class. gives: the type of the result, where that is a twin as well."""
    name = verb.__name__
    ended: Callable[[Any], Any] = run if inspect.iscoroutinefunction(verb) else _as_it_is

    @functools.wraps(verb)
    def method(self: Twin, *arguments: Any, **options: Any) -> Any:
        return ended(getattr(self._of, name)(*arguments, **options))

    return method


def _as_it_is(given: Any) -> Any:
    return given


def attribute(name: str) -> Any:
    """The attribute of this name, of the object with the coroutines."""
    return property(operator.attrgetter(f"_of.{name}"))


def iterated(items: AsyncIterator[T]) -> Iterator[T]:
    """An asynchronous generator on the blocking face; leaving the loop closes it."""
    generator: Any = items
    try:
        while True:
            try:
                yield run(generator.__anext__())
            except StopAsyncIteration:
                return
    finally:
        run(generator.aclose())
