# Records at the Kafka door: Produce and InitProducerId (docs/kafka-records.md).
#
#     Produce          a command for each partition; the log decides its offset, or finds it a duplicate
#     InitProducerId   a command that counts; no id comes twice
#
# Only batches that cannot be kept are refused here. A request with acks 0 has no answer, as in Kafka.
from libc.stdint cimport int16_t, uint32_t

from raftmeta.doors.kafka.records_topic cimport TopicLog
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask
from raftmeta.status cimport status_t
from raftmeta.wire.records cimport RecordsRequest

# Submit a COMMAND_RECORDS over the log, as a part of the request; its topic is the fence. KAFKA_OK, or why not.
cdef int16_t records_command(KafkaDoor* door, KafkaRequest* request, uint32_t part, const TopicLog* log,
                             const RecordsRequest* asked) noexcept nogil
# The code for such a command that came back so. It may be sent again: a producer's number says whether a batch is
# another one.
cdef int16_t records_status_code(status_t status) noexcept nogil

cdef void produce_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void produce_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void produce_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
cdef void init_producer_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void init_producer_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
