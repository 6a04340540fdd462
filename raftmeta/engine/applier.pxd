# From committed records to results: the machine is fed in slices, so that one turn of the engine stays short.
from raftmeta._core cimport Apply
from raftmeta.engine.state cimport Engine
from raftmeta.status cimport status_t

# Take over the range of a Ready; records already taken are passed over.
cdef status_t applier_take(Engine* engine, const Apply* apply) noexcept nogil
# Apply what is waiting for at most Config.apply_slice_ns; *more: something is left. Publishes, then completes callers.
cdef status_t applier_run(Engine* engine, bint* more) noexcept nogil
# Give back the records that wait.
cdef void applier_release(Engine* engine) noexcept nogil
