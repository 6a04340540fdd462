# The search as other Python faces of the simulator see it.
from raftmeta.sim.small.exhaustive_state cimport Exhaustive as NativeExhaustive

cdef class Exhaustive:
    cdef NativeExhaustive* native
