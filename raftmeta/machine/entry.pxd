# One version of one key, the smallest part of the state: readers walk from it to the versions before it.
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.atomics cimport load_acquire

cdef enum:
    ENTRY_CUT = 1               # in the low bit of Entry.previous; entries are aligned to 8

cdef enum:
    ENTRY_TOMBSTONE = 1         # a delete, kept while history can show it
    ENTRY_COUNTER = 2           # value is an 8-byte big-endian signed counter of OP_ADD
    ENTRY_ZNODE = 4             # value is data, then an extension: a list of rights, and a ZnodeMeta
    ENTRY_GROUP = 8             # value is that of a worker group (machine/group_records)
    ENTRY_MEMBER = 16           # ... of one of its members
    ENTRY_TOPIC = 64            # ... of a topic (machine/topic_records)
    ENTRY_OFFSETS = 128         # ... of the head of a group's offsets
    ENTRY_OFFSET = 256          # ... of one of them
    ENTRY_RECORDS = 512         # ... one of the keys of a record log (machine/record_keys)
    # Only requests of their own kind change these.
    ENTRY_GUARDED = (ENTRY_ZNODE | ENTRY_GROUP | ENTRY_MEMBER | ENTRY_TOPIC | ENTRY_OFFSETS | ENTRY_OFFSET
                     | ENTRY_RECORDS)

cdef enum:
    ZNODE_NULL_DATA = 1         # data is null, not empty
    ZNODE_FOUNDED = 2           # came with its tree: zxids and times of its founding are told as 0

# FORMAT_: the end of every znode's value, behind the data and the list of rights. Only the data is a value to readers;
# the list and this are the record's extension.
cdef packed struct ZnodeMeta:
    uint64_t mzxid              # revision that wrote the data
    uint64_t pzxid              # revision that made or removed a child last; of a new znode its own
    uint64_t ctime_ms           # wall time of entries; decides nothing
    uint64_t mtime_ms
    uint64_t ttl_ms             # of ZNODE_TTL
    int32_t version             # of the data; these two wrap around
    int32_t aversion            # of the list of rights
    uint32_t creates            # children made ever
    uint32_t children           # children now
    uint32_t acl_length         # bytes of the list of rights; 0: everybody may do everything
    uint8_t kind                # ZnodeKind
    uint8_t flags               # ZNODE_*
    uint16_t zero

cdef enum:
    ZNODE_META_BYTES = 64

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

# Of a znode: a window into its value, not aligned.
cdef inline const ZnodeMeta* entry_meta(const Entry* entry) noexcept nogil:
    return <const ZnodeMeta*>(entry_value(entry) + entry.value_length - sizeof(ZnodeMeta))

# Bytes of the value that readers see.
cdef inline uint32_t entry_data_length(const Entry* entry) noexcept nogil:
    if entry.flags & ENTRY_ZNODE:
        return entry.value_length - entry_meta(entry).acl_length - <uint32_t>sizeof(ZnodeMeta)
    return entry.value_length

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
