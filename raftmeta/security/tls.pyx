"""TLS 1.3 over OpenSSL: handshakes, records, and who is at the other end.

It decides who is let in: the holder of a certificate that an authority signed, that holds now, that no list revokes,
and that names this cluster and the role of the port. Common names, DNS names and addresses count for nothing. It
decides this in the handshake, so that an alert tells the other side. It decides it once more when the handshake has
ended: a resumed one shows no certificate, and the ticket brings the old one.

It never blocks: OpenSSL reads and writes a non-blocking socket, and a fresh socket takes a whole flight of a handshake.
One that does not is closed. A write that must be repeated is repeated with the same bytes first, since the queues above
only grow behind them. OpenSSL holds no bytes of a record that came whole, because it reads no record in advance.

Sources: RFC 8446; OpenSSL's manual pages SSL_write(3), SSL_CTX_set_mode(3), SSL_get_error(3).
"""

from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdint cimport uint8_t, uint32_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from raftmeta.native.chunks cimport Slice
from raftmeta.security cimport openssl
from raftmeta.security.certificates cimport (certificate_is_listed, certificate_is_vouched_for, certificate_is_welcome,
                                             certificate_subject)
from raftmeta.security.contexts cimport tls_protocol_of, tls_ticket_drop
from raftmeta.security.door cimport door_enter, door_leave
from raftmeta.security.tls_state cimport (TLS_BROKEN, TLS_CUT, TLS_DAMAGED, TLS_EXPIRED, TLS_IDENTITY,
                                          TLS_NO_CERTIFICATE, TLS_NOT_SPOKEN, TLS_NOT_YET, TLS_PROTOCOL,
                                          TLS_RECORD_BYTES, TLS_REVOKED, TLS_TOLD_EXPIRED, TLS_TOLD_REVOKED,
                                          TLS_TOLD_UNTRUSTED, TLS_UNTRUSTED, TLS_VERSION, TLS_WANTED,
                                          TLS_WOULD_BLOCK, TlsContext)
from raftmeta.status cimport INCOMPLETE, NO_MEMORY, OK, STALE, status_t

cdef extern from "<sys/socket.h>" nogil:
    enum: MSG_NOSIGNAL
    enum: MSG_PEEK
    enum: SHUT_RD
    enum: SHUT_WR
    enum: SOL_SOCKET
    enum: SO_RCVLOWAT
    ssize_t recv(int fd, void* into, size_t room, int flags)
    ssize_t send(int fd, const void* bytes, size_t length, int flags)
    int setsockopt(int fd, int level, int name, const void* value, unsigned int length)
    int shutdown(int fd, int how)

cdef enum:
    TUNE_HANDSHAKE_BYTES_MAX = 32 * 1024        # of the other side, before anything is known of it
    TUNE_RECORDS_PER_READ = 64          # each costs as much as a kilobyte, however short; epoll tells of the rest
    TUNE_DRAINED_BYTES_MAX = 64 * 1024          # read and thrown away, so that the alert arrives before the end
    FIRST_BYTES = 3                     # that tell TLS from the frames of both plain protocols
    RECORD_HANDSHAKE = 22               # RFC 8446 5.1
    VERSION_MAJOR = 3


# --- connections ------------------------------------------------------------------------------------------------------
cdef bint _begin(TlsSession* session, int fd) noexcept nogil:
    cdef openssl.SSL* ssl = openssl.SSL_new(<openssl.SSL_CTX*>session.port.context.openssl)
    session.openssl = ssl
    session.trust = session.port.context.trust
    if ssl == NULL or openssl.SSL_set_fd(ssl, fd) != 1 or openssl.SSL_set_ex_data(ssl, 0, session) != 1:
        return False
    if session.ticket == NULL:
        openssl.SSL_set_accept_state(ssl)
        return True
    openssl.SSL_set_connect_state(ssl)
    if session.ticket[0] != NULL:
        openssl.SSL_set_session(ssl, <openssl.SSL_SESSION*>session.ticket[0])
    return True


