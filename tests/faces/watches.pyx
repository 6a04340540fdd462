"""A machine with a watch hub for tests and benchmarks: commands in, items out, nothing decided here.

One thread may call the methods of WatchedMachine at a time; each watch may be taken from by one other thread.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.machine.machine cimport (
    APPLY_DONE, APPLY_MORE, ApplyOutcome, ApplyResult, Machine, MachineLimits, machine_apply, machine_changes,
    machine_create, machine_destroy, machine_publish)
from raftmeta.machine.watch_purse cimport pool_create, pool_drop, purse_create, purse_drop
from raftmeta.machine.watch_state cimport Hub, Watch, WatchPool, WatchPurse
from raftmeta.machine.watches cimport (
    WATCH_CLOSED, hub_add, hub_close, hub_create, hub_destroy, hub_publish, hub_pump, hub_remove, hub_take_woken,
    watch_take)
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport ENTRY_COMMAND, Record
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport Bytes


cdef object _check(status_t status):
    if status == NO_MEMORY:
        raise MemoryError
    if status != OK:
        raise ValueError(status)


cdef class HandledWatch:
    """One watch of a WatchedMachine; items are msgpack as docs/formats.md "Results" has them."""
    cdef WatchedMachine _owner
    cdef Watch* _watch

    def take(self, uint32_t items_max=0xFFFFFFFF, uint32_t bytes_max=0xFFFFFFFF):
        """(count, encoded items one after another), taken without the GIL."""
        cdef Vec[uint8_t] out
        cdef uint32_t count = 0
        cdef status_t status
        if self._watch == NULL:
            raise ValueError("closed")
        memset(&out, 0, sizeof(out))
        with nogil:
            status = watch_take(self._watch, items_max, bytes_max, &out, &count)
        try:
            _check(status)
            return count, PyBytes_FromStringAndSize(<const char*>out.data, <Py_ssize_t>out.size)
        finally:
            out.release()

    def close(self):
        """Remove the watch from its hub."""
        if self._watch != NULL:
            hub_remove(self._owner._hub, self._watch)
            self._watch = NULL


cdef class WatchedMachine:
    """A machine whose changes go to a hub with queues of queue_bytes_max bytes."""
    cdef Machine* _machine
    cdef Hub* _hub
    cdef Vec[uint8_t] _record
    cdef WatchPool* _pool
    cdef list _purses

    def __cinit__(self, *, uint64_t queue_bytes_max=1 << 24, uint64_t pool_bytes_max=1 << 28):
        cdef MachineLimits limits
        memset(&limits, 0, sizeof(limits))
        limits.value_bytes_max = 1 << 20
        limits.session_window = 16
        limits.changes_per_slice = 1000
        self._machine = machine_create(&limits)
        self._hub = hub_create(queue_bytes_max)
        self._pool = pool_create(pool_bytes_max)
        self._purses = []
        if self._machine == NULL or self._hub == NULL or self._pool == NULL:
            raise MemoryError

    def __dealloc__(self):
        if self._hub != NULL:
            hub_destroy(self._hub)
        if self._machine != NULL:
            machine_destroy(self._machine)
        self._record.release()
        for purse in self._purses or ():
            purse_drop(<WatchPurse*><size_t>purse)
        pool_drop(self._pool)

    cdef status_t _apply(self, bint is_seen) noexcept nogil:
        cdef const Record* record = <const Record*>self._record.data
        cdef ApplyResult result
        cdef ApplyOutcome outcome = APPLY_MORE
        cdef status_t status = OK
        while outcome == APPLY_MORE:
            outcome = machine_apply(self._machine, record, &result)
        if outcome != APPLY_DONE:
            return result.status
        if result.changed and is_seen:
            status = hub_publish(self._hub, result.revision, record.wall_ms, machine_changes(self._machine),
                                 result.changed)
        if status == OK:
            status = machine_publish(self._machine)
        return status

    def apply(self, bytes payload, *, uint64_t wall_ms=0, uint64_t times=1, bint is_seen=True):
        """Apply the command `times` times and publish each. is_seen=False: the hub is not told, as when a snapshot is
        installed. Returns the revision."""
        cdef Record* record
        cdef status_t status = OK
        self._record.clear()
        if not self._record.resize(sizeof(Record) + <size_t>PyBytes_GET_SIZE(payload)):
            raise MemoryError
        record = <Record*>self._record.data
        record.length = <uint32_t>PyBytes_GET_SIZE(payload)
        record.type = ENTRY_COMMAND
        record.wall_ms = wall_ms
        memcpy(self._record.data + sizeof(Record), PyBytes_AS_STRING(payload), record.length)
        with nogil:
            while times and status == OK:
                times -= 1
                record.index = self._machine.applied + 1
                status = self._apply(is_seen)
        _check(status)
        return self._machine.revision

    def open_purse(self):
        """A client's purse, for add()."""
        cdef WatchPurse* purse = purse_create(self._pool)
        if purse == NULL:
            raise MemoryError
        self._purses.append(<size_t>purse)
        return <size_t>purse

    def purse_bytes(self, size_t purse):
        return (<WatchPurse*>purse).bytes

    @property
    def pool_bytes(self):
        return self._pool.bytes

    def add(self, bytes key, bytes end, *, uint64_t start=0, uint32_t filter=0, size_t owner=0, size_t purse=0):
        """Watch [key, end) from revision start on, 0: after the newest."""
        cdef HandledWatch handled = HandledWatch.__new__(HandledWatch)
        cdef Bytes first
        cdef Bytes final
        first.data = <const uint8_t*>PyBytes_AS_STRING(key)
        first.length = <uint32_t>len(key)
        final.data = <const uint8_t*>PyBytes_AS_STRING(end)
        final.length = <uint32_t>len(end)
        handled._owner = self
        _check(hub_add(self._hub, self._machine, &first, &final, start, filter, <void*>owner, <WatchPurse*>purse,
                       &handled._watch))
        return handled

    def pump(self, uint32_t changes_max=1000):
        """Replay to watches that are behind; whether there is more to do at once."""
        cdef bint more = False
        _check(hub_pump(self._hub, self._machine, changes_max, &more))
        return bool(more)

    def take_woken(self, uint32_t most=64):
        """Owners of watches with something new since the last call."""
        cdef void* owners[64]
        cdef uint32_t position
        cdef uint32_t count = hub_take_woken(self._hub, owners, min(most, 64))
        return [<size_t>owners[position] for position in range(count)]

    def close(self):
        """Tell all watches that the node stops."""
        hub_close(self._hub, WATCH_CLOSED)

    @property
    def revision(self):
        """Revision of the machine."""
        return self._machine.revision

    @property
    def compacted(self):
        """History floor of the machine."""
        return self._machine.compacted
