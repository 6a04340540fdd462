# Processes: which process of which node opened a session or keeps a lease, so that both end when it is provably gone.
#
# A process is an incarnation and a boot number: one opening of one folder. It never decides that a process is gone, and
# never ends anything: an entry does, and machine.pyx carries it out (decisions/README.md "Leases of the dead").
from libc.stdint cimport uint64_t

from raftmeta.native.containers cimport Map64, Vec
from raftmeta.native.intrinsics cimport Hash128

cdef struct Process:
    uint64_t member             # incarnation; 0 with boot 0: several keep the lease, or somebody who is no process
    uint64_t boot

cdef struct ProcessHoldings:
    Process process
    uint64_t count              # of its sessions and leases, never 0

cdef struct Processes:
    Map64[Process] sessions     # who opened it; of clients: not here
    Map64[Process] leases       # who alone keeps it
    Vec[ProcessHoldings] holdings       # in no particular order: there are as many as nodes
    Hash128 hash                # sum over all sessions and leases that stand here, mod 2^128

cdef void processes_release(Processes* processes) noexcept nogil
# NULL: no process opened it.
cdef const Process* processes_of_session(Processes* processes, uint64_t session) noexcept nogil
# NULL: nobody is known to keep it.
cdef const Process* processes_of_lease(Processes* processes, uint64_t lease) noexcept nogil
# A session or lease that stands here already keeps what is known of it. False: no memory.
cdef bint processes_name_session(Processes* processes, uint64_t session, const Process* process) noexcept nogil
cdef bint processes_name_lease(Processes* processes, uint64_t lease, const Process* process) noexcept nogil
# Somebody else keeps this lease, too: it does not end with the process any more.
cdef void processes_share_lease(Processes* processes, uint64_t lease) noexcept nogil
cdef void processes_session_ended(Processes* processes, uint64_t session) noexcept nogil
cdef void processes_lease_ended(Processes* processes, uint64_t lease) noexcept nogil
# Whether anything of the incarnation's processes up to that boot stands here.
cdef bint processes_hold(const Processes* processes, uint64_t member, uint64_t boot) noexcept nogil
# Append the ids of what they hold, ascending: alike on every node. False: no memory.
cdef bint processes_sessions(Processes* processes, uint64_t member, uint64_t boot, Vec[uint64_t]* ids) noexcept nogil
cdef bint processes_leases(Processes* processes, uint64_t member, uint64_t boot, Vec[uint64_t]* ids) noexcept nogil
