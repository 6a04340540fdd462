# The Python thread that writes and reads the checkpoints of one node.
from libc.stdint cimport uint64_t

from raftmeta.loop.checkpoint_handover cimport Handover
from raftmeta.storage.disk cimport RealDisk

cdef class Checkpoints:
    cdef Handover* handover
    cdef object store           # storage.checkpoint.CheckpointStore
    cdef object chunks          # of the checkpoint being read
    cdef bytes given            # the chunk that the engine has
    cdef object ahead           # a deque of those after it; at its end an error, or None: there are no more
    cdef bint is_read           # that end stands in `ahead`, or was given
    cdef uint64_t turn_ns       # how long a difference waits for each member in front
    cdef RealDisk* disk         # whether to wait for a descriptor, and where failures are noted; NULL: none
    cdef object thread
    cdef readonly object last_error     # why the last one failed; None: it did not

    cdef int start(self) except -1
    # Ends the thread and lets go what it pinned; the engine does not call any more, its machine is still there. False:
    # LMDB does not come back from the disk within timeout_s; hand-over and machine are left to it.
    cdef bint stop(self, double timeout_s) except -1
    # Whether the calling thread is it: a node may be collected on any thread.
    cdef bint is_own_thread(self) except -1
