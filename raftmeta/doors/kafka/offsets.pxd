# Offsets of groups at the Kafka door: OffsetCommit, OffsetFetch, OffsetDelete (docs/kafka-topics.md).
#
# A commit is one command, and commits of a connection do not wait for one another: each names the one before it. A
# fetch is a read behind a read round. The machine decides everything else (machine/offsets).
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask

cdef void commit_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void commit_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
cdef void fetch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void fetch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void delete_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void delete_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
