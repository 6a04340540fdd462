"""The checkpoint port of a node for tests (raftmeta/engine/snapshots/checkpoint.pxd has the rules)."""

from __future__ import annotations

from pathlib import Path

from raftmeta.machine.machine_handle import MachineHandle

class CheckpointPortHandle:
    """The port over the thread that writes the checkpoints of data_dir; every verb returns a status."""

    def __init__(self, data_dir: Path) -> None: ...
    def open(self) -> tuple[int, tuple[int, int, bytes]]:
        """Return (status, (index, term, encoded membership))."""
    def next(self) -> tuple[int, bytes]:
        """Return (status, chunk of records)."""
    def forget(self) -> int:
        """Remove everything."""
    def begin_from(self, machine: MachineHandle, *, is_kept: bool) -> None:
        """Say whose state is dumped from now on."""
    def take(self, term: int, membership: bytes, *, turn: int = 0) -> int:
        """Begin a dump of the machine and hand it over; turn: the member's place among all."""
    def poll(self) -> int:
        """Ask how it goes; ends the dump when it is over."""
    def tick(self) -> None:
        """Let it think about what it pins."""
    def stop(self, timeout_s: float) -> bool:
        """End the thread; False: it did not end in time."""
    @property
    def layers(self) -> list[int]:
        """The kinds of the layers that are durable."""
