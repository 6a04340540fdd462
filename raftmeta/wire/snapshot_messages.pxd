# Messages of members about sealed files in FRAME_SNAPSHOT: offers, and pieces (docs/formats.md "Snapshots").
#
# The receiver leads: it asks for every piece by offset, from any member with the same file, as in Kafka's
# FetchSnapshot.
# So a broken connection costs the pieces on their way, another holder replaces one that dies, and nobody sends what was
# not asked for.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.raft.types cimport SnapshotPoint
from raftmeta.status cimport status_t

cdef enum:
    SNAPSHOT_PIECE_BYTES_MAX = 1024 * 1024

cdef enum SnapshotMessageType:
    SNAPSHOT_OFFER = 1          # I have this file, and you need it
    SNAPSHOT_FETCH = 2          # send me `length` bytes from `offset` on; 0 bytes: I am still at work on the file
    SNAPSHOT_PIECE = 3          # the bytes stand behind the body
    SNAPSHOT_GONE = 4           # I do not have it (any more)

# Names a file: two files with the same identity are the same bytes.
cdef struct SnapshotFile:
    SnapshotPoint point         # index 0: none
    uint64_t size_bytes
    Hash128 hash                # of the sealed file's footer: over the checksums of its header and chunks

cdef struct SnapshotMessage:
    uint8_t type                # SnapshotMessageType
    SnapshotFile file
    uint64_t offset             # FETCH, PIECE
    uint32_t length

cdef inline bint is_same_file(const SnapshotFile* file, const SnapshotFile* other) noexcept nogil:
    return (file.point.index == other.point.index and file.point.chain == other.point.chain
            and file.size_bytes == other.size_bytes and file.hash.low == other.hash.low
            and file.hash.high == other.hash.high)

# Append the body. BAD_FIELD: a mistake of the sender, nothing was appended; NO_MEMORY.
cdef status_t snapshot_message_encode(const SnapshotMessage* message, Vec[uint8_t]* body) noexcept nogil
# piece_bytes: length of the raw bytes behind the body. BAD_FIELD, BAD_LENGTH: not such a message.
cdef status_t snapshot_message_decode(const uint8_t* body, uint32_t length, uint32_t piece_bytes,
                                      SnapshotMessage* message) noexcept nogil
