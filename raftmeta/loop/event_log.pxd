# The newest events of a node, for any number of readers: one writer that never waits, readers that may miss old ones.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.native.threads cimport Published

cdef enum:
    EVENTS_KEPT = 1024              # a power of two

# Events of the loop itself; those of the engine stand below (engine/state EngineEventType).
cdef enum LoopEventType:
    EVENT_TLS_RENEWED = 240             # certificates and lists were read anew; a: when this node's ends, s since 1970
    EVENT_CERTIFICATE_EXPIRES = 241     # a: days left at most, of 30, 7, 1, 0; b: when, s since 1970

cdef struct NodeEvent:
    uint64_t number                 # from 1, without gaps
    uint64_t wall_ms
    uint64_t type                   # engine/state EngineEventType, or LoopEventType
    uint64_t a
    uint64_t b
    uint64_t c

# Counted, because a reader may sleep on it when the node is closed.
cdef struct EventLog:
    uint32_t holders
    uint32_t bell                   # counts events and the closing; readers sleep on it
    uint32_t is_closed
    uint64_t count                  # number of the newest event
    Published[NodeEvent]* events    # by number modulo EVENTS_KEPT

cdef EventLog* event_log_create() noexcept nogil        # NULL: no memory
cdef void event_log_hold(EventLog* log) noexcept nogil
cdef void event_log_drop(EventLog* log) noexcept nogil
# The loop; once there are readers, an event costs a system call to wake them.
cdef void event_log_write(EventLog* log, uint64_t type, uint64_t a, uint64_t b, uint64_t c) noexcept nogil
cdef void event_log_close(EventLog* log) noexcept nogil
# Readers: the first event after number `seen` that is still kept. False: there is none yet.
cdef bint event_log_read(EventLog* log, uint64_t seen, NodeEvent* event) noexcept nogil
# Sleep until there is one, the log is closed, or timeout_ns have passed.
cdef void event_log_await(EventLog* log, uint64_t seen, uint64_t timeout_ns) noexcept nogil
