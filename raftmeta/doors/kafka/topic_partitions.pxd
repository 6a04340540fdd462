# More partitions of topics at the Kafka door: CreatePartitions (docs/kafka-topics.md).
#
# The machine decides whether a topic gets them. Who leads a partition is the same everywhere, so an assignment of
# replicas says nothing here.
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask

cdef void partitions_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void partitions_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
