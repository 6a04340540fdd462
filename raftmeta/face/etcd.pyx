"""The etcd door of a node, as its settings want it.

It decides under which address clients find the node. It never accepts a connection; doors/etcd/door does.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy

from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport ConnectionLimits, Connections
from raftmeta.doors.desk.state cimport DeskLimits
from raftmeta.doors.etcd.door cimport etcd_counters, etcd_create, etcd_destroy, etcd_start
from raftmeta.doors.etcd.state cimport EtcdCounters, EtcdDoor, EtcdLimits
from raftmeta.face.door cimport OpenDoor
from raftmeta.face.listening cimport fill_common, tls_metrics
from raftmeta.loop.loop cimport Loop
from raftmeta.security.contexts cimport tls_context_speak_http
from raftmeta.security.tls_state cimport TlsContext
from raftmeta.status cimport status_t

from raftmeta.face.listening import listen_at

cdef enum:
    LISTEN_BACKLOG = 1024


cdef EtcdDoor* _create(Loop* loop, Accounts* accounts, object identity, object config) except NULL:
    cdef ConnectionLimits common
    cdef DeskLimits desk
    cdef EtcdLimits limits
    cdef EtcdDoor* door
    cdef bytes address = str(identity.etcd_listen).encode()
    cdef bytes prefix = config.etcd_prefix.encode()
    fill_common(&common, config, config.etcd_connections_max)
    limits.prefix_length = <uint32_t>len(prefix)
    memcpy(limits.prefix, <const uint8_t*>prefix, len(prefix))      # not more than there is room for (config)
    limits.needs_rights = config.rights_required
    limits.progress_ns = round(config.etcd_progress_s * 1e9)
    desk.session_ttl_ms = round(config.session_ttl_s * 1000)
    desk.session_window = config.session_window
    listener = listen_at(identity.etcd_listen, "etcd_listen", LISTEN_BACKLOG)
    door = etcd_create(loop, accounts, &common, &desk, &limits, <int>listener.detach(), <const uint8_t*>address,
                       <uint8_t>len(address))
    if door == NULL:
        raise MemoryError
    return door


cdef dict _metrics(const EtcdDoor* door):
    cdef EtcdCounters counters
    etcd_counters(door, &counters)
    metrics = {
        "etcd_connections": counters.base.connections, "etcd_connections_accepted": counters.base.accepted,
        "etcd_connections_turned_away": counters.base.turned_away,
        "etcd_connections_refused": counters.base.refused, "etcd_connections_evicted": counters.base.evicted,
        "etcd_requests_over_quota": counters.base.over_quota, "etcd_principals": counters.base.accounts,
        "etcd_calls": counters.calls, "etcd_calls_unimplemented": counters.unimplemented,
        "etcd_calls_failed": counters.failed, "etcd_calls_denied": counters.denied,
        "etcd_connections_waiting": counters.waiting, "etcd_memory_bytes": counters.memory,
        "etcd_watches": counters.watches,
    }
    metrics.update({f"etcd_{name}": count for name, count in tls_metrics(&counters.base.tls).items()})
    return metrics


cdef status_t _start(Connections* connections) noexcept nogil:
    return etcd_start(<EtcdDoor*>connections)


cdef void _destroy(Connections* connections) noexcept nogil:
    etcd_destroy(<EtcdDoor*>connections)


cdef class OpenEtcd(OpenDoor):
    cdef int open(self, Loop* loop, Accounts* accounts, object identity, object config, object program) except -1:
        self.block.connections = <Connections*>_create(loop, accounts, identity, config)
        self.block.start = _start
        self.block.destroy = _destroy
        return 0

    cdef void prepare(self, TlsContext* context) noexcept:
        tls_context_speak_http(context)

    cdef dict metrics(self):
        return _metrics(<const EtcdDoor*>self.block.connections) if self.block.connections != NULL else {}
