# The Kafka door tells the audit trail what its clients ask: who, from where, for which group, and what came of it.
#
# A request that has a word of the trail (KafkaRequest.operation) gives one line when it is answered. The line names the
# keys that a handler tells by audit_names_*, or the key of the group that the request names first. Nothing that members
# say is copied, and no config, metadata or record. Without a trail each of these functions is one branch.
from libc.stdint cimport uint8_t

from raftmeta.doors.kafka.state cimport KafkaConnection, KafkaDoor, KafkaRequest
from raftmeta.wire.commands cimport Bytes
from raftmeta.status cimport status_t

cdef void audit_answered(KafkaDoor* door, const KafkaConnection* connection, const KafkaRequest* request) noexcept nogil
# The request is about this group; about this topic; about the records of this topic.
cdef void audit_names_group(const KafkaDoor* door, KafkaRequest* request, const Bytes* name) noexcept nogil
cdef void audit_names_topic(const KafkaDoor* door, KafkaRequest* request, const Bytes* name) noexcept nogil
cdef void audit_names_log(const KafkaDoor* door, KafkaRequest* request, const Bytes* name) noexcept nogil
# Whether changes are refused, because each must be recorded and the trail cannot be written.
cdef bint audit_blocks(const KafkaDoor* door) noexcept nogil
# A client tried to prove who it is.
cdef void audit_proved(KafkaDoor* door, const KafkaConnection* connection, bint is_proved) noexcept nogil
# A connection was not let in.
cdef void audit_refused(KafkaDoor* door, const KafkaConnection* connection, status_t status) noexcept nogil
