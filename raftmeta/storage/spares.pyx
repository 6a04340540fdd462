"""Files prepared ahead: the spare, which becomes the next segment, the reserve, and retired segments.

It decides what a sync of a batch will find (a file that need not grow), and what becomes of a segment that leaves
the log: the reserve, a spare of later, or nothing. It must never write a byte of the log, or give a file the name
of a segment (storage/wal).

A failure is only answered: storage/wal poisons itself. NO_SPACE is none, what could not be prepared is missing.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset, strcpy

from raftmeta.native.chunks cimport Slice
from raftmeta.native.invariants cimport broken
from raftmeta.native.marks cimport MARK_OLD_SEGMENT_REMOVED, MARK_SEGMENT_USED_AGAIN, mark
from raftmeta.ports cimport FILE_NAME_BYTES_MAX, file_t
from raftmeta.security.cipher cimport KeyRing, key_ring_current
from raftmeta.status cimport NO_MEMORY, NO_SPACE, NOT_FOUND, OK, status_t
from raftmeta.storage.invariants cimport BROKEN_RETIRED_NEWEST, read_at_most
from raftmeta.storage.recovery cimport retired_name, retired_number, segment_name
from raftmeta.storage.segment cimport (HEADER_SEARCH_BYTES, SegmentHeader, segment_header_decode, segment_key_id)
from raftmeta.storage.wal_state cimport WAL_ZEROS_BYTES, Segment, Spare, Wal

cdef enum:
    TUNE_RETIRED_MAX = 8            # segments kept to be used again
    TUNE_RETIRED_ROOM = 4           # x segment_bytes: they are kept while the disk has more room than this
    TUNE_ZEROS_PER_SYNC = 4 << 20   # a sync behind each step would record each growth of the file by itself

cdef const char* SPARE_FILE_NAME = "spare"
cdef const char* RESERVE_FILE_NAME = "reserve"


# --- life -------------------------------------------------------------------------------------------------------------
cdef void spares_init(Wal* wal) noexcept nogil:
    wal.spare.name = SPARE_FILE_NAME
    wal.reserve.name = RESERVE_FILE_NAME


cdef status_t spares_adopt(Wal* wal) noexcept nogil:
    cdef uint64_t number
    cdef size_t i
    cdef status_t status = spare_open(wal, &wal.spare, False)
    if status in (OK, NOT_FOUND):
        status = spare_open(wal, &wal.reserve, False)
    for i in range(wal.names.size):
        number = retired_number(wal.names.data[i].text)
        if number != 0 and not wal.retired.push(number):
            return NO_MEMORY
    return OK if status == NOT_FOUND else status


# Does the file begin as a plain segment did? Then it holds plain records, up to where it was written over.
cdef status_t _is_plain(Wal* wal, const char* name, bint* is_plain) noexcept nogil:
    cdef SegmentHeader header
    cdef const uint8_t* membership = NULL
    cdef uint64_t begin = 0
    cdef size_t got = 0
    cdef file_t file
    cdef status_t status = wal.disk.open(wal.disk.self, name, False, &file)
    is_plain[0] = False
    wal.head.clear()
    if status != OK:
        return OK if status == NOT_FOUND else status
    if wal.head.resize(HEADER_SEARCH_BYTES):
        status = read_at_most(wal.disk, &wal.broken, file, 0, wal.head.data, HEADER_SEARCH_BYTES, &got)
        is_plain[0] = (status == OK and segment_header_decode(wal.head.data, got, &header, &membership, &begin) == OK
                       and segment_key_id(&header, membership) == 0)
    else:
        status = NO_MEMORY
    wal.disk.close(wal.disk.self, file)
    return status


cdef status_t _remove_if_plain(Wal* wal, const char* name, bint* is_removed) noexcept nogil:
    cdef status_t status = _is_plain(wal, name, is_removed)
    if status == OK and is_removed[0]:
        mark(MARK_OLD_SEGMENT_REMOVED)
        status = wal.disk.remove(wal.disk.self, name)
    return status


cdef status_t _drop_plain_spare(Wal* wal, Spare* spare) noexcept nogil:
    cdef bint is_removed = False
    cdef status_t status = _remove_if_plain(wal, spare.name, &is_removed)
    if is_removed:
        _close_spare(wal, spare)
        spare.size_bytes = 0
    return status


cdef status_t spares_drop_plain(Wal* wal) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef size_t kept = 0
    cdef size_t i
    cdef bint is_removed = False
    cdef status_t status
    if key_ring_current(<const KeyRing*>wal.disk.keys) == 0:
        return OK
    status = _drop_plain_spare(wal, &wal.spare)
    if status == OK:
        status = _drop_plain_spare(wal, &wal.reserve)
    for i in range(wal.retired.size):
        retired_name(wal.retired.data[i], name)
        if status == OK:
            status = _remove_if_plain(wal, name, &is_removed)
        if not is_removed:
            wal.retired.data[kept] = wal.retired.data[i]
            kept += 1
    wal.retired.size = kept
    return status


cdef void _close_spare(Wal* wal, Spare* spare) noexcept nogil:
    if spare.is_open:
        wal.disk.close(wal.disk.self, spare.file)
    spare.is_open = False


cdef void spares_close(Wal* wal) noexcept nogil:
    _close_spare(wal, &wal.spare)
    _close_spare(wal, &wal.reserve)


# --- before a segment is needed ---------------------------------------------------------------------------------------
# A retired segment becomes the spare: its bytes are written over as they are, and no zeros before them. None of them
# can be taken for new ones (decisions/log.md "Used again").
cdef status_t _take_retired(Wal* wal, const Spare* spare) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef status_t status
    if spare != &wal.spare or wal.retired.size == 0:
        return OK
    retired_name(wal.retired.back(), name)
    mark(MARK_SEGMENT_USED_AGAIN)
    status = wal.disk.rename(wal.disk.self, name, spare.name)
    if status == OK:
        wal.retired.pop()
    return status


cdef status_t spare_open(Wal* wal, Spare* spare, bint create) noexcept nogil:
    cdef status_t status
    if spare.is_open:
        return OK
    spare.size_bytes = 0
    status = wal.disk.open(wal.disk.self, spare.name, False, &spare.file)
    if status == NOT_FOUND and create:
        status = _take_retired(wal, spare)
        if status == OK:
            status = wal.disk.open(wal.disk.self, spare.name, True, &spare.file)
    if status == OK:
        spare.is_open = True
        status = wal.disk.size(wal.disk.self, spare.file, &spare.size_bytes)
    return status


# Write up to bytes_max zeros at offset, not beyond `wanted`. They are synced once in a while and at the end: not for
# their own sake, nothing says that they are there, but so that no sync of a batch has blocks to record.
cdef status_t _fill_with_zeros(Wal* wal, file_t file, uint64_t offset, uint64_t wanted,
                               uint32_t bytes_max) noexcept nogil:
    cdef uint64_t length = min(wanted - min(wanted, offset), <uint64_t>bytes_max)
    cdef uint64_t end = offset + length
    cdef Slice part
    cdef status_t status
    memset(<void*>&part, 0, sizeof(Slice))
    part.data = wal.zeros
    wal.parts.clear()
    while length:
        part.length = <uint32_t>min(length, <uint64_t>WAL_ZEROS_BYTES)
        length -= part.length
        if not wal.parts.push(part):
            return NO_MEMORY
    if wal.parts.size == 0:
        return OK
    status = wal.disk.write(wal.disk.self, file, offset, wal.parts.data, wal.parts.size)
    if status != OK or (end < wanted and end // TUNE_ZEROS_PER_SYNC == offset // TUNE_ZEROS_PER_SYNC):
        return status
    return wal.disk.sync(wal.disk.self, file)


cdef status_t _grow_spare(Wal* wal, Spare* spare, uint64_t wanted, uint32_t bytes_max) noexcept nogil:
    cdef status_t status = spare_open(wal, spare, True)
    if status == OK:
        status = _fill_with_zeros(wal, spare.file, spare.size_bytes, wanted, bytes_max)
    if status == OK:
        status = wal.disk.size(wal.disk.self, spare.file, &spare.size_bytes)
    return status


# A segment that was begun without a spare: the sync of a batch is twice as fast where the file need not grow.
cdef status_t _grow_last(Wal* wal, uint32_t bytes_max) noexcept nogil:
    cdef Segment* last = &wal.segments.back()
    cdef status_t status = _fill_with_zeros(wal, wal.file, last.allocated_bytes, last.size_bytes, bytes_max)
    if status == OK:
        status = wal.disk.size(wal.disk.self, wal.file, &last.allocated_bytes)
    return status


cdef bint _is_last_allocated(const Wal* wal) noexcept nogil:
    cdef const Segment* last = &wal.segments.data[wal.segments.size - 1]
    return last.allocated_bytes >= last.size_bytes


cdef status_t spares_prepare(Wal* wal, uint32_t bytes_max, bint* is_complete) noexcept nogil:
    cdef status_t status
    # The reserve first: it is what keeps votes possible when the disk is full.
    if wal.reserve.size_bytes < wal.limits.reserve_bytes:
        status = _grow_spare(wal, &wal.reserve, wal.limits.reserve_bytes, bytes_max)
    elif not _is_last_allocated(wal):
        status = _grow_last(wal, bytes_max)
    else:
        status = _grow_spare(wal, &wal.spare, wal.limits.segment_bytes, bytes_max)
    if status not in (OK, NO_SPACE):
        return status
    is_complete[0] = (wal.reserve.size_bytes >= wal.limits.reserve_bytes and _is_last_allocated(wal)
                      and wal.spare.size_bytes >= wal.limits.segment_bytes)
    return status


# --- after it left the log --------------------------------------------------------------------------------------------
# Is there room to keep another file for later? Beside the log within its limit, and beside what else is on the disk.
cdef bint _may_keep(const Wal* wal) noexcept nogil:
    cdef uint64_t segment_bytes = wal.limits.segment_bytes
    cdef uint64_t kept = (wal.retired.size + 1) * segment_bytes
    cdef uint64_t room = 0
    if wal.retired.size >= TUNE_RETIRED_MAX or wal.disk.free_bytes(wal.disk.self, &room) != OK:
        return False
    return (room >= TUNE_RETIRED_ROOM * segment_bytes
            and (wal.limits.log_bytes_max == 0 or wal.used_bytes + kept <= wal.limits.log_bytes_max))


# The new name of a segment's file that leaves the log; False: none, the file is removed.
cdef bint _new_name(Wal* wal, const Segment* segment, char* name) noexcept nogil:
    # Where files are encrypted now, plain records go as soon as they may.
    if segment.key_id == 0 and key_ring_current(<const KeyRing*>wal.disk.keys) != 0:
        return False
    if wal.reserve.size_bytes < wal.limits.reserve_bytes and segment.allocated_bytes >= wal.limits.reserve_bytes:
        _close_spare(wal, &wal.reserve)
        strcpy(name, RESERVE_FILE_NAME)
        return True
    if segment.allocated_bytes != wal.limits.segment_bytes or not _may_keep(wal):
        return False
    retired_name(segment.number, name)
    return True


cdef status_t segment_retire(Wal* wal, const Segment* segment) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef char[FILE_NAME_BYTES_MAX + 1] new_name
    cdef bint is_kept
    cdef status_t status
    if segment.number >= wal.segments.back().number:
        return broken(&wal.broken, BROKEN_RETIRED_NEWEST, segment.number, wal.segments.back().number)
    is_kept = _new_name(wal, segment, new_name)
    segment_name(segment.number, name)
    if is_kept:
        status = wal.disk.rename(wal.disk.self, name, new_name)
    else:
        status = wal.disk.remove(wal.disk.self, name)
    # Each name is gone for good before the next one goes: what a crash leaves has no gap.
    if status == OK:
        status = wal.disk.sync_directory(wal.disk.self)
    if status != OK or not is_kept:
        return status
    if retired_number(new_name) == 0:
        return spare_open(wal, &wal.reserve, False)
    return OK if wal.retired.push(segment.number) else NO_MEMORY


cdef status_t retired_drop(Wal* wal) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef uint64_t room = 0
    cdef status_t status = wal.disk.free_bytes(wal.disk.self, &room)
    while status == OK and wal.retired.size != 0 and room < TUNE_RETIRED_ROOM * <uint64_t>wal.limits.segment_bytes:
        retired_name(wal.retired.back(), name)
        wal.retired.pop()
        status = wal.disk.remove(wal.disk.self, name)
        if status == OK:
            status = wal.disk.free_bytes(wal.disk.self, &room)
    return status


cdef uint64_t spares_room(const Wal* wal) noexcept nogil:
    return wal.spare.size_bytes + wal.retired.size * wal.limits.segment_bytes
