"""The flight recorder's ring as a Python object, for tests."""
import os

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.engine.state cimport Engine
from raftmeta.flight.ring cimport (FlightLook, FlightPart, FlightRecord, FlightRing, flight_begin_life, flight_copy,
                                   flight_destroy, flight_open, flight_start, flight_stop, flight_text, flight_write)
from raftmeta.loop.recorder cimport Recorder, recorder_seen, recorder_turn
from raftmeta.native.threads cimport boot_now_ns


def turn_ns(uint64_t turns):
    cdef Engine* engine = <Engine*>calloc(1, sizeof(Engine))
    cdef FlightRing ring
    cdef Recorder recorder
    cdef uint64_t begun_ns, _count
    memset(&ring, 0, sizeof(FlightRing))
    memset(<void*>&recorder, 0, sizeof(Recorder))
    recorder.ring = &ring
    if engine == NULL:
        raise MemoryError
    with nogil:
        begun_ns = boot_now_ns()
        for _count in range(turns):
            recorder_seen(&recorder, begun_ns)
            recorder_turn(&recorder, engine)
        begun_ns = boot_now_ns() - begun_ns
    free(engine)
    return begun_ns


cdef class FlightFace:
    cdef FlightRing* ring

    def __cinit__(self, str folder, uint64_t size_bytes, bytes name):
        cdef int error = 0
        cdef int directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.ring = flight_open(directory, size_bytes, <const uint8_t*>name, <uint8_t>len(name), &error)
        finally:
            os.close(directory)
        if self.ring == NULL:
            raise OSError(error, os.strerror(error))

    def __dealloc__(self):
        flight_destroy(self.ring)

    def begin_life(self, uint64_t boot, uint64_t member):
        flight_begin_life(self.ring, boot, member)

    def write(self, int part, uint32_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d):
        flight_write(self.ring, <FlightPart>part, kind, a, b, c, d)

    def text(self, int part, bytes text):
        flight_text(self.ring, <FlightPart>part, <const uint8_t*>text, len(text))

    def write_many(self, int part, uint32_t kind, uint64_t count):
        cdef uint64_t i
        with nogil:
            for i in range(count):
                flight_write(self.ring, <FlightPart>part, kind, i, 0, 0, 0)

    def copied(self, int part, uint64_t first, uint64_t most):
        cdef FlightLook look
        cdef bytes records = PyBytes_FromStringAndSize(NULL, most * sizeof(FlightRecord))
        cdef FlightRecord* into = <FlightRecord*>PyBytes_AS_STRING(records)
        with nogil:
            flight_copy(self.ring, <FlightPart>part, first, most, into, &look)
        return [b"a", look.life, look.capacity, look.boot_ns, look.wall_ns, look.newest,
                records[:look.copied * sizeof(FlightRecord)]]

    def start(self):
        return bool(flight_start(self.ring))

    def stop(self):
        cdef bint has_ended
        with nogil:
            has_ended = flight_stop(self.ring, 10_000_000_000)
        return bool(has_ended)
