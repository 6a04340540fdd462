"""The sessions behind the tickets of a port.

OpenSSL 3.0 can put the whole session into a ticket instead, encrypted. To make such a ticket it writes the certificate
of the other side and decodes it again, which takes a sixth of a handshake (docs/decisions/measured.md "Handshakes").

A copy is kept: OpenSSL voids the session of a connection that ends without a goodbye, and breaking is no fraud.
"""

from libc.stdint cimport uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcmp

from raftmeta.native.intrinsics cimport load64
from raftmeta.security cimport openssl


# Names are random and long: to know the first bytes of one is to know nothing.
cdef uint64_t _first_bytes(const unsigned char* name, size_t length) noexcept nogil:
    return load64(name) if length >= sizeof(uint64_t) else 0


cdef void tickets_keep(TlsTickets* tickets, const void* session) noexcept nogil:
    cdef TlsTicket* into = &tickets.kept[tickets.next]
    cdef unsigned int length = 0
    cdef const unsigned char* name = openssl.SSL_SESSION_get_id(<const openssl.SSL_SESSION*>session, &length)
    cdef openssl.SSL_SESSION* copy = openssl.SSL_SESSION_dup(<const openssl.SSL_SESSION*>session)
    if copy == NULL:
        return          # the ticket will be unknown
    openssl.SSL_SESSION_free(<openssl.SSL_SESSION*>into.session)
    into.session = copy
    into.name = _first_bytes(name, length)
    tickets.next = (tickets.next + 1) % TUNE_TICKETS_KEPT


cdef void* tickets_find(const TlsTickets* tickets, const unsigned char* name, int length) noexcept nogil:
    cdef uint64_t first = _first_bytes(name, <size_t>length)
    cdef const unsigned char* kept
    cdef unsigned int kept_length = 0
    cdef uint32_t i
    for i in range(TUNE_TICKETS_KEPT):
        if tickets.kept[i].name != first or tickets.kept[i].session == NULL:
            continue
        kept = openssl.SSL_SESSION_get_id(<const openssl.SSL_SESSION*>tickets.kept[i].session, &kept_length)
        if kept_length == <unsigned int>length and memcmp(kept, name, kept_length) == 0:
            return tickets.kept[i].session
    return NULL


cdef void tickets_free(TlsTickets* tickets) noexcept nogil:
    cdef uint32_t i
    if tickets == NULL:
        return
    for i in range(TUNE_TICKETS_KEPT):
        openssl.SSL_SESSION_free(<openssl.SSL_SESSION*>tickets.kept[i].session)
    free(tickets)
