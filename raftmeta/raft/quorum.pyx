"""Majorities; quorum.pxd says what an electorate is."""
from libc.stdint cimport UINT64_MAX, uint32_t, uint64_t

from raftmeta.raft.types cimport MEMBERS_MAX, member_mask_t


cdef bint quorum_has(const Electorate* electorate, member_mask_t agreeing) noexcept nogil:
    if electorate.incoming == 0 or not _is_majority(electorate.incoming, agreeing):
        return False
    return electorate.outgoing == 0 or _is_majority(electorate.outgoing, agreeing)


cdef inline uint32_t _majority(member_mask_t voters) noexcept nogil:
    return quorum_count(voters) // 2 + 1


cdef bint _is_majority(member_mask_t voters, member_mask_t agreeing) noexcept nogil:
    return quorum_count(voters & agreeing) >= _majority(voters)


cdef VoteResult quorum_votes(const Electorate* electorate, member_mask_t granted, member_mask_t refused) noexcept nogil:
    if quorum_has(electorate, granted):
        return VOTE_WON
    # It is lost when even the votes of all that have not answered would not suffice.
    return VOTE_PENDING if quorum_has(electorate, ~refused) else VOTE_LOST


cdef uint64_t quorum_reached(const Electorate* electorate, const uint64_t* numbers) noexcept nogil:
    cdef uint64_t incoming, outgoing
    if electorate.incoming == 0:
        return 0
    incoming = _majority_reached(electorate.incoming, numbers)
    outgoing = _majority_reached(electorate.outgoing, numbers) if electorate.outgoing else UINT64_MAX
    return incoming if incoming < outgoing else outgoing


cdef uint64_t _majority_reached(member_mask_t voters, const uint64_t* numbers) noexcept nogil:
    # Insertion sort, falling: electorates are small, and k members have reached the k-th number.
    cdef uint64_t[MEMBERS_MAX] sorted_numbers
    cdef uint32_t count = 0, place, position
    for position in range(<uint32_t>MEMBERS_MAX):
        if not (voters >> position) & 1:
            continue
        place = count
        while place > 0 and sorted_numbers[place - 1] < numbers[position]:
            sorted_numbers[place] = sorted_numbers[place - 1]
            place -= 1
        sorted_numbers[place] = numbers[position]
        count += 1
    return sorted_numbers[_majority(voters) - 1]
