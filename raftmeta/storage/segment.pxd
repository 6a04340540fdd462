# The meaning of the bytes of a log segment: its header, its batches, and how records are found in damaged ones.
#
# Decides: what is a valid header, batch or record. Never: reads a file, follows the stream (storage/recovery does), or
# trusts a length before its checksum. docs/formats.md "Segment, batch and mark".
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport HardState, SnapshotPoint, index_t, term_t
from raftmeta.status cimport status_t

cdef enum:
    FORMAT_SEGMENT_MAGIC = 0x474D4752       # "RGMG" in file order
    FORMAT_BATCH_MAGIC = 0x48434252         # "RBCH"
    FORMAT_SEGMENT_VERSION = 1              # of segment, batch and mark; they change together
    FORMAT_SEGMENT_VERSION_ENCRYPTED = 2    # of a segment whose records are encrypted; its batches keep version 1
    SEGMENT_HEADER_COPIES = 2               # one damaged sector never loses where a segment starts
    HEADER_SEARCH_BYTES = 64 * 1024         # a membership is at most 11 KB: both copies end before this

cdef enum SegmentFlags:
    SEGMENT_BEGINS = 1          # the stream begins here: whatever stands in lower segments is void (wal_begin)
    SEGMENT_IS_RESERVE = 2      # made from the reserve: only urgent batches are written to it
    SEGMENT_IS_ENCRYPTED = 4    # its records are (storage/encrypted); the id of their key follows the membership

cdef enum BatchFlags:
    BATCH_REPAIRS = 1           # replaces exactly [first, last] and supersedes nothing above

# One batch in short. Each batch carries its own and that of the batch before it, and the mark that of the last one,
# each with the chain hash of every record: when a batch is destroyed, what it held is still known.
cdef packed struct BatchSummary:
    uint64_t number             # counts batches from 1 over all segments, never reused once durable
    index_t first               # meaning only when count > 0
    index_t last
    term_t last_term            # of the last record
    uint32_t count              # records; 0: hard state only
    uint32_t flags              # BatchFlags

# At the start of a segment, twice, each copy padded to the alignment; `membership_length` bytes follow, and the id of
# the key (8 bytes) if it is encrypted.
cdef packed struct SegmentHeader:
    uint32_t magic
    uint32_t crc                # crc32c over bytes [8, header_bytes)
    uint8_t version
    uint8_t flags               # SegmentFlags
    uint16_t reserved
    uint32_t header_bytes       # this struct, the membership and the key's id, without padding
    uint64_t uuid_low           # drawn anew for each life of a file: stale batches of a recycled file carry another
    uint64_t uuid_high
    uint64_t owner              # incarnation whose log this is (WalLimits.owner)
    uint64_t number             # that of the file name; never reused
    uint64_t previous_end       # where segment number - 1 ends; bytes behind it are void
    uint64_t previous_batch     # number of the last batch before this segment
    uint32_t alignment_bytes    # batches begin and end at multiples of it
    uint32_t membership_length
    index_t membership_index
    HardState hard_state
    SnapshotPoint start         # the last entry before this segment

# `header_bytes` bytes: this struct, chains of this batch's records, chains of the previous batch's. Then
# `records_bytes` of records, then zeros up to `length`.
cdef packed struct BatchHeader:
    uint32_t magic
    uint32_t crc                # crc32c over bytes [8, header_bytes); records have their own
    uint8_t version
    uint8_t reserved0
    uint16_t reserved1
    uint32_t header_bytes
    uint64_t uuid_low           # of the segment
    uint64_t uuid_high
    uint64_t segment            # its number
    uint64_t offset             # where in the segment: a misdirected write betrays itself
    uint64_t length             # whole batch, a multiple of the alignment
    uint64_t records_bytes
    uint64_t durable_segment    # everything before this place was durable when this batch was begun
    uint64_t durable_end
    uint64_t write_id
    HardState hard_state        # in force after this batch, in every batch: there is no other authority
    BatchSummary batch
    BatchSummary previous

# Whose batches are looked for.
cdef struct SegmentKey:
    uint64_t number
    uint64_t uuid_low
    uint64_t uuid_high
    uint32_t alignment_bytes

cdef uint64_t align_up(uint64_t value, uint64_t alignment) noexcept nogil
# Is there one whole, undamaged record at `bytes`, with zeros behind its payload? Its checksum does not cover those, and
# what was torn in the middle of them must not go out to others as the record.
cdef status_t record_verify(const uint8_t* bytes, uint64_t length) noexcept nogil
# Both copies with their padding, appended to out. header's magic, version, lengths and crc are filled here. key_id: of
# its records, 0: they are plain.
cdef status_t segment_header_encode(SegmentHeader* header, const uint8_t* membership, uint64_t key_id,
                                    Vec[uint8_t]* out) noexcept nogil
# The first sound copy; *begin is where the first batch stands. CORRUPT: neither copy is sound; NEWER_FORMAT.
cdef status_t segment_header_decode(const uint8_t* bytes, uint64_t length, SegmentHeader* header,
                                    const uint8_t** membership, uint64_t* begin) noexcept nogil
# The id of the key of a segment whose header was decoded; 0: its records are plain.
cdef uint64_t segment_key_id(const SegmentHeader* header, const uint8_t* membership) noexcept nogil

# Header and both tables of chains, appended to out; magic, version, header_bytes, length and crc are filled here.
cdef status_t batch_header_encode(BatchHeader* header, const uint64_t* chains, const uint64_t* previous_chains,
                                  uint32_t alignment_bytes, Vec[uint8_t]* out) noexcept nogil
# The header of segment `key` at `offset` of its bytes: OK, CORRUPT, NEWER_FORMAT. Records are not looked at.
cdef status_t batch_header_decode(const uint8_t* bytes, uint64_t length, uint64_t offset, const SegmentKey* key,
                                  BatchHeader* header) noexcept nogil
cdef const uint64_t* batch_chains(const uint8_t* batch) noexcept nogil
cdef const uint64_t* batch_previous_chains(const uint8_t* batch, const BatchHeader* header) noexcept nogil
# Where the sound record `index` with hash `chain` stands in [begin, end); end: nowhere.
cdef uint64_t record_search(const uint8_t* bytes, uint64_t begin, uint64_t end, index_t index,
                            uint64_t chain) noexcept nogil
