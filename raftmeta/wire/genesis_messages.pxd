# Messages of raft/genesis as msgpack bodies: [type, cluster_low, cluster_high, source, target, membership]. The
# membership is a bin in the fixed layout of raft/membership, or nil in a message that carries none.
#
# Source and target stand in the body, unlike a core message's. A state machine that knows no connection keeps and
# repeats genesis messages; the code that takes one from a frame compares them with the header.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.raft.genesis cimport GenesisMessage
from raftmeta.status cimport status_t

# PROPOSE and FOUNDED carry the founding membership; ACCEPT may repeat it, REFUSE may leave it out.
# BAD_FIELD, BAD_LENGTH: a mistake of the sender, nothing was appended; NO_MEMORY.
cdef status_t genesis_message_encode(const GenesisMessage* message, Vec[uint8_t]* body) noexcept nogil
# BAD_FIELD, BAD_LENGTH, BAD_VERSION (of the membership): not a genesis message.
cdef status_t genesis_message_decode(const uint8_t* body, uint32_t length, GenesisMessage* message) noexcept nogil
