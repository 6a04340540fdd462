# From committed records to results: the machine is fed in slices, so that one turn of the engine stays short.
from raftmeta._core cimport Apply
from raftmeta.engine.state cimport Applying, Engine
from raftmeta.native.invariants cimport Broken
from raftmeta.raft.types cimport index_t
from raftmeta.status cimport status_t

# Take over the range of a Ready; records already taken are passed over. NO_MEMORY; INVARIANT_BROKEN: see `belief`.
cdef status_t applier_take(Applying* applying, Broken* belief, const Apply* apply) noexcept nogil
# Apply what is waiting for at most Config.apply_slice_ns; *more: something is left. Publishes, then completes callers.
cdef status_t applier_run(Engine* engine, bint* more) noexcept nogil
# Another state is the engine's from now on, at this index: that of a boot, or of a snapshot that was installed. Records
# that wait are given back: they stand in that state, or come again from the log.
cdef void applier_begin(Applying* applying, index_t index) noexcept nogil
# Give back the records that wait.
cdef void applier_release(Applying* applying) noexcept nogil
