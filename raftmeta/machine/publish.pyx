"""Publishing: bodies."""
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.machine.history cimport History, HistoryBlock, history_bytes
from raftmeta.machine.invariants cimport BROKEN_HISTORY_FLOOR, BROKEN_HISTORY_TRIMMED
from raftmeta.machine.sessions cimport Sessions, sessions_hash
from raftmeta.machine.state cimport PHASE_IDLE
from raftmeta.machine.state_hash cimport hash_plus
from raftmeta.machine.tree cimport tree_bytes, tree_count, tree_hash, tree_publish, tree_reclaim
from raftmeta.machine.trim cimport machine_trim
from raftmeta.native.intrinsics cimport hash128
from raftmeta.native.invariants cimport broken
from raftmeta.status cimport OK

cdef enum:
    FORMAT_COUNTERS_SEED = 0xc0047      # keeps the hash of the counters apart from those of other parts
    TUNE_TRIM_PER_CHANGE = 2            # so that trimming catches up with any rate of writes
    TUNE_TRIM_AT_LEAST = 256
    TUNE_RECLAIM_PER_CHANGE = 8         # objects; a put makes at most a path of nodes and one entry
    TUNE_RECLAIM_AT_LEAST = 1024

# Numbers that the state hash covers beside keys, leases, sessions, processes, user machines and rights.
cdef packed struct CountersImage:
    uint64_t revision
    uint64_t compacted
    uint64_t lease_ms
    uint64_t feature_level


cdef status_t machine_publish(Machine* machine) noexcept nogil:
    cdef uint64_t changes = machine.changes_unpublished
    cdef status_t status
    if machine.phase != PHASE_IDLE:
        return OK               # half an entry is never shown
    if machine.compacted > machine.revision:
        return broken(&machine.broken, BROKEN_HISTORY_FLOOR, machine.compacted, machine.revision)
    status = tree_publish(machine.tree, machine.revision)
    if status != OK:
        return status
    machine.changes_unpublished = 0
    machine_trim(machine, <uint32_t>(TUNE_TRIM_AT_LEAST + TUNE_TRIM_PER_CHANGE * changes))
    if machine.history.trimmed > machine.compacted:
        return broken(&machine.broken, BROKEN_HISTORY_TRIMMED, machine.history.trimmed, machine.compacted)
    tree_reclaim(machine.tree, <uint32_t>(TUNE_RECLAIM_AT_LEAST + TUNE_RECLAIM_PER_CHANGE * changes))
    return OK

cdef void machine_status(const Machine* machine, MachineStatus* status) noexcept nogil:
    cdef CountersImage counters
    counters.revision = machine.revision
    counters.compacted = machine.compacted
    counters.lease_ms = machine.lease_ms
    counters.feature_level = machine.feature_level
    status.applied = machine.applied
    status.revision = machine.revision
    status.compacted = machine.compacted
    status.keys = tree_count(machine.tree)
    status.state_bytes = tree_bytes(machine.tree) + machine.history.blocks.size * sizeof(HistoryBlock)
    status.history_bytes = history_bytes(<History*>&machine.history, machine.compacted)
    status.leases = machine.leases.by_id.size
    status.sessions = machine.sessions.by_id.size
    status.feature_level = machine.feature_level
    status.lease_ms = machine.lease_ms
    status.state_hash = hash_plus(
        hash_plus(tree_hash(machine.tree), hash128(FORMAT_COUNTERS_SEED, &counters, sizeof(CountersImage))),
        hash_plus(hash_plus(machine.leases.hash, sessions_hash(<Sessions*>&machine.sessions)),
                  hash_plus(hash_plus(machine.users.hash, machine.rights.hash), machine.processes.hash)))
