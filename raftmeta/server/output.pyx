"""Messages to clients.

It decides how much one connection may have under way and unsent. It must never write to a socket.

Bounds of a connection's memory on the way out: `out` stops the reading, the making of answers and the watches at its
share; it grows beyond by one answer. Once a quarter of the memory for answers is taken, the share of each connection
shrinks with their number.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset, strlen

from raftmeta.connections.connections cimport connection_end, connection_touch
from raftmeta.connections.state cimport CONNECTION_CLOSING
from raftmeta.server.audit cimport audit_refuse
from raftmeta.server.state cimport LOOK_ASKED, TUNE_OUT_BYTES, TUNE_SHARE_BYTES_MIN, TUNE_UNDER_WAY_MAX
from raftmeta.status cimport OK
from raftmeta.wire.client_messages cimport CLIENT_REFUSED, client_message_encode


# --- room -------------------------------------------------------------------------------------------------------------
cdef uint64_t connection_share(const ClientServer* server, uint64_t most) noexcept nogil:
    cdef uint64_t memory = server.base.limits.memory_max // 2
    cdef uint64_t share
    if server.base.answer_bytes < memory // 4:
        return most
    # Of what is left each may come to twice its share, since buffers double, and one answer beyond it.
    share = memory // (8 * max(server.base.counters.connections, <uint64_t>1))
    return min(max(share, <uint64_t>TUNE_SHARE_BYTES_MIN), most)


cdef bint connection_may_answer(const ClientServer* server, const ClientConnection* connection) noexcept nogil:
    return connection.base.out.size - connection.base.out_offset < connection_share(server, TUNE_OUT_BYTES)


cdef bint connection_has_room(const ClientServer* server, const ClientConnection* connection) noexcept nogil:
    cdef uint64_t waiting = connection.base.out.size - connection.base.out_offset + connection.base.parked_bytes
    cdef uint64_t share = connection_share(server, TUNE_OUT_BYTES)
    return (connection.under_way < TUNE_UNDER_WAY_MAX and waiting < share and connection.read_bytes < share
            and connection.base.paused_ns == 0 and connection.look != LOOK_ASKED)


# --- messages ---------------------------------------------------------------------------------------------------------
cdef void connection_send(ClientServer* server, ClientConnection* connection,
                          const ClientMessage* message) noexcept nogil:
    if connection.base.state == CONNECTION_CLOSING:
        return
    if client_message_encode(message, &connection.base.out) != OK:
        connection.base.state = CONNECTION_CLOSING       # no memory for its answer: it will ask again elsewhere
    server.base.turn_bytes += message.body.length
    connection_touch(&server.base, &connection.base)


cdef void connection_refuse(ClientServer* server, ClientConnection* connection, status_t status,
                            const char* text) noexcept nogil:
    cdef ClientMessage message
    audit_refuse(server, connection, status)
    memset(&message, 0, sizeof(ClientMessage))
    message.kind = CLIENT_REFUSED
    message.status = status
    message.body.data = <const uint8_t*>text
    message.body.length = <uint32_t>strlen(text)
    connection_send(server, connection, &message)
    connection_end(&server.base, &connection.base)
