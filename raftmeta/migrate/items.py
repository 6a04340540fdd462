"""What every source gives and every migration takes: items in order of their keys, and what became of the rest.

An item is one key of the old system with what the new one has no field for. A source never decides how that is stored
(raftmeta/migrate/mapping.py), and counts everything that it leaves out: nothing is dropped in silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

__all__ = ["Item", "Record", "Source"]


class Item(NamedTuple):
    """One key of the old system.

    metadata: a JSON object, as text, of what the old system knew beside the value. holder: the session or lease with
    which it would vanish, 0: none. counter: where numbers of sequential children go on, None: it had no children.
    is_counter: the value is one itself, 8 bytes, big-endian and signed.
    """

    key: bytes
    value: bytes
    metadata: str
    holder: int = 0
    counter: int | None = None
    is_counter: bool = False


class Record(NamedTuple):
    """One key to be written. holder: of the item, where it is attached to a lease; else 0.

    is_counter: it becomes a counter, which `add` moves; the value shows its number.
    """

    key: bytes
    value: bytes
    holder: int = 0
    is_counter: bool = False


class Source(Protocol):
    """A state that was read whole and found sound.

    kind: of the old system. root: what every key begins with. position: where in its history this state is, for people
    and for comparing two reads. warnings: what somebody should know. dropped: how many things of which kind are no
    items; complete after items().
    """

    kind: str
    root: bytes
    position: str
    warnings: list[str]
    dropped: Counter[str]

    def items(self) -> Iterator[Item]:
        """All items in order of their keys, as often as asked."""

    def holders(self) -> Mapping[int, float]:
        """Time-outs in seconds of the sessions or leases that items may name."""

    def facts(self) -> Mapping[str, int | str]:
        """Counts for the report."""

    def close(self) -> None:
        """Remove what was needed meanwhile."""
