"""Reading records back: from the page cache or the disk into one new chunk, each checked again.

It decides how many records one answer has. It must never show a record whose checksum, padding or index is
wrong; keep an index of records in memory. A cursor remembers where the last answer ended.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.chunks cimport Slice, chunk_create, chunk_drop
from raftmeta.ports cimport FILE_NAME_BYTES_MAX, file_t
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport Record, index_t
from raftmeta.status cimport CORRUPT, NO_MEMORY, NOT_FOUND, OK, status_t
from raftmeta.storage.encryption cimport (encryption_decrypt, encryption_holds, encryption_key_of, run_back,
                                          run_bytes)
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


# Of the run that was decrypted last, the records from the one at `at` on, as far as they are wanted and have room.
# *at: of the first one that was not taken.
cdef void _take_run(Wal* wal, const Extent* extent, index_t index, uint64_t room, uint64_t* at, Slice* records,
                    index_t* count) noexcept nogil:
    cdef const Record* record
    cdef uint64_t length
    while at[0] + sizeof(Record) <= wal.run.bytes.size and index + count[0] <= extent.last:
        record = <const Record*>(wal.run.bytes.data + at[0])
        length = record_bytes(record.length)
        if record.index != index + count[0] or records.length + length > room:
            return
        memcpy(records.data + records.length, record, length)
        records.length += <uint32_t>length
        at[0] += length
        count[0] += 1


# As below, of an encrypted segment: run by run, from the beginning of the one that record `index`, at `offset`, is in.
# `head` is its header as it stands in the file.
cdef status_t _read_encrypted(Wal* wal, const Extent* extent, file_t file, index_t index, uint64_t offset,
                              const Record* head, uint64_t room, Slice* records, index_t* count) noexcept nogil:
    cdef uint64_t end = records.length + room
    cdef uint64_t back = run_back(head)
    cdef uint64_t run = offset - back
    cdef uint64_t length = max(<uint64_t>run_bytes(head), min(room, extent.offset + extent.bytes - offset))
    cdef uint64_t used = 0
    cdef size_t got = 0
    cdef status_t status
    count[0] = 0
    wal.run.segment = 0         # what stands in the file now is wanted
    if not encryption_holds(wal, extent.segment, offset, head):
        return CORRUPT          # its header is damaged
    if not wal.encrypted.resize(length):
        return NO_MEMORY
    status = read_at_most(wal.disk, &wal.broken, file, run, wal.encrypted.data, length, &got)
    while status == OK and used + sizeof(Record) <= got and index + count[0] <= extent.last:
        length = run_bytes(<const Record*>(wal.encrypted.data + used))
        status = encryption_decrypt(wal, extent.segment, run + used, wal.encrypted.data + used, got - used)
        if status != OK or length == 0:
            break
        _take_run(wal, extent, index, end, &back, records, count)
        if back < wal.run.bytes.size:
            break               # there is no room for more, or none is wanted
        used += length
        back = 0
    wal.cursor_index = index + count[0]
    wal.cursor_segment = extent.segment
    wal.cursor_offset = run + used + back
    if count[0] != 0:
        return OK if status == CORRUPT else status      # what is wrong behind them is told when it is asked for
    if status == OK:
        return NOT_FOUND if records.length != 0 else CORRUPT
    return status


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
    if encryption_key_of(wal, extent.segment) != 0:
        return _read_encrypted(wal, extent, file, index, offset, &record, room, records, count)
    if length > room:
        return NOT_FOUND
    length = min(extent.offset + extent.bytes - offset, room)
    status = _read_fully(wal, file, offset, records.data + records.length, length)
    if status != OK:
        return status
    count[0] = _count_sound(records.data + records.length, length, index, extent.last, &used)
    records.length += <uint32_t>used
    wal.cursor_index = index + count[0]
    wal.cursor_segment = extent.segment
    wal.cursor_offset = offset + used
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
