# Rows out of a node's messages to its clients: pages of a range, and items of a watch.
#
# This module decides which revision comes next, and stops at one that does not follow: a feed has every change once, or
# says that it does not. It never decides where to connect or to begin again (raftmeta/scan/cluster.py). docs/formats.md
# "Client protocol", "Items of a watch".
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.scan.columns cimport Columns
from raftmeta.status cimport status_t

# The changes of every key in [next_revision, high]; those of keys in [start, stop) become rows.
cdef struct Feed:
    uint64_t next_revision
    uint64_t high
    uint64_t taken              # events of next_revision that were taken
    uint64_t passed             # events of that revision passed over since the watch was opened
    Vec[uint8_t] start
    Vec[uint8_t] stop           # empty: no end
    uint64_t told               # the revision that ended the watch, or that came out of order

# The items of one message. OK: go on; NOT_FOUND: `high` is whole, that was all; COMPACTED: history begins after `told`;
# STALE: the watch ended, open it again from next_revision; CORRUPT: `told` does not follow; BAD_FIELD, BAD_LENGTH:
# these
# are no items; NO_MEMORY.
cdef status_t feed_take(Feed* feed, const uint8_t* body, size_t length, Columns* columns) noexcept nogil
cdef void feed_release(Feed* feed) noexcept nogil

# One page of a range as of `revision`. *more: there are keys behind the last one, which is *key.
cdef status_t page_take(const uint8_t* body, size_t length, uint64_t revision, Columns* columns, bint* more,
                        const uint8_t** key, uint32_t* key_length) noexcept nogil
