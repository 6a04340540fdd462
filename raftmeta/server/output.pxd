# The way out to a client: messages behind each other in the buffer of its connection, and how much may wait there.
#
# It knows neither sockets nor requests: server/connections sends the bytes, the modules of the requests append them.
from libc.stdint cimport uint64_t

from raftmeta.server.state cimport ClientConnection, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientMessage

# Append a message; it leaves with connections_flush.
cdef void connection_send(ClientServer* server, ClientConnection* connection,
                          const ClientMessage* message) noexcept nogil
# Say why, then close.
cdef void connection_refuse(ClientServer* server, ClientConnection* connection, status_t status,
                            const char* text) noexcept nogil
# Whether more of it may be read: neither too much under way nor too much unsent.
cdef bint connection_has_room(const ClientServer* server, const ClientConnection* connection) noexcept nogil
# Whether an answer may be made for it now: its socket has taken most of the others.
cdef bint connection_may_answer(const ClientServer* server, const ClientConnection* connection) noexcept nogil
# Bytes that a connection may have waiting, at most `most`: its share of the memory once a quarter of that is taken.
cdef uint64_t connection_share(const ClientServer* server, uint64_t most) noexcept nogil
