"""Salvage: one pass over the bytes of all segments, batch by batch in the order of their numbers.

It decides which record is the live one of each index. It must never refuse a log for damage in it. A batch
without a sound header is known by the summary in the batch behind it, or in the mark. If both are gone, nobody knows
what the batch superseded: `committed` keeps the value from before it.

Why `committed` is safe: the header of a batch carries the commit index as its writer knew it. Entries up to there were
live at that moment, and a committed entry is never superseded (docs/invariants.md). Without a missing batch in between,
the live entries are exactly those of that moment.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.chunks cimport Chunk, chunk_create, chunk_drop
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport load32, load64
from raftmeta.raft.record cimport record_bytes
from raftmeta.raft.types cimport Record, index_t
from raftmeta.security.cipher cimport cipher_begin, cipher_end
from raftmeta.status cimport CORRUPT, NEWER_FORMAT, NO_MEMORY, OK, status_t
from raftmeta.storage.encryption cimport FORMAT_RECORD_IS_ENCRYPTED, run_back, run_decrypt, run_release
from raftmeta.storage.mark cimport MARK_FILE_BYTES, MARK_SOUND, MarkFound, MarkSlot, mark_read
from raftmeta.storage.salvage cimport Salvage, SalvageFile, SalvageRecord
from raftmeta.storage.segment cimport (BATCH_REPAIRS, FORMAT_BATCH_MAGIC, SEGMENT_BEGINS, BatchHeader, BatchSummary,
                                       SegmentHeader, SegmentKey, batch_chains, batch_header_decode,
                                       batch_previous_chains, record_search, segment_header_decode, segment_key_id)

cdef enum:
    ALIGNMENT_BYTES_MIN = 512       # of batches in a segment whose header does not say more


# --- records ----------------------------------------------------------------------------------------------------------
cdef index_t salvage_last(const Salvage* salvage) noexcept nogil:
    return salvage.first + salvage.records.size - 1


cdef const uint8_t* salvage_record(const Salvage* salvage, index_t index, uint64_t* chain) noexcept nogil:
    chain[0] = 0
    if index < salvage.first or index > salvage_last(salvage):
        return NULL
    chain[0] = salvage.records.data[index - salvage.first].chain
    return salvage.records.data[index - salvage.first].bytes


# A batch begins at `first`: what stood from there on is superseded. Indexes that were never seen are not known.
cdef status_t _cut(Salvage* salvage, index_t first) noexcept nogil:
    if salvage.records.size == 0 or first <= salvage.first:
        salvage.records.clear()
        salvage.first = first
        return OK
    return OK if salvage.records.resize(first - salvage.first) else <status_t>NO_MEMORY


# A repair never replaces a sound record: it has the same bytes.
cdef bint _set(Salvage* salvage, index_t index, const uint8_t* bytes, uint64_t chain) noexcept nogil:
    cdef SalvageRecord* known
    if index < salvage.first:
        return True             # a repair of a record whose segment was removed
    if index > salvage_last(salvage) and not salvage.records.resize(index - salvage.first + 1):
        return False
    known = &salvage.records.data[index - salvage.first]
    if known.bytes == NULL or known.chain != chain:
        known.bytes = bytes
        known.chain = chain
    return True


# The records of one batch, of which some may stand in [begin, end) of these bytes.
cdef status_t _take_records(Salvage* salvage, const BatchSummary* batch, const uint64_t* chains, const uint8_t* bytes,
                            uint64_t begin, uint64_t end) noexcept nogil:
    cdef uint64_t at, chain
    cdef uint32_t i
    cdef status_t status = OK
    if batch.count == 0 or batch.last != batch.first + batch.count - 1:
        return OK
    if not batch.flags & BATCH_REPAIRS:
        status = _cut(salvage, batch.first)
    for i in range(batch.count if status == OK else 0):
        chain = load64(&chains[i])
        at = record_search(bytes, begin, end, batch.first + i, chain)
        if at < end:
            if not _set(salvage, batch.first + i, bytes + at, chain):
                return NO_MEMORY
            begin = at + record_bytes((<const Record*>(bytes + at)).length)
        elif not batch.flags & BATCH_REPAIRS and not _set(salvage, batch.first + i, NULL, chain):
            return NO_MEMORY
    return status


# --- batches ----------------------------------------------------------------------------------------------------------
# Batches between the last one that was read and number `next` are missing. `summary` is that of the one before `next`.
cdef status_t _take_missing(Salvage* salvage, uint64_t next, const BatchSummary* summary, const uint64_t* chains,
                            size_t file, uint64_t begin, uint64_t end) noexcept nogil:
    cdef uint64_t missing
    if not salvage.is_begun or next <= salvage.last_batch + 1:
        return OK
    missing = next - salvage.last_batch - 1
    if summary.number != next - 1:
        salvage.lost_batches += missing
        salvage.is_unsure = True
        return OK
    if missing > 1:
        salvage.lost_batches += missing - 1
        salvage.is_unsure = True
    return _take_records(salvage, summary, chains, salvage.files.data[file].bytes, begin, end)


# The missing batch before the first one of a segment stands at the end of the segment before.
cdef void _find_gap(const Salvage* salvage, size_t file, uint64_t offset, size_t* gap_file, uint64_t* begin,
                    uint64_t* end) noexcept nogil:
    gap_file[0] = salvage.gap_file
    begin[0] = salvage.gap_begin
    end[0] = offset
    if salvage.gap_file != file:
        end[0] = salvage.files.data[salvage.gap_file].length


cdef status_t _take_batch(Salvage* salvage, size_t file, uint64_t offset, uint64_t limit,
                          const BatchHeader* header) noexcept nogil:
    cdef const uint8_t* bytes = salvage.files.data[file].bytes
    cdef uint64_t records = offset + header.header_bytes
    cdef size_t gap_file = 0
    cdef uint64_t begin = 0
    cdef uint64_t end = 0
    cdef status_t status
    if salvage.is_begun and header.batch.number <= salvage.last_batch:
        return OK               # of the past: numbers never come twice
    _find_gap(salvage, file, offset, &gap_file, &begin, &end)
    status = _take_missing(salvage, header.batch.number, &header.previous,
                           batch_previous_chains(bytes + offset, header), gap_file, begin, end)
    if status == OK:
        status = _take_records(salvage, &header.batch, batch_chains(bytes + offset), bytes, records,
                               min(records + header.records_bytes, limit))
    salvage.is_begun = True
    salvage.last_batch = header.batch.number
    salvage.gap_file = file
    salvage.gap_begin = min(offset + header.length, limit)
    salvage.batches += 1
    if not salvage.is_unsure:
        salvage.committed = max(salvage.committed, header.hard_state.committed)
    return status


# --- segments ---------------------------------------------------------------------------------------------------------
# Whose batches stand in a segment without a sound header: the first batch that names this segment and this place says.
cdef bint _guess_key(const SalvageFile* file, SegmentKey* key, uint64_t* begin) noexcept nogil:
    cdef BatchHeader header
    cdef uint64_t offset = 0
    key.number = file.number
    key.alignment_bytes = ALIGNMENT_BYTES_MIN
    while offset + sizeof(BatchHeader) <= file.length:
        if load32(file.bytes + offset) == FORMAT_BATCH_MAGIC:
            memcpy(&header, file.bytes + offset, sizeof(BatchHeader))
            key.uuid_low = header.uuid_low
            key.uuid_high = header.uuid_high
            if batch_header_decode(file.bytes, file.length, offset, key, &header) == OK:
                begin[0] = offset
                return True
        offset += ALIGNMENT_BYTES_MIN
    return False


# Is this a batch of the same life of the file, in its place? Then a newer version wrote it.
cdef bint _is_of_segment(const uint8_t* bytes, const SegmentKey* key) noexcept nogil:
    cdef const BatchHeader* header = <const BatchHeader*>bytes
    return header.uuid_low == key.uuid_low and header.uuid_high == key.uuid_high and header.segment == key.number


cdef status_t _begin(Salvage* salvage, const SegmentHeader* header, const uint8_t* membership) noexcept nogil:
    salvage.start = header.start
    salvage.membership_index = header.membership_index
    salvage.membership.clear()
    salvage.records.clear()
    salvage.first = header.start.index + 1
    salvage.committed = max(header.start.index, header.hard_state.committed)
    salvage.is_begun = True
    salvage.last_batch = header.previous_batch
    salvage.is_unsure = False
    salvage.lost_batches = 0
    return OK if salvage.membership.append(membership, header.membership_length) else <status_t>NO_MEMORY


cdef status_t _take_batches(Salvage* salvage, size_t position, uint64_t offset, uint64_t limit,
                            const SegmentKey* key) noexcept nogil:
    cdef const SalvageFile* file = &salvage.files.data[position]
    cdef BatchHeader header
    cdef status_t status = OK
    while status == OK and offset + sizeof(BatchHeader) <= limit:
        status = CORRUPT
        if load32(file.bytes + offset) == FORMAT_BATCH_MAGIC:
            status = batch_header_decode(file.bytes, limit, offset, key, &header)
        if status == NEWER_FORMAT and _is_of_segment(file.bytes + offset, key):
            return NEWER_FORMAT
        if status == OK:
            status = _take_batch(salvage, position, offset, limit, &header)
            offset += header.length
        else:
            offset += key.alignment_bytes
            status = OK
    return status


# Where the batches of a segment end: the header of the next one says.
cdef uint64_t _limit(const Salvage* salvage, size_t position) noexcept nogil:
    cdef const SalvageFile* file = &salvage.files.data[position]
    cdef const SalvageFile* following
    cdef const uint8_t* membership = NULL
    cdef SegmentHeader header
    cdef uint64_t begin = 0
    if position + 1 == salvage.files.size:
        return file.length
    following = &salvage.files.data[position + 1]
    if (following.number != file.number + 1
            or segment_header_decode(following.bytes, following.length, &header, &membership, &begin) != OK
            or header.flags & SEGMENT_BEGINS):
        return file.length
    return min(file.length, header.previous_end)


cdef status_t _take_segment(Salvage* salvage, size_t position) noexcept nogil:
    cdef const SalvageFile* file = &salvage.files.data[position]
    cdef const uint8_t* membership = NULL
    cdef SegmentHeader header
    cdef SegmentKey key
    cdef uint64_t begin = 0
    cdef status_t status = segment_header_decode(file.bytes, file.length, &header, &membership, &begin)
    if status == NEWER_FORMAT:
        return status
    if status == OK and header.number == file.number:
        if ((salvage.void_owner != 0 and header.owner == salvage.void_owner)
                or (salvage.owner != 0 and header.owner not in (0, salvage.owner))):
            salvage.foreign_files += 1
            return OK
        # A segment without a header may stand before this one. Its entries are kept.
        if not salvage.is_begun or header.flags & SEGMENT_BEGINS:
            status = _begin(salvage, &header, membership)
        salvage.expected_batch = max(salvage.expected_batch, header.previous_batch)
        key.number = header.number
        key.uuid_low = header.uuid_low
        key.uuid_high = header.uuid_high
        key.alignment_bytes = header.alignment_bytes
    else:
        status = OK
        if not _guess_key(file, &key, &begin):
            return OK           # nothing in it can be read; the number of the next batch tells whether one is missing
    return status if status != OK else _take_batches(salvage, position, begin, _limit(salvage, position), &key)


# --- encryption -------------------------------------------------------------------------------------------------------
# The file that a record was found in.
cdef const SalvageFile* _file_of(const Salvage* salvage, const uint8_t* bytes) noexcept nogil:
    cdef size_t i
    for i in range(salvage.files.size):
        if salvage.files.data[i].bytes <= bytes < salvage.files.data[i].bytes + salvage.files.data[i].length:
            return &salvage.files.data[i]
    return NULL


# Whose key, and which salt: the header says, or a batch. *key_id: 0: nobody says.
cdef bint _find_salt(const SalvageFile* file, SegmentKey* key, uint64_t* key_id) noexcept nogil:
    cdef SegmentHeader header
    cdef const uint8_t* membership = NULL
    cdef uint64_t begin = 0
    key_id[0] = 0
    if segment_header_decode(file.bytes, file.length, &header, &membership, &begin) != OK:
        return _guess_key(file, key, &begin)
    key.uuid_low = header.uuid_low
    key.uuid_high = header.uuid_high
    key_id[0] = segment_key_id(&header, membership)
    return True


# The run of the record into salvage.run.
cdef status_t _decrypt_with(Salvage* salvage, const SalvageFile* file, const SegmentKey* key, uint64_t key_id,
                            const uint8_t* bytes) noexcept nogil:
    cdef uint64_t offset = <uint64_t>(bytes - file.bytes) - run_back(<const Record*>bytes)
    cdef status_t status = cipher_begin(&salvage.cipher, salvage.keys, key_id, key.uuid_low, key.uuid_high)
    if status != OK:
        return status
    return run_decrypt(&salvage.run, &salvage.cipher, file.number, offset, file.bytes + offset, file.length - offset)


# Without a sound header each key of the ring is tried.
cdef status_t _decrypt_run(Salvage* salvage, const SalvageFile* file, const uint8_t* bytes) noexcept nogil:
    cdef SegmentKey key
    cdef uint64_t key_id = 0
    cdef uint32_t i
    cdef status_t status = CORRUPT
    if run_back(<const Record*>bytes) > <uint64_t>(bytes - file.bytes) or not _find_salt(file, &key, &key_id):
        return CORRUPT
    if salvage.keys == NULL or key_id != 0:
        return _decrypt_with(salvage, file, &key, key_id, bytes)
    for i in range(salvage.keys.count):
        if status == CORRUPT:
            salvage.run.segment = 0         # with this key it was not tried yet
            status = _decrypt_with(salvage, file, &key, salvage.keys.keys[i].id, bytes)
    return status


# A record that no key opens is as good as damaged.
cdef status_t _decrypt(Salvage* salvage, SalvageRecord* found) noexcept nogil:
    cdef const SalvageFile* file = _file_of(salvage, found.bytes)
    cdef uint64_t back = run_back(<const Record*>found.bytes)
    cdef const Record* record
    cdef Chunk* chunk
    cdef status_t status = _decrypt_run(salvage, file, found.bytes)
    found.bytes = NULL
    if status != OK or back + sizeof(Record) > salvage.run.bytes.size:
        return OK if status == CORRUPT else status
    record = <const Record*>(salvage.run.bytes.data + back)
    chunk = chunk_create(<uint32_t>record_bytes(record.length))
    if chunk == NULL or not salvage.decrypted.push(chunk):
        return NO_MEMORY
    memcpy(chunk.bytes(), record, record_bytes(record.length))
    found.bytes = chunk.bytes()
    return OK


cdef status_t _decrypt_all(Salvage* salvage) noexcept nogil:
    cdef SalvageRecord* found
    cdef size_t i
    cdef status_t status = OK
    for i in range(salvage.records.size):
        found = &salvage.records.data[i]
        if status == OK and found.bytes != NULL and (<const Record*>found.bytes).flags & FORMAT_RECORD_IS_ENCRYPTED:
            status = _decrypt(salvage, found)
    return status


# --- the end ----------------------------------------------------------------------------------------------------------
cdef status_t _take_mark(Salvage* salvage, const uint8_t* bytes) noexcept nogil:
    cdef MarkFound found
    cdef MarkSlot slot
    cdef Vec[uint64_t] chains
    cdef size_t i
    cdef status_t status
    memset(&chains, 0, sizeof(chains))
    status = mark_read(bytes, &found, &slot, &chains)
    if (status == OK and found == MARK_SOUND
            and (salvage.void_owner == 0 or slot.owner != salvage.void_owner)
            and (salvage.owner == 0 or slot.owner in (0, salvage.owner))):
        salvage.expected_batch = max(salvage.expected_batch, slot.batch.number)
        if salvage.is_begun and slot.batch.number > salvage.last_batch and chains.size == slot.batch.count:
            for i in range(salvage.files.size):
                if salvage.files.data[i].number == slot.segment:
                    status = _take_missing(salvage, slot.batch.number + 1, &slot.batch, chains.data, i,
                                           min(slot.offset, salvage.files.data[i].length),
                                           min(slot.end, salvage.files.data[i].length))
                    salvage.last_batch = slot.batch.number
                    break
        if salvage.is_begun and not salvage.is_unsure and slot.batch.number <= salvage.last_batch:
            salvage.committed = max(salvage.committed, slot.hard_state.committed)
    chains.release()
    return status


cdef status_t salvage_read(Salvage* salvage, const uint8_t* mark, uint64_t mark_length) noexcept nogil:
    cdef uint8_t[MARK_FILE_BYTES] bytes
    cdef size_t i
    cdef status_t status = OK
    salvage.first = 1
    for i in range(salvage.files.size):
        if status == OK:
            status = _take_segment(salvage, i)
    memset(bytes, 0, MARK_FILE_BYTES)
    if mark_length:
        memcpy(bytes, mark, min(mark_length, <uint64_t>MARK_FILE_BYTES))
    if status == OK:
        status = _take_mark(salvage, bytes)
    if salvage.is_begun and salvage.expected_batch > salvage.last_batch:
        salvage.lost_batches += salvage.expected_batch - salvage.last_batch
        salvage.is_unsure = True
    return status if status != OK else _decrypt_all(salvage)


cdef void salvage_release(Salvage* salvage) noexcept nogil:
    cdef size_t i
    for i in range(salvage.decrypted.size):
        chunk_drop(salvage.decrypted.data[i])
    salvage.decrypted.release()
    cipher_end(&salvage.cipher)
    run_release(&salvage.run)
    salvage.files.release()
    salvage.records.release()
    salvage.membership.release()