cdef void _wait_for(int fd, int bytes) noexcept nogil:
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &bytes, sizeof(int))


cdef TlsSession* tls_open(TlsPort* port, int fd, void** ticket) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>calloc(1, sizeof(TlsSession))
    if port.buffer == NULL:
        port.buffer = <uint8_t*>malloc(TLS_RECORD_BYTES)
    if session == NULL or port.buffer == NULL:
        free(session)
        return NULL
    session.port = port
    session.ticket = ticket
    if ticket == NULL and port.accepts_plain:
        _wait_for(fd, FIRST_BYTES)      # epoll tells of fewer only when no more will come
    elif not door_enter():
        free(session)
        return NULL
    else:
        if not _begin(session, fd):
            openssl.SSL_free(<openssl.SSL*>session.openssl)
            free(session)
            session = NULL
        door_leave()
    return session


cdef void tls_close(TlsSession* session, bint says_goodbye) noexcept nogil:
    if session == NULL:
        return
    if session.openssl != NULL and door_enter():
        if says_goodbye and session.is_ready and not session.is_over and session.refusal == 0:
            openssl.ERR_clear_error()
            openssl.SSL_shutdown(<openssl.SSL*>session.openssl)
        openssl.SSL_free(<openssl.SSL*>session.openssl)
        door_leave()
    free(session)


# A record of TLS begins 16 03 0x with x > 0. A plain frame of a client begins with its length, and 0x010316 bytes or
# more are above the bound of a HELLO. A plain frame of a peer begins with another byte.
cdef status_t tls_look(TlsSession* session, int fd, bint* speaks) noexcept nogil:
    cdef uint8_t[FIRST_BYTES] first
    cdef ssize_t got = recv(fd, first, FIRST_BYTES, MSG_PEEK)
    cdef bint is_begun
    if got < 0 and (errno == EAGAIN or errno == EINTR):
        return INCOMPLETE
    if got < FIRST_BYTES:
        return STALE
    _wait_for(fd, 1)
    speaks[0] = first[0] == RECORD_HANDSHAKE and first[1] == VERSION_MAJOR and first[2] != 0
    if not speaks[0]:
        session.port.counters.plain += 1
        return OK
    if not door_enter():
        return STALE
    is_begun = _begin(session, fd)
    door_leave()
    return OK if is_begun else NO_MEMORY


# --- why not ----------------------------------------------------------------------------------------------------------
cdef status_t _of_verification(long result) noexcept nogil:
    if result == openssl.X509_V_ERR_CERT_HAS_EXPIRED:
        return TLS_EXPIRED
    if result == openssl.X509_V_ERR_CERT_NOT_YET_VALID:
        return TLS_NOT_YET
    if result == openssl.X509_V_ERR_CERT_REVOKED:
        return TLS_REVOKED
    return TLS_IDENTITY if result == openssl.X509_V_ERR_APPLICATION_VERIFICATION else TLS_UNTRUSTED


# RFC 8446 6.2: what the other side says of us.
cdef status_t _of_alert(int alert) noexcept nogil:
    if alert == openssl.SSL_AD_CERTIFICATE_EXPIRED:
        return TLS_TOLD_EXPIRED
    if alert == openssl.SSL_AD_CERTIFICATE_REVOKED:
        return TLS_TOLD_REVOKED
    if alert == openssl.SSL_AD_CERTIFICATE_REQUIRED:
        return TLS_WANTED
    if alert == openssl.SSL_AD_PROTOCOL_VERSION:
        return TLS_VERSION
    if alert == openssl.SSL_AD_NO_APPLICATION_PROTOCOL:
        return TLS_PROTOCOL
    if (alert == openssl.SSL_AD_UNKNOWN_CA or alert == openssl.SSL_AD_BAD_CERTIFICATE
            or alert == openssl.SSL_AD_UNSUPPORTED_CERTIFICATE or alert == openssl.SSL_AD_CERTIFICATE_UNKNOWN
            or alert == openssl.SSL_AD_HANDSHAKE_FAILURE):
        return TLS_TOLD_UNTRUSTED
    return TLS_DAMAGED


