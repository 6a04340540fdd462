# Membership as one node sees it: changes that its callers ask for, whether it is a member itself, and whom it wants to
# meet. The core decides which changes there are and when one may begin (raft/membership_change).
from raftmeta._core cimport ProposalRefused
from raftmeta.engine.state cimport Engine, Standing
from raftmeta.engine.submission cimport Submission
from raftmeta.status cimport status_t

# SUBMIT_MEMBERSHIP and SUBMIT_MEET; both take the submission over.
cdef status_t members_change(Engine* engine, Submission* submission) noexcept nogil
cdef void members_meet(Engine* engine, Submission* submission) noexcept nogil
cdef void members_refused(Engine* engine, const ProposalRefused* refusal) noexcept nogil
# Once a turn: what was asked of another leader and is decided or silent, and whether this node is still a member.
cdef void members_look(Engine* engine) noexcept nogil
# Once a tick while running.
cdef void members_tick(Engine* engine) noexcept nogil
# Everybody who waits is told that the outcome is not known.
cdef void members_stop(Engine* engine) noexcept nogil
cdef void members_release(Standing* standing) noexcept nogil
