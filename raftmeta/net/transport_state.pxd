# The network of one node as one struct: a listening socket, the connections it accepted, and one outgoing connection
# for each peer.
#
# An outgoing connection only sends, after both sides said HELLO. An accepted one only brings frames. So each side alone
# decides when to reconnect, and two ends never argue about which of two connections counts.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.chunks cimport Chunk, Slice
from raftmeta.native.containers cimport Ring, Vec
from raftmeta.net.resolver cimport RESOLVED_MAX, Resolver
from raftmeta.net.stream cimport SocketAddress, Stream
from raftmeta.net.unbound cimport Unbound
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, MEMBERS_MAX, member_id_t
from raftmeta.security.audit_queue cimport AuditAddress, AuditTrail
from raftmeta.security.tls_state cimport TlsPort
from raftmeta.status cimport status_t
from raftmeta.wire.hello cimport Hello

cdef enum:
    NO_LINK = MEMBERS_MAX       # TransportPort: on a connection that somebody opened to us

# The user of the network: the loop. All calls are on its thread.
cdef struct TransportPort:
    void* self
    # The node's HELLO: `link` is the peer on a connection that this node opened, NO_LINK on an accepted one.
    void (*own_hello)(void* self, uint32_t link, Hello* hello) noexcept nogil
    # `place` is a position in Transport.accepted. Any status but OK: the transport answers FRAME_REFUSED with it, then
    # closes the connection.
    status_t (*hello)(void* self, uint32_t place, const Hello* hello) noexcept nogil
    # One whole, sound frame after HELLO. Not OK: the connection is closed.
    status_t (*frame)(void* self, uint32_t place, const Slice* frame) noexcept nogil
    status_t (*link_up)(void* self, uint32_t link, const Hello* hello) noexcept nogil
    void (*link_down)(void* self, uint32_t link, bint was_refused) noexcept nogil
    # After link_down with was_refused: the address that refused is the one at which this peer answered last.
    void (*address_refused)(void* self, uint32_t link) noexcept nogil
    # An accepted connection is closed that had said HELLO.
    void (*hung_up)(void* self, uint32_t place) noexcept nogil
    # The transport closed a connection because of what it said, and handed nothing up.
    void (*refused)(void* self, status_t status, uint32_t link) noexcept nogil

cdef struct TransportLimits:
    uint32_t unbound_max        # accepted connections that have not said HELLO; half of them from one address
    uint64_t hello_timeout_ns   # from open to HELLO, in both directions
    uint64_t queue_bytes_max    # waiting for one outgoing connection
    uint64_t reconnect_min_ns
    uint64_t reconnect_max_ns

# Somebody's connection to us.
cdef struct Accepted:
    Stream stream               # closed: free place
    uint32_t generation         # of this place, so that an event of an earlier connection is not taken for this one's
    uint32_t unbound            # its entry in Transport.unbound, as long as it has not said HELLO
    bint is_bound               # said HELLO
    member_id_t peer
    AuditAddress address        # of the other end; with an audit trail only
    Chunk* chunk                # bytes [begin, end) were read and are not yet a whole frame
    uint32_t begin
    uint32_t end
    uint32_t wanted             # length of the frame that begins there, as far as it is known

cdef enum OutgoingState:
    OUTGOING_UNUSED = 0
    OUTGOING_WAITING = 1        # until retry_ns
    OUTGOING_RESOLVING = 2
    OUTGOING_CONNECTING = 3     # until deadline_ns, as is
    OUTGOING_SECURING = 4       # the handshake of TLS is under way
    OUTGOING_GREETING = 5       # HELLO sent, theirs awaited
    OUTGOING_UP = 6

# Our connection to a peer.
cdef struct Outgoing:
    OutgoingState state
    Stream stream
    uint32_t attempt            # counts connections: it tells older events and look-ups apart
    uint8_t text_length
    uint8_t[ADDRESS_BYTES_MAX] text                 # "host:port"
    uint32_t address_count
    uint32_t address_position   # the address being tried
    uint32_t refused_count      # addresses tried that refused
    SocketAddress[RESOLVED_MAX] addresses
    SocketAddress answered      # where their HELLO came from last; length 0: nowhere yet
    void* ticket                # with which TLS is resumed (security/tls); NULL: none
    bint is_plain               # this attempt is without TLS: the last one by TLS failed, and plain ones are accepted
    uint64_t retry_ns
    uint64_t pause_ns           # doubles from reconnect_min_ns to reconnect_max_ns
    uint64_t up_ns              # time at which it came up
    bint was_brief              # the last connection was up for less than the pause before it: no reason to hurry
    uint64_t deadline_ns
    Vec[uint8_t] reply          # their HELLO, the part that has come
    Ring[Slice] queue           # frames to send
    uint32_t front_offset       # bytes of the front slice that are gone
    uint64_t queued_bytes
    Chunk* heads                # heads of frames are copied here
    bint is_writable            # the last write took everything
    bint is_dirty               # something was queued since the last flush

cdef struct TransportCounters:
    uint64_t accepted
    uint64_t connected
    uint64_t refused            # connections closed for what they said
    uint64_t evicted            # closed for a HELLO that did not come in time, or a certificate that is void now
    uint64_t frames_dropped     # full queues
    uint64_t bytes_in
    uint64_t bytes_out

cdef struct Transport:
    TransportPort port
    TransportLimits limits
    TransportCounters counters
    int epoll
    int listener                # -1: closed
    Resolver* resolver
    TlsPort* tls                # the caller's; without a context: plain
    AuditTrail* audit           # the caller's; NULL: none
    uint64_t random             # state of the jitter's stream
    uint64_t now_ns             # of the turn under way
    uint64_t deadline_ns        # when transport_tick has something to do
    uint64_t accept_retry_ns    # not 0: no descriptors were left, the listener pauses until then
    uint32_t accepted_max
    uint32_t handshake_steps    # done in this turn
    Unbound unbound             # of the accepted ones
    Accepted* accepted
    Outgoing[MEMBERS_MAX] outgoing
    Vec[uint8_t] scratch

# The tag that epoll gives back: kind, generation, position.
cdef enum TransportTag:
    TAG_LISTENER = 1
    TAG_ACCEPTED = 2
    TAG_OUTGOING = 3

cdef inline uint64_t transport_tag(TransportTag kind, uint32_t generation, uint32_t position) noexcept nogil:
    return <uint64_t>kind << 56 | <uint64_t>(generation & <uint32_t>0xFFFFFF) << 32 | position

cdef inline void transport_wake_at(Transport* transport, uint64_t at_ns) noexcept nogil:
    if at_ns < transport.deadline_ns:
        transport.deadline_ns = at_ns
