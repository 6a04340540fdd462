# Requests of Kafka's clients: taken, begun, answered in the order in which they came.
#
# Kafka's brokers carry out one request of a connection after the other. So does this door, but for those that may run
# together (KAFKA_TOGETHER). A request and version that the table does not have is answered UNSUPPORTED_VERSION in the
# one way that every client reads, by ApiVersions; any other one closes the connection, as Kafka does.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.doors.kafka.state cimport KafkaConnection, KafkaDoor, KafkaTask
from raftmeta.status cimport status_t

# A frame without its length. OK; BAD_FIELD: it is no request, or none of this door; NO_MEMORY.
cdef status_t requests_take(KafkaDoor* door, KafkaConnection* connection, const uint8_t* frame,
                            uint32_t length) noexcept nogil
# Begin what may begin, and answer what is done.
cdef void requests_go(KafkaDoor* door, KafkaConnection* connection) noexcept nogil
# TASK_REQUEST is back; it is freed here.
cdef void requests_answered(KafkaDoor* door, KafkaTask* task) noexcept nogil
# The connection closes.
cdef void requests_drop(KafkaDoor* door, KafkaConnection* connection) noexcept nogil
# Whether more of the connection may be read.
cdef bint requests_have_room(const KafkaDoor* door, const KafkaConnection* connection) noexcept nogil
# At the end: requests whose tickets will not come back.
cdef void requests_release(KafkaDoor* door) noexcept nogil
