# Accounts of principals: what each uses of a node at all its listeners, and which quotas it is over (docs/security.md
# "Limits for each user").
#
# It decides whether a request is over a quota of its principal. Its caller refuses the request before anything is
# submitted: it is certainly not applied. It never decides about a node's own callers, nor about peers, and no quota is
# replicated: a principal has them at each node anew.
#
# Urgent requests (deletes, fences, keep-alives, sessions) have as much again beyond each rate, so that a principal
# which floods a node loses no lease for that. Refusals have the rate of requests, too: beyond it the connection is not
# read until later, so that a flood costs no more than twice its quota.
#
# Leases and sessions are counted by what passes through this node: from their grant until they are given back, or must
# have ended by themselves. A lease that another listener gave back counts until then.
#
# Threads: each listener has one. They meet in atomic words (accounts_state). Only who opens a connection, proves a
# name or sweeps may wait for another one (Accounts.is_entered), for the time of one search or one sweep. The loop never
# does.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Account, Accounts, Holding, Holdings, bucket_t
from raftmeta.connections.state cimport Connection, Connections
from raftmeta.native.containers cimport Map64
from raftmeta.status cimport status_t
from raftmeta.wire.client_messages cimport ClientQuota

# Those of a node, before its listeners. NULL: no memory, or the system gives no random bytes.
cdef Accounts* accounts_create() noexcept nogil
# Its listeners are gone.
cdef void accounts_destroy(Accounts* accounts) noexcept nogil
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

# --- leases and sessions, in Holdings.leases or Holdings.sessions -----------------------------------------------------
# It was granted: *count of the account has it, or gets it from the caller now. False: it is there already, or there is
# no memory.
cdef bint holding_begin(Map64[Holding]* holdings, uint64_t id, Account* account, uint32_t* count, uint64_t ttl_ms,
                        uint64_t now_ns) noexcept nogil
cdef void holding_renew(Map64[Holding]* holdings, uint64_t id, uint64_t now_ns) noexcept nogil
# It is of another account from now on.
cdef void holding_move(Holding* holding, Account* account, uint32_t* count) noexcept nogil
# It was given back, if it is there: it counts no more.
cdef void holding_end(Map64[Holding]* holdings, uint64_t id) noexcept nogil
cdef void holdings_release(Holdings* holdings) noexcept nogil

# --- buckets ----------------------------------------------------------------------------------------------------------
# How long until something may be taken out of the bucket; 0: now. per_s 0: there is no bound.
cdef uint64_t bucket_wait_ns(bucket_t bucket, uint64_t per_s, uint64_t burst_ns, uint64_t now_ns) noexcept nogil
cdef void bucket_spend(bucket_t* bucket, uint64_t per_s, uint64_t cost, uint64_t now_ns) noexcept nogil
