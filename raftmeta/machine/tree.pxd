# An ordered copy-on-write B+tree over entries, and the history of every key behind them.
#
# One writer. A node is copied only when a pinned root can still see it. Roots are pinned by readers and snapshots and
# are not the history: history is the chain Entry.previous plus the change log (raftmeta/machine/history).
# Sources: docs/decisions/state-tree.md.
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.machine.tree_state cimport Root, Tree
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.status cimport status_t

cdef enum:
    ENTRY_TOMBSTONE = 1         # a delete, kept while history can show it
    ENTRY_COUNTER = 2           # value is an 8-byte big-endian signed counter of OP_ADD

# One version of one key: one allocation, immutable once published. Key bytes, then value bytes, follow the struct.
cdef struct Entry:
    Entry* previous             # older version of this key, NULL below the history floor
    uint64_t create_revision
    uint64_t mod_revision
    uint64_t version            # 1 at create, +1 at each change; 0 in a tombstone
    uint64_t lease
    uint64_t hash_low           # 128-bit hash of (metadata, key, value): the addend of the state hash
    uint64_t hash_high
    uint32_t value_length
    uint16_t key_length
    uint16_t flags              # ENTRY_*

# A position in one root. Not valid after the root is unpinned.
cdef struct Cursor:
    const Root* root
    const Entry* entry          # NULL: at the end
    void*[12] path              # leaf last
    int32_t[12] position
    int32_t depth

cdef inline const uint8_t* entry_key(const Entry* entry) noexcept nogil:
    return <const uint8_t*>entry + sizeof(Entry)

cdef inline const uint8_t* entry_value(const Entry* entry) noexcept nogil:
    return <const uint8_t*>entry + sizeof(Entry) + entry.key_length

cdef Tree* tree_create() noexcept nogil
cdef void tree_destroy(Tree* tree) noexcept nogil

# --- the writer ---------------------------------------------------------------------------------------------------------
# A new entry, not yet in the tree; key and value are copied, the hash is computed. NULL: no memory.
cdef Entry* tree_new_entry(Tree* tree, const uint8_t* key, uint16_t key_length, const uint8_t* value,
                           uint32_t value_length, uint64_t create_revision, uint64_t mod_revision, uint64_t version,
                           uint64_t lease, uint16_t flags) noexcept nogil
# Put entry in the place of its key; entry.previous becomes what was there. Tombstones stand in the tree as well.
cdef status_t tree_put(Tree* tree, Entry* entry) noexcept nogil
# Newest entry of key in the writer's view (a tombstone counts), NULL: none.
cdef Entry* tree_find(Tree* tree, const uint8_t* key, uint16_t key_length) noexcept nogil
# Take a tombstone out of the tree (history floor passed it).
cdef status_t tree_remove(Tree* tree, const uint8_t* key, uint16_t key_length) noexcept nogil
# Versions of this key below the history floor are given back when no reader can see them: after this call the
# chain ends at the newest version with mod_revision <= floor.
cdef void tree_cut_chain(Tree* tree, Entry* newest, uint64_t floor) noexcept nogil
# All changes since the last call become one new root that other threads can see.
cdef status_t tree_publish(Tree* tree, uint64_t revision) noexcept nogil
# Give back what no reader can see any more: bounded work, called between batches.
cdef void tree_reclaim(Tree* tree, uint32_t objects_max) noexcept nogil
cdef const Root* tree_writer_root(Tree* tree) noexcept nogil        # unpublished changes included; writer's thread only

# --- readers, any thread ------------------------------------------------------------------------------------------------
cdef const Root* tree_pin(Tree* tree) noexcept nogil                # newest published root
cdef void tree_unpin(Tree* tree, const Root* root) noexcept nogil
cdef uint64_t root_revision(const Root* root) noexcept nogil
cdef uint64_t root_count(const Root* root) noexcept nogil           # live keys, tombstones not counted
# The short read: between enter and leave the newest root cannot be freed. Only for callers that exclude one another (the
# GIL does); no wait in between. free-threaded builds use pin.
cdef const Root* tree_enter(Tree* tree) noexcept nogil
cdef void tree_leave(Tree* tree) noexcept nogil

cdef const Entry* root_find(const Root* root, const uint8_t* key, uint16_t key_length) noexcept nogil
# First entry with key >= the given one; entries in order by cursor_next. Tombstones are passed too.
cdef void cursor_seek(Cursor* cursor, const Root* root, const uint8_t* key, uint16_t key_length) noexcept nogil
cdef void cursor_next(Cursor* cursor) noexcept nogil
# Keys whose entry differs between two roots of one tree, in key order (whole shared subtrees are skipped).
cdef status_t root_difference(const Root* older, const Root* newer, Vec[Entry*]* changed, size_t changed_max,
                              const uint8_t* from_key, uint16_t from_length, bint* more) noexcept nogil

# --- bulk -----------------------------------------------------------------------------------------------------------------
# Entries in ascending key order into an empty tree, at 15/16 fill.
cdef status_t tree_load_begin(Tree* tree) noexcept nogil
cdef status_t tree_load(Tree* tree, Entry* entry) noexcept nogil
cdef status_t tree_load_end(Tree* tree, uint64_t revision) noexcept nogil

cdef uint64_t tree_count(const Tree* tree) noexcept nogil
cdef uint64_t tree_bytes(const Tree* tree) noexcept nogil           # allocated, retained free lists included
cdef Hash128 tree_hash(const Tree* tree) noexcept nogil             # sum of the hashes of live newest entries, mod 2^128
