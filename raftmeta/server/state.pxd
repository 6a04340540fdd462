# The struct of the clients of one node: connections, requests under way, watches; shared by server/*.
#
# It belongs to one native thread. Other threads touch only the end of ClientServer and the WatchSignals, which the loop
# writes to until the unwatch is answered.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Account
from raftmeta.connections.state cimport Connection, ConnectionCounters, Connections
from raftmeta.loop.loop cimport LinkTable, Loop, NodeStatus, ObserverTable
from raftmeta.loop.tickets cimport Mailbox, Ticket, WatchSignal
from raftmeta.machine.rights_state cimport UserSecret
from raftmeta.machine.watch_state cimport Watch, WatchPool, WatchPurse
from raftmeta.native.containers cimport Map64, Vec
from raftmeta.native.threads cimport Published
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, Membership, member_id_t
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX, Bytes, Command

cdef enum:
    TUNE_UNDER_WAY_MAX = 1024   # requests of one connection; then it is not read on
    TUNE_OUT_BYTES = 1 << 18    # waiting to be sent: a connection with more is not read on, its watches are not taken
    TUNE_SHARE_BYTES_MIN = 1 << 14  # the same, however many connections share the memory
    TUNE_WATCHES_MAX = 1024     # of one connection
    VERSION_BYTES_MAX = 32

cdef struct ClientLimits:
    uint64_t idle_ns            # silent for so long: pinged; for so long again, or not reading for so long: closed
    uint32_t session_window     # told to clients; a session may ask for no more
    uint32_t value_bytes_max
    bint needs_rights           # nobody is served while rights are off

cdef enum ClientWatchState:
    CLIENT_WATCH_OPENING = 1    # SUBMIT_WATCH is under way
    CLIENT_WATCH_OPEN = 2
    CLIENT_WATCH_CLOSING = 3    # SUBMIT_UNWATCH is under way

cdef enum:
    TUNE_FAILURE_SLOTS = 1024

cdef struct ClientWatch:
    WatchSignal signal          # first: its mail is this watch
    Watch* watch
    ClientWatch* next           # of its connection, or of ClientServer.orphans
    WatchPurse* purse           # of its connection; held
    Account* account            # that it is counted in; held
    uint64_t id                 # of the request that opened it
    Vec[uint8_t] bounds         # start, then end; only of a connection with a principal
    uint32_t start_length       # of the first
    uint64_t rights_revision    # under which its right was looked at last
    uint32_t place              # of its connection; NOWHERE: it is gone
    uint8_t state
    uint8_t has_items           # may have some: not looked since the last signal

# The answer to a command settles this with its account (server/quotas).
cdef enum ClientSettles:
    SETTLES_GRANT = 1
    SETTLES_REVOKE = 2
    SETTLES_SESSION_OPEN = 3
    SETTLES_SESSION_CLOSE = 4

cdef enum:
    PENDING_LOOK = 0            # no request: the round of a second look

# A request whose ticket is under way; what it needs to answer follows the struct. Some need several, one after another.
cdef struct ClientPending:
    uint64_t id
    uint64_t number             # revision of a read
    size_t bytes                # counted in Connections.bytes_under_way, and in the account
    Account* account            # held; NULL: nobody's
    ClientWatch* watch
    uint32_t place
    uint32_t generation         # of the connection: its place may have another one by now
    uint32_t limit
    uint32_t key_length
    uint32_t length             # of what follows the struct: key, end and delimiter of a read; name and call of a
                                # machine
    uint32_t delimiter_length   # of a read in groups, and behind so many bytes of a key it is sought
    uint32_t skip
    uint8_t kind                # ClientRequestKind, or PENDING_LOOK
    uint8_t flags               # of a read
    uint8_t settles             # ClientSettles; 0: nothing
    uint64_t settled            # id of the lease or session; 0: the answer has it
    uint64_t ttl_ms             # as is
    uint8_t phase               # of a request with several tickets: which one is under way, from 0
    uint8_t is_note_promised    # the trail keeps room for its note
    uint32_t note_length        # what the audit trail will be told of it, behind all that; 0: nothing

