# Commands from Python objects, results to Python objects: the one crossing between a caller and the engine.
#
# It decides whether an argument is one (raftmeta/operations.py has the shapes; InvalidArgument names the field, nothing
# was appended) and never what the operation will find. All functions hold the GIL. Windows that the take_* functions
# give point into the Python objects: those must live, and the Op be encoded, before anybody else runs.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes, Fence, Op

# --- arguments --------------------------------------------------------------------------------------------------------
# bytes, or str as UTF-8. `field` is the argument's name in the error. Keys have 1 .. KEY_BYTES_MAX bytes; bounds of a
# range may be empty; values have at most `most` bytes.
cdef int take_key(object key, str field, Bytes* into) except -1
cdef int take_bound(object bound, str field, Bytes* into) except -1
# As take_bound, and also the successor of the longest key: where the page behind it begins, or a range of it ends.
cdef int take_page(object bound, str field, Bytes* into) except -1
cdef int take_value(object value, str field, uint32_t most, Bytes* into) except -1
# An int (bool is none) of [0, most].
cdef int take_number(object number, str field, uint64_t most, uint64_t* into) except -1
# Any operation but Txn; the whole of `into` is set.
cdef int take_operation(object operation, uint32_t value_bytes_max, Op* into) except -1
# None or an operations.Fence.
cdef int take_fence(object fence, Fence* into) except -1

# Raise the status of a command's encoder as an error of its caller.
cdef int check_encoded(status_t status) except -1

# --- whole commands, appended to out ----------------------------------------------------------------------------------
cdef int append_op(const Op* op, uint64_t session, uint64_t sequence, uint64_t lowest_unanswered, const Fence* fence,
                   Vec[uint8_t]* out) except -1
cdef int append_txn(object compares, object then, object otherwise, uint32_t value_bytes_max, uint64_t session,
                    uint64_t sequence, uint64_t lowest_unanswered, object fence, Vec[uint8_t]* out) except -1

# --- results ----------------------------------------------------------------------------------------------------------
# [status, revision, body] as a tuple. InvariantBroken: it is none; results come from our own machine.
cdef tuple read_result(const uint8_t* data, size_t length)
# Values that stand one after another: records of a range, items of a watch.
cdef list read_values(const uint8_t* data, size_t length)
