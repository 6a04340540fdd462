"""A machine whose parts contradict each other: each function does what a mistake in one part would leave behind."""
from libc.stdint cimport uint64_t

from raftmeta.machine.leases cimport leases_find
from raftmeta.machine.machine_handle cimport MachineHandle


def skip_revisions(MachineHandle machine not None, uint64_t count):
    machine.machine.revision += count


def give_back_history(MachineHandle machine not None, uint64_t revision):
    machine.machine.history.trimmed = revision


def compact(MachineHandle machine not None, uint64_t revision):
    machine.machine.compacted = revision


def forget_attachment(MachineHandle machine not None, uint64_t lease):
    # The lease still counts its key, but the link to the key is gone.
    machine.machine.leases.attached.erase(<uint64_t>leases_find(&machine.machine.leases, lease).first)


def forget_keys(MachineHandle machine not None, uint64_t lease):
    leases_find(&machine.machine.leases, lease).key_count = 0
