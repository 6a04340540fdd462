# The structs of quotas: what one principal may use of a node, and what it uses.
#
# A principal is a user by its name. Those who proved no name share the account of their address (net/unbound).
#
# All listeners of a node share its Accounts, and each has Holdings of its own. So every count in an Account is a shared
# word: several threads change it. A listener looks at a count before it adds to it. Two listeners that look at the same
# moment may both find room, so a count may go over its quota by what one request asks for.
#
# An account is freed when it has no holder. Only accounts_attach makes a first hold, with Accounts.is_entered; every
# other hold is of somebody who has one already.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.atomics cimport add_shared, subtract_shared
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX

# Of one principal, at all listeners of this node together. 0: without bound.
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
    uint64_t key                # this and the name never change
    uint8_t name_length         # 0: of an address
    uint8_t[PRINCIPAL_BYTES_MAX] name
    # Shared:
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
    uint32_t* count             # the one in the account in which it is counted
    uint64_t ttl_ns
    uint64_t until_ns

# Leases and sessions that passed through one listener. They belong to its thread.
cdef struct Holdings:
    Map64[Holding] leases       # by id; only while they have a quota
    Map64[Holding] sessions     # as is
    uint64_t nameless           # leases whose ids were not told, because their outcome is unknown
    Vec[uint64_t] ended         # scratch of sweeping them

# Of one node.
cdef struct Accounts:
    uint64_t secret             # of this node's life: nobody can choose a name that shares the account of another
    uint32_t is_entered         # shared: a thread looks at what follows, and no other one does
    Map64[Account*] by_key
    Vec[uint64_t] forgotten     # scratch of sweeping them

cdef inline void account_hold(Account* account) noexcept nogil:
    if account != NULL:
        add_shared(&account.holders, <uint32_t>1)

# The last thing that is done with it.
cdef inline void account_drop(Account* account) noexcept nogil:
    if account != NULL:
        subtract_shared(&account.holders, <uint32_t>1)
