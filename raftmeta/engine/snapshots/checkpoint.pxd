# The checkpoint port: where a node keeps its own copy of the state, so that a restart needs only the tail of the log.
#
# An engine without one (self is NULL) uses its sealed files for it (taking); those are also what travels to
# other members, so they exist either way: with a port, they are written only when a member needs one.
#
# These threads call these functions. No two threads call here at once:
#     open, next, forget      the opening thread, inside engine_boot; the log may be read meanwhile, on another. May
#                             block.
#     begin_from              the opening thread after a load; later the thread of the engine, after an install.
#     take, poll, tick        the thread of the engine, in its turns. Must not block, nor wait for another thread.
# The port may have a thread of its own; between take and the poll that ends it that thread alone uses the dump.
# The maker of the port ends the port's thread before the engine is released.
#
# Order that the engine keeps: poll said OK (the checkpoint is durable) -> core_compacted -> segments of the log go.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.dump cimport Dump
from raftmeta.machine.state cimport Machine
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.raft.types cimport SnapshotPoint, index_t
from raftmeta.status cimport status_t
from raftmeta.wire.frame cimport ClusterId

# The state in a checkpoint, and the facts of the log that belong to it.
cdef struct CheckpointHead:
    ClusterId cluster
    SnapshotPoint point         # the last entry in it: index, term, chain hash
    uint64_t wall_ms            # of that entry
    Hash128 state_hash
    uint32_t feature_level
    index_t membership_index    # of the entry that carries the membership in force at the point
    uint32_t membership_length
    const uint8_t* membership   # encoded; valid during the call, or until the next one
    uint32_t turn               # take: place among the members, who all come to the point with the same entry

cdef struct CheckpointPort:
    void* self                  # NULL: there is no port
    # The newest whole checkpoint of this folder. OK; NOT_FOUND: none, or none that is undamaged; DISK_FAILED.
    status_t (*open)(void* self, CheckpointHead* head) noexcept nogil
    # Its records in the order of a dump (machine/dump.pxd), a chunk at a time, checked. NOT_FOUND after the last one;
    # CORRUPT: the engine falls back to its sealed files.
    status_t (*next)(void* self, const uint8_t** records, uint32_t* length) noexcept nogil
    # The incarnation whose state is kept is gone (its log was lost): remove everything.
    status_t (*forget)(void* self) noexcept nogil
    # From now on dumps are of `machine`. is_kept: its state is the one that open and next gave, so differences to it
    # may be taken; otherwise the next checkpoint must be a whole one. All that is pinned of a machine before must
    # be let go before this returns: it is destroyed then. Never while a take is under way.
    void (*begin_from)(void* self, Machine* machine, bint is_kept) noexcept nogil
    # Take a checkpoint of the pinned state; `head` is copied. `dump` is prepared: any one thread may call
    # machine_dump_next until poll says otherwise; the engine ends it. OK, or why not: the next point tries again.
    status_t (*take)(void* self, const CheckpointHead* head, Machine* machine, Dump* dump) noexcept nogil
    # Asked once per tick after take. NOT_READY: under way; OK: durable; anything else: failed, nothing has changed.
    status_t (*poll)(void* self) noexcept nogil
    # Once per tick while no take is under way: what is pinned for the next difference may be let go.
    void (*tick)(void* self) noexcept nogil
