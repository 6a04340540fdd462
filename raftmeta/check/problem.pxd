# One component in the form that the engines need: its operations in the order of their invocations and its events in
# the
# order of the history, without those that cannot matter.
#
# It leaves out operations that certainly cannot change the verdict: a crashed operation that changes no state, and a
# crashed write of a value that nobody can have noticed (docs/checker.md "Crashed operations").
from libc.stdint cimport int32_t, uint8_t

from raftmeta.check.model cimport Model, Operation
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.status cimport status_t

# An event: the number of an operation when it is invoked, its complement (~number) when it completes.

# A place in the doubly linked list that WGL cuts events out of, one per event, and one more, its head.
cdef struct Node:
    int32_t next
    int32_t previous
    int32_t operation           # an event, with operations counted within the problem
    int32_t completion          # of an invocation: the node of its completion; NONE when crashed

# Zeroed is empty; to be filled again and again.
cdef struct Problem:
    Vec[Operation] operations
    Vec[int32_t] numbers        # of the operations, as problem_build was given them
    Vec[Node] nodes             # in order; only next and previous are ever changed afterwards
    Vec[int32_t] invocation     # of an operation: its node
    Vec[int32_t] earlier_alike  # of a crashed operation: the one before it of the same kind, or NONE
    Vec[int32_t] must_follow    # lists only: of an append, what comes before it in every linearization, or NONE
    Vec[int32_t] bit            # of an operation: its bit among those under way; crashed ones have their own, from 0
    Vec[uint8_t] is_decisive    # alone under way, nothing crashed before, and the state after it is known for certain
    int32_t completed           # operations with a completion
    int32_t crashed
    int32_t concurrency         # bits that completed operations need
    Vec[int32_t] local          # scratch: number as given -> number in this problem, or NONE
    Vec[int32_t] free_bits
    Vec[int32_t] noticed        # scratch: by value, the problem (by its stamp) in which somebody can notice it
    Map64[int32_t] alike        # scratch: kind -> the latest crashed operation of it, + 1
    Map64[int32_t] appends      # scratch: value -> the operation that appends it, + 1
    int32_t stamp
    bint has_refusals           # an operation that says what a value was not: it may notice any write

# operations[0 .. operation_count) are those of the component, in the order of their invocations, which is also their
# order among the invocations in events[0 .. event_count).
cdef status_t problem_build(Problem* problem, const Model* model, const Operation* operations, int32_t operation_count,
                            const int32_t* events, int32_t event_count) noexcept nogil
# Every event in the list again, for a search from the beginning.
cdef void problem_link(Problem* problem) noexcept nogil
cdef void problem_release(Problem* problem) noexcept nogil
