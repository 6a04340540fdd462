# Leadership transfer (thesis 3.10): the leader stops proposals and lease reads, brings the target up to date, and
# orders it to campaign at once with TIMEOUT_NOW. After an election time-out it gives up and goes on leading.
#
# Lease reads stay off until the end of the term: a late TIMEOUT_NOW can still depose this leader.
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport member_id_t
from raftmeta.status cimport status_t

# target 0: the most advanced voter. NO_LEADER; NOT_READY: nobody to hand over to; BAD_FIELD: not a voter; ALREADY.
cdef status_t transfer_begin(Core* core, member_id_t target) noexcept nogil
# The target may have caught up now.
cdef void transfer_advance(Core* core) noexcept nogil
# On a leader: give a transfer up in time. Begin one when its own disk is full and a quorum of others has room.
cdef void transfer_tick(Core* core) noexcept nogil
# This leader is about to step down for good: tell the commit index, and let the most advanced voter lead at once.
cdef void transfer_farewell(Core* core) noexcept nogil
