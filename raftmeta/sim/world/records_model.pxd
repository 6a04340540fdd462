# A record log by the rules of docs/kafka-records.md, as a list of records: what a request answers, and what it leaves.
#
# It knows the committed log alone, and no key of a machine.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.sim.world.topics_state cimport SimLog, SimVerdict
from raftmeta.sim.world.world_state cimport SimCounts
from raftmeta.wire.records cimport RecordsRequest

# Carry the request out. False: no memory.
cdef bint model_records(SimLog* log, const RecordsRequest* request, uint64_t lease_ms, SimCounts* counts,
                        SimVerdict* verdict) noexcept nogil
cdef uint32_t model_log_batches(const SimLog* log) noexcept nogil
cdef uint64_t model_log_bytes(const SimLog* log) noexcept nogil
