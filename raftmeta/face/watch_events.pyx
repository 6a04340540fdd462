"""Events of watches as Python objects; what is shared, and how long, is on the first page of watch_events.pxd."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.bindings.commands cimport read_values
from raftmeta.machine.watches cimport WATCH_DELETE, view_event

from raftmeta.results import WatchEvent

cdef object _WatchEvent = WatchEvent


cdef class WatchEvents:
    def __cinit__(self):
        self.kept = [None] * TUNE_BATCHES_KEPT

    cdef tuple told(self, const WatchView* view):
        cdef list kept = self._kept(view)
        cdef uint32_t number
        if view.count == 1 and view.is_whole:
            return self._one(view, kept, 0)
        events = tuple([self._one(view, kept, number)[2][0] for number in range(view.count)])
        return view.revision, view.wall_ms / 1000.0, events, bool(view.is_whole)

    # As told, with one event only.
    cdef tuple _one(self, const WatchView* view, list kept, uint32_t number):
        cdef uint64_t length
        cdef uint32_t position
        cdef const uint8_t* encoded = view_event(view, number, &length, &position)
        cdef size_t place = 2 * <size_t>position + (view.with_previous != 0)
        cdef tuple one
        if kept is not None and kept[place] is not None:
            return kept[place]
        type, record, before = read_values(encoded, length)[0]
        event = tuple.__new__(_WatchEvent, ("delete" if type == WATCH_DELETE else "put", record, before, view.revision))
        one = (view.revision, view.wall_ms / 1000.0, (event,), True)  # C integers would divide as such
        if kept is not None:
            kept[place] = one
        return one

    # For each position of the batch, without and with the record before: what _one made. None: not kept.
    cdef list _kept(self, const WatchView* view):
        cdef size_t place = view.batch & (TUNE_BATCHES_KEPT - 1)
        cdef list found = None
        if view.batch != 0 and self.numbers[place] == view.batch:
            found = self.kept[place]
            if not view.is_shared and view.is_whole:
                self.numbers[place] = 0
                self.kept[place] = None
        elif view.is_shared and view.batch_bytes <= TUNE_BATCH_BYTES and self.numbers[place] < view.batch:
            found = [None] * (2 * <size_t>view.batch_events)
            self.numbers[place] = view.batch
            self.kept[place] = found
        return found
