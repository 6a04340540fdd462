# Which rows of a history go together: an operation's two events, and the events of whole components.
#
# A bucket holds all events of some components, so that another process, or a reader of one row group of a file, can
# check
# it alone. This module decides which components share a bucket. It never judges. The events of a tainted component, and
# events that belong to none, are in no bucket.
from libc.stdint cimport int32_t, int64_t, uint8_t

from raftmeta.check.loaded cimport Loaded
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.status cimport status_t

# Zeroed is empty.
cdef struct Grouping:
    Vec[int32_t] invocation     # of a completion: the row of its invocation; else NONE
    Vec[int32_t] rows           # by bucket, within one in the order of the history
    Vec[int64_t] bucket_ends    # by bucket: behind its last place in rows
    Vec[int32_t] outside        # rows in no bucket
    # Only while grouping.
    Vec[int32_t] component_of   # row -> component, or NONE
    Vec[uint8_t] reason_of      # row -> why it makes no sense, or 0
    Vec[int32_t] bucket_of      # component -> bucket, or NONE
    Vec[int64_t] counts         # component -> rows, later bucket -> place
    Map64[int32_t] under_way    # process -> row of its invocation + 1

# A bucket is closed when it has rows_max rows or more; a component alone may have more.
cdef status_t group_rows(Grouping* grouping, const Loaded* loaded, int64_t rows_max) noexcept nogil
cdef void group_release(Grouping* grouping) noexcept nogil
