# Members of consumer groups (KIP-848) at the Kafka door: ConsumerGroupHeartbeat and ConsumerGroupDescribe.
#
# A heartbeat is a linearizable read, as that of other groups is. One that would change the group becomes a command,
# which the machine decides (machine/consumer_groups). One that changes nothing is answered here, and keeps the lease of
# its member alive. This module only guesses which of both it is: a command that changes nothing does no harm.
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask

cdef void consumer_beat_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void consumer_beat_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void consumer_beat_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil

cdef void consumer_describe_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void consumer_describe_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
