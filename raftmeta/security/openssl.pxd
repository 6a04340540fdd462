# The part of OpenSSL 3.0 that the TLS filter uses (libssl, libcrypto). Only modules of this folder include it: no other
# one needs OpenSSL's headers or libraries.
from libc.stdint cimport int64_t, uint64_t
from libc.time cimport tm

cdef extern from "<openssl/crypto.h>" nogil:
    uint64_t OPENSSL_INIT_NO_LOAD_CONFIG
    int OPENSSL_init_ssl(uint64_t options, const void* settings)
    int OPENSSL_atexit(void (*handler)() noexcept nogil)

cdef extern from "<openssl/err.h>" nogil:
    void ERR_clear_error()
    unsigned long ERR_peek_error()
    unsigned long ERR_peek_last_error()
    const char* ERR_reason_error_string(unsigned long error)
    int ERR_GET_LIB(unsigned long error)
    int ERR_GET_REASON(unsigned long error)
    enum: ERR_LIB_SSL

cdef extern from "<openssl/bio.h>" nogil:
    ctypedef struct BIO
    BIO* BIO_new_mem_buf(const void* bytes, int length)
    ctypedef struct BIO_METHOD
    const BIO_METHOD* BIO_s_mem()
    BIO* BIO_new(const BIO_METHOD* method)
    long BIO_get_mem_data(BIO* bio, char** data)
    int BIO_free(BIO* bio)
    uint64_t BIO_number_read(BIO* bio)
    int BIO_get_ktls_send(BIO* bio)

cdef extern from "<openssl/evp.h>" nogil:
    ctypedef struct EVP_PKEY
    void EVP_PKEY_free(EVP_PKEY* key)

cdef extern from "<openssl/asn1.h>" nogil:
    ctypedef struct ASN1_TIME
    ctypedef struct ASN1_IA5STRING
    int ASN1_TIME_to_tm(const ASN1_TIME* time, tm* into)
    const unsigned char* ASN1_STRING_get0_data(const ASN1_IA5STRING* text)
    int ASN1_STRING_length(const ASN1_IA5STRING* text)

cdef extern from "<time.h>" nogil:
    int64_t timegm(tm* time)

cdef extern from "<openssl/x509v3.h>" nogil:
    ctypedef struct X509
    ctypedef struct X509_CRL
    ctypedef struct X509_NAME
    ctypedef struct X509_REVOKED
    ctypedef struct X509_STORE
    ctypedef struct X509_STORE_CTX
    ctypedef struct GENERAL_NAMES
    ctypedef struct GENERAL_NAME
    void* GENERAL_NAME_get0_value(const GENERAL_NAME* name, int* type)
    enum: GEN_URI
    enum: NID_subject_alt_name
    enum: NID_issuing_distribution_point
    enum: NID_delta_crl
    unsigned int KU_CRL_SIGN
    ctypedef struct X509_CHAIN "STACK_OF(X509)"
    int sk_X509_num(const X509_CHAIN* chain)
    X509* sk_X509_value(const X509_CHAIN* chain, int place)
    int sk_GENERAL_NAME_num(const GENERAL_NAMES* names)
    GENERAL_NAME* sk_GENERAL_NAME_value(const GENERAL_NAMES* names, int place)
    void GENERAL_NAMES_free(GENERAL_NAMES* names)
    void* X509_get_ext_d2i(const X509* certificate, int kind, int* critical, int* place)
    void X509_free(X509* certificate)
    int X509_cmp(const X509* one, const X509* other)
    int X509_check_issued(X509* issuer, X509* certificate)
    const ASN1_TIME* X509_get0_notAfter(const X509* certificate)
    int X509_cmp_current_time(const ASN1_TIME* time)
    EVP_PKEY* X509_get0_pubkey(const X509* certificate)
    unsigned int X509_get_key_usage(X509* certificate)
    X509_NAME* X509_get_issuer_name(const X509* certificate)
    X509_NAME* X509_get_subject_name(const X509* certificate)
    int X509_NAME_print_ex(BIO* out, const X509_NAME* name, int indent, unsigned long flags)
    unsigned long XN_FLAG_RFC2253
    unsigned long ASN1_STRFLGS_ESC_MSB
    int X509_NAME_cmp(const X509_NAME* one, const X509_NAME* other)
    X509_NAME* X509_CRL_get_issuer(const X509_CRL* list)
    const ASN1_TIME* X509_CRL_get0_lastUpdate(const X509_CRL* list)
    const ASN1_TIME* X509_CRL_get0_nextUpdate(const X509_CRL* list)
    int X509_CRL_get_ext_by_NID(const X509_CRL* list, int kind, int after)
    int X509_CRL_verify(X509_CRL* list, EVP_PKEY* key)
    void X509_CRL_set_meth_data(X509_CRL* list, void* given)
    void* X509_CRL_get_meth_data(X509_CRL* list)
    void X509_CRL_free(X509_CRL* list)
    int X509_CRL_up_ref(X509_CRL* list)
    int X509_CRL_get0_by_cert(X509_CRL* list, X509_REVOKED** found, X509* certificate)
    int X509_STORE_add_cert(X509_STORE* store, X509* certificate)
    int X509_STORE_add_crl(X509_STORE* store, X509_CRL* list)
    int X509_STORE_set_flags(X509_STORE* store, unsigned long flags)
    ctypedef int (*X509_STORE_CTX_check_crl_fn)(X509_STORE_CTX* context, X509_CRL* list) noexcept nogil
    void X509_STORE_set_check_crl(X509_STORE* store, X509_STORE_CTX_check_crl_fn check)
    X509_STORE_CTX* X509_STORE_CTX_new()
    void X509_STORE_CTX_free(X509_STORE_CTX* context)
    int X509_STORE_CTX_init(X509_STORE_CTX* context, X509_STORE* store, X509* certificate, X509_CHAIN* others)
    X509_STORE_CTX_check_crl_fn X509_STORE_CTX_get_check_crl(const X509_STORE_CTX* context)
    X509_CHAIN* X509_STORE_CTX_get0_chain(const X509_STORE_CTX* context)
    X509* X509_STORE_CTX_get0_current_issuer(const X509_STORE_CTX* context)
    unsigned long X509_V_FLAG_CRL_CHECK
    unsigned long X509_V_FLAG_CRL_CHECK_ALL
    int X509_STORE_CTX_get_error_depth(const X509_STORE_CTX* context)
    void X509_STORE_CTX_set_error(X509_STORE_CTX* context, int error)
    X509* X509_STORE_CTX_get_current_cert(const X509_STORE_CTX* context)
    void* X509_STORE_CTX_get_ex_data(const X509_STORE_CTX* context, int place)
    long X509_V_OK
    long X509_V_ERR_APPLICATION_VERIFICATION
    long X509_V_ERR_CERT_HAS_EXPIRED
    long X509_V_ERR_CERT_NOT_YET_VALID
    long X509_V_ERR_CERT_REVOKED

