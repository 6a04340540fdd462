# The linear pass: by revisions the store itself says in which order it executed. Believe the order, and check it.
#
# Operations stand in order of revision, writes before reads of the same revision, ties by invocation. Two passes then
# check that the model gives each operation the result that it reported, and that no operation completed before the
# invocation of one that stands earlier in the order. If both hold, the order *is* a linearization: proof, without a
# search. This is the case of Gibbons & Korach (Testing Shared Memories, 1997) in which the order of writes is known: it
# takes linear time where the general question is NP-complete.
#
# A crashed operation has no revision, unless somebody looked it up in the log afterwards. It is put just before the
# first
# operation that is impossible without it, if that operation did not complete before the crashed one was invoked.
#
# It decides "legal" or nothing: revisions that are wrong accuse the revisions, not the history. It never searches.
from libc.stdint cimport int32_t, uint64_t

from raftmeta.check.model cimport Model
from raftmeta.check.problem cimport Problem
from raftmeta.check.status cimport Answer
from raftmeta.native.containers cimport Vec

cdef struct Ordered:
    uint64_t key                # 2 * (revision - lowest) + 1 for what changes nothing
    int32_t operation

# Zeroed is empty; to be used again and again.
cdef struct Witness:
    Vec[Ordered] ordered        # completed operations
    Vec[Ordered] scratch
    Vec[int32_t] crashed        # not yet put in
    Vec[int32_t] order          # the linearization so far
    int32_t position            # in ordered
    int32_t state
    int32_t invoked_latest      # position in the history of the latest invocation in the order so far
    int32_t candidate           # in crashed, that is being tried
    int32_t bridge              # the state after the candidate, while the operation behind it is tried; else NONE

# ANSWER_NOT_SHOWN: not all completed operations tell a revision. ANSWER_LEGAL: go on with witness_run.
cdef Answer witness_begin(Witness* witness, const Problem* problem, int32_t state) noexcept nogil
cdef Answer witness_run(Witness* witness, const Problem* problem, Model* model) noexcept nogil
cdef void witness_release(Witness* witness) noexcept nogil
