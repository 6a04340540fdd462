"""A store below a prefix: node.prefixed("app/") has the same verbs and KIP-30's interfaces, over the keys below it.

    app = node.prefixed("app/")
    app.put("topics/t", b"3")                   # the key app/topics/t
    app.group("brokers").join("a")              # no member of node.group("brokers")
    app.prefixed("jobs/").get("7")              # the key app/jobs/7

Keys outside never appear in it. Revisions, their history, leases and members are those of the store. A fence belongs to
the view on which it was made, and a refusal for missing rights names whole keys. It decides that a view has no life of
its own: a place that was taken through it ends with its store.
"""

from __future__ import annotations

from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self

from raftmeta.interfaces import Owner, State
from raftmeta.operations import Key
from raftmeta.recipes.coordination import AioCoordinated, Coordinated
from raftmeta.verbs.prefix import Prefix
from raftmeta.verbs.prefixed import AioPrefixed, Prefixed

__all__ = ["AioView", "View"]


class _View:
    """The part of its store that a view has beside the verbs."""

    _store: Any
    _prefix: Prefix
    _owns_store: bool

    @property
    def owner(self) -> Owner:
        """The owner of all that is taken through it: that of the store."""
        owner: Owner = self._store.owner
        return owner

    @property
    def has_state(self) -> bool:
        """For recipes/store."""
        return bool(getattr(self._store, "has_state", False))

    def look_at_state(self) -> tuple[State, int]:
        """For recipes/states."""
        found: tuple[State, int] = self._store.look_at_state()
        return found

    def _states_here(self) -> Any:
        return self._store._states_here()

    def _parts_here(self) -> Any:
        return self._store._parts_here()

    def _kind(self, kind: str) -> str:
        """Parts of a view are none of its store, which keeps them all."""
        return f"{kind} below {self._prefix.raw!r}"


class View(_View, Coordinated, Prefixed):
    """The keys of a blocking store below a prefix; `Node.prefixed` and `Client.prefixed` make it.

    As a context, and by close(), it closes its store only if it came from a URL of raftmeta.connect.
    """

    def __init__(self, store: Any, prefix: Prefix, *, owns_store: bool = False) -> None:
        super().__init__(store, prefix)
        self._owns_store = owns_store

    def prefixed(self, prefix: Key) -> View:
        """The keys below a prefix below this one."""
        return View(self._store, self._prefix.within(prefix))

    def fetch(self, key: Key, *, timeout_s: float | None = 5.0) -> Future[bytes | None]:
        """As Node.fetch."""
        future: Future[bytes | None] = self._store.fetch(self._prefix.key(key), timeout_s=timeout_s)
        return future

    def _handle(self, kind: str, name: str, ttl_s: float, make: Any) -> Any:
        return super()._handle(self._kind(kind), name, ttl_s, make)

    def close(self) -> None:
        """Close the store, if it came from a URL."""
        if self._owns_store:
            self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()


class AioView(_View, AioCoordinated, AioPrefixed):
    """The keys of a store on asyncio below a prefix; see View."""

    def __init__(self, store: Any, prefix: Prefix, *, owns_store: bool = False) -> None:
        super().__init__(store, prefix)
        self._owns_store = owns_store

    def prefixed(self, prefix: Key) -> AioView:
        """The keys below a prefix below this one."""
        return AioView(self._store, self._prefix.within(prefix))

    def _handle(self, kind: str, name: str, ttl_s: float, make: Any) -> Any:
        return super()._handle(self._kind(kind), name, ttl_s, make)

    async def close(self) -> None:
        """Close the store, if it came from a URL."""
        if self._owns_store:
            await self._store.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exc: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()
