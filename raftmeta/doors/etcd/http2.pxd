# HTTP/2 of the etcd door: one session of nghttp2 for each connection, and gRPC's calls on its streams.
#
# It decides what a head of HTTP means for a call, and what hostile frames may cost: streams, header lists, settings,
# pings and resets have bounds, beyond which the connection ends. It never looks into a message.
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t

from raftmeta.doors.etcd.state cimport EtcdConnection, EtcdDoor

# False: no memory.
cdef bint http2_open(EtcdDoor* door, EtcdConnection* connection) noexcept nogil
# Bytes of the client. False: it broke the protocol, and what remains to be said stands in `out`.
cdef bint http2_take(EtcdDoor* door, EtcdConnection* connection, const uint8_t* bytes, size_t length) noexcept nogil
# Send the answers of its calls, as far as they may be sent now. False: nothing is ever said again on this connection.
cdef bint http2_send(EtcdDoor* door, EtcdConnection* connection) noexcept nogil
cdef void http2_close(EtcdConnection* connection) noexcept nogil
