"""Rows out of messages of a node: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from raftmeta.machine.watches cimport WATCH_COMPACTED, WATCH_DELETE, WATCH_EVENTS, WATCH_PROGRESS_MARK
from raftmeta.scan.columns cimport (COLUMN_CREATE_REVISION, COLUMN_LEASE, COLUMN_MOD_REVISION, COLUMN_PREV_LEASE,
                                    COLUMN_PREV_REVISION, COLUMN_REVISION, COLUMN_SUB, COLUMN_TIME, COLUMN_VERSION,
                                    Row, columns_append)
from raftmeta.status cimport BAD_FIELD, COMPACTED, CORRUPT, NO_MEMORY, NOT_FOUND, OK, STALE, status_t
from raftmeta.wire.msgpack cimport (Reader, number_max, read_array, read_array_max, read_bin, read_bool, read_fail,
                                    read_left, read_nil, read_uint, reader_over, unsigned_max)

cdef enum:
    ITEM_ELEMENTS = 5
    EVENT_ELEMENTS = 3
    RECORD_ELEMENTS = 7


cdef uint32_t _any() noexcept nogil:
    return ~<uint32_t>0


cdef void _read_record(Reader* reader, Row* row) noexcept nogil:
    cdef uint32_t elements = read_array_max(reader, RECORD_ELEMENTS + 1)
    cdef uint32_t length
    if elements < RECORD_ELEMENTS:
        read_fail(reader, BAD_FIELD)
    row.key = read_bin(reader, _any(), &row.key_length)
    row.value = read_bin(reader, _any(), &row.value_length)
    row.numbers[COLUMN_CREATE_REVISION] = read_uint(reader, number_max())
    row.numbers[COLUMN_MOD_REVISION] = read_uint(reader, number_max())
    row.numbers[COLUMN_VERSION] = read_uint(reader, number_max())
    row.numbers[COLUMN_LEASE] = read_uint(reader, unsigned_max())
    read_uint(reader, unsigned_max())           # flags
    if elements > RECORD_ELEMENTS:
        read_bin(reader, _any(), &length)       # the extension of a znode


cdef inline int _compare(const uint8_t* left, size_t left_length, const Vec[uint8_t]* right) noexcept nogil:
    cdef size_t shorter = min(left_length, right.size)
    cdef int found = memcmp(left, right.data, shorter) if shorter else 0
    return found if found else (left_length > right.size) - (left_length < right.size)


# --- a range ----------------------------------------------------------------------------------------------------------
cdef status_t page_take(const uint8_t* body, size_t length, uint64_t revision, Columns* columns, bint* more,
                        const uint8_t** key, uint32_t* key_length) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef Row row
    memset(&row, 0, sizeof(Row))
    row.numbers[COLUMN_REVISION] = revision
    read_uint(&reader, number_max())            # how many
    more[0] = read_bool(&reader)
    key[0] = NULL
    key_length[0] = 0
    while read_left(&reader):
        _read_record(&reader, &row)
        if reader.status != OK:
            break
        if not columns_append(columns, &row):
            return NO_MEMORY
        key[0] = row.key
        key_length[0] = row.key_length
    if reader.status == OK and more[0] and key[0] == NULL:
        return BAD_FIELD                        # a page without an end would be asked for for ever
    return reader.status


# --- a watch ----------------------------------------------------------------------------------------------------------
cdef void feed_release(Feed* feed) noexcept nogil:
    feed.start.release()
    feed.stop.release()


cdef status_t feed_take(Feed* feed, const uint8_t* body, size_t length, Columns* columns) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef status_t status = OK
    while status == OK and read_left(&reader):
        status = _take_item(feed, &reader, columns)
        if reader.status != OK:
            return reader.status
    return status


cdef status_t _take_item(Feed* feed, Reader* reader, Columns* columns) noexcept nogil:
    cdef uint64_t kind
    cdef uint64_t revision
    cdef uint64_t wall_ms
    cdef status_t status = OK
    read_array(reader, ITEM_ELEMENTS)
    kind = read_uint(reader, 255)
    revision = read_uint(reader, number_max())
    wall_ms = read_uint(reader, number_max())
    if reader.status != OK:
        return reader.status
    feed.told = revision
    if kind == WATCH_EVENTS:
        if revision != feed.next_revision:
            return CORRUPT
        status = _take_events(feed, reader, revision, wall_ms, columns)
    else:
        read_array(reader, 0)
    if status == OK and not read_bool(reader) and kind == WATCH_EVENTS:
        feed.next_revision += 1
        feed.taken = feed.passed = 0
    if status != OK or reader.status != OK:
        return status
    if kind == WATCH_COMPACTED:
        return COMPACTED
    if kind != WATCH_EVENTS and kind != WATCH_PROGRESS_MARK:
        return STALE
    return NOT_FOUND if feed.next_revision > feed.high else OK


cdef status_t _take_events(Feed* feed, Reader* reader, uint64_t revision, uint64_t wall_ms,
                           Columns* columns) noexcept nogil:
    cdef uint32_t count = read_array_max(reader, _any())
    cdef uint32_t _
    cdef Row row
    cdef Row previous
    memset(&row, 0, sizeof(Row))
    row.numbers[COLUMN_REVISION] = revision
    row.numbers[COLUMN_TIME] = wall_ms * 1000
    for _ in range(count):
        read_array(reader, EVENT_ELEMENTS)
        row.is_delete = read_uint(reader, 255) == WATCH_DELETE
        _read_record(reader, &row)
        memset(&previous, 0, sizeof(Row))
        if not read_nil(reader):
            _read_record(reader, &previous)
        row.numbers[COLUMN_PREV_REVISION] = previous.numbers[COLUMN_MOD_REVISION]
        row.numbers[COLUMN_PREV_LEASE] = previous.numbers[COLUMN_LEASE]
        row.previous = previous.value
        row.previous_length = previous.value_length
        if reader.status != OK:
            return reader.status
        if feed.passed < feed.taken:
            feed.passed += 1
            continue
        row.numbers[COLUMN_SUB] = feed.taken
        feed.taken += 1
        feed.passed = feed.taken
        if (_compare(row.key, row.key_length, &feed.start) >= 0
                and (feed.stop.size == 0 or _compare(row.key, row.key_length, &feed.stop) < 0)
                and not columns_append(columns, &row)):
            return NO_MEMORY
    return OK
