# Faults of the network on purpose, for tests: one node loses, repeats or delays frames on their way to and from a peer.
#
# A fault belongs to a peer's *name*: the table of links may give a place to another peer, and a peer may come back on
# another connection. Without faults the loop pays one comparison for each frame. raftmeta/faults.py sets them.
#
#     cut to      frames to the peer are lost                   cut from    frames from it are ignored
#
# A connection that is open when it is cut stays open, as over a pulled cable: neither side is told. While a peer is cut
# off in either direction, no new connection to or from it gets through HELLO, which needs both directions.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.engine.state cimport Link
from raftmeta.native.chunks cimport Chunk, Slice
from raftmeta.native.containers cimport Vec
from raftmeta.net.transport_state cimport Transport
from raftmeta.raft.types cimport MEMBERS_MAX, NAME_BYTES_MAX
from raftmeta.status cimport status_t

cdef enum:
    FAULT_CUT_TO = 1
    FAULT_CUT_FROM = 2
    PARTS_PER_WHOLE = 1_000_000     # of a probability

cdef struct LinkFault:
    uint8_t name_length
    uint8_t[NAME_BYTES_MAX] name
    uint8_t cuts                    # FAULT_CUT_* bits
    uint32_t drop_parts             # of frames sent, in parts of PARTS_PER_WHOLE
    uint32_t duplicate_parts
    uint64_t delay_ns               # of every frame sent

# A frame that waits: one chunk with head and records behind each other.
cdef struct LateFrame:
    uint64_t due_ns
    uint32_t link
    uint32_t head_length
    Chunk* chunk

# Zeroed: no faults.
cdef struct Faults:
    uint32_t count
    LinkFault[MEMBERS_MAX] links
    uint64_t random                 # state of the stream that frames are lost and repeated by
    Vec[LateFrame] late

# The whole table at once; `bytes` are LinkFaults. BAD_LENGTH: not whole ones, or too many.
cdef status_t faults_set(Faults* faults, const uint8_t* bytes, uint32_t length, uint64_t seed) noexcept nogil
cdef bint faults_are_cut(const Faults* faults, const Link* link, uint8_t cuts) noexcept nogil
cdef bint faults_cut_name(const Faults* faults, const uint8_t* name, uint8_t name_length) noexcept nogil
# transport_send, with what the table does to this frame.
cdef void faults_send(Faults* faults, Transport* transport, const Link* link, uint32_t place, const uint8_t* head,
                      size_t head_length, const Slice* records, uint64_t now_ns) noexcept nogil
# Frames whose delay is over go; returns when the next one is due, UINT64_MAX without one.
cdef uint64_t faults_send_late(Faults* faults, Transport* transport, uint64_t now_ns) noexcept nogil
cdef void faults_release(Faults* faults) noexcept nogil
