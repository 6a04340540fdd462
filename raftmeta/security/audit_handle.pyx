"""The rings and lines of an audit trail as a Python object."""

from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.atomics cimport load_shared, store_shared
from raftmeta.security.audit_lines cimport (AUDIT_HASH_BYTES, AUDIT_STATUSES, VERDICT_BYTES, audit_lines_add,
                                            audit_lines_release, audit_lines_take, audit_operation_name, audit_text)
from raftmeta.security.audit_queue cimport (AUDIT_OPERATIONS, AuditClass, audit_await, audit_create, audit_destroy,
                                            audit_dropped, audit_pushed, audit_suppressed, audit_wake)
from raftmeta.status cimport OK, status_t

HASH_BYTES = AUDIT_HASH_BYTES
CLASSES = ("reads", "writes", "denied", "administration")
OPERATIONS = tuple(audit_operation_name(number).decode() for number in range(1, AUDIT_OPERATIONS))


def escaped(bytes text not None):
    cdef Vec[uint8_t] out
    memset(<void*>&out, 0, sizeof(out))
    try:
        if not audit_text(<const uint8_t*>text, len(text), &out):
            raise MemoryError
        return out.data[: out.size].decode() if out.size else ""
    finally:
        out.release()


cdef class AuditHandle:
    def __cinit__(self, *, bint reads=False, bint writes=False, bint required=False, bytes chain_key=None,
                  bytes keys_key=None):
        self.trail = audit_create()
        if self.trail == NULL:
            raise MemoryError
        self.trail.reads = reads
        self.trail.writes = writes
        self.trail.is_required = required
        if chain_key is not None:
            self.lines.has_chain_key = True
            _fill(self.lines.chain_key, chain_key)
        if keys_key is not None:
            self.lines.hashes_keys = True
            _fill(self.lines.keys_key, keys_key)

    def __dealloc__(self):
        audit_destroy(self.trail)
        audit_lines_release(&self.lines)
        self.out.release()

    def begin(self, str node not None, str cluster not None, uint64_t number, bytes chain not None,
              dict verdicts not None):
        cdef bytes origin = f'"node":"{escaped(node.encode())}","cluster":"{escaped(cluster.encode())}"'.encode()
        cdef bytes word
        self.lines.origin.clear()
        if not self.lines.origin.append(<const uint8_t*>origin, len(origin)):
            raise MemoryError
        self.lines.number = number
        _fill(self.lines.chain, chain)
        for status, text in verdicts.items():
            word = text.encode()
            if 0 <= status < AUDIT_STATUSES and len(word) < VERDICT_BYTES:
                memset(self.lines.verdicts[<int>status], 0, VERDICT_BYTES)
                memcpy(self.lines.verdicts[<int>status], <const char*>word, len(word))

    @property
    def number(self):
        return self.lines.number

    @property
    def chain(self):
        return (<const char*>self.lines.chain)[:AUDIT_HASH_BYTES]

    def take(self, size_t bytes_max):
        cdef status_t status
        self.out.clear()
        with nogil:
            status = audit_lines_take(&self.lines, self.trail, bytes_max, &self.out)
        return _told(status, &self.out)

    def add(self, str fields not None, uint64_t wall_ms):
        cdef bytes text = fields.encode()
        self.out.clear()
        return _told(audit_lines_add(&self.lines, wall_ms, <const uint8_t*>text, len(text), &self.out), &self.out)

    def wait(self, double timeout_s, bint is_pause=False):
        cdef uint64_t timeout_ns = <uint64_t>(max(0.0, timeout_s) * 1e9)
        with nogil:
            audit_await(self.trail, timeout_ns, is_pause)

    def wake(self):
        audit_wake(self.trail)

    @property
    def is_failing(self):
        return load_shared(&self.trail.is_failing) != 0

    @is_failing.setter
    def is_failing(self, bint value):
        store_shared(&self.trail.is_failing, <uint32_t>value)

    @property
    def taken(self):
        return audit_pushed(self.trail)

    @property
    def dropped(self):
        return tuple(audit_dropped(self.trail, <AuditClass>number) for number in range(len(CLASSES)))

    @property
    def suppressed(self):
        return audit_suppressed(self.trail)


cdef int _fill(uint8_t* into, bytes given) except -1:
    if len(given) != AUDIT_HASH_BYTES:
        raise ValueError(f"a hash and a key have {AUDIT_HASH_BYTES} bytes, not {len(given)}")
    memcpy(into, <const uint8_t*>given, AUDIT_HASH_BYTES)
    return 0


cdef bytes _told(status_t status, Vec[uint8_t]* found):
    if status != OK and found.size == 0:
        raise MemoryError
    return PyBytes_FromStringAndSize(<const char*>found.data, <Py_ssize_t>found.size)
