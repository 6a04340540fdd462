"""The loop's side of the flight recorder.

It decides which events are worth a record, and how long callers wait before their wait is one. It must never make a
system call: the recorder's own thread writes the file.
"""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta._core cimport TRACE_COMMITTED
from raftmeta.engine.state cimport EVENT_LINK_DOWN, EVENT_LINK_UP, EVENT_TRACE, Engine, Link
from raftmeta.flight.ring cimport (FLIGHT_LOG, FLIGHT_LOOP, FLIGHT_PAUSE, FLIGHT_STOP, FLIGHT_TRACE, FLIGHT_WAITED,
                                   TUNE_FLIGHT_SLOW_NS, flight_text, flight_write)
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.raft.types cimport MEMBERS_MAX

cdef enum:
    TUNE_WAITED_NS = 200_000_000        # callers' commands without any answer


cdef void recorder_event(Recorder* recorder, const Engine* engine, uint64_t type, uint64_t a, uint64_t b,
                         uint64_t c) noexcept nogil:
    cdef const Link* link
    if type == EVENT_TRACE:
        if (a & 0xFF) != TRACE_COMMITTED:
            flight_write(recorder.ring, FLIGHT_LOOP, <uint32_t>(FLIGHT_TRACE + (a & 0xFF)), b, c, 0, a >> 8)
        return
    flight_write(recorder.ring, FLIGHT_LOOP, <uint32_t>type, a, b, c, engine.core_status.term)
    if recorder.ring != NULL and (type == EVENT_LINK_UP or type == EVENT_LINK_DOWN) and a < MEMBERS_MAX:
        link = &engine.links.table[a]
        flight_text(recorder.ring, FLIGHT_LOOP, link.name, link.name_length)


cdef void recorder_seen(Recorder* recorder, uint64_t now_ns) noexcept nogil:
    cdef uint64_t expected_ns = recorder.seen_ns + recorder.timeout_ns
    if recorder.seen_ns != 0 and now_ns > expected_ns + TUNE_FLIGHT_SLOW_NS:
        flight_write(recorder.ring, FLIGHT_LOOP, FLIGHT_PAUSE, expected_ns, now_ns - expected_ns, 0, 0)
    recorder.seen_ns = now_ns


cdef void _tell_wait(Recorder* recorder, const Engine* engine) noexcept nogil:
    if recorder.waited_since_ns != 0:
        flight_write(recorder.ring, FLIGHT_LOOP, FLIGHT_WAITED, recorder.waited_since_ns,
                     boot_now_ns() - recorder.waited_since_ns, 0, engine.core_status.term)
        recorder.waited_since_ns = 0


cdef void recorder_turn(Recorder* recorder, const Engine* engine) noexcept nogil:
    cdef bint is_waiting = engine.calls.answered_count != ~<uint64_t>0
    if recorder.ring == NULL:
        return
    if not is_waiting or engine.calls.answered_ns != recorder.waited_since_ns:
        _tell_wait(recorder, engine)
    if is_waiting and engine.now_ns > engine.calls.answered_ns + TUNE_WAITED_NS:
        recorder.waited_since_ns = engine.calls.answered_ns


cdef void recorder_disk(Recorder* recorder, uint32_t kind, uint64_t time_ns, int status) noexcept nogil:
    if recorder.is_watching and (time_ns >= TUNE_FLIGHT_SLOW_NS or status != 0):
        flight_write(recorder.ring, FLIGHT_LOG, kind, boot_now_ns() - time_ns, time_ns, <uint64_t>status, 0)


cdef void recorder_end(Recorder* recorder, const Engine* engine) noexcept nogil:
    _tell_wait(recorder, engine)
    flight_write(recorder.ring, FLIGHT_LOOP, FLIGHT_STOP, <uint64_t>engine.fatal, 0, 0, engine.core_status.term)
