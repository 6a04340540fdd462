"""Rows as buffers of Arrow columns: bodies."""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.intrinsics cimport load64

cdef const char* PUT = "put"
cdef const char* DELETE = "delete"


cdef bint columns_append(Columns* columns, const Row* row) noexcept nogil:
    cdef uint32_t wanted = columns.wanted
    cdef bint is_kept = True
    cdef int i
    for i in range(NUMBER_COLUMNS):
        if wanted & (1 << i):
            is_kept = is_kept and columns.numbers[i].values.push(row.numbers[i])
    for i in range(TEXT_COLUMNS):
        if wanted & (1 << (COLUMN_KEY + i)):
            is_kept = is_kept and _append_text(&columns.texts[i], columns.rows, COLUMN_KEY + i, row)
    columns.rows += 1
    columns.bytes += row.key_length + row.value_length + row.previous_length
    return is_kept


cdef bint _append_text(TextColumn* column, size_t rows, int kind, const Row* row) noexcept nogil:
    if kind == COLUMN_KEY:
        return _append(column, rows, row.key, row.key_length, True)
    if kind == COLUMN_KEY_TEXT:
        return _append(column, rows, row.key, row.key_length, _is_utf8(row.key, row.key_length))
    if kind == COLUMN_VALUE:
        return _append(column, rows, row.value, row.value_length, not row.is_delete)
    if kind == COLUMN_PREV_VALUE:
        return _append(column, rows, row.previous, row.previous_length, row.numbers[COLUMN_PREV_REVISION] != 0)
    if row.is_delete:
        return _append(column, rows, <const uint8_t*>DELETE, 6, True)
    return _append(column, rows, <const uint8_t*>PUT, 3, True)


cdef bint _append(TextColumn* column, size_t rows, const uint8_t* text, size_t length, bint is_valid) noexcept nogil:
    cdef uint8_t bit = <uint8_t>(1 << (rows & 7))
    if rows == 0 and not column.offsets.push(0):
        return False
    if rows & 7 == 0 and not column.valid.push(0):
        return False
    if is_valid:
        if not column.bytes.append(text, length):
            return False
        column.valid.data[rows >> 3] |= bit
    else:
        column.nulls += 1
    return column.offsets.push(<int32_t>column.bytes.size)


cdef void columns_clear(Columns* columns) noexcept nogil:
    cdef int i
    columns.rows = columns.bytes = 0
    for i in range(NUMBER_COLUMNS):
        columns.numbers[i].values.clear()
    for i in range(TEXT_COLUMNS):
        columns.texts[i].offsets.clear()
        columns.texts[i].bytes.clear()
        columns.texts[i].valid.clear()
        columns.texts[i].nulls = 0


cdef void columns_release(Columns* columns) noexcept nogil:
    cdef int i
    for i in range(NUMBER_COLUMNS):
        columns.numbers[i].values.release()
    for i in range(TEXT_COLUMNS):
        columns.texts[i].offsets.release()
        columns.texts[i].bytes.release()
        columns.texts[i].valid.release()


# --- UTF-8 ------------------------------------------------------------------------------------------------------------
# Bytes of the well-formed sequence at `text`, 0: there is none. Unicode 15, table 3-7.
cdef size_t _sequence(const uint8_t* text, size_t left) noexcept nogil:
    cdef uint8_t first = text[0]
    cdef uint8_t low = 0x80
    cdef uint8_t high = 0xbf
    cdef size_t length
    cdef size_t i
    if first < 0x80:
        return 1
    if 0xc2 <= first <= 0xdf:
        length = 2
    elif 0xe0 <= first <= 0xef:
        length = 3
        low = 0xa0 if first == 0xe0 else 0x80
        high = 0x9f if first == 0xed else 0xbf
    elif 0xf0 <= first <= 0xf4:
        length = 4
        low = 0x90 if first == 0xf0 else 0x80
        high = 0x8f if first == 0xf4 else 0xbf
    else:
        return 0
    if left < length or not low <= text[1] <= high:
        return 0
    for i in range(2, length):
        if text[i] & 0xc0 != 0x80:
            return 0
    return length


cdef bint _is_utf8(const uint8_t* text, size_t length) noexcept nogil:
    cdef size_t at = 0
    cdef size_t step
    while at < length:
        if length - at >= 8 and not load64(text + at) & <uint64_t>0x8080808080808080:
            at += 8
            continue
        step = _sequence(text + at, length - at)
        if step == 0:
            return False
        at += step
    return True
