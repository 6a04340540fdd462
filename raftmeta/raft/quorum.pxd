# Majorities as arithmetic on bit masks: no Raft state, no side effect.
#
# An electorate is a pair of sets of positions in the membership. Outside a change `outgoing` is empty and agrees with
# everything (paper 6: a decision needs a majority of each).
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.raft.types cimport member_mask_t

cdef struct Electorate:
    member_mask_t incoming
    member_mask_t outgoing

cdef enum VoteResult:
    VOTE_PENDING = 1
    VOTE_WON = 2
    VOTE_LOST = 3               # cannot be won any more

cdef extern from *:
    int __builtin_popcount(unsigned int bits) noexcept nogil

cdef inline uint32_t quorum_count(member_mask_t members) noexcept nogil:
    return <uint32_t>__builtin_popcount(members)

cdef bint quorum_has(const Electorate* electorate, member_mask_t agreeing) noexcept nogil
cdef VoteResult quorum_votes(const Electorate* electorate, member_mask_t granted, member_mask_t refused) noexcept nogil
# The greatest number that a majority of each set has reached, of numbers[position]. 0: there are no voters.
cdef uint64_t quorum_reached(const Electorate* electorate, const uint64_t* numbers) noexcept nogil
