"""Disks and the log as Python objects, for tests and benchmarks."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.native.chunks cimport Slice, chunk_drop
from raftmeta.native.containers cimport Vec
from raftmeta.ports cimport FileName, file_t
from raftmeta.raft.record cimport RECORD_HEAD_BYTES, record_bytes, record_seal
from raftmeta.raft.types cimport FORMAT_RECORD_VERSION, HardState, Record, SnapshotPoint
from raftmeta.status cimport OK, status_t
from raftmeta.storage cimport storage_handle
from raftmeta.storage cimport wal as log
from raftmeta.storage.disk cimport real_disk_close_in_child
from raftmeta.storage.extents cimport extents_check
from raftmeta.storage.storage_handle cimport Disk, check_disk, name_text
from raftmeta.storage.wal_state cimport Wal, WalLimits


# --- disks ------------------------------------------------------------------------------------------------------------
class DiskCalls:
    """The calls of a DiskPort as methods; `self` is also a raftmeta.storage.storage_handle.Disk."""

    def open(self, str name, *, bint create=False):
        cdef Disk disk = self
        cdef file_t file
        cdef bytes encoded = name_text(name)
        check_disk(disk.port.open(disk.port.self, encoded, create, &file))
        return file

    def close_file(self, file_t file):
        cdef Disk disk = self
        disk.port.close(disk.port.self, file)

    def size(self, file_t file):
        cdef Disk disk = self
        cdef uint64_t size_bytes = 0
        check_disk(disk.port.size(disk.port.self, file, &size_bytes))
        return size_bytes

    def read(self, file_t file, uint64_t offset, size_t length):
        cdef Disk disk = self
        cdef size_t got = 0
        cdef bytearray into = bytearray(length)
        check_disk(disk.port.read(disk.port.self, file, offset, into, length, &got))
        return bytes(into[:got])

    def write(self, file_t file, uint64_t offset, *parts):
        cdef Disk disk = self
        cdef Vec[Slice] slices
        cdef Slice part
        cdef status_t status = OK
        memset(<void*>&slices, 0, sizeof(slices))
        memset(<void*>&part, 0, sizeof(part))
        for data in parts:
            part.data = <uint8_t*>(<bytes>data)
            part.length = <uint32_t>len(data)
            if not slices.push(part):
                raise MemoryError
        status = disk.port.write(disk.port.self, file, offset, slices.data, slices.size)
        slices.release()
        check_disk(status)

    def sync(self, file_t file):
        cdef Disk disk = self
        check_disk(disk.port.sync(disk.port.self, file))

    def truncate(self, file_t file, uint64_t size_bytes):
        cdef Disk disk = self
        check_disk(disk.port.truncate(disk.port.self, file, size_bytes))

    def rename(self, str source, str target):
        cdef Disk disk = self
        cdef bytes first = name_text(source)
        cdef bytes second = name_text(target)
        check_disk(disk.port.rename(disk.port.self, first, second))

    def remove(self, str name):
        cdef Disk disk = self
        cdef bytes encoded = name_text(name)
        check_disk(disk.port.remove(disk.port.self, encoded))

    def sync_directory(self):
        cdef Disk disk = self
        check_disk(disk.port.sync_directory(disk.port.self))

    def list_names(self):
        cdef Disk disk = self
        cdef Vec[FileName] names
        cdef size_t i
        cdef list found = []
        memset(<void*>&names, 0, sizeof(names))
        status = disk.port.list_names(disk.port.self, &names)
        for i in range(names.size):
            found.append(names.data[i].text.decode())
        names.release()
        check_disk(status)
        return sorted(found)

    def free_bytes(self):
        cdef Disk disk = self
        cdef uint64_t free_bytes = 0
        check_disk(disk.port.free_bytes(disk.port.self, &free_bytes))
        return free_bytes


class FolderDisk(DiskCalls, storage_handle.FolderDisk):
    """A folder of the file system; created when it does not exist."""

    def close_in_child(self):
        cdef storage_handle.FolderDisk disk = self
        real_disk_close_in_child(&disk.disk)


# --- records ----------------------------------------------------------------------------------------------------------
def make_record(uint64_t index, uint64_t term, bytes payload, *, uint64_t previous_chain=0):
    cdef bytearray made = bytearray(record_bytes(<uint32_t>len(payload)))
    cdef Record* record = <Record*><uint8_t*>made
    made[RECORD_HEAD_BYTES : RECORD_HEAD_BYTES + len(payload)] = payload
    record = <Record*><uint8_t*>made
    record.length = <uint32_t>len(payload)
    record.index = index
    record.term = term
    record.type = 2
    record.version = FORMAT_RECORD_VERSION
    record_seal(record, previous_chain)
    return bytes(made), record.chain


def split_records(bytes data):
    cdef const Record* record
    cdef size_t offset = 0
    cdef list found = []
    while offset + RECORD_HEAD_BYTES <= <size_t>len(data):
        record = <const Record*>(<const uint8_t*>data + offset)
        found.append(data[offset : offset + record_bytes(record.length)])
        offset += record_bytes(record.length)
    return found


def record_fields(bytes data):
    cdef const Record* record = <const Record*><const uint8_t*>data
    return record.index, record.term, record.chain, data[RECORD_HEAD_BYTES : RECORD_HEAD_BYTES + record.length]


# --- log --------------------------------------------------------------------------------------------------------------
class OpenedLog:
    __slots__ = ("damaged", "dropped_bytes", "first", "hard_state", "last", "membership", "membership_index", "records",
                 "start", "state", "status")


cdef class WalHandle:
    cdef Wal* wal
    cdef Disk disk

    def __cinit__(self, Disk disk, *, uint32_t segment_bytes=65536, uint64_t log_bytes_max=0, uint64_t reserve_bytes=0,
                  uint32_t alignment_bytes=512, uint64_t owner=0, uint64_t void_owner=0, uint64_t seed=1):
        cdef WalLimits limits
        memset(&limits, 0, sizeof(WalLimits))
        limits.segment_bytes = segment_bytes
        limits.log_bytes_max = log_bytes_max
        limits.reserve_bytes = reserve_bytes
        limits.alignment_bytes = alignment_bytes
        limits.owner = owner
        limits.void_owner = void_owner
        self.disk = disk
        self.wal = log.wal_create(&disk.port, &limits, seed)
        if self.wal == NULL:
            raise MemoryError

    def __dealloc__(self):
        log.wal_destroy(self.wal)

    @property
    def broken(self):
        return self.wal.broken.what, self.wal.broken.a, self.wal.broken.b

    def close(self):
        log.wal_destroy(self.wal)
        self.wal = NULL

    def open(self):
        cdef log.WalOpened opened
        cdef size_t i
        found = OpenedLog()
        found.status = log.wal_open(self.wal, &opened)
        found.state = opened.state
        found.hard_state = (opened.hard_state.term, opened.hard_state.vote, opened.hard_state.committed)
        found.start = (opened.start.index, opened.start.term, opened.start.chain)
        found.membership = opened.membership[:opened.membership_length] if opened.membership_length else b""
        found.membership_index = opened.membership_index
        found.first = opened.first
        found.last = opened.last
        found.dropped_bytes = opened.dropped_bytes
        found.records = []
        for i in range(opened.slice_count):
            found.records += split_records(opened.slices[i].data[: opened.slices[i].length])
        found.damaged = [(opened.damaged[i].index, opened.damaged[i].chain) for i in range(opened.damaged_count)]
        log.wal_open_done(self.wal)
        return found

    def begin(self, point=(0, 0, 0), hard_state=(0, 0, 0), bytes membership=b"", uint64_t membership_index=0):
        cdef SnapshotPoint start
        cdef HardState state
        start.index, start.term, start.chain = point
        state.term, state.vote, state.committed = hard_state
        return log.wal_begin(self.wal, &start, &state, <const uint8_t*>membership, <uint32_t>len(membership),
                             membership_index)

    def append(self, uint64_t first, slices=(), *, last=None, hard_state=None, uint64_t write_id=0,
               bytes membership=b"", uint64_t membership_index=0, bint is_urgent=False, bint repairs=False):
        cdef log.WalBatch batch
        cdef Vec[Slice] parts
        cdef Slice part
        cdef status_t status
        memset(&batch, 0, sizeof(batch))
        memset(<void*>&parts, 0, sizeof(parts))
        memset(<void*>&part, 0, sizeof(part))
        for data in slices:
            part.data = <uint8_t*>(<bytes>data)
            part.length = <uint32_t>len(data)
            if not parts.push(part):
                raise MemoryError
        batch.first = first
        batch.last = last if last is not None else first + sum(len(split_records(data)) for data in slices) - 1
        batch.slices = parts.data
        batch.slice_count = <uint32_t>parts.size
        batch.write_id = write_id
        batch.has_hard_state = hard_state is not None
        if hard_state is not None:
            batch.hard_state.term, batch.hard_state.vote, batch.hard_state.committed = hard_state
        batch.membership = <const uint8_t*>membership
        batch.membership_length = <uint32_t>len(membership)
        batch.membership_index = membership_index
        batch.is_urgent = is_urgent
        batch.repairs = repairs
        with nogil:
            status = log.wal_append(self.wal, &batch)
        parts.release()
        return status

    def read(self, uint64_t index, uint32_t bytes_max=65536):
        cdef Slice records
        cdef status_t status = log.wal_read(self.wal, index, bytes_max, &records)
        if status != OK:
            return status, []
        found = split_records(records.data[: records.length])
        chunk_drop(records.chunk)
        return status, found

    def compact(self, point):
        cdef SnapshotPoint start
        start.index, start.term, start.chain = point
        return log.wal_compact(self.wal, &start)

    def prepare(self, uint32_t bytes_max=1 << 20):
        cdef bint is_complete = False
        cdef status_t status = log.wal_prepare(self.wal, bytes_max, &is_complete)
        return status, is_complete

    def idle(self):
        return log.wal_idle(self.wal)

    def check_runs(self):
        return extents_check(self.wal)

    def forget_run(self):
        self.wal.extents.pop()

    def number_segments_from(self, uint64_t number):
        self.wal.next_segment = number

    def free_bytes(self):
        return log.wal_free_bytes(self.wal)
