# Read rounds of a desk: one question to the leader serves all who asked before it.
from libc.stdint cimport uint64_t

from raftmeta.doors.desk.state cimport Desk, DeskTask

# The number of the round that the caller has to wait for. It is asked of the loop at the end of the turn.
cdef uint64_t round_ask(Desk* desk) noexcept nogil
# Whether its reads may be served from a state of this revision: what was committed when it was asked for is in it.
cdef bint round_is_done(const Desk* desk, uint64_t round, uint64_t revision) noexcept nogil
# At the end of a turn.
cdef void rounds_submit(Desk* desk) noexcept nogil
# TASK_ROUND is back.
cdef void round_done(Desk* desk, const DeskTask* task) noexcept nogil
