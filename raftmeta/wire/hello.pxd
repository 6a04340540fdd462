# HELLO is the first frame in each direction of a connection. It negotiates a version and binds the peer's identity
# before
# any Raft byte is read. It also tells genesis the peer's state (decisions/README.md "Identity and genesis").
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, NAME_BYTES_MAX, index_t, member_id_t
from raftmeta.status cimport status_t
from raftmeta.wire.frame cimport ClusterId

cdef enum:
    REFUSED_TEXT_BYTES_MAX = 1024

cdef enum HelloPurpose:
    HELLO_PEER = 1
    HELLO_CLIENT = 2

cdef struct Hello:
    uint8_t purpose             # HelloPurpose
    uint8_t version_min         # of frames and bodies; both sides use the highest common one
    uint8_t version_max
    uint8_t genesis_state       # raft/genesis GenesisState
    ClusterId cluster           # founded or accepted cluster id; zero when blank
    member_id_t id              # incarnation
    uint64_t boot               # boot number of that incarnation
    uint32_t feature_level_max
    index_t membership          # index of its membership in force; 0: founding, or none
    uint8_t name_length
    uint8_t cluster_name_length  # Config cluster="default": two clusters that found themselves side by side never mix
    uint8_t address_length
    uint8_t[NAME_BYTES_MAX] name
    uint8_t[NAME_BYTES_MAX] cluster_name
    uint8_t[ADDRESS_BYTES_MAX] address      # advertised "host:port"

# A peer has a name, an incarnation and a genesis state. A client has neither state, boot number nor membership. Both
# name
# the cluster. Names and addresses are text (native/text.pxd). BAD_FIELD: not so, or a wrong type, count or range;
# BAD_LENGTH: cut short or left over; NO_MEMORY.
cdef status_t hello_encode(const Hello* hello, Vec[uint8_t]* body) noexcept nogil
cdef status_t hello_decode(const uint8_t* body, uint32_t length, Hello* hello) noexcept nogil
# The highest version that both sides speak; BAD_VERSION: none.
cdef status_t hello_negotiate(const Hello* self, const Hello* peer, uint8_t* version) noexcept nogil
# FRAME_REFUSED body [status, text]: the reason why the connection closes, for the other side's log and error text.
# `text` is a window into body of at most REFUSED_TEXT_BYTES_MAX bytes. It may be anything: show it, never believe it.
cdef status_t refused_encode(status_t status, const uint8_t* text, uint32_t length, Vec[uint8_t]* body) noexcept nogil
cdef status_t refused_decode(const uint8_t* body, uint32_t length, status_t* status, const uint8_t** text,
                             uint32_t* text_length) noexcept nogil
