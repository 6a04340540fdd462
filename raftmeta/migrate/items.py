"""The shape that every source gives and every migration takes: items in order of their keys, and counts of the rest.

An item is one key of the old system, with the facts that the new one has no field for. A source never decides how these
are stored (raftmeta/migrate/mapping.py). It counts everything that it leaves out: it drops nothing in silence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

__all__ = ["Item", "Record", "Source"]


class Item(NamedTuple):
    """One key of the old system.

    metadata: a JSON object, as text, with the old system's facts beside the value. holder: the session or lease with
    which the key would vanish, 0: none. counter: the next number of sequential children, None: the key had none.
    is_counter: the value is itself a counter, 8 bytes, big-endian and signed.
    """

    key: bytes
    value: bytes
    metadata: str
    holder: int = 0
    counter: int | None = None
    is_counter: bool = False


class Record(NamedTuple):
    """One key to write. holder: of the item, where the key is attached to a lease; else 0.

    is_counter: the key becomes a counter, which `add` moves; the value shows its number.
    """

    key: bytes
    value: bytes
    holder: int = 0
    is_counter: bool = False


class Source(Protocol):
    """A state that was read whole and found sound.

    kind: of the old system. root: the beginning of every key. position: the place of this state in the old system's
    history, for people and for comparing two reads. warnings: facts that somebody should know. dropped: counts by kind
    of things that are no items; complete after items().
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
        """Remove temporary files."""
