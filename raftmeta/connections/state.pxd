# The structs of connections from outside: one connection, all those of one native thread, and the rules of their owner.
#
# An owner is the clients' thread or a door. Its own struct of a connection begins with a Connection, and its own struct
# of the thread begins with the Connections. So a pointer to one is a pointer to the other.
#
# Connections belong to one thread. Other threads touch only is_closing, the TlsPort (security/contexts) and the
# Accounts (connections/accounts), which all listeners of a node share.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Account, Accounts, Holdings, Quotas
from raftmeta.native.atomics cimport add_shared, subtract_shared
from raftmeta.native.containers cimport Vec
from raftmeta.native.threads cimport pthread_t
from raftmeta.net cimport posix
from raftmeta.net.stream cimport Stream
from raftmeta.net.unbound cimport Unbound
from raftmeta.security.audit_queue cimport AuditAddress, AuditPort, AuditProducer, AuditTrail
from raftmeta.security.tls_state cimport TlsCounters, TlsPort
from raftmeta.status cimport status_t

cdef enum:
    NOWHERE = 0xFFFFFFF         # a place that no connection has
    TUNE_READ_BYTES = 1 << 18   # read at once
    TUNE_TURN_BYTES = 1 << 21   # of answers and events made in one turn; then the others are looked at
    TUNE_EVENTS_PER_WAIT = 256

cdef enum ConnectionState:
    CONNECTION_FREE = 0
    CONNECTION_GREETING = 1     # its first frame is awaited
    CONNECTION_CONNECTING = 2   # that is being answered; nothing more is taken before
    CONNECTION_OPEN = 3         # it may have to prove a password still, see Connection.unbound
    CONNECTION_CLOSING = 4      # what is in `out` is sent, then it is closed

cdef struct Connection:
    Stream stream
    uint32_t place
    uint32_t generation         # of the place: it may have another connection by now
    uint8_t state               # ConnectionState
    uint8_t is_local            # by the Unix socket
    uint8_t is_reading          # epoll tells of bytes to read
    uint8_t is_blocked          # the socket took not all of `out`: epoll tells when it takes more
    uint8_t is_dirty            # in Connections.dirty
    uint8_t is_waiting          # in Connections.waiting
    uint8_t waits_for_turn      # it has more to do, and comes again in the next turn
    uint8_t has_ended           # nothing of it is taken any more: it said goodbye, or failed to prove its name
    uint64_t heard_ns           # of the last bytes read, at first of the accept
    uint64_t sent_ns            # of the last bytes that the socket took
    uint64_t part_ns            # since when `received` begins with the frame that it begins with
    uint64_t paused_ns          # not 0: it is over its quotas and not read until then
    Vec[uint8_t] received       # bytes that are no whole frame yet, or were not looked at
    Vec[uint8_t] out
    size_t out_offset           # bytes of `out` that are gone
    uint64_t parked_bytes       # of answers that its owner keeps until there is room in `out`
    uint64_t counted            # of both in Connections.answer_bytes
    uint64_t address            # net/unbound address_of_socket
    uint32_t unbound            # its entry in Connections.unbound, as long as it has proved nothing
    Account* account            # of its quotas; held; NULL: nobody's
    AuditAddress audit_address  # of the other end; with an audit trail only

cdef struct ConnectionLimits:
    uint32_t connections_max
    uint32_t unbound_max        # connections that have proved nothing yet
    uint32_t unbound_of_address_max     # of them, from one address
    uint64_t hello_timeout_ns   # from the accept to the proof
    uint64_t bytes_under_way_max        # requests of all connections
    uint64_t memory_max         # answers and events that wait for all connections
    uint64_t frame_bytes_max
    uint64_t part_bytes_max     # what is no whole request yet, of all connections
    uint64_t unread_ns          # so long the other side may leave what it was sent
    uint64_t unread_pressed_ns  # the same while others wait for room
    uint64_t sweep_ns           # connections are looked at for their age once in so long; more often under pressure
    Quotas quotas               # of one principal

cdef struct ConnectionCounters:
    uint64_t connections        # open now
    uint64_t accepted
    uint64_t turned_away        # no place was free
    uint64_t refused            # closed for what they said
    uint64_t evicted            # for what they did not say, or read, in time
    uint64_t unbound            # connections that have proved nothing yet
    uint64_t over_quota         # requests and connections refused for quotas of their principals
    uint64_t accounts           # of principals and addresses, at all listeners of the node
    TlsCounters tls

