# A non-blocking stream of bytes to another process, plain or by TLS. Code above reads and writes through these
# functions only. A stream by TLS shakes hands in its first reads and writes, and before that has ended well it tells
# none of its bytes.
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from raftmeta.native.chunks cimport Slice
from raftmeta.net.posix cimport sockaddr_storage, socklen_t
from raftmeta.security.tls_state cimport TlsPort, TlsSession
from raftmeta.status cimport status_t

cdef enum:
    STREAM_WOULD_BLOCK = -1     # nothing now; epoll will tell
    STREAM_BROKEN = -2          # reset, timed out, ...: close it
    STREAM_PARTS_MAX = 64       # parts that one stream_write looks at

cdef struct SocketAddress:
    sockaddr_storage storage
    socklen_t length

cdef enum ConnectOutcome:
    CONNECT_DONE = 1
    CONNECT_STARTED = 2         # epoll says writable when the outcome is known; then call stream_connected
    CONNECT_REFUSED = 3         # nobody listens there: the process is gone
    CONNECT_FAILED = 4          # unreachable, timed out, no descriptors left

cdef struct Stream:
    int fd                      # -1: closed
    TlsSession* tls             # NULL: plain

cdef void stream_init(Stream* stream) noexcept nogil
cdef ConnectOutcome stream_connect(Stream* stream, const SocketAddress* address) noexcept nogil
# Call it after CONNECT_STARTED, when the socket became writable or failed.
cdef ConnectOutcome stream_connected(Stream* stream) noexcept nogil
# OK; INCOMPLETE: nobody waits any more; OVERLOADED: no descriptors left, try later; STALE: this caller went away, take
# the next.
cdef status_t stream_accept(Stream* stream, int listener) noexcept nogil
# Bytes read, 0: the other side ended the stream, STREAM_WOULD_BLOCK, STREAM_BROKEN.
cdef ssize_t stream_read(Stream* stream, uint8_t* into, size_t room) noexcept nogil
# Writes the parts, the first one from `offset` on. Returns bytes taken, or STREAM_WOULD_BLOCK, STREAM_BROKEN.
cdef ssize_t stream_write(Stream* stream, const Slice* parts, size_t count, uint32_t offset) noexcept nogil
# Put the stream under TLS before its first byte. ticket: see tls_open. False: no memory.
cdef bint stream_secure(Stream* stream, TlsPort* port, void** ticket) noexcept nogil
# Do the rest of the handshake. OK: done; INCOMPLETE: epoll will tell; else the stream is broken.
cdef status_t stream_handshake(Stream* stream) noexcept nogil
# A TlsRefusal: why the stream broke; OK: not for its security.
cdef status_t stream_refusal(const Stream* stream) noexcept nogil
# Does TLS secure the stream, and has its handshake ended well?
cdef bint stream_is_secured(const Stream* stream) noexcept nogil
# Does the other side's certificate name this node? True for a plain stream, which asks for none.
cdef bint stream_is_of(const Stream* stream, const uint8_t* name, uint8_t length) noexcept nogil
# Was the other side's certificate revoked since the handshake, or is its authority trusted no more?
cdef bint stream_is_revoked(const Stream* stream) noexcept nogil
# Least room for a read after which no byte is left where epoll could not tell of it.
cdef uint32_t stream_room_min(const Stream* stream) noexcept nogil
# stream_close will end the stream with a reset and throw away what the socket still holds.
cdef void stream_reset_at_close(Stream* stream) noexcept nogil
cdef void stream_close(Stream* stream) noexcept nogil
# Only the descriptor: a fork child has no right to more.
cdef void stream_close_in_child(Stream* stream) noexcept nogil

# Take "host:port" apart; *host_length is the length of the host without brackets. BAD_FIELD.
cdef status_t address_split(const uint8_t* text, uint8_t length, const uint8_t** host, uint8_t* host_length,
                            uint16_t* port) noexcept nogil
# A numeric IPv4 or IPv6 address needs no resolver. NOT_FOUND: it is a name.
cdef status_t address_from_numbers(const uint8_t* host, uint8_t host_length, uint16_t port,
                                   SocketAddress* address) noexcept nogil
