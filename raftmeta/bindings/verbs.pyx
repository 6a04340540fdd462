"""Arguments of the verbs as operations of one command.

It decides nothing but defaults; bindings/commands checks every argument and names the one that is wrong. A put, the
call that is made most often, is filled in without a Python object of its own.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.bindings.commands cimport take_bound, take_key, take_number, take_operation, take_value
from raftmeta.wire.commands cimport (OP_CREATE, OP_DELETE, OP_DELETE_RANGE, OP_KEEP_LEASE, OP_KEEP_VALUE,
                                     OP_MUST_EXIST, OP_PUT, OP_UPDATE, OP_WANT_PREVIOUS)

from raftmeta.errors import InvalidArgument
from raftmeta.operations import Add, prefix_end

cdef enum:
    LEASE_TTL_S_MAX = 10 * 365 * 86400


cdef int take_lease(object lease, uint64_t* into) except -1:
    return take_number(lease if type(lease) is int else getattr(lease, "id", lease), "lease", ~<uint64_t>0, into)


cdef int _take_lease(object lease, Op* op) except -1:
    if lease is None:
        op.flags |= OP_KEEP_LEASE
        return 0
    return take_lease(lease, &op.lease)


cdef int _take_value(object value, uint32_t value_bytes_max, Op* op) except -1:
    if value is None:
        op.flags |= OP_KEEP_VALUE
    else:
        take_value(value, "value", value_bytes_max, &op.value)
    return 0


cdef int put_op(object key, object value, object lease, bint previous, uint32_t value_bytes_max, Op* op) except -1:
    memset(op, 0, sizeof(Op))
    op.kind = OP_PUT
    op.flags = OP_WANT_PREVIOUS if previous else 0
    take_key(key, "key", &op.key)
    _take_value(value, value_bytes_max, op)
    return _take_lease(lease, op)


cdef int create_op(object key, object value, object lease, uint32_t value_bytes_max, Op* op) except -1:
    memset(op, 0, sizeof(Op))
    op.kind = OP_CREATE
    take_key(key, "key", &op.key)
    take_value(value, "value", value_bytes_max, &op.value)
    if lease is None:
        raise InvalidArgument("lease: a key that is created has no lease to keep", field="lease")
    return _take_lease(lease, op)


cdef int update_op(object key, object value, object lease, object expected_revision, bint previous,
                   uint32_t value_bytes_max, Op* op) except -1:
    put_op(key, value, lease, previous, value_bytes_max, op)
    op.kind = OP_UPDATE
    return take_number(expected_revision, "expected_revision", (<uint64_t>1 << 63) - 1, &op.expected_revision)


cdef int delete_op(object key, bint must_exist, object expected_revision, bint previous, Op* op) except -1:
    memset(op, 0, sizeof(Op))
    op.kind = OP_DELETE
    op.flags = (OP_MUST_EXIST if must_exist else 0) | (OP_WANT_PREVIOUS if previous else 0)
    take_key(key, "key", &op.key)
    return take_number(expected_revision, "expected_revision", (<uint64_t>1 << 63) - 1, &op.expected_revision)


cdef int delete_range_op(object start, object end, bint previous, Op* op) except -1:
    memset(op, 0, sizeof(Op))
    op.kind = OP_DELETE_RANGE
    op.flags = OP_WANT_PREVIOUS if previous else 0
    take_bound(start, "start", &op.key)
    return take_bound(end, "end", &op.end)


cdef int add_op(object key, object number, Op* op) except -1:
    return take_operation(Add(key, number), 0, op)


cdef object fence_of(object fence):
    return fence.fence if hasattr(fence, "fence") else fence


cdef uint64_t lease_ttl_ms(object ttl_s) except 0:
    is_number = isinstance(ttl_s, (int, float)) and not isinstance(ttl_s, bool)
    if not is_number or not 0.1 <= ttl_s <= LEASE_TTL_S_MAX:
        raise InvalidArgument(f"ttl_s: must be from 0.1 to {LEASE_TTL_S_MAX} seconds, not {ttl_s!r}", field="ttl_s")
    return <uint64_t>round(ttl_s * 1000)


cdef tuple range_bounds(object start, object end, object prefix):
    if prefix is None:
        return start, end
    if start or end:
        raise InvalidArgument("prefix: give either prefix or start and end", field="prefix")
    if not isinstance(prefix, (bytes, str)):
        raise InvalidArgument(f"prefix: must be bytes or str, not {type(prefix).__name__}", field="prefix")
    return prefix, prefix_end(prefix)
