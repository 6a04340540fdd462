"""Encrypted records: bodies.

It decides that a record is damaged whose run has a wrong tag. It must never let a record out that was not
written at its place of this segment's life with this key: all of that is authenticated with it.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

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
from raftmeta.storage.segment cimport record_verify
from raftmeta.storage.wal_state cimport Extent, WalDamage

cdef enum:
    ADDED_BYTES = FORMAT_NONCE_BYTES + FORMAT_TAG_BYTES     # behind the last payload of a run
    CONTEXT_BYTES = RECORD_HEAD_BYTES - RECORD_CRC_FROM     # of each record
    # A message costs 250 ns beside its bytes, a record in it 40 ns (one core, OpenSSL 3.0). A damaged byte costs the
    # records of its run, so a run is about as long as what a disk damages at once.
    TUNE_RUN_BYTES = 4096


# --- runs -------------------------------------------------------------------------------------------------------------
cdef uint32_t run_back(const Record* record) noexcept nogil:
    return <uint32_t>record.reserved


cdef uint32_t run_bytes(const Record* record) noexcept nogil:
    return <uint32_t>(record.reserved >> 32)


cdef void _fill_crc(Record* record) noexcept nogil:
    record.crc = crc32c(0, <const uint8_t*>record + RECORD_CRC_FROM,
                        RECORD_HEAD_BYTES - RECORD_CRC_FROM + <size_t>record.length)


# Context and parts of a run whose records have the headers that they have in the file. CORRUPT: it is no whole run.
cdef status_t _walk(RunBuffer* run, uint64_t number, uint64_t offset, uint8_t* bytes, uint64_t length) noexcept nogil:
    cdef uint64_t[2] place
    cdef uint64_t at = 0
    cdef Record* record
    cdef Slice part
    place[0] = number
    place[1] = offset
    memset(<void*>&part, 0, sizeof(Slice))
    run.context.clear()
    run.parts.clear()
    while at < length:
        record = <Record*>(bytes + at)
        if (not record.flags & FORMAT_RECORD_IS_ENCRYPTED or run_back(record) != at or run_bytes(record) != length):
            return CORRUPT
        part.data = record_payload(record)
        part.length = record.length
        if not (run.context.append(bytes + at + RECORD_CRC_FROM, CONTEXT_BYTES) and run.parts.push(part)):
            return NO_MEMORY
        at += record_bytes(record.length)
    if at != length or part.length < <uint32_t>ADDED_BYTES:
        return CORRUPT
    run.parts.back().length = part.length - <uint32_t>ADDED_BYTES
    return OK if run.context.append(<const uint8_t*>place, sizeof(place)) else <status_t>NO_MEMORY


# Nonce and tag stand behind the last payload.
cdef uint8_t* _nonce(const RunBuffer* run) noexcept nogil:
    cdef const Slice* last = &run.parts.data[run.parts.size - 1]
    return last.data + last.length


cdef bint _is_sound(const uint8_t* bytes, uint64_t length) noexcept nogil:
    cdef uint64_t at = 0
    while at < length:
        if record_verify(bytes + at, length - at) != OK:
            return False
        at += record_bytes((<const Record*>(bytes + at)).length)
    return True


# The headers of a decrypted run become those of the records again.
cdef void _restore(RunBuffer* run) noexcept nogil:
    cdef uint64_t at = 0
    cdef uint64_t in_file
    cdef Record* record
    while at < run.bytes.size:
        record = <Record*>(run.bytes.data + at)
        in_file = record_bytes(record.length)
        if at + in_file == run.bytes.size:
            record.length -= <uint32_t>ADDED_BYTES
            memset(record_payload(record) + record.length, 0, in_file - RECORD_HEAD_BYTES - record.length)
            run.bytes.size = at + record_bytes(record.length)
        record.flags &= ~FORMAT_RECORD_IS_ENCRYPTED
        record.reserved = 0
        _fill_crc(record)
        at += in_file


cdef status_t _decrypt(RunBuffer* run, Cipher* cipher, const uint8_t* bytes, uint64_t length) noexcept nogil:
    cdef const Record* first = <const Record*>bytes
    cdef uint8_t[FORMAT_NONCE_BYTES] nonce
    cdef status_t status
    if length < RECORD_HEAD_BYTES or run_bytes(first) > length or not _is_sound(bytes, run_bytes(first)):
        return CORRUPT
    run.bytes.clear()
    if not run.bytes.append(bytes, run_bytes(first)):
        return NO_MEMORY
    status = _walk(run, run.segment, run.offset, run.bytes.data, run.bytes.size)
    if status != OK:
        return status
    memcpy(nonce, _nonce(run), FORMAT_NONCE_BYTES)
    status = cipher_decrypt(cipher, &run.context, &run.parts, nonce, _nonce(run) + FORMAT_NONCE_BYTES)
    if status == OK:
        _restore(run)
    return status


cdef status_t run_decrypt(RunBuffer* run, Cipher* cipher, uint64_t number, uint64_t offset, const uint8_t* bytes,
                          uint64_t length) noexcept nogil:
    if run.segment != number or run.offset != offset:
        run.segment = number
        run.offset = offset
        run.status = _decrypt(run, cipher, bytes, length)
    return run.status


cdef void run_release(RunBuffer* run) noexcept nogil:
    run.context.release()
    run.parts.release()
    run.bytes.release()
    run.segment = 0


# --- writing ----------------------------------------------------------------------------------------------------------
cdef uint64_t encryption_added_bytes(const Record* record, uint64_t length, bint is_last,
                                     uint64_t* filled) noexcept nogil:
    filled[0] += length
    if filled[0] < TUNE_RUN_BYTES and not is_last:
        return 0
    filled[0] = 0
    return record_bytes(record.length + <uint32_t>ADDED_BYTES) - length


cdef status_t encryption_draw_uuid(Wal* wal, uint64_t* low, uint64_t* high) noexcept nogil:
    cdef status_t status = key_ring_random(<KeyRing*>wal.disk.keys, low)
    return status if status != OK else key_ring_random(<KeyRing*>wal.disk.keys, high)


# The records from `begin` of wal.encrypted on are a run, and the last one has room behind its payload.
cdef status_t _encrypt(Wal* wal, const Segment* segment, uint64_t offset, size_t begin) noexcept nogil:
    cdef uint8_t* bytes = wal.encrypted.data + begin
    cdef uint64_t length = wal.encrypted.size - begin
    cdef uint64_t at = 0
    cdef Record* record
    cdef status_t status
    while at < length:
        record = <Record*>(bytes + at)
        record.flags |= FORMAT_RECORD_IS_ENCRYPTED
        record.reserved = at | length << 32
        at += record_bytes(record.length)
    status = _walk(&wal.run, segment.number, offset + begin, bytes, length)
    if status == OK:
        status = cipher_encrypt(&wal.writing, <KeyRing*>wal.disk.keys, &wal.run.context, &wal.run.parts,
                                _nonce(&wal.run), _nonce(&wal.run) + FORMAT_NONCE_BYTES)
    wal.run.segment = 0         # its context and parts are others' now
    at = 0
    while at < length:
        record = <Record*>(bytes + at)
        _fill_crc(record)
        at += record_bytes(record.length)
    return status


# One record behind the others, as long as it will be in the file.
cdef bint _append(Wal* wal, const Record* record, uint64_t added) noexcept nogil:
    cdef size_t begin = wal.encrypted.size
    cdef uint64_t length = record_bytes(record.length)
    if not (wal.encrypted.reserve(begin + length + added)
            and wal.encrypted.append(<const uint8_t*>record, length)):
        return False
    if added != 0:
        (<Record*>(wal.encrypted.data + begin)).length += <uint32_t>ADDED_BYTES
        memset(wal.encrypted.data + begin + length, 0, added)
        wal.encrypted.size += added
    return True


cdef status_t encryption_encrypt(Wal* wal, const Segment* segment, uint64_t offset, const Slice* slices,
                                 uint32_t slice_count, index_t last) noexcept nogil:
    cdef const Record* record
    cdef uint64_t at, length, added
    cdef uint64_t filled = 0
    cdef size_t begin = 0
    cdef uint32_t i
    cdef status_t status = cipher_begin(&wal.writing, <KeyRing*>wal.disk.keys, segment.key_id, segment.uuid_low,
                                        segment.uuid_high)
    wal.encrypted.clear()
    for i in range(slice_count):
        at = 0
        while status == OK and at + RECORD_HEAD_BYTES <= slices[i].length:
            record = <const Record*>(slices[i].data + at)
            length = record_bytes(record.length)
            at += length
            added = encryption_added_bytes(record, length, record.index == last, &filled)
            if not _append(wal, record, added):
                return NO_MEMORY
            if filled == 0:
                status = _encrypt(wal, segment, offset, begin)
                begin = wal.encrypted.size
    return status


# --- reading ----------------------------------------------------------------------------------------------------------
cdef const Segment* _segment(const Wal* wal, uint64_t number) noexcept nogil:
    cdef size_t i = 0
    while wal.segments.data[i].number != number:
        i += 1
    return &wal.segments.data[i]


cdef uint64_t encryption_key_of(const Wal* wal, uint64_t number) noexcept nogil:
    return _segment(wal, number).key_id


cdef bint encryption_holds(const Wal* wal, uint64_t number, uint64_t offset, const Record* record) noexcept nogil:
    cdef uint64_t back = run_back(record)
    return back <= offset and offset - back + run_bytes(record) <= _segment(wal, number).end


cdef status_t encryption_decrypt(Wal* wal, uint64_t number, uint64_t offset, const uint8_t* bytes,
                                 uint64_t length) noexcept nogil:
    cdef const Segment* segment = _segment(wal, number)
    cdef status_t status = cipher_begin(&wal.reading, <KeyRing*>wal.disk.keys, segment.key_id, segment.uuid_low,
                                        segment.uuid_high)
    return status if status != OK else run_decrypt(&wal.run, &wal.reading, number, offset, bytes, length)


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


# The run of the record at `offset`, out of the image.
cdef status_t _open_run(Wal* wal, const Segment* segment, uint64_t offset) noexcept nogil:
    cdef uint64_t back = run_back(<const Record*>(segment.image.bytes() + offset))
    if back > offset:
        return CORRUPT
    offset -= back
    return encryption_decrypt(wal, segment.number, offset, segment.image.bytes() + offset, segment.image.used - offset)


# One record of the run that was decrypted last.
cdef bint _take(Wal* wal, uint64_t back, Chunk* chunk) noexcept nogil:
    cdef const Record* record = <const Record*>(wal.run.bytes.data + back)
    cdef uint64_t length
    if back + RECORD_HEAD_BYTES > wal.run.bytes.size:
        return False
    length = record_bytes(record.length)
    memcpy(chunk.bytes() + chunk.used, record, length)
    chunk.used += <uint32_t>length
    return True


# The records of one extent of an encrypted segment, into the chunk of decrypted ones.
cdef status_t _open_extent(Wal* wal, const Segment* segment, const Extent* extent, Chunk* chunk,
                           Vec[Extent]* kept) noexcept nogil:
    cdef uint64_t offset = extent.offset
    cdef index_t first = extent.first
    cdef index_t index = extent.origin
    cdef uint32_t begin = chunk.used
    cdef const Record* record
    cdef status_t status = OK
    while status == OK and index <= extent.last:
        record = <const Record*>(segment.image.bytes() + offset)
        if index >= extent.first:
            status = _open_run(wal, segment, offset)
            if status == OK and not _take(wal, run_back(record), chunk):
                status = CORRUPT
            if status == CORRUPT:
                status = _note_damage(wal, index, record.chain)
                if not _keep_run(wal, kept, extent, first, index - 1, chunk, begin):
                    return NO_MEMORY
                first = index + 1
                begin = chunk.used
        offset += record_bytes(record.length)
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
