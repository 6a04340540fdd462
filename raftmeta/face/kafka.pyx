"""The Kafka door of a node, as its settings want it.

It decides under which address clients find the node. It never accepts a connection; doors/kafka/door does.
"""

import ipaddress

from libc.stdint cimport uint8_t, uint32_t

from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport ConnectionLimits, Connections
from raftmeta.doors.desk.state cimport DeskLimits
from raftmeta.doors.kafka.door cimport kafka_counters, kafka_create, kafka_destroy, kafka_start
from raftmeta.doors.kafka.own_asks cimport own_drop
from raftmeta.doors.kafka.state cimport KafkaCounters, KafkaDoor, KafkaLimits
from raftmeta.face.door cimport OpenDoor
from raftmeta.face.listening cimport fill_common, tls_metrics
from raftmeta.face.own_logs cimport OwnLogs, OwnLogsHandle
from raftmeta.loop.loop cimport Loop
from raftmeta.native.atomics cimport store_shared
from raftmeta.status cimport status_t

from raftmeta.face.listening import listen_at

cdef enum:
    LISTEN_BACKLOG = 1024
    MEMBERS_MAX = 5_000         # wire/groups GROUP_MEMBERS_MAX


def _host(identity):
    """Clients are told the address that the door listens on; where that is any address, the one that peers are told."""
    host = identity.kafka_listen.host
    try:
        is_any = ipaddress.ip_address(host.strip("[]")).is_unspecified
    except ValueError:
        is_any = False
    return identity.advertise.host if is_any else host


cdef int _fill(KafkaLimits* limits, DeskLimits* desk, object config) except -1:
    limits.session_min_ms = round(config.kafka_session_min_s * 1000)
    limits.session_max_ms = round(config.kafka_session_max_s * 1000)
    limits.initial_delay_ms = round(config.kafka_initial_delay_s * 1000)
    limits.consumer_session_ms = round(config.kafka_consumer_session_s * 1000)
    limits.consumer_beat_ms = round(config.kafka_consumer_beat_s * 1000)
    limits.members_max = MEMBERS_MAX
    limits.needs_rights = config.rights_required
    limits.value_bytes_max = config.value_bytes_max
    desk.session_ttl_ms = round(config.session_ttl_s * 1000)
    desk.session_window = config.session_window
    return 0


cdef KafkaDoor* _create(Loop* loop, Accounts* accounts, object identity, object config,
                        object program) except NULL:
    cdef ConnectionLimits common
    cdef DeskLimits desk
    cdef KafkaLimits limits
    cdef OwnLogsHandle handle = None
    cdef OwnLogs* own = NULL
    cdef KafkaDoor* door
    cdef bytes host = _host(identity).strip("[]").encode()
    fill_common(&common, config, config.kafka_connections_max)
    _fill(&limits, &desk, config)
    listener = listen_at(identity.kafka_listen, "kafka_listen", LISTEN_BACKLOG)
    if program is not None:
        handle = program.open()
    if handle is not None:
        own = handle.hold()
    door = kafka_create(loop, accounts, &common, &desk, &limits, <int>listener.detach(), <const uint8_t*>host,
                        <uint8_t>len(host), <uint32_t>identity.kafka_listen.port, own)
    if door == NULL:
        if own != NULL:
            store_shared(&own.is_closing, <uint32_t>1)
            own_drop(own)
        raise MemoryError
    return door


cdef dict _metrics(const KafkaDoor* door):
    cdef KafkaCounters counters
    kafka_counters(door, &counters)
    metrics = {
        "kafka_connections": counters.base.connections, "kafka_connections_accepted": counters.base.accepted,
        "kafka_connections_turned_away": counters.base.turned_away,
        "kafka_connections_refused": counters.base.refused, "kafka_connections_evicted": counters.base.evicted,
        "kafka_requests_over_quota": counters.base.over_quota, "kafka_principals": counters.base.accounts,
        "kafka_requests": counters.requests, "kafka_requests_unsupported": counters.unsupported,
        "kafka_requests_waiting": counters.waiting, "kafka_joins": counters.joins,
        "kafka_heartbeats": counters.heartbeats, "kafka_authentications": counters.authenticated,
        "kafka_authentications_failed": counters.unauthenticated, "kafka_memory_bytes": counters.memory,
    }
    metrics.update({f"kafka_{name}": count for name, count in tls_metrics(&counters.base.tls).items()})
    return metrics


cdef status_t _start(Connections* connections) noexcept nogil:
    return kafka_start(<KafkaDoor*>connections)


cdef void _destroy(Connections* connections) noexcept nogil:
    kafka_destroy(<KafkaDoor*>connections)


cdef class OpenKafka(OpenDoor):
    cdef int open(self, Loop* loop, Accounts* accounts, object identity, object config, object program) except -1:
        self.block.connections = <Connections*>_create(loop, accounts, identity, config, program)
        self.block.start = _start
        self.block.destroy = _destroy
        return 0

    cdef dict metrics(self):
        return _metrics(<const KafkaDoor*>self.block.connections) if self.block.connections != NULL else {}
