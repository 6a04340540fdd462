# The structs of quotas: what one principal may use of a node, and what it uses.
#
# A principal is a user by its name. Those who proved no name share the account of their address (net/unbound).
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Map64, Vec
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX

# Of one principal, at one listener of this node. 0: without bound.
cdef struct Quotas:
    uint64_t requests_per_s
    uint64_t bytes_per_s        # of commands: what they write into the log and the history
    uint64_t burst_ns           # what was saved up counts for at most so long
    uint64_t bytes_max          # of requests under way
    uint32_t connections_max
    uint32_t watches_max
    uint32_t leases_max         # granted through this node
    uint32_t sessions_max       # opened through this node

# A token bucket as one time: the moment at which all that was taken is paid for. Tokens are left while that is no
# further ahead than the burst (generic cell rate algorithm, ITU-T I.371 A.1).
ctypedef uint64_t bucket_t

cdef struct Account:
    uint64_t key
    uint8_t name_length         # 0: of an address
    uint8_t[PRINCIPAL_BYTES_MAX] name
    uint32_t holders            # connections, requests under way, watches, leases, sessions
    uint32_t connections
    uint32_t watches
    uint32_t leases
    uint32_t sessions
    uint64_t bytes              # of requests under way
    uint64_t part_bytes         # of what is no whole request yet
    bucket_t requests
    bucket_t written
    bucket_t refusals           # beyond their rate its connections are not read for a while

# A lease or a session that an account holds, until it must have ended by itself.
cdef struct Holding:
    Account* account
    uint64_t ttl_ns
    uint64_t until_ns

cdef struct Accounts:
    uint64_t secret             # of this node's life: nobody can choose a name that shares the account of another
    Map64[Account*] by_key
    Map64[Holding] leases       # by id; only while they have a quota
    Map64[Holding] sessions     # as is
    uint64_t nameless           # leases whose ids were not told, because their outcome is unknown
    Vec[uint64_t] ended         # scratch of sweeping them

cdef inline void account_hold(Account* account) noexcept nogil:
    if account != NULL:
        account.holders += 1

cdef inline void account_drop(Account* account) noexcept nogil:
    if account != NULL:
        account.holders -= 1
