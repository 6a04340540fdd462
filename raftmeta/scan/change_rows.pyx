"""Changes of a sealed file with the records before them: bodies."""

from libc.stdint cimport uint8_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memset

from raftmeta.machine.dump cimport (DUMP_CHANGE, DUMP_REVISION, DumpHead, DumpRevision, DumpVersion,
                                    version_data_length)
from raftmeta.machine.tree cimport ENTRY_TOMBSTONE
from raftmeta.scan.columns cimport (COLUMN_CREATE_REVISION, COLUMN_LEASE, COLUMN_PREV_LEASE, COLUMN_PREV_REVISION,
                                    COLUMN_REVISION, COLUMN_SUB, COLUMN_TIME, COLUMN_VERSION, Row, columns_append)
from raftmeta.scan.snapshot_rows cimport (floor_seek, history_begin, rows_is_inside, rows_record, version_fill,
                                          versions_compare)
from raftmeta.status cimport CORRUPT, NO_MEMORY, NOT_FOUND, OK


cdef void change_rows_release(ChangeRows* held) noexcept nogil:
    held.changes.release()
    held.by_key.release()
    held.from_floor.release()
    held.history_bytes.release()
    held.floor_bytes.release()


cdef status_t change_rows_begin(ChangeRows* held, SnapshotRows* rows, uint64_t low, uint64_t high) noexcept nogil:
    cdef status_t status
    held.changes.clear()
    held.by_key.clear()
    held.from_floor.clear()
    held.history_bytes.clear()
    held.floor_bytes.clear()
    held.next = 0
    status = _read_history(held, rows, high)
    if status == OK:
        status = _find_previous(held, low)
    if status == OK:
        status = _read_floor(held, rows)
    while status == OK and held.next < held.changes.size and held.changes.data[held.next].revision <= low:
        held.next += 1
    return status


# --- the history ------------------------------------------------------------------------------------------------------
cdef status_t _read_history(ChangeRows* held, SnapshotRows* rows, uint64_t high) noexcept nogil:
    cdef const DumpHead* head = NULL
    cdef const uint8_t* body = NULL
    cdef Change change
    cdef uint64_t left = 0
    cdef status_t status = history_begin(rows)
    memset(&change, 0, sizeof(Change))
    change.revision = rows.state.compacted
    while status == OK and (change.revision < high or left):
        status = rows_record(rows, &head, &body)
        if status != OK:
            return CORRUPT if status == NOT_FOUND else status
        if head.kind == DUMP_REVISION:
            if left or (<const DumpRevision*>body).revision != change.revision + 1:
                return CORRUPT
            change.revision += 1
            change.wall_ms = (<const DumpRevision*>body).wall_ms
            left = (<const DumpRevision*>body).count
            change.sub = 0
        elif head.kind == DUMP_CHANGE:
            if left == 0:
                return CORRUPT
            if rows_is_inside(rows, body) and not _hold(held, &change, body, head.length):
                return NO_MEMORY
            left -= 1
            change.sub += 1
        elif head.kind > DUMP_CHANGE:
            return CORRUPT                      # the history ends before `high`
    return status


cdef bint _hold(ChangeRows* held, Change* change, const uint8_t* body, size_t length) noexcept nogil:
    change.version = <const uint8_t*>held.history_bytes.size
    return held.changes.push(change[0]) and held.history_bytes.append(body, length)


# --- what was before --------------------------------------------------------------------------------------------------
cdef int _by_key(const void* left, const void* right) noexcept nogil:
    cdef const Change* a = (<const Change**>left)[0]
    cdef const Change* b = (<const Change**>right)[0]
    cdef int found = versions_compare(a.version, b.version)
    return found if found else (a > b) - (a < b)


cdef inline bint _is_tombstone(const uint8_t* version) noexcept nogil:
    return (<const DumpVersion*>version).flags & ENTRY_TOMBSTONE != 0


# Changes of one key follow one another. A key that its first change created was not at the floor.
cdef status_t _find_previous(ChangeRows* held, uint64_t low) noexcept nogil:
    cdef Change* change
    cdef Change* before = NULL
    cdef size_t i
    for i in range(held.changes.size):
        change = &held.changes.data[i]
        change.version = held.history_bytes.data + <size_t>change.version
        if not held.by_key.push(change):
            return NO_MEMORY
    if held.by_key.size:
        qsort(held.by_key.data, held.by_key.size, sizeof(Change*), _by_key)
    for i in range(held.by_key.size):
        change = held.by_key.data[i]
        if before != NULL and versions_compare(before.version, change.version) == 0:
            if not _is_tombstone(before.version):
                change.previous = before.version
        elif change.revision > low and (_is_tombstone(change.version) or (<const DumpVersion*>change.version)
                                        .create_revision != change.revision):
            if not held.from_floor.push(change):
                return NO_MEMORY
        before = change
    return OK


cdef status_t _read_floor(ChangeRows* held, SnapshotRows* rows) noexcept nogil:
    cdef const DumpVersion* version
    cdef Change* change
    cdef size_t reached = 0
    cdef size_t i
    cdef status_t status
    for i in range(held.from_floor.size):
        change = held.from_floor.data[i]
        status = floor_seek(rows, change.version, &reached)
        if status != OK:
            return status
        if rows.key == NULL or versions_compare(rows.key, change.version) != 0:
            return CORRUPT                      # only an existing key is deleted, or changed without being created
        version = <const DumpVersion*>rows.key
        change.previous = <const uint8_t*>held.floor_bytes.size
        if not held.floor_bytes.append(rows.key, sizeof(DumpVersion) + version.key_length + version.value_length):
            return NO_MEMORY
    for i in range(held.from_floor.size):
        change = held.from_floor.data[i]
        change.previous = held.floor_bytes.data + <size_t>change.previous
    return OK


# --- rows -------------------------------------------------------------------------------------------------------------
cdef void _fill_previous(const uint8_t* previous, Row* row) noexcept nogil:
    cdef const DumpVersion* version = <const DumpVersion*>previous
    row.numbers[COLUMN_PREV_REVISION] = version.mod_revision if previous != NULL else 0
    row.numbers[COLUMN_PREV_LEASE] = version.lease if previous != NULL else 0
    row.previous_length = version_data_length(version) if previous != NULL else 0
    row.previous = previous + sizeof(DumpVersion) + version.key_length if previous != NULL else NULL


cdef status_t change_rows_next(ChangeRows* held, Columns* columns, size_t rows_max, size_t bytes_max) noexcept nogil:
    cdef const Change* change
    cdef Row row
    memset(&row, 0, sizeof(Row))
    while columns.rows < rows_max and columns.bytes < bytes_max:
        if held.next == held.changes.size:
            return NOT_FOUND
        change = &held.changes.data[held.next]
        version_fill(change.version, &row)
        _fill_previous(change.previous, &row)
        row.numbers[COLUMN_REVISION] = change.revision
        row.numbers[COLUMN_SUB] = change.sub
        row.numbers[COLUMN_TIME] = change.wall_ms * 1000
        if row.is_delete:
            row.numbers[COLUMN_CREATE_REVISION] = row.numbers[COLUMN_VERSION] = row.numbers[COLUMN_LEASE] = 0
        if not columns_append(columns, &row):
            return NO_MEMORY
        held.next += 1
    return OK
