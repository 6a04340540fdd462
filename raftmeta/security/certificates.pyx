"""The holder of a certificate, as the certificate tells: the name in it, whether a list revokes it, who signed it.

It decides who a certificate names: the one URI of this project among its alternative names. Common names, DNS names and
addresses count for nothing. It never judges signatures and dates; OpenSSL does.
"""

from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from raftmeta.security cimport openssl
from raftmeta.security.identity cimport (CertifiedIdentity, IdentityRole, identity_is_of, identity_is_ours,
                                         identity_parse)
from raftmeta.status cimport BAD_FIELD, OK, status_t


# Two names of this project in one certificate name nobody.
cdef status_t certificate_identity(const void* certificate, CertifiedIdentity* into) noexcept nogil:
    cdef openssl.GENERAL_NAMES* names
    cdef const openssl.ASN1_IA5STRING* uri
    cdef const uint8_t* text
    cdef status_t status = BAD_FIELD
    cdef int found = 0
    cdef int kind = 0
    cdef int i
    memset(into, 0, sizeof(CertifiedIdentity))
    names = <openssl.GENERAL_NAMES*>openssl.X509_get_ext_d2i(
        <const openssl.X509*>certificate, openssl.NID_subject_alt_name, NULL, NULL)
    if names == NULL:
        return BAD_FIELD
    for i in range(openssl.sk_GENERAL_NAME_num(names)):
        uri = <const openssl.ASN1_IA5STRING*>openssl.GENERAL_NAME_get0_value(
            openssl.sk_GENERAL_NAME_value(names, i), &kind)
        if kind != openssl.GEN_URI:
            continue
        text = openssl.ASN1_STRING_get0_data(uri)
        if identity_is_ours(text, <size_t>openssl.ASN1_STRING_length(uri)):
            found += 1
            status = identity_parse(text, <size_t>openssl.ASN1_STRING_length(uri), into)
    openssl.GENERAL_NAMES_free(names)
    return status if found == 1 else BAD_FIELD


cdef uint32_t certificate_subject(const void* certificate, uint8_t* into, uint32_t room) noexcept nogil:
    cdef openssl.BIO* out = openssl.BIO_new(openssl.BIO_s_mem())
    cdef openssl.X509_NAME* name = openssl.X509_get_subject_name(<const openssl.X509*>certificate)
    cdef char* text = NULL
    cdef long length = 0
    if out == NULL:
        return 0
    if name != NULL and openssl.X509_NAME_print_ex(
            out, name, 0, openssl.XN_FLAG_RFC2253 & ~openssl.ASN1_STRFLGS_ESC_MSB) > 0:
        length = openssl.BIO_get_mem_data(out, &text)
    if length < 0 or <unsigned long>length > room:
        length = 0
    if length:
        memcpy(into, text, <size_t>length)
    openssl.BIO_free(out)
    return <uint32_t>length


cdef bint certificate_is_welcome(const TlsPort* port, const void* certificate, CertifiedIdentity* into) noexcept nogil:
    return (certificate_identity(certificate, into) == OK
            and identity_is_of(into, <IdentityRole>port.context.role, port.context.cluster,
                               port.context.cluster_length))


cdef bint certificate_is_listed(const TlsContext* context, void* certificate) noexcept nogil:
    cdef openssl.X509_CRL** lists = <openssl.X509_CRL**>context.revoked
    cdef openssl.X509_REVOKED* found = NULL
    cdef uint32_t i
    for i in range(context.revoked_count):
        # 0: not there; 1: revoked; 2: taken off the list again (removeFromCRL)
        if (openssl.X509_NAME_cmp(openssl.X509_CRL_get_issuer(lists[i]),
                                  openssl.X509_get_issuer_name(<const openssl.X509*>certificate)) == 0
                and openssl.X509_CRL_get0_by_cert(lists[i], &found, <openssl.X509*>certificate) == 1):
            return True
    return False


cdef bint certificate_is_vouched_for(const TlsContext* context, const void* ssl) noexcept nogil:
    cdef openssl.X509** authorities = <openssl.X509**>context.authorities
    cdef openssl.X509_CHAIN* chain = openssl.SSL_get0_verified_chain(<const openssl.SSL*>ssl)
    cdef int length = openssl.sk_X509_num(chain) if chain != NULL else 0
    cdef openssl.X509* holder = openssl.SSL_get0_peer_certificate(<const openssl.SSL*>ssl)
    cdef uint32_t i
    for i in range(context.authorities_count):
        if length != 0 and openssl.X509_cmp(openssl.sk_X509_value(chain, length - 1), authorities[i]) == 0:
            return True
        # A resumed connection keeps no chain. Signatures were verified when its ticket was given.
        if length == 0 and openssl.X509_check_issued(authorities[i], holder) == openssl.X509_V_OK:
            return True
    return False
