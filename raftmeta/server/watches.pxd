# Watches of clients: the loop opens and closes them, and the clients' thread empties them as their connections drain.
from libc.stdint cimport uint64_t

from raftmeta.loop.tickets cimport Ticket
from raftmeta.server.state cimport ClientConnection, ClientPending, ClientServer, ClientWatch
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

# A watch of this connection, its memory the signal's. NULL: no memory.
cdef ClientWatch* watch_create(ClientServer* server, ClientConnection* connection,
                               const ClientRequest* request) noexcept nogil
# NULL: nothing. Nobody knows it any more.
cdef void watch_free(ClientWatch* watch) noexcept nogil
cdef ClientWatch* watch_find(ClientConnection* connection, const ClientRequest* request) noexcept nogil
# SUBMIT_WATCH was answered: with the native watch in its body, or refused, and then the watch is given back.
cdef void watch_opened(ClientServer* server, ClientWatch* watch, const Ticket* ticket) noexcept nogil
# SUBMIT_UNWATCH was answered.
cdef void watch_closed(ClientServer* server, ClientWatch* watch, status_t status) noexcept nogil
# The loop's signal, or room on the connection: take what waits, as long as there is room.
cdef void watch_news(ClientServer* server, ClientWatch* watch) noexcept nogil
cdef void watches_resume(ClientServer* server, ClientConnection* connection) noexcept nogil
# The connection is gone.
cdef void watches_abandon(ClientServer* server, ClientConnection* connection) noexcept nogil
# Submit SUBMIT_UNWATCH. connection and id: who asked for it; NULL: nobody is answered.
cdef void watches_unwatch(ClientServer* server, ClientConnection* connection, ClientWatch* watch,
                          uint64_t id) noexcept nogil
# Once a turn: after a change of rights, end the watches whose right has gone.
cdef void watches_look(ClientServer* server) noexcept nogil
