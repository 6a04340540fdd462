# Heartbeat rounds: what a leader can prove with the answers of a quorum.
#
# A round is one HEARTBEAT to every member with a number that is never used twice. Once a quorum has answered round n,
# no other leader had been elected when round n was sent. On this rest
#     reads       a read index taken before round n was sent is good (thesis 6.4)
#     lease reads for a while nobody else can be elected, counted from when round n was SENT (thesis 6.4.1; an option)
#     lease clock it advances over the time between two confirmed rounds, by send time, and stands still otherwise: a
#                 leader that nobody answers lets no lease expire (decisions/README.md "Leases"). Each round tells it to
#                 all members, so that the next leader goes on from there (docs/divergence.md "Time")
from libc.stdint cimport uint64_t

from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Message, term_t
from raftmeta.status cimport status_t

cdef void rounds_begin_term(Core* core) noexcept nogil
cdef void rounds_tick(Core* core) noexcept nogil
# Send the round that is due, if any. Waiting reads take part in it.
cdef void rounds_send(Core* core) noexcept nogil
cdef status_t rounds_on_heartbeat_response(Core* core, const Message* message, int position) noexcept nogil
# The leader of this term told its lease clock.
cdef void rounds_hear_lease_clock(Core* core, uint64_t lease_ms) noexcept nogil
# A member that votes for us told what it knows of the lease clock of our log's last leader.
cdef void rounds_hear_lease_clock_of_voter(Core* core, uint64_t lease_ms) noexcept nogil
# The lease clock of the leader of that term, as this member knows it; 0: unknown, or its log is not of that term.
cdef uint64_t rounds_lease_clock_of(Core* core, term_t term) noexcept nogil
# This member has other entries now, from the leader, a snapshot or its disk: the last one tells the lease clock.
cdef void rounds_on_entries(Core* core) noexcept nogil
# This process was paused or its clock leapt: rounds under way prove nothing any more.
cdef void rounds_on_clock_jumped(Core* core) noexcept nogil
