# Fetch at the Kafka door: batches of record logs, as the state of this node shows them (docs/kafka-records.md).
#
# A request that finds nothing waits for a change of a log, until its time is over. An offset that this node has not
# reached yet is asked for behind a read round: another node may have told it. There are no fetch sessions: each answer
# says that none was made, and then a client names all its partitions each time (KIP-227).
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.kafka.codec cimport KafkaReader
from raftmeta.doors.kafka.records_topic cimport TopicLog
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest
from raftmeta.wire.commands cimport Bytes

# A walk over the partitions of a Fetch.
cdef struct FetchWalk:
    KafkaReader reader
    int32_t wait_ms
    int32_t bytes_max
    int32_t session
    int32_t topics                  # left, without the one of `name`
    int32_t partitions              # left of it
    Bytes name                      # empty: of an id that no topic has, or that was not looked up
    const uint8_t* id               # from version 13 on
    int32_t partition
    int32_t epoch                   # of the leader, as the client knows it; -1: it does not say
    int64_t offset
    int32_t partition_bytes_max

# Where an answer has its records from: those of one partition, the `part`-th of the request, go into door.request, and
# the log's start and end into log.view. left: bytes that the answer may still have. must_have_one: it has none yet.
ctypedef int16_t (*fetch_take)(KafkaDoor* door, KafkaRequest* request, const FetchWalk* walk, uint32_t part,
                               uint64_t left, bint must_have_one, TopicLog* log) noexcept nogil

cdef void fetch_walk(const KafkaRequest* request, FetchWalk* walk) noexcept nogil
cdef bint fetch_next_topic(FetchWalk* walk) noexcept nogil
# The same, with its name if an id tells it. The root is pinned.
cdef bint fetch_next_named(KafkaDoor* door, FetchWalk* walk) noexcept nogil
# No topic has the id.
cdef bint fetch_is_unknown_id(const FetchWalk* walk) noexcept nogil
cdef bint fetch_next_partition(FetchWalk* walk) noexcept nogil
# Whether the request can be read whole.
cdef bint fetch_is_whole(const KafkaRequest* request) noexcept nogil
# It goes on with a session, and there are none.
cdef void fetch_refuse_session(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void fetch_answer(KafkaDoor* door, KafkaRequest* request, fetch_take take) noexcept nogil


cdef void records_fetch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void records_fetch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
