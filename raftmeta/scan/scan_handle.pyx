"""The rows of sealed files and of messages for Python: statuses and buffers. Nothing here looks at a row."""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.machine.dump cimport DUMP_LEASE, DumpHead, DumpLease
from raftmeta.native.containers cimport Vec
from raftmeta.raft.membership cimport membership_decode
from raftmeta.raft.types cimport Member, Membership
from raftmeta.scan.change_rows cimport ChangeRows, change_rows_begin, change_rows_next, change_rows_release
from raftmeta.scan.columns cimport (COLUMN_KEY, NUMBER_COLUMNS, TEXT_COLUMNS, Columns, TextColumn, columns_clear,
                                    columns_release)
from raftmeta.scan.message_rows cimport Feed, feed_release, feed_take, page_take
from raftmeta.scan.snapshot_rows cimport (Mark, SnapshotRows, changes_begin, changes_next, history_survey, keys_begin,
                                          keys_next, rows_close, rows_first, rows_open, rows_record)
from raftmeta.status cimport NO_MEMORY, NOT_FOUND, OK, status_t

from raftmeta.common.text import shown


cdef bytes _bytes_of(const void* data, size_t size):
    return PyBytes_FromStringAndSize(<const char*>data, <Py_ssize_t>size)


cdef int _set(Vec[uint8_t]* into, bytes text) except -1:
    into.clear()
    if not into.append(<const uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)):
        raise MemoryError
    return 0


cdef class ColumnsHandle:
    cdef Columns columns

    def __cinit__(self, uint32_t wanted):
        memset(<void*>&self.columns, 0, sizeof(Columns))
        self.columns.wanted = wanted

    def __dealloc__(self):
        columns_release(&self.columns)

    @property
    def rows(self):
        return self.columns.rows

    @property
    def byte_count(self):
        return self.columns.bytes

    def take(self):
        cdef TextColumn* text
        cdef int i
        taken = {}
        for i in range(NUMBER_COLUMNS):
            if self.columns.wanted & (1 << i):
                values = _bytes_of(self.columns.numbers[i].values.data, self.columns.rows * sizeof(uint64_t))
                taken[i] = (0, (None, values))
        for i in range(TEXT_COLUMNS):
            if self.columns.wanted & (1 << (COLUMN_KEY + i)):
                text = &self.columns.texts[i]
                taken[COLUMN_KEY + i] = (text.nulls, (
                    _bytes_of(text.valid.data, text.valid.size) if text.nulls else None,
                    _bytes_of(text.offsets.data, text.offsets.size * sizeof(uint32_t)),
                    _bytes_of(text.bytes.data, text.bytes.size)))
        columns_clear(&self.columns)
        return taken


