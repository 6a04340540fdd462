"""A source that is made and not read; run as a program it is a loader, to be killed."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import raftmeta
from raftmeta import migrate
from raftmeta.migrate import Item

SIDE = b"migrated/test/"
MAPPING = migrate.Mapping(side=SIDE)


class MadeSource:
    """Items in memory, in any order given."""

    kind = "test"
    root = b"/"
    position = "now"

    def __init__(self, items: Iterable[Item], *, holders: Mapping[int, float] | None = None) -> None:
        self.warnings: list[str] = []
        self.dropped: Counter[str] = Counter()
        self._items = sorted(items)
        self._holders = holders or {}

    def items(self) -> Iterator[Item]:
        return iter(self._items)

    def holders(self) -> Mapping[int, float]:
        return self._holders

    def facts(self) -> Mapping[str, int | str]:
        return {}

    def close(self) -> None:
        """There is nothing to remove."""


def numbered(count: int, *, value: bytes = b"v") -> MadeSource:
    return MadeSource(Item(b"/n/%06d" % number, value, "{}", counter=number) for number in range(count))


def main(url: str, count: str) -> None:
    source = numbered(int(count))
    with raftmeta.Client(url) as client:
        client.ready(20)
        migrate.load(client, source, MAPPING, migrate.plan(source, MAPPING))


if __name__ == "__main__":
    main(*sys.argv[1:])
