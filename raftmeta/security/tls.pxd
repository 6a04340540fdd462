# TLS as a filter between a socket and its stream (RFC 8446), driven by the thread that owns the connection.
#
# It decides who may speak: version, protocol, certificate, and the name in it. It never blocks, never takes the GIL,
# never looks into a frame, and never opens or closes a descriptor.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.native.chunks cimport Slice
from raftmeta.security.tls_state cimport TlsPort, TlsSession
from raftmeta.status cimport status_t

# NULL: no memory. ticket: for a connection that this side opened; NULL: the other side opened it.
cdef TlsSession* tls_open(TlsPort* port, int fd, void** ticket) noexcept nogil
# says_goodbye: the other side is told that the stream ends here (RFC 8446 6.1). In a fork child call nothing.
cdef void tls_close(TlsSession* session, bint says_goodbye) noexcept nogil
# False: what came does not begin as TLS does. Call it while TlsSession.openssl is NULL. INCOMPLETE: nothing came yet.
cdef status_t tls_look(TlsSession* session, int fd, bint* speaks) noexcept nogil
# OK: the connection is safe, and identity says who is there. INCOMPLETE: more bytes must come. Else it is over.
cdef status_t tls_handshake(TlsSession* session) noexcept nogil
# As stream_read and stream_write; they shake hands first. `room` of TLS_RECORD_BYTES takes any record whole: with it
# no byte stays behind where epoll could not tell of it.
cdef ssize_t tls_read(TlsSession* session, int fd, uint8_t* into, size_t room) noexcept nogil
cdef ssize_t tls_write(TlsSession* session, const Slice* parts, size_t count, uint32_t offset) noexcept nogil
# The subject of the other side's certificate (RFC 2253, UTF-8), at most `room` bytes, once the handshake is over. 0: it
# has none, or a longer one.
cdef uint32_t tls_subject(const TlsSession* session, uint8_t* into, uint32_t room) noexcept nogil
# Is the certificate of the other side on a list of the context that is in force now, or its authority trusted no more?
cdef bint tls_is_revoked(const TlsSession* session) noexcept nogil
