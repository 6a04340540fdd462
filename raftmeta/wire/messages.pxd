# Core messages as msgpack bodies: [type, flags, field, ...]. One schema table says which fields a type has
# (docs/formats.md "Messages").
#
# This module decides whether bytes are a message. Only the core decides whether the message makes sense. Source and
# target are not in the body: a frame's header carries them and is checked against the connection's identity. So they
# stand in one place and nobody speaks for another. The raw part of a frame behind the body is the message's `records`,
# which are neither copied nor encoded again.
#
# The decoder guarantees about records, so that the core need not look again:
#   APPEND          `count` whole records: lengths add up, padding is zero, version and checksum right, group, flags and
#                   reserved zero, indexes index + 1, index + 2, ..., terms ascending from log_term to at most term
#   ENTRY_RESPONSE  one such record with the index asked for, none in a reject
#   PROPOSE         `count` >= 1 payloads, each a u32 length (not 0) and its bytes, which are not looked at
#   MEMBERSHIP_PROPOSE    some bytes, not looked at
#   all others      none
# Messages have two versions, and the HELLO of both sides decides which one is sent: version 2 adds fields to some
# types.
# Both are read; the number of elements tells them apart.
# Chain hashes are *not* verified here: only the core knows the hash before the first record.
from libc.stdint cimport uint8_t, uint32_t

from raftmeta.native.chunks cimport Slice
from raftmeta.native.containers cimport Vec
from raftmeta.raft.types cimport Message
from raftmeta.status cimport status_t

cdef enum:
    FORMAT_MESSAGE_VERSION = 2  # the highest; 1: HEARTBEAT and VOTE_RESPONSE without lease_ms, READ_INDEX_RESPONSE and
                                # TRANSFER without term

# Append the body in that version to `body`. message.records is not copied: it is sent behind. BAD_FIELD: a field is set
# that this type does not carry, or is out of range; that is a mistake of the sender, and nothing was appended.
# NO_MEMORY.
cdef status_t message_encode(const Message* message, uint8_t version, Vec[uint8_t]* body) noexcept nogil
# BAD_LENGTH: cut short, left over, or records where none belong. BAD_FIELD: wrong type, count, range (term, index
# <= 2^63 - 1) or unknown message type. BAD_VERSION, BAD_CHECKSUM: of a record. `records` is the raw part behind the
# body, NULL: none. The message points to the records and does not hold their chunk; its source and target are 0.
cdef status_t message_decode(const uint8_t* body, uint32_t length, const Slice* records,
                             Message* message) noexcept nogil
