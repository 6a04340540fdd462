# Quotas of one principal on this node: requests and bytes by rate; connections, watches, leases, sessions and bytes
# under way by count (docs/security.md "Limits for each user").
#
# It decides whether a request is over a quota of its principal, and refuses it before anything is submitted: it is
# certainly not applied. It never decides about a node's own callers, nor about peers, and no quota is replicated: a
# principal has them on each node anew.
#
# Urgent requests (deletes, fences, keep-alives, sessions) have as much again beyond each rate, so that a principal
# which floods a node loses no lease for that. Refusals have the rate of requests, too: beyond it the connection is not
# read until later, so that a flood costs no more than twice its quota.
#
# Leases and sessions are counted by what passes through this node: from their grant until they are given back, or must
# have ended by themselves.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Account, bucket_t
from raftmeta.server.state cimport ClientConnection, ClientPending, ClientServer
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientRequest
from raftmeta.wire.commands cimport Command

# The account of who is at the other end, now that this is known better. OK, QUOTA_EXCEEDED (it has as many
# connections as it may), NO_MEMORY; then the connection keeps the account that it had.
cdef status_t quotas_attach(ClientServer* server, ClientConnection* connection) noexcept nogil
# The connection is closed.
cdef void quotas_detach(ClientServer* server, ClientConnection* connection) noexcept nogil
# Whether the request may be taken; a command is only looked at by quotas_command. False: it was answered.
cdef bint quotas_request(ClientServer* server, ClientConnection* connection,
                         const ClientRequest* request) noexcept nogil
# Whether the decoded command of this many bytes may be proposed. False: it was answered.
cdef bint quotas_command(ClientServer* server, ClientConnection* connection, uint64_t id, const Command* command,
                         uint32_t length, bint is_urgent) noexcept nogil
# It is about to be submitted: note in `pending` what it may take or give back, which quotas_settle completes with its
# answer, once pending.account is set.
cdef void quotas_note(ClientServer* server, ClientConnection* connection, const Command* command,
                      ClientPending* pending) noexcept nogil
cdef void quotas_settle(ClientServer* server, const ClientPending* pending, status_t status, const uint8_t* body,
                        size_t length) noexcept nogil
# Whether one more watch may be opened. False: it was answered.
cdef bint quotas_watch(ClientServer* server, ClientConnection* connection, uint64_t id) noexcept nogil
# Once in a while: what must have ended counts no longer, accounts that nobody needs are forgotten.
cdef void quotas_sweep(ClientServer* server) noexcept nogil
cdef void quotas_release(ClientServer* server) noexcept nogil

# How long until something may be taken out of the bucket; 0: now. per_s 0: there is no bound.
cdef uint64_t bucket_wait_ns(bucket_t bucket, uint64_t per_s, uint64_t burst_ns, uint64_t now_ns) noexcept nogil
cdef void bucket_spend(bucket_t* bucket, uint64_t per_s, uint64_t cost, uint64_t now_ns) noexcept nogil
