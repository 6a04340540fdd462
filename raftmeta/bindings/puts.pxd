# Many puts as few commands: how put_many cuts its items into groups.
#
# A group is a transaction without a compare: its keys change in one revision, all or none. It decides how many items a
# group has, and never when it is sent. All functions hold the GIL.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Fence

# The items of a mapping, or pairs, in their order. InvalidArgument names the first that is none, before anything of
# them is sent.
cdef list pairs_of(object items, uint32_t value_bytes_max)
# Append the command that puts pairs[first], and as many behind it as fit; the position behind the last of them.
cdef Py_ssize_t append_puts(list pairs, Py_ssize_t first, uint64_t lease, uint32_t value_bytes_max, uint64_t session,
                            uint64_t sequence, uint64_t lowest_unanswered, const Fence* fence,
                            Vec[uint8_t]* out) except -1
