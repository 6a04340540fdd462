# Connections of Kafka's clients: the rules of Kafka's protocol for connections from outside.
from raftmeta.connections.state cimport ConnectionRules
from raftmeta.doors.kafka.state cimport KafkaDoor

cdef const ConnectionRules* kafka_rules() noexcept nogil
# All of them: this node knows no leader any more, and their clients find another node.
cdef void connections_fail_all(KafkaDoor* door) noexcept nogil
