# The structs of TLS, shared by security/*. OpenSSL's own stand here as void*, so that nobody who has a connection needs
# OpenSSL's headers.
#
# A TlsContext is what one reading of the files came to: certificate, key, authorities, revoked ones. A TlsPort holds
# the context in force for one listening port and for the connections that its thread opens. A TlsSession is one
# connection.
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.raft.types cimport NAME_BYTES_MAX
from raftmeta.security.identity cimport CertifiedIdentity

cdef enum:
    TLS_WOULD_BLOCK = -1        # net/stream STREAM_WOULD_BLOCK, as is
    TLS_BROKEN = -2             # net/stream STREAM_BROKEN, as is; TlsSession.refusal may say why
    TLS_RECORD_BYTES = 1 << 14  # plain bytes of a record at most (RFC 8446 5.1)
    TLS_WHY_BYTES = 256

# Why a connection was not let in: numbers that raftmeta/status leaves free. Only TLS_NAME is sent.
cdef enum TlsRefusal:
    TLS_NOT_SPOKEN = 128        # the other side speaks no TLS; behind all statuses, none of which may mean it
    TLS_CUT = 81                # the connection ended in the handshake
    TLS_VERSION = 82            # no common version, below 1.3
    TLS_PROTOCOL = 83           # no common protocol (ALPN): a client on the peers' port, or the reverse
    TLS_NO_CERTIFICATE = 84     # it shows none
    TLS_UNTRUSTED = 85          # no authority of ours signed it, or not for this use
    TLS_EXPIRED = 86
    TLS_NOT_YET = 87            # its time has not begun
    TLS_REVOKED = 88
    TLS_IDENTITY = 89           # it names nobody, another cluster or another role
    TLS_NAME = 90               # it names another node than HELLO does
    TLS_DAMAGED = 91            # a record or handshake message that cannot be
    TLS_TOLD_EXPIRED = 92       # the other side says so of our certificate, as in the next lines
    TLS_TOLD_REVOKED = 93
    TLS_TOLD_UNTRUSTED = 94     # or it does not accept the name in it
    TLS_WANTED = 95             # the other side wants TLS, or a certificate, and got none

# Texts in PEM; each may be cleared once tls_context_create has returned.
cdef struct TlsTexts:
    const uint8_t* certificate      # this side's, then those between it and an authority
    size_t certificate_length
    const uint8_t* key
    size_t key_length
    const uint8_t* password
    size_t password_length
    const uint8_t* authorities
    size_t authorities_length
    const uint8_t* revoked          # lists of revoked certificates; NULL: nothing is looked up
    size_t revoked_length

cdef struct TlsContext:
    void* openssl               # SSL_CTX
    void* authorities           # X509*[authorities_count]
    uint32_t authorities_count
    uint64_t trust              # a hash of the authorities' text
    void* revoked               # X509_CRL*[revoked_count]
    uint32_t revoked_count
    bint is_foreign             # its clients are not this project's: they need name no protocol in ALPN
    int64_t expires_s           # when this side's certificate ends, in seconds since 1970
    uint8_t role                # IdentityRole that it lets in
    uint8_t cluster_length
    uint8_t[NAME_BYTES_MAX] cluster
    void* tickets               # TlsTickets that this side gave out

cdef struct TlsCounters:
    uint64_t handshakes         # that ended well
    uint64_t resumed            # of those, by a ticket
    uint64_t refused            # that did not
    uint64_t in_kernel          # connections whose records the kernel encrypts
    uint64_t contexts           # that came into force
    uint64_t plain              # connections let in without TLS, where that is allowed

cdef struct TlsPort:
    TlsContext* context         # in force; NULL: no TLS
    TlsContext* fresh           # shared: offered, and not in force yet
    bint accepts_plain          # also connections without TLS are let in
    TlsCounters counters
    uint8_t* buffer             # where small parts of a record are joined

# A connection. It is its owner's; security/tls makes and frees it.
cdef struct TlsSession:
    void* openssl               # SSL; NULL: it is not known yet whether the other side speaks TLS
    TlsPort* port
    void** ticket               # SSL_SESSION*: where the next connection to the same peer finds one; NULL: nowhere
    bint is_ready               # the handshake has ended, and the name in the certificate is right
    bint is_over
    uint8_t refusal             # TlsRefusal; 0: none
    uint64_t trust              # of the context that the handshake began with
    uint32_t drained            # bytes thrown away since the refusal
    CertifiedIdentity identity  # of the other side, once is_ready
