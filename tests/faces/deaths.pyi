"""What a node sees of a peer's process, for tests (raftmeta/engine/deaths.pxd)."""

from __future__ import annotations

from raftmeta.machine.machine_handle import MachineHandle

class WitnessHandle:
    """A follower that connects to one peer, and tells its leader when it finds the peer's process gone."""

    def __init__(self, machine: MachineHandle, *, peer: int) -> None:
        """peer: its incarnation."""
    def answer(self, boot: int) -> None:
        """The peer's process answers this node's HELLO with this boot number."""
    def lose(self) -> None:
        """The connection to it breaks."""
    def refuse(self) -> None:
        """Its address refuses a connection."""
    def speak(self) -> None:
        """The peer opens a connection to this node."""
    def hang_up(self) -> None:
        """That connection closes."""
    @property
    def finds_gone(self) -> bool:
        """Whether the node tells its leader that the process is gone."""
