"""The common part of sources whose keys all fit into memory: a list of items, sorted, without two of one key."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from raftmeta.migrate.closing import Closing
from raftmeta.migrate.items import Item
from raftmeta.migrate.problems import NotMigratable

__all__ = ["Listed"]


class Listed(Closing):
    """A source over a list. A subclass fills it by _keep, and says where it comes from."""

    root = b""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.dropped: Counter[str] = Counter()
        self._items: list[Item] = []

    def _keep(self, items: Iterable[Item]) -> None:
        """Raises NotMigratable: two items have one key."""
        self._items = sorted(items)
        for before, after in itertools.pairwise(self._items):
            if before.key == after.key:
                raise NotMigratable(
                    f"two keys of the source are both {before.key!r} as bytes: rename one of them first"
                )

    def items(self) -> Iterator[Item]:
        """All keys, in order."""
        return iter(self._items)

    def holders(self) -> Mapping[int, float]:
        """No key of such a source has a holder."""
        return {}

    def close(self) -> None:
        """There is nothing to remove."""
