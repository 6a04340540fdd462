"""The replicated machine for tests and benchmarks. It decides nothing: it makes records, calls the native functions
and shows what they return.
"""
from collections import namedtuple

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.machine cimport machine_handle
from raftmeta.machine.history cimport change_before
from raftmeta.machine.machine cimport (APPLY_FATAL, APPLY_MORE, ApplyOutcome, ApplyResult, Change, DumpBase,
                                       Grouping, machine_apply, machine_changes, machine_due_leases,
                                       machine_due_sessions, machine_dump_base_forget, machine_dump_base_loaded,
                                       machine_dump_keep, machine_dump_since, machine_get, machine_get_shared,
                                       machine_history,
                                       machine_lease, machine_publish, machine_range_shared, machine_session_exists,
                                       machine_session_result)
from raftmeta.machine.rights cimport rights_drop, rights_hold
from raftmeta.machine.rights_state cimport RightsTable
from raftmeta.machine.rights_table cimport rights_allow, table_user
from raftmeta.machine.tree cimport Entry, entry_key, entry_value
from raftmeta.machine.user_machines cimport UserDump, UserMachine, users_find, users_take
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport ENTRY_COMMAND, FORMAT_RECORD_ALIGNMENT, Record
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport Bytes, KeyView

Applied = namedtuple("Applied", "entry_index session sequence status revision is_duplicate body changed slices")
UserStatus = namedtuple("UserStatus", "last point tail_count tail_bytes dump_index digest dump staged")


class ApplyFatal(Exception):
    """machine_apply gave APPLY_FATAL: the node would stop. args[0] is the status."""


cdef bytes _bytes(const uint8_t* data, size_t length):
    return PyBytes_FromStringAndSize(<const char*>data, <Py_ssize_t>length)

cdef Bytes _window(bytes value):
    cdef Bytes window
    window.data = <const uint8_t*>PyBytes_AS_STRING(value)
    window.length = <uint32_t>PyBytes_GET_SIZE(value)
    return window

cdef tuple _entry(const Entry* entry):
    if entry == NULL:
        return None
    return (_bytes(entry_key(entry), entry.key_length), _bytes(entry_value(entry), entry.value_length),
            entry.create_revision, entry.mod_revision, entry.version, entry.lease, entry.flags)

cdef bytes _dump(UserDump* dump):
    return b"".join([_bytes(dump.parts.data[i].bytes(), dump.parts.data[i].used) for i in range(dump.parts.size)])

cdef list _changes(const Change* changes, uint32_t count):
    cdef uint32_t i
    return [(_entry(changes[i].after), _entry(change_before(&changes[i]))) for i in range(count)]

cdef bint _append_record(Vec[uint8_t]* out, uint64_t index, bytes payload, uint8_t entry_type, uint64_t lease_ms,
                         uint64_t wall_ms):
    cdef Record head
    cdef size_t start = out.size
    memset(&head, 0, sizeof(Record))
    head.length = <uint32_t>PyBytes_GET_SIZE(payload)
    head.index = index
    head.type = entry_type
    head.lease_ms = lease_ms
    head.wall_ms = wall_ms
    cdef size_t length = sizeof(Record) + head.length
    length += -length % FORMAT_RECORD_ALIGNMENT
    if not out.resize(start + length):
        return False
    memcpy(out.data + start, &head, sizeof(Record))
    memcpy(out.data + start + sizeof(Record), PyBytes_AS_STRING(payload), head.length)
    return True


