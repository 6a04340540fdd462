# Which requests the Kafka door knows, in which versions, and who handles each. ApiVersions tells clients this table.
#
# A new request is a line in _fill (table.pyx), and functions of a module of its own.
from libc.stdint cimport int16_t

from raftmeta.doors.kafka.state cimport KafkaHandler

cdef enum:
    KAFKA_HANDLERS_MAX = 64

# NULL: the door does not know the request in this version. A request ApiVersions of an unknown version is handled as
# one of version 0, by version_unknown. has_own: the host keeps the records of topics.
cdef const KafkaHandler* handler_of(int16_t key, int16_t version, bint has_own) noexcept nogil
# It answers a request ApiVersions in a version that the door does not know (KIP-511).
cdef const KafkaHandler* handler_of_unknown() noexcept nogil
