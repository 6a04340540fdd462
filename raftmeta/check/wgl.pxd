# The depth-first search for a linearization: Wing & Gong 1993, with the cache of Lowe 2017.
#
# It walks along the events that have no place yet. At an invocation it tries to let the operation take effect next. If
# the model allows that, and this set of operations was not tried with this state before, it cuts the operation's two
# events out of the list and begins again at the front. At a completion it has gone too far, since that operation must
# have taken effect by now: it takes the last decision back. (Wing & Gong, Testing and Verifying Concurrent Objects;
# Lowe, Testing for Linearizability, 2017.)
#
# A fingerprint stands for a set, and each step changes it in constant time: two random words per operation, xor-ed. So
# an
# "illegal" found by fingerprints may be wrong, once in 2^128 pairs; an "illegal" found with is_exact compares the sets
# themselves. "Legal" is always proof: the stack is the linearization.
#
# It decides whether one component is linearizable. It never reads a clock: its caller gives it steps.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint64_t

from raftmeta.check.model cimport Model
from raftmeta.check.problem cimport Problem
from raftmeta.check.status cimport Answer
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128

# One decision: this operation took effect, in this state.
cdef struct Decision:
    int32_t operation
    int32_t state               # before it
    int32_t highest             # Wgl.highest before it

# Zeroed is empty; to be used again and again.
cdef struct Wgl:
    Vec[Decision] stack
    Vec[uint64_t] linearized    # a bit per operation
    Vec[Hash128] cache          # open addressing; all zero is free
    size_t cached
    uint64_t low                # the fingerprint of the linearized operations
    uint64_t high
    int32_t node                # where the walk stands
    int32_t state
    int32_t left                # completed operations that have not taken effect
    int32_t lowest              # all completed operations before this one are linearized
    int32_t highest             # no operation after this one is
    bint is_exact
    Vec[uint64_t] keys          # exact only: length, state, lowest word, words
    Vec[uint64_t] cache_keys    # exact only: position in keys + 1, by the same slots as cache
    uint64_t steps              # used so far
    size_t bytes_max
    Vec[int32_t] order          # the linearization, filled by wgl_run when it answers ANSWER_LEGAL

# The problem must be freshly linked.
cdef bint wgl_begin(Wgl* wgl, const Problem* problem, int32_t state, size_t bytes_max, bint is_exact) noexcept nogil
cdef Answer wgl_run(Wgl* wgl, Problem* problem, Model* model, uint64_t steps) noexcept nogil
cdef void wgl_release(Wgl* wgl) noexcept nogil
