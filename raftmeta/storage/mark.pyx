"""The mark: how far the log is synced, kept in a second place.

It decides which of its two slots may be overwritten. It must never say that bytes are synced before they
are; its caller writes it after the sync of the batch it names. Format: docs/formats.md "Segment, batch and mark".
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport crc32c
from raftmeta.ports cimport DiskPort
from raftmeta.status cimport CORRUPT, NEWER_FORMAT, NO_MEMORY, NOT_FOUND, OK, status_t
from raftmeta.storage.mark cimport (FORMAT_MARK_MAGIC, FORMAT_MARK_SLOT_BYTES, MARK_BROKEN, MARK_CHAINS_MAX,
                                    MARK_FILE_BYTES, MARK_MISSING, MARK_SOUND, Mark, MarkFound, MarkSlot)
from raftmeta.storage.segment cimport FORMAT_SEGMENT_VERSION

cdef enum:
    CRC_BEGIN = 8
    SLOTS = 2

cdef const char* MARK_FILE_NAME = "mark"


cdef status_t _decode(const uint8_t* bytes, size_t length, MarkSlot* slot) noexcept nogil:
    if length < sizeof(MarkSlot):
        return CORRUPT
    memcpy(slot, bytes, sizeof(MarkSlot))
    if slot.magic != FORMAT_MARK_MAGIC or slot.header_bytes < CRC_BEGIN or slot.header_bytes > length:
        return CORRUPT
    if crc32c(0, bytes + CRC_BEGIN, slot.header_bytes - CRC_BEGIN) != slot.crc:
        return CORRUPT
    if slot.version > FORMAT_SEGMENT_VERSION:
        return NEWER_FORMAT
    return OK if slot.header_bytes == sizeof(MarkSlot) + _chain_count(slot) * 8 else CORRUPT


cdef uint32_t _chain_count(const MarkSlot* slot) noexcept nogil:
    return min(slot.batch.count, <uint32_t>MARK_CHAINS_MAX)


cdef bint _is_zero(const uint8_t* bytes, size_t length) noexcept nogil:
    cdef size_t i
    for i in range(length):
        if bytes[i]:
            return False
    return True


cdef status_t _read_slots(Mark* mark, const uint8_t* bytes, MarkFound* found, MarkSlot* slot,
                          Vec[uint64_t]* chains) noexcept nogil:
    cdef int position
    cdef MarkSlot other
    cdef status_t status
    for position in range(SLOTS):
        status = _decode(bytes + position * FORMAT_MARK_SLOT_BYTES, FORMAT_MARK_SLOT_BYTES, &other)
        if status == NEWER_FORMAT:
            return status
        if status != OK and not _is_zero(bytes + position * FORMAT_MARK_SLOT_BYTES, FORMAT_MARK_SLOT_BYTES):
            mark.has_broken_slot = True
        if status == OK and (found[0] != MARK_SOUND or other.sequence > slot.sequence):
            found[0] = MARK_SOUND
            slot[0] = other
            mark.sequence = other.sequence
            mark.synced_slot = position     # DiskPort.open promises that it is on stable storage
    if found[0] != MARK_SOUND:
        return OK
    mark.synced_hard_state = slot.hard_state
    chains.clear()
    if not chains.append(<const uint64_t*>(bytes + mark.synced_slot * FORMAT_MARK_SLOT_BYTES + sizeof(MarkSlot)),
                         _chain_count(slot)):
        return NO_MEMORY
    return OK


cdef status_t mark_open(Mark* mark, const DiskPort* disk, MarkFound* found, MarkSlot* slot,
                        Vec[uint64_t]* chains) noexcept nogil:
    cdef uint8_t[MARK_FILE_BYTES] bytes
    cdef size_t got = 0
    cdef status_t status = disk.open(disk.self, MARK_FILE_NAME, False, &mark.file)
    found[0] = MARK_MISSING
    mark.is_synced = True
    if status == NOT_FOUND:
        return OK
    if status != OK:
        return status
    mark.is_open = True
    memset(bytes, 0, sizeof(bytes))
    status = disk.read(disk.self, mark.file, 0, bytes, sizeof(bytes), &got)
    if status != OK:
        return status
    status = _read_slots(mark, bytes, found, slot, chains)
    if found[0] != MARK_SOUND and mark.has_broken_slot:
        found[0] = MARK_BROKEN
    return status


cdef status_t mark_read(const uint8_t* bytes, MarkFound* found, MarkSlot* slot, Vec[uint64_t]* chains) noexcept nogil:
    cdef Mark mark
    memset(&mark, 0, sizeof(Mark))
    found[0] = MARK_MISSING
    return _read_slots(&mark, bytes, found, slot, chains)


cdef status_t mark_make_room(Mark* mark, const DiskPort* disk) noexcept nogil:
    cdef uint8_t[MARK_FILE_BYTES] bytes
    cdef uint64_t size_bytes = 0
    cdef Slice zeros
    cdef status_t status = OK
    if not mark.is_open:
        status = disk.open(disk.self, MARK_FILE_NAME, True, &mark.file)
        mark.is_open = mark.is_synced = status == OK
    if status == OK:
        status = disk.size(disk.self, mark.file, &size_bytes)
    if status != OK or size_bytes >= sizeof(bytes):
        return status
    memset(bytes, 0, sizeof(bytes))
    zeros.chunk = NULL
    zeros.data = bytes
    zeros.length = <uint32_t>(sizeof(bytes) - size_bytes)
    return disk.write(disk.self, mark.file, size_bytes, &zeros, 1)


cdef status_t mark_write(Mark* mark, const DiskPort* disk, MarkSlot* slot, const uint64_t* chains,
                         bint must_sync) noexcept nogil:
    cdef Slice[2] parts
    cdef uint64_t offset = (1 - mark.synced_slot) * FORMAT_MARK_SLOT_BYTES
    cdef size_t chains_bytes = _chain_count(slot) * sizeof(uint64_t)
    cdef status_t status
    slot.magic = FORMAT_MARK_MAGIC
    slot.version = FORMAT_SEGMENT_VERSION
    slot.reserved0 = 0
    slot.reserved1 = 0
    slot.header_bytes = <uint32_t>(sizeof(MarkSlot) + chains_bytes)
    slot.sequence = mark.sequence + 1
    slot.crc = crc32c(0, <const uint8_t*>slot + CRC_BEGIN, sizeof(MarkSlot) - CRC_BEGIN)
    slot.crc = crc32c(slot.crc, chains, chains_bytes)
    memset(<void*>parts, 0, sizeof(parts))
    parts[0].data = <uint8_t*>slot
    parts[0].length = sizeof(MarkSlot)
    parts[1].data = <uint8_t*>chains
    parts[1].length = <uint32_t>chains_bytes
    status = disk.write(disk.self, mark.file, offset, parts, 2)
    if status != OK:
        return status
    mark.sequence = slot.sequence
    mark.written_hard_state = slot.hard_state
    mark.is_synced = False
    mark.unsynced_writes += 1
    return mark_sync(mark, disk) if must_sync else OK


cdef status_t mark_sync(Mark* mark, const DiskPort* disk) noexcept nogil:
    cdef status_t status
    if mark.is_synced:
        return OK
    status = disk.sync(disk.self, mark.file)
    if status == OK:
        mark.is_synced = True
        mark.unsynced_writes = 0
        mark.synced_slot = 1 - mark.synced_slot
        mark.synced_hard_state = mark.written_hard_state
    return status


cdef void mark_close(Mark* mark, const DiskPort* disk) noexcept nogil:
    if mark.is_open:
        disk.close(disk.self, mark.file)
    mark.is_open = False
