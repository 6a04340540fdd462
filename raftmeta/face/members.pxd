# Membership calls of a node, as far as both faces agree: what it sees, and how a step of a plan is submitted.
from libc.stdint cimport uint64_t

from raftmeta.face.base cimport NodeBase
from raftmeta.loop.tickets cimport Mailbox, Ticket

cdef enum:
    TUNE_LOOK_NS = 20_000_000       # between two looks at what a plan waits for, unless the membership changes first

# A members.plans.View of now.
cdef object view_of(NodeBase node)
# A ticket for a step of members/plans, one hold of it the caller's.
cdef Ticket* submit_step(NodeBase node, object view, object step, Mailbox* mailbox) except NULL
# Done when another membership than the view's is committed.
cdef Ticket* submit_await_membership(NodeBase node, object view, Mailbox* mailbox) except NULL
# The sync face: wait for that, not longer than until the next look.
cdef int await_membership(NodeBase node, object view, uint64_t deadline_ns) except -1
cdef uint64_t next_look_ns(uint64_t deadline_ns) noexcept
# The sync face: take steps until the goal of a members.plans.Change is reached; else raise what became of it.
cdef int reach(NodeBase node, object change, uint64_t deadline_ns) except -1
# MemberStatus of all members, once a change that was under way is over. Raises NotReady while it is not.
cdef object settled_members(NodeBase node)

# Whom to hand over to; 0: whoever is most advanced. Raises InvalidArgument where it leads, or nobody else votes.
cdef uint64_t transfer_target(NodeBase node, object to) except? 0
