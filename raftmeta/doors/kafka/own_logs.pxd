# Produce and Fetch of topics whose records the host keeps (docs/kafka-own-log.md).
#
#     Produce   each batch is checked, and handed to the host if this node leads its partition. Behind the host's answer
#               a read round shows that the node leads it still, in the same epoch; only then the client is told success
#     Fetch     the host is asked for each partition. With nothing to tell the request waits for news of a log, and asks
#               again for that log alone, until its time is over
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest

cdef void own_produce_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void own_produce_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void own_fetch_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void own_fetch_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