cdef class SnapshotHandle:
    cdef SnapshotRows rows
    cdef ChangeRows changes

    def __cinit__(self):
        memset(<void*>&self.rows, 0, sizeof(SnapshotRows))
        memset(<void*>&self.changes, 0, sizeof(ChangeRows))
        self.rows.disk.directory = self.rows.disk.lock = -1

    def __dealloc__(self):
        change_rows_release(&self.changes)
        rows_close(&self.rows)

    def open(self, str path not None):
        cdef bytes folder = os.fsencode(os.path.dirname(os.path.abspath(path)))
        cdef bytes name = os.fsencode(os.path.basename(path))
        cdef const char* folder_text = folder
        cdef const char* name_text = name
        cdef status_t status
        if self.rows.disk.directory != -1:
            raise ValueError("this handle was opened already")
        with nogil:
            status = rows_open(&self.rows, folder_text, name_text)
        return status

    @property
    def offset(self):
        return self.rows.reader.offset

    def facts(self):
        return {
            "index": self.rows.reader.header.point.index,
            "cluster_id": f"{self.rows.reader.header.cluster_high:016x}{self.rows.reader.header.cluster_low:016x}",
            "revision": self.rows.state.revision,
            "compacted": self.rows.state.compacted,
            "lease_ms": self.rows.state.lease_ms,
            "wall_ms": self.rows.reader.header.wall_ms,
            "digest": f"{self.rows.reader.footer.hash_high:016x}{self.rows.reader.footer.hash_low:016x}",
        }

    def members(self):
        cdef Membership membership
        cdef Member* member
        cdef int i
        cdef status_t status = membership_decode(self.rows.reader.membership.data,
                                                 <uint32_t>self.rows.reader.membership.size, &membership)
        found = []
        for i in range(membership.count if status == OK else 0):
            member = &membership.members[i]
            found.append((shown(member.name[:member.name_length]), member.id,
                          shown(member.address[:member.address_length]), member.roles))
        return status, found

    def leases(self):
        cdef const DumpHead* head = NULL
        cdef const uint8_t* body = NULL
        cdef const DumpLease* lease
        cdef status_t status = rows_first(&self.rows)
        found = []
        while status == OK:
            status = rows_record(&self.rows, &head, &body)
            if status != OK or head.kind > DUMP_LEASE:
                break
            if head.kind == DUMP_LEASE and head.length >= sizeof(DumpLease):
                lease = <const DumpLease*>body
                found.append((lease.id, lease.ttl_ms, lease.deadline_ms,
                              _bytes_of(body + sizeof(DumpLease), head.length - sizeof(DumpLease))))
        return OK if status == NOT_FOUND else status, found

    def survey(self, size_t bytes_each):
        cdef Vec[Mark] marks
        cdef Vec[uint8_t] cuts
        cdef uint32_t length
        cdef size_t at = 0
        cdef size_t i
        cdef status_t status
        memset(&marks, 0, sizeof(marks))
        memset(&cuts, 0, sizeof(cuts))
        try:
            with nogil:
                status = history_survey(&self.rows, bytes_each, &marks, &cuts)
            found = [(marks.data[i].place, marks.data[i].revision) for i in range(marks.size)]
            keys = []
            while at < cuts.size:
                memcpy(&length, cuts.data + at, sizeof(uint32_t))
                keys.append(_bytes_of(cuts.data + at + sizeof(uint32_t), length))
                at += sizeof(uint32_t) + length
            return status, found, keys
        finally:
            marks.release()
            cuts.release()

    def keys_begin(self, bytes start not None, bytes stop not None, uint64_t revision):
        cdef status_t status
        _set(&self.rows.start, start)
        _set(&self.rows.stop, stop)
        with nogil:
            status = keys_begin(&self.rows, revision)
        return status

    def keys_next(self, ColumnsHandle into not None, size_t rows_max, size_t bytes_max):
        cdef status_t status
        with nogil:
            status = keys_next(&self.rows, &into.columns, rows_max, bytes_max)
        return status

    def changes_begin(self, bytes start not None, bytes stop not None, place, uint64_t low, uint64_t high):
        cdef bint is_first = place is None
        cdef size_t at = 0 if is_first else place
        cdef status_t status
        if at and at >= self.rows.places.size:
            raise ValueError(f"place: {at} of {self.rows.places.size}")
        _set(&self.rows.start, start)
        _set(&self.rows.stop, stop)
        with nogil:
            status = changes_begin(&self.rows, at, is_first, low, high)
        return status

    def changes_next(self, ColumnsHandle into not None, size_t rows_max, size_t bytes_max):
        cdef status_t status
        with nogil:
            status = changes_next(&self.rows, &into.columns, rows_max, bytes_max)
        return status

    def previous_begin(self, bytes start not None, bytes stop not None, uint64_t low, uint64_t high):
        cdef status_t status
        _set(&self.rows.start, start)
        _set(&self.rows.stop, stop)
        with nogil:
            status = change_rows_begin(&self.changes, &self.rows, low, high)
        return status

    def previous_next(self, ColumnsHandle into not None, size_t rows_max, size_t bytes_max):
        cdef status_t status
        with nogil:
            status = change_rows_next(&self.changes, &into.columns, rows_max, bytes_max)
        return status


cdef class FeedHandle:
    cdef Feed feed

    def __cinit__(self, uint64_t low, uint64_t high, bytes start not None, bytes stop not None):
        memset(<void*>&self.feed, 0, sizeof(Feed))
        self.feed.next_revision = low + 1
        self.feed.high = high
        _set(&self.feed.start, start)
        _set(&self.feed.stop, stop)

    def __dealloc__(self):
        feed_release(&self.feed)

    @property
    def next_revision(self):
        return self.feed.next_revision

    @property
    def told(self):
        return self.feed.told

    @property
    def is_whole(self):
        return self.feed.taken == 0

    def begin_again(self):
        self.feed.passed = 0

    def take(self, bytes body not None, ColumnsHandle into not None):
        cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(body)
        cdef size_t length = <size_t>PyBytes_GET_SIZE(body)
        cdef status_t status
        with nogil:
            status = feed_take(&self.feed, data, length, &into.columns)
        return status


def take_page(bytes body not None, uint64_t revision, ColumnsHandle into not None):
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(body)
    cdef size_t length = <size_t>PyBytes_GET_SIZE(body)
    cdef const uint8_t* key = NULL
    cdef uint32_t key_length = 0
    cdef bint more = False
    cdef status_t status
    with nogil:
        status = page_take(data, length, revision, &into.columns, &more, &key, &key_length)
    if status == NO_MEMORY:
        raise MemoryError
    return status, bool(more), _bytes_of(key, key_length) if status == OK and key != NULL else b""
