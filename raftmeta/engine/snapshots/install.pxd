# One state takes the place of another: the end of a received snapshot (decisions/README.md "Snapshots").
from raftmeta.engine.state cimport Engine
from raftmeta.status cimport status_t

# Install what was received and loaded, if it is still ahead and nothing is being taken of the state that goes.
cdef status_t install_run(Engine* engine) noexcept nogil
