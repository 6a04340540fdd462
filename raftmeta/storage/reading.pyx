"""Reading records back: from the page cache or the disk into one new chunk, each checked again.

What it decides: how many records one answer has. What it never does: show a record whose checksum, padding or index is
wrong; keep an index of records in memory. A cursor remembers where the last answer ended.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.chunks cimport Slice, chunk_create, chunk_drop
from raftmeta.ports cimport FILE_NAME_BYTES_MAX, file_t
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport Record, index_t
from raftmeta.status cimport CORRUPT, NO_MEMORY, NOT_FOUND, OK, status_t
from raftmeta.storage.encryption cimport encryption_decrypt, encryption_key_of
from raftmeta.storage.extents cimport extents_find
from raftmeta.storage.invariants cimport read_at_most
from raftmeta.storage.recovery cimport segment_name
from raftmeta.storage.segment cimport record_verify
from raftmeta.storage.wal_state cimport Extent, Wal


cdef status_t _file_for_reading(Wal* wal, uint64_t segment, file_t* file) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef status_t status
    if segment == wal.segments.back().number:
        file[0] = wal.file
        return OK
    if not wal.read_is_open or wal.read_segment != segment:
        if wal.read_is_open:
            wal.disk.close(wal.disk.self, wal.read_file)
            wal.read_is_open = False
        segment_name(segment, name)
        status = wal.disk.open(wal.disk.self, name, False, &wal.read_file)
        if status != OK:
            return CORRUPT if status == NOT_FOUND else status
        wal.read_is_open = True
        wal.read_segment = segment
    file[0] = wal.read_file
    return OK


cdef status_t _read_fully(Wal* wal, file_t file, uint64_t offset, uint8_t* into, size_t length) noexcept nogil:
    cdef size_t got = 0
    cdef status_t status = read_at_most(wal.disk, &wal.broken, file, offset, into, length, &got)
    return status if status != OK or got == length else CORRUPT


# Where record `index` stands: walk from the cursor, or from the beginning of its extent, over the records before it.
cdef status_t _locate(Wal* wal, const Extent* extent, file_t file, index_t index, uint64_t* offset) noexcept nogil:
    cdef Record record
    cdef index_t at = extent.origin
    cdef uint64_t end = extent.offset + extent.bytes
    cdef status_t status
    offset[0] = extent.offset
    if (wal.cursor_segment == extent.segment and extent.offset <= wal.cursor_offset < end
            and extent.origin <= wal.cursor_index <= index):
        at = wal.cursor_index
        offset[0] = wal.cursor_offset
    while at < index:
        if offset[0] + sizeof(Record) > end:
            return CORRUPT
        status = _read_fully(wal, file, offset[0], <uint8_t*>&record, sizeof(Record))
        if status != OK:
            return status
        offset[0] += record_bytes(record.length)
        at += 1
    return OK


# How many whole, sound records of [index, last] are in the bytes; *used of them.
cdef index_t _count_sound(const uint8_t* bytes, uint64_t length, index_t index, index_t last,
                          uint64_t* used) noexcept nogil:
    cdef index_t count = 0
    used[0] = 0
    while index + count <= last and record_verify(bytes + used[0], length - used[0]) == OK:
        if (<const Record*>(bytes + used[0])).index != index + count:
            break
        used[0] += record_bytes((<const Record*>(bytes + used[0])).length)
        count += 1
    return count


# Records of one extent from index on, into records behind what it has. NOT_FOUND: no room for a whole one.
cdef status_t _read_extent(Wal* wal, const Extent* extent, index_t index, uint64_t room, Slice* records,
                           index_t* count) noexcept nogil:
    cdef Record record
    cdef uint64_t offset = 0
    cdef uint64_t length, used
    cdef file_t file
    cdef status_t status = _file_for_reading(wal, extent.segment, &file)
    if status == OK:
        status = _locate(wal, extent, file, index, &offset)
    if status == OK:
        status = _read_fully(wal, file, offset, <uint8_t*>&record, sizeof(Record))
    if status != OK:
        return status
    length = record_bytes(record.length)
    if offset + length > extent.offset + extent.bytes:
        return CORRUPT
    if records.chunk == NULL:
        records.chunk = chunk_create(<uint32_t>max(length, room))
        if records.chunk == NULL:
            return NO_MEMORY
        records.data = records.chunk.bytes()
        room = records.chunk.capacity
    if length > room:
        return NOT_FOUND
    length = min(extent.offset + extent.bytes - offset, room)
    status = _read_fully(wal, file, offset, records.data + records.length, length)
    if status != OK:
        return status
    count[0] = _count_sound(records.data + records.length, length, index, extent.last, &used)
    wal.cursor_index = index + count[0]
    wal.cursor_segment = extent.segment
    wal.cursor_offset = offset + used
    if count[0] != 0 and encryption_key_of(wal, extent.segment) != 0:
        status = encryption_decrypt(wal, extent.segment, offset, records.data + records.length, &used)
        if status != OK:
            wal.cursor_index = 0
            return status
    records.length += <uint32_t>used
    return OK if count[0] else CORRUPT


cdef status_t read_records(Wal* wal, index_t index, uint32_t bytes_max, Slice* records) noexcept nogil:
    cdef size_t position
    cdef index_t count = 0
    cdef status_t status = OK
    if index <= wal.start.index or index > wal.end.index:
        return NOT_FOUND
    while status == OK and index <= wal.end.index:
        position = extents_find(&wal.extents, index)
        if position == wal.extents.size:
            status = CORRUPT
            break
        status = _read_extent(wal, &wal.extents.data[position], index, bytes_max - min(bytes_max, records.length),
                              records, &count)
        index += count if status == OK else 0
    if records.length == 0:
        if records.chunk != NULL:
            chunk_drop(records.chunk)
        memset(<void*>records, 0, sizeof(Slice))
        return status
    # Something was read; what is wrong behind it is told when it is asked for.
    records.chunk.used = records.length
    return OK
