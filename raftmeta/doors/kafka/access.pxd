# Who speaks on a connection of the Kafka door, and what that user may do.
#
# A client proves a user by its certificate or by SASL (sasl.pyx). While rights are on, every connection must. A request
# for a group needs READ and WRITE over the group's keys, as it does at the clients' port; one that only shows a group
# needs READ. While rights are off, everybody may do everything.
from libc.stdint cimport int16_t, uint8_t, uint64_t

from raftmeta.doors.kafka.state cimport KafkaConnection, KafkaDoor, KafkaRequest
from raftmeta.machine.rights_state cimport RightsTable
from raftmeta.wire.commands cimport Bytes

# The users of now, held: rights_drop them. NULL: there never were any.
cdef RightsTable* access_table(KafkaDoor* door) noexcept nogil
# The client's certificate, if it has one, says who it is.
cdef void access_by_certificate(KafkaConnection* connection) noexcept nogil
# Whether the connection has yet to prove a user before it is answered.
cdef bint access_must_prove(KafkaDoor* door, const KafkaConnection* connection) noexcept nogil
# Whether its user has all of these rights (machine/rights_state Right) over the keys [start, end).
cdef bint access_allows(KafkaDoor* door, const KafkaConnection* connection, uint8_t rights, const Bytes* start,
                        const Bytes* end) noexcept nogil
# The same for the keys of one group, told by its key. A refusal is noted for the audit trail.
cdef bint access_group(KafkaDoor* door, KafkaRequest* request, const Bytes* key, bint is_change) noexcept nogil
# Whether the request may change the group of this key (length 0: there is no such group). KAFKA_OK, or the error: also
# where each change must be recorded, and the audit trail cannot be written.
cdef int16_t access_change(KafkaDoor* door, KafkaRequest* request, const Bytes* key) noexcept nogil
# Once in a while: close connections whose user has gone, or has another password.
cdef void access_look(KafkaDoor* door) noexcept nogil
