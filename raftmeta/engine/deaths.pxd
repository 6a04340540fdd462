# Processes that are gone: the proof, what other members saw, and the leader's entry (decisions/README.md "Leases of the
# dead").
#
# A process is an incarnation and a boot number. This node finds that a peer's process is gone when all of this holds:
#     1. the process answered this node's HELLO at an address, and that connection broke,
#     2. the same address refused the next connection: that host lives, and nobody listens there any more,
#     3. no connection of that name to this node is open.
# Silence proves nothing: neither a cut, nor a host without power, nor a process that stands still. A leader proposes
# the end of a process when it finds so itself, and with it a majority of the voters. A node that opened its folder anew
# knows of its own former lives without anybody's help, because two processes cannot have one folder.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.state cimport Engine, Inbound, Link
from raftmeta.raft.types cimport member_id_t
from raftmeta.status cimport status_t

cdef enum:
    DEATH_BYTES = 16            # FORMAT_: body of a PING that tells of one: member, boot, little-endian

# The process answered at the address of this link.
cdef void deaths_answered(Link* link, member_id_t id, uint64_t boot) noexcept nogil
# The address at which it answered refused a connection.
cdef void deaths_refused(Link* link) noexcept nogil
# A connection by which a peer speaks to this node is open; is closed.
cdef void deaths_speaks(Engine* engine, Inbound* inbound) noexcept nogil
cdef void deaths_hung_up(Engine* engine, Inbound* inbound) noexcept nogil
# Another member tells which process it found gone. body: DEATH_BYTES.
cdef void deaths_heard(Engine* engine, const Inbound* inbound, const uint8_t* body) noexcept nogil
# Once per tick while running.
cdef status_t deaths_tick(Engine* engine) noexcept nogil
