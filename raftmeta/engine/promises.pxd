# The engine's promises to those behind its ports, and theirs to it, looked at where a call goes out and comes back.
#
# It decides when a promise was broken; engine_run then stops the node. It must never look at bytes from outside.
from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.state cimport Engine
from raftmeta.native.invariants cimport Broken
from raftmeta.raft.types cimport Message
from raftmeta.status cimport status_t

# Hand a job to the port. One that is under way already does not go out again.
cdef void promises_submit(Engine* engine, DiskJob* job) noexcept nogil
# A job came back. INVARIANT_BROKEN: it was not under way, or overtook another one of the log.
cdef status_t promises_job_back(Engine* engine, DiskJob* job) noexcept nogil
# May this frame go to this link? False: it must not be sent.
cdef bint promises_hold_frame(Engine* engine, int place) noexcept nogil
# Does this message name this node as its sender? False: it must not be sent.
cdef bint promises_hold_message(Engine* engine, const Message* message) noexcept nogil
# OK, or INVARIANT_BROKEN since a promise was broken where no status tells of it.
cdef status_t promises_look(const Engine* engine) noexcept nogil
# The first belief of this node that proved wrong, wherever it was kept. Zeroed: none.
cdef Broken engine_broken(const Engine* engine) noexcept nogil
