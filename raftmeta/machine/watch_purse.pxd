# A bound on the bytes of events that nobody took yet, for one client's watches or for all clients of a node together.
#
# The thread that applies pays into a purse for each item that it enqueues; the thread that takes the item pays back.
# It decides whether a purse has room: its fair share of the pool always, more while the pool is not half full. It
# must never end a watch, or wait. Watches of this process have no purse; their queues are bounded one by one.
from libc.stdint cimport uint64_t

from raftmeta.machine.watch_state cimport WatchPool, WatchPurse

# One holder, the caller. NULL: no memory.
cdef WatchPool* pool_create(uint64_t bytes_max) noexcept nogil
cdef void pool_drop(WatchPool* pool) noexcept nogil
# The same; it holds the pool.
cdef WatchPurse* purse_create(WatchPool* pool) noexcept nogil
cdef void purse_hold(WatchPurse* purse) noexcept nogil
cdef void purse_drop(WatchPurse* purse) noexcept nogil
# NULL stands for no bound, in all that follow.
cdef bint purse_has_room(const WatchPurse* purse, uint64_t bytes) noexcept nogil
cdef void purse_pay(WatchPurse* purse, uint64_t bytes) noexcept nogil
cdef void purse_pay_back(WatchPurse* purse, uint64_t bytes) noexcept nogil
