# A second core in the same state, and when two states are the same: for tools that try every continuation of a state.
#
# All three look at a core at rest: what the last core_ready gave out was taken, its apply range was applied, and
# core_has_ready is false. A write may be under way. They decide nothing of the protocol; no node calls them.
#
#     core_settle      brings to one form what can differ without a difference: what a core would do next stays the same
#     core_digest      equal for two settled cores: every further input meets equal answers (but for a collision).
#                      With names: what it would be if each member had the name that it is given, names[id]; so that
#                      of two worlds that differ by an exchange of members only one need be looked at
#     core_copy        shares the records, which never change, and nothing else
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.raft.state cimport Core
from raftmeta.status cimport status_t

# The clock stands where every member has been without news of a leader for the minimum election time-out, and nobody's
# own time-out is over: any vote may be asked for and given (paper 5.2). A leader has just heard everybody. Writes are
# numbered from 1 again, the random stream begins anew, and what a leader begins anew with its term is empty elsewhere.
cdef void core_settle(Core* core) noexcept nogil
cdef uint64_t core_digest(const Core* core, const uint8_t* names) noexcept nogil     # NULL: their own
# NO_MEMORY: *copy is unfinished, and destroyed like every other; NULL when there is none.
cdef status_t core_copy(const Core* core, Core** copy) noexcept nogil
