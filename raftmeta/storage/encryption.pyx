"""Encrypted records: bodies.

What it decides: that a record whose tag is wrong is damaged. What it never does: let a record out that was not written
at its place of this segment's life with this key: all of that is authenticated with it.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from raftmeta.native.chunks cimport Chunk, Slice, chunk_create_image
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport crc32c
from raftmeta.native.marks cimport MARK_RECOVERY_RECORD_DAMAGED, mark
from raftmeta.raft.record cimport RECORD_CRC_FROM, RECORD_HEAD_BYTES, record_bytes, record_payload
from raftmeta.raft.types cimport Record, index_t
from raftmeta.security.cipher cimport (FORMAT_NONCE_BYTES, FORMAT_TAG_BYTES, KeyRing, cipher_begin, cipher_decrypt,
                                       cipher_encrypt, key_ring_random)
from raftmeta.status cimport CORRUPT, NO_MEMORY, OK, status_t
from raftmeta.storage.encryption cimport FORMAT_RECORD_IS_ENCRYPTED
from raftmeta.storage.extents cimport damage_add
from raftmeta.storage.wal_state cimport Extent, WalDamage

cdef enum:
    ADDED_BYTES = FORMAT_NONCE_BYTES + FORMAT_TAG_BYTES
    CONTEXT_BYTES = RECORD_HEAD_BYTES - RECORD_CRC_FROM + 16


# --- one record -------------------------------------------------------------------------------------------------------
cdef uint64_t encrypted_record_bytes(uint32_t length) noexcept nogil:
    return record_bytes(length + <uint32_t>ADDED_BYTES)


# Authenticated beside the payload: the header as it stands in the file, and the place.
cdef void _fill_context(const Record* record, uint64_t number, uint64_t offset, uint8_t* context) noexcept nogil:
    memcpy(context, <const uint8_t*>record + RECORD_CRC_FROM, RECORD_HEAD_BYTES - RECORD_CRC_FROM)
    memcpy(context + RECORD_HEAD_BYTES - RECORD_CRC_FROM, &number, sizeof(uint64_t))
    memcpy(context + RECORD_HEAD_BYTES - RECORD_CRC_FROM + sizeof(uint64_t), &offset, sizeof(uint64_t))


cdef void _fill_crc(Record* record) noexcept nogil:
    record.crc = crc32c(0, <const uint8_t*>record + RECORD_CRC_FROM,
                        RECORD_HEAD_BYTES - RECORD_CRC_FROM + <size_t>record.length)


# `record` is a copy with room behind its payload.
cdef status_t _encrypt(Cipher* cipher, KeyRing* ring, uint64_t number, uint64_t offset, Record* record) noexcept nogil:
    cdef uint8_t[CONTEXT_BYTES] context
    cdef uint8_t* payload = record_payload(record)
    cdef uint32_t length = record.length
    cdef status_t status
    record.length = length + <uint32_t>ADDED_BYTES
    record.flags |= FORMAT_RECORD_IS_ENCRYPTED
    _fill_context(record, number, offset, context)
    status = cipher_encrypt(cipher, ring, context, CONTEXT_BYTES, payload, length, payload + length,
                            payload + length + FORMAT_NONCE_BYTES)
    memset(payload + record.length, 0, record_bytes(record.length) - RECORD_HEAD_BYTES - record.length)
    _fill_crc(record)
    return status


cdef status_t record_decrypt(Cipher* cipher, uint64_t number, uint64_t offset, Record* record) noexcept nogil:
    cdef uint8_t[CONTEXT_BYTES] context
    cdef uint8_t* payload = record_payload(record)
    cdef uint32_t length = record.length - <uint32_t>ADDED_BYTES
    cdef status_t status
    if record.length < <uint32_t>ADDED_BYTES or not record.flags & FORMAT_RECORD_IS_ENCRYPTED:
        return CORRUPT
    _fill_context(record, number, offset, context)
    status = cipher_decrypt(cipher, context, CONTEXT_BYTES, payload, length, payload + length,
                            payload + length + FORMAT_NONCE_BYTES)
    record.length = length
    record.flags &= ~FORMAT_RECORD_IS_ENCRYPTED
    memset(payload + length, 0, record_bytes(length) - RECORD_HEAD_BYTES - length)
    _fill_crc(record)
    return status


# --- writing ----------------------------------------------------------------------------------------------------------
cdef status_t encryption_draw_uuid(Wal* wal, uint64_t* low, uint64_t* high) noexcept nogil:
    cdef status_t status = key_ring_random(<KeyRing*>wal.disk.keys, low)
    return status if status != OK else key_ring_random(<KeyRing*>wal.disk.keys, high)


cdef status_t encryption_encrypt(Wal* wal, const Segment* segment, uint64_t offset, const Slice* slices,
                                 uint32_t slice_count) noexcept nogil:
    cdef KeyRing* ring = <KeyRing*>wal.disk.keys
    cdef const Record* record
    cdef uint64_t at, length
    cdef size_t end = 0
    cdef uint32_t i
    cdef status_t status = cipher_begin(&wal.writing, ring, segment.key_id, segment.uuid_low, segment.uuid_high)
    wal.encrypted.clear()
    for i in range(slice_count):
        at = 0
        while status == OK and at + RECORD_HEAD_BYTES <= slices[i].length:
            record = <const Record*>(slices[i].data + at)
            length = encrypted_record_bytes(record.length)
            if not wal.encrypted.resize(end + length):
                return NO_MEMORY
            memcpy(wal.encrypted.data + end, record, RECORD_HEAD_BYTES + <size_t>record.length)
            status = _encrypt(&wal.writing, ring, segment.number, offset + end, <Record*>(wal.encrypted.data + end))
            end += length
            at += record_bytes(record.length)
    return status


# --- reading ----------------------------------------------------------------------------------------------------------
cdef const Segment* _segment(const Wal* wal, uint64_t number) noexcept nogil:
    cdef size_t i = 0
    while wal.segments.data[i].number != number:
        i += 1
    return &wal.segments.data[i]


cdef uint64_t encryption_key_of(const Wal* wal, uint64_t number) noexcept nogil:
    return _segment(wal, number).key_id


cdef status_t _begin_reading(Wal* wal, const Segment* segment) noexcept nogil:
    return cipher_begin(&wal.reading, <KeyRing*>wal.disk.keys, segment.key_id, segment.uuid_low, segment.uuid_high)


cdef status_t encryption_decrypt(Wal* wal, uint64_t number, uint64_t offset, uint8_t* bytes,
                                 uint64_t* length) noexcept nogil:
    cdef uint64_t at = 0
    cdef uint64_t end = 0
    cdef uint64_t in_file
    cdef Record* record
    cdef status_t status = _begin_reading(wal, _segment(wal, number))
    while status == OK and at < length[0]:
        record = <Record*>(bytes + at)
        in_file = record_bytes(record.length)
        status = record_decrypt(&wal.reading, number, offset + at, record)
        if status == OK:
            memmove(bytes + end, record, record_bytes(record.length))
            end += record_bytes((<Record*>(bytes + end)).length)
        at += in_file
    length[0] = end
    return OK if status == CORRUPT and end != 0 else status


# --- opening ----------------------------------------------------------------------------------------------------------
# The live records of one extent in its plain segment's image.
cdef Slice _slice_of(const Segment* segment, const Extent* extent) noexcept nogil:
    cdef Slice slice
    cdef uint8_t* data = segment.image.bytes() + extent.offset
    cdef uint8_t* begin = NULL
    cdef index_t index = extent.origin
    while index <= extent.last:
        if index == extent.first:
            begin = data
        data += record_bytes((<const Record*>data).length)
        index += 1
    slice.chunk = segment.image
    slice.data = begin
    slice.length = <uint32_t>(data - begin)
    return slice


# In order of index, as recovery left them.
cdef status_t _note_damage(Wal* wal, index_t index, uint64_t chain) noexcept nogil:
    cdef WalDamage damage
    cdef size_t i
    mark(MARK_RECOVERY_RECORD_DAMAGED)
    if damage_add(&wal.damaged, index, chain) != OK:
        return NO_MEMORY
    for i in range(wal.damaged.size - 1, 0, -1):
        if wal.damaged.data[i - 1].index < wal.damaged.data[i].index:
            break
        damage = wal.damaged.data[i]
        wal.damaged.data[i] = wal.damaged.data[i - 1]
        wal.damaged.data[i - 1] = damage
    return OK


# A run of records that were decrypted, from `begin` of the chunk on.
cdef bint _keep_run(Wal* wal, Vec[Extent]* kept, const Extent* extent, index_t first, index_t last, Chunk* chunk,
                    uint32_t begin) noexcept nogil:
    cdef Extent run = extent[0]
    cdef Slice slice
    if first > last:
        return True
    run.first = first
    run.last = last
    slice.chunk = chunk
    slice.data = chunk.bytes() + begin
    slice.length = chunk.used - begin
    return kept.push(run) and wal.found_slices.push(slice)


# The records of one extent of an encrypted segment, into the chunk of decrypted ones.
cdef status_t _open_extent(Wal* wal, const Segment* segment, const Extent* extent, Chunk* chunk,
                           Vec[Extent]* kept) noexcept nogil:
    cdef uint64_t offset = extent.offset
    cdef index_t first = extent.first
    cdef index_t index = extent.origin
    cdef uint32_t begin = chunk.used
    cdef uint64_t in_file
    cdef Record* record
    cdef status_t status = OK
    while status == OK and index <= extent.last:
        in_file = record_bytes((<const Record*>(segment.image.bytes() + offset)).length)
        if index >= extent.first:
            record = <Record*>(chunk.bytes() + chunk.used)
            memcpy(record, segment.image.bytes() + offset, in_file)
            status = record_decrypt(&wal.reading, segment.number, offset, record)
            if status == OK:
                chunk.used += <uint32_t>record_bytes(record.length)
            elif status == CORRUPT:
                status = _note_damage(wal, index, record.chain)
                if not _keep_run(wal, kept, extent, first, index - 1, chunk, begin):
                    return NO_MEMORY
                first = index + 1
                begin = chunk.used
        offset += in_file
        index += 1
    if status == OK and not _keep_run(wal, kept, extent, first, extent.last, chunk, begin):
        return NO_MEMORY
    return status


cdef status_t _open_extents(Wal* wal, Vec[Extent]* kept) noexcept nogil:
    cdef const Segment* segment
    cdef const Segment* last = NULL
    cdef const Extent* extent
    cdef Chunk* chunk = NULL
    cdef size_t i
    cdef status_t status = OK
    for i in range(wal.extents.size):
        extent = &wal.extents.data[i]
        segment = _segment(wal, extent.segment)
        if segment.key_id == 0:
            if not (kept.push(extent[0]) and wal.found_slices.push(_slice_of(segment, extent))):
                return NO_MEMORY
            continue
        # Decrypted records are shorter, so those of one segment find room where its image does; a run that a repair
        # split stands there once, but may come behind another segment's.
        if segment != last:
            chunk = chunk_create_image(segment.image.capacity)
            if chunk == NULL or not wal.found_chunks.push(chunk):
                return NO_MEMORY
            last = segment
        status = _begin_reading(wal, segment)
        if status == OK:
            status = _open_extent(wal, segment, extent, chunk, kept)
        if status != OK:
            return status
    return OK


cdef status_t encryption_open(Wal* wal) noexcept nogil:
    cdef Vec[Extent] kept
    cdef status_t status
    memset(<void*>&kept, 0, sizeof(kept))
    status = _open_extents(wal, &kept)
    if status != OK:
        kept.release()
        return status
    wal.extents.release()
    wal.extents = kept
    return OK