# OK: it is no matter of security that the connection broke.
cdef status_t _why(const TlsSession* session, int error) noexcept nogil:
    cdef unsigned long code = openssl.ERR_peek_error()
    cdef int reason = openssl.ERR_GET_REASON(code)
    cdef long verified = openssl.SSL_get_verify_result(<const openssl.SSL*>session.openssl)
    if error == openssl.SSL_ERROR_SSL and verified != openssl.X509_V_OK:
        return _of_verification(verified)
    if error != openssl.SSL_ERROR_SSL or reason == openssl.SSL_R_UNEXPECTED_EOF_WHILE_READING:
        return OK if session.is_ready else TLS_CUT
    if reason == openssl.SSL_R_WRONG_VERSION_NUMBER or reason == openssl.SSL_R_HTTP_REQUEST:
        return TLS_NOT_SPOKEN
    if reason == openssl.SSL_R_UNSUPPORTED_PROTOCOL:
        return TLS_VERSION
    if reason == openssl.SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE:
        return TLS_NO_CERTIFICATE
    if openssl.SSL_AD_REASON_OFFSET <= reason < openssl.SSL_AD_REASON_OFFSET + 256:
        return _of_alert(reason - openssl.SSL_AD_REASON_OFFSET)
    return TLS_DAMAGED


cdef status_t _refuse(TlsSession* session, status_t refusal) noexcept nogil:
    session.is_over = True
    if refusal != OK and session.refusal == 0:
        session.refusal = <uint8_t>refusal
        session.port.counters.refused += 1
    if session.ticket != NULL and (refusal != OK or not session.is_ready):
        tls_ticket_drop(session.ticket)     # the next attempt shows its certificate
    openssl.ERR_clear_error()
    return refusal if refusal != OK else STALE


# --- the handshake ----------------------------------------------------------------------------------------------------
cdef bint _has_protocol(const openssl.SSL* ssl, const char* protocol) noexcept nogil:
    cdef const unsigned char* own = <const unsigned char*>protocol
    cdef const unsigned char* name = NULL
    cdef unsigned int length = 0
    cdef unsigned int i
    openssl.SSL_get0_alpn_selected(ssl, &name, &length)
    if length != own[0]:
        return False
    for i in range(length):
        if name[i] != own[i + 1]:
            return False
    return True


# The handshake has ended; a resumed one has looked at no certificate, and one without ALPN at no protocol.
cdef status_t _admit(TlsSession* session) noexcept nogil:
    cdef const openssl.SSL* ssl = <const openssl.SSL*>session.openssl
    cdef openssl.X509* certificate = openssl.SSL_get0_peer_certificate(ssl)
    if not session.port.context.is_foreign and not _has_protocol(ssl, tls_protocol_of(session.port.context)):
        return _refuse(session, TLS_PROTOCOL)
    if certificate == NULL:
        return _refuse(session, TLS_NO_CERTIFICATE)
    if openssl.SSL_get_verify_result(ssl) != openssl.X509_V_OK:
        return _refuse(session, TLS_UNTRUSTED)
    if openssl.X509_cmp_current_time(openssl.X509_get0_notAfter(certificate)) <= 0:
        return _refuse(session, TLS_EXPIRED)
    if certificate_is_listed(session.port.context, certificate):
        return _refuse(session, TLS_REVOKED)
    # The authorities were read anew during the handshake.
    if session.trust != session.port.context.trust and not certificate_is_vouched_for(session.port.context, ssl):
        return _refuse(session, TLS_UNTRUSTED)
    if not certificate_is_welcome(session.port, certificate, &session.identity):
        return _refuse(session, TLS_IDENTITY)
    session.is_ready = True
    session.port.counters.handshakes += 1
    if openssl.SSL_session_reused(ssl):
        session.port.counters.resumed += 1
    if openssl.BIO_get_ktls_send(openssl.SSL_get_wbio(ssl)):
        session.port.counters.in_kernel += 1
    return OK


