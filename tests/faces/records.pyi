"""Record batches and record logs for tests (raftmeta/wire/record_batches.pxd, raftmeta/machine/record_reads.pxd)."""

from __future__ import annotations

from raftmeta.machine.machine_handle import MachineHandle

def check(batch: bytes, *, must_have_keys: bool = False) -> int:
    """batch_check: 0, or Kafka's code."""

def is_sound(batch: bytes) -> bool:
    """Whether the bytes are a batch as it is kept."""

def records(batch: bytes) -> list[tuple[int, int, bytes | None, bool]]:
    """The records of an open batch: offset and timestamp, both from the batch's first; key, and whether it has a value."""

def placed(batch: bytes, base_offset: int) -> bytes:
    """The batch in its place."""

def without(batch: bytes, left_out: list[int]) -> bytes:
    """The batch without the records of these offsets; empty: none is left."""

def log_view(handle: MachineHandle, log: bytes) -> tuple[int, int, int, int]:
    """Start, next offset, bytes and batches of a log."""

def fetch(
    handle: MachineHandle, log: bytes, offset: int, *, bytes_max: int = 1 << 30, must_have_one: bool = True
) -> bytes:
    """Whole batches from the offset on."""

def at_time(handle: MachineHandle, log: bytes, timestamp: int | None) -> tuple[int, int] | None:
    """Offset and timestamp of the first record that is not before the timestamp; None: of the latest record."""
