"""Record batches and record logs for tests. It decides nothing: it calls the native functions and shows what they
return.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.machine.machine cimport machine_publish
from raftmeta.machine.machine_handle cimport MachineHandle
from raftmeta.machine.record_reads cimport (RecordLogView, record_log_at_time, record_log_fetch, record_log_latest,
                                            record_log_view)
from raftmeta.machine.tree cimport tree_pin, tree_unpin
from raftmeta.machine.tree_state cimport Root
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK
from raftmeta.wire.record_batches cimport (RecordView, batch_check, batch_is_sound, batch_next, batch_place,
                                           batch_without)
from raftmeta.wire.windows cimport Bytes


cdef Bytes _window(bytes value):
    cdef Bytes window
    window.data = <const uint8_t*>PyBytes_AS_STRING(value)
    window.length = <uint32_t>PyBytes_GET_SIZE(value)
    return window

cdef bytes _shown(const Bytes* window):
    return PyBytes_FromStringAndSize(<const char*>window.data, window.length)


# --- batches ----------------------------------------------------------------------------------------------------------
def check(bytes batch not None, *, bint must_have_keys=False):
    cdef Bytes window = _window(batch)
    return int(batch_check(&window, must_have_keys))


def is_sound(bytes batch not None):
    cdef Bytes window = _window(batch)
    return bool(batch_is_sound(&window))


def records(bytes batch not None):
    cdef Bytes window = _window(batch)
    cdef RecordView record
    cdef uint32_t place = 0
    found = []
    while batch_next(&window, &place, &record):
        found.append((record.offset_delta, record.timestamp_delta, _shown(&record.key) if record.has_key else None,
                      bool(record.has_value)))
    return found


def placed(bytes batch not None, int64_t base_offset):
    cdef bytearray copied = bytearray(batch)
    cdef uint8_t[::1] view = copied
    batch_place(&view[0], base_offset)
    return bytes(copied)


def without(bytes batch not None, list left_out not None):
    cdef Bytes window = _window(batch)
    cdef bytearray room = bytearray(len(batch))
    cdef uint8_t[::1] view = room
    cdef Vec[int64_t] offsets
    cdef uint32_t length
    memset(&offsets, 0, sizeof(offsets))
    for offset in left_out:
        if not offsets.push(<int64_t>offset):
            raise MemoryError
    length = batch_without(&window, offsets.data, <uint32_t>offsets.size, &view[0])
    offsets.release()
    return bytes(room[:length])


# --- logs -------------------------------------------------------------------------------------------------------------
cdef const Root* _root(MachineHandle handle) except NULL:
    if machine_publish(handle.machine) != OK:
        raise MemoryError
    return tree_pin(handle.machine.tree)


def log_view(MachineHandle handle not None, bytes log not None):
    cdef const Root* root = _root(handle)
    cdef Bytes key = _window(log)
    cdef RecordLogView view
    record_log_view(root, &key, &view)
    tree_unpin(handle.machine.tree, root)
    return view.start, view.next, view.bytes, view.batches


def fetch(MachineHandle handle not None, bytes log not None, uint64_t offset, *, uint32_t bytes_max=1 << 30,
          bint must_have_one=True):
    cdef const Root* root = _root(handle)
    cdef Bytes key = _window(log)
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    try:
        if record_log_fetch(root, &key, offset, bytes_max, must_have_one, &out) != OK:
            raise MemoryError
        return PyBytes_FromStringAndSize(<char*>out.data, <Py_ssize_t>out.size)
    finally:
        out.release()
        tree_unpin(handle.machine.tree, root)


def at_time(MachineHandle handle not None, bytes log not None, timestamp):
    cdef const Root* root = _root(handle)
    cdef Bytes key = _window(log)
    cdef uint64_t offset = 0
    cdef int64_t found = 0
    cdef bint is_found
    if timestamp is None:
        is_found = record_log_latest(root, &key, &offset, &found)
    else:
        is_found = record_log_at_time(root, &key, timestamp, &offset, &found)
    tree_unpin(handle.machine.tree, root)
    return (offset, found) if is_found else None
