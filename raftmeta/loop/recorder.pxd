# The loop and the write thread tell the flight recorder (flight/ring): events, pauses, slow disk calls, waits.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.state cimport Engine
from raftmeta.flight.ring cimport FlightRing
from raftmeta.ports cimport DiskPort

cdef struct Recorder:
    FlightRing* ring                # NULL: this node records nothing
    uint32_t bytes                  # of its file; 0: none is wanted
    int error                       # errno for which there is none
    bint is_watching                # the write thread owns FLIGHT_LOG
    DiskPort disk                   # the port behind the one of the engine
    uint64_t seen_ns                # when the loop was seen last; 0: never
    uint64_t timeout_ns             # how long it meant to sleep then
    uint64_t waited_since_ns        # callers wait since then, for long already; 0: they do not

# An event, once for the event log and once for the recorder.
cdef void recorder_event(Recorder* recorder, const Engine* engine, uint64_t type, uint64_t a, uint64_t b,
                         uint64_t c) noexcept nogil
# The loop is seen. It costs no look at a clock: each turn has its time already.
cdef void recorder_seen(Recorder* recorder, uint64_t now_ns) noexcept nogil
# The end of a turn.
cdef void recorder_turn(Recorder* recorder, const Engine* engine) noexcept nogil
# The write thread: a call of the disk that took so long has just ended.
cdef void recorder_disk(Recorder* recorder, uint32_t kind, uint64_t time_ns, int status) noexcept nogil
# The loop has ended in order.
cdef void recorder_end(Recorder* recorder, const Engine* engine) noexcept nogil
