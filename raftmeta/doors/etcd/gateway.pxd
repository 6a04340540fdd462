# etcd's JSON gateway: HTTP/1.1 with JSON bodies, for the same calls that gRPC makes (rpc.proto, google.api.http).
#
# It decides what a request of HTTP means for a call, and how a call's messages and status stand in an answer. One
# request is under way at a time; bytes behind it wait on the connection. A request whose answers are a stream is given
# to its call piece by piece, every other one once it is whole. It never looks into a message. Sources: RFC 9112;
# grpc-gateway v2 runtime (errors.go, handler.go); etcd-io/etcd 3.7.3 server/embed/serve.go,
# server/etcdserver/api/etcdhttp (version, health).
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

from raftmeta.doors.etcd.state cimport EtcdConnection, EtcdDoor
from raftmeta.status cimport status_t

# False: no memory.
cdef bint gateway_open(EtcdConnection* connection) noexcept nogil
# ConnectionRules.take. BAD_MAGIC, BAD_LENGTH, BAD_FIELD: it was told so, and the connection ends.
cdef status_t gateway_take(EtcdDoor* door, EtcdConnection* connection, const uint8_t* bytes, size_t length,
                           size_t* used) noexcept nogil
# Answers of its call, as far as they may be sent now.
cdef void gateway_send(EtcdDoor* door, EtcdConnection* connection) noexcept nogil
cdef void gateway_close(EtcdDoor* door, EtcdConnection* connection) noexcept nogil
