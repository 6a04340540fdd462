"""Comparing the states of replicas: bodies.

It decides whether the marks that are known contradict each other, and whom a majority contradicts. It
must never send, stop a node, or compare marks of different points.
"""

from libc.stdint cimport uint32_t
from libc.string cimport memset

from raftmeta.native.intrinsics cimport Hash128
from raftmeta.raft.types cimport VOTER_INCOMING
from raftmeta.status cimport ALREADY, BAD_FIELD, OK


# Where its marks stand; else a free place, else that of the member that was silent for the longest time.
cdef MemberMarks* _place_of(Divergence* divergence, member_id_t member) noexcept nogil:
    cdef MemberMarks* oldest = &divergence.others[0]
    cdef int i
    for i in range(MEMBERS_MAX):
        if divergence.others[i].member == member:
            return &divergence.others[i]
        if _newest(&divergence.others[i]) < _newest(oldest):
            oldest = &divergence.others[i]
    memset(<void*>oldest, 0, sizeof(MemberMarks))
    return oldest


cdef index_t _newest(const MemberMarks* marks) noexcept nogil:
    cdef index_t newest = 0
    cdef int i
    for i in range(MARKS_KEPT):
        newest = max(newest, marks.marks[i].index)
    return newest


cdef status_t divergence_note(Divergence* divergence, member_id_t own, member_id_t member,
                              const StateMark* mark) noexcept nogil:
    cdef MemberMarks* marks
    cdef StateMark* kept
    if member == 0 or not divergence_is_point(divergence, mark.index):
        return BAD_FIELD
    marks = &divergence.own if member == own else _place_of(divergence, member)
    marks.member = member
    kept = &marks.marks[mark.index // divergence.interval % <uint32_t>MARKS_KEPT]
    if kept.index > mark.index:
        return ALREADY
    kept[0] = mark[0]
    return OK


# NULL: not known.
cdef const StateMark* _mark_of(const Divergence* divergence, member_id_t member, index_t index) noexcept nogil:
    cdef const MemberMarks* marks = NULL
    cdef const StateMark* mark
    cdef int i
    if divergence.own.member == member:
        marks = &divergence.own
    for i in range(MEMBERS_MAX):
        if divergence.others[i].member == member:
            marks = &divergence.others[i]
    if marks == NULL:
        return NULL
    mark = &marks.marks[index // divergence.interval % <uint32_t>MARKS_KEPT]
    return mark if mark.index == index else NULL


cdef bint _is_same(const StateMark* left, const StateMark* right) noexcept nogil:
    return left.hash.low == right.hash.low and left.hash.high == right.hash.high


# How many voters there are, and how many of them say the same as mark.
cdef uint32_t _count_voters(const Divergence* divergence, const Membership* membership, const StateMark* mark,
                            uint32_t* agree) noexcept nogil:
    cdef const StateMark* said
    cdef uint32_t voters = 0
    cdef int i
    agree[0] = 0
    for i in range(membership.count):
        if not membership.members[i].roles & VOTER_INCOMING:
            continue
        voters += 1
        said = _mark_of(divergence, membership.members[i].id, mark.index)
        if said != NULL and _is_same(said, mark):
            agree[0] += 1
    return voters


cdef Verdict divergence_judge(const Divergence* divergence, const Membership* membership, index_t index,
                              Hash128* other) noexcept nogil:
    cdef const StateMark* own = _mark_of(divergence, divergence.own.member, index)
    cdef const StateMark* said
    cdef Verdict verdict = STATES_AGREE
    cdef uint32_t agree = 0
    cdef uint32_t voters
    cdef int i
    if own == NULL:
        return STATES_AGREE
    for i in range(membership.count):
        said = _mark_of(divergence, membership.members[i].id, index)
        if said == NULL or _is_same(said, own):
            continue
        verdict = STATES_DIFFER
        other[0] = said.hash
        voters = _count_voters(divergence, membership, said, &agree)
        if 2 * agree > voters:
            return STATE_IS_WRONG
    return verdict
