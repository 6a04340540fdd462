"""Commands and results as functions that give and take bytes, for tests: as a node's verbs make and read them."""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.bindings.commands cimport append_op, append_txn, read_result, read_values, take_fence, take_operation
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Fence, Op

cdef enum:
    VALUE_BYTES_MAX = 1 << 20   # default of Config.value_bytes_max


def encode_txn(compares=(), then=(), otherwise=(), *, uint64_t session=0, uint64_t sequence=0,
               uint64_t lowest_unanswered=0, fence=None, uint32_t value_bytes_max=VALUE_BYTES_MAX):
    cdef Vec[uint8_t] out
    memset(&out, 0, sizeof(out))
    try:
        append_txn(compares, then, otherwise, value_bytes_max, session, sequence, lowest_unanswered, fence, &out)
        return PyBytes_FromStringAndSize(<char*>out.data, <Py_ssize_t>out.size)
    finally:
        out.release()


def encode_operation(operation, *, uint64_t session=0, uint64_t sequence=0, uint64_t lowest_unanswered=0, fence=None,
                     uint32_t value_bytes_max=VALUE_BYTES_MAX):
    cdef Vec[uint8_t] out
    cdef Fence taken
    cdef Op op
    memset(&out, 0, sizeof(out))
    try:
        take_operation(operation, value_bytes_max, &op)
        take_fence(fence, &taken)
        append_op(&op, session, sequence, lowest_unanswered, &taken, &out)
        return PyBytes_FromStringAndSize(<char*>out.data, <Py_ssize_t>out.size)
    finally:
        out.release()


def decode_result(bytes result not None):
    return read_result(<const uint8_t*>PyBytes_AS_STRING(result), <size_t>PyBytes_GET_SIZE(result))


def decode_values(bytes values not None):
    return read_values(<const uint8_t*>PyBytes_AS_STRING(values), <size_t>PyBytes_GET_SIZE(values))
