# One version of one key, the smallest part of the state: readers walk from it to the versions before it.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.atomics cimport load_acquire

cdef enum:
    ENTRY_CUT = 1               # in the low bit of Entry.previous; entries are aligned to 8

cdef enum:
    ENTRY_TOMBSTONE = 1         # a delete, kept while history can show it
    ENTRY_COUNTER = 2           # value is an 8-byte big-endian signed counter of OP_ADD

# One version of one key: one allocation, immutable once published. Key bytes, then value bytes, follow the struct.
# FORMAT_: the bytes from create_revision to the end of the value are what the entry's hash covers, in this order
# (docs/formats.md "Checksums"). It is the addend of the state hash, and computed when the entry comes and when it goes.
cdef struct Entry:
    Entry* previous             # older version of this key, NULL: none, with ENTRY_CUT: below the history floor; read
                                # it by entry_previous
    uint64_t create_revision
    uint64_t mod_revision
    uint64_t version            # 1 at create, +1 at each change; 0 in a tombstone
    uint64_t lease
    uint32_t value_length
    uint16_t key_length
    uint16_t flags              # ENTRY_*

cdef inline const uint8_t* entry_key(const Entry* entry) noexcept nogil:
    return <const uint8_t*>entry + sizeof(Entry)

cdef inline const uint8_t* entry_value(const Entry* entry) noexcept nogil:
    return <const uint8_t*>entry + sizeof(Entry) + entry.key_length

# The writer cuts chains while readers walk them.
cdef inline const Entry* entry_previous(const Entry* entry) noexcept nogil:
    cdef const Entry* previous = load_acquire(&entry.previous)
    if <uint64_t>previous & ENTRY_CUT:
        return NULL
    return previous

# The version of a key that was the newest at `revision`; NULL: it did not exist, or history no longer says.
cdef inline const Entry* entry_at(const Entry* entry, uint64_t revision) noexcept nogil:
    while entry != NULL and entry.mod_revision > revision:
        entry = entry_previous(entry)
    return entry

# The same for whoever has pinned the root that `entry` is from, and began when the floor was not above `revision`. It
# goes on along links that were cut since then: what stands behind them dies no earlier than that root.
cdef inline const Entry* entry_at_pinned(const Entry* entry, uint64_t revision) noexcept nogil:
    while entry != NULL and entry.mod_revision > revision:
        entry = <const Entry*>(<uint64_t>load_acquire(&entry.previous) & ~<uint64_t>ENTRY_CUT)
    return entry
