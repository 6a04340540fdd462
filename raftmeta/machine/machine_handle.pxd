# The machine's face, for faces of other modules that take a machine.
from libc.stdint cimport uint32_t

from raftmeta.machine.dump cimport Dump
from raftmeta.machine.state cimport Machine

cdef class MachineHandle:
    cdef Machine* machine

cdef class DumpHandle:
    cdef MachineHandle owner
    cdef Dump dump
    cdef uint32_t bytes_max
    cdef bint is_done

    cdef _end(self)             # all of it was taken