# Two windows behind each other: behind a pending request, or behind its submission.
cdef struct Parts:
    Bytes first
    Bytes last

# Failed authentications of the users that share a slot: they leak away, one a second.
cdef struct FailureSlot:
    uint32_t count
    uint64_t since_ns

# Who is at the other end of a connection, as far as that was proved.
cdef struct Principal:
    uint8_t name_length         # 0: nobody proved anything
    uint8_t[PRINCIPAL_BYTES_MAX] name
    uint64_t rights_revision    # under which a secret was proved; 2^63 - 1: by a certificate, which no change makes old
    uint64_t token              # by which it speaks for the user; 0: by a password or a certificate

# An authentication between its two steps.
cdef struct Exchange:
    Principal asked
    UserSecret secret           # of that user, or made up where there is none
    uint64_t rights_revision    # of the rights that were looked at for it
    bint is_user
    Vec[uint8_t] nonce
    Vec[uint8_t] said           # all that both sides said so far, which proof and signature are about

# Before a request is refused for users or rights (server/second_look).
cdef enum SecondLook:
    LOOK_NONE = 0
    LOOK_ASKED = 1              # a round is under way for the next request, which waits
    LOOK_DONE = 2               # the next request is taken again, and what is refused now is refused

cdef struct ClientConnection:
    Connection base             # first
    uint32_t under_way
    uint32_t watch_count
    uint64_t pinged_ns          # not 0: it was silent, and was asked then whether it lives
    ClientWatch* watches
    WatchPurse* purse           # what bounds the events of its watches; NULL: it opened none
    Ticket* parked              # answers that wait for room in `out`, in order, by next_waiting
    Ticket* parked_last
    uint64_t read_bytes         # of its reads under way
    Principal principal         # who is at the other end
    uint64_t skipped            # bytes of a frame that is thrown away
    Exchange* exchange          # an authentication under way; NULL: none
    uint8_t is_near             # a Unix socket or loopback: nobody between can listen, even without TLS
    uint32_t failures           # authentications that failed
    uint8_t look                # SecondLook
    status_t look_status        # of the round, once it is LOOK_DONE
    bint has_file               # a sealed file is open for it
    int file
    uint64_t file_bytes

cdef struct ClientCounters:
    ConnectionCounters base
    uint64_t requests
    uint64_t overloaded         # answered so
    uint64_t denied             # reads, watches and other requests that were refused for their rights
    uint64_t authenticated
    uint64_t unauthenticated    # authentications that failed
    uint64_t watches            # open now
    uint64_t memory             # of answers and events that wait

cdef struct ClientServer:
    Connections base            # first
    Loop* loop
    ClientLimits limits
    uint8_t address_length
    uint8_t[ADDRESS_BYTES_MAX] address      # where clients reach this node
    uint8_t version_length
    uint8_t[VERSION_BYTES_MAX] version      # of the package
    Mailbox* mailbox
    bint has_submitted          # since the loop was rung
    ClientConnection* connections       # those of `base`
    ClientWatch* orphans        # watches of the stopped node, given back at the end
    Ticket* waiting             # tickets with a ClientPending, linked by previous_waiting and next_waiting
    WatchPool* pool             # of the events that wait
    uint64_t memory_high        # of both, since memory was given back to the system
    uint64_t rights_revision    # that the watches were looked at under
    uint8_t[32] disguise        # makes up the salts of users that do not exist, where the cluster has no seed for that
    FailureSlot[TUNE_FAILURE_SLOTS] slots    # by the hash of a user's name
    member_id_t leader_told
    NodeStatus status           # as of this turn
    Membership membership
    LinkTable links
    ObserverTable observers     # as is
    Command command             # scratch of decoding
    Vec[uint8_t] scratch        # of bodies
    Vec[uint8_t] audit_note     # of the request that is looked at (server/audit)
    uint64_t audit_id           # of that request
    bint has_note               # it was not told yet
    uint32_t audit_promised     # bytes that the trail keeps for it
    ClientCounters counters
    # Shared:
    Published[ClientCounters] published
