# Leases and sessions in the order of their deadlines on the lease clock: which one ends next.
#
# Renewing is the common case, so it costs nothing here: a renewal only raises `deadline_ms`, and the heap learns of it
# when the deadline under which the item was filed comes up. It never ends anything: an entry does.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.containers cimport Vec

# The head of a lease or a session.
cdef struct Due:
    uint64_t id
    uint64_t deadline_ms        # on the lease clock; only ever rises
    uint64_t filed_ms           # deadline at which it stands in the heap; never later than deadline_ms
    uint32_t position           # in the heap

cdef struct Deadlines:
    Vec[Due*] heap              # the least filed_ms first

# False: no memory, nothing changed.
cdef bint deadlines_add(Deadlines* deadlines, Due* due) noexcept nogil
cdef void deadlines_remove(Deadlines* deadlines, Due* due) noexcept nogil
# Append ids and deadlines of those due at or before lease_ms, at most `most`; they stay filed. The number of them.
cdef uint32_t deadlines_due(Deadlines* deadlines, uint64_t lease_ms, Vec[uint64_t]* ids, Vec[uint64_t]* due_ms,
                            uint32_t most) noexcept nogil
# A time to live that ends past the clock's range ends with it.
cdef inline uint64_t deadline_after(uint64_t lease_ms, uint64_t ttl_ms) noexcept nogil:
    return lease_ms + ttl_ms if lease_ms <= (<uint64_t>-1) - ttl_ms else <uint64_t>-1
