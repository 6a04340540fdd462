"""The sealed file: chunks of records, written once, checked before they are shown.

It decides whether a file is complete and undamaged. It must never look into a record, hold more than one
chunk, or show a byte whose checksum it has not seen. Format: docs/formats.md "Sealed file".
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset, strlen

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128, crc32c, hash128
from raftmeta.native.invariants cimport broken
from raftmeta.ports cimport FILE_NAME_BYTES_MAX, DiskPort
from raftmeta.security.cipher cimport FORMAT_SEALING_BYTES, KeyRing, key_ring_current, message_open, message_seal
from raftmeta.status cimport (BAD_LENGTH, CORRUPT, INCOMPLETE, NEWER_FORMAT, NO_MEMORY, NOT_FOUND, OK, status_t)
from raftmeta.storage.invariants cimport (BROKEN_SEALED_CHUNKS, BROKEN_SEALED_CLOSED, BROKEN_SEALED_OFFSET,
                                          BROKEN_SEALED_SPLITS, read_at_most)
from raftmeta.storage.sealed cimport (FORMAT_SEALED_CHUNK_MAGIC, FORMAT_SEALED_FOOTER_MAGIC, FORMAT_SEALED_MAGIC,
                                      FORMAT_SEALED_VERSION, FORMAT_SEALED_VERSION_ENCRYPTED,
                                      SEALED_CHUNK_BYTES_MAX, SEALED_IS_ENCRYPTED, SealedChunk, SealedFooter,
                                      SealedHeader, SealedReader, SealedSplit, SealedWriter)

cdef enum:
    CRC_BEGIN = 8                   # magic and crc of every header are not covered
    SEALED_MEMBERSHIP_BYTES_MAX = 16 * 1024
    HEADER_BYTES_MAX = 80 + SEALED_MEMBERSHIP_BYTES_MAX + 8     # struct, membership, id of the key
    CONTEXT_LABEL_BYTES = 15
    CONTEXT_STATE_BYTES = 40        # of a header: cluster and point
    CONTEXT_BYTES = CONTEXT_LABEL_BYTES + CONTEXT_STATE_BYTES + 4
    SPLITS_NUMBER = 0x7FFFFFFF      # in the place of a chunk's number

cdef const char* WORKING_SUFFIX = ".tmp"
cdef const char* CONTEXT = "raftmeta sealed"        # FORMAT_


cdef Slice _part(const void* data, uint64_t length) noexcept nogil:
    cdef Slice part
    part.chunk = NULL
    part.data = <uint8_t*>data
    part.length = <uint32_t>length
    return part


# --- encryption -------------------------------------------------------------------------------------------------------
cdef uint32_t _key_id_bytes(uint8_t flags) noexcept nogil:
    return sizeof(uint64_t) if flags & SEALED_IS_ENCRYPTED else 0


# Authenticated with a chunk, or with the splits: whose state, at which entry, and which part of it.
cdef void _fill_context(const SealedHeader* header, uint32_t number, uint8_t* context) noexcept nogil:
    memcpy(context, CONTEXT, CONTEXT_LABEL_BYTES)
    memcpy(context + CONTEXT_LABEL_BYTES, &header.cluster_low, CONTEXT_STATE_BYTES)
    memcpy(context + CONTEXT_LABEL_BYTES + CONTEXT_STATE_BYTES, &number, sizeof(uint32_t))


# Into writer.encrypted, unless the file is plain; *bytes and *length are what is to be written.
cdef status_t _encrypt(SealedWriter* writer, uint32_t number, const uint8_t** bytes, uint32_t* length) noexcept nogil:
    cdef uint8_t[CONTEXT_BYTES] context
    cdef status_t status
    if writer.key_id == 0:
        return OK
    _fill_context(&writer.header, number, context)
    status = message_seal(<const KeyRing*>writer.disk.keys, writer.key_id, context, CONTEXT_BYTES, bytes[0], length[0],
                          &writer.encrypted)
    bytes[0] = writer.encrypted.data
    length[0] = <uint32_t>writer.encrypted.size
    return status


cdef status_t _decrypt(SealedReader* reader, uint32_t number, const Vec[uint8_t]* bytes,
                       Vec[uint8_t]* plain) noexcept nogil:
    cdef uint8_t[CONTEXT_BYTES] context
    _fill_context(&reader.header, number, context)
    return message_open(<const KeyRing*>reader.disk.keys, reader.key_id, context, CONTEXT_BYTES, bytes.data,
                        <uint32_t>bytes.size, plain)


# --- writer -----------------------------------------------------------------------------------------------------------
cdef status_t _write(SealedWriter* writer, const Slice* parts, size_t count) noexcept nogil:
    cdef status_t status = writer.disk.write(writer.disk.self, writer.file, writer.offset, parts, count)
    cdef size_t i
    for i in range(count):
        writer.offset += parts[i].length
    return status


cdef status_t _name_files(SealedWriter* writer, const char* name) noexcept nogil:
    cdef size_t length = strlen(name)
    cdef size_t suffix = strlen(WORKING_SUFFIX)
    if length + suffix > FILE_NAME_BYTES_MAX:
        return BAD_LENGTH
    memcpy(writer.name.text, name, length)
    memcpy(writer.working.text, name, length)
    memcpy(writer.working.text + length, WORKING_SUFFIX, suffix)
    return OK


cdef status_t sealed_begin(SealedWriter* writer, const DiskPort* disk, const char* name, const SealedHeader* header,
                           const uint8_t* membership) noexcept nogil:
    cdef Slice[3] parts
    cdef status_t status
    memset(<void*>writer, 0, sizeof(SealedWriter))
    writer.disk = disk
    writer.header = header[0]
    writer.header.magic = FORMAT_SEALED_MAGIC
    writer.header.version = FORMAT_SEALED_VERSION
    writer.header.flags = 0
    writer.header.reserved = 0
    writer.key_id = key_ring_current(<const KeyRing*>disk.keys)
    if writer.key_id != 0:
        writer.header.version = FORMAT_SEALED_VERSION_ENCRYPTED
        writer.header.flags = SEALED_IS_ENCRYPTED
    writer.header.header_bytes = (<uint32_t>sizeof(SealedHeader) + header.membership_length
                                  + _key_id_bytes(writer.header.flags))
    writer.header.crc = crc32c(0, <const uint8_t*>&writer.header + CRC_BEGIN, sizeof(SealedHeader) - CRC_BEGIN)
    writer.header.crc = crc32c(writer.header.crc, membership, header.membership_length)
    writer.header.crc = crc32c(writer.header.crc, <const uint8_t*>&writer.key_id,
                               _key_id_bytes(writer.header.flags))
    status = _name_files(writer, name)
    if status == OK and not writer.crcs.push(writer.header.crc):
        status = NO_MEMORY
    if status == OK:
        status = disk.open(disk.self, writer.working.text, True, &writer.file)
    if status != OK:
        return status
    writer.is_open = True
    parts[0] = _part(&writer.header, sizeof(SealedHeader))
    parts[1] = _part(membership, header.membership_length)
    parts[2] = _part(&writer.key_id, _key_id_bytes(writer.header.flags))
    status = disk.truncate(disk.self, writer.file, 0)
    return status if status != OK else _write(writer, parts, 3)


cdef status_t _note_split(SealedWriter* writer, const uint8_t* key, uint32_t key_length) noexcept nogil:
    cdef SealedSplit split
    split.chunk = writer.footer.chunks
    split.key_length = key_length
    split.offset = writer.offset
    writer.footer.splits += 1
    if not (writer.splits.append(<const uint8_t*>&split, sizeof(SealedSplit))
            and writer.splits.append(key, key_length)):
        return NO_MEMORY
    return OK


cdef status_t _closed(SealedWriter* writer) noexcept nogil:
    return broken(&writer.broken, BROKEN_SEALED_CLOSED, writer.footer.chunks, writer.offset)


# Before the name: the file holds its header and each chunk once, as the footer is going to say.
cdef status_t _check_counts(SealedWriter* writer) noexcept nogil:
    cdef const SealedFooter* footer = &writer.footer
    cdef uint64_t added = sizeof(SealedChunk) + (FORMAT_SEALING_BYTES if writer.key_id != 0 else 0)
    cdef uint64_t bytes = writer.header.header_bytes + footer.chunks * added + footer.records_bytes
    if writer.offset != bytes:
        return broken(&writer.broken, BROKEN_SEALED_OFFSET, writer.offset, bytes)
    if footer.splits > footer.chunks:
        return broken(&writer.broken, BROKEN_SEALED_SPLITS, footer.splits, footer.chunks)
    if writer.crcs.size != <uint64_t>footer.chunks + 1:
        return broken(&writer.broken, BROKEN_SEALED_CHUNKS, writer.crcs.size, <uint64_t>footer.chunks + 1)
    return OK


cdef status_t sealed_chunk(SealedWriter* writer, const uint8_t* records, uint32_t length, uint32_t count,
                           const uint8_t* split_key, uint32_t split_key_length, bint is_split) noexcept nogil:
    cdef SealedChunk chunk
    cdef Slice[2] parts
    cdef status_t status = OK
    if not writer.is_open:
        return _closed(writer)
    if length > SEALED_CHUNK_BYTES_MAX:
        return BAD_LENGTH
    if is_split:
        status = _note_split(writer, split_key, split_key_length)
    writer.footer.records_bytes += length
    if status == OK:
        status = _encrypt(writer, writer.footer.chunks, &records, &length)
    if status != OK:
        return status
    chunk.magic = FORMAT_SEALED_CHUNK_MAGIC
    chunk.number = writer.footer.chunks
    chunk.length = length
    chunk.point_index = writer.header.point.index
    chunk.crc = crc32c(0, <const uint8_t*>&chunk + CRC_BEGIN, sizeof(SealedChunk) - CRC_BEGIN)
    chunk.crc = crc32c(chunk.crc, records, length)
    if status == OK and not writer.crcs.push(chunk.crc):
        status = NO_MEMORY
    if status != OK:
        return status
    writer.footer.chunks += 1
    writer.footer.records += count
    parts[0] = _part(&chunk, sizeof(SealedChunk))
    parts[1] = _part(records, length)
    return _write(writer, parts, 2)


cdef status_t sealed_sync(SealedWriter* writer) noexcept nogil:
    return writer.disk.sync(writer.disk.self, writer.file) if writer.is_open else _closed(writer)


cdef status_t sealed_seal(SealedWriter* writer, const Hash128* state_hash) noexcept nogil:
    cdef const DiskPort* disk = writer.disk
    cdef SealedFooter* footer = &writer.footer
    cdef Hash128 whole = hash128(0, writer.crcs.data, writer.crcs.size * sizeof(uint32_t))
    cdef const uint8_t* splits = writer.splits.data
    cdef uint32_t splits_bytes = <uint32_t>writer.splits.size
    cdef Slice[2] parts
    cdef status_t status
    if not writer.is_open:
        return _closed(writer)
    status = _check_counts(writer)
    if status == OK:
        status = _encrypt(writer, SPLITS_NUMBER, &splits, &splits_bytes)
    if status != OK:
        return status
    footer.magic = FORMAT_SEALED_FOOTER_MAGIC
    footer.splits_offset = writer.offset
    footer.splits_bytes = splits_bytes
    footer.hash_low = whole.low
    footer.hash_high = whole.high
    footer.state_hash = state_hash[0]
    footer.crc = crc32c(0, splits, splits_bytes)
    footer.crc = crc32c(footer.crc, <const uint8_t*>footer + CRC_BEGIN, sizeof(SealedFooter) - CRC_BEGIN)
    parts[0] = _part(splits, splits_bytes)
    parts[1] = _part(footer, sizeof(SealedFooter))
    status = _write(writer, parts, 2)
    if status == OK:
        status = disk.sync(disk.self, writer.file)
    # The name comes last: what stands under it was complete before it could be seen.
    if status == OK:
        status = disk.rename(disk.self, writer.working.text, writer.name.text)
    if status == OK:
        status = disk.sync_directory(disk.self)
    if status == OK:
        _end(writer)
    return status


cdef void _end(SealedWriter* writer) noexcept nogil:
    if writer.is_open:
        writer.disk.close(writer.disk.self, writer.file)
    writer.is_open = False
    writer.crcs.release()
    writer.splits.release()
    writer.encrypted.release()


cdef void sealed_abandon(SealedWriter* writer) noexcept nogil:
    if writer.is_open:
        writer.disk.remove(writer.disk.self, writer.working.text)
    _end(writer)


cdef void sealed_leave(SealedWriter* writer) noexcept nogil:
    _end(writer)


# --- reader -----------------------------------------------------------------------------------------------------------
cdef status_t _read(SealedReader* reader, uint64_t offset, void* into, uint64_t length) noexcept nogil:
    cdef size_t got = 0
    cdef status_t status
    if offset > reader.size_bytes or length > reader.size_bytes - offset:
        return CORRUPT
    status = read_at_most(reader.disk, &reader.broken, reader.file, offset, <uint8_t*>into, length, &got)
    return CORRUPT if status == OK and got != length else status


# The bytes of a header, membership and key id, as far as its header_bytes say.
cdef status_t sealed_header_decode(const uint8_t* bytes, uint64_t length, SealedHeader* header,
                                   uint64_t* key_id) noexcept nogil:
    cdef uint64_t rest
    if length < sizeof(SealedHeader):
        return CORRUPT
    memcpy(header, bytes, sizeof(SealedHeader))
    if (header.magic != FORMAT_SEALED_MAGIC or header.header_bytes < sizeof(SealedHeader)
            or header.header_bytes > HEADER_BYTES_MAX or header.header_bytes > length
            or crc32c(0, bytes + CRC_BEGIN, header.header_bytes - CRC_BEGIN) != header.crc):
        return CORRUPT
    if header.version > FORMAT_SEALED_VERSION_ENCRYPTED:
        return NEWER_FORMAT
    rest = header.header_bytes - sizeof(SealedHeader)
    key_id[0] = 0
    if header.version == FORMAT_SEALED_VERSION:
        return OK if header.membership_length == rest else CORRUPT
    if (header.flags != SEALED_IS_ENCRYPTED
            or rest != header.membership_length + <uint64_t>_key_id_bytes(header.flags)):
        return CORRUPT
    memcpy(key_id, bytes + header.header_bytes - sizeof(uint64_t), sizeof(uint64_t))
    return OK


cdef status_t _open_header(SealedReader* reader) noexcept nogil:
    cdef uint64_t length = min(reader.size_bytes, <uint64_t>HEADER_BYTES_MAX)
    cdef status_t status
    if not reader.bytes.resize(length):
        return NO_MEMORY
    status = _read(reader, 0, reader.bytes.data, length)
    if status == OK:
        status = sealed_header_decode(reader.bytes.data, length, &reader.header, &reader.key_id)
    if status == OK and not reader.membership.append(reader.bytes.data + sizeof(SealedHeader),
                                                     reader.header.membership_length):
        status = NO_MEMORY
    return status


cdef status_t _open_footer(SealedReader* reader) noexcept nogil:
    cdef SealedFooter* footer = &reader.footer
    cdef uint64_t begin
    cdef uint32_t crc
    cdef status_t status
    if reader.size_bytes < reader.header.header_bytes + sizeof(SealedFooter):
        return INCOMPLETE
    begin = reader.size_bytes - sizeof(SealedFooter)
    status = _read(reader, begin, footer, sizeof(SealedFooter))
    if status != OK:
        return status
    if footer.magic != FORMAT_SEALED_FOOTER_MAGIC:
        return INCOMPLETE
    if footer.splits_offset > begin or footer.splits_bytes != begin - footer.splits_offset:
        return CORRUPT
    if not reader.splits.resize(footer.splits_bytes):
        return NO_MEMORY
    status = _read(reader, footer.splits_offset, reader.splits.data, footer.splits_bytes)
    if status != OK:
        return status
    crc = crc32c(0, reader.splits.data, reader.splits.size)
    crc = crc32c(crc, <const uint8_t*>footer + CRC_BEGIN, sizeof(SealedFooter) - CRC_BEGIN)
    if crc != footer.crc:
        return CORRUPT
    return OK if reader.key_id == 0 or reader.checks_only else _open_splits(reader)


cdef status_t _open_splits(SealedReader* reader) noexcept nogil:
    cdef Vec[uint8_t] encrypted = reader.splits
    cdef status_t status
    memset(<void*>&reader.splits, 0, sizeof(reader.splits))
    status = _decrypt(reader, SPLITS_NUMBER, &encrypted, &reader.splits)
    encrypted.release()
    return status


cdef status_t sealed_open(SealedReader* reader, const DiskPort* disk, const char* name) noexcept nogil:
    return _open(reader, disk, name, False)


cdef status_t sealed_open_to_check(SealedReader* reader, const DiskPort* disk, const char* name) noexcept nogil:
    return _open(reader, disk, name, True)


cdef status_t _open(SealedReader* reader, const DiskPort* disk, const char* name, bint checks_only) noexcept nogil:
    cdef status_t status
    memset(<void*>reader, 0, sizeof(SealedReader))
    reader.disk = disk
    reader.checks_only = checks_only
    status = disk.open(disk.self, name, False, &reader.file)
    if status != OK:
        return status
    reader.is_open = True
    status = disk.size(disk.self, reader.file, &reader.size_bytes)
    if status == OK:
        status = _open_header(reader)
    if status == OK:
        status = _open_footer(reader)
    if status == OK and not reader.crcs.push(reader.header.crc):
        status = NO_MEMORY
    reader.offset = reader.header.header_bytes
    if status != OK:
        sealed_close(reader)
    return status


cdef status_t _check_whole(SealedReader* reader) noexcept nogil:
    cdef Hash128 whole
    if reader.offset != reader.footer.splits_offset:
        return CORRUPT
    if reader.crcs.size == 0:
        return NOT_FOUND            # read from a split on: only its own chunks were checked
    whole = hash128(0, reader.crcs.data, reader.crcs.size * sizeof(uint32_t))
    if whole.low != reader.footer.hash_low or whole.high != reader.footer.hash_high:
        return CORRUPT
    return NOT_FOUND


cdef status_t sealed_next(SealedReader* reader, const uint8_t** records, uint32_t* length) noexcept nogil:
    cdef SealedChunk chunk
    cdef uint64_t begin = reader.offset
    cdef uint64_t added = FORMAT_SEALING_BYTES if reader.key_id != 0 else 0
    cdef uint32_t crc
    cdef status_t status
    if reader.chunk == reader.footer.chunks:
        return _check_whole(reader)
    status = _read(reader, begin, &chunk, sizeof(SealedChunk))
    if status != OK:
        return status
    if (chunk.magic != FORMAT_SEALED_CHUNK_MAGIC or chunk.number != reader.chunk
            or chunk.point_index != reader.header.point.index or chunk.length > SEALED_CHUNK_BYTES_MAX + added):
        return CORRUPT
    if not reader.bytes.resize(chunk.length):
        return NO_MEMORY
    status = _read(reader, begin + sizeof(SealedChunk), reader.bytes.data, chunk.length)
    if status != OK:
        return status
    crc = crc32c(0, <const uint8_t*>&chunk + CRC_BEGIN, sizeof(SealedChunk) - CRC_BEGIN)
    if crc32c(crc, reader.bytes.data, chunk.length) != chunk.crc:
        return CORRUPT
    if reader.crcs.size != 0 and not reader.crcs.push(chunk.crc):
        return NO_MEMORY
    records[0] = reader.bytes.data
    length[0] = chunk.length
    if added != 0 and not reader.checks_only:
        status = _decrypt(reader, chunk.number, &reader.bytes, &reader.plain)
        if status != OK:
            return status
        records[0] = reader.plain.data
        length[0] = <uint32_t>reader.plain.size
    reader.chunk += 1
    reader.offset = begin + sizeof(SealedChunk) + chunk.length
    return OK


cdef status_t sealed_split(const SealedReader* reader, uint32_t position, SealedSplit* split,
                           const uint8_t** key) noexcept nogil:
    cdef uint64_t offset = 0
    cdef uint64_t rest
    cdef uint32_t _
    if position >= reader.footer.splits:
        return NOT_FOUND
    for _ in range(position + 1):
        rest = reader.splits.size - offset
        if rest < sizeof(SealedSplit):
            return CORRUPT
        memcpy(split, reader.splits.data + offset, sizeof(SealedSplit))
        key[0] = reader.splits.data + offset + sizeof(SealedSplit)
        if split.key_length > rest - sizeof(SealedSplit):
            return CORRUPT
        offset += sizeof(SealedSplit) + split.key_length
    return OK


cdef status_t sealed_seek(SealedReader* reader, uint32_t position) noexcept nogil:
    cdef SealedSplit split
    cdef const uint8_t* key
    cdef status_t status = sealed_split(reader, position, &split, &key)
    if status == OK:
        reader.chunk = split.chunk
        reader.offset = split.offset
        reader.crcs.clear()
    return status


cdef void sealed_close(SealedReader* reader) noexcept nogil:
    if reader.is_open:
        reader.disk.close(reader.disk.self, reader.file)
    reader.is_open = False
    reader.membership.release()
    reader.splits.release()
    reader.crcs.release()
    reader.bytes.release()
    reader.plain.release()
