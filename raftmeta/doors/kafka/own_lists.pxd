# ListOffsets of topics whose records the host keeps: it is asked for each partition (docs/kafka-own-log.md).
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest

cdef void own_list_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void own_list_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
