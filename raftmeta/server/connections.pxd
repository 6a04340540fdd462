# Connections of clients: the rules of the client protocol for connections from outside.
from raftmeta.connections.state cimport ConnectionRules
from raftmeta.server.state cimport ClientServer

cdef const ConnectionRules* clients_rules() noexcept nogil
# This node was removed: everybody is told, and goes on elsewhere.
cdef void clients_remove(ClientServer* server) noexcept nogil
# Ages: silent, not reading; quotas that are over.
cdef void clients_sweep(ClientServer* server) noexcept nogil
