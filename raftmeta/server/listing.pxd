# Pages of users and roles for clients: what `auth.users()` and `auth.roles()` of a client ask.
#
# It decides nothing: server/access says who may see a page, machine/rights_show what stands in it. A page is made after
# a read round, of all changes of rights that were answered before it was asked for.
from raftmeta.server.state cimport ClientConnection, ClientPending, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest

cdef status_t listing_take(ClientServer* server, ClientConnection* connection,
                           const ClientRequest* request) noexcept nogil
# Its read round has ended.
cdef void listing_answer(ClientServer* server, ClientConnection* connection,
                         const ClientPending* pending) noexcept nogil
