# Records at the Kafka door: Produce and InitProducerId (docs/kafka-records.md).
#
#     Produce          a command for each partition; the log decides its offset, or finds it a duplicate
#     InitProducerId   a command that counts; no id comes twice
#
# Only batches that cannot be kept are refused here. A request with acks 0 has no answer, as in Kafka.
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t

from raftmeta.doors.kafka.codec cimport KafkaReader
from raftmeta.doors.kafka.records_topic cimport TopicLog
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.records cimport RecordsRequest

# The outcome of one partition of a Produce. Outcomes stand in KafkaRequest.texts, in the order of the request.
cdef struct Produced:
    int16_t code
    int64_t offset
    int64_t start

# A walk over the partitions of a Produce.
cdef struct ProduceWalk:
    KafkaReader reader
    int16_t acks
    int32_t timeout_ms
    int32_t topics                  # left, without the one of `name`
    int32_t partitions              # left of it
    Bytes name                      # empty: of an id that no topic has, or that was not looked up
    const uint8_t* id               # from version 13 on
    int32_t partition
    Bytes batch

cdef void produce_walk(const KafkaRequest* request, ProduceWalk* walk) noexcept nogil
# The next topic. False: there is none.
cdef bint produce_next_topic(ProduceWalk* walk) noexcept nogil
# The same, with its name if an id tells it. The root is pinned.
cdef bint produce_next_named(KafkaDoor* door, ProduceWalk* walk) noexcept nogil
# The next partition of the topic. False: there is none; the topic is over.
cdef bint produce_next_partition(ProduceWalk* walk) noexcept nogil
# Every outcome is there: the answer.
cdef void produce_answer(KafkaDoor* door, KafkaRequest* request) noexcept nogil

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
