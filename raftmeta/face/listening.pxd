# The sockets on which a node listens for clients, and the thread behind them.
from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport ConnectionLimits
from raftmeta.loop.loop cimport Loop
from raftmeta.security.tls_state cimport TlsCounters
from raftmeta.server.state cimport ClientServer

# After the loop was opened and before it is started. NULL: this node serves no clients.
# accounts: of the node. Raises AddressInUse, ConfigError.
cdef ClientServer* open_clients(Loop* loop, Accounts* accounts, object identity, object config) except? NULL
# The limits that the settings give any listener.
cdef int fill_common(ConnectionLimits* limits, object config, object connections_max) except -1
cdef dict client_metrics(const ClientServer* server)
# Counters of TLS of one port.
cdef dict tls_metrics(const TlsCounters* counters)
