# Roles, terms, votes and their time-outs: who may lead (paper 5.2, 5.4.1; thesis 3.4, 4.2.3, 6.2, 9.6).
#
#                 time-out            majority would vote         majority voted and
#                 (voter, log whole)  for it                      its own vote is durable
#     FOLLOWER ---------------> PRE_CANDIDATE -----------> CANDIDATE -----------------> LEADER
#        ^  ^  lost, leader seen      |     TIMEOUT_NOW skips   |                          |
#        |  +-------------------------+     the pre-vote        |                          |
#        +---- a leader of its term, a higher term, lost -------+--------------------------+
#                                                          a higher term, no quorum heard for an election time-out,
#                                                          a committed membership without it
#
# Before its time-out, a member that has heard no leader since it started needs the pre-votes of all voters, not of a
# majority (docs/divergence.md "Elections").
# This module never sends entries and never decides what is committed.
from libc.stdint cimport uint64_t

from raftmeta.raft.ready cimport StepDownReason
from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Message, index_t, member_id_t, member_mask_t, term_t
from raftmeta.status cimport status_t

# Terms never fall. A leader, when given, was heard just now.
cdef void become_follower(Core* core, term_t term, member_id_t leader) noexcept nogil
cdef void step_down(Core* core, term_t term, StepDownReason reason) noexcept nogil
# The election time-out is over: ask for pre-votes, or with is_transfer for votes. A member that may not lead waits on.
cdef void campaign(Core* core, bint is_transfer) noexcept nogil
cdef void reset_election_timer(Core* core) noexcept nogil
# A message of this term's leader came.
cdef status_t hear_leader(Core* core, member_id_t leader) noexcept nogil

cdef void election_tick(Core* core) noexcept nogil
cdef void election_on_persisted(Core* core) noexcept nogil
cdef status_t election_on_request(Core* core, const Message* message) noexcept nogil            # VOTE, PRE_VOTE
cdef status_t election_on_response(Core* core, const Message* message) noexcept nogil           # their answers
cdef status_t election_on_timeout_now(Core* core, const Message* message) noexcept nogil
# The process of `member` is gone. If it led, this member does not wait for the time-out (docs/divergence.md).
cdef void election_on_refused(Core* core, member_id_t member) noexcept nogil
# A link is up. If it was the last one to another voter and no leader was heard yet, ask soon (docs/divergence.md).
cdef void election_on_connected(Core* core) noexcept nogil
# Voters (and others) that answered within the election time-out, with this member.
cdef member_mask_t heard_members(Core* core) noexcept nogil
