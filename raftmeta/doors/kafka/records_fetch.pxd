# Fetch at the Kafka door: batches of record logs, as the state of this node shows them (docs/kafka-records.md).
#
# A request that finds nothing waits for a change of a log, until its time is over. An offset that this node has not
# reached yet is asked for behind a read round: another node may have told it. There are no fetch sessions: each answer
# says that none was made, and then a client names all its partitions each time (KIP-227).
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest

cdef void records_fetch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void records_fetch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
