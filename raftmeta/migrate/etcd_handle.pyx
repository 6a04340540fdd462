"""The loops over all rows of an etcd database: they run a million times, and do what bolt.py and etcd.py say.

They read a leaf page of bbolt (little-endian), and a row of the bucket `key`: revision, "_", sub revision and "t" for a
tombstone, all big-endian, then mvccpb.KeyValue of api/v3 kv.proto. Bytes without sense raise a ValueError.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy

cdef enum:
    PAGE_BYTES = 16             # number 8, kind 2, elements 2, further pages 4
    ELEMENT_BYTES = 16          # flags, position, sizes of key and value
    LEAF = 2
    ROW_KEY_BYTES = 17
    FIELDS = 7
    FIELD_CREATE = 2            # numbers of the fields of KeyValue
    FIELD_MOD = 3
    FIELD_VERSION = 4
    FIELD_LEASE = 6


cdef struct Change:
    uint64_t revision
    uint64_t sub
    uint64_t[FIELDS] numbers
    const uint8_t* key
    const uint8_t* value
    Py_ssize_t key_length
    Py_ssize_t value_length
    bint is_delete


cdef inline uint64_t _big(const uint8_t* at) noexcept nogil:
    cdef uint64_t found = 0
    cdef int position
    for position in range(8):
        found = (found << 8) | at[position]
    return found

cdef inline uint64_t _little(const uint8_t* at, int length) noexcept nogil:
    cdef uint64_t found = 0
    cdef int position
    for position in range(length):
        found |= <uint64_t>at[position] << (8 * position)
    return found

cdef int _compare(bytes one, bytes other) noexcept:
    cdef Py_ssize_t length = PyBytes_GET_SIZE(one)
    cdef Py_ssize_t other_length = PyBytes_GET_SIZE(other)
    cdef int found = memcmp(PyBytes_AS_STRING(one), PyBytes_AS_STRING(other), min(length, other_length))
    return found if found else (length > other_length) - (length < other_length)


def leaf_of(bytes page not None, previous):
    """(key, value, flags) of the elements of a leaf page. previous: the key before them, or None: they go upward."""
    cdef list rows = []
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(page)
    cdef const uint8_t* element
    cdef Py_ssize_t limit = PyBytes_GET_SIZE(page)
    cdef Py_ssize_t first, start, middle, end
    cdef uint64_t kind, count, number
    cdef bytes key, before = previous
    if limit < PAGE_BYTES:
        raise ValueError(f"a page of {limit} bytes")
    kind = _little(data + 8, 2)
    count = _little(data + 10, 2)
    first = PAGE_BYTES + <Py_ssize_t>count * ELEMENT_BYTES
    if kind != LEAF or first > limit:
        raise ValueError(f"a page of kind {kind:#x} with {count} elements")
    for number in range(count):
        element = data + PAGE_BYTES + number * ELEMENT_BYTES
        start = (element - data) + <Py_ssize_t>_little(element + 4, 4)
        middle = start + <Py_ssize_t>_little(element + 8, 4)
        end = middle + <Py_ssize_t>_little(element + 12, 4)
        if end > limit or start < first or middle == start:
            raise ValueError("an element that points out of its page")
        key = PyBytes_FromStringAndSize(<const char*>data + start, middle - start)
        if before is not None and _compare(key, before) <= 0:
            raise ValueError("keys that do not go upward")
        before = key
        rows.append((key, PyBytes_FromStringAndSize(<const char*>data + middle, end - middle), _little(element, 4)))
    return rows


# --- rows of the bucket `key` -----------------------------------------------------------------------------------------
# Read a number; returns where it ends.
cdef Py_ssize_t _varint(const uint8_t* data, Py_ssize_t position, Py_ssize_t limit, uint64_t* into) except -1:
    cdef int shift = 0
    into[0] = 0
    while position < limit:
        into[0] |= <uint64_t>(data[position] & 0x7f) << shift
        position += 1
        if data[position - 1] < 0x80:
            return position
        shift += 7
        if shift > 63:
            raise ValueError("a record that makes no sense (a number of more than 64 bits)")
    raise ValueError("a record that makes no sense (it ends within a number)")


cdef int _read_fields(const uint8_t* data, Py_ssize_t limit, Change* into) except -1:
    cdef Py_ssize_t position = 0
    cdef uint64_t number
    cdef uint8_t tag
    while position < limit:
        tag = data[position]
        position = _varint(data, position + 1, limit, &number)
        if tag == 0x0a or tag == 0x2a:
            if number > <uint64_t>(limit - position):
                raise ValueError("a record that makes no sense (bytes that go beyond the record)")
            if tag == 0x0a:
                into.key = data + position
                into.key_length = <Py_ssize_t>number
            else:
                into.value = data + position
                into.value_length = <Py_ssize_t>number
            position += <Py_ssize_t>number
        elif tag == 0x10 or tag == 0x18 or tag == 0x20 or tag == 0x30:
            into.numbers[tag >> 3] = number
        else:
            raise ValueError(f"a record that makes no sense (a field of tag {tag:#x})")
    return 0


# One row of a leaf, whose bytes the change points into.
cdef int _read_change(tuple row, Change* into) except -1:
    cdef bytes row_key = row[0]
    cdef bytes record = row[1]
    cdef const uint8_t* name = <const uint8_t*>PyBytes_AS_STRING(row_key)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(row_key)
    cdef int field
    cdef bint has_mark = length == ROW_KEY_BYTES + 1 and name[17] == 116     # "t"
    if not (length == ROW_KEY_BYTES or has_mark) or name[8] != 95:              # "_"
        raise ValueError(f"a revision that is none: {row_key.hex()}")
    into.revision = _big(name)
    into.sub = _big(name + 9)
    into.is_delete = has_mark
    into.key = into.value = name
    into.key_length = into.value_length = 0
    for field in range(FIELDS):
        into.numbers[field] = 0
    _read_fields(<const uint8_t*>PyBytes_AS_STRING(record), PyBytes_GET_SIZE(record), into)
    if not into.key_length or (not into.is_delete and into.numbers[FIELD_MOD] != into.revision):
        raise ValueError(f"revision {into.revision}.{into.sub} holds a record of {into.numbers[FIELD_MOD]}")
    return 0


def changes_of(list rows not None):
    """The fields of EtcdChange of each row of a leaf."""
    cdef list found = []
    cdef Change one
    for row in rows:
        _read_change(<tuple>row, &one)
        found.append((one.revision, one.sub, PyBytes_FromStringAndSize(<const char*>one.key, one.key_length),
                      PyBytes_FromStringAndSize(<const char*>one.value, one.value_length), one.numbers[FIELD_CREATE],
                      one.numbers[FIELD_VERSION], one.numbers[FIELD_LEASE], bool(one.is_delete)))
    return found


def fold(list rows not None, dict last not None):
    """Set the last change of each key, as four native numbers (create, mod, version, lease) and the value.

    A deletion has only zeros. Returns the revision of the last row, 0 without one.
    """
    cdef Change one
    cdef uint64_t[4] numbers
    cdef bytes packed
    cdef uint64_t revision = 0
    for row in rows:
        _read_change(<tuple>row, &one)
        numbers[0] = numbers[1] = numbers[2] = numbers[3] = 0
        if not one.is_delete:
            numbers[0] = one.numbers[FIELD_CREATE]
            numbers[1] = one.revision
            numbers[2] = one.numbers[FIELD_VERSION]
            numbers[3] = one.numbers[FIELD_LEASE]
        packed = PyBytes_FromStringAndSize(NULL, sizeof(numbers) + one.value_length)
        memcpy(PyBytes_AS_STRING(packed), numbers, sizeof(numbers))
        memcpy(PyBytes_AS_STRING(packed) + sizeof(numbers), one.value, one.value_length)
        last[PyBytes_FromStringAndSize(<const char*>one.key, one.key_length)] = packed
        revision = one.revision
    return revision
