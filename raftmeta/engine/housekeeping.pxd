# The engine's own proposals: this node's session, keep-alives of its leases, and, on the leader, expiry and
# the history floor. All are urgent: never Overloaded, never NoSpace (decisions/README.md "Leases").
from libc.stdint cimport uint64_t

from raftmeta.engine.state cimport Duties, Engine, OwnLeases
from raftmeta.engine.submission cimport KeepLeaseArguments
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport CommandKind

# Another state took the place of ours: leases that are gone in it are told.
cdef void housekeeping_installed(Engine* engine) noexcept nogil
# Once per tick while running.
cdef status_t housekeeping_tick(Engine* engine) noexcept nogil
# After records were applied: is our session (still) there?
cdef void housekeeping_look(Engine* engine) noexcept nogil
# A keep-alive of this node's session was applied.
cdef void housekeeping_keep_alive_applied(Engine* engine, uint64_t payload_hash) noexcept nogil
# Of this node's own commands: clear engine.scratch for one; propose it.
cdef void housekeeping_begin(Engine* engine, CommandKind kind) noexcept nogil
cdef status_t housekeeping_propose(Engine* engine) noexcept nogil
# The node stops: it keeps nothing any more, and its owners must not believe so.
cdef void housekeeping_stop(Engine* engine) noexcept nogil
cdef status_t housekeeping_keep_lease(Engine* engine, const KeepLeaseArguments* asked) noexcept nogil
cdef void housekeeping_drop_lease(OwnLeases* leases, uint64_t lease) noexcept nogil
cdef void housekeeping_release(OwnLeases* leases, Duties* duties) noexcept nogil
