# The Kafka door of a node: one native thread serves Kafka's clients, over the loop alone.
#
# Order of life: kafka_create, kafka_start after the loop has started; connections_stop before the loop is stopped;
# kafka_destroy after it has.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.state cimport ConnectionLimits
from raftmeta.doors.desk.state cimport DeskLimits
from raftmeta.doors.kafka.own_state cimport OwnLogs
from raftmeta.doors.kafka.state cimport KafkaCounters, KafkaDoor, KafkaLimits
from raftmeta.loop.loop cimport Loop
from raftmeta.status cimport status_t

# Takes the listener over, also when it fails (NULL: no memory or no descriptor). accounts: of the node. host, port:
# where clients find it. own: NULL, or a hold on it, which the door takes over only if it can be made.
cdef KafkaDoor* kafka_create(Loop* loop, Accounts* accounts, const ConnectionLimits* common, const DeskLimits* desk,
                             const KafkaLimits* limits, int listener, const uint8_t* host, uint8_t host_length,
                             uint32_t port, OwnLogs* own) noexcept nogil
cdef status_t kafka_start(KafkaDoor* door) noexcept nogil
cdef void kafka_destroy(KafkaDoor* door) noexcept nogil
cdef void kafka_counters(const KafkaDoor* door, KafkaCounters* counters) noexcept nogil
