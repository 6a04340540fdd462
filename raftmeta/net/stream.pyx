"""Sockets as non-blocking streams, and addresses written as numbers.

It decides the options of a socket, and where TLS is optional, whether a connection has it. It never blocks, never
waits, and does not know what the bytes mean.
"""

from libc.errno cimport (EAGAIN, ECONNABORTED, ECONNREFUSED, EINPROGRESS, EINTR, EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM,
                         errno)
from libc.stdint cimport uint8_t, uint16_t, uint32_t
from libc.string cimport memcpy, memset

from raftmeta.native.chunks cimport Slice
from raftmeta.net cimport posix
from raftmeta.security.identity cimport identity_has_name
from raftmeta.security.tls cimport (tls_close, tls_handshake, tls_is_revoked, tls_look, tls_open, tls_read,
                                    tls_write)
from raftmeta.security.tls_state cimport TLS_RECORD_BYTES, TlsPort
from raftmeta.status cimport BAD_FIELD, INCOMPLETE, NOT_FOUND, OK, OVERLOADED, STALE, status_t

# The kernel notices a peer that vanished without a word (power, cable) after about 10 s, far after the protocol's own
# time-outs; this only frees the socket and its queue.
cdef enum:
    TUNE_KEEPALIVE_IDLE_S = 5
    TUNE_KEEPALIVE_PAUSE_S = 2
    TUNE_KEEPALIVE_COUNT = 3
    TUNE_UNANSWERED_MS_MAX = 10_000


cdef void stream_init(Stream* stream) noexcept nogil:
    stream.fd = -1
    stream.tls = NULL


cdef void _set_option(int fd, int level, int name, int value) noexcept nogil:
    posix.setsockopt(fd, level, name, &value, sizeof(int))


cdef void _set_options(int fd) noexcept nogil:
    _set_option(fd, posix.IPPROTO_TCP, posix.TCP_NODELAY, 1)
    _set_option(fd, posix.SOL_SOCKET, posix.SO_KEEPALIVE, 1)
    _set_option(fd, posix.IPPROTO_TCP, posix.TCP_KEEPIDLE, TUNE_KEEPALIVE_IDLE_S)
    _set_option(fd, posix.IPPROTO_TCP, posix.TCP_KEEPINTVL, TUNE_KEEPALIVE_PAUSE_S)
    _set_option(fd, posix.IPPROTO_TCP, posix.TCP_KEEPCNT, TUNE_KEEPALIVE_COUNT)
    _set_option(fd, posix.IPPROTO_TCP, posix.TCP_USER_TIMEOUT, TUNE_UNANSWERED_MS_MAX)


cdef ConnectOutcome _connect_outcome(int error) noexcept nogil:
    if error == 0:
        return CONNECT_DONE
    if error == EINPROGRESS or error == EINTR:
        return CONNECT_STARTED
    return CONNECT_REFUSED if error == ECONNREFUSED else CONNECT_FAILED


cdef ConnectOutcome stream_connect(Stream* stream, const SocketAddress* address) noexcept nogil:
    cdef int error = 0
    stream.tls = NULL
    stream.fd = posix.socket(address.storage.ss_family,
                             posix.SOCK_STREAM | posix.SOCK_NONBLOCK | posix.SOCK_CLOEXEC, 0)
    if stream.fd < 0:
        return CONNECT_FAILED
    _set_options(stream.fd)
    if posix.connect(stream.fd, <const posix.sockaddr*>&address.storage, address.length) != 0:
        error = errno
    return _connect_outcome(error)


cdef ConnectOutcome stream_connected(Stream* stream) noexcept nogil:
    cdef int error = 0
    cdef posix.socklen_t length = sizeof(int)
    if posix.getsockopt(stream.fd, posix.SOL_SOCKET, posix.SO_ERROR, &error, &length) != 0:
        return CONNECT_FAILED
    return _connect_outcome(error)


cdef status_t stream_accept(Stream* stream, int listener) noexcept nogil:
    stream.tls = NULL
    stream.fd = posix.accept4(listener, NULL, NULL, posix.SOCK_NONBLOCK | posix.SOCK_CLOEXEC)
    if stream.fd >= 0:
        _set_options(stream.fd)
        return OK
    if errno == EAGAIN:
        return INCOMPLETE
    if errno == EMFILE or errno == ENFILE or errno == ENOBUFS or errno == ENOMEM:
        return OVERLOADED
    # The other errors concern that one connection (accept(2) "Error handling").
    return STALE if errno == EINTR or errno == ECONNABORTED or errno == EPERM else INCOMPLETE


cdef ssize_t stream_read(Stream* stream, uint8_t* into, size_t room) noexcept nogil:
    cdef ssize_t got
    if stream.tls != NULL:
        return _read_secured(stream, into, room)
    while True:
        got = posix.recv(stream.fd, into, room, 0)
        if got >= 0:
            return got
        if errno == EAGAIN:
            return STREAM_WOULD_BLOCK
        if errno != EINTR:
            return STREAM_BROKEN


cdef ssize_t stream_write(Stream* stream, const Slice* parts, size_t count, uint32_t offset) noexcept nogil:
    cdef posix.iovec[STREAM_PARTS_MAX] vectors
    cdef posix.msghdr message
    cdef size_t taken = count if count < STREAM_PARTS_MAX else STREAM_PARTS_MAX
    cdef ssize_t sent
    cdef size_t i
    if stream.tls != NULL:
        return tls_write(stream.tls, parts, count, offset)
    for i in range(taken):
        vectors[i].iov_base = parts[i].data
        vectors[i].iov_len = parts[i].length
    vectors[0].iov_base = parts[0].data + offset
    vectors[0].iov_len = parts[0].length - offset
    memset(&message, 0, sizeof(message))
    message.msg_iov = vectors
    message.msg_iovlen = taken
    while True:
        sent = posix.sendmsg(stream.fd, &message, posix.MSG_NOSIGNAL)     # no SIGPIPE for the host
        if sent >= 0:
            return sent
        if errno == EAGAIN:
            return STREAM_WOULD_BLOCK
        if errno != EINTR:
            return STREAM_BROKEN


# --- security ---------------------------------------------------------------------------------------------------------
cdef bint stream_secure(Stream* stream, TlsPort* port, void** ticket) noexcept nogil:
    stream.tls = tls_open(port, stream.fd, ticket)
    return stream.tls != NULL


# Where TLS is optional, the first bytes say whether it is there.
cdef ssize_t _read_secured(Stream* stream, uint8_t* into, size_t room) noexcept nogil:
    cdef bint speaks = True
    cdef status_t status
    if stream.tls.openssl == NULL:
        status = tls_look(stream.tls, stream.fd, &speaks)
        if status != OK:
            return STREAM_WOULD_BLOCK if status == INCOMPLETE else STREAM_BROKEN
    if speaks:
        return tls_read(stream.tls, stream.fd, into, room)
    tls_close(stream.tls, False)
    stream.tls = NULL
    return stream_read(stream, into, room)


cdef status_t stream_handshake(Stream* stream) noexcept nogil:
    return tls_handshake(stream.tls) if stream.tls != NULL else OK


cdef status_t stream_refusal(const Stream* stream) noexcept nogil:
    return stream.tls.refusal if stream.tls != NULL else OK


cdef bint stream_is_secured(const Stream* stream) noexcept nogil:
    return stream.tls != NULL and stream.tls.is_ready


cdef bint stream_is_of(const Stream* stream, const uint8_t* name, uint8_t length) noexcept nogil:
    return stream.tls == NULL or (stream.tls.is_ready and identity_has_name(&stream.tls.identity, name, length))


cdef bint stream_is_revoked(const Stream* stream) noexcept nogil:
    return stream.tls != NULL and tls_is_revoked(stream.tls)


cdef uint32_t stream_room_min(const Stream* stream) noexcept nogil:
    return TLS_RECORD_BYTES if stream.tls != NULL else 1


# --- the end ----------------------------------------------------------------------------------------------------------
cdef void stream_reset_at_close(Stream* stream) noexcept nogil:
    cdef posix.linger none
    none.l_onoff = 1
    none.l_linger = 0
    if stream.fd >= 0:
        posix.setsockopt(stream.fd, posix.SOL_SOCKET, posix.SO_LINGER, &none, sizeof(none))
        tls_close(stream.tls, False)
        stream.tls = NULL


cdef void stream_close(Stream* stream) noexcept nogil:
    if stream.tls != NULL:
        tls_close(stream.tls, True)
        stream.tls = NULL
    stream_close_in_child(stream)


cdef void stream_close_in_child(Stream* stream) noexcept nogil:
    cdef int fd = stream.fd
    if fd >= 0:
        stream.fd = -1      # first, so that a fork child never closes a number that was given out again
        posix.close(fd)


cdef status_t address_split(const uint8_t* text, uint8_t length, const uint8_t** host, uint8_t* host_length,
                            uint16_t* port) noexcept nogil:
    cdef int colon = length - 1
    cdef uint32_t number = 0
    cdef int i
    while colon >= 0 and text[colon] != c':':
        colon -= 1
    if colon <= 0 or colon == length - 1:
        return BAD_FIELD
    for i in range(colon + 1, length):
        if text[i] < c'0' or text[i] > c'9' or number > 65535:
            return BAD_FIELD
        number = number * 10 + (text[i] - c'0')
    if number == 0 or number > 65535:
        return BAD_FIELD
    host[0] = text
    host_length[0] = <uint8_t>colon
    if text[0] == c'[' and text[colon - 1] == c']' and colon > 2:
        host[0] = text + 1
        host_length[0] = <uint8_t>(colon - 2)
    port[0] = <uint16_t>number
    return OK


cdef status_t address_from_numbers(const uint8_t* host, uint8_t host_length, uint16_t port,
                                   SocketAddress* address) noexcept nogil:
    cdef char[256] text
    cdef posix.sockaddr_in* version4 = <posix.sockaddr_in*>&address.storage
    cdef posix.sockaddr_in6* version6 = <posix.sockaddr_in6*>&address.storage
    memcpy(text, host, host_length)
    text[host_length] = 0
    memset(address, 0, sizeof(SocketAddress))
    if posix.inet_pton(posix.AF_INET, text, &version4.sin_addr) == 1:
        version4.sin_family = posix.AF_INET
        version4.sin_port = posix.htons(port)
        address.length = sizeof(posix.sockaddr_in)
        return OK
    if posix.inet_pton(posix.AF_INET6, text, &version6.sin6_addr) == 1:
        version6.sin6_family = posix.AF_INET6
        version6.sin6_port = posix.htons(port)
        address.length = sizeof(posix.sockaddr_in6)
        return OK
    return NOT_FOUND