cdef status_t _shake(TlsSession* session) noexcept nogil:
    cdef openssl.SSL* ssl = <openssl.SSL*>session.openssl
    cdef int result, error
    if session.is_ready or session.is_over:
        return OK if session.is_ready else STALE
    openssl.ERR_clear_error()
    result = openssl.SSL_do_handshake(ssl)
    if result == 1:
        return _admit(session)
    error = openssl.SSL_get_error(ssl, result)
    if error != openssl.SSL_ERROR_WANT_READ:
        return _refuse(session, _why(session, error))
    if openssl.BIO_number_read(openssl.SSL_get_rbio(ssl)) > TUNE_HANDSHAKE_BYTES_MAX:
        return _refuse(session, TLS_DAMAGED)
    return INCOMPLETE


cdef status_t tls_handshake(TlsSession* session) noexcept nogil:
    cdef status_t status
    if not door_enter():
        return STALE
    status = _shake(session)
    door_leave()
    return status


# --- bytes in ---------------------------------------------------------------------------------------------------------
# OpenSSL says nothing to one who speaks no TLS. Our own plain ends know this alert, and tell that TLS is wanted.
cdef void _tell_plain(int fd) noexcept nogil:
    cdef uint8_t[7] alert = [21, VERSION_MAJOR, 3, 0, 2, 2, <uint8_t>openssl.SSL_AD_PROTOCOL_VERSION]
    send(fd, alert, sizeof(alert), MSG_NOSIGNAL)


# A socket that is closed while bytes wait in it throws the alert away that was sent last. So the writing side is
# closed, and what still comes is read, up to a bound. The caller's time-out ends it.
cdef ssize_t _drain(TlsSession* session, int fd) noexcept nogil:
    cdef ssize_t got
    shutdown(fd, SHUT_WR)
    while session.drained < TUNE_DRAINED_BYTES_MAX:
        got = recv(fd, session.port.buffer, TLS_RECORD_BYTES, 0)
        if got < 0 and errno == EAGAIN:
            return TLS_WOULD_BLOCK
        if got <= 0:
            return TLS_BROKEN
        session.drained += <uint32_t>got
    return TLS_BROKEN


# No bytes and an end: 0 if it was told, else TLS_BROKEN.
cdef ssize_t _ended(TlsSession* session, int fd, int error, ssize_t taken) noexcept nogil:
    if error == openssl.SSL_ERROR_ZERO_RETURN:
        session.is_over = True
        openssl.SSL_shutdown(<openssl.SSL*>session.openssl)     # the goodbye is answered
        shutdown(fd, SHUT_RD)       # so that epoll tells of the end once more
        return taken
    _refuse(session, _why(session, error))
    return TLS_BROKEN


cdef ssize_t _read(TlsSession* session, int fd, uint8_t* into, size_t room) noexcept nogil:
    cdef openssl.SSL* ssl = <openssl.SSL*>session.openssl
    cdef ssize_t taken = 0
    cdef int records = 0
    cdef int got, error
    cdef status_t status
    if session.is_over:
        return 0 if session.is_ready and session.refusal == 0 else TLS_BROKEN
    status = _shake(session)
    if status != OK:
        return TLS_WOULD_BLOCK if status == INCOMPLETE else TLS_BROKEN
    while taken == 0 or (room - <size_t>taken >= TLS_RECORD_BYTES and records < TUNE_RECORDS_PER_READ):
        openssl.ERR_clear_error()
        got = openssl.SSL_read(ssl, into + taken, <int>min(room - <size_t>taken, <size_t>0x7FFFFFFF))
        if got <= 0:
            error = openssl.SSL_get_error(ssl, got)
            if error != openssl.SSL_ERROR_WANT_READ:
                return _ended(session, fd, error, taken)
            return taken if taken != 0 else TLS_WOULD_BLOCK
        taken += got
        records += 1
    return taken


