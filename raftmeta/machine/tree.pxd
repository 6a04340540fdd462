# An ordered copy-on-write B+tree over entries, and the history of every key behind them.
#
# One writer. A node is copied only when a published root can still see it. Roots are pinned by readers and snapshots
# and are not the history: history is the chain Entry.previous plus the change log (raftmeta/machine/history). Readers
# take no lock that the writer takes: a reader that is preempted in the middle of anything delays only the freeing of
# memory. Sources: docs/decisions/state-tree.md.
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.machine.tree_state cimport TREE_DEPTH_MAX, Root, Tree
from raftmeta.native.atomics cimport load_acquire
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.status cimport status_t

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

# A position in one root. Not valid after the root is unpinned.
cdef struct Cursor:
    const Root* root
    const Entry* entry          # NULL: at the end
    void* path[TREE_DEPTH_MAX]             # root first, leaf last
    int32_t position[TREE_DEPTH_MAX]
    int32_t depth

# One key that differs between two roots.
cdef struct Difference:
    const Entry* older          # NULL: not in the older root
    const Entry* newer          # NULL: taken out since (its tombstone fell below the history floor)

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

cdef Tree* tree_create() noexcept nogil
# With another fanout (TREE_FANOUT_MIN at least; small ones make deep trees for tests) and a limit on the bytes in use,
# beyond which every allocation fails as it does when memory is out.
cdef Tree* tree_create_with(uint16_t fanout, uint64_t bytes_max) noexcept nogil
# No root may be pinned any more.
cdef void tree_destroy(Tree* tree) noexcept nogil

# --- the writer -------------------------------------------------------------------------------------------------------
# A new entry, not yet in the tree; key and value are copied, the hash is computed. NULL: no memory.
cdef Entry* tree_new_entry(Tree* tree, const uint8_t* key, uint16_t key_length, const uint8_t* value,
                           uint32_t value_length, uint64_t create_revision, uint64_t mod_revision, uint64_t version,
                           uint64_t lease, uint16_t flags) noexcept nogil
# Give back an entry that was never put.
cdef void tree_free_entry(Tree* tree, Entry* entry) noexcept nogil
# Put entry in the place of its key; entry.previous becomes what was there. Tombstones stand in the tree as well.
# NO_MEMORY: nothing changed, the entry is still the caller's.
cdef status_t tree_put(Tree* tree, Entry* entry) noexcept nogil
# Newest entry of key in the writer's view (a tombstone counts), NULL: none.
cdef Entry* tree_find(Tree* tree, const uint8_t* key, uint16_t key_length) noexcept nogil
# Take a tombstone and what is behind it out of the tree (history floor passed it). NOT_FOUND; INVARIANT_BROKEN: a live
# key; NO_MEMORY: it is still there.
cdef status_t tree_remove(Tree* tree, const uint8_t* key, uint16_t key_length) noexcept nogil
# Versions of this key below the history floor are given back when no reader can see them: after this call the
# chain ends at the newest version with mod_revision <= floor. `entry` is any version of the key above those: a caller
# that begins at the version of the change record that falls below the floor cuts in constant time. When memory is out
# some versions stay until the next cut.
cdef void tree_cut_chain(Tree* tree, Entry* entry, uint64_t floor) noexcept nogil
# All changes since the last call become one new root that other threads can see. `revision` is at least the
# mod_revision of every entry put: a root holds whole revisions only (else INVARIANT_BROKEN). NO_MEMORY: nothing is
# published, the call may be repeated.
cdef status_t tree_publish(Tree* tree, uint64_t revision) noexcept nogil
# Give back what no reader can see any more: at most objects_max objects and one look at every live root, between
# batches.
cdef void tree_reclaim(Tree* tree, uint32_t objects_max) noexcept nogil
# Objects that newer roots do not see and that cannot go before this pinned root does, as far as tree_reclaim has come.
# The writer's thread only.
cdef uint64_t tree_pinned(const Root* root) noexcept nogil
cdef const Root* tree_writer_root(Tree* tree) noexcept nogil        # unpublished changes included; writer's thread only

# --- readers, any thread ----------------------------------------------------------------------------------------------
cdef const Root* tree_pin(Tree* tree) noexcept nogil                # newest published root
cdef void tree_unpin(Tree* tree, const Root* root) noexcept nogil
cdef uint64_t root_revision(const Root* root) noexcept nogil
cdef uint64_t root_count(const Root* root) noexcept nogil           # live keys, tombstones not counted
cdef Hash128 root_hash(const Root* root) noexcept nogil
# The short read: between enter and leave the newest root cannot be freed. Only for callers that exclude one another
# (the GIL does); no wait in between. free-threaded builds use pin.
cdef const Root* tree_enter(Tree* tree) noexcept nogil
cdef void tree_leave(Tree* tree) noexcept nogil

cdef const Entry* root_find(const Root* root, const uint8_t* key, uint16_t key_length) noexcept nogil
# First entry with key >= the given one; entries in order by cursor_next. Tombstones are passed too.
cdef void cursor_seek(Cursor* cursor, const Root* root, const uint8_t* key, uint16_t key_length) noexcept nogil
cdef void cursor_next(Cursor* cursor) noexcept nogil
# Keys >= from_key whose entry differs between two roots of one tree, in key order, appended to `changed` (whole shared
# subtrees are skipped). *more: changed_max was reached; go on from the key after the last.
cdef status_t root_difference(const Root* older, const Root* newer, Vec[Difference]* changed, size_t changed_max,
                              const uint8_t* from_key, uint16_t from_length, bint* more) noexcept nogil

# --- bulk -------------------------------------------------------------------------------------------------------------
# Entries in ascending key order into an empty tree, at 15/16 fill; entry.previous stays as the caller set it. Nothing
# is found or published between begin and end. BAD_FIELD: not ascending; ALREADY: not empty. After any status but OK the
# tree may only be destroyed.
cdef status_t tree_load_begin(Tree* tree) noexcept nogil
cdef status_t tree_load(Tree* tree, Entry* entry) noexcept nogil
cdef status_t tree_load_end(Tree* tree, uint64_t revision) noexcept nogil

cdef uint64_t tree_count(const Tree* tree) noexcept nogil
cdef uint64_t tree_bytes(const Tree* tree) noexcept nogil           # taken from the system, free lists included
cdef uint64_t tree_used_bytes(const Tree* tree) noexcept nogil      # of those, in use: entries, nodes, roots, lists
cdef Hash128 tree_hash(const Tree* tree) noexcept nogil             # sum over live newest entries, mod 2^128
