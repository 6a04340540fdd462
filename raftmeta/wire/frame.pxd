# A frame: a header of 96 bytes, one msgpack body, and in some types raw records behind it. docs/formats.md "Frame".
#
# The header is checked before the body is read, the length before anything is allocated. A frame that fails a check is
# counted and closes its connection; it never reaches the core (docs/invariants.md I19). This module decides whether
# bytes are a frame and whether the frame belongs on this connection. It allocates nothing and never looks into a body.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.raft.types cimport member_id_t
from raftmeta.status cimport status_t

cdef enum:
    FORMAT_FRAME_MAGIC = 0x4D544652         # "RFTM" in stream order
    FORMAT_FRAME_VERSION = 1
    FRAME_HEADER_BYTES = 96
    FRAME_BODY_BYTES_MAX = 8 * 1024 * 1024  # from a peer whose HELLO was accepted
    FRAME_HELLO_BYTES_MAX = 4096            # before that

cdef enum FrameType:
    FRAME_HELLO = 1             # first frame in each direction: [min, max] version, identity (wire/hello)
    FRAME_MESSAGE = 2           # one core Message (wire/messages)
    FRAME_GENESIS = 3           # founding a cluster (raft/genesis)
    FRAME_PING = 4              # keeps an idle link alive, measures it
    FRAME_REFUSED = 5           # the reason why the connection is about to close: [status, text]
    FRAME_SNAPSHOT = 6          # chunks of a sealed snapshot
    FRAME_STATE = 7             # the sender's state after an entry (wire/state_messages)
    FRAME_FEEDERS = 8           # nodes that may feed the observer which the sender refuses (wire/feed_messages)
    FRAME_OBSERVERS = 9         # observers that follow the log through the sender (wire/feed_messages)

cdef struct ClusterId:
    uint64_t low
    uint64_t high               # (0, 0): not founded yet

cdef packed struct FrameHeader:
    uint32_t magic
    uint32_t crc                # crc32c over bytes [8, 96 + body_length + records_length)
    uint8_t version
    uint8_t type                # FrameType
    uint16_t flags              # 0
    uint32_t group              # 0
    uint32_t body_length        # msgpack
    uint32_t records_length     # raw records (Record, docs/formats.md) behind the body
    uint64_t cluster_low
    uint64_t cluster_high
    member_id_t source          # incarnation of the sender
    member_id_t target          # incarnation that it is for; 0 in a HELLO to an unknown peer
    uint64_t source_boot        # boot number of the sender: peers refuse a lower one than they have seen
    uint64_t sequence           # counts the frames of this connection from 1, for readers of a capture. A gap is one
                                # that found the sender's queue full; the protocol survives it
    uint64_t target_boot        # boot number of the target's HELLO; 0 in a HELLO. A frame that asks for an entry is for
                                # that life of the target alone (engine/peers)
    uint64_t reserved0          # 0, like the next one
    uint32_t reserved1
    uint32_t header_crc         # crc32c over bytes [8, 92): nobody must wait for a damaged length

# The HELLO of a connection binds who may speak on it.
cdef struct FrameIdentity:
    ClusterId cluster
    member_id_t peer
    member_id_t self
    uint64_t peer_boot

# Fill the header for a body and records that follow. `crc` covers all; records may be in another buffer.
cdef void frame_encode(FrameHeader* header, FrameType type, const FrameIdentity* identity, uint64_t self_boot,
                       uint64_t sequence, const uint8_t* body, uint32_t body_length, const uint8_t* records,
                       uint32_t records_length) noexcept nogil
# Look at the first `length` bytes of a stream. OK: a whole, sound frame of *total bytes is there.
# INCOMPLETE: *total bytes are needed (the header's, then the frame's); nothing is wrong so far.
# BAD_MAGIC, BAD_VERSION (by the first wrong byte), BAD_LENGTH (body and records together over body_bytes_max; told
# before any byte of them is needed), BAD_CHECKSUM, BAD_FIELD: close the connection.
cdef status_t frame_decode(const uint8_t* bytes, size_t length, uint32_t body_bytes_max, size_t* total) noexcept nogil
# Does a sound frame belong on this connection? Not asked for HELLO, which gives the identity.
# FOREIGN_CLUSTER, FOREIGN_NODE, OLD_BOOT: close the connection.
# NOT_READY: a message or snapshot although one side has not founded its cluster: drop the frame, keep the connection.
cdef status_t frame_check_identity(const FrameHeader* header, const FrameIdentity* identity) noexcept nogil
