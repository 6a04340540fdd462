# Giving back what the history floor has passed: old versions, tombstones, change records.
#
# COMMAND_COMPACT only moves the floor, which is what answers; memory follows in bounded steps. Nobody can see how far
# it is, so nodes need not agree on it.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.machine.state cimport Machine

# Give back about `changes_max` changes below the floor. Nothing while a dump is under way.
cdef void machine_trim(Machine* machine, uint32_t changes_max) noexcept nogil
