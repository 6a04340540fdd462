# Accounts of principals: what each uses of a node at one listener, and which quotas it is over (docs/security.md
# "Limits for each user").
#
# It decides whether a request is over a quota of its principal. Its caller refuses the request before anything is
# submitted: it is certainly not applied. It never decides about a node's own callers, nor about peers, and no quota is
# replicated: a principal has them at each node and listener anew.
#
# Urgent requests (deletes, fences, keep-alives, sessions) have as much again beyond each rate, so that a principal
# which floods a node loses no lease for that. Refusals have the rate of requests, too: beyond it the connection is not
# read until later, so that a flood costs no more than twice its quota.
#
# Leases and sessions are counted by what passes through this node: from their grant until they are given back, or must
# have ended by themselves.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Account, Accounts, Holding, bucket_t
from raftmeta.connections.state cimport Connection, Connections
from raftmeta.native.containers cimport Map64
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientQuota

# False: the system gives no random bytes.
cdef bint accounts_prepare(Accounts* accounts) noexcept nogil
# The account of who is at the other end, now that this is known better; name_length 0: by its address. OK,
# QUOTA_EXCEEDED (it has as many connections as it may), NO_MEMORY; then the connection keeps the account that it had.
cdef status_t accounts_attach(Connections* connections, Connection* connection, const uint8_t* name,
                              uint32_t name_length) noexcept nogil
# The connection is closed.
cdef void accounts_detach(Connection* connection) noexcept nogil
# One more request, which writes so many bytes. 0: it was counted; else the quota that it is over, and in *wait_ns how
# long that lasts.
cdef ClientQuota accounts_spend(Connections* connections, Connection* connection, uint64_t written, bint is_urgent,
                                uint64_t* wait_ns) noexcept nogil
# A request was refused for a quota.
cdef void accounts_refused(Connections* connections, Connection* connection) noexcept nogil
# Once in a while: what must have ended counts no longer, accounts that nobody needs are forgotten.
cdef void accounts_sweep(Connections* connections) noexcept nogil
cdef void accounts_release(Accounts* accounts) noexcept nogil

# --- leases and sessions, in Accounts.leases or Accounts.sessions -----------------------------------------------------
# It was granted. False: it is counted already, or there is no memory.
cdef bint holding_begin(Map64[Holding]* holdings, uint64_t id, Account* account, uint64_t ttl_ms,
                        uint64_t now_ns) noexcept nogil
cdef void holding_renew(Map64[Holding]* holdings, uint64_t id, uint64_t now_ns) noexcept nogil
# It was given back. The account that held it; NULL: nobody did.
cdef Account* holding_end(Map64[Holding]* holdings, uint64_t id) noexcept nogil

# --- buckets ----------------------------------------------------------------------------------------------------------
# How long until something may be taken out of the bucket; 0: now. per_s 0: there is no bound.
cdef uint64_t bucket_wait_ns(bucket_t bucket, uint64_t per_s, uint64_t burst_ns, uint64_t now_ns) noexcept nogil
cdef void bucket_spend(bucket_t* bucket, uint64_t per_s, uint64_t cost, uint64_t now_ns) noexcept nogil
