# The sessions behind the tickets that a port gives out, as long as one reading of the files is in force.
#
# A ticket is the name of a session that is kept here. It decides which sessions are kept: the newest ones, a bounded
# number. It never decides who may resume one (security/tls): each session keeps the certificate that was verified.
from libc.stdint cimport uint32_t, uint64_t

cdef enum:
    TUNE_TICKETS_KEPT = 512     # 12 KB each, the certificate included; the oldest one gives way

cdef struct TlsTicket:
    uint64_t name               # the first bytes of the session's, which are random
    void* session               # SSL_SESSION; NULL: none

cdef struct TlsTickets:
    TlsTicket[TUNE_TICKETS_KEPT] kept
    uint32_t next

# --- the port's thread ------------------------------------------------------------------------------------------------
# A copy is kept of the session (SSL_SESSION).
cdef void tickets_keep(TlsTickets* tickets, const void* session) noexcept nogil
# The session of this name; it stays the table's. NULL: there is none.
cdef void* tickets_find(const TlsTickets* tickets, const unsigned char* name, int length) noexcept nogil
cdef void tickets_free(TlsTickets* tickets) noexcept nogil
