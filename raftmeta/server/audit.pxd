# The clients' thread tells the audit trail each request: who asked, for what, and what came of it.
#
#     audit_begin         a request came: who, from where, which operation, which keys
#     audit_command       it was a command, and this is in it
#     audit_check         may it go on, where everything must be recorded?
#     audit_carry         it goes on as a pending request, and its note with it
#     audit_resume        the ticket of a pending request is back
#     audit_answer        its client is told this
#     audit_finish        the client was told nothing: it is gone
#     audit_refuse        the connection is refused
#
# A request gives one line, when its client is told, with exactly what the client is told. The trail never sees a value:
# nothing of a value is copied. Without a trail each of these functions is one branch.
from libc.stdint cimport uint64_t

from raftmeta.server.state cimport ClientConnection, ClientPending, ClientServer, ClientWatch
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

cdef void audit_begin(ClientServer* server, ClientConnection* connection, const ClientRequest* request) noexcept nogil
# ClientServer.command is what was read.
cdef void audit_command(ClientServer* server) noexcept nogil
# OK, NO_SPACE.
cdef status_t audit_check(ClientServer* server) noexcept nogil
# How many bytes behind a pending request its note needs; 0: it has none.
cdef size_t audit_note_bytes(ClientServer* server, const ClientConnection* connection, uint64_t id) noexcept nogil
cdef void audit_carry(ClientServer* server, ClientPending* pending) noexcept nogil
cdef void audit_resume(ClientServer* server, const ClientPending* pending) noexcept nogil
cdef void audit_answer(ClientServer* server, uint64_t id, status_t status, uint64_t revision,
                       uint64_t index) noexcept nogil
cdef void audit_finish(ClientServer* server, const ClientPending* pending, status_t status, uint64_t revision,
                       uint64_t index) noexcept nogil
cdef void audit_refuse(ClientServer* server, const ClientConnection* connection, status_t status) noexcept nogil
# The right to a watch went.
cdef void audit_watch_ended(ClientServer* server, const ClientConnection* connection,
                            const ClientWatch* watch) noexcept nogil
