# The structs of the etcd door: connections, their calls, and what handles a call.
#
# They belong to one native thread. Other threads touch only the end of EtcdDoor, and what the Desk names.
#
# A call is one gRPC method that a client called. The transport (http2, or another one) makes it, gives it its bytes,
# and sends what its handler appended to `out`. No handler knows by which transport its call came.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.connections.accounts_state cimport Account
from raftmeta.connections.state cimport Connection, ConnectionCounters
from raftmeta.doors.desk.state cimport Desk, DeskTask
from raftmeta.doors.desk.users cimport Speaker
from raftmeta.loop.tickets cimport WatchSignal
from raftmeta.machine.watch_state cimport Watch, WatchPool, WatchPurse
from raftmeta.native.containers cimport Vec
from raftmeta.native.threads cimport Published
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes

cdef enum:
    ETCD_MESSAGE_BYTES_MAX = 6 * 1024 * 1024    # of a request: what is larger could not be one command of the log
    ETCD_CALLS_MAX = 4096           # of one connection under way
    TUNE_CALLS_BYTES = 16 << 20     # what all of them may hold of requests that are not whole or not done
    ETCD_GUESS_SLOTS = 256          # of names whose passwords were guessed
    TUNE_OUT_BYTES = 1 << 20        # waiting to be sent: a connection with more is neither read nor answered
    ETCD_PATH_BYTES_MAX = 64        # of a method's path; a longer one is of no method
    TASK_CALL = 16                  # DeskTask.kind: of a call; TASK_OF_DOOR
    TASK_LOOSE = 17                 # ... a command of the door itself, whose answer nobody needs
    TASK_FEED_OPEN = 18             # ... a feed is opened; the frame is its address (feeds.pyx)
    TASK_FEED_CLOSE = 19            # ... given back

cdef struct EtcdLimits:
    bint needs_rights
    uint64_t progress_ns            # a watch that wants marks gets one after so long without an event
    uint32_t prefix_length          # clients see the keys that begin so, without it; 0: all keys
    uint8_t[KEY_BYTES_MAX] prefix

# The codes of gRPC (google.golang.org/grpc/codes).
cdef enum EtcdCode:
    CODE_OK = 0
    CODE_CANCELLED = 1
    CODE_UNKNOWN = 2
    CODE_INVALID_ARGUMENT = 3
    CODE_DEADLINE_EXCEEDED = 4
    CODE_NOT_FOUND = 5
    CODE_ALREADY_EXISTS = 6
    CODE_PERMISSION_DENIED = 7
    CODE_RESOURCE_EXHAUSTED = 8
    CODE_FAILED_PRECONDITION = 9
    CODE_ABORTED = 10
    CODE_OUT_OF_RANGE = 11
    CODE_UNIMPLEMENTED = 12
    CODE_INTERNAL = 13
    CODE_UNAVAILABLE = 14
    CODE_DATA_LOSS = 15
    CODE_UNAUTHENTICATED = 16

cdef enum EtcdTraits:
    ETCD_STREAM = 1                 # its client sends messages until it has no more; each is given to `message`
    ETCD_ALWAYS = 2                 # answered also while the door does not serve
    ETCD_CHANGES = 4                # it may change keys: it is refused while an audit trail must be written and cannot

