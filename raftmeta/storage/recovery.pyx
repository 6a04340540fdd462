"""Recovery: what the files of a log still say, and what the missing bytes were.

It decides which bytes are live, torn, damaged or lost. It must never write, remove or repair anything; cut
a batch that may have been acknowledged; show a record whose checksum, index or chain hash is not what was written.

    recover
        _load               every segment's header, in order of number; _reach reads on as the stream leads
        _follow             segment by segment, batch by batch
            _take_batch     a sound header: its records, those of the lost batch before it
            _take_hole      a batch without header, from the summary that its successor (or the mark) carries
        _judge_tail         the end of the stream against the mark
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset, strcmp, strcpy

from raftmeta.native.chunks cimport Chunk, chunk_create_image, chunk_drop
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport load32, load64
from raftmeta.native.marks cimport (MARK_RECOVERY_BATCH, MARK_RECOVERY_HOLE_FILLED, MARK_RECOVERY_LAST_HEADER_DAMAGED,
                                    MARK_RECOVERY_RECORD_DAMAGED, MARK_RECOVERY_RECORD_SALVAGED,
                                    MARK_RECOVERY_TORN_HEADER, MARK_RECOVERY_TORN_RECORDS, MARK_RECOVERY_VOID_SEGMENT,
                                    MARK_RECOVERY_WITHOUT_MARK, mark)
from raftmeta.ports cimport DiskPort, FileName, file_t
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport Record, index_t
from raftmeta.security.cipher cimport KeyRing, key_ring_has
from raftmeta.status cimport (BAD_VERSION, CORRUPT, DISK_FAILED, FOREIGN_NODE, NEWER_FORMAT, NO_KEY, NO_MEMORY, OK,
                              status_t)
from raftmeta.storage.extents cimport damage_add, extents_append, extents_cut, extents_replace
from raftmeta.storage.mark cimport MARK_MISSING, MARK_SOUND, MarkFound, MarkSlot, mark_open
from raftmeta.storage.recovery cimport (FOUND_BLANK, FOUND_CLEAN, FOUND_DAMAGED, FOUND_LOST, FOUND_TORN, FOUND_VOID,
                                        RecoveryFound)
from raftmeta.storage.segment cimport (BATCH_REPAIRS, FORMAT_BATCH_MAGIC, HEADER_SEARCH_BYTES, SEGMENT_BEGINS,
                                       SEGMENT_IS_RESERVE, BatchHeader, BatchSummary, SegmentHeader, SegmentKey,
                                       align_up, batch_chains, batch_header_decode, batch_previous_chains,
                                       record_search, record_verify, segment_header_decode, segment_key_id)
from raftmeta.storage.wal_state cimport Extent, Segment, Wal

cdef enum:
    SEGMENT_NAME_DIGITS = 16
    TUNE_READ_BYTES = 1024 * 1024       # of a segment at once

cdef const char* SEGMENT_SUFFIX = ".log"
cdef const char* RETIRED_SUFFIX = ".retired"


# One file of the log while it is read.
cdef struct Loaded:
    uint64_t number
    file_t file
    bint file_is_open
    bint is_sound               # one copy of its header is
    SegmentHeader header
    const uint8_t* membership
    uint64_t begin              # of its first batch
    uint64_t limit              # bytes behind it are void: what the next segment says, or the file's size
    Segment segment             # image.used bytes of its image are read

# A stretch of the stream without a sound header: exactly one batch, or more than can be known.
cdef struct Hole:
    bint is_open                # found, not yet filled
    uint64_t segment
    uint64_t begin
    uint64_t end

cdef struct Walk:
    Wal* wal
    Vec[Loaded] loaded
    MarkFound mark_found
    MarkSlot mark
    Vec[uint64_t] mark_chains
    Hole hole
    bint is_reach_void          # a batch begins behind it, so it is an older mark's: a batch may stand anywhere
    bint has_void               # a segment or the mark is WalLimits.void_owner's
    bint begins_too_early       # a batch supersedes what stands before the first segment
    bint is_lost
    bint is_torn
    uint64_t torn_bytes


# --- names ------------------------------------------------------------------------------------------------------------
cdef uint64_t _number_of(const char* name, const char* suffix) noexcept nogil:
    cdef uint64_t number = 0
    cdef int i
    cdef char letter
    for i in range(SEGMENT_NAME_DIGITS):
        letter = name[i]
        if c'0' <= letter <= c'9':
            number = number * 16 + <uint64_t>(letter - c'0')
        elif c'a' <= letter <= c'f':
            number = number * 16 + <uint64_t>(letter - c'a' + 10)
        else:
            return 0
    return number if strcmp(name + SEGMENT_NAME_DIGITS, suffix) == 0 else 0


cdef void _name_of(uint64_t number, const char* suffix, char* name) noexcept nogil:
    cdef const char* digits = "0123456789abcdef"
    cdef int i
    for i in range(SEGMENT_NAME_DIGITS):
        name[SEGMENT_NAME_DIGITS - 1 - i] = digits[number & 15]
        number >>= 4
    strcpy(name + SEGMENT_NAME_DIGITS, suffix)


cdef uint64_t segment_number(const char* name) noexcept nogil:
    return _number_of(name, SEGMENT_SUFFIX)


cdef void segment_name(uint64_t number, char* name) noexcept nogil:
    _name_of(number, SEGMENT_SUFFIX, name)


cdef uint64_t retired_number(const char* name) noexcept nogil:
    return _number_of(name, RETIRED_SUFFIX)


cdef void retired_name(uint64_t number, char* name) noexcept nogil:
    _name_of(number, RETIRED_SUFFIX, name)


# --- load -------------------------------------------------------------------------------------------------------------
# The segment's bytes up to `end` are in its image, as far as the file goes. Only what the stream leads to is read: most
# of the last segment is room for batches to come, and reading that would take most of the time of an open.
cdef status_t _reach(Walk* walk, Loaded* loaded, uint64_t end) noexcept nogil:
    cdef const DiskPort* disk = walk.wal.disk
    cdef Chunk* image = loaded.segment.image
    cdef size_t got = 0
    cdef status_t status
    if end <= image.used or image.used == image.capacity:
        return OK
    end = min(max(end, <uint64_t>image.used + TUNE_READ_BYTES), <uint64_t>image.capacity)
    status = disk.read(disk.self, loaded.file, image.used, image.bytes() + image.used, end - image.used, &got)
    if status != OK:
        return status
    image.used += <uint32_t>got
    return OK if image.used == end else DISK_FAILED


cdef status_t _open_image(Walk* walk, const char* name, Loaded* loaded) noexcept nogil:
    cdef const DiskPort* disk = walk.wal.disk
    cdef uint64_t size_bytes = 0
    cdef status_t status = disk.open(disk.self, name, False, &loaded.file)
    if status != OK:
        return status
    loaded.file_is_open = True
    status = disk.size(disk.self, loaded.file, &size_bytes)
    if status == OK and size_bytes >= 0x7FFFFFFF:
        status = CORRUPT
    if status != OK:
        return status
    loaded.segment.image = chunk_create_image(<uint32_t>size_bytes)
    if loaded.segment.image == NULL:
        return NO_MEMORY
    loaded.limit = loaded.segment.size_bytes = loaded.segment.allocated_bytes = size_bytes
    return _reach(walk, loaded, HEADER_SEARCH_BYTES)


cdef void _drop(const Walk* walk, Loaded* loaded) noexcept nogil:
    if loaded.file_is_open:
        walk.wal.disk.close(walk.wal.disk.self, loaded.file)
    chunk_drop(loaded.segment.image)
    loaded.file_is_open = False
    loaded.segment.image = NULL


cdef bint _is_own(const Walk* walk, uint64_t owner) noexcept nogil:
    return walk.wal.limits.owner == 0 or owner in (0, walk.wal.limits.owner)


cdef bint _is_void(const Walk* walk, uint64_t owner) noexcept nogil:
    return owner != 0 and owner == walk.wal.limits.void_owner


cdef status_t _load_segment(Walk* walk, uint64_t number, const char* name) noexcept nogil:
    cdef Loaded loaded
    cdef Segment* segment = &loaded.segment
    cdef status_t status
    memset(&loaded, 0, sizeof(Loaded))
    loaded.number = number
    status = _open_image(walk, name, &loaded)
    if status == OK:
        status = segment_header_decode(segment.image.bytes(), segment.image.used, &loaded.header, &loaded.membership,
                                       &loaded.begin)
        loaded.is_sound = status == OK and loaded.header.number == number
        if status == CORRUPT:
            status = OK
        elif status == OK and _is_void(walk, loaded.header.owner):
            mark(MARK_RECOVERY_VOID_SEGMENT)
            walk.has_void = True
            _drop(walk, &loaded)
            return OK
        elif status == OK and not _is_own(walk, loaded.header.owner):
            status = FOREIGN_NODE
        elif status == OK:
            segment.key_id = segment_key_id(&loaded.header, loaded.membership)
            if segment.key_id != 0 and not key_ring_has(<const KeyRing*>walk.wal.disk.keys, segment.key_id):
                status = NO_KEY
    segment.number = number
    segment.uuid_low = loaded.header.uuid_low
    segment.uuid_high = loaded.header.uuid_high
    segment.alignment_bytes = loaded.header.alignment_bytes
    segment.flags = loaded.header.flags
    segment.start = loaded.header.start
    segment.lowest_first = ~<uint64_t>0
    segment.end = loaded.begin
    if not walk.loaded.push(loaded):
        _drop(walk, &loaded)
        return NO_MEMORY
    return status


cdef void _sort_names(Vec[FileName]* names) noexcept nogil:
    cdef FileName moved
    cdef size_t i, j
    for i in range(1, names.size):
        moved = names.data[i]
        j = i
        while j > 0 and strcmp(names.data[j - 1].text, moved.text) > 0:
            names.data[j] = names.data[j - 1]
            j -= 1
        names.data[j] = moved


cdef status_t _load(Walk* walk) noexcept nogil:
    cdef Wal* wal = walk.wal
    cdef uint64_t number
    cdef size_t i
    cdef status_t status
    wal.names.clear()
    status = wal.disk.list_names(wal.disk.self, &wal.names)
    _sort_names(&wal.names)
    for i in range(wal.names.size):
        number = segment_number(wal.names.data[i].text)
        if status == OK and number != 0:
            status = _load_segment(walk, number, wal.names.data[i].text)
            wal.next_segment = number + 1
    return status


# --- records ----------------------------------------------------------------------------------------------------------
# Are all records of the batch there, in order, with the chain hashes of its header?
cdef status_t _check_records(const uint8_t* bytes, const BatchHeader* header, const uint8_t* records) noexcept nogil:
    cdef const uint64_t* chains = batch_chains(bytes)
    cdef const Record* record
    cdef uint64_t offset = 0
    cdef uint32_t i
    cdef status_t status
    for i in range(header.batch.count):
        record = <const Record*>(records + offset)
        status = record_verify(records + offset, header.records_bytes - offset)
        if status != OK:
            return NEWER_FORMAT if status == BAD_VERSION else status
        if record.index != header.batch.first + i or record.chain != load64(&chains[i]):
            return CORRUPT
        offset += record_bytes(record.length)
    return OK if offset == header.records_bytes else CORRUPT


# One run of sound records into the live ones.
cdef status_t _keep(Wal* wal, const BatchSummary* batch, index_t first, index_t last, uint64_t segment,
                    uint64_t offset, uint64_t length) noexcept nogil:
    cdef Extent extent
    extent.first = extent.origin = first
    extent.last = last
    extent.segment = segment
    extent.offset = offset
    extent.bytes = length
    if batch.flags & BATCH_REPAIRS:
        # A repair below the first kept record belongs to a compacted segment.
        if last <= wal.start.index or last > wal.end.index:
            return OK
        extent.first = max(first, wal.start.index + 1)
        return extents_replace(&wal.extents, &wal.damaged, &extent)
    return extents_append(&wal.extents, &extent)


# Keep the records of a batch that can be found in [begin, end); the others are damaged.
cdef status_t _salvage(Wal* wal, const BatchSummary* batch, const uint64_t* chains, uint64_t segment,
                       const uint8_t* bytes, uint64_t begin, uint64_t end) noexcept nogil:
    cdef uint64_t at, length, chain
    cdef uint32_t i
    cdef status_t status = OK
    for i in range(batch.count):
        chain = load64(&chains[i])
        at = record_search(bytes, begin, end, batch.first + i, chain)
        if at < end:
            length = record_bytes((<const Record*>(bytes + at)).length)
            mark(MARK_RECOVERY_RECORD_SALVAGED)
            status = _keep(wal, batch, batch.first + i, batch.first + i, segment, at, length)
            begin = at + length
        elif not batch.flags & BATCH_REPAIRS:
            # A repair that was damaged in its turn leaves the record as damaged as it was.
            mark(MARK_RECOVERY_RECORD_DAMAGED)
            status = damage_add(&wal.damaged, batch.first + i, chain)
        if status != OK:
            return status
    return OK


# The stream goes on with this batch: what it supersedes is gone. False: it does not fit behind what is there.
cdef bint _begin_batch(Walk* walk, Segment* segment, const BatchSummary* batch) noexcept nogil:
    cdef Wal* wal = walk.wal
    if batch.number != wal.batch.number + 1:
        return False
    if batch.count != 0:
        if batch.last != batch.first + batch.count - 1:
            return False
        if not batch.flags & BATCH_REPAIRS:
            walk.begins_too_early = batch.first <= wal.start.index
            if walk.begins_too_early or batch.first > wal.end.index + 1:
                return False
            extents_cut(&wal.extents, &wal.damaged, batch.first)
            segment.lowest_first = min(segment.lowest_first, batch.first)
    return True


cdef status_t _end_batch(Wal* wal, const BatchSummary* batch, const uint64_t* chains) noexcept nogil:
    wal.batch = batch[0]
    wal.chains.clear()
    if not wal.chains.append(chains, batch.count):
        return NO_MEMORY
    if batch.count != 0 and not batch.flags & BATCH_REPAIRS:
        wal.end.index = batch.last
        wal.end.term = batch.last_term
        wal.end.chain = wal.chains.back()
    return OK


# --- batches ----------------------------------------------------------------------------------------------------------
# A batch whose header is gone: `summary` and `chains` come from its successor or from the mark.
cdef status_t _take_hole(Walk* walk, const BatchSummary* summary, const uint64_t* chains) noexcept nogil:
    cdef Wal* wal = walk.wal
    cdef Hole hole = walk.hole
    cdef Loaded* loaded = NULL
    cdef size_t i
    cdef status_t status
    mark(MARK_RECOVERY_HOLE_FILLED)
    walk.hole.is_open = False
    for i in range(walk.loaded.size):
        if walk.loaded.data[i].number == hole.segment:
            loaded = &walk.loaded.data[i]
    if loaded == NULL or not _begin_batch(walk, &loaded.segment, summary):
        walk.is_lost = True
        return OK
    status = _reach(walk, loaded, hole.end)
    if status == OK:
        status = _salvage(wal, summary, chains, hole.segment, loaded.segment.image.bytes(), hole.begin, hole.end)
    if status == OK:
        status = _end_batch(wal, summary, chains)
    loaded.segment.end = hole.end
    wal.batch_offset = hole.begin
    return status


# Are the records of the batch with a sound header at `offset` sound, too?
cdef status_t _check_batch(const Loaded* loaded, uint64_t offset, const BatchHeader* header) noexcept nogil:
    cdef const uint8_t* bytes = loaded.segment.image.bytes() + offset
    if offset + header.length > loaded.segment.image.used:
        return CORRUPT
    return _check_records(bytes, header, bytes + header.header_bytes)


# A batch with a sound header at `offset`; not is_whole: what can be found of its records is kept.
cdef status_t _take_batch(Walk* walk, Loaded* loaded, uint64_t offset, const BatchHeader* header,
                          bint is_whole) noexcept nogil:
    cdef Wal* wal = walk.wal
    cdef const uint8_t* bytes = loaded.segment.image.bytes()
    cdef const uint64_t* chains = batch_chains(bytes + offset)
    cdef uint64_t records = offset + header.header_bytes
    cdef uint64_t records_end = min(records + header.records_bytes, <uint64_t>loaded.segment.image.used)
    cdef status_t status = OK
    if not _begin_batch(walk, &loaded.segment, &header.batch):
        walk.is_lost = True
        return OK
    if not is_whole:
        status = _salvage(wal, &header.batch, chains, loaded.number, bytes, records, records_end)
    elif header.batch.count != 0:
        status = _keep(wal, &header.batch, header.batch.first, header.batch.last, loaded.number, records,
                       header.records_bytes)
    if status == OK:
        status = _end_batch(wal, &header.batch, chains)
    wal.hard_state = header.hard_state
    mark(MARK_RECOVERY_BATCH)
    loaded.segment.end = offset + header.length
    wal.batch_offset = offset
    walk.is_reach_void = walk.is_reach_void or (_has_reach(walk, loaded) and offset >= walk.mark.reach)
    return status


cdef void _open_hole(Walk* walk, const Loaded* loaded, uint64_t begin, uint64_t end) noexcept nogil:
    if walk.hole.is_open:
        walk.is_lost = True     # two batches without a header: nobody says where the first one began
        return
    walk.hole.is_open = True
    walk.hole.segment = loaded.number
    walk.hole.begin = begin
    walk.hole.end = min(end, loaded.segment.size_bytes)


# Bytes that look like the beginning of a batch of this segment, to tell people that something was cut.
cdef bint _looks_begun(const Loaded* loaded, uint64_t offset) noexcept nogil:
    cdef const BatchHeader* header = <const BatchHeader*>(loaded.segment.image.bytes() + offset)
    return (offset + sizeof(BatchHeader) <= loaded.segment.image.used and header.magic == FORMAT_BATCH_MAGIC
            and header.uuid_low == loaded.header.uuid_low and header.segment == loaded.number)


# --- the stream -------------------------------------------------------------------------------------------------------
# Does the mark say where batches of this segment may begin?
cdef bint _has_reach(const Walk* walk, const Loaded* loaded) noexcept nogil:
    return walk.mark_found == MARK_SOUND and walk.mark.segment == loaded.number


# No batch of this segment begins here or behind.
cdef uint64_t _search_end(const Walk* walk, const Loaded* loaded) noexcept nogil:
    # With a slot that is not sound the other one may be older than what was written since.
    if not _has_reach(walk, loaded) or walk.is_reach_void or walk.wal.mark.has_broken_slot:
        return loaded.limit
    return min(loaded.limit, walk.mark.reach)


# A sound header at exactly `offset`? OK, CORRUPT, NEWER_FORMAT; DISK_FAILED.
cdef status_t _header_at(Walk* walk, Loaded* loaded, uint64_t offset, const SegmentKey* key,
                         BatchHeader* header) noexcept nogil:
    cdef const uint8_t* bytes = loaded.segment.image.bytes()
    cdef status_t status = _reach(walk, loaded, offset + sizeof(BatchHeader))
    if status != OK or offset + sizeof(BatchHeader) > loaded.limit or load32(bytes + offset) != FORMAT_BATCH_MAGIC:
        return status if status != OK else CORRUPT
    # Not checked yet, but the file is as long as it is.
    status = _reach(walk, loaded, offset + (<const BatchHeader*>(bytes + offset)).header_bytes)
    if status == OK:
        status = batch_header_decode(bytes, min(loaded.limit, <uint64_t>loaded.segment.image.used), offset, key,
                                     header)
    return status if status != OK else _reach(walk, loaded, offset + header.length)


# The next sound header at or behind `offset`; *at: loaded.limit when there is none.
cdef status_t _find_batch(Walk* walk, Loaded* loaded, uint64_t offset, const SegmentKey* key, BatchHeader* header,
                          uint64_t* at) noexcept nogil:
    cdef uint64_t end = _search_end(walk, loaded)
    cdef status_t status
    offset = align_up(offset, key.alignment_bytes)
    while offset < end:
        status = _header_at(walk, loaded, offset, key, header)
        if status not in (CORRUPT, NEWER_FORMAT):
            at[0] = offset
            return status
        offset += key.alignment_bytes
    at[0] = loaded.limit
    return OK


# Was the batch at `offset` the last one begun, and does the mark not claim it? Then nobody did.
cdef status_t _is_unclaimed(Walk* walk, Loaded* loaded, uint64_t offset, const SegmentKey* key,
                            const BatchHeader* header, bint* is_unclaimed) noexcept nogil:
    cdef BatchHeader later
    cdef uint64_t at = 0
    cdef status_t status
    is_unclaimed[0] = False
    if walk.mark_found != MARK_SOUND or header.batch.number <= walk.mark.batch.number:
        return OK
    status = _find_batch(walk, loaded, offset + header.length, key, &later, &at)
    is_unclaimed[0] = status == OK and at >= loaded.limit
    return status


# All batches of one segment; following: NULL for the last one.
cdef status_t _follow_segment(Walk* walk, Loaded* loaded, const Loaded* following) noexcept nogil:
    cdef uint64_t offset = loaded.begin
    cdef uint64_t at = 0
    cdef bint is_torn = False
    cdef BatchHeader header
    cdef SegmentKey key
    cdef status_t checked
    cdef status_t status = OK
    key.number = loaded.number
    key.uuid_low = loaded.header.uuid_low
    key.uuid_high = loaded.header.uuid_high
    key.alignment_bytes = loaded.header.alignment_bytes
    while status == OK and not walk.is_lost:
        at = offset
        status = _header_at(walk, loaded, offset, &key, &header)
        if status == NEWER_FORMAT and _looks_begun(loaded, offset):
            return NEWER_FORMAT     # no damage: nothing of it may be cut or fetched from a peer
        if status in (CORRUPT, NEWER_FORMAT):
            status = _find_batch(walk, loaded, offset + 1, &key, &header, &at)
        if status != OK or at >= loaded.limit:
            break
        if at > offset:
            _open_hole(walk, loaded, offset, at)
        if walk.hole.is_open:
            status = _take_hole(walk, &header.previous,
                                batch_previous_chains(loaded.segment.image.bytes() + at, &header))
            if status != OK or walk.is_lost:
                break
        checked = _check_batch(loaded, at, &header)
        if checked == NEWER_FORMAT:
            return NEWER_FORMAT
        if checked != OK and following == NULL:
            status = _is_unclaimed(walk, loaded, at, &key, &header, &is_torn)
        if status != OK or is_torn:
            mark(MARK_RECOVERY_TORN_RECORDS)
            walk.is_torn = is_torn
            walk.torn_bytes = header.length
            return status
        status = _take_batch(walk, loaded, at, &header, checked == OK)
        offset = at + header.length
    if status == OK and following == NULL and not walk.is_lost and _looks_begun(loaded, offset):
        mark(MARK_RECOVERY_TORN_HEADER)
        walk.is_torn = True
        walk.torn_bytes = loaded.header.alignment_bytes
    elif status == OK and following != NULL and offset < following.header.previous_end:
        _open_hole(walk, loaded, offset, following.header.previous_end)
    return status


cdef status_t _begin_stream(Walk* walk, const Loaded* loaded) noexcept nogil:
    cdef Wal* wal = walk.wal
    walk.hole.is_open = walk.is_lost = walk.begins_too_early = False
    wal.extents.clear()
    wal.damaged.clear()
    wal.chains.clear()
    wal.batch.count = 0
    wal.start = loaded.header.start
    wal.end = loaded.header.start
    wal.hard_state = loaded.header.hard_state
    wal.membership_index = loaded.header.membership_index
    wal.batch.number = loaded.header.previous_batch
    wal.membership.clear()
    if not wal.membership.append(loaded.membership, loaded.header.membership_length):
        return NO_MEMORY
    return OK


cdef status_t _follow(Walk* walk) noexcept nogil:
    cdef Loaded* loaded
    cdef Loaded* following
    cdef bint is_last
    cdef size_t i
    cdef status_t status = OK
    if not walk.loaded.data[0].is_sound:
        walk.is_lost = True
        return OK
    status = _begin_stream(walk, &walk.loaded.data[0])
    for i in range(walk.loaded.size):
        if status != OK or walk.is_lost:
            return status
        loaded = &walk.loaded.data[i]
        is_last = i + 1 == walk.loaded.size
        following = NULL
        if not is_last:
            following = &walk.loaded.data[i + 1]
            if not following.is_sound or following.number != loaded.number + 1:
                walk.is_lost = True     # a whole segment is gone, or what says where this one ended
                return OK
            loaded.limit = min(following.header.previous_end, loaded.segment.size_bytes)
        status = _follow_segment(walk, loaded, following)
        if not is_last:
            if walk.wal.batch.number + (1 if walk.hole.is_open else 0) != following.header.previous_batch:
                walk.is_lost = True
    return status


# The end of the stream against the mark, the second witness.
cdef status_t _judge_tail(Walk* walk) noexcept nogil:
    cdef Wal* wal = walk.wal
    cdef Loaded* last = &walk.loaded.back()
    cdef status_t status = OK
    if walk.mark_found != MARK_SOUND:
        # A crash damages at most the slot that was not synced. Without the mark nobody knows whether the tail was torn.
        mark(MARK_RECOVERY_WITHOUT_MARK)
        walk.is_lost = walk.is_lost or walk.is_torn
    elif walk.mark.batch.number == wal.batch.number + 1 and walk.mark.segment == last.number:
        # The last batch was synced and its header is gone. Records whose hash did not fit into the mark stay unknown.
        mark(MARK_RECOVERY_LAST_HEADER_DAMAGED)
        walk.is_torn = False
        walk.hole.is_open = False
        _open_hole(walk, last, walk.mark.offset, walk.mark.end)
        if walk.mark_chains.size != walk.mark.batch.count:
            walk.is_lost = True
            return OK
        status = _take_hole(walk, &walk.mark.batch, walk.mark_chains.data)
        last.segment.end = walk.mark.end
    elif walk.mark.batch.number > wal.batch.number:
        walk.is_lost = True
    # A stream that has just begun has the batch number of the one before it, but its own hard state.
    if (walk.mark_found == MARK_SOUND and walk.mark.batch.number >= wal.batch.number
            and walk.mark.segment == last.number):
        wal.hard_state = walk.mark.hard_state
    walk.is_lost = walk.is_lost or walk.hole.is_open
    # Bytes behind the end: wal_open looks whether a batch was begun there.
    return status if status != OK else _reach(walk, last, last.segment.end + sizeof(BatchHeader))


# --- the whole --------------------------------------------------------------------------------------------------------
cdef void _drop_front(Walk* walk, size_t count) noexcept nogil:
    cdef size_t i
    for i in range(count):
        _drop(walk, &walk.loaded.data[i])
    walk.loaded.drop_front(count)


# Segments below the last one that begins a stream are void (a crash in wal_begin left them).
cdef void _drop_void(Walk* walk) noexcept nogil:
    cdef size_t count = walk.loaded.size
    while count > 1 and not (walk.loaded.data[count - 1].is_sound
                             and walk.loaded.data[count - 1].header.flags & SEGMENT_BEGINS):
        count -= 1
    _drop_front(walk, count - 1)


# The images belong to the Wal from here on.
cdef status_t _keep_segments(Walk* walk) noexcept nogil:
    cdef Wal* wal = walk.wal
    cdef Segment* segment
    cdef size_t i
    if not wal.segments.reserve(walk.loaded.size):
        return NO_MEMORY
    for i in range(walk.loaded.size):
        segment = &walk.loaded.data[i].segment
        if not segment.flags & SEGMENT_IS_RESERVE:
            segment.size_bytes = max(segment.size_bytes, <uint64_t>wal.limits.segment_bytes)
        wal.used_bytes += segment.end
        wal.segments.push(segment[0])
        segment.image = NULL
    return OK


cdef bint _is_any_sound(const Walk* walk) noexcept nogil:
    cdef size_t i
    for i in range(walk.loaded.size):
        if walk.loaded.data[i].is_sound:
            return True
    return False


cdef status_t _load_mark(Walk* walk) noexcept nogil:
    cdef Wal* wal = walk.wal
    cdef status_t status = mark_open(&wal.mark, wal.disk, &walk.mark_found, &walk.mark, &walk.mark_chains)
    if status != OK or walk.mark_found != MARK_SOUND:
        return status
    # Neither a batch number nor a segment number ever comes twice, whosever it was.
    wal.batch.number = walk.mark.batch.number
    wal.next_segment = max(wal.next_segment, walk.mark.segment + 1)
    if _is_void(walk, walk.mark.owner):
        walk.has_void = True
        walk.mark_found = MARK_MISSING
        return OK
    return OK if _is_own(walk, walk.mark.owner) else FOREIGN_NODE


cdef status_t _recover(Walk* walk) noexcept nogil:
    cdef status_t status = _load(walk)
    if status == OK:
        status = _load_mark(walk)
    if status != OK:
        return status
    if not _is_any_sound(walk):
        # A broken mark alone says nothing: its room is taken before the log begins, and a power cut may leave anything.
        walk.is_lost = not walk.has_void and (walk.loaded.size != 0 or walk.mark_found == MARK_SOUND)
        return OK
    walk.has_void = False       # beside a stream of our own it is what a crash in wal_begin left
    _drop_void(walk)
    status = _follow(walk)
    while status == OK and walk.begins_too_early and walk.loaded.size > 1:
        # A crash in wal_compact: it would have removed this segment, too, as only a later header says where to begin.
        _drop_front(walk, 1)
        status = _follow(walk)
    if status == OK and not walk.is_lost:
        status = _judge_tail(walk)
    return status if status != OK else _keep_segments(walk)


cdef void _release(Walk* walk) noexcept nogil:
    _drop_front(walk, walk.loaded.size)
    walk.loaded.release()
    walk.mark_chains.release()


cdef status_t recover(Wal* wal, RecoveryFound* found, uint64_t* torn_bytes) noexcept nogil:
    cdef Walk walk
    cdef status_t status
    memset(&walk, 0, sizeof(Walk))
    walk.wal = wal
    wal.next_segment = 1
    status = _recover(&walk)
    torn_bytes[0] = walk.torn_bytes
    if walk.has_void:
        found[0] = FOUND_VOID
    elif walk.is_lost:
        found[0] = FOUND_LOST
    elif wal.segments.size == 0:
        found[0] = FOUND_BLANK
    elif wal.damaged.size != 0:
        found[0] = FOUND_DAMAGED
    else:
        found[0] = FOUND_TORN if walk.is_torn else FOUND_CLEAN
    _release(&walk)
    return status
