# The members in force, and the one change that may be under way (paper 6; thesis 4.1-4.3).
#
#     in force     the last membership in the log, committed or not (thesis 4.1); if its entry is cut from the log, the
#                  one before is in force again
#     a change     joint entry -> committed -> the leader appends the leaving entry -> committed
#     at most one  a change begins only when the last one is committed and the leader has an own-term commit
#     a leader that the new membership drops leads until that is committed, then steps down (thesis 4.2.2)
#
# raft/membership says what a membership is and how two are joined; this module decides when.
# The leader promotes a learner that has caught up (thesis 4.2.1), or swaps it for the silent voter of its name. A
# standby stays a learner until an administrator promotes it.
# A change names the index of the membership that it was made from, so the leader knows what its author saw.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.raft.state cimport Core
from raftmeta.raft.types cimport Membership, Message, index_t, member_id_t
from raftmeta.status cimport status_t

# Put the membership at `index`, from a record of the log, in force. BAD_FIELD and others: unreadable.
cdef status_t membership_take(Core* core, index_t index, const uint8_t* payload, uint32_t length) noexcept nogil
# Make this the only membership known: the founding one, or a snapshot's.
cdef status_t membership_set(Core* core, const Membership* membership) noexcept nogil
# Does the membership in force name `id`? Others may ask for nothing here.
cdef bint is_member(Core* core, member_id_t id) noexcept nogil
cdef void membership_on_truncated(Core* core, index_t first) noexcept nogil
cdef void membership_on_committed(Core* core) noexcept nogil
# NO_LEADER, NOT_READY, NO_QUORUM, STALE, ALREADY, BAD_FIELD, BAD_LENGTH: refused.
cdef status_t membership_begin_change(Core* core, const Membership* next) noexcept nogil
# Send the change to the leader. No answer means that the change shows in the log, or was lost.
cdef status_t membership_forward_change(Core* core, const Membership* next, uint64_t context) noexcept nogil
cdef status_t membership_on_propose(Core* core, const Message* message) noexcept nogil
cdef void membership_tick(Core* core) noexcept nogil