# The functions that handle one method.
cdef struct EtcdHandler:
    const char* path                # "/etcdserverpb.KV/Range"
    uint16_t request                # EtcdMessage (schema.pxd): each message was checked against it before
    uint16_t reply                  # ... of the messages that it sends
    uint8_t traits                  # EtcdTraits
    uint8_t operation               # AuditOperation; AUDIT_FILLER: nobody wants to know
    # One message: the whole request, of a stream the next one. `message` is valid during the call.
    void (*message)(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil
    # In each turn while EtcdCall.waits, and never otherwise. NULL: there is nothing to look at.
    void (*go)(EtcdDoor* door, EtcdCall* call) noexcept nogil
    # A task of the call is back. The caller frees it. The ticket's status and body are the answer. NULL: it has none.
    void (*answered)(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil
    # The client of a stream has no more messages. NULL: the call ends with CODE_OK.
    void (*half_closed)(EtcdDoor* door, EtcdCall* call) noexcept nogil
    # The call is over: give back EtcdCall.data. No task of it is given to `answered` any more. NULL: it has none.
    void (*closed)(EtcdDoor* door, EtcdCall* call) noexcept nogil

cdef struct EtcdCall:
    EtcdCall* previous              # of its connection
    EtcdCall* next
    EtcdCall* previous_waiting      # of those of its connection that `go` looks at
    EtcdCall* next_waiting
    EtcdCall* next_told             # of those that have something for the transport
    EtcdConnection* connection      # NULL: its client has left; what it would send is thrown away
    const EtcdHandler* handler      # NULL: there is no such method
    Account* account                # that its bytes are counted in; held
    int32_t stream                  # of HTTP/2
    uint64_t begun_ns
    uint64_t counted                # bytes of it in Connections.bytes_under_way
    uint32_t tasks                  # whose tickets are out
    uint8_t is_headed               # the head of its answer was given to the transport
    uint8_t is_half_closed          # its client sends no more
    uint8_t is_done                 # its status is known: what is in `out` is sent, and then the status
    uint8_t waits                   # `go` looks at it in each turn
    uint8_t is_told                 # in EtcdConnection.told
    uint8_t is_held                 # its messages wait until the door serves
    uint8_t has_message             # of one message: that was given to its handler
    uint8_t is_deferred             # the transport has sent all of `out`, and asks again when it is told
    uint8_t has_prefix              # its message has the node's keys
    uint8_t is_grpc                 # by its content-type
    uint8_t is_token_bad            # its client showed a token that does not count
    uint8_t path_length             # more than the most: it is of no method
    uint8_t[ETCD_PATH_BYTES_MAX] path
    int32_t code                    # EtcdCode, once done
    const char* text                # of its status
    Speaker speaker                 # by its token, or by the certificate of its connection
    status_t status                 # of ours that it stands for; OK: of none
    Vec[uint8_t] received           # bytes of messages that are not whole yet, or wait; of one message: that, framed
    Vec[uint8_t] out                # messages, framed as gRPC does: a zero byte, a length of four bytes, the message
    size_t out_offset               # bytes of `out` that are gone
    # Of its handler:
    uint8_t step
    uint8_t flags
    uint32_t part
    uint64_t round                  # read round that it waits for
    uint64_t revision               # the state has to show this one before it is answered
    uint64_t number
    uint64_t until_ns
    Vec[uint8_t] kept               # what it keeps of its request
    void* data                      # given back by EtcdHandler.closed

# A command or wish of a call. `part` says which one, for its handler.
cdef struct EtcdTask:
    DeskTask base                   # first
    EtcdCall* call                  # NULL: the door's own
    uint32_t part

cdef enum EtcdTransport:
    TRANSPORT_UNKNOWN = 0           # nothing came yet
    TRANSPORT_HTTP2 = 1
    TRANSPORT_HTTP1 = 2             # the JSON gateway

cdef struct EtcdConnection:
    Connection base                 # first; it is unbound until it has proved a user, or need not
    uint8_t transport               # EtcdTransport
    void* session                   # the transport's own
    EtcdCall* calls                 # newest first
    EtcdCall* waiting               # those that `go` looks at
    EtcdCall* told                  # those with something for the transport
    uint8_t is_told                 # in EtcdDoor.told
    uint32_t call_count
    uint64_t call_bytes             # what they hold of requests
    Speaker speaker                 # by its certificate; without one, that of the first token on it

# A record of a key, from the state or from a result. Revisions are the node's.
cdef struct KeyRecord:
    Bytes key
    Bytes value
    uint64_t create_revision
    uint64_t mod_revision
    uint64_t version
    uint64_t lease

# A key that a transaction writes.
cdef struct KeyWritten:
    Bytes key
    uint64_t hash

cdef enum EtcdFeedState:
    FEED_OPENING = 1
    FEED_OPEN = 2
    FEED_FAILED = 3                 # it could not be opened
    FEED_CLOSED = 4                 # it was given back, or is being given back

# Changes of a range of keys for one call (feeds.pyx). The bytes of key and end follow the struct.
cdef struct EtcdFeed:
    WatchSignal signal              # first
    EtcdFeed* previous              # of all of the door
    EtcdFeed* next
    Watch* watch                    # while it is open
    WatchPurse* purse               # held
    void* owner
    void (*woken)(EtcdDoor* door, void* owner) noexcept nogil   # it has items, has opened or has failed
    uint32_t filter
    uint32_t key_length
    uint32_t end_length
    uint32_t tickets                # that are out
    uint8_t state                   # EtcdFeedState
    uint8_t has_items               # since the owner took all of them
    uint8_t is_dropped              # its owner has let go

# Passwords that were wrong, of the names that share a slot (doors/desk/passwords).
cdef struct EtcdGuesses:
    uint64_t since_ns
    uint32_t count

cdef struct EtcdCounters:
    ConnectionCounters base
    uint64_t calls
    uint64_t unimplemented          # calls of methods that the door does not have
    uint64_t failed                 # calls that ended with another code than 0
    uint64_t denied                 # for rights
    uint64_t waiting                # calls that wait for a change of the state
    uint64_t watches
    uint64_t memory

cdef struct EtcdDoor:
    Desk desk                       # first
    EtcdLimits limits
    EtcdConnection* connections     # those of desk.base
    bint is_serving                 # commands and reads can be asked
    bint is_lonely                  # no leader for so long that clients are sent elsewhere
    uint64_t rights_revision        # that the connections were looked at under
    EtcdGuesses[ETCD_GUESS_SLOTS] guesses
    uint8_t client_address_length   # of this node, as MemberList tells it
    uint8_t[255] client_address
    Vec[uint8_t] reply              # scratch: the message that is being made
    Vec[uint8_t] scratch
    Vec[uint8_t] record             # of the audit trail
    Vec[KeyRecord] records          # scratch, as the next two
    Vec[KeyWritten] written
    Vec[Bytes] deleted              # starts and ends
    Vec[uint32_t] told              # places of connections whose calls have something for the transport
    EtcdFeed* feeds
    WatchPool* pool                 # what all feeds together may have waiting
    EtcdCall* watching              # streams of watches
    uint64_t watching_ns            # when they were looked at last
    EtcdCall* snapshot              # the call that sends one; NULL: none
    Vec[uint8_t] keyed              # scratch: a message with the prefix put in or taken away
    EtcdCounters counters
    # Shared:
    Published[EtcdCounters] published
