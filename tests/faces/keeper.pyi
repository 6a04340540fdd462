"""A node's own session and leases for tests (raftmeta/engine/housekeeping.pxd)."""

from __future__ import annotations

from raftmeta.machine.machine_handle import MachineHandle

class KeeperHandle:
    """An engine that has a machine and a leader that never answers. A tick is 10 ms, session and leases last a minute."""

    NEXT_SESSION: int
    """The session that it proposes after the first one."""

    def __init__(self, machine: MachineHandle, *, member: int, boot: int, session: int) -> None:
        """session: of which it has proposed the opening."""
    @property
    def may_speak(self) -> bool:
        """Whether own commands would be proposed."""
    def look(self) -> int:
        """After entries were applied; the session that is its own now."""
    def keep(self, lease: int) -> None:
        """Keep the lease alive from now on."""
    def tick(self) -> tuple[bool, bool]:
        """One tick: (whether it asked for its session to be known as its own, whether it sent keep-alives)."""
