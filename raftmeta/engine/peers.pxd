# The engine's side of the network: who is at the other end, and what came; what goes out: engine/sending.
#
# A member is found by its incarnation; a connection is opened to a name. HELLO joins the two. A frame reaches the core
# only if its connection's HELLO, its header and the cluster id agree (decisions/README.md "Identity and genesis").
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.engine.state cimport Engine, Inbound
from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport Membership
from raftmeta.status cimport status_t
from raftmeta.wire.hello cimport Hello

cdef void peers_own_hello(Engine* engine, uint32_t link, Hello* hello) noexcept nogil
cdef status_t peers_hello(Engine* engine, const Hello* hello, Inbound* inbound) noexcept nogil
cdef status_t peers_link_up(Engine* engine, uint32_t link, const Hello* hello) noexcept nogil
# A HELLO between this node and the peer of that name was not welcome, for this status; place < 0: nobody known.
cdef void peers_note_refusal(Engine* engine, int place, status_t status) noexcept nogil
cdef void peers_link_down(Engine* engine, uint32_t link, bint was_refused) noexcept nogil
# Its address refused a connection, and it is the one at which this link's HELLO was answered last.
cdef void peers_address_refused(Engine* engine, uint32_t link) noexcept nogil
# A connection that a peer opened is closed.
cdef void peers_hung_up(Engine* engine, Inbound* inbound) noexcept nogil
cdef status_t peers_frame(Engine* engine, Inbound* inbound, const Slice* frame) noexcept nogil

# A link for every named member; links of names that left are given up.
cdef status_t peers_follow_membership(Engine* engine, const Membership* membership) noexcept nogil
# Keep a connection to that place for some election time-outs, whatever the membership says.
cdef void peers_meet(Engine* engine, uint32_t link) noexcept nogil
cdef bint peers_wants_link(const Engine* engine, uint32_t link) noexcept nogil
