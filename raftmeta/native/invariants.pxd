# A belief of the program that proved wrong: which one, and the two numbers that contradict each other.
#
# Each struct keeps the first belief that fell in it, on the thread that works with it: engines share none. A disk job
# carries the belief that it found; engine/promises finds the first one of a node. The lists of names
# are raft/invariants, storage/invariants, machine/invariants and engine/invariants. Bytes from a disk, a peer or a user
# are never believed: they are validated. raftmeta/common/invariants has the names for Python.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.status cimport INVARIANT_BROKEN, status_t

cdef extern from "invariants.hpp" namespace "raftmeta" nogil:
    # Keep the belief at kept, and its numbers; one that is kept there already stays.
    void keep_broken(uint32_t* kept, uint64_t* kept_a, uint64_t* kept_b, uint32_t what, uint64_t a, uint64_t b)

# Zeroed: all held.
cdef struct Broken:
    uint32_t what               # a number of one of the lists
    uint64_t a
    uint64_t b

cdef inline status_t broken(Broken* first, uint32_t what, uint64_t a, uint64_t b) noexcept nogil:
    keep_broken(&first.what, &first.a, &first.b, what, a, b)
    return INVARIANT_BROKEN
