# A call of the asyncio face. Nearly always one task awaits its answer; all others may, as they await any future.
from libc.stdint cimport uint8_t, uint64_t

from raftmeta.bindings.verbs cimport Request

cdef enum CallKind:
    CALL_PLAIN = 0              # the answer is the value
    CALL_PUT = 1                # may be submitted once more, if it was certainly not executed
    CALL_GET = 2                # the answer allows to read

cdef enum CallState:
    CALL_PENDING = 0
    CALL_DONE = 1
    CALL_FAILED = 2
    CALL_CANCELLED = 3

cdef class Call:
    cdef object event_loop
    cdef CallState state
    cdef object value           # CALL_DONE
    cdef object error           # CALL_FAILED, CALL_CANCELLED
    cdef object unseen          # a future with the same error, which logs it if nobody ever asks; None
    cdef object wakeup          # of the one task that awaits it, None
    cdef object context         # in which
    cdef list callbacks         # all others, with their contexts; None: none
    cdef bint is_blocking       # asyncio's mark of a future that a task was given to wait for
    cdef uint8_t kind
    cdef Request request        # CALL_PUT: to be submitted once more
    cdef object key             # CALL_GET: to read
    cdef uint64_t revision      # to get
    cdef object repeat          # the task that does it once more

    # True: it has an only task, which wake() resumes; the caller of succeed() calls one of wake() and wake_soon().
    cdef bint succeed(self, object value) except -1
    # In the next turn of the event loop whoever waits learns of it. Nothing happens when the call has ended before.
    cdef int fail(self, object error) except -1
    cdef int wake(self) except -1               # now; outside of any task only
    cdef int wake_soon(self) except -1
    # Nobody will ever tell it: its task is let go.
    cdef int abandon(self) except -1
    cdef int _end(self, CallState state, object error) except -1
    # As the task ends, so does this call.
    cdef int follow(self, object task) except -1

# Before the first call is created.
cdef int load_asyncio() except -1

cdef Call call_create(object event_loop, CallKind kind)

# A submitted verb as the caller gets it: a coroutine to asyncio, of which nothing is left to run but the wait.
cdef class Submitted:
    cdef Call call

cdef Submitted submitted(Call call)
