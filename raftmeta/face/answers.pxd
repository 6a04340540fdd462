# From a ticket that is done to what its caller gets: a value, or the error that tells the operation's fate.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.loop.tickets cimport Ticket

# What a caller asked for, and so what it gets.
cdef enum Purpose:
    PURPOSE_NOTHING = 0         # None
    PURPOSE_REVISION = 1        # Revision; the body is not wanted
    PURPOSE_PREVIOUS = 2        # Revision with the result of its one operation in .result
    PURPOSE_TXN = 3             # TxnReply
    PURPOSE_NUMBER = 4          # the body itself: a lease's id, a counter
    PURPOSE_READ = 5            # None: now read the published state
    PURPOSE_WATCH = 6           # the 8 bytes of a Watch*
    PURPOSE_BYTES = 7           # the body as it came

cdef inline bint purpose_wants_body(uint8_t purpose) noexcept nogil:
    return (purpose == PURPOSE_PREVIOUS or purpose == PURPOSE_TXN or purpose == PURPOSE_NUMBER
            or purpose == PURPOSE_WATCH or purpose == PURPOSE_BYTES)

# The answer of a ticket that is DONE with status OK.
cdef object answer_of(const Ticket* ticket, uint8_t purpose)
# The error of one that is DONE with another status; not raised.
cdef object error_of(const Ticket* ticket)
# A native status that is no ticket's, raised.
cdef int raise_status(int status, uint64_t revision) except -1
cdef int raise_unless_ok(int status) except -1

# CLOCK_BOOTTIME at which timeout_s from now has passed; None: never (UINT64_MAX).
cdef uint64_t deadline_after(object timeout_s) except? 0
