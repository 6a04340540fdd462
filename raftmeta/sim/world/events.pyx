"""A binary heap of simulated events, ordered by (time, number)."""

from libc.stddef cimport size_t

from raftmeta.sim.world.events cimport SimEvent, SimEvents


cdef inline bint _before(const SimEvent* left, const SimEvent* right) noexcept nogil:
    return left.time_ns < right.time_ns or (left.time_ns == right.time_ns and left.number < right.number)


cdef bint events_push(SimEvents* events, const SimEvent* event) noexcept nogil:
    cdef size_t at, parent
    cdef SimEvent item = event[0]
    item.number = events.next_number
    events.next_number += 1
    if not events.heap.push(item):
        return False
    at = events.heap.size - 1
    while at != 0:
        parent = (at - 1) // 2
        if not _before(&item, &events.heap.data[parent]):
            break
        events.heap.data[at] = events.heap.data[parent]
        at = parent
    events.heap.data[at] = item
    return True


cdef bint events_pop(SimEvents* events, SimEvent* event) noexcept nogil:
    cdef size_t at = 0
    cdef size_t child, size
    cdef SimEvent last
    if events.heap.size == 0:
        return False
    event[0] = events.heap.data[0]
    last = events.heap.back()
    events.heap.pop()
    size = events.heap.size
    if size == 0:
        return True
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and _before(&events.heap.data[child + 1], &events.heap.data[child]):
            child += 1
        if not _before(&events.heap.data[child], &last):
            break
        events.heap.data[at] = events.heap.data[child]
        at = child
    events.heap.data[at] = last
    return True
