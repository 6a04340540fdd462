"""The log of a folder whose node will not run, and the way of its entries into a machine; the engine never uses it.

Statuses are numbers of raftmeta/status.pxd.
"""

from __future__ import annotations

from typing import NamedTuple

from raftmeta.machine.machine_handle import MachineHandle
from raftmeta.security.cipher_handle import KeyRingHandle

Point = tuple[int, int, int]
"""index, term and chain hash of an entry"""

MACHINE_LIMITS: dict[str, int]
"""Arguments of MachineHandle for a machine that decides as every node's does"""

class Followed(NamedTuple):
    """How far entries lead on from a point."""

    status: int
    point: Point
    wall_ms: int
    membership: bytes
    membership_index: int
    chains: list[int]

class StoppedLog:
    """All records that the files of one log hold, whatever is damaged; takes the memory of the files."""

    status: int
    def __init__(
        self,
        files: list[tuple[int, bytes]],
        mark: bytes,
        *,
        owner: int = 0,
        void_owner: int = 0,
        keys: KeyRingHandle | None = None,
    ) -> None:
        """Read the segments (number, content) and the content of the mark. owner: whose log, 0 anybody's.

        keys: of encrypted segments; one without its key makes the status NO_KEY.
        """
    @property
    def start(self) -> Point:
        """The entry before the first segment that can be read."""
    @property
    def membership(self) -> bytes:
        """Encoded membership in force at start; b"": not known."""
    @property
    def membership_index(self) -> int:
        """Index of the entry that carries it."""
    @property
    def first(self) -> int:
        """The first index of which anything is known."""
    @property
    def last(self) -> int:
        """The last index of which anything is known; first - 1: none."""
    @property
    def committed(self) -> int:
        """Entries of this log up to this index are certainly committed, as far as they can be read."""
    @property
    def lost_batches(self) -> int:
        """How many batches were written of which nothing is left."""
    @property
    def foreign_files(self) -> int:
        """How many segments belong to another incarnation."""
    def chain(self, index: int) -> tuple[int, bool]:
        """(hash of the entry at index, 0 if it is not known; whether its record is there)"""
    def record(self, index: int) -> bytes | None:
        """The record at index without its padding; None: it is damaged or gone."""

def follow(
    logs: list[StoppedLog], point: Point, *, machine: MachineHandle | None = None, until: int | None = None
) -> Followed:
    """Follow the entries behind point, at most to index until, and apply them to machine if it is given.

    Of several sound records of an index that follow, the first log's is taken. With a machine, chains is empty.
    """
