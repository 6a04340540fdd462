"""A simulated disk: two images of every file and of the directory, and the faults that come between them.

It decides which unsynced sectors and names a power cut leaves, out of one seeded stream. It must never
lose or change what a successful sync made durable, unless a fault was asked for by name.
Sources: docs/decisions/log.md; the ext4 and page cache behaviour after a failed fsync (Rebello et al., ATC 2020).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset, strcmp, strlen, strncpy

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.ports cimport FILE_NAME_BYTES_MAX, DiskPort, FileName, file_t
from raftmeta.sim.world.disk cimport SIM_BIND, SIM_RENAME, SIM_UNBIND, SimDisk, SimFile, SimName, SimPending
from raftmeta.status cimport DISK_FAILED, NO_MEMORY, NO_SPACE, NOT_FOUND, OK, POWER_CUT, status_t

cdef enum:
    NO_FILE = 0xFFFFFFF             # no position in files
    UNLIMITED_FREE_BYTES = 0x4000000000000  # free_bytes of a disk without a capacity


cdef void _set_name(FileName* target, const char* text) noexcept nogil:
    memset(target.text, 0, FILE_NAME_BYTES_MAX + 1)
    strncpy(target.text, text, FILE_NAME_BYTES_MAX)


# --- names ------------------------------------------------------------------------------------------------------------
cdef SimName* _find_name(Vec[SimName]* names, const char* name) noexcept nogil:
    cdef size_t i
    for i in range(names.size):
        if strcmp(names.data[i].name.text, name) == 0:
            return &names.data[i]
    return NULL


cdef void _unbind(Vec[SimName]* names, const char* name) noexcept nogil:
    cdef SimName* found = _find_name(names, name)
    if found != NULL:
        found[0] = names.back()
        names.pop()


cdef status_t _bind(Vec[SimName]* names, const char* name, uint32_t file) noexcept nogil:
    cdef SimName* found = _find_name(names, name)
    cdef SimName fresh
    if found != NULL:
        found.file = file
        return OK
    _set_name(&fresh.name, name)
    fresh.file = file
    return OK if names.push(fresh) else NO_MEMORY


cdef status_t _apply(Vec[SimName]* names, const SimPending* change) noexcept nogil:
    if change.op == SIM_BIND:
        return _bind(names, change.name.text, change.file)
    _unbind(names, change.name.text)
    if change.op == SIM_RENAME:
        return _bind(names, change.target.text, change.file)
    return OK


# Do a change to the directory as programs see it; it is durable after the next sync_directory.
cdef status_t _change_names(SimDisk* disk, uint8_t op, const char* name, const char* target,
                            uint32_t file) noexcept nogil:
    cdef SimPending change
    change.op = op
    change.file = file
    _set_name(&change.name, name)
    _set_name(&change.target, target)
    if not disk.pending.push(change):
        return NO_MEMORY
    return _apply(&disk.names, &change)


# --- files ------------------------------------------------------------------------------------------------------------
cdef void _release_file(SimFile* file) noexcept nogil:
    file.cached.release()
    file.durable.release()
    file.dirty.release()
    memset(<void*>file, 0, sizeof(SimFile))


cdef bint _is_referenced(const SimDisk* disk, uint32_t file) noexcept nogil:
    cdef size_t i
    for i in range(disk.names.size):
        if disk.names.data[i].file == file:
            return True
    for i in range(disk.durable_names.size):
        if disk.durable_names.data[i].file == file:
            return True
    for i in range(disk.pending.size):
        if disk.pending.data[i].file == file:
            return True
    for i in range(disk.handles.size):
        if disk.handles.data[i] == file:
            return True
    return False


# Files that no name and no handle leads to are gone.
cdef void _collect(SimDisk* disk) noexcept nogil:
    cdef uint32_t i
    for i in range(<uint32_t>disk.files.size):
        if disk.files.data[i].in_use and not _is_referenced(disk, i):
            _release_file(&disk.files.data[i])


cdef status_t _new_file(SimDisk* disk, uint32_t* position) noexcept nogil:
    cdef uint32_t i
    for i in range(<uint32_t>disk.files.size):
        if not disk.files.data[i].in_use:
            break
    else:
        i = <uint32_t>disk.files.size
        if not disk.files.resize(disk.files.size + 1):
            return NO_MEMORY
    disk.files.data[i].in_use = True
    position[0] = i
    return OK


cdef status_t _new_handle(SimDisk* disk, uint32_t file, file_t* handle) noexcept nogil:
    cdef size_t i
    for i in range(disk.handles.size):
        if disk.handles.data[i] == NO_FILE:
            disk.handles.data[i] = file
            handle[0] = <file_t>i
            return OK
    handle[0] = <file_t>disk.handles.size
    return OK if disk.handles.push(file) else NO_MEMORY


cdef SimFile* _file_of(SimDisk* disk, file_t handle) noexcept nogil:
    if handle < 0 or <size_t>handle >= disk.handles.size or disk.handles.data[handle] == NO_FILE:
        return NULL
    return &disk.files.data[disk.handles.data[handle]]


cdef status_t _mark_dirty(SimDisk* disk, SimFile* file, uint64_t begin, uint64_t end) noexcept nogil:
    cdef uint64_t first = begin // disk.sector_bytes
    cdef uint64_t after = (end + disk.sector_bytes - 1) // disk.sector_bytes
    if file.dirty.size < after and not file.dirty.resize(after):
        return NO_MEMORY
    memset(file.dirty.data + first, 1, after - first)
    if file.dirty_end == file.dirty_first:
        file.dirty_first = first
        file.dirty_end = after
    else:
        file.dirty_first = min(file.dirty_first, first)
        file.dirty_end = max(file.dirty_end, after)
    return OK


cdef void _mark_clean(SimFile* file) noexcept nogil:
    if file.dirty_end > file.dirty_first:
        memset(file.dirty.data + file.dirty_first, 0, file.dirty_end - file.dirty_first)
    file.dirty_first = file.dirty_end = 0
    file.size_is_dirty = False


# Copy bytes [begin, end) of the cached image into the durable one, which grows over them.
cdef status_t _make_durable(SimFile* file, uint64_t begin, uint64_t end) noexcept nogil:
    end = min(end, <uint64_t>file.cached.size)
    if begin >= end:
        return OK
    if file.durable.size < end and not file.durable.resize(end):
        return NO_MEMORY
    memcpy(file.durable.data + begin, file.cached.data + begin, end - begin)
    return OK


cdef status_t _sync_sectors(SimDisk* disk, SimFile* file) noexcept nogil:
    cdef uint64_t sector
    cdef status_t status
    for sector in range(file.dirty_first, file.dirty_end):
        if file.dirty.data[sector]:
            status = _make_durable(file, sector * disk.sector_bytes, (sector + 1) * disk.sector_bytes)
            if status != OK:
                return status
    if not file.durable.resize(file.cached.size):
        return NO_MEMORY
    _mark_clean(file)
    return OK


cdef status_t _copy_image(Vec[uint8_t]* target, const Vec[uint8_t]* source) noexcept nogil:
    target.clear()
    return OK if target.append(source.data, source.size) else NO_MEMORY


# --- faults -----------------------------------------------------------------------------------------------------------
# A fault's counter goes down by one call; true when this is the call.
cdef bint _is_due(uint64_t* counter) noexcept nogil:
    if counter[0] == 0:
        return False
    counter[0] -= 1
    return counter[0] == 0


cdef bint _fails(SimDisk* disk, uint64_t* counter) noexcept nogil:
    if not _is_due(counter):
        return False
    disk.counters.failures += 1
    return True


cdef uint64_t _stored_bytes(const SimDisk* disk) noexcept nogil:
    cdef uint64_t total = 0
    cdef size_t i
    for i in range(disk.files.size):
        total += disk.files.data[i].cached.size
    return total


# Decide how much a power cut leaves of one unsynced sector: all, nothing, or a mixture.
cdef status_t _settle_sector(SimDisk* disk, SimFile* file, uint64_t sector) noexcept nogil:
    cdef uint64_t begin = sector * disk.sector_bytes
    cdef uint64_t end = min(begin + disk.sector_bytes, <uint64_t>file.cached.size)
    cdef uint64_t fate = next_random(&disk.random)
    cdef uint64_t part
    cdef status_t status
    if begin >= end or fate % 8 < 3:
        disk.counters.sectors_lost += 1
        return OK
    if fate % 8 < 6:
        return _make_durable(file, begin, end)
    disk.counters.sectors_torn += 1
    part = begin + (fate >> 8) % (end - begin)
    if fate % 8 == 6:
        return _make_durable(file, begin, part)
    # The drive gave up in the middle: what was there before is gone as well.
    status = _make_durable(file, begin, end)
    if status == OK:
        memset(file.durable.data + part, <int>((fate >> 40) & 0xFF), end - part)
    return status


cdef status_t _settle_file(SimDisk* disk, SimFile* file) noexcept nogil:
    cdef uint64_t sector
    cdef status_t status
    for sector in range(file.dirty_first, file.dirty_end):
        if file.dirty.data[sector]:
            status = _settle_sector(disk, file, sector)
            if status != OK:
                return status
    if file.size_is_dirty and file.durable.size > file.cached.size and next_random(&disk.random) % 2 == 0:
        file.durable.resize(file.cached.size)
    _mark_clean(file)
    file.lost_a_sync = False
    return _copy_image(&file.cached, &file.durable)


# --- the port ---------------------------------------------------------------------------------------------------------
cdef status_t _open(void* self, const char* name, bint create, file_t* handle) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef SimName* found
    cdef uint32_t position = 0
    cdef status_t status
    if disk.is_cut:
        return POWER_CUT
    if strlen(name) > FILE_NAME_BYTES_MAX:
        return DISK_FAILED
    found = _find_name(&disk.names, name)
    if found == NULL:
        if not create:
            return NOT_FOUND
        status = _new_file(disk, &position)
        if status == OK:
            status = _change_names(disk, SIM_BIND, name, name, position)
    else:
        position = found.file
        status = _settle_cache(disk, &disk.files.data[position])
    if status != OK:
        return status
    return _new_handle(disk, position, handle)


# The promise of DiskPort.open: what is read from now on is on stable storage.
cdef status_t _settle_cache(SimDisk* disk, SimFile* file) noexcept nogil:
    cdef status_t status = OK
    if file.dirty_end > file.dirty_first or file.size_is_dirty:
        status = _sync_file(disk, file)
    if status == OK and file.lost_a_sync:
        file.lost_a_sync = False
        status = _copy_image(&file.cached, &file.durable)
    return status


cdef void _close(void* self, file_t handle) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    if _file_of(disk, handle) != NULL:
        disk.handles.data[handle] = NO_FILE


cdef status_t _size(void* self, file_t handle, uint64_t* size_bytes) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef SimFile* file = _file_of(disk, handle)
    if disk.is_cut:
        return POWER_CUT
    if file == NULL:
        return DISK_FAILED
    size_bytes[0] = file.cached.size
    return OK


cdef status_t _read(void* self, file_t handle, uint64_t offset, uint8_t* into, size_t length,
                    size_t* got) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef SimFile* file = _file_of(disk, handle)
    if disk.is_cut:
        return POWER_CUT
    disk.counters.reads += 1
    if file == NULL or _fails(disk, &disk.faults.fail_at_read):
        return DISK_FAILED
    got[0] = 0
    if offset < file.cached.size:
        got[0] = min(length, file.cached.size - offset)
        memcpy(into, file.cached.data + offset, got[0])
    return OK


# Put `limit` bytes of the parts into the cache from offset on.
cdef status_t _store(SimDisk* disk, SimFile* file, uint64_t offset, const Slice* parts, size_t count,
                     uint64_t limit) noexcept nogil:
    cdef uint64_t at = offset
    cdef uint64_t length
    cdef size_t i
    if file.cached.size < offset + limit:
        file.size_is_dirty = True
        if not file.cached.resize(offset + limit):
            return NO_MEMORY
    for i in range(count):
        length = min(<uint64_t>parts[i].length, offset + limit - at)
        memcpy(file.cached.data + at, parts[i].data, length)
        at += length
    return _mark_dirty(disk, file, offset, offset + limit)


# Never before the beginning of the file.
cdef uint64_t _misdirected(uint64_t offset, int64_t by) noexcept nogil:
    if by < 0 and <uint64_t>-by > offset:
        by = -by
    return offset + <uint64_t>by


cdef status_t _write(void* self, file_t handle, uint64_t offset, const Slice* parts, size_t count) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef SimFile* file = _file_of(disk, handle)
    cdef uint64_t length = 0
    cdef size_t i
    cdef status_t status
    if disk.is_cut:
        return POWER_CUT
    for i in range(count):
        length += parts[i].length
    disk.counters.writes += 1
    disk.counters.written_bytes += length
    if file == NULL or _fails(disk, &disk.faults.fail_at_write):
        return DISK_FAILED
    if (disk.faults.capacity_bytes != 0 and offset + length > file.cached.size
            and _stored_bytes(disk) - file.cached.size + offset + length > disk.faults.capacity_bytes):
        return NO_SPACE
    if _is_due(&disk.faults.lose_at_write):
        return OK
    if _is_due(&disk.faults.no_space_at_write):
        # Only a file system that copies on write wants room for what is there already. A node that had to erase it
        # cannot, and may stop for it (docs/decisions/log.md D7).
        disk.counters.failures += offset + length <= file.cached.size
        status = _store(disk, file, offset, parts, count, length // 2)
        return NO_SPACE if status == OK else status
    if _is_due(&disk.faults.misdirect_at_write):
        offset = _misdirected(offset, disk.faults.misdirect_by)
    status = _store(disk, file, offset, parts, count, length)
    if _is_due(&disk.faults.cut_at_write):
        disk.is_cut = True
        return POWER_CUT
    return status


# Count a sync and see whether a fault falls on it; OK: go on and make things durable.
cdef status_t _begin_sync(SimDisk* disk, bint* cut_after) noexcept nogil:
    disk.counters.syncs += 1
    cut_after[0] = False
    if _fails(disk, &disk.faults.fail_at_sync):
        return DISK_FAILED
    if _is_due(&disk.faults.cut_at_sync):
        cut_after[0] = disk.faults.cut_after_sync
        if not cut_after[0]:
            disk.is_cut = True
            return POWER_CUT
    return OK


cdef status_t _end_sync(SimDisk* disk, status_t status, bint cut_after) noexcept nogil:
    if cut_after:
        disk.is_cut = True
        return POWER_CUT
    return status


cdef status_t _sync_file(SimDisk* disk, SimFile* file) noexcept nogil:
    cdef bint cut_after = False
    cdef status_t status = _begin_sync(disk, &cut_after)
    if status == DISK_FAILED:
        # The kernel reports the error once and forgets that these pages were never written.
        file.lost_a_sync = True
        _mark_clean(file)
    if status != OK:
        return status
    return _end_sync(disk, _sync_sectors(disk, file), cut_after)


cdef status_t _sync(void* self, file_t handle) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef SimFile* file = _file_of(disk, handle)
    if disk.is_cut:
        return POWER_CUT
    if file == NULL:
        return DISK_FAILED
    return _sync_file(disk, file)


cdef status_t _truncate(void* self, file_t handle, uint64_t size_bytes) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef SimFile* file = _file_of(disk, handle)
    if disk.is_cut:
        return POWER_CUT
    if file == NULL:
        return DISK_FAILED
    file.size_is_dirty = True
    return OK if file.cached.resize(size_bytes) else NO_MEMORY


cdef status_t _rename(void* self, const char* source, const char* target) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef SimName* found
    if disk.is_cut:
        return POWER_CUT
    found = _find_name(&disk.names, source)
    if found == NULL:
        return NOT_FOUND
    return _change_names(disk, SIM_RENAME, source, target, found.file)


cdef status_t _remove(void* self, const char* name) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef SimName* found
    if disk.is_cut:
        return POWER_CUT
    found = _find_name(&disk.names, name)
    if found == NULL:
        return NOT_FOUND
    return _change_names(disk, SIM_UNBIND, name, name, found.file)


cdef status_t _sync_directory(void* self) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef bint cut_after = False
    cdef status_t status
    if disk.is_cut:
        return POWER_CUT
    status = _begin_sync(disk, &cut_after)
    if status != OK:
        return status
    status = _keep_names(disk, disk.pending.size)
    return _end_sync(disk, status, cut_after)


# The first `count` name changes reach the medium, the others are forgotten.
cdef status_t _keep_names(SimDisk* disk, size_t count) noexcept nogil:
    cdef size_t i
    cdef status_t status = OK
    for i in range(count):
        if status == OK:
            status = _apply(&disk.durable_names, &disk.pending.data[i])
    disk.pending.clear()
    _collect(disk)
    return status


cdef status_t _list_names(void* self, Vec[FileName]* names) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef size_t i
    if disk.is_cut:
        return POWER_CUT
    for i in range(disk.names.size):
        if not names.push(disk.names.data[i].name):
            return NO_MEMORY
    return OK


cdef status_t _free_bytes(void* self, uint64_t* free_bytes) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>self
    cdef uint64_t stored
    if disk.is_cut:
        return POWER_CUT
    free_bytes[0] = UNLIMITED_FREE_BYTES
    if disk.faults.capacity_bytes != 0:
        stored = _stored_bytes(disk)
        free_bytes[0] = disk.faults.capacity_bytes - min(stored, disk.faults.capacity_bytes)
    return OK


cdef DiskPort sim_disk_port(SimDisk* disk) noexcept nogil:
    cdef DiskPort port
    port.self = disk
    port.keys = NULL
    port.open = _open
    port.close = _close
    port.size = _size
    port.read = _read
    port.write = _write
    port.sync = _sync
    port.truncate = _truncate
    port.rename = _rename
    port.remove = _remove
    port.sync_directory = _sync_directory
    port.list_names = _list_names
    port.free_bytes = _free_bytes
    return port


# --- life -------------------------------------------------------------------------------------------------------------
cdef SimDisk* sim_disk_create(uint64_t seed, uint32_t sector_bytes) noexcept nogil:
    cdef SimDisk* disk = <SimDisk*>calloc(1, sizeof(SimDisk))
    if disk != NULL:
        disk.sector_bytes = sector_bytes
        disk.random = seed
    return disk


cdef void sim_disk_destroy(SimDisk* disk) noexcept nogil:
    cdef size_t i
    if disk == NULL:
        return
    for i in range(disk.files.size):
        _release_file(&disk.files.data[i])
    disk.files.release()
    disk.names.release()
    disk.durable_names.release()
    disk.pending.release()
    disk.handles.release()
    free(disk)


cdef status_t sim_disk_crash(SimDisk* disk) noexcept nogil:
    cdef size_t i
    cdef status_t status = OK
    disk.counters.crashes += 1
    disk.is_cut = False
    disk.handles.clear()
    for i in range(disk.files.size):
        if status == OK and disk.files.data[i].in_use:
            status = _settle_file(disk, &disk.files.data[i])
    if status == OK:
        status = _keep_names(disk, next_random(&disk.random) % (disk.pending.size + 1))
    disk.names.clear()
    if status == OK and not disk.names.append(disk.durable_names.data, disk.durable_names.size):
        status = NO_MEMORY
    _collect(disk)
    return status


cdef void sim_disk_reopen(SimDisk* disk) noexcept nogil:
    disk.handles.clear()
    _collect(disk)


cdef status_t sim_disk_write_back(SimDisk* disk) noexcept nogil:
    cdef size_t i
    cdef status_t status = OK
    for i in range(disk.files.size):
        if status == OK and disk.files.data[i].in_use:
            status = _sync_sectors(disk, &disk.files.data[i])
    return status if status != OK else _keep_names(disk, disk.pending.size)


cdef SimDisk* sim_disk_copy(const SimDisk* source, uint64_t seed) noexcept nogil:
    cdef SimDisk* disk = sim_disk_create(seed, source.sector_bytes)
    cdef const SimFile* file
    cdef SimFile* fresh
    cdef size_t i
    cdef bint is_whole
    if disk == NULL:
        return NULL
    is_whole = (disk.files.resize(source.files.size)
                and disk.names.append(source.names.data, source.names.size)
                and disk.durable_names.append(source.durable_names.data, source.durable_names.size)
                and disk.pending.append(source.pending.data, source.pending.size)
                and disk.handles.append(source.handles.data, source.handles.size))
    for i in range(source.files.size if is_whole else 0):
        file = &source.files.data[i]
        fresh = &disk.files.data[i]
        fresh.in_use = file.in_use
        fresh.size_is_dirty = file.size_is_dirty
        fresh.lost_a_sync = file.lost_a_sync
        fresh.dirty_first = file.dirty_first
        fresh.dirty_end = file.dirty_end
        is_whole = (is_whole and fresh.cached.append(file.cached.data, file.cached.size)
                    and fresh.durable.append(file.durable.data, file.durable.size)
                    and fresh.dirty.append(file.dirty.data, file.dirty.size))
    disk.is_cut = source.is_cut
    if not is_whole:
        sim_disk_destroy(disk)
        return NULL
    return disk


# --- ageing -----------------------------------------------------------------------------------------------------------
cdef SimFile* _named(SimDisk* disk, const char* name) noexcept nogil:
    cdef SimName* found = _find_name(&disk.names, name)
    if found == NULL:
        return NULL
    return &disk.files.data[found.file]


cdef status_t sim_disk_flip(SimDisk* disk, const char* name, uint64_t offset, uint8_t mask) noexcept nogil:
    cdef SimFile* file = _named(disk, name)
    if file == NULL or offset >= file.cached.size:
        return NOT_FOUND
    file.cached.data[offset] ^= mask
    if offset < file.durable.size:
        file.durable.data[offset] ^= mask
    return OK


cdef status_t sim_disk_zero(SimDisk* disk, const char* name, uint64_t offset, uint64_t length) noexcept nogil:
    cdef SimFile* file = _named(disk, name)
    if file == NULL or offset >= file.cached.size:
        return NOT_FOUND
    memset(file.cached.data + offset, 0, min(length, file.cached.size - offset))
    if offset < file.durable.size:
        memset(file.durable.data + offset, 0, min(length, file.durable.size - offset))
    return OK


cdef status_t sim_disk_cut_file(SimDisk* disk, const char* name, uint64_t size_bytes) noexcept nogil:
    cdef SimFile* file = _named(disk, name)
    if file == NULL or size_bytes > file.cached.size:
        return NOT_FOUND
    file.cached.resize(size_bytes)
    if file.durable.size > size_bytes:
        file.durable.resize(size_bytes)
    return OK


cdef status_t sim_disk_forget(SimDisk* disk, const char* name) noexcept nogil:
    if _find_name(&disk.names, name) == NULL:
        return NOT_FOUND
    _unbind(&disk.names, name)
    _unbind(&disk.durable_names, name)
    return OK


cdef const Vec[uint8_t]* sim_disk_durable(SimDisk* disk, const char* name) noexcept nogil:
    cdef SimName* found = _find_name(&disk.durable_names, name)
    if found == NULL:
        return NULL
    return &disk.files.data[found.file].durable
