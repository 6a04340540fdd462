"""Sealed files, step by step.

It decides where a chunk of a file ends, and whether a file that was read is the state it says it is. It
must never more than one chunk at once, or anything that the loop's thread may touch at the same time.

A chunk ends at the first end of a record that makes it chunk_bytes or longer. This depends on the records alone and not
on how the dump was cut, so all members' files of one point are the same bytes, and any of them can go on where another
stopped (docs/formats.md "Records of the state").
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset, strlen

from raftmeta.machine.dump cimport DUMP_KEY, DUMP_REVISION, DumpHead, DumpVersion, machine_dump_next
from raftmeta.machine.load cimport machine_load_chunk, machine_load_done
from raftmeta.machine.machine cimport MachineStatus, machine_create, machine_destroy, machine_status
from raftmeta.native.chunks cimport Slice, chunk_create, chunk_drop
from raftmeta.status cimport (BAD_CHECKSUM, BAD_FIELD, BAD_LENGTH, BAD_VERSION, CORRUPT, INCOMPLETE, NEWER_FORMAT,
                              NO_KEY, NO_MEMORY, NOT_FOUND, OK, status_t)
from raftmeta.storage.sealed cimport (sealed_abandon, sealed_begin, sealed_chunk, sealed_close, sealed_leave,
                                      sealed_next, sealed_open, sealed_open_to_check, sealed_seal, sealed_sync)
from raftmeta.wire.snapshot_messages cimport is_same_file

cdef enum:
    DIGITS = 16

cdef const char* SEALED_SUFFIX = ".sealed"
cdef const char* WORKING_SUFFIX = ".sealed.tmp"
cdef const char* RECEIVED_SUFFIX = ".received"
cdef const char* HEX_DIGITS = "0123456789abcdef"


# --- names ------------------------------------------------------------------------------------------------------------
cdef void _name(index_t index, const char* suffix, char* name) noexcept nogil:
    cdef int i
    for i in range(DIGITS):
        name[i] = HEX_DIGITS[(index >> 4 * (DIGITS - 1 - i)) & 15]
    memcpy(name + DIGITS, suffix, strlen(suffix) + 1)


# The index in a name with this suffix, 0: it has another form.
cdef index_t _index(const char* name, const char* suffix) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] again
    cdef index_t index = 0
    cdef int i, digit
    if strlen(name) != DIGITS + strlen(suffix):
        return 0
    for i in range(DIGITS):
        digit = 0
        while digit < 16 and HEX_DIGITS[digit] != name[i]:
            digit += 1
        index = index << 4 | (digit & 15)
    _name(index, suffix, again)
    for i in range(<int>strlen(name)):
        if again[i] != name[i]:
            return 0
    return index


cdef void sealed_name(index_t index, char* name) noexcept nogil:
    _name(index, SEALED_SUFFIX, name)


cdef void _received_name(index_t index, char* name) noexcept nogil:
    _name(index, RECEIVED_SUFFIX, name)


cdef index_t sealed_index(const char* name) noexcept nogil:
    return _index(name, SEALED_SUFFIX)


cdef bint is_leftover(const char* name) noexcept nogil:
    return _index(name, WORKING_SUFFIX) != 0 or _index(name, RECEIVED_SUFFIX) != 0


# --- taking -----------------------------------------------------------------------------------------------------------
# Where the next chunk ends; 0: it is not complete yet.
cdef size_t _chunk_end(const Taking* taking, bint is_last, uint32_t* count) noexcept nogil:
    cdef size_t end = 0
    count[0] = 0
    while end < taking.records.size:
        end += sizeof(DumpHead) + (<const DumpHead*>(taking.records.data + end)).length
        count[0] += 1
        if end >= taking.chunk_bytes:
            return end
    return end if is_last else 0


# A reader may begin where a key or a revision does.
cdef status_t _write_chunk(Taking* taking, size_t length, uint32_t count) noexcept nogil:
    cdef const uint8_t* records = taking.records.data
    cdef const DumpHead* head = <const DumpHead*>records
    cdef const uint8_t* key = NULL
    cdef uint32_t key_length = 0
    if head.kind == DUMP_KEY:
        key = records + sizeof(DumpHead) + sizeof(DumpVersion)
        key_length = (<const DumpVersion*>(records + sizeof(DumpHead))).key_length
    cdef status_t status = sealed_chunk(&taking.writer, records, <uint32_t>length, count, key, key_length,
                                        head.kind == DUMP_KEY or head.kind == DUMP_REVISION)
    taking.records.drop_front(length)
    return status


cdef status_t _write_chunks(Taking* taking, bint is_last) noexcept nogil:
    cdef uint32_t count = 0
    cdef size_t end = _chunk_end(taking, is_last, &count)
    cdef status_t status = OK
    while status == OK and end != 0:
        status = _write_chunk(taking, end, count)
        end = _chunk_end(taking, is_last, &count)
    return status


cdef status_t _seal(Taking* taking) noexcept nogil:
    cdef status_t status = sealed_seal(&taking.writer, &taking.state_hash)
    taking.file.size_bytes = taking.writer.offset
    taking.file.hash.low = taking.writer.footer.hash_low
    taking.file.hash.high = taking.writer.footer.hash_high
    taking.is_done = status == OK
    return status


cdef status_t take_step(Taking* taking, const DiskPort* disk) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef bint is_dumped = False
    cdef status_t status = OK
    if not taking.writer.is_open:
        sealed_name(taking.file.point.index, name)
        status = sealed_begin(&taking.writer, disk, name, &taking.header, taking.membership.data)
    if status == OK:
        status = machine_dump_next(taking.machine, &taking.dump, taking.chunk_bytes, &taking.records, &is_dumped)
    if status == OK:
        status = _write_chunks(taking, is_dumped)
    if status == OK:
        status = _seal(taking) if is_dumped else sealed_sync(&taking.writer)
    if status != OK:
        sealed_abandon(&taking.writer)
    return status


cdef void take_release(Taking* taking) noexcept nogil:
    sealed_leave(&taking.writer)
    taking.membership.release()
    taking.records.release()
    memset(<void*>taking, 0, sizeof(Taking))


# --- loading ----------------------------------------------------------------------------------------------------------
cdef status_t load_begin(Loading* loading, const DiskPort* disk, const char* name,
                         const MachineLimits* limits) noexcept nogil:
    cdef status_t status
    memset(<void*>loading, 0, sizeof(Loading))
    status = sealed_open(&loading.reader, disk, name)
    if status != OK:
        return CORRUPT if status == INCOMPLETE else status
    loading.machine = machine_create(limits)
    if loading.machine == NULL:
        load_release(loading)
        return NO_MEMORY
    return OK


cdef status_t _check_loaded(Loading* loading) noexcept nogil:
    cdef MachineStatus machine
    cdef status_t status = machine_load_done(loading.machine)
    if status != OK:
        return CORRUPT
    machine_status(loading.machine, &machine)
    if (machine.applied != loading.reader.header.point.index
            or machine.state_hash.low != loading.reader.footer.state_hash.low
            or machine.state_hash.high != loading.reader.footer.state_hash.high):
        return CORRUPT
    loading.is_done = True
    return OK


cdef status_t load_step(Loading* loading) noexcept nogil:
    cdef const uint8_t* records = NULL
    cdef uint32_t length = 0
    cdef status_t status = sealed_next(&loading.reader, &records, &length)
    if status == NOT_FOUND:
        return _check_loaded(loading)
    if status == OK:
        status = machine_load_chunk(loading.machine, records, length)
    if status in (BAD_FIELD, BAD_LENGTH, BAD_CHECKSUM):
        return CORRUPT
    return NEWER_FORMAT if status == BAD_VERSION else status


cdef void load_release(Loading* loading) noexcept nogil:
    sealed_close(&loading.reader)
    if loading.machine != NULL:
        machine_destroy(loading.machine)
    memset(<void*>loading, 0, sizeof(Loading))


cdef void opened_file(const SealedReader* reader, SnapshotFile* file) noexcept nogil:
    file.point = reader.header.point
    file.size_bytes = reader.size_bytes
    file.hash.low = reader.footer.hash_low
    file.hash.high = reader.footer.hash_high


cdef void loaded_file(const Loading* loading, SnapshotFile* file) noexcept nogil:
    opened_file(&loading.reader, file)


# --- receiving --------------------------------------------------------------------------------------------------------
cdef status_t _open_received(Receiving* receiving, const DiskPort* disk) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef status_t status
    _received_name(receiving.file.point.index, name)
    status = disk.open(disk.self, name, True, &receiving.handle)
    if status == OK:
        receiving.is_open = True
        status = disk.truncate(disk.self, receiving.handle, 0)
    return status


cdef void _close_received(Receiving* receiving, const DiskPort* disk) noexcept nogil:
    if receiving.is_open:
        disk.close(disk.self, receiving.handle)
    receiving.is_open = False


cdef status_t receive_piece(Receiving* receiving, const DiskPort* disk, uint64_t offset,
                            const Slice* bytes) noexcept nogil:
    cdef status_t status = OK
    if not receiving.is_open:
        status = _open_received(receiving, disk)
    if status == OK:
        status = disk.write(disk.self, receiving.handle, offset, bytes, 1)
    return disk.sync(disk.self, receiving.handle) if status == OK else status


cdef status_t _begin_loading(Receiving* receiving, const DiskPort* disk, const MachineLimits* limits) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef SnapshotFile found
    cdef status_t status
    _close_received(receiving, disk)
    _received_name(receiving.file.point.index, name)
    status = load_begin(&receiving.loading, disk, name, limits)
    if status != OK:
        return status
    loaded_file(&receiving.loading, &found)
    if found.point.term != receiving.file.point.term or not is_same_file(&found, &receiving.file):
        return CORRUPT
    return OK


# From here on a restart finds the state: it was proved to be what it says before it got this name.
cdef status_t _name_received(Receiving* receiving, const DiskPort* disk) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] source
    cdef char[FILE_NAME_BYTES_MAX + 1] target
    cdef status_t status
    _received_name(receiving.file.point.index, source)
    sealed_name(receiving.file.point.index, target)
    status = disk.rename(disk.self, source, target)
    if status == OK:
        status = disk.sync_directory(disk.self)
    receiving.is_done = status == OK
    return status


cdef status_t receive_step(Receiving* receiving, const DiskPort* disk, const MachineLimits* limits) noexcept nogil:
    cdef status_t status
    if receiving.loading.machine == NULL:
        status = _begin_loading(receiving, disk, limits)
    else:
        status = load_step(&receiving.loading)
        if status == OK and receiving.loading.is_done:
            status = _name_received(receiving, disk)
    if status in (CORRUPT, NEWER_FORMAT, NO_KEY):
        receive_abandon(receiving, disk)
    return status


cdef status_t receive_abandon(Receiving* receiving, const DiskPort* disk) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef status_t status
    _received_name(receiving.file.point.index, name)
    _close_received(receiving, disk)
    load_release(&receiving.loading)
    status = disk.remove(disk.self, name)
    return OK if status == NOT_FOUND else status


cdef void receive_release(Receiving* receiving, const DiskPort* disk) noexcept nogil:
    _close_received(receiving, disk)
    load_release(&receiving.loading)


# --- a holder ---------------------------------------------------------------------------------------------------------
cdef status_t read_piece(const DiskPort* disk, const SnapshotFile* file, uint64_t offset, uint32_t length,
                         Slice* piece) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef file_t handle = 0
    cdef size_t got = 0
    cdef status_t status
    memset(<void*>piece, 0, sizeof(Slice))
    sealed_name(file.point.index, name)
    status = disk.open(disk.self, name, False, &handle)
    if status != OK:
        return status
    piece.chunk = chunk_create(length)
    if piece.chunk == NULL:
        status = NO_MEMORY
    else:
        status = disk.read(disk.self, handle, offset, piece.chunk.bytes(), length, &got)
    disk.close(disk.self, handle)
    if status == OK and got != length:
        status = CORRUPT
    if status != OK:
        if piece.chunk != NULL:
            chunk_drop(piece.chunk)
        memset(<void*>piece, 0, sizeof(Slice))
        return status
    piece.chunk.used = length
    piece.data = piece.chunk.bytes()
    piece.length = length
    return OK


cdef status_t _begin_check(Checking* checking, const DiskPort* disk) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef SnapshotFile found
    cdef status_t status
    sealed_name(checking.file.point.index, name)
    status = sealed_open_to_check(&checking.reader, disk, name)
    if status != OK:
        return status
    opened_file(&checking.reader, &found)
    return OK if is_same_file(&found, &checking.file) else <status_t>CORRUPT


cdef status_t check_step(Checking* checking, const DiskPort* disk) noexcept nogil:
    cdef const uint8_t* records = NULL
    cdef uint32_t length = 0
    cdef status_t status
    if not checking.reader.is_open:
        status = _begin_check(checking, disk)
    else:
        status = sealed_next(&checking.reader, &records, &length)
        if status == NOT_FOUND:         # behind the last chunk, and the whole hash is right
            checking.is_done = True
            status = OK
    if status != OK or checking.is_done:
        check_release(checking)
    # It was whole once: what looks unfinished or newer now has lost a bit there.
    return CORRUPT if status in (INCOMPLETE, NEWER_FORMAT) else status


cdef void check_release(Checking* checking) noexcept nogil:
    sealed_close(&checking.reader)


cdef status_t remove_sealed(const DiskPort* disk, index_t index) noexcept nogil:
    cdef char[FILE_NAME_BYTES_MAX + 1] name
    cdef status_t status
    sealed_name(index, name)
    status = disk.remove(disk.self, name)
    if status == OK:
        status = disk.sync_directory(disk.self)
    return OK if status == NOT_FOUND else status
