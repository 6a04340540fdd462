# The machine's face, for faces of other modules that take a machine.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.state cimport Machine
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t

cdef class MachineHandle:
    cdef Machine* machine
    cdef Vec[uint8_t] records           # of the entry under way, or of apply_many

    cdef status_t _apply_records(self, uint32_t batch, Vec[uint64_t]* statuses) noexcept nogil
    cdef list _due(self, bint sessions, uint64_t lease_ms, uint32_t most)
