# The quota of leases at the Kafka door: a member of a group is one (connections/accounts).
#
# A member counts for who let it join, pending or not, until it leaves through this node, or must have ended by itself.
# A principal with as many as it may have is answered 81 (GROUP_MAX_SIZE_REACHED) when another member would join.
from libc.stdint cimport uint64_t

from raftmeta.doors.kafka.state cimport KafkaConnection, KafkaDoor
from raftmeta.wire.commands cimport Bytes

cdef bint quotas_have_room(KafkaDoor* door, KafkaConnection* connection) noexcept nogil
# A join made this member, or found it.
cdef void quotas_joined(KafkaDoor* door, KafkaConnection* connection, const Bytes* member,
                        uint64_t ttl_ms) noexcept nogil
# It was heard of.
cdef void quotas_heard(KafkaDoor* door, const Bytes* member) noexcept nogil
cdef void quotas_left(KafkaDoor* door, const Bytes* member) noexcept nogil
