# Frames between a client and a node: requests and messages (docs/formats.md "Client protocol").
#
# This module decides whether bytes are a frame, and whether a frame's body is a request or a message. It allocates
# nothing for a length that was only claimed, and never looks into a command, a record or a result: they are windows
# into the body.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes

cdef enum:
    FORMAT_CLIENT_VERSION = 1
    CLIENT_HEADER_BYTES = 8
    CLIENT_HELLO_BYTES_MAX = 4096           # before the client's HELLO was accepted
    CLIENT_BODY_BYTES_MAX = 6 * 1024 * 1024 + 64 * 1024     # afterwards: a command of COMMAND_BYTES_MAX and its frame
    CLIENT_PIECE_BYTES_MAX = 1024 * 1024
    CLIENT_MESSAGE_BYTES_MAX = 1 << 30      # from a node: the records before a large deletion

# FORMAT_: numbers on the wire.
cdef enum ClientRequestKind:
    REQUEST_COMMAND = 1
    REQUEST_GET = 2
    REQUEST_RANGE = 3
    REQUEST_WATCH = 4
    REQUEST_UNWATCH = 5
    REQUEST_STATUS = 6
    REQUEST_PING = 7
    REQUEST_TRANSFER = 8
    REQUEST_MEMBERS = 9
    REQUEST_CHANGE = 10
    REQUEST_MEET = 11
    REQUEST_SNAPSHOT = 12
    REQUEST_PIECE = 13
    REQUEST_MACHINE_READ = 14
    REQUEST_LEASES = 15
    REQUEST_AUTHENTICATE = 16
    REQUEST_GROUPS = 17         # a RANGE whose keys are given in groups
    REQUEST_RIGHTS = 18
    REQUEST_FLIGHT = 19         # records of the flight recorder

cdef enum:
    REQUEST_KIND_MAX = REQUEST_FLIGHT

cdef enum ClientReadFlags:
    READ_LOCAL = 1              # the state that the node has applied, without asking the leader
    READ_KEYS_ONLY = 2
    READ_COUNT_ONLY = 4

# Steps of REQUEST_AUTHENTICATE, SCRAM-SHA-256 (RFC 5802, 7677) with these fields in place of texts.
cdef enum ClientAuthenticateFlags:
    AUTHENTICATE_BEGINS = 0     # key: a user's name, end: the client's nonce
    AUTHENTICATE_PROVES = 1     # key: both nonces, end: the proof

cdef enum:
    NONCE_BYTES_MAX = 128       # of both together

cdef enum ClientMessageKind:
    CLIENT_ANSWER = 1
    CLIENT_EVENTS = 2           # items of a watch
    CLIENT_PING = 3
    CLIENT_LEADER = 4           # the leader's name, and the limits of a session
    CLIENT_REFUSED = 5          # the connection closes

# FORMAT_: the first element in an answer of status QUOTA_EXCEEDED.
cdef enum ClientQuota:
    QUOTA_REQUESTS = 1          # requests per second
    QUOTA_BYTES = 2             # bytes of commands per second
    QUOTA_UNDER_WAY = 3         # bytes of requests under way
    QUOTA_CONNECTIONS = 4
    QUOTA_WATCHES = 5
    QUOTA_LEASES = 6
    QUOTA_SESSIONS = 7
    QUOTA_WINDOW = 8            # results that one session keeps

# Fields that a kind does not have are zero.
cdef struct ClientRequest:
    uint8_t kind                # ClientRequestKind
    uint8_t flags               # ClientReadFlags, the filter of a watch, the RightsPage of a RIGHTS, or
                                # the FlightPart of a FLIGHT
    uint64_t id
    uint64_t number             # revision of a read or a start; UNWATCH: id of the watch; CHANGE: index of a
                                # membership; PIECE: offset; LEASES: the least id; FLIGHT: of a record
    uint32_t limit              # of a range, RIGHTS or FLIGHT; PIECE: length
    Bytes key                   # key, start of a range, name, a command's payload, or a membership; AUTHENTICATE: a
                                # name, then a nonce; RIGHTS: the least name
    Bytes end                   # end of a range, address, or a call; AUTHENTICATE: a nonce, then a proof
    uint32_t skip               # GROUPS: the delimiter is sought behind so many bytes of a key
    Bytes delimiter             # GROUPS: not empty

cdef struct ClientMessage:
    uint8_t kind                # ClientMessageKind
    status_t status
    uint64_t id
    uint64_t revision
    uint64_t index
    Bytes body

# Look at the first `length` bytes of a stream. OK: a whole, sound frame of *total bytes is there. INCOMPLETE: *total
# bytes are needed (the header's, then the frame's). BAD_LENGTH, BAD_CHECKSUM: close the connection.
cdef status_t client_frame_decode(const uint8_t* bytes, size_t length, uint32_t body_bytes_max,
                                  size_t* total) noexcept nogil
# Make room for a header at the end of `out`. Append the body behind it; then client_frame_end(out, start) fills the
# header in, where `start` is the place at which the frame begins. NO_MEMORY.
cdef status_t client_frame_begin(Vec[uint8_t]* out, size_t* start) noexcept nogil
cdef void client_frame_end(Vec[uint8_t]* out, size_t start) noexcept nogil

# Append a whole frame. NO_MEMORY: `out` is as it was.
cdef status_t client_request_encode(const ClientRequest* request, Vec[uint8_t]* out) noexcept nogil
cdef status_t client_message_encode(const ClientMessage* message, Vec[uint8_t]* out) noexcept nogil
# Decode the body of a frame; windows point into it. BAD_LENGTH, BAD_FIELD: close the connection. BAD_VERSION: a kind of
# a later version, of which only kind and id were read; answer so.
cdef status_t client_request_decode(const uint8_t* body, uint32_t length, ClientRequest* request) noexcept nogil
cdef status_t client_message_decode(const uint8_t* body, uint32_t length, ClientMessage* message) noexcept nogil
