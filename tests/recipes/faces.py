"""Both faces behind one: the contracts are written once, as blocking calls, and run on asyncio too.

blocking(node)   is the node itself
on_loop(node)    its asyncio face, on an event loop of a thread of its own; every call waits for its coroutine
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import raftmeta
from raftmeta import recipes
from raftmeta.conformance.aio_kit import EventLoop
from raftmeta.recipes.coordination import Coordinated

CALL_S = 30.0


class Parts(Coordinated):
    """The interfaces of a node that a test may close while the node goes on."""

    def __init__(self, node: raftmeta.Node) -> None:
        self.node = node

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)


class Driven:
    """An object of the asyncio face; its methods block until their coroutine is done, on any thread but the loop's."""

    def __init__(self, subject: Any, loop: EventLoop) -> None:
        self.subject = subject
        self.loop = loop

    def __getattr__(self, name: str) -> Any:
        found = self.loop.call(getattr, self.subject, name)
        if not callable(found):
            return self._show(found)

        def method(*arguments: Any, **options: Any) -> Any:
            if name == "terms":
                return self._terms(found(*arguments, **options))
            return self._show(self.loop.call(found, *arguments, **options))

        return method

    def __eq__(self, other: object) -> bool:
        return self.subject is (other.subject if isinstance(other, Driven) else other)

    __hash__ = None  # type: ignore[assignment]

    def __enter__(self) -> Any:
        return self._show(self.loop.call(self.subject.__aenter__))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.loop.call(self.subject.__aexit__, kind, error, trace)

    def _show(self, value: Any) -> Any:
        parts = (raftmeta.interfaces.HeldBase, recipes.aio.Group, recipes.aio.Election)
        parts += (recipes.aio.Storage, recipes.aio.Registry)
        return Driven(value, self.loop) if isinstance(value, parts) else value

    def _terms(self, leads: Any) -> Iterator[Any]:
        try:
            while True:
                try:
                    yield self._show(self.loop.call(leads.__anext__))
                except StopAsyncIteration:
                    return
        finally:
            self.loop.call(leads.aclose)


class Face:
    """A face of one node. recipe(name, ...) makes one of raftmeta.recipes on it."""

    def __init__(self, node: raftmeta.Node, loop: EventLoop | None) -> None:
        self.node = node
        self.loop = loop
        self._aio = None if loop is None else loop.call(node.aio)
        self.store: Any = Parts(node) if loop is None else Driven(self._aio, loop)

    def recipe(self, name: str, *arguments: Any, **options: Any) -> Any:
        if self.loop is None:
            return getattr(recipes, name)(self.node, *arguments, **options)
        made = self.loop.call(getattr(recipes.aio, name), self._aio, *arguments, **options)
        return Driven(made, self.loop)

    def close(self) -> None:
        """Ends what was joined through this face; the node goes on."""
        if self.loop is None:
            self.store.close_parts()
        else:
            self.loop.call(self._aio.close)  # type: ignore[union-attr]
