"""A ring of the newest events of a node.

It decides that a reader which is too slow misses events (their numbers show it) and the loop never waits.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from raftmeta.native.atomics cimport add_shared, load_shared, store_shared, subtract_shared
from raftmeta.native.threads cimport Published, futex_wait, futex_wake, wall_now_ms

cdef enum:
    EVERYBODY = 0x7FFFFFFF


cdef EventLog* event_log_create() noexcept nogil:
    cdef EventLog* log = <EventLog*>calloc(1, sizeof(EventLog))
    if log == NULL:
        return NULL
    log.holders = 1
    log.events = <Published[NodeEvent]*> calloc(EVENTS_KEPT, sizeof(Published[NodeEvent]))
    if log.events == NULL:
        free(log)
        return NULL
    return log


cdef void event_log_hold(EventLog* log) noexcept nogil:
    add_shared(&log.holders, <uint32_t>1)


cdef void event_log_drop(EventLog* log) noexcept nogil:
    if subtract_shared(&log.holders, <uint32_t>1) == 0:
        free(log.events)
        free(log)


cdef void _ring(EventLog* log) noexcept nogil:
    add_shared(&log.bell, <uint32_t>1)
    if load_shared(&log.holders) > 1:
        futex_wake(&log.bell, EVERYBODY)


cdef void event_log_write(EventLog* log, uint64_t type, uint64_t a, uint64_t b, uint64_t c) noexcept nogil:
    cdef NodeEvent event
    event.number = log.count + 1
    event.wall_ms = wall_now_ms()
    event.type = type
    event.a = a
    event.b = b
    event.c = c
    log.events[event.number % EVENTS_KEPT].write(event)
    store_shared(&log.count, event.number)
    _ring(log)


cdef void event_log_close(EventLog* log) noexcept nogil:
    store_shared(&log.is_closed, <uint32_t>1)
    _ring(log)


cdef bint event_log_read(EventLog* log, uint64_t seen, NodeEvent* event) noexcept nogil:
    cdef uint64_t newest = load_shared(&log.count)
    cdef uint64_t wanted = seen + 1
    if newest < wanted:
        return False
    if newest - wanted >= EVENTS_KEPT - 1:      # overwritten, or about to be
        wanted = newest - EVENTS_KEPT + 2
    # The event there may be newer already: the writer went once around meanwhile.
    while not log.events[wanted % EVENTS_KEPT].read(event) or event.number < wanted:
        pass
    return True


cdef void event_log_await(EventLog* log, uint64_t seen, uint64_t timeout_ns) noexcept nogil:
    cdef uint32_t bell = load_shared(&log.bell)
    if load_shared(&log.count) <= seen and not load_shared(&log.is_closed):
        futex_wait(&log.bell, bell, timeout_ns)
