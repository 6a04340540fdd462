# The breadth-first search: all configurations that are possible, event by event (Lowe 2017, just-in-time
# linearization).
#
# A configuration is a state, and the set of operations under way that have already taken effect to reach it. An
# invocation adds an operation to those under way. At a completion every configuration must contain the completed
# operation. A configuration that lacks it is continued by operations under way, in every order that the model allows,
# only as far as it needs (just in time). When no configuration is left, the history up to this completion has no
# linearization; the configurations before it are the counterexample. Sets are compared themselves, so both answers are
# proof.
#
# It needs memory for the configurations of one moment only, however long the history is. Crashed operations stay under
# way for ever. If two configurations differ only in crashed operations, the one that used fewer stands for both.
#
# It decides whether one component is linearizable, from one or from several states. It never reads a clock.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint32_t, uint64_t

from raftmeta.check.model cimport Model
from raftmeta.check.problem cimport Problem
from raftmeta.check.status cimport Answer
from raftmeta.native.containers cimport Vec

# A row: the state, words with a bit for each completed operation under way, words with a bit for each crashed one.
cdef struct Configurations:
    Vec[uint64_t] rows
    Vec[int32_t] next_alike     # of a row: another one that differs in its crashed operations only
    Vec[uint32_t] home          # of a row: its place in slots
    Vec[int32_t] slots          # row + 1 of the newest row there; a power of two
    int32_t count

# Zeroed is empty; to be used again and again.
cdef struct JustInTime:
    Configurations now
    Configurations after        # the completion that is being worked on
    Vec[int32_t] under_way      # operations, in the order of their invocations
    int32_t completing          # of those, how many will complete
    int32_t stride              # words of a row
    int32_t crashed_word        # where the words of crashed operations begin
    int32_t event               # the node that is being worked on
    int32_t settled             # rows of `now` that were possible before it
    int32_t row                 # of `now`, that is being continued
    int32_t candidate           # of under_way, that comes next for it
    uint64_t steps
    size_t bytes_max
    Vec[uint64_t] row_scratch
    # The last moment at which no operation was under way that completes: what was possible then, and the node after it.
    bint keeps_window
    int32_t window_event
    Vec[uint64_t] window_rows

cdef bint jit_begin(JustInTime* jit, const Problem* problem, const int32_t* states, int32_t state_count,
                    size_t bytes_max) noexcept nogil
# ANSWER_ILLEGAL: jit.event is the completion that fits none of the first jit.settled rows of jit.now.
cdef Answer jit_run(JustInTime* jit, const Problem* problem, Model* model, uint64_t steps) noexcept nogil
cdef void jit_release(JustInTime* jit) noexcept nogil
