# The changes an entry is going to make: evaluated whole first, made afterwards, so that a refusal leaves nothing
# behind.
#
# A key stands in a plan once, however often the entry writes it: the last write wins, and what an entry reads is the
# state with its earlier writes. A key deleted and written again in one entry is a new key (create revision,
# version 1), so a fence on the old one is void. A key made and deleted in one entry is no change at all.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp

from raftmeta.machine.entry cimport ZnodeMeta
from raftmeta.machine.tree cimport ENTRY_TOMBSTONE, Entry
from raftmeta.machine.tree_state cimport Tree
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes, KeyView

# A key as the entry leaves it; before the first write of the entry, as it finds it.
cdef struct Planned:
    Bytes key
    Bytes value
    Entry* before               # newest entry of the key in the tree, a tombstone counts; NULL: none
    uint64_t create_revision
    uint64_t mod_revision
    uint64_t version            # 0: deleted
    uint64_t lease
    uint16_t flags              # ENTRY_*
    uint32_t znode              # place in Plan.znodes, counted from 1; 0: it is none, or its value and extension stay

# The extension of a planned znode. Planned.value is its data alone.
cdef struct PlannedZnode:
    uint32_t change             # place in Plan.changes
    Bytes acl
    ZnodeMeta meta

cdef struct Plan:
    Tree* tree
    uint64_t revision           # that the changes get
    uint32_t changes_max        # CHANGES_MAX; more where leases end, which must not get stuck
    Vec[PlannedZnode] znodes
    Vec[Planned] changes        # in the order of first touch
    Vec[uint32_t] by_key        # positions in changes, in key order
    Vec[uint8_t*] rooms         # values and keys that the entry makes up one by one (plan_room)
    uint32_t groups             # groups that it writes
    Vec[uint8_t] scratch        # keys built from results, and counters; room for all is reserved before the first
    uint32_t made               # changes[0, made) stand in the tree

cdef inline bint is_live(const Entry* entry) noexcept nogil:
    return entry != NULL and not entry.flags & ENTRY_TOMBSTONE

cdef inline bint planned_is_live(const Planned* planned) noexcept nogil:
    return not planned.flags & ENTRY_TOMBSTONE

# False for a key that was made and deleted within the entry.
cdef inline bint planned_is_change(const Planned* planned) noexcept nogil:
    return planned_is_live(planned) or is_live(planned.before)

# Keys and values compare as unsigned bytes.
cdef inline int compare_bytes(const uint8_t* left, size_t left_length, const uint8_t* right,
                              size_t right_length) noexcept nogil:
    cdef size_t common = left_length if left_length < right_length else right_length
    cdef int order = memcmp(left, right, common) if common else 0
    if order == 0 and left_length != right_length:
        order = -1 if left_length < right_length else 1
    return order

cdef void entry_view(const Entry* entry, KeyView* view) noexcept nogil
cdef void planned_view(const Planned* planned, KeyView* view) noexcept nogil

cdef void plan_release(Plan* plan) noexcept nogil
cdef void plan_clear(Plan* plan, Tree* tree, uint64_t revision) noexcept nogil
# The key as the entry sees it now. False: it does not exist.
cdef bint plan_view(Plan* plan, const Bytes* key, KeyView* view) noexcept nogil
# So many bytes that stay where they are until the next entry. NULL: no memory.
cdef uint8_t* plan_room(Plan* plan, uint32_t length) noexcept nogil
# The planned change of key, NULL: the entry did not touch it. Valid as that of plan_touch.
cdef Planned* plan_find(Plan* plan, const Bytes* key) noexcept nogil
# The planned change of key, added as no change if there is none. TOO_MANY_CHANGES beyond changes_max keys, NO_MEMORY.
# The pointer is valid until the next plan_touch.
cdef status_t plan_touch(Plan* plan, const Bytes* key, Planned** planned) noexcept nogil
# The extension of a planned change, which becomes a znode's: as found, or zeroed. NULL: no memory. Valid until the
# next.
cdef PlannedZnode* plan_znode(Plan* plan, Planned* planned) noexcept nogil
cdef void plan_put(Plan* plan, Planned* planned, const Bytes* value, uint64_t lease, uint16_t flags) noexcept nogil
cdef void plan_delete(Plan* plan, Planned* planned) noexcept nogil
# Append the first `most` keys of [key, end) as the entry sees them; end empty: to the last key. *count: how many keys
# there are, counted no further than count_max. NO_MEMORY.
cdef status_t plan_range(Plan* plan, const Bytes* key, const Bytes* end, uint32_t most, uint32_t count_max,
                         Vec[KeyView]* views, uint32_t* count) noexcept nogil
# Changes the plan will make to the tree.
cdef uint32_t plan_changes(Plan* plan) noexcept nogil