cdef class MachineHandle(machine_handle.MachineHandle):
    cdef Vec[uint8_t] records           # of the entry under way, or of apply_many

    def __dealloc__(self):
        self.records.release()

    # --- user machines ------------------------------------------------------------------------------------------------
    def user(self, bytes name not None):
        cdef UserMachine* user = users_find(&self.machine.users, <const uint8_t*>PyBytes_AS_STRING(name),
                                            <uint32_t>PyBytes_GET_SIZE(name))
        if user == NULL:
            return None
        return UserStatus(user.last, user.point, user.tail_count, user.tail_bytes, user.dump.index, user.dump.digest,
                          _dump(&user.dump), _dump(&user.staged))

    def user_take(self, bytes name not None, uint64_t after, size_t bytes_max):
        cdef Vec[uint8_t] out
        memset(&out, 0, sizeof(out))
        try:
            if not users_take(users_find(&self.machine.users, <const uint8_t*>PyBytes_AS_STRING(name),
                                         <uint32_t>PyBytes_GET_SIZE(name)), after, bytes_max, &out):
                raise MemoryError
            return _bytes(out.data, out.size)
        finally:
            out.release()

    # --- apply --------------------------------------------------------------------------------------------------------
    def begin(self, bytes payload not None, *, uint8_t entry_type=ENTRY_COMMAND, uint64_t lease_ms=0,
              uint64_t wall_ms=0, object index=None):
        self.records.clear()
        if not _append_record(&self.records, self.machine.applied + 1 if index is None else index, payload, entry_type,
                              lease_ms, wall_ms):
            raise MemoryError

    def slice(self, *, int slices=1):
        cdef ApplyResult result
        cdef ApplyOutcome outcome
        with nogil:
            outcome = machine_apply(self.machine, <const Record*>self.records.data, &result)
        if outcome == APPLY_MORE:
            return None
        if outcome == APPLY_FATAL:
            raise ApplyFatal(result.status)
        return Applied(result.index, result.session, result.sequence, result.status, result.revision,
                       bool(result.is_duplicate), _bytes(result.body, result.length), result.changed, slices)

    def apply(self, bytes payload not None, *, uint8_t entry_type=ENTRY_COMMAND, uint64_t lease_ms=0,
              uint64_t wall_ms=0, object index=None):
        cdef int slices = 1
        self.begin(payload, entry_type=entry_type, lease_ms=lease_ms, wall_ms=wall_ms, index=index)
        applied = self.slice(slices=slices)
        while applied is None:
            slices += 1
            applied = self.slice(slices=slices)
        return applied

    def prepare_many(self, list payloads not None):
        cdef uint64_t index = self.machine.applied
        self.records.clear()
        for payload in payloads:
            index += 1
            if not _append_record(&self.records, index, payload, ENTRY_COMMAND, 0, 0):
                raise MemoryError

    def apply_prepared(self, *, uint32_t batch=256):
        cdef Vec[uint64_t] statuses
        cdef status_t status
        memset(&statuses, 0, sizeof(statuses))
        with nogil:
            status = self._apply_records(batch, &statuses)
        try:
            if status != OK:
                raise ApplyFatal(status)
            return [statuses.data[i] for i in range(statuses.size)]
        finally:
            statuses.release()

    def apply_many(self, list payloads not None, *, uint32_t batch=256):
        self.prepare_many(payloads)
        return self.apply_prepared(batch=batch)

    cdef status_t _apply_records(self, uint32_t batch, Vec[uint64_t]* statuses) noexcept nogil:
        cdef ApplyResult result
        cdef ApplyOutcome outcome
        cdef const Record* record
        cdef size_t position = 0
        cdef status_t status = OK
        while position < self.records.size and status == OK:
            record = <const Record*>(self.records.data + position)
            outcome = machine_apply(self.machine, record, &result)
            if outcome == APPLY_FATAL:
                return result.status
            if outcome == APPLY_MORE:
                continue
            if not statuses.push(<uint64_t>result.status):
                return NO_MEMORY
            position += (sizeof(Record) + record.length + FORMAT_RECORD_ALIGNMENT - 1) // FORMAT_RECORD_ALIGNMENT * (
                FORMAT_RECORD_ALIGNMENT)
            if statuses.size % batch == 0 or position == self.records.size:
                status = machine_publish(self.machine)
        return status

    def publish(self):
        return machine_publish(self.machine)

    # --- reads --------------------------------------------------------------------------------------------------------
    def get(self, bytes key not None, revision=0):
        cdef Bytes window = _window(key)
        cdef KeyView view
        cdef status_t status = machine_get(self.machine, &window, revision, &view)
        if status != OK:
            return status, None
        return status, (_bytes(view.key.data, view.key.length), _bytes(view.value.data, view.value.length),
                        view.create_revision, view.mod_revision, view.version, view.lease, view.flags)

    def get_shared(self, bytes key not None, revision=0):
        cdef Bytes window = _window(key)
        cdef Vec[uint8_t] out
        cdef uint64_t seen = 0
        memset(&out, 0, sizeof(out))
        cdef status_t status = machine_get_shared(self.machine, &window, revision, &out, &seen)
        try:
            return status, _bytes(out.data, out.size), seen
        finally:
            out.release()

    def range_shared(self, bytes key not None=b"", bytes end not None=b"", *, uint64_t revision=0, uint32_t limit=0,
                     uint32_t bytes_max=0xFFFFFFFF, bint keys_only=False, bint count_only=False,
                     bytes delimiter not None=b"", uint32_t skip=0):
        cdef Bytes from_key = _window(key)
        cdef Bytes to_key = _window(end)
        cdef Grouping grouping
        cdef Vec[uint8_t] out
        cdef uint64_t seen = 0
        cdef uint64_t count = 0
        cdef bint more = False
        cdef status_t status
        memset(&out, 0, sizeof(out))
        grouping.delimiter = _window(delimiter)
        grouping.skip = skip
        with nogil:
            status = machine_range_shared(self.machine, &from_key, &to_key, revision, &grouping, limit, bytes_max,
                                          keys_only, count_only, &out, &count, &more, &seen)
        try:
            return status, _bytes(out.data, out.size), count, bool(more), seen
        finally:
            out.release()

    def changes(self, uint32_t count):
        return _changes(machine_changes(self.machine), count)

    def history(self, uint64_t revision):
        cdef const Change* changes = NULL
        cdef uint32_t count = 0
        cdef uint64_t wall_ms = 0
        cdef status_t status = machine_history(self.machine, revision, &changes, &count, &wall_ms)
        if status != OK:
            return status, [], 0
        return status, _changes(changes, count), wall_ms

    # --- rights -------------------------------------------------------------------------------------------------------
    def allow(self, bytes name not None, uint8_t right, bytes start not None, bytes end=None):
        cdef RightsTable* table = rights_hold(&self.machine.rights)
        cdef Bytes low = _window(start)
        cdef Bytes high = _window(b"" if end is None else end)
        if table == NULL or not table.is_enabled:
            allowed = True
        else:
            allowed = bool(rights_allow(table_user(table, <const uint8_t*>PyBytes_AS_STRING(name),
                                                   <uint32_t>PyBytes_GET_SIZE(name)), right, &low, &high, end is None))
        if table != NULL:
            rights_drop(table)
        return allowed

    # --- leases and sessions ------------------------------------------------------------------------------------------
    cdef list _due(self, bint sessions, uint64_t lease_ms, uint32_t most):
        cdef Vec[uint64_t] ids
        cdef Vec[uint64_t] deadlines
        cdef uint32_t count
        memset(&ids, 0, sizeof(ids))
        memset(&deadlines, 0, sizeof(deadlines))
        if sessions:
            count = machine_due_sessions(self.machine, lease_ms, &ids, &deadlines, most)
        else:
            count = machine_due_leases(self.machine, lease_ms, &ids, &deadlines, most)
        due = [(ids.data[i], deadlines.data[i]) for i in range(count)]
        ids.release()
        deadlines.release()
        return due

    def due_leases(self, uint64_t lease_ms, uint32_t most=1000):
        return self._due(False, lease_ms, most)

    def due_sessions(self, uint64_t lease_ms, uint32_t most=1000):
        return self._due(True, lease_ms, most)

    def session_exists(self, uint64_t session):
        return bool(machine_session_exists(self.machine, session))

    def session_result(self, uint64_t session, uint64_t sequence):
        cdef const uint8_t* body = NULL
        cdef uint32_t length = 0
        cdef uint64_t revision = 0
        cdef status_t status = machine_session_result(self.machine, session, sequence, &body, &length, &revision)
        return status, _bytes(body, length), revision

    def lease(self, uint64_t lease):
        cdef uint64_t ttl_ms = 0
        cdef uint64_t deadline_ms = 0
        cdef uint32_t key_count = 0
        cdef status_t status = machine_lease(self.machine, lease, &ttl_ms, &deadline_ms, &key_count)
        return status, ttl_ms, deadline_ms, key_count

    # --- dump and load ------------------------------------------------------------------------------------------------
    def dump(self, uint32_t bytes_max=1 << 16, DumpBaseHandle base=None, uint32_t prepared_at_once=1 << 16):
        cdef DumpHandle dump = DumpHandle(self, bytes_max, prepared_at_once)
        dump.base = base
        if base is not None and base.base.root != NULL:
            machine_dump_since(&dump.dump, &base.base)
        return dump

    def dump_base(self):
        return DumpBaseHandle(self)

    def dump_base_loaded(self):
        cdef DumpBaseHandle handle = DumpBaseHandle(self)
        machine_dump_base_loaded(self.machine, &handle.base)
        return handle


@cython.no_gc_clear          # the machine must outlive what is pinned in it
cdef class DumpBaseHandle:
    cdef MachineHandle owner
    cdef DumpBase base

    def __cinit__(self, MachineHandle owner not None):
        self.base.root = NULL
        self.owner = owner

    def __dealloc__(self):
        machine_dump_base_forget(self.owner.machine, &self.base)


@cython.no_gc_clear          # the machine must outlive its dump
cdef class DumpHandle(machine_handle.DumpHandle):
    cdef DumpBaseHandle base

    cdef _end(self):
        if self.base is not None and self.dump.cursor != NULL:
            machine_dump_keep(self.owner.machine, &self.dump, &self.base.base)
        machine_handle.DumpHandle._end(self)
