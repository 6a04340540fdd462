# Records at the Kafka door: Produce and InitProducerId (docs/kafka-records.md).
#
#     Produce          a command for each partition; the log decides its offset, or finds it a duplicate
#     InitProducerId   a command that counts; no id comes twice
#
# Only batches that cannot be kept are refused here. A request with acks 0 has no answer, as in Kafka.
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask

cdef void produce_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void produce_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void produce_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
cdef void init_producer_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void init_producer_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
