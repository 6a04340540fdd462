# Callbacks of a node's watches: whoever has news is called, in turn, on threads that all of them share.
#
# It decides on which thread, and in which order. One thread, the runner, calls; another, the onlooker, looks at
# it from time to time. When a callback has not come back and others have news, the onlooker becomes the runner, and a
# new one looks on; a runner that was relieved ends with what it has in hand. So there are two threads, and one more for
# each callback that blocks. It must never call one callback on two threads at once, or keep a thread when none
# is open.
#
# Fields but those of Onlooking belong to whoever holds the GIL.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.loop.tickets cimport Mailbox

cdef enum:
    TUNE_LOOK_NS = 5_000_000            # as long as Python lets a thread compute when others want to
    TUNE_LOOK_BEHIND_NS = 1_000_000     # while callbacks block already: the next one may, too
    TUNE_LOOKS_IN_VAIN = 64             # then the onlooker looks less often, or sleeps if nothing is in hand

# Shared words: the onlooker looks without the GIL.
cdef struct Onlooking:
    uint64_t turn                   # one higher with each runner, and when the last of them ended
    uint64_t calls                  # begun or ended
    uint32_t due                    # callbacks with news that nobody has in hand
    uint32_t relieved               # runners that still have something in hand
    uint32_t is_busy                # the runner has something in hand
    uint32_t is_asleep              # the onlooker, until it is stirred
    uint32_t stirred                # counts; it sleeps on this

cdef class WatchCallbacks:
    cdef Mailbox* mailbox           # for the signals of watches; their consumers are Callbacks
    cdef set open
    cdef object due                 # each once
    cdef bint has_runner
    cdef Onlooking onlooking

    cdef int add(self, Callback callback) except -1
    # Call it, though no signal came.
    cdef int look_at(self, Callback callback) except -1
    # Its native watch is gone, or its node's loop has ended: no signal comes from now on.
    cdef int remove(self, Callback callback) except -1
    # The node's loop has ended: as remove of all.
    cdef int stop(self) except -1
    # A callback says: one more call of it begins, or has ended.
    cdef void on_call(self) noexcept

    cdef int _collect(self) except -1
    cdef int _put_in_line(self, Callback callback) except -1
    cdef int _start_runner(self) except -1
    cdef int _run_turn(self, uint64_t turn) except -1
    cdef int _call_next(self) except -1
    cdef int _rest(self) except -1
    cdef void _be_busy(self) noexcept
    cdef uint64_t _begin_turn(self) except 0
    cdef bint _relieve(self, uint64_t turn, uint64_t calls) except -1

cdef class Callback:
    cdef bint is_in_line
    cdef bint is_in_hand
    cdef bint has_news              # since it is in hand

    # Tell it some of what there is. True: there may be more, call again when others had their turn. Raises nothing.
    cdef bint call(self, WatchCallbacks callbacks) except -1
