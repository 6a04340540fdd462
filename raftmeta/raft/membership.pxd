# The members of the cluster and their votes: the bytes of a Membership, its rules, and the two steps of a change.
#
# Pure: no log, no clock, and it keeps nothing between calls. It decides what a change *is*. It never decides *whether*
# a
# change may begin; raft/membership_change does.
#
#     at rest     every member is VOTER_INCOMING or LEARNER, which may be a STANDBY
#     joint       current voters are VOTER_OUTGOING, those of the target VOTER_INCOMING, many are both; a decision needs
#                 a majority of each (paper 6, thesis 4.3). With OUTGOING alone a member leaves with the change; with
#                 OUTGOING and LEARNER_NEXT it stays as a learner; learners of the target are learners at once.
#
# Two incarnations of one name may stand side by side: a node with a wiped disk catches up as a learner and then takes
# the
# place of its old self. They never hold the same role, so one node never has two votes in an electorate.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, MEMBERS_MAX, NAME_BYTES_MAX, Membership, member_id_t, member_mask_t
from raftmeta.status cimport status_t

cdef enum:
    FORMAT_MEMBERSHIP_VERSION = 1
    MEMBERSHIP_HEAD_BYTES = 8
    MEMBERSHIP_MEMBER_BYTES = 12        # of each member, without its name and address
    MEMBERSHIP_BYTES_MAX = MEMBERSHIP_HEAD_BYTES + MEMBERS_MAX * (
        MEMBERSHIP_MEMBER_BYTES + NAME_BYTES_MAX + ADDRESS_BYTES_MAX)

# --- bytes (docs/formats.md "Membership") -----------------------------------------------------------------------------
# Append the encoding of a membership. BAD_FIELD, BAD_LENGTH: it does not pass membership_check; NO_MEMORY.
cdef status_t membership_encode(const Membership* membership, Vec[uint8_t]* out) noexcept nogil
# Read exactly `length` bytes. They do not hold `index`: it comes out as 0, and the caller knows the entry.
# BAD_VERSION, BAD_LENGTH (too short, too long, left over), BAD_FIELD: refused; `membership` then means nothing.
cdef status_t membership_decode(const uint8_t* bytes, uint32_t length, Membership* membership) noexcept nogil

# --- rules ------------------------------------------------------------------------------------------------------------
# Are the names and addresses text for people (native/text.pxd)? Ask when a membership comes in, not when one is read
# back: a log of an earlier version may have others. Names that `known` already holds pass; known may be NULL.
cdef bint membership_is_plain_text(const Membership* membership, const Membership* known) noexcept nogil
# OK, BAD_LENGTH (counts and lengths), BAD_FIELD (roles, ids, names, no voter).
cdef status_t membership_check(const Membership* membership) noexcept nogil

# --- sets by position in Membership.members ---------------------------------------------------------------------------
cdef int membership_position(const Membership* membership, member_id_t id) noexcept nogil          # -1: not a member
cdef member_mask_t membership_voters_incoming(const Membership* membership) noexcept nogil
cdef member_mask_t membership_voters_outgoing(const Membership* membership) noexcept nogil         # empty at rest
cdef member_mask_t membership_learners(const Membership* membership) noexcept nogil

# --- change -----------------------------------------------------------------------------------------------------------
# The joint membership between `current` and `target`, both at rest. Members that stay keep their order, and new ones
# follow. They may change position, as a learner that leaves is gone at once. Addresses are the target's.
# ALREADY: target is current; BAD_LENGTH: together more than MEMBERS_MAX; BAD_FIELD: one of both is joint or breaks a
# rule, an id changes its name, or more than one name is swapped for another incarnation.
cdef status_t membership_enter_joint(const Membership* current, const Membership* target,
                                     Membership* joint) noexcept nogil
# The membership that follows a joint one. BAD_FIELD: `joint` is not joint. `out` must not be `joint`.
cdef status_t membership_leave_joint(const Membership* joint, Membership* out) noexcept nogil
# The target that swaps the voter of the same name for the caught-up learner `successor` and changes nothing else.
# NOT_FOUND: no such learner, or no voter of its name.
cdef status_t membership_swap(const Membership* current, member_id_t successor, Membership* target) noexcept nogil
