# Offsets of record logs at the Kafka door: ListOffsets and OffsetForLeaderEpoch (docs/kafka-records.md).
#
# Both are answered behind a read round, so that nobody is told an end from before a record that was acknowledged.
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest

cdef void list_offsets_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void list_offsets_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void leader_epoch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void leader_epoch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
