# From a folder to a running engine: identity, log, core. Everything here happens before the first message leaves.
from raftmeta.engine.disk_jobs cimport DiskJob
from raftmeta.engine.state cimport Engine
from raftmeta.status cimport status_t
from raftmeta.storage.wal_state cimport Wal

cdef status_t boot_engine(Engine* engine, Wal* wal, void* identity) noexcept nogil
# The genesis record of `job` is on the disk.
cdef status_t boot_identity_persisted(Engine* engine, const DiskJob* job) noexcept nogil
# The cluster is founded and this node knows it durably: start the core.
cdef status_t boot_found(Engine* engine) noexcept nogil
