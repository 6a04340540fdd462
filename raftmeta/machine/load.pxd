# A dump back into an empty machine.
#
# Every field is checked before it is used and the state must have the hash that the dump names: a machine that loaded
# is the machine that was dumped.
from libc.stdint cimport uint8_t

from raftmeta.machine.state cimport Machine
from raftmeta.status cimport status_t

# Chunks as machine_dump_next gave them, in their order, into an empty machine; behind a whole dump may follow those of
# differences, each on the one before it. BAD_FIELD, BAD_LENGTH, BAD_VERSION,
# NO_MEMORY: refused, the machine must be destroyed.
cdef status_t machine_load_chunk(Machine* machine, const uint8_t* bytes, size_t length) noexcept nogil
# After the last chunk. INCOMPLETE: records are missing. BAD_CHECKSUM: the state has another hash.
cdef status_t machine_load_done(Machine* machine) noexcept nogil
