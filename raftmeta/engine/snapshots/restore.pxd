# The newest copy of the state in a folder, at boot: a checkpoint, or a sealed file.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.engine.snapshots.checkpoint cimport CheckpointHead
from raftmeta.engine.state cimport Engine
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport SnapshotPoint, index_t
from raftmeta.status cimport status_t
from raftmeta.storage.wal cimport WalOpened

# The copies that were found; the state itself is engine.machine.
cdef struct Restored:
    SnapshotPoint point         # index 0: there is none, the state begins empty
    bint is_checkpoint          # it came from the checkpoint port
    status_t checkpoint_status  # of its opening, then of its loading; NOT_FOUND: there is none
    CheckpointHead head         # of the checkpoint that was opened
    bint has_unreadable         # the disk failed at a copy that may be sound: its contents are not known
    index_t passed_over         # the newest sealed file that is not whole, 0: none
    uint64_t wall_ms
    uint64_t lease_ms
    index_t membership_index
    Vec[uint8_t] membership     # encoded, in force at the point

# First, into a zeroed Restored: open the checkpoint, and look at the formats of all copies. NEWER_FORMAT; whatever else
# is wrong is told later. Writes nothing. Nothing is looked at without a checkpoint port. Blocks.
cdef status_t restore_look(Engine* engine, Restored* restored) noexcept nogil
# Then load the checkpoint, if there is one, into engine.machine. Asks nothing but the
# checkpoint port and writes nothing, so the log may be opened meanwhile; if that is lost, restore_forget drops what was
# loaded. Blocks. restore_state tells the outcome.
cdef void restore_checkpoint(Engine* engine, Restored* restored) noexcept nogil
# Last: has the newest copy that is whole in engine.machine; older ones take its place when it is damaged. Leftovers of
# a crash go, but nothing goes while a copy cannot be read. Blocks.
# OK, also without one; NEWER_FORMAT, NO_MEMORY, DISK_FAILED (of the folder).
cdef status_t restore_state(Engine* engine, Restored* restored) noexcept nogil
cdef void restored_release(Restored* restored) noexcept nogil
# This folder's log was lost: its copies of the state go, too.
cdef status_t restore_forget(Engine* engine) noexcept nogil
# Does the log that was found go on from the point, with the same past? False: an install was under way, and the log is
# to begin behind the point.
cdef bint restored_continues(const Restored* restored, const WalOpened* opened) noexcept nogil
