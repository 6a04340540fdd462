"""The simulated disk as a Python object, for tests; statuses are numbers of raftmeta/status.pxd."""

from __future__ import annotations

from raftmeta.security.cipher_handle import KeyRingHandle
from raftmeta.storage.storage_handle import Disk
from tests.faces.storage import DiskCalls

def use_keys_on_new_disks(keys: KeyRingHandle | None) -> None:
    """Files on all disks that are made from now on are read and written with these keys; None: they are plain."""

class SimulatedPort(Disk):
    """The DiskPort of a simulated disk, and what only such a disk can do."""

    def __init__(self, *, seed: int = 1, sector_bytes: int = 512, copy_of: SimulatedPort | None = None) -> None: ...
    def copy(self, *, seed: int = 1) -> SimulatedDisk:
        """Return the same moment with another future and no planned faults."""
    def plan(self, **faults: int) -> None:
        """Set the fields of SimFaults; those not named are off."""
    @property
    def key_ring(self) -> KeyRingHandle | None:
        """The keys of its files."""
    @property
    def counters(self) -> dict[str, int]:
        """The fields of SimCounters."""
    @property
    def is_cut(self) -> bool: ...
    def crash(self) -> None:
        """Cut the power and let it come back."""
    def reopen(self) -> None:
        """Let only the process die: nothing is lost, handles are void."""
    def flip(self, name: str, offset: int, mask: int) -> int:
        """Flip bits of one byte in both images; return a status."""
    def zero(self, name: str, offset: int, length: int) -> int:
        """Zero bytes in both images; return a status."""
    def cut_file(self, name: str, size_bytes: int) -> int:
        """Shorten a file in both images; return a status."""
    def forget(self, name: str) -> int:
        """Lose a name for good; return a status."""
    def durable(self, name: str) -> bytes | None:
        """Return what a power cut would certainly leave of a file, None: not its name."""

class SimulatedDisk(DiskCalls, SimulatedPort):
    """A disk whose power can fail; every choice comes from the seed."""