# The owner's part. None of these closes a connection: connection_end and connection_fail let it end.
cdef struct ConnectionRules:
    # It was accepted, and said nothing yet.
    void (*opened)(Connections* connections, Connection* connection) noexcept nogil
    # Take the next frame at `bytes`; *used: its length. INCOMPLETE: it is not whole, or has to wait. Anything else: the
    # connection was told so and ends.
    status_t (*take)(Connections* connections, Connection* connection, const uint8_t* bytes, size_t length,
                     size_t* used) noexcept nogil
    # Whether more of it may be taken: neither too much under way nor too much unsent.
    bint (*has_room)(const Connections* connections, const Connection* connection) noexcept nogil
    # Its turn has come, or its socket took bytes: make what may be sent now.
    void (*go)(Connections* connections, Connection* connection) noexcept nogil
    # Unfinished requests hold too much: OVERLOADED, or QUOTA_EXCEEDED of its account. It is told so and ends.
    void (*refuse)(Connections* connections, Connection* connection, status_t status) noexcept nogil
    # Once in a while: whether the owner's own time-outs are over.
    bint (*is_overdue)(Connections* connections, Connection* connection) noexcept nogil
    # It is being closed: give back what the owner's struct holds, and its account.
    void (*closed)(Connections* connections, Connection* connection) noexcept nogil
    bint is_room_common         # one may have room again because others need less

cdef struct Connections:
    const ConnectionRules* rules
    ConnectionLimits limits
    uint8_t* items              # structs of the owner, `item_bytes` each; a connection's index is its place
    size_t item_bytes
    int epoll
    int listener                # -1: none
    int local_listener          # Unix socket; -1: none
    int wake_fd
    int mail_fd                 # the owner's: it tells of mail
    TlsPort tls                 # of `listener`; the Unix socket is of this user's processes alone, and plain
    AuditTrail* audit           # NULL: none
    AuditProducer audit_by
    AuditPort audit_port
    pthread_t thread
    bint is_running
    uint64_t now_ns             # of the turn
    uint64_t sweep_ns           # when connections are looked at for their age
    uint64_t accept_ns          # not 0: no descriptors were left, and nobody is accepted before
    bint is_resting             # the listeners are out of epoll for that
    bint has_mail               # mail_fd was rung
    Vec[uint32_t] free          # places
    Vec[uint32_t] dirty         # places with something to send, or more to do
    Vec[uint32_t] waiting       # places that are looked at in each turn
    Unbound unbound
    Accounts* accounts          # of the node
    Holdings holdings
    uint32_t handshake_steps    # done in this turn
    uint64_t descriptors_max    # a socket of a number from here on is closed: the rest is for peers and files
    uint64_t bytes_under_way    # of requests
    uint64_t part_bytes         # of `received`: they keep no whole request of others from being taken
    uint64_t answer_bytes       # of the answers that wait
    uint64_t turn_bytes         # made in this turn
    uint8_t* buffer             # of reading
    int event_count
    posix.epoll_event[TUNE_EVENTS_PER_WAIT] events
    ConnectionCounters counters
    # Shared:
    uint32_t is_closing

cdef inline Connection* connection_in(const Connections* connections, uint32_t place) noexcept nogil:
    return <Connection*>(connections.items + <size_t>place * connections.item_bytes)

# The connection that stood at place with this generation; NULL: it is gone.
cdef inline Connection* connection_at(const Connections* connections, uint32_t place,
                                      uint32_t generation) noexcept nogil:
    if place >= connections.limits.connections_max:
        return NULL
    cdef Connection* connection = connection_in(connections, place)
    if connection.state == CONNECTION_FREE or connection.generation != generation:
        return NULL
    return connection

# Bytes of requests under way: of all connections, and of this account, which may be NULL.
cdef inline void bytes_begin(Connections* connections, Account* account, size_t bytes) noexcept nogil:
    connections.bytes_under_way += bytes
    if account != NULL:
        add_shared(&account.bytes, <uint64_t>bytes)

cdef inline void bytes_end(Connections* connections, Account* account, size_t bytes) noexcept nogil:
    connections.bytes_under_way -= bytes
    if account != NULL:
        subtract_shared(&account.bytes, <uint64_t>bytes)
