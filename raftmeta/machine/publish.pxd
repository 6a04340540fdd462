# The machine as others see it: the root that readers on other threads take, and the numbers of the state.
#
# Publishing also pays for what the batch left behind: it trims the history and gives back what no reader can see.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.machine.state cimport Machine
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport status_t

cdef struct MachineStatus:
    index_t applied                 # last entry applied
    uint64_t revision               # counts entries that changed keys, without gaps
    uint64_t compacted              # history floor: reads and watches below it are COMPACTED
    uint64_t keys
    uint64_t state_bytes            # memory of keys and history, taken from the system
    uint64_t history_bytes
    uint64_t leases
    uint64_t sessions
    uint32_t feature_level
    uint64_t lease_ms               # lease clock of the last entry
    Hash128 state_hash              # order-independent, over keys, leases, sessions, rights, counters and history floor

# Make everything applied so far visible to readers of other threads: once per batch, before tickets are completed.
cdef status_t machine_publish(Machine* machine) noexcept nogil
cdef void machine_status(const Machine* machine, MachineStatus* status) noexcept nogil
