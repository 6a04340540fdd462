# Messages beside the feed of an observer (docs/observers.md, docs/formats.md "Frame"):
#
#     FRAME_FEEDERS       feeder -> observer that it refuses: nodes that may feed you, [[id, name, address], ...]
#     FRAME_OBSERVERS     observer -> its feeder: who follows the log through me, [[id, feeder, last, lag, name], ...]
#
# Both are bounded, and hints only: nothing here proves that a node is what it is called. Names and addresses are text
# (native/text).
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport ADDRESS_BYTES_MAX, NAME_BYTES_MAX, index_t, member_id_t
from raftmeta.status cimport status_t

cdef enum:
    FEEDERS_MAX = 16            # named in one refusal
    OBSERVERS_MAX = 512         # told of in one report, and known by one node

# A node that an observer may ask.
cdef struct Feeder:
    member_id_t id
    uint8_t name_length         # 1 to NAME_BYTES_MAX
    uint8_t address_length      # not 0
    uint8_t[NAME_BYTES_MAX] name
    uint8_t[ADDRESS_BYTES_MAX] address

# An observer that follows the log through the one that tells.
cdef struct Observed:
    member_id_t id
    member_id_t feeder          # who feeds it
    index_t last                # its log ended there when it asked last
    uint64_t lag                # entries behind the log of the one that tells
    member_id_t via             # not told: the observer that told, which the receiver feeds
    uint8_t name_length
    uint8_t[NAME_BYTES_MAX] name

# Append the body. NO_MEMORY, BAD_FIELD (too many): nothing was appended.
cdef status_t feeders_encode(const Feeder* feeders, uint32_t count, Vec[uint8_t]* body) noexcept nogil
cdef status_t observers_encode(const Observed* observers, uint32_t count, Vec[uint8_t]* body) noexcept nogil
# `feeders` has room for FEEDERS_MAX. BAD_FIELD, BAD_LENGTH: not such a message, or a name or address that is no text.
cdef status_t feeders_decode(const uint8_t* body, uint32_t length, Feeder* feeders, uint32_t* count) noexcept nogil
# Appends to `observers`; `via` is 0. BAD_FIELD, BAD_LENGTH as above, NO_MEMORY: it is as it was.
cdef status_t observers_decode(const uint8_t* body, uint32_t length, Vec[Observed]* observers) noexcept nogil
