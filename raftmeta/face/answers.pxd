# From a ticket that is done to what its caller gets: a value, or the error that tells the operation's fate.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.bindings.verbs cimport (PURPOSE_BYTES, PURPOSE_GROUP, PURPOSE_NOTHING, PURPOSE_NUMBER, PURPOSE_PREVIOUS,
                                      PURPOSE_READ, PURPOSE_REVISION, PURPOSE_TXN, PURPOSE_WATCH, PURPOSE_ZNODES)
from raftmeta.loop.tickets cimport Ticket

cdef inline bint purpose_wants_body(uint8_t purpose) noexcept nogil:
    return (purpose == PURPOSE_PREVIOUS or purpose == PURPOSE_TXN or purpose == PURPOSE_NUMBER
            or purpose == PURPOSE_WATCH or purpose == PURPOSE_BYTES or purpose == PURPOSE_ZNODES
            or purpose == PURPOSE_GROUP)

# The answer of a ticket that is DONE with status OK.
cdef object answer_of(const Ticket* ticket, uint8_t purpose)
# The error of one that is DONE with another status; not raised.
cdef object error_of(const Ticket* ticket)
# A native status that is no ticket's, raised.
cdef int raise_status(int status, uint64_t revision) except -1
cdef int raise_unless_ok(int status) except -1

# CLOCK_BOOTTIME at which timeout_s from now has passed; None: never (UINT64_MAX).
cdef uint64_t deadline_after(object timeout_s) except? 0
