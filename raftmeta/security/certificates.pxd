# The holder of a certificate of OpenSSL (X509). Call these functions inside the door.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.security.identity cimport CertifiedIdentity
from raftmeta.security.tls_state cimport TlsContext, TlsPort
from raftmeta.status cimport status_t

# BAD_FIELD: it names nobody.
cdef status_t certificate_identity(const void* certificate, CertifiedIdentity* into) noexcept nogil
# Its subject as RFC 2253 writes it, in UTF-8: at most `room` bytes. 0: it has none, or a longer one.
cdef uint32_t certificate_subject(const void* certificate, uint8_t* into, uint32_t room) noexcept nogil
# Does it name one whom this port lets in?
cdef bint certificate_is_welcome(const TlsPort* port, const void* certificate, CertifiedIdentity* into) noexcept nogil
# Does a list of the context revoke it?
cdef bint certificate_is_listed(const TlsContext* context, void* certificate) noexcept nogil
# Did an authority of the context sign for the other side of this SSL, whatever context it shook hands with? With a
# certificate between the two a resumed connection cannot tell, and the answer is no.
cdef bint certificate_is_vouched_for(const TlsContext* context, const void* ssl) noexcept nogil
