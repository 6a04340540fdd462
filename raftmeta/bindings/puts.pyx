"""How put_many cuts its items into groups; puts.pxd says what a group is.

A group costs every member one log entry and one result, however many keys it has, and whoever shares the loop waits
until it is applied: hence its bounds.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.bindings.commands cimport check_encoded, take_key, take_value
from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport (COMMAND_KEYS, OP_PUT, Command, Fence, Op, command_encode, command_init,
                                     command_release)

from raftmeta.errors import InvalidArgument

cdef enum:
    TUNE_GROUP_ITEMS = 4096
    TUNE_GROUP_BYTES = 1024 * 1024      # of keys and values; one item may have more


cdef int _take_put(tuple pair, uint32_t value_bytes_max, Op* op) except -1:
    memset(op, 0, sizeof(Op))
    op.kind = OP_PUT
    take_key(pair[0], "key", &op.key)
    return take_value(pair[1], "value", value_bytes_max, &op.value)


cdef tuple _pair_of(object item):
    pair = tuple(item) if isinstance(item, (tuple, list)) else ()
    if len(pair) != 2:
        raise InvalidArgument(f"pair: must be a key and its value, not {item!r:.60}", field="pair")
    return pair


cdef list pairs_of(object items, uint32_t value_bytes_max):
    cdef list pairs
    cdef Py_ssize_t i
    cdef Op op
    try:
        pairs = list(items.items() if hasattr(items, "items") else items)
    except TypeError:
        raise InvalidArgument(f"items: must be a mapping or pairs, not {type(items).__name__}", field="items") from None
    for i in range(len(pairs)):
        try:
            if type(pairs[i]) is not tuple or len(<tuple>pairs[i]) != 2:
                pairs[i] = _pair_of(pairs[i])
            _take_put(<tuple>pairs[i], value_bytes_max, &op)
        except InvalidArgument as error:
            raise InvalidArgument(f"items[{i}].{error}", field=f"items[{i}].{error.field}") from None
    return pairs


cdef Py_ssize_t append_puts(list pairs, Py_ssize_t first, uint64_t lease, uint32_t value_bytes_max, uint64_t session,
                            uint64_t sequence, uint64_t lowest_unanswered, const Fence* fence,
                            Vec[uint8_t]* out) except -1:
    cdef Py_ssize_t end = min(first + TUNE_GROUP_ITEMS, len(pairs))
    cdef Py_ssize_t at = first
    cdef size_t total = 0
    cdef Command command
    cdef Op op
    command_init(&command)
    command.kind = COMMAND_KEYS
    command.session = session
    command.sequence = sequence
    command.lowest_unanswered = lowest_unanswered
    command.fence = fence[0]
    try:
        while at < end:
            _take_put(<tuple>pairs[at], value_bytes_max, &op)
            total += op.key.length + op.value.length
            if total > TUNE_GROUP_BYTES and at > first:
                break
            op.lease = lease
            if not command.ops.push(op):
                raise MemoryError
            at += 1
        if not command.txns.resize(1):
            raise MemoryError
        memset(command.txns.data, 0, sizeof(command.txns.data[0]))
        command.txns.data[0].then_count = <uint32_t>command.ops.size
        check_encoded(command_encode(&command, out))
        return at
    finally:
        command_release(&command)
