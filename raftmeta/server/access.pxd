# The questions that the principal of a connection may ask of this node: reads, watches, and all that never enters the
# log.
#
# It asks the table of rights that the machine published, the same function that decides about commands at apply
# (machine/rights_table). Commands are not decided here: they are spoken in the principal's name and decided at apply.
# While rights were never configured, it asks nothing; with ClientLimits.needs_rights it serves nobody then.
#
# A read and a change of rights race:
#     1. a read is allowed, and waits,
#     2. the right goes, a secret is written, both are published,
#     3. the read is made and would show the secret.
# So a read is asked about again after it was made: the table is published before the state that follows the change.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.rights_state cimport RightsTable
from raftmeta.native.containers cimport Vec
from raftmeta.server.state cimport ClientConnection, ClientPending, ClientServer, ClientWatch
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest
from raftmeta.wire.commands cimport Bytes

# OK, AUTHENTICATION_FAILED, PERMISSION_DENIED.
cdef status_t access_of_request(ClientServer* server, const ClientConnection* connection,
                                const ClientRequest* request) noexcept nogil
# The same for a request that was asked of the loop, now that its answer is there. bytes: what it held.
cdef status_t access_of_pending(ClientServer* server, const ClientConnection* connection, const ClientPending* pending,
                                const uint8_t* bytes) noexcept nogil
# The command as it is to be proposed: *payload itself, or what the principal speaks, made in `out`.
# AUTHENTICATION_FAILED, VALUE_TOO_LARGE, NO_MEMORY.
cdef status_t access_speak(ClientServer* server, const ClientConnection* connection, Bytes* payload,
                           Vec[uint8_t]* out) noexcept nogil
# Whether rights are on.
cdef bint access_is_guarded(ClientServer* server) noexcept nogil
# *owner: the user whose leases alone are listed for this connection; 0: all.
cdef void access_owner(ClientServer* server, const ClientConnection* connection, uint64_t* owner) noexcept nogil
# Whether its right to everything that it reads is given, so that counts and hashes of the whole state may be told.
cdef bint access_to_all(ClientServer* server, const ClientConnection* connection) noexcept nogil
# The same for a page of users or roles (machine/rights_show): an admin's, or about the user itself and its roles.
cdef status_t access_of_listing(ClientServer* server, const ClientConnection* connection, uint8_t page,
                                const Bytes* name, uint32_t limit) noexcept nogil
# The table of now, or NULL; whoever took one drops it.
cdef RightsTable* access_hold(ClientServer* server) noexcept nogil
# Whether the watch may go on. It looks only when the rights have changed since it looked last.
cdef bint access_of_watch(ClientServer* server, const ClientConnection* connection, ClientWatch* watch) noexcept nogil
# Whether the connection has proved as much as a client must: where rights are on, that it is a user.
cdef bint access_has_proved(ClientServer* server, const ClientConnection* connection) noexcept nogil
# The rights' revision that this node has published.
cdef uint64_t access_revision(ClientServer* server) noexcept nogil