cdef ssize_t tls_read(TlsSession* session, int fd, uint8_t* into, size_t room) noexcept nogil:
    cdef ssize_t got
    if session.refusal != 0 and session.ticket == NULL and not session.is_ready:
        return _drain(session, fd)
    if not door_enter():
        return TLS_BROKEN
    got = _read(session, fd, into, room)
    door_leave()
    if got == TLS_BROKEN and session.refusal != 0 and session.ticket == NULL and not session.is_ready:
        if session.refusal == TLS_NOT_SPOKEN:
            _tell_plain(fd)
        return _drain(session, fd)
    return got


# --- bytes out --------------------------------------------------------------------------------------------------------
# Bytes of one record, from `offset` of the first part on: where they stand, and how many.
cdef const uint8_t* _gather(uint8_t* buffer, const Slice* parts, size_t count, uint32_t offset,
                            int* length) noexcept nogil:
    cdef uint32_t rest = parts[0].length - offset
    cdef uint32_t joined = 0
    cdef size_t i = 0
    if rest >= TLS_RECORD_BYTES or count == 1:
        length[0] = <int>min(rest, <uint32_t>TLS_RECORD_BYTES)
        return parts[0].data + offset
    while i < count and joined < TLS_RECORD_BYTES:
        rest = min(parts[i].length - offset, TLS_RECORD_BYTES - joined)
        memcpy(buffer + joined, parts[i].data + offset, rest)
        joined += rest
        offset = 0
        i += 1
    length[0] = <int>joined
    return buffer


cdef ssize_t _write(TlsSession* session, const Slice* parts, size_t count, uint32_t offset) noexcept nogil:
    cdef openssl.SSL* ssl = <openssl.SSL*>session.openssl
    cdef const uint8_t* bytes
    cdef ssize_t taken = 0
    cdef uint32_t rest
    cdef int length, sent, error
    cdef status_t status = _shake(session)
    if status != OK or session.is_over:
        return TLS_WOULD_BLOCK if status == INCOMPLETE else TLS_BROKEN
    while count != 0:
        if parts[0].length == offset:
            parts += 1
            count -= 1
            offset = 0
            continue
        bytes = _gather(session.port.buffer, parts, count, offset, &length)
        openssl.ERR_clear_error()
        sent = openssl.SSL_write(ssl, bytes, length)
        if sent <= 0:
            error = openssl.SSL_get_error(ssl, sent)
            if error == openssl.SSL_ERROR_WANT_WRITE:
                return taken if taken != 0 else TLS_WOULD_BLOCK
            _refuse(session, _why(session, error))
            return TLS_BROKEN
        taken += sent
        while sent != 0:
            rest = min(parts[0].length - offset, <uint32_t>sent)
            offset += rest
            sent -= <int>rest
            if offset == parts[0].length:
                parts += 1
                count -= 1
                offset = 0
    return taken


cdef ssize_t tls_write(TlsSession* session, const Slice* parts, size_t count, uint32_t offset) noexcept nogil:
    cdef ssize_t sent
    if not door_enter():
        return TLS_BROKEN
    sent = _write(session, parts, count, offset)
    door_leave()
    return sent


cdef uint32_t tls_subject(const TlsSession* session, uint8_t* into, uint32_t room) noexcept nogil:
    cdef const void* certificate
    cdef uint32_t length = 0
    if not session.is_ready or not door_enter():
        return 0
    certificate = openssl.SSL_get0_peer_certificate(<const openssl.SSL*>session.openssl)
    if certificate != NULL:
        length = certificate_subject(certificate, into, room)
    door_leave()
    return length


cdef bint tls_is_revoked(const TlsSession* session) noexcept nogil:
    cdef const TlsContext* context = session.port.context
    cdef const openssl.SSL* ssl = <const openssl.SSL*>session.openssl
    cdef bint is_trust_same = session.trust == context.trust
    cdef bint is_revoked
    if not session.is_ready or (is_trust_same and context.revoked_count == 0) or not door_enter():
        return False
    is_revoked = (certificate_is_listed(context, openssl.SSL_get0_peer_certificate(ssl))
                  or not (is_trust_same or certificate_is_vouched_for(context, ssl)))
    door_leave()
    return is_revoked
