# An ordered copy-on-write B+tree over entries, and the history of every key behind them.
#
# One writer. A node is copied only when a published root can still see it. Roots are pinned by readers and snapshots
# and are not the history: history is the chain Entry.previous plus the change log (raftmeta/machine/history). Readers
# take no lock that the writer takes: a reader that is preempted in the middle of anything delays only the freeing of
# memory. Sources: docs/decisions/state-tree.md.
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.machine.entry cimport (ENTRY_COUNTER, ENTRY_CUT, ENTRY_TOMBSTONE, ENTRY_ZNODE, Entry, ZnodeMeta, entry_at,
                                     entry_at_pinned, entry_data_length, entry_key, entry_meta, entry_previous,
                                     entry_value)
from raftmeta.machine.tree_state cimport TREE_DEPTH_MAX, Root, Tree
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport Bytes

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

# fanout: TREE_FANOUT_MIN at least; production takes TUNE_TREE_FANOUT, and small ones make deep trees for tests.
# bytes_max: of memory in use; beyond it every allocation fails, as it does when memory is out.
cdef Tree* tree_create_with(uint16_t fanout, uint64_t bytes_max) noexcept nogil
# No root may be pinned any more.
cdef void tree_destroy(Tree* tree) noexcept nogil

# --- the writer -------------------------------------------------------------------------------------------------------
# A new entry, not yet in the tree; key and value are copied, the hash is computed. NULL: no memory.
cdef Entry* tree_new_entry(Tree* tree, const uint8_t* key, uint16_t key_length, const uint8_t* value,
                           uint32_t value_length, uint64_t create_revision, uint64_t mod_revision, uint64_t version,
                           uint64_t lease, uint16_t flags) noexcept nogil
# The same of a znode, whose value is data, list of rights and meta in a row. meta.acl_length is set here.
cdef Entry* tree_new_znode(Tree* tree, const Bytes* key, const Bytes* data, const Bytes* acl, const ZnodeMeta* meta,
                           uint64_t create_revision, uint64_t mod_revision, uint64_t version, uint64_t lease,
                           uint16_t flags) noexcept nogil
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
cdef Hash128 tree_hash(const Tree* tree) noexcept nogil             # sum over live newest entries, mod 2^128
