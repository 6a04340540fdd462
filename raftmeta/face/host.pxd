# A thread of the host that only wants to run, and what keeps it from that: threads that hold the GIL, or the machine.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.flight.ring cimport FlightRing

cdef class HostWatch:
    cdef uint32_t bell                  # shared: 1 once it ends
    cdef uint64_t period_ns
    cdef object holders                 # face.holders.Holders; None: nothing is recorded
    cdef readonly object thread         # common.apart.ApartThread
    cdef uint64_t asked_ns              # when it wanted to run again, and asked for the GIL
    cdef uint64_t held_ns               # how long it then had to wait
    cdef uint64_t late_ns               # how much too late it asked
    cdef uint64_t holder                # thread that held it, 0: unknown,
    cdef uint64_t used_ns               # its processor time meanwhile, 0: nothing proves that it was this one,
    cdef bytes stack                    # and where it was

    # Sleep, then run again. True: it is to end.
    cdef bint sleep(self) except -1
    # Record what it found; runs no Python code.
    cdef void record(self, FlightRing* ring) noexcept
    # Wake it for its end, from any thread.
    cdef void end(self) noexcept
