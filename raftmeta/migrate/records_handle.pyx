"""The loops over all items of a migration: they run a million times, and do what mapping.py and loader.py say.

They decide nothing: names of keys are those of the mapping, limits those of the loader and of the store. They take and
give objects of Python, with the GIL.
"""

from cpython.bytes cimport PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.migrate.items import Record
from raftmeta.operations import Add, Create

cdef extern from "Python.h":
    # The body of object.__setattr__: it fills a frozen record, here as in the record's own __init__.
    int PyObject_GenericSetAttr(object record, object name, object value) except -1

cdef object _Record = Record
cdef object _Create = Create
cdef object _Add = Add
cdef object _new_tuple = tuple.__new__
cdef object _new_object = object.__new__
cdef object _U64 = (1 << 64) - 1


cdef struct _Head:
    # The head of a record in a fingerprint: with it no two lists of records are the same bytes.
    uint64_t holder
    uint32_t key_length
    uint32_t value_length
    uint64_t is_counter


cdef class Names:
    """Beginnings of keys. data: the prefix; side, counters: of side keys and counters.

    has_side: there are such. is_leased: records name the holder of their item.
    """
    cdef bytes data
    cdef bytes side
    cdef bytes counters
    cdef bint has_side
    cdef bint is_leased

    def __init__(self, bytes data not None, bytes side not None, bytes counters not None, *, bint has_side,
                 bint is_leased):
        self.data = data
        self.side = side
        self.counters = counters
        self.has_side = has_side
        self.is_leased = is_leased

    cdef int append(self, list records, object item) except -1:
        key, value, metadata, holder, counter, is_counter = <tuple>item
        records.append(_new_tuple(_Record, (self.data + <bytes>key, value, holder if self.is_leased else 0,
                                            is_counter)))
        if self.has_side:
            records.append(_new_tuple(_Record, (self.side + <bytes>key, (<str>metadata).encode(), 0, False)))
            if counter is not None:
                number = counter.to_bytes(8, "big", signed=True)
                records.append(_new_tuple(_Record, (self.counters + <bytes>key, number, 0, True)))
        return 0

    def records(self, item):
        """All that is written for an item: data, side key, counter."""
        cdef list found = []
        self.append(found, item)
        return found

    def look(self, list items not None, bytes astray not None, Py_ssize_t key_bytes_max, Py_ssize_t value_bytes_max):
        """The cost of writing items: (fingerprint bytes, records, bytes of keys, of values, too large, astray).

        The last two are lists of records: with a key or value above the limit, and of data whose keys begin with
        `astray`.
        """
        cdef list records = []
        cdef list parts = []
        cdef list large = []
        cdef list strays = []
        cdef Py_ssize_t key_bytes = 0
        cdef Py_ssize_t value_bytes = 0
        cdef Py_ssize_t first
        cdef bytes key, value
        cdef _Head head
        for item in items:
            first = len(records)
            self.append(records, item)
            if (<bytes>(<tuple>records[first])[0]).startswith(astray):
                strays.append(records[first])
        memset(&head, 0, sizeof(_Head))
        for record in records:
            key, value, holder, is_counter = <tuple>record
            head.holder = (holder & _U64) if holder else 0
            head.key_length = <uint32_t>PyBytes_GET_SIZE(key)
            head.value_length = <uint32_t>PyBytes_GET_SIZE(value)
            head.is_counter = bool(is_counter)
            parts.append(PyBytes_FromStringAndSize(<const char*>&head, sizeof(_Head)))
            parts.append(key)
            parts.append(value)
            key_bytes += head.key_length
            value_bytes += head.value_length
            if PyBytes_GET_SIZE(key) > key_bytes_max or PyBytes_GET_SIZE(value) > value_bytes_max:
                large.append(record)
        return b"".join(parts), len(records), key_bytes, value_bytes, large, strays

    def fill(self, items, ahead, Py_ssize_t records_max, Py_ssize_t bytes_max):
        """One batch from an iterator: (items taken, key of the last one or None, records, the item behind it or None).

        ahead: the item behind the batch before, or None. A batch has at most so many records, and so many bytes in
        keys and values; the records of one item are never parted, and one item may have more of both.
        """
        cdef list records = []
        cdef Py_ssize_t size = 0
        cdef Py_ssize_t new_size, before, position
        cdef Py_ssize_t taken = 0
        last = None
        item = next(items, None) if ahead is None else ahead
        while item is not None:
            before = len(records)
            self.append(records, item)
            new_size = 0
            for position in range(before, len(records)):
                new_size += len(<bytes>(<tuple>records[position])[0]) + len(<bytes>(<tuple>records[position])[1])
            if before and (len(records) > records_max or size + new_size > bytes_max):
                del records[before:]
                break
            size += new_size
            taken += 1
            last = (<tuple>item)[0]
            item = next(items, None)
        return taken, last, records, item


def new_keys(list records not None, leases not None):
    """The operations that write records whose keys are not there. leases: the lease of each holder that they name."""
    cdef list found = []
    for record in records:
        key, value, holder, is_counter = <tuple>record
        if is_counter:
            found.append(_Add(key, int.from_bytes(value, "big", signed=True)))
            continue
        operation = _new_object(_Create)
        PyObject_GenericSetAttr(operation, "key", key)
        PyObject_GenericSetAttr(operation, "value", value)
        PyObject_GenericSetAttr(operation, "lease", leases[holder] if holder else 0)
        PyObject_GenericSetAttr(operation, "number_from", None)
        found.append(operation)
    return found
