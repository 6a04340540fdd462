"""The log on disk: batches made durable one after another, segments that follow each other, records read back.

It decides where a batch goes, when a new segment begins, which segments a compaction lets go. It must
never acknowledge before the sync returned; write again to a sector that holds acknowledged bytes; go on after a failed
write or sync (decisions/log.md D5); judge terms or votes. Files before and after they are segments: storage/spares.

    wal_append
        _gather             walk the records once: indexes, chain hashes, bytes
        _place              in the last segment, or a new one made from the spare (the reserve: only urgent batches)
        _write_batch        one write of all parts, one sync
        _publish            a new segment gets its name, the directory is synced
        _note_batch         what is live now; the mark

A full disk is not a failure: NO_SPACE leaves the log as it was.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

from raftmeta.native.buggify cimport BUGGIFY_MARK_SYNCED_EARLY, BUGGIFY_SEGMENT_ROLLED_EARLY, buggify
from raftmeta.native.chunks cimport Slice, chunk_drop
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64, load32, next_random
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport (MARK_BATCH_TAKEN_BACK, MARK_LOG_DAMAGED, MARK_LOG_LOST, MARK_LOG_TORN,
                                    MARK_MARK_REACHED_FURTHER, MARK_MARK_WRITTEN_AT_THE_END,
                                    MARK_OLD_SEGMENT_REMOVED, MARK_SEGMENT_BEGUN, MARK_SEGMENT_HEADER_HEALED,
                                    MARK_TORN_BATCH_ERASED, mark)
from raftmeta.native.prefetch cimport prefetch
from raftmeta.ports cimport FILE_NAME_BYTES_MAX, DiskPort, file_t
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport HardState, Record, SnapshotPoint, index_t
from raftmeta.security.cipher cimport KeyRing, cipher_end, key_ring_current
from raftmeta.status cimport DISK_FAILED, NO_MEMORY, NO_SPACE, OK, STALE, status_t
from raftmeta.storage.encryption cimport (encryption_added_bytes, encryption_draw_uuid, encryption_encrypt,
                                          encryption_open, run_release)
from raftmeta.storage.extents cimport extents_append, extents_check, extents_cut, extents_forget, extents_replace
from raftmeta.storage.invariants cimport (
    BROKEN_BATCH_ALIGNMENT, BROKEN_BATCH_BEYOND, BROKEN_BATCH_COUNT, BROKEN_BATCH_ENCRYPTED, BROKEN_BATCH_LENGTH,
    BROKEN_BATCH_OFFSET, BROKEN_BATCH_PLACE, BROKEN_BATCH_RECORD, BROKEN_BATCH_SEGMENT, BROKEN_BATCH_SLICES,
    BROKEN_BATCH_TORN, BROKEN_LOG_BYTES, BROKEN_LOG_COMPACTED, BROKEN_LOG_END, BROKEN_LOG_START,
    BROKEN_READ_RECORD, BROKEN_REPAIR_PLACE, BROKEN_RUN_ORDER, BROKEN_SEGMENT_ORDER, BROKEN_WAL_NOT_WRITABLE,
    BROKEN_WAL_OPENED_TWICE)
from raftmeta.storage.mark cimport MarkSlot, mark_close, mark_make_room, mark_sync, mark_write
from raftmeta.storage.reading cimport read_records
from raftmeta.storage.recovery cimport (FOUND_BLANK, FOUND_DAMAGED, FOUND_LOST, FOUND_TORN, FOUND_VOID, RecoveryFound,
                                        recover, segment_name, segment_number)
from raftmeta.storage.segment cimport (BATCH_REPAIRS, FORMAT_BATCH_MAGIC, SEGMENT_BEGINS, SEGMENT_IS_RESERVE,
                                       SEGMENT_HEADER_COPIES, BatchHeader, SegmentHeader, batch_header_encode,
                                       segment_header_decode, segment_header_encode)
from raftmeta.storage.spares cimport (retired_drop, segment_retire, spare_open, spares_adopt, spares_close,
                                      spares_drop_plain, spares_init, spares_prepare, spares_room)
from raftmeta.storage.wal cimport (WAL_BLANK, WAL_CLEAN, WAL_DAMAGED, WAL_TAIL_LOST, WAL_TORN_TAIL, WAL_VOID, WalBatch,
                                   WalOpened)
from raftmeta.storage.wal_state cimport WAL_ZEROS_BYTES, Extent, Segment, Spare, Wal, WalLimits

cdef enum:
    ALIGNMENT_BYTES_DEFAULT = 4096
    TUNE_MARK_SYNC_BATCHES = 1024   # the mark is synced at least that often, and by wal_idle
    TUNE_RECORDS_AHEAD = 6          # records whose heads are asked for before their turn
    TUNE_REACH_PART = 16            # of a segment: what an open reads behind the end; then the mark is synced once more


# Where a batch goes.
cdef struct Place:
    bint is_new                 # `segment` is made from `spare` and has no name yet
    Segment segment
    Spare* spare
    file_t file
    uint64_t offset


# --- life -------------------------------------------------------------------------------------------------------------
cdef Wal* wal_create(const DiskPort* disk, const WalLimits* limits, uint64_t random_seed) noexcept nogil:
    cdef Wal* wal = <Wal*>calloc(1, sizeof(Wal))
    if wal == NULL:
        return NULL
    wal.disk = disk
    wal.limits = limits[0]
    if wal.limits.alignment_bytes == 0:
        wal.limits.alignment_bytes = ALIGNMENT_BYTES_DEFAULT
    wal.random = random_seed
    spares_init(wal)
    wal.zeros = <uint8_t*>calloc(1, WAL_ZEROS_BYTES)
    if wal.zeros == NULL:
        free(wal)
        return NULL
    return wal


cdef void _close_files(Wal* wal) noexcept nogil:
    if wal.file_is_open:
        wal.disk.close(wal.disk.self, wal.file)
    if wal.read_is_open:
        wal.disk.close(wal.disk.self, wal.read_file)
    wal.file_is_open = wal.read_is_open = False
    spares_close(wal)
    mark_close(&wal.mark, wal.disk)


cdef void wal_destroy(Wal* wal) noexcept nogil:
    if wal == NULL:
        return
    _close_files(wal)
    wal_open_done(wal)
    wal.segments.release()
    wal.extents.release()
    wal.damaged.release()
    wal.membership.release()
    wal.chains.release()
    wal.head.release()
    wal.next_chains.release()
    wal.parts.release()
    wal.names.release()
    wal.retired.release()
    cipher_end(&wal.writing)
    cipher_end(&wal.reading)
    run_release(&wal.run)
    wal.encrypted.release()
    free(wal.zeros)
    free(wal)


# From here on the Wal refuses everything: what reached the disk is not known, and asking again would not tell (D5).
cdef status_t _poison(Wal* wal, status_t status) noexcept nogil:
    wal.failed = status
    return status


# Why nothing can be done with it: it failed, or whoever calls never opened it.
cdef status_t _refuse(Wal* wal) noexcept nogil:
    if wal.failed != OK:
        return wal.failed
    return broken(&wal.broken, BROKEN_WAL_NOT_WRITABLE, wal.was_opened, wal.is_writable)


# --- open -------------------------------------------------------------------------------------------------------------
cdef status_t wal_open(Wal* wal, WalOpened* opened) noexcept nogil:
    cdef RecoveryFound found
    cdef status_t status
    memset(opened, 0, sizeof(WalOpened))
    if wal.failed != OK:
        return wal.failed
    if wal.was_opened:
        return broken(&wal.broken, BROKEN_WAL_OPENED_TWICE, wal.end.index, wal.start.index)
    status = recover(wal, &found, &opened.dropped_bytes)
    if status == OK:
        wal.was_opened = True
        status = spares_adopt(wal)
    if status == OK and found not in (FOUND_BLANK, FOUND_LOST, FOUND_VOID):
        status = encryption_open(wal)       # it may find more damage, before anything is written
        if wal.damaged.size != 0:
            found = FOUND_DAMAGED
        if status == OK:
            status = extents_check(wal)
        if status == OK:
            status = _settle(wal)
    if status != OK:
        # Files are as they were; a second try begins with a new Wal.
        return _poison(wal, status)
    opened.state = WAL_CLEAN
    if found == FOUND_BLANK:
        opened.state = WAL_BLANK
    elif found == FOUND_LOST:
        mark(MARK_LOG_LOST)
        opened.state = WAL_TAIL_LOST
    elif found == FOUND_VOID:
        opened.state = WAL_VOID
    elif found == FOUND_DAMAGED:
        mark(MARK_LOG_DAMAGED)
        opened.state = WAL_DAMAGED
    elif found == FOUND_TORN:
        mark(MARK_LOG_TORN)
        opened.state = WAL_TORN_TAIL
    if opened.state in (WAL_BLANK, WAL_TAIL_LOST, WAL_VOID):
        return OK
    return _answer(wal, opened)


# The names that were found become durable, void segments go, the last segment is opened for writing, and the mark
# covers all that was found: a second open finds the same.
cdef status_t _settle(Wal* wal) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef size_t i
    cdef status_t status = mark_make_room(&wal.mark, wal.disk)
    if status == OK:
        status = wal.disk.sync_directory(wal.disk.self)
    for i in range(wal.segments.size):
        if status == OK:
            status = _heal_header(wal, &wal.segments.data[i])
    if status == OK:
        status = _remove_below(wal, wal.segments.data[0].number)
    if status == OK:
        segment_name(wal.segments.back().number, name)
        status = wal.disk.open(wal.disk.self, name, False, &wal.file)
    if status == OK:
        wal.file_is_open = True
        wal.is_writable = True
        wal.reach = _next_reach(wal, wal.segments.back().end)
        status = _erase_torn(wal)
    if status == OK:
        status = spares_drop_plain(wal)
    if status == OK:
        status = _write_mark(wal, True)
    # The mark's sequence grew, durably: even with the seed of an earlier life no segment gets a uuid that this life's
    # files have seen, and what was left in an unpublished segment stays foreign.
    wal.random = hash64(wal.random, &wal.mark.sequence, sizeof(uint64_t))
    return status


# Where a copy of the header is damaged it is written anew, lest damage to the other one, months later, cost the log. It
# may be both, and like each other: what was read then stands where a misdirected write put it, and batches to come will
# be written over it (decisions/log.md D4).
cdef status_t _heal_header(Wal* wal, const Segment* segment) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef const uint8_t* membership = NULL
    cdef SegmentHeader header
    cdef uint64_t begin = 0
    cdef uint64_t offset = 0
    cdef file_t file
    cdef status_t status = segment_header_decode(segment.image.bytes(), segment.image.used, &header, &membership,
                                                 &begin)
    wal.head.clear()
    if status == OK:
        status = segment_header_encode(&header, membership, segment.key_id, &wal.head)
    if status != OK or _is_in_image(segment, 0, wal.head.data, begin):
        return status
    mark(MARK_SEGMENT_HEADER_HEALED)
    segment_name(segment.number, name)
    status = wal.disk.open(wal.disk.self, name, False, &file)
    if status != OK:
        return status
    while status == OK and offset < begin:
        if not _is_in_image(segment, offset, wal.head.data + offset, begin // SEGMENT_HEADER_COPIES):
            status = _write_copy(wal, file, offset, begin // SEGMENT_HEADER_COPIES)
        offset += begin // SEGMENT_HEADER_COPIES
    wal.disk.close(wal.disk.self, file)
    return status


cdef bint _is_in_image(const Segment* segment, uint64_t offset, const uint8_t* bytes, uint64_t length) noexcept nogil:
    return (offset + length <= segment.image.used
            and memcmp(segment.image.bytes() + offset, bytes, length) == 0)


# One copy of the header in wal.head; the next one waits for its sync, so that a power cut tears one of them at most.
cdef status_t _write_copy(Wal* wal, file_t file, uint64_t offset, uint64_t length) noexcept nogil:
    cdef Slice part
    cdef status_t status
    memset(<void*>&part, 0, sizeof(Slice))
    part.data = wal.head.data + offset
    part.length = <uint32_t>length
    status = wal.disk.write(wal.disk.self, file, offset, &part, 1)
    return status if status != OK else wal.disk.sync(wal.disk.self, file)


# The beginning of a batch behind the end goes, or a race brings it back: 1. a batch is torn, all but its last bytes are
# there, and it is cut; 2. its successor at the same place is torn, too, and of it only those bytes reach the disk.
cdef status_t _erase_torn(Wal* wal) noexcept nogil:
    cdef Segment* last = &wal.segments.back()
    cdef uint64_t size_bytes = last.allocated_bytes
    if (last.end + sizeof(uint32_t) > size_bytes
            or load32(last.image.bytes() + last.end) != FORMAT_BATCH_MAGIC):
        return OK
    mark(MARK_TORN_BATCH_ERASED)
    return _erase(wal, wal.file, last.end, min(<uint64_t>wal.limits.alignment_bytes, size_bytes - last.end))


cdef status_t _erase(Wal* wal, file_t file, uint64_t offset, uint64_t length) noexcept nogil:
    cdef Slice part
    cdef status_t status
    memset(<void*>&part, 0, sizeof(Slice))
    part.data = wal.zeros
    part.length = <uint32_t>length
    status = wal.disk.write(wal.disk.self, file, offset, &part, 1)
    return status if status != OK else wal.disk.sync(wal.disk.self, file)


# Everything that a crash in wal_begin or wal_compact left of lower segments.
cdef status_t _remove_below(Wal* wal, uint64_t number) noexcept nogil:
    cdef size_t i
    cdef uint64_t found
    cdef bint is_changed = False
    cdef status_t status
    wal.names.clear()
    status = wal.disk.list_names(wal.disk.self, &wal.names)
    for i in range(wal.names.size):
        found = segment_number(wal.names.data[i].text)
        if status == OK and found != 0 and found < number:
            mark(MARK_OLD_SEGMENT_REMOVED)
            status = wal.disk.remove(wal.disk.self, wal.names.data[i].text)
            is_changed = True
    if status == OK and is_changed:
        status = wal.disk.sync_directory(wal.disk.self)
    return status


cdef status_t _answer(Wal* wal, WalOpened* opened) noexcept nogil:
    if not wal.found_membership.append(wal.membership.data, wal.membership.size):
        return _poison(wal, NO_MEMORY)
    opened.hard_state = wal.hard_state
    opened.start = wal.start
    opened.membership = wal.found_membership.data
    opened.membership_length = <uint32_t>wal.found_membership.size
    opened.membership_index = wal.membership_index
    opened.first = wal.start.index + 1
    opened.last = wal.end.index
    opened.slices = wal.found_slices.data
    opened.slice_count = wal.found_slices.size
    opened.damaged = wal.damaged.data
    opened.damaged_count = wal.damaged.size
    return OK


cdef void wal_open_done(Wal* wal) noexcept nogil:
    cdef size_t i
    for i in range(wal.segments.size):
        chunk_drop(wal.segments.data[i].image)
        wal.segments.data[i].image = NULL
    for i in range(wal.found_chunks.size):
        chunk_drop(wal.found_chunks.data[i])
    wal.found_chunks.release()
    wal.found_slices.release()
    wal.found_membership.release()


# --- the mark ---------------------------------------------------------------------------------------------------------
cdef status_t _fill_mark(Wal* wal, bint must_sync) noexcept nogil:
    cdef MarkSlot slot
    memset(&slot, 0, sizeof(MarkSlot))
    slot.owner = wal.limits.owner
    slot.segment = wal.segments.back().number
    slot.offset = wal.batch_offset
    slot.end = wal.segments.back().end
    slot.reach = wal.reach
    slot.hard_state = wal.hard_state
    slot.batch = wal.batch
    return mark_write(&wal.mark, wal.disk, &slot, wal.chains.data, must_sync)


cdef status_t _put_mark(Wal* wal, bint must_sync) noexcept nogil:
    cdef status_t status = _fill_mark(wal, must_sync)
    return status if status in (OK, NO_SPACE) else _stop(wal, status)


# A write or sync failed, and the log stops. The system may have dropped the mark of the last batch with that sync, and
# the mark is the only witness of that batch (decisions/log.md D5). So the mark is written anew, which is no second sync
# of the old bytes. Nobody relies on the result: the mark promises nothing, it makes the next opening more careful.
#   1. the disk loses the write of batch 7 and reports success; 7 is acknowledged   2. the sync of the mark fails
#   3. without the mark the next opening takes batch 6 for the last one, and the member votes without batch 7.
cdef status_t _stop(Wal* wal, status_t status) noexcept nogil:
    if wal.failed == OK and status == DISK_FAILED:
        mark(MARK_MARK_WRITTEN_AT_THE_END)
        _fill_mark(wal, True)
    return _poison(wal, status)


cdef status_t _write_mark(Wal* wal, bint must_sync) noexcept nogil:
    cdef status_t status = _put_mark(wal, must_sync)
    # Its room was taken when the log began. A file system that still wants more leaves the mark behind, which only
    # makes the next open more careful.
    return OK if status == NO_SPACE else status


cdef bint _must_sync_mark(const Wal* wal) noexcept nogil:
    return (wal.hard_state.term != wal.mark.synced_hard_state.term
            or wal.hard_state.vote != wal.mark.synced_hard_state.vote
            or wal.mark.unsynced_writes >= TUNE_MARK_SYNC_BATCHES or buggify(BUGGIFY_MARK_SYNCED_EARLY))


# How far batches may begin from now on when the next one begins at `offset`.
cdef uint64_t _next_reach(const Wal* wal, uint64_t offset) noexcept nogil:
    return offset + max(wal.limits.segment_bytes // TUNE_REACH_PART, wal.limits.alignment_bytes)


# A batch that begins behind what the mark says would be overlooked at the next opening: the mark goes first.
cdef status_t _extend_reach(Wal* wal, uint64_t offset) noexcept nogil:
    cdef uint64_t reach = wal.reach
    cdef status_t status
    if offset < reach:
        return OK
    wal.reach = _next_reach(wal, offset)
    mark(MARK_MARK_REACHED_FURTHER)
    status = _put_mark(wal, True)
    if status == NO_SPACE:
        wal.reach = reach
    return status


cdef status_t wal_idle(Wal* wal) noexcept nogil:
    cdef status_t status
    if wal.failed != OK or not wal.is_writable:
        return wal.failed
    status = mark_sync(&wal.mark, wal.disk)
    return status if status == OK else _stop(wal, status)


# --- prepare ----------------------------------------------------------------------------------------------------------
cdef status_t wal_prepare(Wal* wal, uint32_t bytes_max, bint* is_complete) noexcept nogil:
    cdef status_t status
    is_complete[0] = False
    if wal.failed != OK or not wal.is_writable:
        return wal.failed
    status = spares_prepare(wal, bytes_max, is_complete)
    return status if status in (OK, NO_SPACE) else _poison(wal, status)


# --- a new segment ----------------------------------------------------------------------------------------------------
cdef void _fill_segment_header(Wal* wal, uint32_t flags, const SnapshotPoint* start,
                               SegmentHeader* header) noexcept nogil:
    memset(header, 0, sizeof(SegmentHeader))
    header.flags = <uint8_t>flags
    header.uuid_low = next_random(&wal.random)
    header.uuid_high = next_random(&wal.random)
    header.owner = wal.limits.owner
    header.number = wal.next_segment
    header.previous_end = wal.segments.back().end if wal.segments.size else 0
    header.previous_batch = wal.batch.number
    header.alignment_bytes = wal.limits.alignment_bytes
    header.membership_length = <uint32_t>wal.membership.size
    header.membership_index = wal.membership_index
    header.hard_state = wal.hard_state
    header.start = start[0]


# Write the header of the next segment into the spare. It has no name yet: until _publish nothing has happened.
cdef status_t _start_segment(Wal* wal, Spare* spare, uint32_t flags, const SnapshotPoint* start,
                             Place* place) noexcept nogil:
    cdef SegmentHeader header
    cdef uint64_t uuid_low = 0
    cdef uint64_t uuid_high = 0
    cdef Segment* segment = &place.segment
    cdef Slice part
    cdef status_t status = spare_open(wal, spare, True)
    if status != OK:
        return status
    _fill_segment_header(wal, flags, start, &header)
    if wal.write_key_id != 0:
        # The uuid is the salt of the segment's key: it must differ from that of any other segment that there ever was.
        status = encryption_draw_uuid(wal, &uuid_low, &uuid_high)
        header.uuid_low = uuid_low
        header.uuid_high = uuid_high
    wal.head.clear()
    if status == OK:
        status = segment_header_encode(&header, wal.membership.data, wal.write_key_id, &wal.head)
    if status != OK:
        return status
    memset(segment, 0, sizeof(Segment))
    segment.number = header.number
    segment.uuid_low = header.uuid_low
    segment.uuid_high = header.uuid_high
    segment.alignment_bytes = header.alignment_bytes
    segment.flags = flags
    segment.key_id = wal.write_key_id
    segment.lowest_first = ~<uint64_t>0
    segment.start = start[0]
    segment.end = wal.head.size
    segment.allocated_bytes = max(segment.end, spare.size_bytes)
    place.is_new = True
    place.spare = spare
    place.file = spare.file
    place.offset = segment.end
    memset(<void*>&part, 0, sizeof(Slice))
    part.data = wal.head.data
    part.length = <uint32_t>wal.head.size
    return wal.disk.write(wal.disk.self, spare.file, 0, &part, 1)


# Give the new segment its name, durably, and make it the one that is written to.
cdef status_t _publish(Wal* wal, Place* place) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef status_t status
    if wal.segments.size != 0 and place.segment.number <= wal.segments.back().number:
        return broken(&wal.broken, BROKEN_SEGMENT_ORDER, place.segment.number, wal.segments.back().number)
    if not wal.segments.reserve(wal.segments.size + 1):
        return NO_MEMORY
    segment_name(place.segment.number, name)
    status = wal.disk.rename(wal.disk.self, place.spare.name, name)
    if status == OK:
        status = wal.disk.sync_directory(wal.disk.self)
    if status != OK:
        return _poison(wal, status)
    if wal.file_is_open:
        wal.disk.close(wal.disk.self, wal.file)
    wal.file = place.file
    wal.file_is_open = True
    place.spare.is_open = False
    place.spare.size_bytes = 0
    wal.reach = _next_reach(wal, place.segment.end)
    wal.next_segment = place.segment.number + 1
    wal.used_bytes += place.segment.end
    wal.segments.push(place.segment)
    return OK


# The first segment of a stream, from the spare or, when the disk is full, from the reserve: an install must be
# possible then, it frees the log before it. Room for the mark comes first: once a segment has its name, a mark that
# found none would end the log before its first batch.
cdef status_t _start_stream(Wal* wal, const SnapshotPoint* point, Place* place) noexcept nogil:
    cdef status_t status = mark_make_room(&wal.mark, wal.disk)
    if status != OK:
        return status
    status = _start_segment(wal, &wal.spare, SEGMENT_BEGINS, point, place)
    place.segment.size_bytes = max(<uint64_t>wal.limits.segment_bytes, place.offset)
    if status == NO_SPACE and wal.reserve.size_bytes != 0:
        status = _start_segment(wal, &wal.reserve, SEGMENT_BEGINS | SEGMENT_IS_RESERVE, point, place)
        place.segment.size_bytes = wal.reserve.size_bytes
    if status == OK:
        status = wal.disk.sync(wal.disk.self, place.file)
    return status


cdef status_t wal_begin(Wal* wal, const SnapshotPoint* point, const HardState* hard_state, const uint8_t* membership,
                        uint32_t membership_length, index_t membership_index) noexcept nogil:
    cdef HardState kept_hard_state = wal.hard_state
    cdef index_t kept_membership_index = wal.membership_index
    cdef Vec[uint8_t] kept_membership = wal.membership
    cdef Place place
    cdef status_t status = OK
    if wal.failed != OK or not wal.was_opened:
        return _refuse(wal)
    wal.write_key_id = key_ring_current(<KeyRing*>wal.disk.keys)
    memset(&place, 0, sizeof(Place))
    memset(<void*>&wal.membership, 0, sizeof(wal.membership))
    if not wal.membership.append(membership, membership_length):
        status = NO_MEMORY
    wal.membership_index = membership_index
    wal.hard_state = hard_state[0]
    if status == OK:
        status = _start_stream(wal, point, &place)
    if status == NO_SPACE:
        wal.membership.release()
        wal.membership = kept_membership
        wal.membership_index = kept_membership_index
        wal.hard_state = kept_hard_state
        return NO_SPACE
    kept_membership.release()
    if status != OK:
        return _poison(wal, status)
    wal_open_done(wal)
    wal.segments.clear()
    wal.used_bytes = 0
    status = _publish(wal, &place)
    return status if status != OK else _restart_stream(wal, point)


# The stream is empty now; what stood in lower segments is void.
cdef status_t _restart_stream(Wal* wal, const SnapshotPoint* point) noexcept nogil:
    cdef status_t status
    wal.start = wal.end = point[0]
    wal.extents.clear()
    wal.damaged.clear()
    wal.chains.clear()
    wal.batch.count = 0
    wal.batch.flags = 0
    wal.batch_offset = wal.segments.back().end
    wal.cursor_index = 0
    wal.is_writable = True
    if wal.read_is_open:
        wal.disk.close(wal.disk.self, wal.read_file)
        wal.read_is_open = False
    # Both slots: the older one must not ask for what is void.
    status = _write_mark(wal, True)
    if status == OK:
        status = _write_mark(wal, True)
    if status == OK:
        status = _remove_below(wal, wal.segments.back().number)
    return status if status == OK else _poison(wal, status)


# --- append -----------------------------------------------------------------------------------------------------------
# The chain hashes of the batch's records and their bytes; each record must be the one after the one before.
cdef status_t _gather(Wal* wal, const WalBatch* batch, BatchHeader* header) noexcept nogil:
    cdef const Record* record = NULL
    cdef index_t index = batch.first
    cdef uint64_t offset, length
    cdef uint64_t filled = 0
    cdef uint32_t i
    wal.next_chains.clear()
    for i in range(batch.slice_count):
        offset = 0
        while offset + sizeof(Record) <= batch.slices[i].length:
            record = <const Record*>(batch.slices[i].data + offset)
            length = record_bytes(record.length)
            # Another thread wrote them, so each head has to be fetched from there; most are about as long as this one.
            prefetch(<const uint8_t*>record + TUNE_RECORDS_AHEAD * length)
            if record.index != index:
                return broken(&wal.broken, BROKEN_BATCH_RECORD, record.index, index)
            if not wal.next_chains.push(record.chain):
                return NO_MEMORY
            index += 1
            offset += length
            header.records_bytes += length
            if wal.write_key_id != 0:
                header.records_bytes += encryption_added_bytes(record, length, record.index == batch.last, &filled)
        if offset != batch.slices[i].length:
            return broken(&wal.broken, BROKEN_BATCH_TORN, offset, batch.slices[i].length)
    if index != max(batch.last + 1, batch.first):
        return broken(&wal.broken, BROKEN_BATCH_COUNT, index - 1, batch.last)
    header.batch.count = <uint32_t>wal.next_chains.size
    if record != NULL:
        header.batch.last_term = record.term
    return OK


# A batch continues this log. A hole, a repair of what is not there or a rewrite of what is compacted never does.
cdef status_t _check_place(Wal* wal, const WalBatch* batch) noexcept nogil:
    if batch.first > batch.last:
        return OK if batch.slice_count == 0 else broken(&wal.broken, BROKEN_BATCH_SLICES, batch.slice_count, 0)
    if batch.first <= wal.start.index or (not batch.repairs and batch.first > wal.end.index + 1):
        return broken(&wal.broken, BROKEN_BATCH_PLACE, batch.first, wal.end.index)
    if batch.repairs and batch.last > wal.end.index:
        return broken(&wal.broken, BROKEN_REPAIR_PLACE, batch.last, wal.end.index)
    return OK


cdef status_t _place_in(Wal* wal, Spare* spare, uint32_t flags, uint64_t length, Place* place) noexcept nogil:
    cdef status_t status = _start_segment(wal, spare, flags, &wal.end, place)
    place.segment.size_bytes = max(<uint64_t>wal.limits.segment_bytes, place.offset + length)
    if flags & SEGMENT_IS_RESERVE:
        place.segment.size_bytes = spare.size_bytes
    return status


# A place for `length` bytes in the last segment. False: it has no room, or is for urgent batches only.
cdef bint _place_in_last(Wal* wal, const WalBatch* batch, uint64_t length, Place* place) noexcept nogil:
    cdef Segment* last = &wal.segments.back()
    if last.end + length > last.size_bytes or (last.flags & SEGMENT_IS_RESERVE and not batch.is_urgent):
        return False
    if not last.flags & SEGMENT_IS_RESERVE and buggify(BUGGIFY_SEGMENT_ROLLED_EARLY):
        return False
    # A segment of an earlier life with another alignment is left alone.
    if last.alignment_bytes != wal.limits.alignment_bytes:
        return False
    # So is one with another key, or none: each segment is encrypted with one key, or plain.
    if last.key_id != wal.write_key_id:
        return False
    place.is_new = False
    place.segment = last[0]
    place.file = wal.file
    place.offset = last.end
    return True


cdef void _fill_header(Wal* wal, const WalBatch* batch, const Place* place, BatchHeader* header) noexcept nogil:
    header.uuid_low = place.segment.uuid_low
    header.uuid_high = place.segment.uuid_high
    header.segment = place.segment.number
    header.offset = place.offset
    header.durable_segment = wal.segments.back().number
    header.durable_end = wal.segments.back().end
    header.write_id = batch.write_id
    header.hard_state = batch.hard_state if batch.has_hard_state else wal.hard_state
    header.batch.number = wal.batch.number + 1
    header.batch.first = batch.first
    header.batch.last = batch.last
    header.batch.flags = BATCH_REPAIRS if batch.repairs else 0
    header.previous = wal.batch


# Before the write: a batch overwrites nothing, and is as long as the place that was chosen for it.
cdef status_t _check_bytes(Wal* wal, const Place* place, const BatchHeader* header) noexcept nogil:
    cdef uint64_t wanted_bytes = _batch_length(wal, header)
    if header.length != wanted_bytes:
        return broken(&wal.broken, BROKEN_BATCH_LENGTH, header.length, wanted_bytes)
    if place.offset < place.segment.end:
        return broken(&wal.broken, BROKEN_BATCH_OFFSET, place.offset, place.segment.end)
    if place.offset % wal.limits.alignment_bytes != 0:
        return broken(&wal.broken, BROKEN_BATCH_ALIGNMENT, place.offset, wal.limits.alignment_bytes)
    # The reserve is asked for its room before; any other place grows to what it takes.
    if place.offset + header.length > place.segment.size_bytes:
        return broken(&wal.broken, BROKEN_BATCH_BEYOND, place.offset + header.length, place.segment.size_bytes)
    return OK


# One write, one sync.
cdef status_t _write_batch(Wal* wal, const WalBatch* batch, const Place* place, BatchHeader* header) noexcept nogil:
    cdef Slice part
    cdef status_t status
    _fill_header(wal, batch, place, header)
    wal.head.clear()
    status = batch_header_encode(header, wal.next_chains.data, wal.chains.data, wal.limits.alignment_bytes, &wal.head)
    if status == OK:
        status = _check_bytes(wal, place, header)
    if status != OK:
        return status
    memset(<void*>&part, 0, sizeof(Slice))
    part.data = wal.head.data
    part.length = <uint32_t>wal.head.size
    wal.parts.clear()
    if not wal.parts.push(part):
        return NO_MEMORY
    if place.segment.key_id != 0:
        status = encryption_encrypt(wal, &place.segment, place.offset + header.header_bytes, batch.slices,
                                    batch.slice_count, batch.last)
        if status == OK and wal.encrypted.size != header.records_bytes:
            status = broken(&wal.broken, BROKEN_BATCH_ENCRYPTED, wal.encrypted.size, header.records_bytes)
        if status != OK:
            return status
        part.data = wal.encrypted.data
        part.length = <uint32_t>wal.encrypted.size
        if not wal.parts.push(part):
            return NO_MEMORY
    elif not wal.parts.append(batch.slices, batch.slice_count):
        return NO_MEMORY
    part.data = wal.zeros
    part.length = <uint32_t>(header.length - header.header_bytes - header.records_bytes)
    if not wal.parts.push(part):
        return NO_MEMORY
    status = wal.disk.write(wal.disk.self, place.file, place.offset, wal.parts.data, wal.parts.size)
    if status == NO_SPACE:
        mark(MARK_BATCH_TAKEN_BACK)
        return _take_back(wal, place)
    if status == OK:
        status = wal.disk.sync(wal.disk.self, place.file)
    return status if status == OK else _stop(wal, status)


# The disk was full in the middle of a batch that is now refused: its beginning must never be found again. Where there
# is no room to write over it either (copy on write), what the file holds cannot be known: the log stops, and the next
# opening erases it.
cdef status_t _take_back(Wal* wal, const Place* place) noexcept nogil:
    cdef uint64_t size_bytes = 0
    cdef status_t status
    if place.is_new:
        return NO_SPACE         # a file without a name is no part of the log
    status = wal.disk.size(wal.disk.self, place.file, &size_bytes)
    if status == OK and size_bytes > place.offset:
        status = _erase(wal, place.file, place.offset,
                        min(<uint64_t>wal.limits.alignment_bytes, size_bytes - place.offset))
    return NO_SPACE if status == OK else _poison(wal, DISK_FAILED if status == NO_SPACE else status)


# A new segment for the batch, from the spare or, for an urgent one on a full disk, from the reserve.
cdef status_t _append_to_new(Wal* wal, const WalBatch* batch, uint64_t length, Place* place,
                             BatchHeader* header) noexcept nogil:
    cdef status_t status = _place_in(wal, &wal.spare, 0, length, place)
    if status == OK:
        status = _write_batch(wal, batch, place, header)
    if status == NO_SPACE and batch.is_urgent and wal.reserve.size_bytes != 0:
        status = _place_in(wal, &wal.reserve, SEGMENT_IS_RESERVE, length, place)
        if status == OK:
            status = (_write_batch(wal, batch, place, header)
                      if place.offset + length <= place.segment.size_bytes else NO_SPACE)
    if status not in (OK, NO_SPACE):
        return _poison(wal, status)
    return status if status != OK else _publish(wal, place)


# The batch is durable: what is live now.
cdef status_t _note_batch(Wal* wal, const WalBatch* batch, const BatchHeader* header) noexcept nogil:
    cdef Segment* last = &wal.segments.back()
    cdef Extent extent
    cdef status_t status
    if header.segment != last.number:
        return broken(&wal.broken, BROKEN_BATCH_SEGMENT, header.segment, last.number)
    wal.hard_state = header.hard_state
    wal.batch = header.batch
    wal.batch_offset = header.offset
    last.end = header.offset + header.length
    last.allocated_bytes = max(last.allocated_bytes, last.end)
    wal.used_bytes += header.length
    if batch.membership_length != 0:
        wal.membership.clear()
        wal.membership_index = batch.membership_index
        if not wal.membership.append(batch.membership, batch.membership_length):
            return NO_MEMORY
    wal.chains.clear()
    if not wal.chains.append(wal.next_chains.data, wal.next_chains.size):
        return NO_MEMORY
    if header.batch.count == 0:
        return OK
    extent.first = extent.origin = batch.first
    extent.last = batch.last
    extent.segment = header.segment
    extent.offset = header.offset + header.header_bytes
    extent.bytes = header.records_bytes
    wal.cursor_index = 0
    if batch.repairs:
        return extents_replace(&wal.extents, &wal.damaged, &extent)
    extents_cut(&wal.extents, &wal.damaged, batch.first)
    last.lowest_first = min(last.lowest_first, batch.first)
    wal.end.index = batch.last
    wal.end.term = header.batch.last_term
    wal.end.chain = wal.chains.back()
    status = extents_append(&wal.extents, &extent)
    if status == OK and wal.extents.back().last != wal.end.index:
        return broken(&wal.broken, BROKEN_LOG_END, wal.extents.back().last, wal.end.index)
    return status


cdef status_t wal_append(Wal* wal, const WalBatch* batch) noexcept nogil:
    cdef BatchHeader header
    cdef Place place
    cdef uint64_t length
    cdef bint is_placed
    cdef status_t status
    if wal.failed != OK or not wal.is_writable:
        return _refuse(wal)
    if batch.first > batch.last and not batch.has_hard_state:
        return OK
    memset(&header, 0, sizeof(BatchHeader))
    wal.write_key_id = key_ring_current(<KeyRing*>wal.disk.keys)
    status = _check_place(wal, batch)
    if status == OK:
        status = _gather(wal, batch, &header)
    if status != OK:
        return status
    length = _batch_length(wal, &header)
    if not batch.is_urgent and wal.limits.log_bytes_max != 0 and wal.used_bytes + length > wal.limits.log_bytes_max:
        return NO_SPACE
    is_placed = _place_in_last(wal, batch, length, &place)
    if is_placed:
        status = _extend_reach(wal, place.offset)
    if is_placed and status == OK:
        status = _write_batch(wal, batch, &place, &header)
    # A segment that was never zeroed may find the disk full in its middle; urgent batches still have the reserve.
    if not is_placed or (status == NO_SPACE and batch.is_urgent):
        mark(MARK_SEGMENT_BEGUN)
        status = _append_to_new(wal, batch, length, &place, &header)
    if status != OK:
        return status
    status = _note_batch(wal, batch, &header)
    if status != OK:
        return _poison(wal, status)
    return _write_mark(wal, _must_sync_mark(wal))


cdef uint64_t _batch_length(const Wal* wal, const BatchHeader* header) noexcept nogil:
    cdef uint64_t tables = (<uint64_t>header.batch.count + wal.batch.count) * sizeof(uint64_t)
    cdef uint64_t alignment = wal.limits.alignment_bytes
    return (sizeof(BatchHeader) + tables + header.records_bytes + alignment - 1) // alignment * alignment


# --- read -------------------------------------------------------------------------------------------------------------
cdef status_t wal_read(Wal* wal, index_t index, uint32_t bytes_max, Slice* records) noexcept nogil:
    cdef status_t status
    memset(<void*>records, 0, sizeof(Slice))
    if wal.failed != OK or not wal.is_writable:
        return _refuse(wal)
    status = read_records(wal, index, bytes_max, records)
    if status == OK and (<const Record*>records.data).index != index:
        return broken(&wal.broken, BROKEN_READ_RECORD, (<const Record*>records.data).index, index)
    return status


# --- compaction -------------------------------------------------------------------------------------------------------
# The first segment that must stay: all records behind `point` are in it or above, and nothing in it or above supersedes
# a record before it, so that its header says exactly where the log begins.
cdef size_t _first_kept(const Wal* wal, const SnapshotPoint* point) noexcept nogil:
    cdef index_t lowest = ~<uint64_t>0
    cdef const Segment* segment
    cdef size_t i
    for i in range(wal.segments.size, 0, -1):
        segment = &wal.segments.data[i - 1]
        lowest = min(lowest, segment.lowest_first)
        if segment.start.index <= point.index and lowest > segment.start.index:
            return i - 1
    return 0


cdef status_t wal_compact(Wal* wal, const SnapshotPoint* point) noexcept nogil:
    cdef size_t kept
    cdef size_t i
    cdef status_t status
    if wal.failed != OK or not wal.is_writable:
        return _refuse(wal)
    if point.index > wal.end.index:
        return STALE
    kept = _first_kept(wal, point)
    if wal.read_is_open and kept != 0:
        wal.disk.close(wal.disk.self, wal.read_file)
        wal.read_is_open = False
    for i in range(kept):
        status = segment_retire(wal, &wal.segments.data[i])
        if status != OK:
            return _poison(wal, status)
        if wal.used_bytes < wal.segments.data[i].end:
            return broken(&wal.broken, BROKEN_LOG_BYTES, wal.used_bytes, wal.segments.data[i].end)
        wal.used_bytes -= wal.segments.data[i].end
        chunk_drop(wal.segments.data[i].image)
    wal.segments.drop_front(kept)
    if wal.segments.data[0].start.index < wal.start.index:
        return broken(&wal.broken, BROKEN_LOG_START, wal.segments.data[0].start.index, wal.start.index)
    if kept != 0 and wal.segments.data[0].start.index > point.index:
        return broken(&wal.broken, BROKEN_LOG_COMPACTED, wal.segments.data[0].start.index, point.index)
    wal.start = wal.segments.data[0].start
    extents_forget(&wal.extents, &wal.damaged, wal.start.index)
    if wal.extents.size != 0 and wal.extents.data[0].first <= wal.start.index:
        return broken(&wal.broken, BROKEN_RUN_ORDER, wal.extents.data[0].first, wal.start.index)
    status = retired_drop(wal)
    return status if status == OK else _poison(wal, status)


cdef uint64_t wal_free_bytes(Wal* wal) noexcept nogil:
    cdef uint64_t room = 0
    cdef Segment* last
    if wal.failed != OK or not wal.is_writable or wal.disk.free_bytes(wal.disk.self, &room) != OK:
        return 0
    last = &wal.segments.back()
    room += spares_room(wal)
    if not last.flags & SEGMENT_IS_RESERVE:
        room += last.size_bytes - min(last.size_bytes, last.end)
    if wal.limits.log_bytes_max != 0:
        room = min(room, wal.limits.log_bytes_max - min(wal.limits.log_bytes_max, wal.used_bytes))
    return room


cdef uint64_t wal_used_bytes(const Wal* wal) noexcept nogil:
    return wal.used_bytes
