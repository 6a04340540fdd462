# Topics at the Kafka door: Metadata of them, CreateTopics, DeleteTopics (docs/kafka-topics.md).
#
# A client that asks for the metadata of a topic that there is not makes it, unless it says no. Every node leads every
# partition: the node that is asked names itself.
from libc.stdint cimport int32_t

from raftmeta.doors.kafka.codec cimport KafkaReader, KafkaWriter
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask

# The topics of a Metadata request: count of them, from `topics` on; all if all are asked for. False: it waits until
# those that are missing are made. The state is pinned.
cdef bint topics_are_there(KafkaDoor* door, KafkaRequest* request, const KafkaReader* topics, int32_t count,
                           bint may_make) noexcept nogil
cdef void put_topics(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, const KafkaReader* topics,
                     int32_t count) noexcept nogil
# The command that makes them came back.
cdef void topics_made(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil

cdef void create_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void create_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
cdef void remove_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void remove_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void remove_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil
