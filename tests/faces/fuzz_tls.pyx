"""TLS for fuzzers: a stranger's bytes into a handshake, and bytes of a friend through a connection.

The stranger: the input is all that a connection ever brings, to the side that accepts or to the side that opened. No
input may end a handshake. The friend: two ends shook hands once, and the input goes from one to the other, cut into
parts and records. Every byte must arrive, in order, and nothing else.

    use(certificate, key, authorities)      once, before any target; PEM
"""
from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcmp, memset

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.security.contexts cimport tls_context_create
from raftmeta.security.identity cimport ROLE_PEER
from raftmeta.security.tls cimport tls_close, tls_handshake, tls_open, tls_read, tls_write
from raftmeta.security.tls_state cimport (TLS_RECORD_BYTES, TLS_WHY_BYTES, TLS_WOULD_BLOCK, TlsPort, TlsSession,
                                          TlsTexts)
from raftmeta.status cimport INCOMPLETE, OK, status_t

cdef extern from "<sys/socket.h>" nogil:
    enum: AF_UNIX
    enum: SOCK_STREAM
    enum: SOCK_NONBLOCK
    enum: SHUT_WR
    enum: MSG_NOSIGNAL
    int socketpair(int domain, int type, int protocol, int* ends)
    ssize_t send(int fd, const void* bytes, size_t length, int flags)
    int shutdown(int fd, int how)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)

cdef enum:
    PARTS_MAX = 16
    TURNS_MAX = 64              # of a handshake, or of a read

cdef TlsPort port
cdef int[2] ends                # of the connection that stays
cdef TlsSession* sessions[2]
cdef void* ticket = NULL
cdef uint8_t[2 * TLS_RECORD_BYTES] buffer


# --- a stranger -------------------------------------------------------------------------------------------------------
# The lowest bit of the first byte: which side is ours; the next one: whether the stranger ends behind its bytes.
cdef int fuzz_strange(const uint8_t* data, size_t size) noexcept nogil:
    cdef int[2] pair
    cdef void* fresh = NULL
    cdef TlsSession* session
    cdef int _turn
    cdef int wrong = 0
    if port.context == NULL:
        return TLS_NOT_PREPARED
    if size == 0 or socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) != 0:
        return 0
    send(pair[1], data + 1, size - 1, MSG_NOSIGNAL)
    if data[0] & 2:
        shutdown(pair[1], SHUT_WR)
    session = tls_open(&port, pair[0], &fresh if data[0] & 1 else NULL)
    if session != NULL:
        for _turn in range(TURNS_MAX):
            if tls_read(session, pair[0], buffer, sizeof(buffer)) <= 0:
                break
        if session.is_ready:
            wrong = TLS_LET_IN
        tls_close(session, False)
    close(pair[0])
    close(pair[1])
    return wrong


# --- a friend ---------------------------------------------------------------------------------------------------------
cdef void _disconnect() noexcept nogil:
    cdef int i
    for i in range(2):
        if sessions[i] != NULL:
            tls_close(sessions[i], False)
            close(ends[i])
            sessions[i] = NULL


cdef bint _connect() noexcept nogil:
    cdef status_t here = INCOMPLETE
    cdef status_t there = INCOMPLETE
    cdef int _turn
    if sessions[0] != NULL and not sessions[0].is_over and not sessions[1].is_over:
        return True
    _disconnect()
    if socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) != 0:
        return False
    sessions[0] = tls_open(&port, ends[0], &ticket)
    sessions[1] = tls_open(&port, ends[1], NULL)
    for _turn in range(TURNS_MAX):
        if here == INCOMPLETE:
            here = tls_handshake(sessions[0])
        if there == INCOMPLETE:
            there = tls_handshake(sessions[1])
    return here == OK and there == OK


# The first byte: which end speaks, and in how many parts. A part ends where the byte at a place that moves on says.
cdef size_t _parts_of(const uint8_t* data, size_t size, Slice* parts) noexcept nogil:
    cdef size_t count = 1 + (data[0] >> 1) % PARTS_MAX
    cdef size_t at = 1
    cdef size_t i, length
    memset(parts, 0, PARTS_MAX * sizeof(Slice))
    for i in range(count):
        length = size - at
        if i + 1 < count and length > data[at % size]:
            length = data[at % size]
        parts[i].data = <uint8_t*>data + at
        parts[i].length = <uint32_t>length
        at += length
    return count


cdef int _carry(const uint8_t* data, size_t size, Vec[uint8_t]* out) noexcept nogil:
    cdef Slice[PARTS_MAX] parts
    cdef int speaks = data[0] & 1
    cdef size_t count = _parts_of(data, size, parts)
    cdef size_t left = size - 1
    cdef size_t first = 0
    cdef uint32_t offset = 0
    cdef ssize_t sent, got
    cdef int _turn
    for _turn in range(TURNS_MAX * PARTS_MAX):
        if left != 0:
            sent = tls_write(sessions[speaks], &parts[first], count - first, offset)
            if sent < 0 and sent != TLS_WOULD_BLOCK:
                return TLS_OTHER_BYTES
            while sent > 0:
                got = min(<ssize_t>(parts[first].length - offset), sent)
                offset += <uint32_t>got
                left -= <size_t>got
                sent -= got
                if sent > 0 or offset == parts[first].length:
                    first += 1
                    offset = 0
        got = tls_read(sessions[1 - speaks], ends[1 - speaks], buffer, sizeof(buffer))
        if got > 0:
            out.append(buffer, <size_t>got)
        elif got != TLS_WOULD_BLOCK:
            return TLS_OTHER_BYTES
        elif left == 0:
            break
    if out.size != size - 1 or (size > 1 and memcmp(out.data, data + 1, size - 1) != 0):
        return TLS_OTHER_BYTES
    return 0


cdef int fuzz_carried(const uint8_t* data, size_t size, Vec[uint8_t]* out) noexcept nogil:
    cdef int wrong
    if port.context == NULL:
        return TLS_NOT_PREPARED
    if size < 2:
        return 0
    if not _connect():
        return TLS_NOT_PREPARED
    wrong = _carry(data, size, out)
    if wrong != 0:
        _disconnect()       # the next input finds a fresh connection
    return wrong


# --- for Python -------------------------------------------------------------------------------------------------------
def use(bytes certificate not None, bytes key not None, bytes authorities not None, bytes cluster not None):
    cdef TlsTexts texts
    cdef char[2] field
    cdef char[TLS_WHY_BYTES] why
    memset(&texts, 0, sizeof(texts))
    texts.certificate, texts.certificate_length = certificate, len(certificate)
    texts.key, texts.key_length = key, len(key)
    texts.authorities, texts.authorities_length = authorities, len(authorities)
    field[1] = 0
    if port.context == NULL:
        port.context = tls_context_create(&texts, ROLE_PEER, <const uint8_t*>cluster, <uint8_t>len(cluster), field,
                                          why)
    if port.context == NULL:
        raise ValueError(f"{(<bytes>field)!r}: {(<bytes>why)!r}")
