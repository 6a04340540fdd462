# Every record that the files of a log still hold, whatever else is damaged: for a folder whose node will not run.
#
# Decides: which records are live, by the rule of the log: a batch supersedes everything from its first index on. Never:
# reads or writes a file (it is given their bytes), or shows a record whose checksum, index or chain hash is wrong.
#
# storage/recovery answers another question: may this node go on with its log? It stops at the first doubt. Here nothing
# acknowledges anything any more, so a doubt is only counted: it bounds `committed`, and the chain of hashes shows
# whether a record follows upon the one before it (face/stopped_log).
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport SnapshotPoint, index_t, member_id_t
from raftmeta.security.cipher cimport Cipher, KeyRing
from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport ChunkPtr, RunBuffer

# The bytes of one segment; they must outlive the Salvage.
cdef struct SalvageFile:
    uint64_t number             # in its name
    const uint8_t* bytes
    uint64_t length

# One index of the log.
cdef struct SalvageRecord:
    const uint8_t* bytes        # NULL: not there in one piece
    uint64_t chain              # hash that its record has; 0 with bytes == NULL: not known

cdef struct Salvage:
    # To be filled in before salvage_read.
    member_id_t owner           # incarnation whose log is read, 0: any
    member_id_t void_owner      # segments of this one are passed over, 0: none
    Vec[SalvageFile] files      # in order of number
    KeyRing* keys               # for encrypted segments; NULL: none
    # The records that were found.
    index_t first               # index of records.data[0]
    Vec[SalvageRecord] records
    index_t committed           # known as committed by a batch that was read while no batch before it was missing
    SnapshotPoint start         # the entry before the first segment with a sound header
    Vec[uint8_t] membership     # encoded, in force at `start`; empty: no segment has a sound header
    index_t membership_index
    uint64_t batches            # read
    uint64_t lost_batches       # written, and neither they nor their summaries are there
    uint64_t foreign_files      # segments of other incarnations, passed over
    Vec[ChunkPtr] decrypted     # records to which `records` points
    # For salvage_read alone.
    bint is_begun
    bint is_unsure              # a batch is missing: what it superseded is not known
    uint64_t last_batch         # number of the last batch read
    uint64_t expected_batch     # number of the last batch that a header or the mark names
    Cipher cipher               # of the segment that is read
    RunBuffer run
    uint64_t gap_begin          # where the last batch ended in its file,
    size_t gap_file             # and which file that is

# Read all files. `mark` is the content of the file of that name, mark_length bytes. OK; NEWER_FORMAT: a newer version
# wrote a file; NO_KEY: a segment is encrypted with a key that `keys` has not; NO_MEMORY. Damage is no error.
cdef status_t salvage_read(Salvage* salvage, const uint8_t* mark, uint64_t mark_length) noexcept nogil
# The record of index, or NULL; chain: its hash as far as it is known, else 0.
cdef const uint8_t* salvage_record(const Salvage* salvage, index_t index, uint64_t* chain) noexcept nogil
# The last index of which anything is known; first - 1: of none.
cdef index_t salvage_last(const Salvage* salvage) noexcept nogil
cdef void salvage_release(Salvage* salvage) noexcept nogil
