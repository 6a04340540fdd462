"""A machine whose parts contradict each other: each function does what a mistake in one part would leave behind."""

from raftmeta.machine.machine_handle import MachineHandle

def skip_revisions(machine: MachineHandle, count: int) -> None:
    """Let the revision of the keys run ahead of the history."""

def give_back_history(machine: MachineHandle, revision: int) -> None:
    """Let the history have given back all up to this revision."""

def compact(machine: MachineHandle, revision: int) -> None:
    """Let the history begin behind this revision."""

def forget_attachment(machine: MachineHandle, lease: int) -> None:
    """Forget that the first key of a lease is attached to it. The lease must have a key."""

def forget_keys(machine: MachineHandle, lease: int) -> None:
    """Let a lease count no key."""
