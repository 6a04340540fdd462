# Core messages as msgpack bodies: an array whose fields depend on the type by one schema table.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.native.containers cimport Vec
from raftmeta.native.chunks cimport Slice
from raftmeta.raft.types cimport Message
from raftmeta.status cimport status_t

# Append the body of message to `body` (message.records is not copied: it is sent behind the body).
cdef status_t message_encode(const Message* message, Vec[uint8_t]* body) noexcept nogil
# BAD_FIELD / BAD_LENGTH: wrong type, count, range (term, index <= 2^63 - 1) or unknown message type. `records` is the
# raw part behind the body; it is checked for whole, well-formed records with right checksums when the type carries them.
cdef status_t message_decode(const uint8_t* body, uint32_t length, const Slice* records, Message* message) noexcept nogil
