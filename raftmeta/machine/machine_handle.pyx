"""The machine for Python code that has no node: it loads a state, counts what is in it, and dumps it again.

`face/stopped_log` applies the entries of a log to it.
"""
from collections import namedtuple

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport UINT64_MAX, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.machine.machine cimport (MachineLimits, MachineStatus, machine_create_with, machine_destroy,
                                       machine_dump_begin, machine_dump_end, machine_dump_next, machine_dump_prepare,
                                       machine_load_chunk, machine_load_done, machine_status)
from raftmeta.machine.state cimport SKIPPED_MAX
from raftmeta.machine.tree_state cimport TUNE_TREE_FANOUT
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK, status_t

Status = namedtuple(
    "Status",
    "applied revision compacted keys state_bytes history_bytes leases sessions feature_level lease_ms state_hash",
)


cdef class MachineHandle:
    def __cinit__(self, *, uint32_t value_bytes_max=1 << 20, uint32_t session_window=4096,
                  uint32_t changes_per_slice=1000, uint16_t fanout=TUNE_TREE_FANOUT, object tree_bytes_max=None):
        cdef MachineLimits limits
        memset(&limits, 0, sizeof(limits))
        limits.value_bytes_max = value_bytes_max
        limits.session_window = session_window
        limits.changes_per_slice = changes_per_slice
        self.machine = machine_create_with(
            &limits, fanout, UINT64_MAX if tree_bytes_max is None else <uint64_t>tree_bytes_max)
        if self.machine == NULL:
            raise MemoryError

    def __dealloc__(self):
        machine_destroy(self.machine)

    @property
    def broken(self):
        return self.machine.broken.what, self.machine.broken.a, self.machine.broken.b

    def skip(self, entries not None):
        cdef MachineLimits* limits = &self.machine.limits
        for index, chain in entries:
            if limits.skipped_count == SKIPPED_MAX:
                raise OverflowError(f"{SKIPPED_MAX} entries at most")
            limits.skipped[limits.skipped_count].index = index
            limits.skipped[limits.skipped_count].chain = chain
            limits.skipped_count += 1

    def status(self):
        cdef MachineStatus status
        machine_status(self.machine, &status)
        return Status(status.applied, status.revision, status.compacted, status.keys, status.state_bytes,
                      status.history_bytes, status.leases, status.sessions, status.feature_level, status.lease_ms,
                      status.state_hash.low | <object>status.state_hash.high << 64)

    def load_chunk(self, bytes chunk not None):
        return machine_load_chunk(self.machine, <const uint8_t*>PyBytes_AS_STRING(chunk),
                                  <size_t>PyBytes_GET_SIZE(chunk))

    def load_done(self):
        return machine_load_done(self.machine)

    def dump(self, uint32_t bytes_max=1 << 16):
        return DumpHandle(self, bytes_max)


@cython.no_gc_clear          # the machine must outlive its dump
cdef class DumpHandle:
    def __cinit__(self, MachineHandle owner not None, uint32_t bytes_max, uint32_t prepared_at_once=1 << 16):
        cdef bint is_prepared = False
        cdef status_t status
        self.dump.cursor = NULL
        self.owner = owner
        self.bytes_max = bytes_max
        status = machine_dump_begin(owner.machine, &self.dump)
        while status == OK and not is_prepared:
            status = machine_dump_prepare(owner.machine, &self.dump, prepared_at_once, &is_prepared)
        if status != OK:
            raise ValueError(status)

    def __iter__(self):
        return self

    def __next__(self):
        cdef Vec[uint8_t] out
        cdef status_t status
        if self.is_done:
            self._end()
            raise StopIteration
        memset(&out, 0, sizeof(out))
        with nogil:
            status = machine_dump_next(self.owner.machine, &self.dump, self.bytes_max, &out, &self.is_done)
        try:
            if status != OK:
                raise MemoryError
            return PyBytes_FromStringAndSize(<const char*>out.data, <Py_ssize_t>out.size)
        finally:
            out.release()

    cdef _end(self):
        self.close()

    def close(self):
        machine_dump_end(self.owner.machine, &self.dump)
        self.is_done = True

    def __dealloc__(self):
        if self.dump.cursor != NULL:
            machine_dump_end(self.owner.machine, &self.dump)
