# The sockets on which a node listens for clients, and the thread behind them.
from raftmeta.loop.loop cimport Loop
from raftmeta.security.audit_queue cimport AuditTrail
from raftmeta.security.tls_state cimport TlsCounters
from raftmeta.server.state cimport ClientServer

# After the loop was opened and before it is started. NULL: this node serves no clients.
# Raises AddressInUse, ConfigError.
# audit: NULL: no trail is kept.
cdef ClientServer* open_clients(Loop* loop, object identity, object config, AuditTrail* audit) except? NULL
cdef dict client_metrics(const ClientServer* server)
# Counters of TLS of one port.
cdef dict tls_metrics(const TlsCounters* counters)
