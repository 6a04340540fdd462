# Linearizable reads without a log entry: ReadIndex on any member (thesis 6.4).
#
# Leader: the commit index at the sending of a heartbeat round serves every read that came before that round. Many reads
# share one round; no read joins a round that was sent before it came. Before the own-term commit reads wait.
# Others: waiting reads share one READ_INDEX to the leader. Its context is a number that is never used twice, not even
# by
# the next life of this process: a late answer cannot serve a younger read.
#
# A change of term or leader voids waiting reads with NO_LEADER: nothing was promised. A clock jump puts them into a new
# round.
from libc.stdint cimport uint64_t

from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Message, member_id_t
from raftmeta.status cimport status_t

# source 0: a caller here, with the context that it gave.
cdef status_t reads_ask(Core* core, member_id_t source, uint64_t context) noexcept nogil
# Leader: are there reads without a round?
cdef bint reads_want_round(Core* core) noexcept nogil
cdef void reads_join_round(Core* core) noexcept nogil
cdef void reads_on_confirmed(Core* core, uint64_t round) noexcept nogil
cdef void reads_void(Core* core) noexcept nogil
cdef void reads_on_clock_jumped(Core* core) noexcept nogil
# Follower: ask the leader for the waiting reads, again if it did not answer.
cdef bint reads_are_due(Core* core) noexcept nogil
cdef void reads_forward(Core* core) noexcept nogil
cdef status_t reads_on_response(Core* core, const Message* message) noexcept nogil
