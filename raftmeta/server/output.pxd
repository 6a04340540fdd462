# The way out to a client: messages behind each other in the buffer of its connection, and how much may wait there.
#
# It knows neither sockets nor requests: server/connections sends the bytes, the modules of the requests append them.
from libc.stdint cimport uint32_t, uint64_t

from raftmeta.server.state cimport ClientServer, Connection
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientMessage

# Append a message; it leaves with connections_flush.
cdef void connection_send(ClientServer* server, Connection* connection, const ClientMessage* message) noexcept nogil
# Say why, then close.
cdef void connection_refuse(ClientServer* server, Connection* connection, status_t status,
                            const char* text) noexcept nogil
# Whether more of it may be read: neither too much under way nor too much unsent.
cdef bint connection_has_room(const ClientServer* server, const Connection* connection) noexcept nogil
# Whether an answer may be made for it now: its socket has taken most of the others.
cdef bint connection_may_answer(const ClientServer* server, const Connection* connection) noexcept nogil
# Bytes that a connection may have waiting, at most `most`: its share of the memory once a quarter of that is taken.
cdef uint64_t connection_share(const ClientServer* server, uint64_t most) noexcept nogil
# The bytes that wait for this connection changed: count them.
cdef void connection_count(ClientServer* server, Connection* connection) noexcept nogil
# It has more to do than fits this turn.
cdef void connection_next_turn(ClientServer* server, Connection* connection) noexcept nogil

cdef inline uint32_t place_of(const ClientServer* server, const Connection* connection) noexcept nogil:
    return <uint32_t>(connection - server.connections)

# The connection that stood at place with this generation; NULL: it is gone.
cdef inline Connection* connection_at(ClientServer* server, uint32_t place, uint32_t generation) noexcept nogil:
    if place >= server.limits.connections_max:
        return NULL
    cdef Connection* connection = &server.connections[place]
    if connection.state == 0 or connection.generation != generation:
        return NULL
    return connection