cdef extern from "<openssl/pem.h>" nogil:
    ctypedef int (*pem_password)(char* into, int room, int is_writing, void* given) noexcept nogil
    X509* PEM_read_bio_X509(BIO* bio, X509** into, pem_password password, void* given)
    X509* PEM_read_bio_X509_AUX(BIO* bio, X509** into, pem_password password, void* given)
    X509_CRL* PEM_read_bio_X509_CRL(BIO* bio, X509_CRL** into, pem_password password, void* given)
    EVP_PKEY* PEM_read_bio_PrivateKey(BIO* bio, EVP_PKEY** into, pem_password password, void* given)

cdef extern from "<openssl/ssl.h>" nogil:
    ctypedef struct SSL
    ctypedef struct SSL_CTX
    ctypedef struct SSL_METHOD
    ctypedef struct SSL_SESSION
    enum: TLS1_3_VERSION
    enum: SSL_VERIFY_PEER
    enum: SSL_VERIFY_FAIL_IF_NO_PEER_CERT
    enum: SSL_ERROR_NONE
    enum: SSL_ERROR_SSL
    enum: SSL_ERROR_WANT_READ
    enum: SSL_ERROR_WANT_WRITE
    enum: SSL_ERROR_SYSCALL
    enum: SSL_ERROR_ZERO_RETURN
    enum: SSL_TLSEXT_ERR_OK
    enum: SSL_TLSEXT_ERR_ALERT_FATAL
    enum: OPENSSL_NPN_NEGOTIATED
    enum: SSL_R_WRONG_VERSION_NUMBER
    enum: SSL_R_HTTP_REQUEST
    enum: SSL_R_UNSUPPORTED_PROTOCOL
    enum: SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE
    enum: SSL_R_CERTIFICATE_VERIFY_FAILED
    enum: SSL_R_UNEXPECTED_EOF_WHILE_READING
    enum: SSL_AD_REASON_OFFSET
    enum: SSL_AD_HANDSHAKE_FAILURE
    enum: SSL_AD_BAD_CERTIFICATE
    enum: SSL_AD_UNSUPPORTED_CERTIFICATE
    enum: SSL_AD_CERTIFICATE_REVOKED
    enum: SSL_AD_CERTIFICATE_EXPIRED
    enum: SSL_AD_CERTIFICATE_UNKNOWN
    enum: SSL_AD_UNKNOWN_CA
    enum: SSL_AD_PROTOCOL_VERSION
    enum: SSL_AD_NO_APPLICATION_PROTOCOL
    enum: SSL_AD_CERTIFICATE_REQUIRED
    uint64_t SSL_OP_ENABLE_KTLS
    uint64_t SSL_OP_NO_COMPRESSION
    uint64_t SSL_OP_NO_TICKET
    uint64_t SSL_OP_CIPHER_SERVER_PREFERENCE
    uint64_t SSL_OP_NO_RENEGOTIATION
    long SSL_MODE_ENABLE_PARTIAL_WRITE
    long SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER
    long SSL_MODE_RELEASE_BUFFERS
    long SSL_SESS_CACHE_BOTH
    long SSL_SESS_CACHE_NO_INTERNAL
    const SSL_METHOD* TLS_method()
    SSL_CTX* SSL_CTX_new(const SSL_METHOD* method)
    void SSL_CTX_free(SSL_CTX* context)
    int SSL_CTX_set_min_proto_version(SSL_CTX* context, int version)
    int SSL_CTX_set_ciphersuites(SSL_CTX* context, const char* names)
    uint64_t SSL_CTX_set_options(SSL_CTX* context, uint64_t options)
    long SSL_CTX_set_mode(SSL_CTX* context, long mode)
    long SSL_CTX_set_session_cache_mode(SSL_CTX* context, long mode)
    int SSL_CTX_set_session_id_context(SSL_CTX* context, const unsigned char* name, unsigned int length)
    long SSL_CTX_set_timeout(SSL_CTX* context, long seconds)
    int SSL_CTX_set_num_tickets(SSL_CTX* context, size_t count)
    void SSL_CTX_set_max_cert_list(SSL_CTX* context, long bytes)
    void SSL_CTX_set_verify(SSL_CTX* context, int mode, int (*look)(int is_good, X509_STORE_CTX* at) noexcept nogil)
    void SSL_CTX_set_verify_depth(SSL_CTX* context, int depth)
    X509_STORE* SSL_CTX_get_cert_store(SSL_CTX* context)
    int SSL_CTX_use_certificate(SSL_CTX* context, X509* certificate)
    int SSL_CTX_use_PrivateKey(SSL_CTX* context, EVP_PKEY* key)
    int SSL_CTX_check_private_key(const SSL_CTX* context)
    long SSL_CTX_add0_chain_cert(SSL_CTX* context, X509* certificate)
    int SSL_CTX_set_alpn_protos(SSL_CTX* context, const unsigned char* names, unsigned int length)
    ctypedef int (*alpn_choice)(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_length,
                                const unsigned char* offered, unsigned int offered_length,
                                void* given) noexcept nogil
    void SSL_CTX_set_alpn_select_cb(SSL_CTX* context, alpn_choice choose, void* given)
    void SSL_CTX_sess_set_new_cb(SSL_CTX* context, int (*keep)(SSL* ssl, SSL_SESSION* session) noexcept nogil)
    void SSL_CTX_sess_set_get_cb(SSL_CTX* context, SSL_SESSION* (*find)(SSL* ssl, const unsigned char* name, int length,
                                                                        int* is_shared) noexcept nogil)
    int SSL_select_next_proto(unsigned char** chosen, unsigned char* chosen_length, const unsigned char* own,
                              unsigned int own_length, const unsigned char* offered, unsigned int offered_length)
    SSL* SSL_new(SSL_CTX* context)
    void SSL_free(SSL* ssl)
    int SSL_set_fd(SSL* ssl, int fd)
    void SSL_set_accept_state(SSL* ssl)
    void SSL_set_connect_state(SSL* ssl)
    int SSL_set_session(SSL* ssl, SSL_SESSION* session)
    SSL_SESSION* SSL_SESSION_dup(const SSL_SESSION* session)
    void SSL_SESSION_free(SSL_SESSION* session)
    const unsigned char* SSL_SESSION_get_id(const SSL_SESSION* session, unsigned int* length)
    SSL_CTX* SSL_get_SSL_CTX(const SSL* ssl)
    int SSL_set_ex_data(SSL* ssl, int place, void* given)
    void* SSL_get_ex_data(const SSL* ssl, int place)
    int SSL_get_ex_data_X509_STORE_CTX_idx()
    int SSL_do_handshake(SSL* ssl)
    int SSL_read(SSL* ssl, void* into, int room)
    int SSL_write(SSL* ssl, const void* bytes, int length)
    int SSL_shutdown(SSL* ssl)
    int SSL_get_error(const SSL* ssl, int result)
    int SSL_session_reused(const SSL* ssl)
    long SSL_get_verify_result(const SSL* ssl)
    X509* SSL_get0_peer_certificate(const SSL* ssl)
    X509_CHAIN* SSL_get0_verified_chain(const SSL* ssl)
    X509* SSL_CTX_get0_certificate(const SSL_CTX* context)
    void SSL_get0_alpn_selected(const SSL* ssl, const unsigned char** name, unsigned int* length)
    BIO* SSL_get_rbio(const SSL* ssl)
    BIO* SSL_get_wbio(const SSL* ssl)
