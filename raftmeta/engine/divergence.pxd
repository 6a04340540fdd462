# Replicas that have applied the same entries must be in the same state; here they compare while they run.
#
# After every entry whose index is a multiple of `interval`, each member tells the others its state hash. How a member
# answers other hashes than its own: docs/decisions/state-hash.md "Who is wrong". It never repairs a state, and never
# believes fewer than a majority of the voters against its own.
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.raft.types cimport MEMBERS_MAX, Membership, index_t, member_id_t
from raftmeta.status cimport status_t
from raftmeta.wire.state_messages cimport StateMark

cdef enum:
    MARKS_KEPT = 8              # a member that is further behind than so many intervals is not compared meanwhile

cdef enum Verdict:
    STATES_AGREE = 0            # as far as they are known
    STATES_DIFFER = 1           # somebody's is another one
    STATE_IS_WRONG = 2          # a majority of the voters has the same state, and it is not ours

# The hashes that one member told, of the newest points: the hash of index i stands at i / interval % MARKS_KEPT.
cdef struct MemberMarks:
    member_id_t member          # 0: free place
    StateMark[MARKS_KEPT] marks

cdef struct Divergence:
    index_t interval            # entries between two points; 0: states are not compared
    MemberMarks own
    MemberMarks[MEMBERS_MAX] others
    index_t told                # the newest point at which a difference was told

cdef inline bint divergence_is_point(const Divergence* divergence, index_t index) noexcept nogil:
    return divergence.interval != 0 and index % divergence.interval == 0

# Keep a mark, the own one or another member's. BAD_FIELD: it is of no point; ALREADY: a newer one of it is there.
cdef status_t divergence_note(Divergence* divergence, member_id_t own, member_id_t member,
                              const StateMark* mark) noexcept nogil
# The verdict about the point `index`; *other: the hash that the others have instead.
cdef Verdict divergence_judge(const Divergence* divergence, const Membership* membership, index_t index,
                              Hash128* other) noexcept nogil
