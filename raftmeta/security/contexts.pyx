"""Contexts of TLS: files become rules, and OpenSSL asks them in each handshake.

It decides the rules of every connection: TLS 1.3, both sides verified, one protocol for each port, the name in the
certificate. It never touches a socket, and never blocks: the files were read before (security/settings).

A certificate that is not welcome fails in the handshake, so that an alert tells the other side.

Sources: RFC 8446; RFC 7301; OpenSSL's manual pages SSL_CTX_set_verify(3), SSL_CTX_sess_set_new_cb(3).
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcpy, memset, strlen, strncpy
from libc.time cimport tm

from raftmeta.native.atomics cimport exchange_shared, load_shared
from raftmeta.native.intrinsics cimport hash64
from raftmeta.security cimport openssl
from raftmeta.security.certificates cimport certificate_identity, certificate_is_welcome
from raftmeta.security.door cimport door_enter, door_leave
from raftmeta.security.identity cimport ROLE_PEER, CertifiedIdentity, IdentityRole
from raftmeta.security.tickets cimport TlsTickets, tickets_find, tickets_free, tickets_keep
from raftmeta.security.tls_state cimport TLS_WHY_BYTES, TlsSession
from raftmeta.status cimport BAD_FIELD, status_t

cdef enum:
    TUNE_TICKET_LIFE_S = 3600
    TUNE_TICKETS = 1                    # for each handshake; a peer keeps the newest
    TUNE_CERTIFICATES_BYTES_MAX = 16 * 1024     # of the other side, with those between it and an authority
    CHAIN_DEPTH_MAX = 4

# TLS_AES_128_GCM first: it is the fastest that every processor with AES has.
cdef const char* CIPHERS = b"TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256"

# As ALPN writes them: a length, then the name (RFC 7301 3.1). FORMAT_.
cdef const char* PEER_PROTOCOL = b"\x0fraftmeta-peer/1"
cdef const char* CLIENT_PROTOCOL = b"\x11raftmeta-client/1"
# Those of HTTP (RFC 9113 3.2, RFC 7301 6).
cdef const char* HTTP_PROTOCOLS = b"\x02h2\x08http/1.1"


# --- what OpenSSL asks in a handshake ---------------------------------------------------------------------------------
# Called for each certificate of a chain that is sound so far, the holder's last.
cdef int _look_at_certificate(int is_good, openssl.X509_STORE_CTX* at) noexcept nogil:
    cdef TlsSession* session
    cdef CertifiedIdentity identity
    if not is_good or openssl.X509_STORE_CTX_get_error_depth(at) != 0:
        return is_good
    session = <TlsSession*>openssl.SSL_get_ex_data(
        <const openssl.SSL*>openssl.X509_STORE_CTX_get_ex_data(at, openssl.SSL_get_ex_data_X509_STORE_CTX_idx()), 0)
    if certificate_is_welcome(session.port, openssl.X509_STORE_CTX_get_current_cert(at), &identity):
        return 1
    openssl.X509_STORE_CTX_set_error(at, <int>openssl.X509_V_ERR_APPLICATION_VERIFICATION)
    return 0


cdef int _choose_protocol(openssl.SSL* ssl, const unsigned char** chosen, unsigned char* chosen_length,
                          const unsigned char* offered, unsigned int offered_length, void* given) noexcept nogil:
    cdef const unsigned char* own = <const unsigned char*>given
    if openssl.SSL_select_next_proto(<unsigned char**>chosen, chosen_length, own, own[0] + 1, offered,
                                     offered_length) != openssl.OPENSSL_NPN_NEGOTIATED:
        return openssl.SSL_TLSEXT_ERR_ALERT_FATAL
    return openssl.SSL_TLSEXT_ERR_OK


cdef int _choose_http(openssl.SSL* ssl, const unsigned char** chosen, unsigned char* chosen_length,
                      const unsigned char* offered, unsigned int offered_length, void* given) noexcept nogil:
    if openssl.SSL_select_next_proto(<unsigned char**>chosen, chosen_length, <const unsigned char*>HTTP_PROTOCOLS,
                                     <unsigned int>strlen(HTTP_PROTOCOLS), offered,
                                     offered_length) != openssl.OPENSSL_NPN_NEGOTIATED:
        return openssl.SSL_TLSEXT_ERR_ALERT_FATAL
    return openssl.SSL_TLSEXT_ERR_OK


# The context of this connection; NULL: another one has come into force since, and it knows no ticket of before.
cdef TlsContext* _context_in_force(const openssl.SSL* ssl, const TlsSession* session) noexcept nogil:
    if session == NULL or openssl.SSL_get_SSL_CTX(ssl) != <openssl.SSL_CTX*>session.port.context.openssl:
        return NULL
    return session.port.context


# A copy is kept: OpenSSL voids the session of a connection that ends without a goodbye, and breaking is no fraud.
cdef int _keep_ticket(openssl.SSL* ssl, openssl.SSL_SESSION* fresh) noexcept nogil:
    cdef TlsSession* session = <TlsSession*>openssl.SSL_get_ex_data(ssl, 0)
    cdef TlsContext* context = _context_in_force(ssl, session)
    if session != NULL and session.ticket != NULL:
        tls_ticket_drop(session.ticket)
        session.ticket[0] = openssl.SSL_SESSION_dup(fresh)
    elif context != NULL:
        tickets_keep(<TlsTickets*>context.tickets, fresh)
    return 0        # the session itself stays OpenSSL's


cdef openssl.SSL_SESSION* _find_ticket(openssl.SSL* ssl, const unsigned char* name, int length,
                                       int* is_shared) noexcept nogil:
    cdef TlsContext* context = _context_in_force(ssl, <const TlsSession*>openssl.SSL_get_ex_data(ssl, 0))
    is_shared[0] = 1        # OpenSSL counts itself as one more owner
    return <openssl.SSL_SESSION*>tickets_find(<TlsTickets*>context.tickets, name, length) if context != NULL else NULL


cdef void tls_ticket_drop(void** ticket) noexcept nogil:
    if ticket[0] != NULL and door_enter():
        openssl.SSL_SESSION_free(<openssl.SSL_SESSION*>ticket[0])
        door_leave()
    ticket[0] = NULL


# --- lists of revoked certificates ------------------------------------------------------------------------------------
# OpenSSL verifies the signature of a list in each handshake. A signature that is right stays right, so a list remembers
# who signed it. Of equal certificates that is the first one, which the store holds. Lists for some certificates only,
# and changes of lists, are left to OpenSSL: whether they count depends on the certificate.
cdef void _remember_signer(openssl.X509_CRL* revoked, openssl.X509* authority) noexcept nogil:
    if (openssl.X509_CRL_get_meth_data(revoked) == NULL
            and openssl.X509_CRL_get_ext_by_NID(revoked, openssl.NID_issuing_distribution_point, -1) < 0
            and openssl.X509_CRL_get_ext_by_NID(revoked, openssl.NID_delta_crl, -1) < 0
            and openssl.X509_NAME_cmp(openssl.X509_CRL_get_issuer(revoked),
                                      openssl.X509_get_subject_name(authority)) == 0
            and openssl.X509_get_key_usage(authority) & openssl.KU_CRL_SIGN
            and openssl.X509_CRL_verify(revoked, openssl.X509_get0_pubkey(authority)) == 1):
        openssl.X509_CRL_set_meth_data(revoked, authority)


cdef void _remember_signers(TlsContext* context) noexcept nogil:
    cdef uint32_t i, j
    for i in range(context.revoked_count):
        for j in range(context.authorities_count):
            _remember_signer((<openssl.X509_CRL**>context.revoked)[i], (<openssl.X509**>context.authorities)[j])


cdef bint _holds_now(const openssl.X509_CRL* revoked) noexcept nogil:
    cdef const openssl.ASN1_TIME* until = openssl.X509_CRL_get0_nextUpdate(revoked)
    return (openssl.X509_cmp_current_time(openssl.X509_CRL_get0_lastUpdate(revoked)) < 0
            and (until == NULL or openssl.X509_cmp_current_time(until) > 0))


# As OpenSSL does it without this module; it says what is wrong.
cdef int _check_whole_list(openssl.X509_STORE_CTX* at, openssl.X509_CRL* revoked) noexcept nogil:
    cdef openssl.X509_STORE_CTX* blank = openssl.X509_STORE_CTX_new()
    cdef int is_good = 0
    if blank != NULL and openssl.X509_STORE_CTX_init(blank, NULL, NULL, NULL) == 1:
        is_good = openssl.X509_STORE_CTX_get_check_crl(blank)(at, revoked)
    openssl.X509_STORE_CTX_free(blank)
    return is_good


# The one that signed the list must be the very one that signed the certificate.
cdef int _check_list(openssl.X509_STORE_CTX* at, openssl.X509_CRL* revoked) noexcept nogil:
    cdef openssl.X509* signer = <openssl.X509*>openssl.X509_CRL_get_meth_data(revoked)
    cdef openssl.X509* issuer = openssl.X509_STORE_CTX_get0_current_issuer(at)
    cdef openssl.X509_CHAIN* chain = openssl.X509_STORE_CTX_get0_chain(at)
    cdef int above = openssl.X509_STORE_CTX_get_error_depth(at) + 1
    if (signer != NULL and (issuer == NULL or issuer == signer) and above < openssl.sk_X509_num(chain)
            and openssl.sk_X509_value(chain, above) == signer and _holds_now(revoked)):
        return 1
    return _check_whole_list(at, revoked)


# --- contexts ---------------------------------------------------------------------------------------------------------
# Without it OpenSSL would ask at the terminal.
cdef int _give_password(char* into, int room, int is_writing, void* given) noexcept nogil:
    cdef const TlsTexts* texts = <const TlsTexts*>given
    if texts.password == NULL or texts.password_length > <size_t>room:
        return -1
    memcpy(into, texts.password, texts.password_length)
    return <int>texts.password_length


cdef bint _use_certificate(openssl.SSL_CTX* context, const TlsTexts* texts) noexcept nogil:
    cdef openssl.BIO* text = openssl.BIO_new_mem_buf(texts.certificate, <int>texts.certificate_length)
    cdef openssl.X509* certificate = NULL
    cdef bint is_good = False
    if text != NULL:
        certificate = openssl.PEM_read_bio_X509(text, NULL, _give_password, <void*>texts)
    if certificate != NULL:
        is_good = openssl.SSL_CTX_use_certificate(context, certificate) == 1
        openssl.X509_free(certificate)
    while is_good:
        certificate = openssl.PEM_read_bio_X509(text, NULL, _give_password, <void*>texts)
        if certificate == NULL:
            break
        is_good = openssl.SSL_CTX_add0_chain_cert(context, certificate) == 1
    openssl.BIO_free(text)
    return is_good


cdef bint _use_key(openssl.SSL_CTX* context, const TlsTexts* texts) noexcept nogil:
    cdef openssl.BIO* text = openssl.BIO_new_mem_buf(texts.key, <int>texts.key_length)
    cdef openssl.EVP_PKEY* key = NULL
    cdef bint is_good = False
    openssl.ERR_clear_error()       # of the end of the certificates
    if text != NULL:
        key = openssl.PEM_read_bio_PrivateKey(text, NULL, _give_password, <void*>texts)
    if key != NULL:
        is_good = (openssl.SSL_CTX_use_PrivateKey(context, key) == 1
                   and openssl.SSL_CTX_check_private_key(context) == 1)
        openssl.EVP_PKEY_free(key)
    openssl.BIO_free(text)
    return is_good


# One more of OpenSSL's objects; it is the array's from here on.
cdef bint _keep(void** array, uint32_t* count, void* one) noexcept nogil:
    cdef void* grown = realloc(array[0], (count[0] + 1) * sizeof(void*))
    if grown == NULL:
        return False
    array[0] = grown
    (<void**>grown)[count[0]] = one
    count[0] += 1
    return True


cdef bint _use_authorities(TlsContext* context, const TlsTexts* texts) noexcept nogil:
    cdef openssl.X509_STORE* store = openssl.SSL_CTX_get_cert_store(<openssl.SSL_CTX*>context.openssl)
    cdef openssl.BIO* text = openssl.BIO_new_mem_buf(texts.authorities, <int>texts.authorities_length)
    cdef openssl.X509* authority = NULL
    while text != NULL:
        authority = openssl.PEM_read_bio_X509(text, NULL, _give_password, <void*>texts)
        if authority == NULL:
            break
        if (openssl.X509_STORE_add_cert(store, authority) != 1
                or not _keep(&context.authorities, &context.authorities_count, authority)):
            openssl.X509_free(authority)
            openssl.BIO_free(text)
            return False
    openssl.BIO_free(text)
    return context.authorities_count != 0


cdef bint _use_revoked(TlsContext* context, const TlsTexts* texts) noexcept nogil:
    cdef openssl.X509_STORE* store = openssl.SSL_CTX_get_cert_store(<openssl.SSL_CTX*>context.openssl)
    cdef openssl.X509_CRL* revoked = NULL
    cdef openssl.BIO* text
    if texts.revoked == NULL:
        return True
    openssl.ERR_clear_error()
    text = openssl.BIO_new_mem_buf(texts.revoked, <int>texts.revoked_length)
    while text != NULL:
        revoked = openssl.PEM_read_bio_X509_CRL(text, NULL, _give_password, <void*>texts)
        if revoked == NULL:
            break
        if (openssl.X509_STORE_add_crl(store, revoked) != 1
                or not _keep(&context.revoked, &context.revoked_count, revoked)):
            openssl.X509_CRL_free(revoked)
            openssl.BIO_free(text)
            return False
    openssl.BIO_free(text)
    _remember_signers(context)
    openssl.X509_STORE_set_check_crl(store, _check_list)
    return context.revoked_count != 0 and openssl.X509_STORE_set_flags(store, openssl.X509_V_FLAG_CRL_CHECK) == 1


# The settings of every connection of the port.
cdef bint _set_rules(openssl.SSL_CTX* context, const char* protocol) noexcept nogil:
    cdef const unsigned char* own = <const unsigned char*>protocol
    openssl.SSL_CTX_set_options(context, openssl.SSL_OP_ENABLE_KTLS | openssl.SSL_OP_NO_COMPRESSION
                                | openssl.SSL_OP_NO_RENEGOTIATION | openssl.SSL_OP_NO_TICKET
                                | openssl.SSL_OP_CIPHER_SERVER_PREFERENCE)
    openssl.SSL_CTX_set_mode(context, openssl.SSL_MODE_ENABLE_PARTIAL_WRITE
                             | openssl.SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | openssl.SSL_MODE_RELEASE_BUFFERS)
    openssl.SSL_CTX_set_session_cache_mode(context, openssl.SSL_SESS_CACHE_BOTH
                                           | openssl.SSL_SESS_CACHE_NO_INTERNAL)
    openssl.SSL_CTX_sess_set_new_cb(context, _keep_ticket)
    openssl.SSL_CTX_sess_set_get_cb(context, _find_ticket)
    openssl.SSL_CTX_set_timeout(context, TUNE_TICKET_LIFE_S)
    openssl.SSL_CTX_set_max_cert_list(context, TUNE_CERTIFICATES_BYTES_MAX)
    openssl.SSL_CTX_set_verify(context, openssl.SSL_VERIFY_PEER | openssl.SSL_VERIFY_FAIL_IF_NO_PEER_CERT,
                               _look_at_certificate)
    openssl.SSL_CTX_set_verify_depth(context, CHAIN_DEPTH_MAX)
    openssl.SSL_CTX_set_alpn_select_cb(context, _choose_protocol, <void*>protocol)
    # set_alpn_protos answers 0 when it did.
    return (openssl.SSL_CTX_set_min_proto_version(context, openssl.TLS1_3_VERSION) == 1
            and openssl.SSL_CTX_set_ciphersuites(context, CIPHERS) == 1
            and openssl.SSL_CTX_set_num_tickets(context, TUNE_TICKETS) == 1
            and openssl.SSL_CTX_set_session_id_context(context, own + 1, own[0]) == 1
            and openssl.SSL_CTX_set_alpn_protos(context, own, own[0] + 1) == 0)


cdef int64_t _expires_s(openssl.SSL_CTX* context) noexcept nogil:
    cdef tm time
    if openssl.ASN1_TIME_to_tm(openssl.X509_get0_notAfter(openssl.SSL_CTX_get0_certificate(context)), &time) != 1:
        return 0
    return openssl.timegm(&time)


# The text that is wrong; 0: none.
cdef char _fill(TlsContext* context, const TlsTexts* texts) noexcept nogil:
    cdef openssl.SSL_CTX* into = <openssl.SSL_CTX*>context.openssl
    context.tickets = calloc(1, sizeof(TlsTickets))
    if into == NULL or context.tickets == NULL or not _set_rules(into, tls_protocol_of(context)):
        return c'c'
    if not _use_certificate(into, texts):
        return c'c'
    if not _use_key(into, texts):
        return c'k'
    if not _use_authorities(context, texts):
        return c'a'
    if not _use_revoked(context, texts):
        return c'r'
    context.trust = hash64(0, texts.authorities, texts.authorities_length)
    context.expires_s = _expires_s(into)
    openssl.ERR_clear_error()
    return 0


cdef const char* tls_protocol_of(const TlsContext* context) noexcept nogil:
    return PEER_PROTOCOL if context.role == ROLE_PEER else CLIENT_PROTOCOL


cdef void _say_why(char* why) noexcept nogil:
    cdef const char* text = openssl.ERR_reason_error_string(openssl.ERR_peek_last_error())
    memset(why, 0, TLS_WHY_BYTES)
    if text != NULL:
        strncpy(why, text, TLS_WHY_BYTES - 1)
    openssl.ERR_clear_error()


cdef TlsContext* tls_context_create(const TlsTexts* texts, IdentityRole role, const uint8_t* cluster,
                                    uint8_t cluster_length, char* field, char* why) noexcept nogil:
    cdef TlsContext* context
    field[0] = c'c'
    why[0] = 0
    if not door_enter():
        return NULL
    openssl.ERR_clear_error()
    context = <TlsContext*>calloc(1, sizeof(TlsContext))
    if context != NULL:
        context.role = role
        context.cluster_length = cluster_length
        memcpy(context.cluster, cluster, cluster_length)
        context.openssl = openssl.SSL_CTX_new(openssl.TLS_method())
        field[0] = _fill(context, texts)
        if field[0] != 0:
            _say_why(why)
            _free(context)
            context = NULL
    door_leave()
    return context


cdef void _free(TlsContext* context) noexcept nogil:
    cdef uint32_t i
    for i in range(context.revoked_count):
        openssl.X509_CRL_free((<openssl.X509_CRL**>context.revoked)[i])
    for i in range(context.authorities_count):
        openssl.X509_free((<openssl.X509**>context.authorities)[i])
    openssl.SSL_CTX_free(<openssl.SSL_CTX*>context.openssl)
    tickets_free(<TlsTickets*>context.tickets)
    free(context.authorities)
    free(context.revoked)
    free(context)


cdef void tls_context_speak_http(TlsContext* context) noexcept nogil:
    context.is_foreign = True
    openssl.SSL_CTX_set_alpn_select_cb(<openssl.SSL_CTX*>context.openssl, _choose_http, NULL)


cdef void tls_context_free(TlsContext* context) noexcept nogil:
    if context != NULL and door_enter():
        _free(context)
        door_leave()


cdef status_t tls_context_identity(const TlsContext* context, CertifiedIdentity* into) noexcept nogil:
    cdef status_t status
    if not door_enter():
        return BAD_FIELD
    status = certificate_identity(openssl.SSL_CTX_get0_certificate(<const openssl.SSL_CTX*>context.openssl), into)
    door_leave()
    return status


# --- ports ------------------------------------------------------------------------------------------------------------
cdef void tls_port_offer(TlsPort* port, TlsContext* context) noexcept nogil:
    tls_context_free(exchange_shared(&port.fresh, context))


cdef bint tls_port_take(TlsPort* port) noexcept nogil:
    cdef TlsContext* fresh
    if load_shared(&port.fresh) == NULL:
        return False
    fresh = exchange_shared(&port.fresh, <TlsContext*>NULL)
    if fresh == NULL:
        return False
    tls_context_free(port.context)      # connections hold what they need of it
    port.context = fresh
    port.counters.contexts += 1
    return True


cdef void tls_port_release(TlsPort* port) noexcept nogil:
    tls_context_free(port.context)
    tls_context_free(exchange_shared(&port.fresh, <TlsContext*>NULL))
    port.context = NULL
    free(port.buffer)
    port.buffer = NULL
