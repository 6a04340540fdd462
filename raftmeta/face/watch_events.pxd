# The items of a native watch as Python objects: made once for all watches of a node that are told the same.
#
# It must never hold an event for long. It keeps those of the newest batches that other watches have before them,
# short ones only, and lets go of them with the last watch that takes them.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.machine.watches cimport WatchView

cdef enum:
    TUNE_BATCHES_KEPT = 1024        # a watch that is further behind than others makes its events anew; a power of two
    TUNE_BATCH_BYTES = 4096         # of a batch that is kept; so that all together have 4 MiB at most, encoded

cdef class WatchEvents:
    cdef uint64_t[TUNE_BATCHES_KEPT] numbers    # of the batch in each place; 0: none
    cdef list kept                              # for each place the batch's events; see _kept

    # (revision, time_s, events, is_whole) of a view of events or of a mark, events as a tuple. It may be another
    # watch's, too, and must not be given to a caller who could change it.
    cdef tuple told(self, const WatchView* view)
    cdef tuple _one(self, const WatchView* view, list kept, uint32_t number)
    cdef list _kept(self, const WatchView* view)
