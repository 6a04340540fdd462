# Reads of keys: at the newest or a past revision, on the applying thread or on any other.
#
# Nothing here changes the state, waits for the applying thread or makes it wait. Readers on other threads see the last
# published root, which carries its revision; past revisions are the version chains behind it.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes, KeyView

# A range by groups: all keys with the same beginning, up to and with the delimiter, are given once, as that beginning.
# A group of any size costs one seek. Only a group whose first keys are deleted costs a step for each of them.
cdef struct Grouping:
    Bytes delimiter             # empty: no groups
    uint32_t skip               # the delimiter is sought behind so many bytes of a key

# --- the thread that applies ------------------------------------------------------------------------------------------
# revision 0: the newest. OK, NOT_FOUND, COMPACTED, FUTURE_REVISION. Views are valid until the next apply.
cdef status_t machine_get(Machine* machine, const Bytes* key, uint64_t revision, KeyView* view) noexcept nogil
# --- any thread, published state. Values are copied out ---------------------------------------------------------------
# Appends result_key() msgpack to out; *revision is that of the state seen. Callers exclude one another (they hold the
# GIL).
cdef status_t machine_get_shared(Machine* machine, const Bytes* key, uint64_t at_revision, Vec[uint8_t]* out,
                                 uint64_t* revision) noexcept nogil
# Appends up to `limit` records (0: none) or bytes_max bytes of [key, end) in key order, at least one; *more: there is
# more, and the next call starts after the last key with the same at_revision. keys_only: values are left empty, and
# extensions out.
# count_only: nothing is appended, *count is that of the whole range; otherwise of the records appended.
# A group is appended as a bin, in its place among the records, and counts as one of them. The page behind a group
# starts at the first key that does not begin with it.
cdef status_t machine_range_shared(Machine* machine, const Bytes* key, const Bytes* end, uint64_t at_revision,
                                   const Grouping* grouping, uint32_t limit, uint32_t bytes_max, bint keys_only,
                                   bint count_only, Vec[uint8_t]* out, uint64_t* count, bint* more,
                                   uint64_t* revision) noexcept nogil
