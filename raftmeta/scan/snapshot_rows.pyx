"""Rows out of a sealed file: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport qsort
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.dump cimport (DUMP_CHANGE, DUMP_KEY, DUMP_REVISION, DUMP_STATE, FORMAT_DUMP_VERSION,
                                    DumpHead, DumpRevision, DumpState, DumpVersion, version_data_length,
                                    version_is_whole)
from raftmeta.machine.tree cimport ENTRY_TOMBSTONE
from raftmeta.scan.columns cimport (COLUMN_CREATE_REVISION, COLUMN_LEASE, COLUMN_MOD_REVISION, COLUMN_REVISION,
                                    COLUMN_SUB, COLUMN_TIME, COLUMN_VERSION, Columns, Row, columns_append)
from raftmeta.status cimport CORRUPT, NEWER_FORMAT, NO_MEMORY, NOT_FOUND, OK, status_t
from raftmeta.storage.disk cimport real_disk_close, real_disk_open, real_disk_port
from raftmeta.storage.sealed cimport (SealedSplit, sealed_close, sealed_next, sealed_open, sealed_seek)


# --- records ----------------------------------------------------------------------------------------------------------
cdef status_t rows_open(SnapshotRows* rows, const char* folder, const char* name) noexcept nogil:
    cdef status_t status = real_disk_open(&rows.disk, folder)
    if status != OK:
        return status
    rows.port = real_disk_port(&rows.disk)
    status = sealed_open(&rows.reader, &rows.port, name)
    if status == OK:
        status = _read_places(rows)
    return status if status != OK else _read_state(rows)


cdef void rows_close(SnapshotRows* rows) noexcept nogil:
    sealed_close(&rows.reader)
    real_disk_close(&rows.disk)
    rows.places.release()
    rows.start.release()
    rows.stop.release()
    rows.overlay_bytes.release()
    rows.overlay.release()


# One walk for all: sealed_split walks from the first split each time.
cdef status_t _read_places(SnapshotRows* rows) noexcept nogil:
    cdef SealedSplit split
    cdef Place place
    cdef size_t at = 0
    cdef size_t size = rows.reader.splits.size
    cdef uint32_t position
    for position in range(rows.reader.footer.splits):
        if size - at < sizeof(SealedSplit):
            return CORRUPT
        memcpy(&split, rows.reader.splits.data + at, sizeof(SealedSplit))
        at += sizeof(SealedSplit)
        if split.key_length > size - at:
            return CORRUPT
        place.position = position
        place.key = at
        place.key_length = split.key_length
        at += split.key_length
        if place.key_length:
            if rows.key_places != rows.places.size:
                return CORRUPT              # a key behind a revision
            rows.key_places += 1
        if not rows.places.push(place):
            return NO_MEMORY
    return OK


cdef status_t _read_state(SnapshotRows* rows) noexcept nogil:
    cdef const DumpHead* head = NULL
    cdef const uint8_t* body = NULL
    cdef status_t status = rows_record(rows, &head, &body)
    if status != OK:
        return CORRUPT if status == NOT_FOUND else status
    if head.kind != DUMP_STATE or head.length < sizeof(DumpState):
        return CORRUPT
    memcpy(&rows.state, body, sizeof(DumpState))
    if rows.state.version > FORMAT_DUMP_VERSION:
        return NEWER_FORMAT
    return OK if rows.state.compacted <= rows.state.revision else CORRUPT


cdef status_t rows_first(SnapshotRows* rows) noexcept nogil:
    rows.at = rows.end = NULL
    rows.reader.chunk = 0
    rows.reader.offset = rows.reader.header.header_bytes
    rows.reader.crcs.clear()
    return OK


cdef status_t _rows_seek(SnapshotRows* rows, size_t place) noexcept nogil:
    rows.at = rows.end = NULL
    return sealed_seek(&rows.reader, rows.places.data[place].position)


cdef status_t rows_record(SnapshotRows* rows, const DumpHead** head, const uint8_t** body) noexcept nogil:
    cdef uint32_t length = 0
    cdef size_t left
    cdef status_t status
    while rows.at == rows.end:
        status = sealed_next(&rows.reader, &rows.at, &length)
        if status != OK:
            rows.at = rows.end = NULL
            return status
        rows.end = rows.at + length
    left = <size_t>(rows.end - rows.at)
    if left < sizeof(DumpHead) or (<const DumpHead*>rows.at).length > left - sizeof(DumpHead):
        return CORRUPT
    head[0] = <const DumpHead*>rows.at
    body[0] = rows.at + sizeof(DumpHead)
    rows.at = body[0] + head[0].length
    return _check_record(head[0], body[0])


# The lengths inside a version must match the length of its record.
cdef inline status_t _check_record(const DumpHead* head, const uint8_t* body) noexcept nogil:
    cdef const DumpVersion* version = <const DumpVersion*>body
    if head.kind == DUMP_REVISION:
        return OK if head.length == sizeof(DumpRevision) else CORRUPT
    if head.kind != DUMP_KEY and head.kind != DUMP_CHANGE:
        return OK
    if (head.length < sizeof(DumpVersion) or version.key_length == 0
            or head.length - sizeof(DumpVersion) != <uint64_t>version.key_length + version.value_length):
        return CORRUPT
    return OK if version_is_whole(version) else CORRUPT


# --- order ------------------------------------------------------------------------------------------------------------
cdef inline const uint8_t* _key_of(const uint8_t* version) noexcept nogil:
    return version + sizeof(DumpVersion)


cdef inline uint32_t _length_of(const uint8_t* version) noexcept nogil:
    return (<const DumpVersion*>version).key_length


cdef inline int _compare(const uint8_t* left, size_t left_length, const uint8_t* right,
                         size_t right_length) noexcept nogil:
    cdef size_t shorter = min(left_length, right_length)
    cdef int found = memcmp(left, right, shorter) if shorter else 0
    return found if found else (left_length > right_length) - (left_length < right_length)


cdef inline bint _is_before_start(const SnapshotRows* rows, const uint8_t* version) noexcept nogil:
    return _compare(_key_of(version), _length_of(version), rows.start.data, rows.start.size) < 0


cdef inline bint _is_behind(const SnapshotRows* rows, const uint8_t* version) noexcept nogil:
    return rows.stop.size and _compare(_key_of(version), _length_of(version), rows.stop.data, rows.stop.size) >= 0


cdef bint rows_is_inside(const SnapshotRows* rows, const uint8_t* version) noexcept nogil:
    return not _is_before_start(rows, version) and not _is_behind(rows, version)


cdef int versions_compare(const uint8_t* left, const uint8_t* right) noexcept nogil:
    return _compare(_key_of(left), _length_of(left), _key_of(right), _length_of(right))


cdef int _by_key_and_order(const void* left, const void* right) noexcept nogil:
    cdef const Overlay* a = <const Overlay*>left
    cdef const Overlay* b = <const Overlay*>right
    cdef int found = versions_compare(a.version, b.version)
    return found if found else (a.order > b.order) - (a.order < b.order)


# --- keys at a revision -----------------------------------------------------------------------------------------------
cdef status_t history_begin(SnapshotRows* rows) noexcept nogil:
    # The chunk that the last key begins may also hold the first revisions.
    return _rows_seek(rows, rows.key_places - 1) if rows.key_places else rows_first(rows)


cdef status_t keys_begin(SnapshotRows* rows, uint64_t revision) noexcept nogil:
    cdef status_t status = OK
    rows.revision = revision
    rows.overlay.clear()
    rows.overlay_bytes.clear()
    rows.next_overlay = 0
    if revision > rows.state.compacted:
        status = _read_overlay(rows)
    if status == OK:
        status = _seek_start(rows)
    return status if status != OK else _next_key(rows)


cdef status_t _read_overlay(SnapshotRows* rows) noexcept nogil:
    cdef const DumpHead* head = NULL
    cdef const uint8_t* body = NULL
    cdef uint64_t expected = rows.state.compacted + 1
    cdef status_t status = history_begin(rows)
    while status == OK:
        status = rows_record(rows, &head, &body)
        if status != OK:
            break
        if head.kind == DUMP_REVISION:
            if (<const DumpRevision*>body).revision != expected:
                return CORRUPT
            if expected > rows.revision:
                return _sort_overlay(rows)
            expected += 1
        elif head.kind > DUMP_CHANGE:
            break
        elif head.kind == DUMP_CHANGE and rows_is_inside(rows, body) and not _overlay(rows, body, head.length):
            return NO_MEMORY
    if status != OK and status != NOT_FOUND:
        return status
    return _sort_overlay(rows) if expected == rows.revision + 1 else CORRUPT


cdef bint _overlay(SnapshotRows* rows, const uint8_t* body, size_t length) noexcept nogil:
    cdef Overlay item
    item.version = <const uint8_t*>rows.overlay_bytes.size
    item.order = rows.overlay.size
    return rows.overlay.push(item) and rows.overlay_bytes.append(body, length)


# Sort by key and keep one of each: the last change.
cdef status_t _sort_overlay(SnapshotRows* rows) noexcept nogil:
    cdef size_t kept = 0
    cdef size_t i
    cdef Overlay* items = rows.overlay.data
    for i in range(rows.overlay.size):
        items[i].version = rows.overlay_bytes.data + <size_t>items[i].version
    if rows.overlay.size == 0:
        return OK
    qsort(items, rows.overlay.size, sizeof(Overlay), _by_key_and_order)
    for i in range(rows.overlay.size):
        if i + 1 < rows.overlay.size and versions_compare(items[i].version, items[i + 1].version) == 0:
            continue
        items[kept] = items[i]
        kept += 1
    rows.overlay.size = kept
    return OK


# The number of places whose key is not behind this one.
cdef size_t _places_up_to(const SnapshotRows* rows, const uint8_t* key, size_t length) noexcept nogil:
    cdef size_t low = 0
    cdef size_t high = rows.key_places
    cdef size_t middle
    cdef const Place* place
    while low < high:
        middle = (low + high) // 2
        place = &rows.places.data[middle]
        if _compare(rows.reader.splits.data + place.key, place.key_length, key, length) <= 0:
            low = middle + 1
        else:
            high = middle
    return low


# Go to the last place whose key is not behind the start.
cdef status_t _seek_start(SnapshotRows* rows) noexcept nogil:
    cdef size_t places = _places_up_to(rows, rows.start.data, rows.start.size)
    return _rows_seek(rows, places - 1) if places else rows_first(rows)


cdef status_t _next_key(SnapshotRows* rows) noexcept nogil:
    cdef const DumpHead* head = NULL
    cdef status_t status = OK
    rows.is_at_end = False
    while status == OK:
        status = rows_record(rows, &head, &rows.key)
        if status == OK and head.kind == DUMP_KEY and _is_before_start(rows, rows.key):
            continue
        if status == OK and head.kind < DUMP_KEY:
            continue
        if status == OK and head.kind == DUMP_KEY and not _is_behind(rows, rows.key):
            return OK
        break
    rows.key = NULL
    rows.is_at_end = True
    return CORRUPT if status == NOT_FOUND else status   # behind the keys comes at least the end


cdef status_t floor_seek(SnapshotRows* rows, const uint8_t* version, size_t* reached) noexcept nogil:
    cdef status_t status = OK
    cdef size_t places = _places_up_to(rows, _key_of(version), _length_of(version))
    if places + 1 > reached[0]:                 # 0: nothing was read yet
        reached[0] = places + 1
        status = _rows_seek(rows, places - 1) if places else rows_first(rows)
        if status == OK:
            status = _next_key(rows)
    while status == OK and rows.key != NULL and versions_compare(rows.key, version) < 0:
        status = _next_key(rows)
    return status


cdef void version_fill(const uint8_t* version, Row* row) noexcept nogil:
    cdef const DumpVersion* fields = <const DumpVersion*>version
    row.numbers[COLUMN_CREATE_REVISION] = fields.create_revision
    row.numbers[COLUMN_MOD_REVISION] = fields.mod_revision
    row.numbers[COLUMN_VERSION] = fields.version
    row.numbers[COLUMN_LEASE] = fields.lease
    row.is_delete = fields.flags & ENTRY_TOMBSTONE != 0
    row.key = version + sizeof(DumpVersion)
    row.key_length = fields.key_length
    row.value = row.key + fields.key_length
    row.value_length = version_data_length(fields)


cdef status_t keys_next(SnapshotRows* rows, Columns* columns, size_t rows_max, size_t bytes_max) noexcept nogil:
    cdef Row row
    cdef const uint8_t* newer
    cdef int order
    cdef status_t status = OK
    memset(&row, 0, sizeof(Row))
    row.numbers[COLUMN_REVISION] = rows.revision
    while status == OK and columns.rows < rows_max and columns.bytes < bytes_max:
        newer = NULL
        if rows.next_overlay < rows.overlay.size:
            newer = rows.overlay.data[rows.next_overlay].version
        if newer == NULL and rows.key == NULL:
            return NOT_FOUND
        order = -1 if newer == NULL else 1
        if newer != NULL and rows.key != NULL:
            order = _compare(_key_of(rows.key), _length_of(rows.key), _key_of(newer), _length_of(newer))
        version_fill(rows.key if order < 0 else newer, &row)
        if not row.is_delete and not columns_append(columns, &row):
            return NO_MEMORY
        if order >= 0:
            rows.next_overlay += 1
        if order <= 0:
            status = _next_key(rows)
    return status


# --- changes ----------------------------------------------------------------------------------------------------------
cdef status_t changes_begin(SnapshotRows* rows, size_t place, bint is_first, uint64_t low,
                            uint64_t high) noexcept nogil:
    rows.low = low
    rows.revision = high
    rows.change_revision = rows.changes_left = 0
    return history_begin(rows) if is_first else _rows_seek(rows, place)


# A revision follows the one before it, which is whole. The first one is at or before the one behind `low`.
cdef status_t _begin_revision(SnapshotRows* rows, const DumpRevision* revision) noexcept nogil:
    if rows.changes_left:
        return CORRUPT
    if rows.change_revision == 0:
        if revision.revision > rows.low + 1:
            return CORRUPT
    elif revision.revision != rows.change_revision + 1:
        return CORRUPT
    rows.change_revision = revision.revision
    rows.change_wall_ms = revision.wall_ms
    rows.changes_left = revision.count
    rows.next_sub = 0
    return OK


cdef status_t changes_next(SnapshotRows* rows, Columns* columns, size_t rows_max, size_t bytes_max) noexcept nogil:
    cdef const DumpHead* head = NULL
    cdef const uint8_t* body = NULL
    cdef Row row
    cdef uint64_t sub = 0
    cdef status_t status = OK
    memset(&row, 0, sizeof(Row))
    while columns.rows < rows_max and columns.bytes < bytes_max:
        if rows.change_revision >= rows.revision and rows.changes_left == 0:
            return NOT_FOUND if rows.change_revision == rows.revision else CORRUPT
        status = rows_record(rows, &head, &body)
        if status != OK:
            return CORRUPT if status == NOT_FOUND else status
        if head.kind == DUMP_REVISION:
            status = _begin_revision(rows, <const DumpRevision*>body)
            if status != OK:
                return status
        elif head.kind == DUMP_CHANGE:
            if rows.changes_left == 0:
                return CORRUPT
            sub = rows.next_sub
            rows.next_sub += 1
            rows.changes_left -= 1
            if rows.change_revision <= rows.low or not rows_is_inside(rows, body):
                continue
            version_fill(body, &row)
            row.numbers[COLUMN_REVISION] = rows.change_revision
            row.numbers[COLUMN_SUB] = sub
            row.numbers[COLUMN_TIME] = rows.change_wall_ms * 1000
            if row.is_delete:
                row.numbers[COLUMN_CREATE_REVISION] = row.numbers[COLUMN_VERSION] = row.numbers[COLUMN_LEASE] = 0
            if not columns_append(columns, &row):
                return NO_MEMORY
        elif head.kind > DUMP_CHANGE:
            return CORRUPT                      # the history ends before `high`
    return OK


# --- where to cut -----------------------------------------------------------------------------------------------------
cdef bint _cut(Vec[uint8_t]* cuts, const uint8_t* key, uint32_t length) noexcept nogil:
    return cuts.append(<const uint8_t*>&length, sizeof(uint32_t)) and cuts.append(key, length)


cdef bint _cut_keys(SnapshotRows* rows, Vec[uint8_t]* cuts) noexcept nogil:
    cdef const Place* place
    cdef size_t i
    for i in range(rows.key_places):
        place = &rows.places.data[i]
        if not _cut(cuts, rows.reader.splits.data + place.key, place.key_length):
            return False
    return True


cdef status_t history_survey(SnapshotRows* rows, size_t bytes_each, Vec[Mark]* marks,
                             Vec[uint8_t]* cuts) noexcept nogil:
    cdef const DumpHead* head = NULL
    cdef const uint8_t* body = NULL
    cdef size_t passed = 0
    cdef size_t place = rows.key_places
    cdef Mark mark
    cdef bint is_kept = _cut_keys(rows, cuts)
    cdef status_t status = history_begin(rows)
    while status == OK and is_kept:
        status = rows_record(rows, &head, &body)
        if status != OK or head.kind > DUMP_CHANGE:
            break
        if head.kind == DUMP_REVISION and place < rows.places.size and _is_at(rows, place, body):
            mark.place = <uint32_t>place
            mark.revision = (<const DumpRevision*>body).revision
            is_kept = marks.push(mark)
            place += 1
        elif head.kind == DUMP_CHANGE:
            passed += head.length
            if passed >= bytes_each:
                passed = 0
                is_kept = _cut(cuts, _key_of(body), _length_of(body))
    if not is_kept:
        return NO_MEMORY
    return OK if status == NOT_FOUND else status


# Does the record open the chunk of that place? The chunk's number must be the split's, and the record its first.
cdef bint _is_at(const SnapshotRows* rows, size_t place, const uint8_t* body) noexcept nogil:
    cdef SealedSplit split
    memcpy(&split, rows.reader.splits.data + rows.places.data[place].key - sizeof(SealedSplit), sizeof(SealedSplit))
    return (split.chunk + 1 == rows.reader.chunk
            and body == rows.reader.bytes.data + sizeof(DumpHead))
