# All that leaves this node for its peers: a core message, a word of genesis or of a snapshot, as a frame on the link.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.engine.state cimport Engine, Links
from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport Message, member_id_t
from raftmeta.wire.feed_messages cimport Feeder, Observed
from raftmeta.wire.snapshot_messages cimport SnapshotMessage
from raftmeta.wire.state_messages cimport StateMark

# Position of a member in the table of links, -1: it is not there, or this node.
cdef int link_of_member(const Links* links, member_id_t id) noexcept nogil
cdef void send_message(Engine* engine, const Message* message) noexcept nogil
# Tell every peer what this node's state is.
cdef void send_mark(Engine* engine, const StateMark* mark) noexcept nogil
# Send what genesis has to say.
cdef void send_genesis(Engine* engine) noexcept nogil
# piece: what stands behind the body, NULL: nothing.
cdef void send_snapshot(Engine* engine, uint32_t link, const SnapshotMessage* message,
                        const Slice* piece) noexcept nogil
# Tell an observer who else may feed it, and a feeder who follows through this node.
cdef void send_feeders(Engine* engine, int place, const Feeder* feeders, uint32_t count) noexcept nogil
cdef void send_observers(Engine* engine, int place, const Observed* observers, uint32_t count) noexcept nogil
# A frame that asks nothing of the protocol, to every peer: one that knows this node to be removed closes the
# connection, and says so when it is opened again.
cdef void send_pings(Engine* engine) noexcept nogil
# A frame as those of send_pings, which tells one peer that this node found a process gone.
cdef void send_death(Engine* engine, int place, member_id_t id, uint64_t boot) noexcept nogil
# Say something on connections on which nothing else is ever said, so that a dead one breaks.
cdef void send_pings_to_strangers(Engine* engine) noexcept nogil
