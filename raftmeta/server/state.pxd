# The struct of the clients of one node: connections, requests under way, watches; shared by server/*.
#
# It belongs to one native thread. Other threads touch only the end of ClientServer and the WatchSignals, which the loop
# writes to until the unwatch is answered.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.loop.loop cimport LinkTable, Loop, NodeStatus
from raftmeta.loop.tickets cimport Mailbox, Ticket, WatchSignal
from raftmeta.machine.rights_state cimport UserSecret
from raftmeta.machine.watch_state cimport Watch, WatchPool, WatchPurse
from raftmeta.native.containers cimport Vec
from raftmeta.native.threads cimport Published, pthread_t
from raftmeta.net.stream cimport Stream
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, Membership, member_id_t
from raftmeta.security.tls_state cimport TlsCounters, TlsPort
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX, Bytes, Command

cdef enum:
    NOWHERE = 0xFFFFFFF         # a place that no connection has
    TUNE_UNDER_WAY_MAX = 1024   # requests of one connection; then it is not read on
    TUNE_OUT_BYTES = 1 << 18    # waiting to be sent: a connection with more is not read on, its watches are not taken
    TUNE_SHARE_BYTES_MIN = 1 << 14  # the same, however many connections share the memory
    TUNE_TURN_BYTES = 1 << 21   # of answers and events made in one turn; then the others are looked at
    TUNE_WATCHES_MAX = 1024     # of one connection
    VERSION_BYTES_MAX = 32

cdef struct ClientLimits:
    uint32_t connections_max
    uint64_t hello_timeout_ns
    uint64_t idle_ns            # silent for so long: pinged; for so long again, or not reading for so long: closed
    uint64_t bytes_under_way_max    # requests of all connections
    uint64_t memory_max             # answers and events that wait for all connections: half of it each
    uint32_t session_window         # told to clients
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
    uint64_t id                 # of the request that opened it
    Vec[uint8_t] bounds         # start, then end; only of a connection with a principal
    uint32_t start_length       # of the first
    uint64_t rights_revision    # under which its right was looked at last
    uint32_t place              # of its connection; NOWHERE: it is gone
    uint8_t state
    uint8_t has_items           # may have some: not looked since the last signal

# A request whose ticket is under way; what it needs to answer follows the struct. Some need several, one after another.
cdef struct ClientPending:
    uint64_t id
    uint64_t number             # revision of a read
    size_t bytes                # counted in ClientServer.bytes_under_way
    ClientWatch* watch
    uint32_t place
    uint32_t generation         # of the connection: its place may have another one by now
    uint32_t limit
    uint32_t key_length
    uint32_t length             # of what follows the struct: key and end of a read; name and call of a machine
    uint8_t kind                # ClientRequestKind
    uint8_t flags
    uint8_t phase               # of a request with several tickets: which one is under way, from 0

# Two windows behind each other: behind a pending request, or behind its submission.
cdef struct Parts:
    Bytes first
    Bytes last

# Failed authentications of the users that share a slot: they leak away, one a second.
cdef struct FailureSlot:
    uint32_t count
    uint64_t since_ns

cdef enum ConnectionState:
    CONNECTION_FREE = 0
    CONNECTION_GREETING = 1     # HELLO awaited
    CONNECTION_OPEN = 2
    CONNECTION_CLOSING = 3      # what is in `out` is sent, then it is closed

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
    bint is_user
    Vec[uint8_t] nonce
    Vec[uint8_t] said           # all that both sides said so far, which proof and signature are about

cdef struct Connection:
    Stream stream
    uint32_t generation
    uint8_t state
    uint8_t is_reading          # epoll tells of bytes to read
    uint8_t is_blocked          # the socket took not all of `out`: epoll tells when it takes more
    uint8_t is_dirty            # in ClientServer.dirty
    uint32_t under_way
    uint32_t watch_count
    uint64_t heard_ns           # of the last bytes read, at first of the accept
    uint64_t pinged_ns          # not 0: it was silent, and was asked then whether it lives
    uint64_t sent_ns            # of the last bytes that the socket took
    Vec[uint8_t] received       # bytes that are no whole frame yet, or were not looked at
    Vec[uint8_t] out
    size_t out_offset           # bytes of `out` that are gone
    ClientWatch* watches
    WatchPurse* purse           # what bounds the events of its watches; NULL: it opened none
    Ticket* parked              # answers that wait for room in `out`, in order, by next_waiting
    Ticket* parked_last
    uint64_t parked_bytes       # of them
    uint64_t read_bytes         # of its reads under way
    uint64_t counted            # of it in ClientServer.answer_bytes
    uint8_t waits_for_turn      # it has whole requests, and is not read on before its next turn
    Principal principal         # who is at the other end
    Exchange* exchange          # an authentication under way; NULL: none
    uint8_t is_near             # a Unix socket or loopback: nobody between can listen, even without TLS
    uint32_t failures           # authentications that failed
    bint has_file               # a sealed file is open for it
    int file
    uint64_t file_bytes

cdef struct ClientCounters:
    uint64_t connections        # open now
    uint64_t accepted
    uint64_t turned_away        # no place was free
    uint64_t refused            # closed for what they said
    uint64_t evicted            # for what they did not say, or read, in time
    uint64_t requests
    uint64_t overloaded         # answered so
    uint64_t denied             # reads, watches and other requests that were refused for their rights
    uint64_t authenticated
    uint64_t unauthenticated    # authentications that failed
    uint64_t watches            # open now
    uint64_t memory             # of answers and events that wait
    TlsCounters tls

cdef struct ClientServer:
    Loop* loop
    ClientLimits limits
    uint8_t address_length
    uint8_t[ADDRESS_BYTES_MAX] address      # where clients reach this node
    uint8_t version_length
    uint8_t[VERSION_BYTES_MAX] version      # of the package
    int epoll
    int listener                # -1: none
    int local_listener          # Unix socket; -1: none
    int wake_fd
    TlsPort tls                 # of `listener`; the Unix socket is of this user's processes alone, and plain
    Mailbox* mailbox
    pthread_t thread
    bint is_running
    uint64_t now_ns             # of the turn
    uint64_t sweep_ns           # when connections are looked at for their age
    uint64_t accept_ns          # not 0: no descriptors were left, and nobody is accepted before
    bint is_resting             # the listeners are out of epoll for that
    bint has_mail               # the mailbox was rung
    bint has_submitted          # since the loop was rung
    Connection* connections
    Vec[uint32_t] free          # places
    Vec[uint32_t] dirty         # places with something to send
    ClientWatch* orphans        # watches of the stopped node, given back at the end
    Ticket* waiting             # tickets with a ClientPending, linked by previous_waiting and next_waiting
    uint64_t bytes_under_way
    WatchPool* pool             # of the events that wait
    uint64_t answer_bytes       # of the answers that wait
    uint64_t turn_bytes         # made in this turn
    uint64_t memory_high        # of both, since memory was given back to the system
    uint64_t rights_revision    # that the watches were looked at under
    uint8_t[32] disguise        # makes up the salts of users that do not exist, where the cluster has no seed for that
    FailureSlot[TUNE_FAILURE_SLOTS] slots    # by the hash of a user's name
    member_id_t leader_told
    NodeStatus status           # as of this turn
    Membership membership
    LinkTable links
    Command command             # scratch of decoding
    Vec[uint8_t] scratch        # of bodies
    uint8_t* buffer             # of reading
    ClientCounters counters
    # Shared:
    uint32_t is_closing
    Published[ClientCounters] published
