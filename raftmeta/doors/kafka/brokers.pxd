# Brokers as Kafka's clients see them: the nodes that have a Kafka door.
#
#     kafka-brokers/<16 hexadecimal digits of the member's id>  ->  host:port, with the door's lease
#
# A node makes its key known as soon as it serves, and keeps its lease alive. A broker's number is made of the member's
# id, so a wiped node is another broker. Each node shows itself, whatever the keys say.
from libc.stdint cimport int32_t, uint64_t

from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaTask

cdef int32_t broker_id(uint64_t member) noexcept nogil
# Once a turn.
cdef void brokers_tend(KafkaDoor* door) noexcept nogil
# TASK_BROKER is back. The caller frees it.
cdef void brokers_answered(KafkaDoor* door, const KafkaTask* task) noexcept nogil
# All into door.brokers, this node first. The state is pinned. False: no memory.
cdef bint brokers_list(KafkaDoor* door) noexcept nogil
