# The sealed snapshot file: the whole state at one log index, in checksummed chunks, written once and never changed.
#
# The container only: what stands in a chunk is the machine's (machine_dump_next). Writer and reader hold one chunk at a
# time. A file is complete when its footer is; `rename` makes it the snapshot. docs/formats.md "Sealed file".
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.native.invariants cimport Broken
from raftmeta.ports cimport DiskPort, FileName, file_t
from raftmeta.raft.types cimport SnapshotPoint, index_t
from raftmeta.status cimport status_t

cdef enum:
    FORMAT_SEALED_MAGIC = 0x444C5352        # "RSLD" in file order
    FORMAT_SEALED_FOOTER_MAGIC = 0x54465352     # "RSFT"
    FORMAT_SEALED_CHUNK_MAGIC = 0x4B435352      # "RSCK"
    FORMAT_SEALED_VERSION = 1
    FORMAT_SEALED_VERSION_ENCRYPTED = 2
    SEALED_CHUNK_BYTES_MAX = 16 * 1024 * 1024

cdef enum SealedFlags:
    SEALED_IS_ENCRYPTED = 1     # chunks and splits are; the id of their key (8 bytes) follows the membership

cdef packed struct SealedHeader:
    uint32_t magic
    uint32_t crc                # crc32c over bytes [8, header_bytes)
    uint8_t version
    uint8_t flags               # SealedFlags
    uint16_t reserved
    uint32_t header_bytes       # this struct, the membership and the key's id
    uint64_t cluster_low
    uint64_t cluster_high
    SnapshotPoint point         # state after the entry at point.index
    index_t membership_index
    uint32_t membership_length  # encoded, in force at the point; follows this struct
    uint32_t feature_level
    uint64_t wall_ms            # of the entry at the point

cdef packed struct SealedChunk:
    uint32_t magic
    uint32_t crc                # crc32c over bytes [8, 24 + length)
    uint32_t number             # from 0
    uint32_t length             # bytes of records behind this struct
    uint64_t point_index        # of the file: a chunk of another snapshot is refused

# A place where readers may begin, so that several read one file at once.
cdef packed struct SealedSplit:
    uint32_t chunk
    uint32_t key_length
    uint64_t offset             # of that chunk in the file
    # key_length bytes of the first key in the chunk follow, empty for chunks without keys

cdef packed struct SealedFooter:
    uint32_t magic
    uint32_t crc                # crc32c over the splits and this struct from byte 8 on
    uint32_t chunks
    uint32_t splits
    uint64_t splits_offset
    uint64_t splits_bytes
    uint64_t records
    uint64_t records_bytes
    uint64_t hash_low           # hash128 over the crc fields of header and chunks, in order
    uint64_t hash_high
    Hash128 state_hash          # machine_status at the point

cdef struct SealedWriter:
    const DiskPort* disk
    file_t file
    bint is_open
    FileName name               # final one
    FileName working            # name + ".tmp" until sealed
    SealedHeader header
    SealedFooter footer
    uint64_t offset
    Vec[uint32_t] crcs
    Vec[uint8_t] splits
    uint64_t key_id             # 0: the file is plain
    Vec[uint8_t] encrypted      # the chunk that is being written
    Broken broken               # the first belief that proved wrong

cdef struct SealedReader:
    const DiskPort* disk
    file_t file
    bint is_open
    uint64_t size_bytes
    bint checks_only            # what is encrypted is checked and not decrypted
    SealedHeader header
    uint64_t key_id             # 0: the file is plain
    Vec[uint8_t] membership
    SealedFooter footer
    Vec[uint8_t] splits
    uint32_t chunk              # number of the next chunk
    uint64_t offset             # where it stands
    Vec[uint32_t] crcs          # of what was read, from the beginning
    Vec[uint8_t] bytes          # the chunk read last, as it stands in the file
    Vec[uint8_t] plain          # and decrypted
    Broken broken               # the first belief that proved wrong

# Writer: begin, chunk..., seal (durable under its name on return) or abandon. A leftover of the same name is replaced.
cdef status_t sealed_begin(SealedWriter* writer, const DiskPort* disk, const char* name, const SealedHeader* header,
                           const uint8_t* membership) noexcept nogil
cdef status_t sealed_chunk(SealedWriter* writer, const uint8_t* records, uint32_t length, uint32_t count,
                           const uint8_t* split_key, uint32_t split_key_length, bint is_split) noexcept nogil
# Bytes written so far leave the cache: the log's syncs wait less for many small ones than for one long at the end.
cdef status_t sealed_sync(SealedWriter* writer) noexcept nogil
cdef status_t sealed_seal(SealedWriter* writer, const Hash128* state_hash) noexcept nogil
cdef void sealed_abandon(SealedWriter* writer) noexcept nogil
# As abandon, but the working file stays: the process ends.
cdef void sealed_leave(SealedWriter* writer) noexcept nogil

# The header at the beginning of `length` bytes of a file, and the id of its key, 0: it is plain. CORRUPT, NEWER_FORMAT.
cdef status_t sealed_header_decode(const uint8_t* bytes, uint64_t length, SealedHeader* header,
                                   uint64_t* key_id) noexcept nogil
# Reader: open checks header and footer (INCOMPLETE: no footer, was never sealed; CORRUPT, NEWER_FORMAT; NO_KEY: the
# keys of `disk` have not the one of this file). Each chunk is checked before it is shown; sealed_next gives NOT_FOUND
# after the last one, when the whole hash was right too.
cdef status_t sealed_open(SealedReader* reader, const DiskPort* disk, const char* name) noexcept nogil
# The same to find damage, which needs no key: sealed_next checks each chunk, and shows it as it stands in the file.
cdef status_t sealed_open_to_check(SealedReader* reader, const DiskPort* disk, const char* name) noexcept nogil
cdef status_t sealed_next(SealedReader* reader, const uint8_t** records, uint32_t* length) noexcept nogil
# Go on from split `position`; the whole hash is not checked then.
cdef status_t sealed_seek(SealedReader* reader, uint32_t position) noexcept nogil
cdef status_t sealed_split(const SealedReader* reader, uint32_t position, SealedSplit* split,
                           const uint8_t** key) noexcept nogil
cdef void sealed_close(SealedReader* reader) noexcept nogil
