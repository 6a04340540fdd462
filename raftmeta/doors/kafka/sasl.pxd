# How a Kafka client proves to be a user: SaslHandshake and SaslAuthenticate, by SCRAM-SHA-256 or PLAIN.
#
#     SCRAM-SHA-256   (RFC 5802, RFC 7677) the password never comes here. The salt is looked up behind a read round, so
#                     that a node which lags does not tell an old one
#     PLAIN           (RFC 4616) inside TLS alone. The password is hashed here, a part in each turn
#
# Users are those of docs/security.md. A user that does not exist is answered like one that does, alike by every node,
# and fails at the proof. A password is proved by TLS, or from this machine. A connection that failed ends. Failed
# proofs count against the name, and leak away one a second; beyond TUNE_FAILURES_MAX no proof for it is looked at.
#
# It decides who may try, and how often. It never decides what a user may do (access.pxd).
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.doors.kafka.state cimport KafkaConnection, KafkaDoor, KafkaRequest

# False: the system gives no random bytes.
cdef bint sasl_prepare(KafkaDoor* door) noexcept nogil
# Whether a frame may be taken from a connection that may still have to prove a user.
cdef bint sasl_allows(KafkaDoor* door, const KafkaConnection* connection, const uint8_t* frame,
                      uint32_t length) noexcept nogil
cdef void handshake_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void authenticate_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil
cdef void authenticate_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil
# The connection closes.
cdef void sasl_release(KafkaConnection* connection) noexcept nogil
