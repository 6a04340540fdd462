"""Connections of clients: what the client protocol makes of connections from outside (connections/connections).

It decides what the bytes of a connection are, whether it may say more, and when it was silent for too long. It must
never touch a socket.

Bounds of a connection's memory: server/output bounds `out`. Results of commands that are ready when it is full are
parked. Events wait in the queues of watches, which its purse bounds (machine/watch_purse). When all connections
together hold more than half of client_memory_bytes_max in answers, those that hold the most are closed: they do not
read, or others would hold more.

Strangers: until a connection has proved who is there, it has frames of CLIENT_HELLO_BYTES_MAX. The proof is HELLO
behind a certificate. Where rights are on, the certificate must be a user's, or a password or token follows. Longer
frames of one that still owes its proof are thrown away unread, and answered so.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memset

from raftmeta.connections.accounts cimport accounts_detach, accounts_sweep
from raftmeta.connections.connections cimport connection_prove, connections_sweep
from raftmeta.connections.state cimport CONNECTION_GREETING, CONNECTION_OPEN, Connection, ConnectionRules, Connections
from raftmeta.machine.watch_purse cimport purse_drop
from raftmeta.native.memory cimport give_back_memory
from raftmeta.net.unbound cimport UNBOUND_NONE
from raftmeta.server.access cimport access_has_proved
from raftmeta.server.authentication cimport (authentication_by_certificate, authentication_is_near,
                                             authentication_release)
from raftmeta.server.output cimport connection_has_room, connection_refuse, connection_send
from raftmeta.server.pending cimport request_answer
from raftmeta.server.quotas cimport quotas_attach, quotas_request
from raftmeta.server.requests cimport (requests_drop_parked, requests_hello, requests_serve_parked, requests_take,
                                       requests_tell_leader)
from raftmeta.server.second_look cimport second_look_begin, second_look_end, second_look_verdict
from raftmeta.server.snapshots cimport snapshot_close
from raftmeta.server.state cimport LOOK_ASKED, LOOK_DONE, LOOK_NONE, ClientConnection
from raftmeta.server.watches cimport watches_abandon, watches_resume
from raftmeta.status cimport (AUTHENTICATION_FAILED, BAD_LENGTH, BAD_VERSION, FOREIGN_CLUSTER, INCOMPLETE, OK,
                              OVERLOADED, QUOTA_EXCEEDED, REMOVED, status_t)
from raftmeta.wire.client_messages cimport (CLIENT_BODY_BYTES_MAX, CLIENT_HEADER_BYTES, CLIENT_HELLO_BYTES_MAX,
                                            CLIENT_PING, REQUEST_KIND_MAX, ClientMessage, ClientRequest,
                                            client_frame_decode, client_request_decode)
from raftmeta.wire.msgpack cimport Reader, number_max, read_array_max, read_uint, reader_over

cdef enum:
    REQUEST_ELEMENTS_MAX = 15       # of any request: one byte of msgpack says how many
    PREFIX_BYTES = 16               # of a request: enough for its kind and id
    TUNE_GIVE_BACK_BYTES = 1 << 24  # that went since the most that there was: freed memory is given to the system

cdef const char* TOLD_NO_MEMORY = b"no memory is left for another client"
cdef const char* TOLD_QUOTA = b"as many connections of this client's name or address are open as may be"
cdef const char* TOLD_REMOVED = b"this node was removed from the cluster: go on with one of its members"


# --- open and close ---------------------------------------------------------------------------------------------------
cdef void _opened(Connections* connections, Connection* base) noexcept nogil:
    cdef ClientConnection* connection = <ClientConnection*>base
    connection.is_near = authentication_is_near(connection, base.is_local)


cdef void _closed(Connections* connections, Connection* base) noexcept nogil:
    cdef ClientServer* server = <ClientServer*>connections
    cdef ClientConnection* connection = <ClientConnection*>base
    watches_abandon(server, connection)
    requests_drop_parked(server, connection)
    snapshot_close(connection)
    authentication_release(connection)
    accounts_detach(base)
    purse_drop(connection.purse)


# --- bytes in ---------------------------------------------------------------------------------------------------------
cdef const char* _why(status_t status) noexcept nogil:
    if status == REMOVED:
        return TOLD_REMOVED
    return b"this node is of another cluster" if status == FOREIGN_CLUSTER else b"this is no HELLO of a client"


cdef bint _greet(ClientServer* server, ClientConnection* connection, const uint8_t* body,
                 uint32_t length) noexcept nogil:
    cdef status_t status = requests_hello(server, connection, body, length)
    if status != OK:
        server.base.counters.refused += 1
        connection_refuse(server, connection, status, _why(status))
        return False
    authentication_by_certificate(connection)
    status = quotas_attach(server, connection)
    if status != OK:
        connection.base.out.clear()      # no HELLO of ours before
        connection_refuse(server, connection, status, TOLD_QUOTA if status == QUOTA_EXCEEDED else TOLD_NO_MEMORY)
        return False
    if access_has_proved(server, connection):
        connection_prove(&server.base, &connection.base)
    connection.base.state = CONNECTION_OPEN
    requests_tell_leader(server, connection)
    return True


# False: the connection is closed, or about to be. A request that waits for a second look is taken again.
cdef bint _take_frame(ClientServer* server, ClientConnection* connection, const uint8_t* body,
                      uint32_t length) noexcept nogil:
    cdef ClientRequest request
    cdef status_t status
    if connection.base.state == CONNECTION_GREETING:
        return _greet(server, connection, body, length)
    status = client_request_decode(body, length, &request)
    if status == BAD_VERSION:
        if quotas_request(server, connection, &request):
            request_answer(server, connection, request.id, status, 0, 0, NULL, 0)
        return True
    if status == OK:
        server.counters.requests += connection.look == LOOK_NONE
        status = requests_take(server, connection, &request)
    if status != OK:
        server.base.counters.refused += 1
        connection_refuse(server, connection, status, b"a request that cannot be read")
        return False
    if connection.base.unbound != UNBOUND_NONE and access_has_proved(server, connection):
        connection_prove(&server.base, &connection.base)
    return True


# The frame at `bytes` is too long for one who has not proved its password. Its id is not covered by a checksum yet, and
# only an answer depends on it. INCOMPLETE: the beginning is not there.
cdef status_t _skip_frame(ClientServer* server, ClientConnection* connection, const uint8_t* bytes, size_t length,
                          size_t total) noexcept nogil:
    cdef Reader reader
    cdef uint64_t id
    if length < CLIENT_HEADER_BYTES + PREFIX_BYTES:
        return INCOMPLETE
    reader = reader_over(bytes + CLIENT_HEADER_BYTES, length - CLIENT_HEADER_BYTES)
    read_array_max(&reader, REQUEST_ELEMENTS_MAX)
    read_uint(&reader, REQUEST_KIND_MAX)
    id = read_uint(&reader, number_max())
    if reader.status != OK:
        return BAD_LENGTH
    request_answer(server, connection, id, second_look_verdict(server, connection, AUTHENTICATION_FAILED), 0, 0, NULL,
                   0)
    second_look_end(connection)
    connection.skipped = total
    return OK


# The next frame at `bytes`: OK, INCOMPLETE, or what is wrong with it.
cdef status_t _look_at_frame(ClientServer* server, ClientConnection* connection, const uint8_t* bytes, size_t length,
                             size_t* total) noexcept nogil:
    cdef status_t status
    if connection.base.unbound == UNBOUND_NONE:
        return client_frame_decode(bytes, length, CLIENT_BODY_BYTES_MAX, total)
    status = client_frame_decode(bytes, length, CLIENT_HELLO_BYTES_MAX, total)
    if status != BAD_LENGTH or connection.base.state == CONNECTION_GREETING:
        return status
    status = client_frame_decode(bytes, length, CLIENT_BODY_BYTES_MAX, total)
    if status == BAD_LENGTH:
        return status
    if connection.principal.name_length != 0 and second_look_begin(server, connection):
        return INCOMPLETE       # the name in its certificate may be a user's by now
    return _skip_frame(server, connection, bytes, length, total[0])


# The next frame, or what is left of one that is thrown away.
cdef status_t _take(Connections* connections, Connection* base, const uint8_t* bytes, size_t length,
                    size_t* used) noexcept nogil:
    cdef ClientServer* server = <ClientServer*>connections
    cdef ClientConnection* connection = <ClientConnection*>base
    cdef status_t status
    if connection.look == LOOK_DONE and base.unbound != UNBOUND_NONE and access_has_proved(server, connection):
        connection_prove(connections, base)
        second_look_end(connection)     # a user's request is taken as any other
    if connection.skipped == 0:
        status = _look_at_frame(server, connection, bytes, length, used)
        if status == INCOMPLETE:
            return status
        if status != OK:
            connections.counters.refused += 1
            connection_refuse(server, connection, status, b"this is no frame of the client protocol")
            return status
    if connection.skipped != 0:
        used[0] = min(<size_t>connection.skipped, length)
        connection.skipped -= used[0]
    elif not _take_frame(server, connection, bytes + CLIENT_HEADER_BYTES, <uint32_t>(used[0] - CLIENT_HEADER_BYTES)):
        return BAD_LENGTH
    return INCOMPLETE if connection.look == LOOK_ASKED else OK


cdef bint _has_room(const Connections* connections, const Connection* base) noexcept nogil:
    return connection_has_room(<const ClientServer*>connections, <const ClientConnection*>base)


cdef void _go(Connections* connections, Connection* base) noexcept nogil:
    cdef ClientServer* server = <ClientServer*>connections
    cdef ClientConnection* connection = <ClientConnection*>base
    requests_serve_parked(server, connection)
    if connection_has_room(server, connection):
        watches_resume(server, connection)


# --- who has to go ----------------------------------------------------------------------------------------------------
cdef void _refuse(Connections* connections, Connection* base, status_t status) noexcept nogil:
    cdef ClientServer* server = <ClientServer*>connections
    server.counters.overloaded += status == OVERLOADED
    connections.counters.over_quota += status == QUOTA_EXCEEDED
    connection_refuse(server, <ClientConnection*>base, status, b"too many bytes of unfinished requests")


# One that is silent is asked whether it lives. One that is not read on may have answered: its bytes wait in the socket.
cdef bint _is_overdue(Connections* connections, Connection* base) noexcept nogil:
    cdef ClientServer* server = <ClientServer*>connections
    cdef ClientConnection* connection = <ClientConnection*>base
    cdef ClientMessage ping
    if base.heard_ns >= connection.pinged_ns:
        connection.pinged_ns = 0
    if connection.pinged_ns != 0:
        return base.is_reading and connections.now_ns - connection.pinged_ns > server.limits.idle_ns
    if base.state == CONNECTION_OPEN and connections.now_ns - base.heard_ns > server.limits.idle_ns:
        connection.pinged_ns = connections.now_ns
        memset(&ping, 0, sizeof(ClientMessage))
        ping.kind = CLIENT_PING
        connection_send(server, connection, &ping)
    return False


cdef ConnectionRules RULES
RULES.opened = _opened
RULES.take = _take
RULES.has_room = _has_room
RULES.go = _go
RULES.refuse = _refuse
RULES.is_overdue = _is_overdue
RULES.closed = _closed
RULES.is_room_common = False


cdef const ConnectionRules* clients_rules() noexcept nogil:
    return &RULES


cdef void clients_remove(ClientServer* server) noexcept nogil:
    cdef uint32_t place
    for place in range(server.base.limits.connections_max):
        if server.connections[place].base.state == CONNECTION_OPEN:
            connection_refuse(server, &server.connections[place], REMOVED, TOLD_REMOVED)


cdef void _give_back(ClientServer* server) noexcept nogil:
    cdef uint64_t held = server.counters.memory
    if server.memory_high < held:
        server.memory_high = held
    if server.memory_high - held >= TUNE_GIVE_BACK_BYTES and held <= server.memory_high // 2:
        give_back_memory()
        server.memory_high = held


cdef void clients_sweep(ClientServer* server) noexcept nogil:
    _give_back(server)
    accounts_sweep(&server.base)
    connections_sweep(&server.base)
