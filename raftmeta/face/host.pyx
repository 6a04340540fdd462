"""A thread of Python that looks how long it has to wait for the GIL.

It decides which waits are worth a record, and asks face/holders whose they are. It must never hold a node while it
sleeps: a node that nobody wants any more is closed.
"""

from libc.stdint cimport uint32_t, uint64_t

from raftmeta.flight.ring cimport (FLIGHT_GIL, FLIGHT_HOST, FLIGHT_PAUSE, TUNE_FLIGHT_SLOW_NS, FlightRing, flight_text,
                                   flight_write)
from raftmeta.native.atomics cimport load_shared, store_shared
from raftmeta.native.threads cimport boot_now_ns, futex_wait, futex_wake

from raftmeta.common.apart import ApartThread
from raftmeta.face.holders import Holders


cdef class HostWatch:
    def __cinit__(self, body, double period_s, bint records):
        self.period_ns = <uint64_t>(period_s * 1e9)
        self.holders = Holders() if records else None
        self.thread = ApartThread(lambda: body(self), "raftmeta-host")
        self.stack = b""

    cdef bint sleep(self) except -1:
        cdef uint64_t begun_ns, now_ns
        with nogil:
            begun_ns = boot_now_ns()
            if load_shared(&self.bell) == 0:
                futex_wait(&self.bell, 0, self.period_ns)
            self.asked_ns = boot_now_ns()
        now_ns = boot_now_ns()
        self.held_ns = now_ns - self.asked_ns
        self.late_ns = max(self.asked_ns - begun_ns, self.period_ns) - self.period_ns
        if load_shared(&self.bell) != 0:
            return True
        if self.holders is not None:
            if self.held_ns < TUNE_FLIGHT_SLOW_NS:
                self.holders.look()
            else:
                self.holder, self.used_ns, self.stack = self.holders.found(self.held_ns)
        return False

    cdef void record(self, FlightRing* ring) noexcept:
        if ring == NULL or self.holders is None:
            return
        if self.late_ns >= TUNE_FLIGHT_SLOW_NS:
            flight_write(ring, FLIGHT_HOST, FLIGHT_PAUSE, self.asked_ns - self.late_ns, self.late_ns, 0, 0)
        if self.held_ns >= TUNE_FLIGHT_SLOW_NS:
            flight_write(ring, FLIGHT_HOST, FLIGHT_GIL, self.asked_ns, self.held_ns, self.used_ns, self.holder)
            flight_text(ring, FLIGHT_HOST, <const unsigned char*>self.stack, len(self.stack))

    cdef void end(self) noexcept:
        store_shared(&self.bell, <uint32_t>1)
        futex_wake(&self.bell, 1)
