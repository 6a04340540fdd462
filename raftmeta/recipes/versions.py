"""Mappings and sets that many versions share: a new version costs what changed, not what is there.

    latest:  the only dictionary, brought up to date in place
    older:   a version that somebody still holds knows what the next version changed, and what was there before

A listener of 20,000 keys so gets a whole set for each change, and pays for the whole only if it looks at the whole.
Versions are never changed: any thread may read one at any time, however many came after it.
"""

from __future__ import annotations

import threading
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, Set, ValuesView
from typing import Any, Generic, TypeVar, cast

__all__ = ["KeySet", "Versions"]

Key = TypeVar("Key")
Value = TypeVar("Value")
_MISSING: Any = object()


class _Latest(Generic[Key, Value]):
    """The state that all versions of one mapping share. items: as of the latest version."""

    __slots__ = ("items", "lock")

    def __init__(self, items: dict[Key, Value]) -> None:
        self.items = items
        self.lock = threading.RLock()  # a signal handler may read in between


class Versions(Mapping[Key, Value]):
    """One version of a mapping. The first is made of items, which belong to it from then on."""

    __slots__ = ("_before", "_latest", "_length", "_next", "_whole")

    def __init__(self, items: dict[Key, Value]) -> None:
        self._latest = _Latest(items)
        self._length = len(items)
        self._next: Versions[Key, Value] | None = None  # None: this is the latest
        self._before: dict[Key, Value] = {}  # of the keys that the next version changed: what this one has
        self._whole: dict[Key, Value] | None = None

    def changed(self, changes: Mapping[Key, Value | None]) -> Versions[Key, Value]:
        """The version after this one, which must be the latest. changes: None for keys that go."""
        made: Versions[Key, Value] = Versions.__new__(Versions)
        made._latest, made._next, made._before, made._whole = self._latest, None, {}, None
        with self._latest.lock:
            assert self._next is None, "only the latest version is changed"
            items = self._latest.items
            for key, value in changes.items():
                self._before[key] = items.get(key, _MISSING)
                if value is None:
                    items.pop(key, None)
                else:
                    items[key] = value
            made._length = len(items)
            self._next = made
        return made

    def _found(self, key: object) -> Any:
        if self._whole is not None:
            return self._whole.get(cast(Key, key), _MISSING)
        with self._latest.lock:
            version = self
            while version._next is not None:
                if key in version._before:
                    return version._before[key]
                version = version._next
            return self._latest.items.get(cast(Key, key), _MISSING)

    def whole(self) -> Mapping[Key, Value]:
        """All of it, as a copy that is made once."""
        if self._whole is None:
            with self._latest.lock:
                changes: dict[Key, Value] = {}
                version = self
                while version._next is not None:
                    for key, value in version._before.items():
                        changes.setdefault(key, value)
                    version = version._next
                copy = dict(self._latest.items)
            copy.update(changes)
            for key, value in changes.items():
                if value is _MISSING:
                    del copy[key]
            self._whole = copy
        return self._whole

    def __getitem__(self, key: Key) -> Value:
        found = self._found(key)
        if found is _MISSING:
            raise KeyError(key)
        return found  # type: ignore[no-any-return]

    def __contains__(self, key: object) -> bool:
        return self._found(key) is not _MISSING

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Key]:
        return iter(self.whole())

    def keys(self) -> KeysView[Key]:
        return self.whole().keys()

    def items(self) -> ItemsView[Key, Value]:
        """All items, of the whole: to look each key up would cost as many steps as there are later versions."""
        return self.whole().items()

    def values(self) -> ValuesView[Value]:
        return self.whole().values()

    def __eq__(self, other: object) -> bool:
        return self.whole() == (other.whole() if isinstance(other, Versions) else other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.whole())


class KeySet(Set[str]):
    """The keys of one version. It compares with, and combines to, a frozenset."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Versions[str, bool]) -> None:
        self._keys = keys

    @classmethod
    def _from_iterable(cls, keys: Iterable[Any]) -> Any:
        return frozenset(keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __hash__(self) -> int:
        return hash(frozenset(self._keys))

    def __repr__(self) -> str:
        return f"KeySet({set(self._keys)!r})"
