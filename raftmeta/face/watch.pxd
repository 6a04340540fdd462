# Watching keys: what both faces make of the items of a native watch, and the sync face.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.face.base cimport NodeBase
from raftmeta.face.watch_callbacks cimport Callback, WatchCallbacks
from raftmeta.loop.tickets cimport Mailbox, Ticket, WatchSignal
from raftmeta.machine.watches cimport WatchView

cdef class WatchBase:
    cdef NodeBase node
    cdef WatchSignal signal         # the loop writes to it from submit until the unwatch is done; see NodeBase.attached
    cdef void* watch                # the native Watch; NULL: not open
    cdef bytes bounds               # key and end, one after another
    cdef uint32_t key_length
    cdef uint32_t filter
    cdef uint64_t resume            # revision from which to go on; 0: from now
    cdef bint raises_lagged
    cdef bint resets
    cdef bint is_closed
    cdef object timeout_s
    cdef list ready                 # what comes next: WatchEvents.told, resets, an error last; None: nothing
    cdef Py_ssize_t given           # of those, from the first on

    # Submit the native watch from `resume` on, whose news go where the signal says; the answer to that mailbox.
    cdef Ticket* submit(self, Mailbox* mailbox) except NULL
    cdef int opened(self, object pointer) except -1
    # Take what waits natively into `ready`. Returns what the caller must do next.
    cdef int take(self) except -1
    cdef tuple _pass_told(self, const WatchView* view)
    cdef int _take_mark(self, uint8_t kind, uint64_t revision) except -1
    cdef int give(self, object found) except -1             # append to `ready`
    # The first of `ready`: a tuple as told, or a reset. Raises what stands there to be raised.
    cdef object first_ready(self)
    cdef int _reset(self, uint64_t floor) except -1
    cdef bint can_take(self)
    # Something new lies in the native watch; called by the face whose mailbox its signal names, where it names one.
    cdef int on_news(self) except -1

cdef enum:
    TAKE_WAIT = 0                   # nothing yet
    TAKE_READY = 1                  # look at `ready`
    TAKE_REOPEN = 2                 # close the native watch, then submit again (lagged, reset)
    TAKE_CLOSED = 3

cdef class NodeWatch(WatchBase):
    cdef WatchCallbacks callbacks       # None: whoever asks takes
    cdef WatchCallback callback
    cdef int _begin_callback(self, object callback, object on_end) except -1
    cdef int _end_callback(self) except -1
    cdef int _open(self) except -1
    cdef int _close_native(self) except -1
    cdef int _sleep(self, uint32_t seen, uint64_t pause_ns) except -1

cdef class WatchCallback(Callback):
    cdef NodeWatch watch
    cdef object callback
    cdef object on_end              # None: an error is reported, or is the end of the node
    cdef int _fail(self, object error, WatchCallbacks callbacks) except -1
    cdef int _tell_end(self, object error, WatchCallbacks callbacks) except -1
    cdef bint _call_with_some(self, WatchCallbacks callbacks) except -1
    cdef int _fail_by(self, object error, WatchCallbacks callbacks) except -1

# A WatchBatch of what was told, for one caller.
cdef object batch_of(tuple told)
