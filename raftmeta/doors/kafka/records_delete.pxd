# The oldest records of topics go: DeleteRecords at the Kafka door (docs/kafka-records.md).
#
# One entry for each partition. The machine moves the start of the log.
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask

cdef void delete_records_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void delete_records_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void delete_records_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
