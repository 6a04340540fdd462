# Records of the node's flight recorder for a client: what `flight_recorder()` of a client asks, piece by piece.
from raftmeta.server.state cimport ClientConnection, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

cdef status_t flight_take(ClientServer* server, ClientConnection* connection,
                          const ClientRequest* request) noexcept nogil
