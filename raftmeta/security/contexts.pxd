# Contexts of TLS: what certificates, key and lists came to, and the rules that every connection of a port agrees to.
from libc.stdint cimport uint8_t

from raftmeta.security.identity cimport CertifiedIdentity, IdentityRole
from raftmeta.security.tls_state cimport TlsContext, TlsPort, TlsTexts
from raftmeta.status cimport status_t

# --- contexts, on any thread ------------------------------------------------------------------------------------------
# NULL: a text is wrong; *field says which (letter of TlsTexts: c, k, a, r), `why` what OpenSSL said.
cdef TlsContext* tls_context_create(const TlsTexts* texts, IdentityRole role, const uint8_t* cluster,
                                    uint8_t cluster_length, char* field, char* why) noexcept nogil
# The clients of the port speak HTTP, of version 2 or 1.1, and say so in ALPN. Before it is offered.
cdef void tls_context_speak_http(TlsContext* context) noexcept nogil
cdef void tls_context_free(TlsContext* context) noexcept nogil
# Who this side is by its own certificate. BAD_FIELD: nobody.
cdef status_t tls_context_identity(const TlsContext* context, CertifiedIdentity* into) noexcept nogil
# The port's thread takes it over in tls_port_take.
cdef void tls_port_offer(TlsPort* port, TlsContext* context) noexcept nogil

# --- the port's thread ------------------------------------------------------------------------------------------------
# True: another context came into force. Connections that are open keep what they have.
cdef bint tls_port_take(TlsPort* port) noexcept nogil
cdef void tls_port_release(TlsPort* port) noexcept nogil
cdef void tls_ticket_drop(void** ticket) noexcept nogil
# The protocol of the port, as ALPN writes it: its length, then its name (RFC 7301 3.1).
cdef const char* tls_protocol_of(const TlsContext* context) noexcept nogil
