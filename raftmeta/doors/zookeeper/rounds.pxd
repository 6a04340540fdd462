# Read rounds of the ZooKeeper door: one question to the leader serves all who asked before it.
from libc.stdint cimport uint64_t

from raftmeta.doors.zookeeper.state cimport ZkDoor, ZkTask

# The number of the round that the caller has to wait for. It is asked of the loop at the end of the turn.
cdef uint64_t round_ask(ZkDoor* door) noexcept nogil
# Whether its reads may be served: what was committed when it was asked for is applied here, and its events were told.
cdef bint round_is_done(const ZkDoor* door, uint64_t round) noexcept nogil
# At the end of a turn.
cdef void rounds_submit(ZkDoor* door) noexcept nogil
# TASK_ROUND is back.
cdef void round_done(ZkDoor* door, const ZkTask* task) noexcept nogil
