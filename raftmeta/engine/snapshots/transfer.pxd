# Sealed files between members: the one side offers and gives, the other asks for every piece (wire/snapshot_messages).
#
# Pieces are asked for in order, some ahead of what is on the disk. A giver that is silent for an election time-out
# is left for the next member: any that holds the same file will do. Nothing is shown or believed before the whole
# file was checked (engine/snapshots/files).
from libc.stdint cimport uint32_t

from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.state cimport Engine
from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport member_id_t
from raftmeta.status cimport status_t
from raftmeta.wire.snapshot_messages cimport SnapshotMessage

# The core says that this member needs a snapshot (Ready.snapshots).
cdef void transfer_offer(Engine* engine, member_id_t member) noexcept nogil
# Take a message of the peer at `link`; piece: the bytes behind the body. Not OK: fatal.
cdef status_t transfer_step(Engine* engine, uint32_t link, const SnapshotMessage* message,
                            const Slice* piece) noexcept nogil
cdef status_t transfer_tick(Engine* engine) noexcept nogil
# JOB_PIECE, JOB_CHECK, JOB_RECEIVE, JOB_LOAD, JOB_ABANDON came back; take the job over.
cdef status_t transfer_job_done(Engine* engine, DiskJob* job) noexcept nogil
