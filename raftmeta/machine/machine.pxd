# The replicated state: keys, history, leases, sessions, rights. apply is deterministic, reads no clock, never throws.
#
# One thread applies (the loop, or the simulator). Readers on other threads use the *_shared calls, which see whole
# published batches only and never wait for the applier, nor it for them (docs/terms.md "publish", "pin").
#
# This header is the whole contract; these parts of it stand in headers of their own and may be cimported from here:
#   publish.pxd   MachineStatus, machine_publish, machine_status
#   reads.pxd     machine_get, machine_get_shared, machine_range_shared
#   dump.pxd      Dump, machine_dump_begin, _prepare, _next, _end; differences by DumpBase
#   load.pxd      machine_load_chunk, machine_load_done
#   history.pxd   Change
#   rights.pxd, rights_table.pxd   who may do what, for reads and watches on any thread
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.machine.dump cimport (Dump, DumpBase, machine_dump_base_forget, machine_dump_base_loaded,
                                    machine_dump_begin, machine_dump_end, machine_dump_keep, machine_dump_next,
                                    machine_dump_prepare, machine_dump_since)
from raftmeta.machine.history cimport Change
from raftmeta.machine.load cimport machine_load_chunk, machine_load_done
from raftmeta.machine.publish cimport MachineStatus, machine_publish, machine_status
from raftmeta.machine.reads cimport Grouping, machine_get, machine_get_shared, machine_range_shared
from raftmeta.machine.state cimport Machine, MachineLimits
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport Record, index_t
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Command

cdef enum ApplyOutcome:
    APPLY_DONE = 0
    APPLY_MORE = 1                  # call again with the same record at the same place; nothing of it is visible yet
    APPLY_FATAL = 2                 # result.status says why (UNKNOWN_ENTRY, NO_MEMORY, INVARIANT_BROKEN): stop the node
                                    # An entry of MachineLimits.skipped is never asked for its meaning.

# The effect of one entry. Pointers are valid until the next machine_apply.
cdef struct ApplyResult:
    index_t index
    uint64_t session                # (session, sequence) find the caller's ticket; (id, 0) for SESSION_OPEN; 0: none
    uint64_t sequence
    status_t status                 # OK or a Refused status
    uint64_t revision               # of the change; when nothing changed, the revision it saw
    bint is_duplicate               # applied before: this is the result kept from then
    const uint8_t* body             # the encoded result [status, revision, body]
    uint32_t length
    uint32_t changed                # keys changed by this entry: change records [0, changed) of machine_changes

cdef Machine* machine_create(const MachineLimits* limits) noexcept nogil
# With another fanout of the tree and a limit on its bytes, beyond which memory is out: for tests (tree_create_with).
cdef Machine* machine_create_with(const MachineLimits* limits, uint16_t fanout, uint64_t bytes_max) noexcept nogil
cdef void machine_destroy(Machine* machine) noexcept nogil
cdef ApplyOutcome machine_apply(Machine* machine, const Record* record, ApplyResult* result) noexcept nogil
# The least feature level at which every member can apply the command.
cdef uint64_t machine_level_of(const Command* command) noexcept nogil
# Key changes of the entry just applied (ApplyResult.changed of them).
cdef const Change* machine_changes(Machine* machine) noexcept nogil

# --- leases and sessions as the leader's engine needs them ------------------------------------------------------------
# Leases (sessions) whose deadline on the lease clock is at or before lease_ms, at most `most`: for
# COMMAND_LEASE_EXPIRE.
cdef uint32_t machine_due_leases(Machine* machine, uint64_t lease_ms, Vec[uint64_t]* leases, Vec[uint64_t]* deadlines,
                                 uint32_t most) noexcept nogil
cdef uint32_t machine_due_sessions(Machine* machine, uint64_t lease_ms, Vec[uint64_t]* sessions,
                                   Vec[uint64_t]* deadlines, uint32_t most) noexcept nogil
cdef bint machine_session_exists(Machine* machine, uint64_t session) noexcept nogil
# The highest sequence that an applied command of the session had, or declared answered; 0: none.
cdef uint64_t machine_session_used(Machine* machine, uint64_t session) noexcept nogil
# Whether rights were ever configured; then a node speaks in a session that it has made known as its own.
# Whether the process that opened the session is known (machine/processes).
cdef bint machine_session_has_process(Machine* machine, uint64_t session) noexcept nogil
# Whether sessions or leases of that incarnation's processes are left, up to this boot.
cdef bint machine_process_is_known(const Machine* machine, uint64_t member, uint64_t boot) noexcept nogil
cdef bint machine_has_rights(const Machine* machine) noexcept nogil
cdef bint machine_session_is_owned(Machine* machine, uint64_t session) noexcept nogil
# After an install: the kept result of (session, sequence). OK with body; RESULT_EVICTED; NOT_FOUND: not applied yet;
# SESSION_UNKNOWN.
cdef status_t machine_session_result(Machine* machine, uint64_t session, uint64_t sequence, const uint8_t** body,
                                     uint32_t* length, uint64_t* revision) noexcept nogil
cdef status_t machine_lease(Machine* machine, uint64_t lease, uint64_t* ttl_ms, uint64_t* deadline_ms,
                            uint32_t* key_count) noexcept nogil

# --- history for watches ----------------------------------------------------------------------------------------------
# Changes of `revision` (compacted < revision <= newest). Valid until the next apply.
cdef status_t machine_history(Machine* machine, uint64_t revision, const Change** changes, uint32_t* count,
                              uint64_t* wall_ms) noexcept nogil
