"""The sockets on which a node listens for clients.

It decides whether a Unix socket may be replaced: the folder is locked, so one that is there was left by a process that
is gone. It never accepts a connection; server/server does.
"""

import errno
import os
import socket
import stat

from libc.stdint cimport uint8_t
from libc.string cimport memset

from raftmeta.security.tls_state cimport TlsCounters
from raftmeta.server.server cimport clients_counters, clients_create
from raftmeta.server.state cimport ClientCounters, ClientLimits

from raftmeta.errors import AddressInUse, ConfigError
from raftmeta.version import VERSION

cdef enum:
    LISTEN_BACKLOG = 1024
    UNIX_PATH_BYTES_MAX = 107       # sockaddr_un.sun_path and its zero (unix(7))

SOCKET_NAME = "clients.sock"


def listen_at(address, field, int backlog):
    """A listening socket at address; an error names field."""
    try:
        family, _, _, _, where = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"{field}: {address}: {error.strerror}", field=field) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(backlog)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise AddressInUse(f"{field}: another socket listens on {address}", address=str(address),
                               field=field) from None
        raise ConfigError(f"{field}: {address}: {error.strerror}", field=field) from None
    return listener


def _listen_in(folder):
    """A listening Unix socket in the folder, for processes of this user only."""
    path = os.path.join(folder, SOCKET_NAME)
    length = len(os.fsencode(path))
    if length > UNIX_PATH_BYTES_MAX:
        raise ConfigError(
            f"local_clients: {path} has {length} bytes, a Unix socket's path at most {UNIX_PATH_BYTES_MAX}; choose a "
            "shorter data_dir", field="local_clients")
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if os.path.lexists(path):
            if not stat.S_ISSOCK(os.lstat(path).st_mode):
                raise ConfigError(f"local_clients: {path} is there and is no socket", field="local_clients")
            os.unlink(path)
        listener.bind(path)
        os.chmod(path, 0o600)       # before listen: nobody can connect earlier
        listener.listen(LISTEN_BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        raise ConfigError(f"local_clients: {path}: {error.strerror}", field="local_clients") from None
    except ConfigError:
        listener.close()
        raise
    return listener


cdef int fill_common(ConnectionLimits* limits, object config, object connections_max) except -1:
    memset(limits, 0, sizeof(ConnectionLimits))
    limits.connections_max = connections_max
    limits.unbound_max = config.client_unbound_connections_max
    limits.unbound_of_address_max = config.client_unbound_per_address_max
    limits.hello_timeout_ns = round(config.hello_timeout_s * 1e9)
    limits.bytes_under_way_max = config.client_bytes_max
    limits.memory_max = config.client_memory_bytes_max
    limits.quotas.requests_per_s = config.principal_requests_per_s
    limits.quotas.bytes_per_s = config.principal_write_bytes_per_s
    limits.quotas.burst_ns = round(config.principal_burst_s * 1e9)
    limits.quotas.bytes_max = config.principal_bytes_max
    limits.quotas.connections_max = config.principal_connections_max
    limits.quotas.watches_max = config.principal_watches_max
    limits.quotas.leases_max = config.principal_leases_max
    limits.quotas.sessions_max = config.principal_sessions_max
    return 0


cdef ClientServer* open_clients(Loop* loop, Accounts* accounts, object identity, object config) except? NULL:
    cdef ConnectionLimits common
    cdef ClientLimits limits
    cdef ClientServer* server
    cdef bytes address = str(identity.client_listen).encode() if identity.client_listen is not None else b""
    cdef bytes version = VERSION.encode()
    if identity.client_listen is None and not config.local_clients:
        return NULL
    fill_common(&common, config, config.client_connections_max)
    limits.idle_ns = round(config.client_idle_s * 1e9)
    limits.session_window = config.session_window
    limits.value_bytes_max = config.value_bytes_max
    limits.needs_rights = config.rights_required
    listener = local_listener = None
    try:
        if identity.client_listen is not None:
            listener = listen_at(identity.client_listen, "client_listen", LISTEN_BACKLOG)
        if config.local_clients:
            local_listener = _listen_in(identity.data_dir)
    except ConfigError:
        if listener is not None:
            listener.close()
        raise
    server = clients_create(loop, accounts, &common, &limits, listener.detach() if listener is not None else -1,
                            local_listener.detach() if local_listener is not None else -1,
                            <const uint8_t*>address, <uint8_t>len(address), <const uint8_t*>version,
                            <uint8_t>len(version))
    if server == NULL:
        raise MemoryError
    return server


cdef dict tls_metrics(const TlsCounters* counters):
    return {
        "tls_handshakes": counters.handshakes, "tls_handshakes_resumed": counters.resumed,
        "tls_handshakes_refused": counters.refused, "tls_connections_in_kernel": counters.in_kernel,
        "tls_connections_plain": counters.plain, "tls_readings": counters.contexts,
    }


cdef dict client_metrics(const ClientServer* server):
    cdef ClientCounters counters
    clients_counters(server, &counters)
    metrics = {
        "client_connections": counters.base.connections, "client_connections_accepted": counters.base.accepted,
        "client_connections_turned_away": counters.base.turned_away,
        "client_connections_refused": counters.base.refused, "client_connections_evicted": counters.base.evicted,
        "client_requests": counters.requests, "client_requests_overloaded": counters.overloaded,
        "client_requests_over_quota": counters.base.over_quota, "client_connections_unbound": counters.base.unbound,
        "client_principals": counters.base.accounts, "client_watches": counters.watches,
        "client_memory_bytes": counters.memory, "client_requests_denied": counters.denied,
        "client_authentications": counters.authenticated, "client_authentications_failed": counters.unauthenticated,
    }
    metrics.update({f"client_{name}": count for name, count in tls_metrics(&counters.base.tls).items()})
    return metrics
