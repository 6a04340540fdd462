# One component, from the cheapest engine to the dearest, within limits: the first answer wins.
#
#     witness      linear; only where all operations tell their revisions
#     WGL          alone for its first steps, which is enough for nearly all components
#     WGL and just-in-time, in turn     for the rest: each is quick where the other is not
#
# An "illegal" of WGL by fingerprints is searched again with exact keys, so that no collision can accuse anybody. Steps
# and bytes are counted, and the caller's deadline limits time. Each limit ends in "unknown" with its reason, which
# never
# counts as ok.
#
# Components take turns. A turn has a number of steps. A component that needs more is searched anew, with more steps,
# when
# all others had their turn. So an illegal component is found although a hard one stands before it.
#
# It decides the verdict on one component. It never decides what the operations mean.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint64_t

from raftmeta.check.just_in_time cimport JustInTime
from raftmeta.check.loaded cimport Loaded
from raftmeta.check.problem cimport Problem
from raftmeta.check.status cimport Answer
from raftmeta.check.wgl cimport Wgl
from raftmeta.check.witness cimport Witness

cdef enum Verdict:
    VERDICT_NONE = 0            # not decided yet
    VERDICT_OK = 1
    VERDICT_VIOLATION = 2
    VERDICT_UNKNOWN = 3
    VERDICT_MALFORMED = 4       # an event that makes no sense may belong to it: not searched

cdef enum Engine:
    ENGINE_NONE = 0
    ENGINE_WITNESS = 1
    ENGINE_WGL = 2
    ENGINE_JUST_IN_TIME = 3

# Which engines may be used; the first two bits may be left out for tests and measurements.
cdef enum:
    USE_WITNESS = 1
    USE_WGL = 2
    USE_JUST_IN_TIME = 4

cdef enum Limit:
    LIMIT_NONE = 0
    LIMIT_TIME = 1
    LIMIT_STEPS = 2
    LIMIT_MEMORY = 3
    LIMIT_VIOLATION = 4         # another component has no linearization, which decides the history
    LIMIT_TURN = 5              # only between turns: it is searched again, with more steps

cdef struct Outcome:
    Verdict verdict
    Engine engine               # that decided
    Limit limit                 # of an unknown
    uint64_t steps
    int64_t elapsed_ns

# Zeroed, with its limits, is usable; for one component after the other.
cdef struct Portfolio:
    uint64_t steps_max          # of one component, over all engines
    uint64_t turn_steps         # ... in this turn; then the other components come first
    size_t bytes_max            # of one engine
    int64_t deadline_ns         # on CLOCK_MONOTONIC, for everything; 0: none
    int32_t engines             # USE_
    int32_t initial_value       # of every key
    Problem problem
    Witness witness
    Wgl wgl
    JustInTime jit
    int32_t state               # before the first operation
    Engine turn
    int32_t searching           # USE_ of the engines that have not given up
    bint is_jit_begun
    Outcome outcome

# The component is built and begun, or its outcome is already known. False: no memory.
cdef bint portfolio_begin(Portfolio* portfolio, Loaded* loaded, int32_t component) noexcept nogil
# ANSWER_LEGAL: portfolio.outcome is known, whatever it is. ANSWER_RUNNING: the slice is used. ANSWER_ASKS.
cdef Answer portfolio_run(Portfolio* portfolio, Loaded* loaded, int64_t slice_end_ns) noexcept nogil
cdef void portfolio_release(Portfolio* portfolio) noexcept nogil
cdef int64_t monotonic_ns() noexcept nogil
