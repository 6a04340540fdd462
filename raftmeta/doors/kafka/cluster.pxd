# The first questions of a client: which brokers there are, and who coordinates a group.
#
# Every node is a broker, and coordinates every group: the node that is asked names itself. Its commands go to the
# leader of the cluster, so a group does not move when the leader changes.
from raftmeta.doors.kafka.codec cimport KafkaWriter
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest

cdef void metadata_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void metadata_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void coordinator_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void describe_cluster_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void describe_cluster_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
