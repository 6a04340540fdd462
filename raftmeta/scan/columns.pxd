# Rows of the keyspace and of its changes as the buffers of Arrow columns: numbers, offsets, bytes, bits of validity.
#
# This module decides how a row stands in memory. It never decides which rows there are, and makes no object:
# raftmeta/scan/batches.py hands the buffers to Arrow. Source: Arrow Columnar Format, Variable-size Binary Layout.
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec

# A set of columns is a number with these bits.
cdef enum:
    COLUMN_REVISION = 0         # numbers, 64 bits each
    COLUMN_SUB = 1
    COLUMN_TIME = 2             # microseconds since 1970
    COLUMN_CREATE_REVISION = 3
    COLUMN_MOD_REVISION = 4
    COLUMN_VERSION = 5
    COLUMN_LEASE = 6
    COLUMN_PREV_REVISION = 7    # of the record before the change, 0: there was none
    COLUMN_PREV_LEASE = 8
    COLUMN_KEY = 9              # texts
    COLUMN_KEY_TEXT = 10        # the key if it is UTF-8, else null
    COLUMN_VALUE = 11           # null for a deletion
    COLUMN_OPERATION = 12       # put, delete
    COLUMN_PREV_VALUE = 13      # null where there was no record before

cdef enum:
    NUMBER_COLUMNS = 9
    TEXT_COLUMNS = 5

# The fields of one row, in the order of the columns; key and values are borrowed.
cdef struct Row:
    uint64_t[NUMBER_COLUMNS] numbers
    bint is_delete
    uint32_t key_length
    uint32_t value_length
    uint32_t previous_length
    const uint8_t* key
    const uint8_t* value
    const uint8_t* previous     # value of the record before

cdef struct NumberColumn:
    Vec[uint64_t] values

cdef struct TextColumn:
    Vec[int32_t] offsets        # rows + 1, the first is 0
    Vec[uint8_t] bytes
    Vec[uint8_t] valid          # a bit for each row, the lowest first
    size_t nulls

# Zeroed, with `wanted` set: no rows yet.
cdef struct Columns:
    uint32_t wanted             # bits 1 << COLUMN_
    size_t rows
    size_t bytes                # of keys and values, wanted or not
    NumberColumn[NUMBER_COLUMNS] numbers
    TextColumn[TEXT_COLUMNS] texts

# False: no memory; the columns must be released.
cdef bint columns_append(Columns* columns, const Row* row) noexcept nogil
# Drop all rows and keep the memory.
cdef void columns_clear(Columns* columns) noexcept nogil
cdef void columns_release(Columns* columns) noexcept nogil
