# The snapshots of an engine: where points are, what is being taken, received and kept. Part of engine/state.
#
#     engine/snapshots/taking            points, taking, what may go of log and files
#     engine/snapshots/transfer    offers, pieces, the other members
#     engine/snapshots/install     one state takes the place of another
#     engine/snapshots/restore              the newest one at boot
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.snapshots.files cimport Checking, Receiving, Taking
from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport SnapshotPoint, index_t, member_id_t
from raftmeta.wire.snapshot_messages cimport SnapshotFile

cdef enum TakingState:
    TAKING_NOTHING = 0
    TAKING_DUE = 1              # apply waits behind the point until leases and sessions are copied
    TAKING_PREPARING = 2
    TAKING_FILE = 3             # jobs write the sealed file
    TAKING_CHECKPOINT = 4       # the checkpoint port has the dump

cdef enum ReceivingState:
    RECEIVING_NOTHING = 0
    RECEIVING_PIECES = 1
    RECEIVING_LOADING = 2       # all bytes are there; jobs check them and load the state
    RECEIVING_LOADED = 3        # durable under its name; waits until nothing is being taken
    RECEIVING_ABANDONED = 4     # a job removes what there is

cdef struct Snapshots:
    # Points are decided by the log alone, so that all members take the same ones.
    index_t point               # the last one, taken or not
    uint64_t log_bytes          # of records applied since
    Vec[uint8_t] membership     # encoded, in force at `applied`; empty: not known (a node that joins)
    index_t membership_index

    TakingState taking_state
    Taking taking
    SnapshotPoint last          # the entry at `applied`
    uint64_t last_wall_ms
    bint file_is_wanted         # a member needs a file and there is none: a checkpoint port keeps the node's own copies

    # Durable copies of the state, in this folder.
    Vec[SnapshotFile] files     # in order of index
    index_t checkpointed        # newest point that a restart would find, in whichever form
    index_t checkpointed_before     # and the one before: down to it the log is kept
    index_t compacted           # the log was asked to go up to here
    index_t lent                # a member is fetching this file: it and the log behind it stay, within reason
    uint64_t lent_tick

    bint is_checking            # jobs have `checking` in their hands
    Checking checking

    ReceivingState receiving_state
    Receiving receiving
    uint64_t asked              # bytes [0, asked) were asked for,
    uint64_t received           # [0, received) are here,
    uint64_t written            # [0, written) are on the disk
    uint32_t holder             # link that is asked
    uint64_t progress_tick      # of the last piece, or the last change of holder
    uint64_t noted_tick         # of the last word to the holder that this goes on
    uint32_t silences           # holders that gave nothing since the last piece
    uint32_t jobs_open          # that have `receiving` in their hands

    Machine* retired            # the state before an install: readers of other threads may still be in it
