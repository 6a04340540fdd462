# Who leads a partition of an own log, as the pinned state says.
#
#     kafka-leaders/<topic>/<partition>  ->  "<broker> <epoch> <topic's id, 32 digits>"
#
# A leader stays until another one is written over it (raftmeta.KafkaDoor.lead), with the next epoch; a broker that is
# away leads its partitions still, for it has their records. A partition that nobody leads is given to one of the
# brokers that are there, by the first node that is asked for its metadata. A value with the id of another topic is of
# one that was deleted: it counts as no leader, and epochs go on behind it.
from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.kafka.records_topic cimport TopicLog
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest
from raftmeta.wire.commands cimport Bytes

cdef struct OwnLeader:
    int32_t broker                  # -1: nobody leads
    int32_t epoch                   # of the leader; the last one of the key, if nobody leads; -1: there was none
    bint is_here                    # it is this node
    bint is_known                   # its broker is there (door.brokers)
    uint64_t seen                   # mod revision of the key; 0: there is none

# The root is pinned. id: of the topic.
cdef void leader_find(KafkaDoor* door, const Bytes* name, const uint8_t* id, uint32_t partition,
                      OwnLeader* leader) noexcept nogil
# Whether the request may use the partition at this node. epoch: of the leader, as the client knows it; -1: any.
# KAFKA_OK, or the error: what topic_log_find says, another leader, another epoch.
cdef int16_t leader_check(KafkaDoor* door, KafkaRequest* request, const Bytes* name, int32_t partition, int32_t epoch,
                          bint must_write, TopicLog* log, OwnLeader* leader) noexcept nogil
# Note that nobody leads the partition. leaders_claim gives all that were noted to brokers (door.brokers).
cdef void leader_note(KafkaDoor* door, const Bytes* name, const uint8_t* id, uint32_t partition,
                      const OwnLeader* leader) noexcept nogil
# Submit what was noted, as part 0 of the request. False: nothing was noted, or it cannot be submitted.
cdef bint leaders_claim(KafkaDoor* door, KafkaRequest* request) noexcept nogil
