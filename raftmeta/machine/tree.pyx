"""The state tree. The first page of tree.pxd says what it decides and promises; the search inside a node is in
tree_node.pxd, the shapes are in tree_state.pxd.

Three rules keep it consistent at every step, also when memory runs out in the middle of a call:
  1. A node is changed only if its birth is the number being written; any other is copied first (_writable).
2. All that a published root may still see goes to the dead of the root being written, and room for that is made
     before the first change (_reserve_dead).
  3. Each single step (copy a node, split a child, move a slot) leaves a tree that answers as before.
Invariants: no node but a leaf that is the root is empty; a node above leaves that is the root has two children or
more (bulk load excepted, which may leave one at the right edge of inner levels).
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free
from libc.string cimport memcpy, memset

from raftmeta.machine.invariants cimport (
    BROKEN_TREE_DEPTH, BROKEN_TREE_EMPTY, BROKEN_TREE_PUBLISHED_BACK, BROKEN_TREE_PUT_BACK, BROKEN_TREE_REMOVED_LIVE)
from raftmeta.machine.slab cimport slab_allocate, slab_destroy, slab_free
from raftmeta.machine.state_hash cimport hash_minus, hash_plus
from raftmeta.machine.tree_node cimport (
    child_insert, child_position, common_length, compare_bytes, leaf_find, leaf_find_near, leaf_has_gap, leaf_insert,
    leaf_place, leaf_position, leaf_search, node_children, node_entries, node_heads, node_length, node_prefetch,
    node_refresh, node_separators, separator_bytes, slot_remove, slots_move)
from raftmeta.machine.tree_state cimport (
    DEAD_ENTRY, DEAD_KIND_MASK, DEAD_NODE, DEAD_SEPARATOR, TREE_DEAD_PER_BLOCK, TREE_DEPTH_MAX, TREE_FANOUT_MIN,
    TREE_PIN_SLOTS, Dead, DeadBlock, DeadList, Node, Root, Separator, Tree)
from raftmeta.native.atomics cimport (
    add_shared, give_way, load_acquire, load_shared, store_release, store_shared, subtract_shared, swap_shared)
from raftmeta.native.intrinsics cimport hash128
from raftmeta.native.invariants cimport broken
from raftmeta.native.prefetch cimport prefetch
from raftmeta.status cimport ALREADY, BAD_FIELD, NO_MEMORY, NOT_FOUND, OK


cdef extern from "<stdlib.h>" nogil:
    void* aligned_alloc(size_t alignment, size_t length)

ctypedef const Root* const_root_t

cdef enum:
    FORMAT_ENTRY_HASH_SEED = 0x656E747279   # "entry"
    HASHED_FIELDS_BYTES = 40                # from create_revision to the key
    TUNE_DEAD_AHEAD = 4                     # dead objects that are asked for before their turn
    TREE_ALIGNMENT = 128                    # two cache lines: adjacent ones are fetched in pairs


# --- objects ----------------------------------------------------------------------------------------------------------

cdef Node* _new_node(Tree* tree, uint8_t level) noexcept nogil:
    cdef Node* node = <Node*>slab_allocate(&tree.slab, node_length(tree.fanout, level))
    if node != NULL:
        node.birth = tree.writing.number
        node.count = 0
        node.capacity = tree.fanout
        node.prefix_length = 0
        node.level = level
    return node


cdef inline void _free_node(Tree* tree, Node* node) noexcept nogil:
    if tree.near == node:
        tree.near = NULL
    if tree.gap == node:
        tree.gap = NULL
    slab_free(&tree.slab, node, node_length(node.capacity, node.level))


cdef Separator* _new_separator(Tree* tree, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef Separator* separator = <Separator*>slab_allocate(&tree.slab, sizeof(Separator) + length)
    if separator != NULL:
        separator.birth = tree.writing.number
        separator.length = length
        memcpy(<uint8_t*>separator_bytes(separator), bytes, length)
    return separator


cdef inline void _free_separator(Tree* tree, Separator* separator) noexcept nogil:
    slab_free(&tree.slab, separator, sizeof(Separator) + separator.length)


# The shortest beginning of `right` that is above `left`.
cdef inline Separator* _separator_between(Tree* tree, const Entry* left, const Entry* right) noexcept nogil:
    cdef uint32_t shared = common_length(entry_key(left), left.key_length, entry_key(right), right.key_length)
    return _new_separator(tree, entry_key(right), shared + 1)


# All of an entry but its value.
cdef inline Entry* _new_entry(Tree* tree, const uint8_t* key, uint16_t key_length, uint32_t value_length,
                              uint64_t create_revision, uint64_t mod_revision, uint64_t version, uint64_t lease,
                              uint16_t flags) noexcept nogil:
    cdef size_t payload = <size_t>key_length + value_length
    cdef Entry* entry = <Entry*>slab_allocate(&tree.slab, sizeof(Entry) + payload)
    if entry == NULL:
        return NULL
    entry.previous = NULL
    entry.create_revision = create_revision
    entry.mod_revision = mod_revision
    entry.version = version
    entry.lease = lease
    entry.value_length = value_length
    entry.key_length = key_length
    entry.flags = flags
    memcpy(<uint8_t*>entry_key(entry), key, key_length)
    return entry


cdef Entry* tree_new_entry(Tree* tree, const uint8_t* key, uint16_t key_length, const uint8_t* value,
                           uint32_t value_length, uint64_t create_revision, uint64_t mod_revision, uint64_t version,
                           uint64_t lease, uint16_t flags) noexcept nogil:
    cdef Entry* entry = _new_entry(tree, key, key_length, value_length, create_revision, mod_revision, version, lease,
                                   flags)
    if entry != NULL and value_length:
        memcpy(<uint8_t*>entry_value(entry), value, value_length)
    return entry


cdef Entry* tree_new_znode(Tree* tree, const Bytes* key, const Bytes* data, const Bytes* acl, const ZnodeMeta* meta,
                           uint64_t create_revision, uint64_t mod_revision, uint64_t version, uint64_t lease,
                           uint16_t flags) noexcept nogil:
    cdef Entry* entry = _new_entry(tree, key.data, <uint16_t>key.length,
                                   data.length + acl.length + <uint32_t>sizeof(ZnodeMeta), create_revision,
                                   mod_revision, version, lease, flags)
    cdef ZnodeMeta whole = meta[0]
    cdef uint8_t* at
    if entry == NULL:
        return NULL
    at = <uint8_t*>entry_value(entry)
    if data.length:
        memcpy(at, data.data, data.length)
    if acl.length:
        memcpy(at + data.length, acl.data, acl.length)
    whole.acl_length = acl.length
    memcpy(at + data.length + acl.length, &whole, sizeof(ZnodeMeta))
    return entry


cdef void tree_free_entry(Tree* tree, Entry* entry) noexcept nogil:
    slab_free(&tree.slab, entry, sizeof(Entry) + entry.key_length + <size_t>entry.value_length)


cdef void _free_object(Tree* tree, uint64_t object) noexcept nogil:
    cdef uint64_t kind = object & DEAD_KIND_MASK
    cdef void* memory = <void*>(object & ~<uint64_t>DEAD_KIND_MASK)
    if kind == DEAD_NODE:
        _free_node(tree, <Node*>memory)
    elif kind == DEAD_SEPARATOR:
        _free_separator(tree, <Separator*>memory)
    else:
        tree_free_entry(tree, <Entry*>memory)


# --- the dead ---------------------------------------------------------------------------------------------------------

# Room for `count` more, at most one block's worth.
cdef bint _reserve_dead(Tree* tree, DeadList* dead, uint32_t count) noexcept nogil:
    cdef DeadBlock* block
    if dead.spare != NULL or (dead.final != NULL and dead.final.end + count <= TREE_DEAD_PER_BLOCK):
        return True
    block = <DeadBlock*>slab_allocate(&tree.slab, sizeof(DeadBlock))
    if block == NULL:
        return False
    block.next = NULL
    block.first = 0
    block.end = 0
    dead.spare = block
    return True


# Room was reserved.
cdef inline void _push_dead(DeadList* dead, uint64_t object, uint64_t birth) noexcept nogil:
    cdef DeadBlock* block = dead.final
    if block == NULL or block.end == TREE_DEAD_PER_BLOCK:
        if block == NULL:
            dead.first = dead.spare
        else:
            block.next = dead.spare
        block = dead.spare
        dead.final = block
        dead.spare = NULL
    block.items[block.end].object = object
    block.items[block.end].birth = birth
    block.end += 1
    dead.count += 1


cdef void _pop_dead(Tree* tree, DeadList* dead) noexcept nogil:
    cdef DeadBlock* block = dead.first
    block.first += 1
    dead.count -= 1
    if block.first == block.end:
        dead.first = block.next
        if dead.first == NULL:
            dead.final = NULL
        slab_free(&tree.slab, block, sizeof(DeadBlock))


cdef inline void _bury_node(Tree* tree, Node* node) noexcept nogil:
    if node.birth == tree.writing.number:
        _free_node(tree, node)
    else:
        _push_dead(&tree.writing.dead, <uint64_t>node | DEAD_NODE, node.birth)


cdef inline void _bury_separator(Tree* tree, Separator* separator) noexcept nogil:
    if separator.birth == tree.writing.number:
        _free_separator(tree, separator)
    else:
        _push_dead(&tree.writing.dead, <uint64_t>separator | DEAD_SEPARATOR, separator.birth)


cdef inline void _bury_entry(Tree* tree, Entry* entry) noexcept nogil:
    if entry.mod_revision > tree.published.revision:
        tree_free_entry(tree, entry)
    else:
        _push_dead(&tree.writing.dead, <uint64_t>entry | DEAD_ENTRY, entry.mod_revision)


# --- life of a tree ---------------------------------------------------------------------------------------------------

cdef Tree* tree_create_with(uint16_t fanout, uint64_t bytes_max) noexcept nogil:
    cdef size_t length = (sizeof(Tree) + TREE_ALIGNMENT - 1) & ~<size_t>(TREE_ALIGNMENT - 1)
    cdef Tree* tree
    if fanout < TREE_FANOUT_MIN:
        return NULL
    tree = <Tree*>aligned_alloc(TREE_ALIGNMENT, length)
    if tree == NULL:
        return NULL
    memset(tree, 0, length)
    tree.slab.bytes_max = bytes_max
    tree.fanout = fanout
    tree.writing.number = 1
    tree.writing.node = _new_node(tree, 0)
    # The empty tree is published, so that there always is a root to pin.
    if tree.writing.node == NULL or tree_publish(tree, 0) != OK:
        tree_destroy(tree)
        return NULL
    return tree


cdef void tree_destroy(Tree* tree) noexcept nogil:
    slab_destroy(&tree.slab)
    free(tree)


# --- changing: the way down -------------------------------------------------------------------------------------------

# The node at *place as one that may be changed: itself, or a copy if a published root can see it. NULL: no memory.
cdef inline Node* _writable(Tree* tree, Node** place) noexcept nogil:
    cdef Node* node = place[0]
    cdef Node* copy
    if node.birth == tree.writing.number:
        return node
    copy = _new_node(tree, node.level)
    if copy == NULL:
        return NULL
    copy.count = node.count
    copy.prefix_length = node.prefix_length
    memcpy(node_heads(copy), node_heads(node), <size_t>node.count * 8)
    memcpy(node_children(copy), node_children(node), <size_t>node.count * 8)
    if node.level:
        memcpy(node_separators(copy), node_separators(node), <size_t>node.count * 8)
    _push_dead(&tree.writing.dead, <uint64_t>node | DEAD_NODE, node.birth)
    if tree.near == node:
        tree.near = copy
    if tree.gap == node:
        tree.gap = copy
    place[0] = copy
    return copy


# Child `position` of parent is full: its upper part becomes the next child. Ascending keys leave full nodes behind.
cdef status_t _split_child(Tree* tree, Node* parent, uint32_t position, bint at_right_edge) noexcept nogil:
    cdef Node* left = node_children(parent)[position]
    cdef Node* right = _new_node(tree, left.level)
    cdef Separator* separator
    cdef uint32_t moved = left.capacity >> (4 if at_right_edge else 1)
    cdef uint32_t kept = left.count - (moved if moved else 1)
    if right == NULL:
        return NO_MEMORY
    if left.level:
        separator = node_separators(left)[kept]
        slots_move(right, left, kept)
        node_separators(right)[0] = NULL
    else:
        separator = _separator_between(tree, node_entries(left)[kept - 1], node_entries(left)[kept])
        if separator == NULL:
            _free_node(tree, right)
            return NO_MEMORY
        slots_move(right, left, kept)
    node_refresh(left)
    node_refresh(right)
    child_insert(parent, position + 1, separator, right)
    return OK


# The root is full: a new one above it, with the old one as its only child until that is split.
cdef status_t _raise_root(Tree* tree) noexcept nogil:
    cdef Node* old = tree.writing.node
    cdef Node* root
    cdef status_t status
    if old.level + 1 == TREE_DEPTH_MAX:
        return broken(&tree.broken, BROKEN_TREE_DEPTH, old.level + 1, TREE_DEPTH_MAX)
    root = _new_node(tree, old.level + 1)
    if root == NULL:
        return NO_MEMORY
    root.count = 1
    node_children(root)[0] = old
    node_separators(root)[0] = NULL
    status = _split_child(tree, root, 0, False)
    if status != OK:
        _free_node(tree, root)
        return status
    tree.writing.node = root
    return OK


# The leaf in which the key belongs, with all nodes above it, ready to be changed and with room for one slot.
cdef status_t _open_leaf(Tree* tree, const uint8_t* key, uint16_t key_length, Node** leaf) noexcept nogil:
    cdef Node* node = _writable(tree, &tree.writing.node)
    cdef Node* child
    cdef uint32_t position
    cdef bint at_right_edge = True
    cdef status_t status
    if node == NULL:
        return NO_MEMORY
    if node.count == node.capacity:
        status = _raise_root(tree)
        if status != OK:
            return status
        node = tree.writing.node
    while node.level:
        position = child_position(node, key, key_length)
        at_right_edge = at_right_edge and position + 1 == node.count
        child = _writable(tree, &node_children(node)[position])
        if child == NULL:
            return NO_MEMORY
        if child.count == child.capacity:
            status = _split_child(tree, node, position, at_right_edge)
            if status != OK:
                return status
            position = child_position(node, key, key_length)
            child = node_children(node)[position]
        node = child
    leaf[0] = node
    return OK


cdef inline Hash128 _hash_of(const Entry* entry) noexcept nogil:
    return hash128(FORMAT_ENTRY_HASH_SEED, &entry.create_revision,
                   HASHED_FIELDS_BYTES + entry.key_length + <size_t>entry.value_length)


# The newest version of a key changes from `older` to `newer`; NULL: the key is not in the tree.
cdef inline void _account(Tree* tree, const Entry* older, const Entry* newer) noexcept nogil:
    if older != NULL and not older.flags & ENTRY_TOMBSTONE:
        tree.writing.hash = hash_minus(tree.writing.hash, _hash_of(older))
        tree.writing.count -= 1
    if newer != NULL and not newer.flags & ENTRY_TOMBSTONE:
        tree.writing.hash = hash_plus(tree.writing.hash, _hash_of(newer))
        tree.writing.count += 1


# One way down: a node, a sibling and a separator for each level, and an entry.
cdef inline bint _reserve_way(Tree* tree) noexcept nogil:
    return _reserve_dead(tree, &tree.writing.dead, 3 * (TREE_DEPTH_MAX + 1))


cdef inline void _meet(Tree* tree, Node* leaf, int position) noexcept nogil:
    tree.near = leaf
    tree.near_position = <uint32_t>position


# Whether the key stands where the last one was met, or right behind it; then it is met. A key is found and then put,
# and keys often come in order: both spare the way down.
cdef inline bint _is_near(Tree* tree, const uint8_t* key, uint16_t key_length) noexcept nogil:
    cdef int position = leaf_find_near(tree.near, tree.near_position, key, key_length)
    if position < 0:
        return False
    if <uint32_t>position > tree.near_position and position + 2 < tree.near.count:
        prefetch(node_entries(tree.near)[position + 2])     # soon to be met, if they go on in order
    tree.near_position = <uint32_t>position
    return True


# Versions of a key come in the order of their revisions.
cdef inline status_t _replace(Tree* tree, Node* leaf, int position, Entry* entry) noexcept nogil:
    cdef Entry* older = node_entries(leaf)[position]
    if older.mod_revision > entry.mod_revision:
        return broken(&tree.broken, BROKEN_TREE_PUT_BACK, entry.mod_revision, older.mod_revision)
    entry.previous = older
    node_entries(leaf)[position] = entry
    _account(tree, older, entry)
    return OK


# The next new key often belongs right behind this one.
cdef inline void _insert(Tree* tree, Node* leaf, uint32_t position, Entry* entry) noexcept nogil:
    entry.previous = NULL
    leaf_insert(leaf, position, entry)
    _account(tree, NULL, entry)
    _meet(tree, leaf, <int>position)
    tree.gap = leaf
    tree.gap_position = position


cdef inline status_t _put_from_root(Tree* tree, Entry* entry) noexcept nogil:
    cdef const uint8_t* key = entry_key(entry)
    cdef Node* leaf = NULL
    cdef uint32_t bound = 0
    cdef int position
    cdef status_t status
    if not _reserve_way(tree):
        return NO_MEMORY
    status = _open_leaf(tree, key, entry.key_length, &leaf)
    if status != OK:
        return status
    position = leaf_search(leaf, key, entry.key_length, &bound)
    if position < 0:
        _insert(tree, leaf, leaf_place(leaf, key, entry.key_length, bound), entry)
        return OK
    _meet(tree, leaf, position)
    return _replace(tree, leaf, position, entry)


cdef status_t tree_put(Tree* tree, Entry* entry) noexcept nogil:
    cdef const uint8_t* key = entry_key(entry)
    cdef uint64_t number = tree.writing.number
    cdef status_t status = OK
    # A leaf that may be changed has only nodes above it that may.
    if tree.near != NULL and tree.near.birth == number and _is_near(tree, key, entry.key_length):
        status = _replace(tree, tree.near, <int>tree.near_position, entry)
    elif (tree.gap != NULL and tree.gap.birth == number and tree.gap.count < tree.gap.capacity
            and leaf_has_gap(tree.gap, tree.gap_position, key, entry.key_length)):
        _insert(tree, tree.gap, tree.gap_position + 1, entry)
    else:
        status = _put_from_root(tree, entry)
    if status == OK and entry.mod_revision > tree.revision_max:
        tree.revision_max = entry.mod_revision
    return status


cdef Entry* tree_find(Tree* tree, const uint8_t* key, uint16_t key_length) noexcept nogil:
    cdef Node* leaf
    cdef uint32_t bound = 0
    cdef int position
    if tree.near != NULL and _is_near(tree, key, key_length):
        return node_entries(tree.near)[tree.near_position]
    if tree.gap != NULL and leaf_has_gap(tree.gap, tree.gap_position, key, key_length):
        return NULL
    leaf = _leaf_of(&tree.writing, key, key_length)
    position = leaf_search(leaf, key, key_length, &bound)
    if position < 0:
        tree.gap = leaf
        tree.gap_position = bound - 1 if bound else 0
        return NULL
    _meet(tree, leaf, position)
    return node_entries(leaf)[position]


# --- changing: taking out ---------------------------------------------------------------------------------------------

cdef void _drop_child(Tree* tree, Node* parent, uint32_t position) noexcept nogil:
    cdef Separator* separator = node_separators(parent)[position]
    if position == 0 and parent.count > 1:
        separator = node_separators(parent)[1]
    slot_remove(parent, position)
    if parent.count and position == 0:
        node_separators(parent)[0] = NULL
    if separator != NULL:
        _bury_separator(tree, separator)


# Join child `position` with the one after it if both fill at most three quarters of a node. Without memory they stay
# two.
cdef void _join_children(Tree* tree, Node* parent, uint32_t position) noexcept nogil:
    cdef Node* right = node_children(parent)[position + 1]
    cdef Node* left = node_children(parent)[position]
    cdef uint32_t kept = left.count
    cdef Separator* separator = node_separators(parent)[position + 1]
    cdef Node* copy
    if left.count + right.count > left.capacity - left.capacity // 4:
        return
    left = _writable(tree, &node_children(parent)[position])
    copy = _writable(tree, &node_children(parent)[position + 1]) if left != NULL else NULL
    if copy == NULL:
        return
    slots_move(left, copy, 0)
    if left.level:
        node_separators(left)[kept] = separator
    else:
        _bury_separator(tree, separator)
    node_refresh(left)
    slot_remove(parent, position + 1)
    _free_node(tree, copy)


# After a slot went out of the lowest of `depth` nodes: empty nodes are dropped, small ones joined, up to the root.
cdef void _shrink_path(Tree* tree, Node** path, const uint32_t* positions, uint32_t depth) noexcept nogil:
    cdef uint32_t level = depth - 1
    cdef Node* node
    cdef Node* parent
    while level > 0:
        node = path[level]
        parent = path[level - 1]
        if node.count == 0:
            _drop_child(tree, parent, positions[level - 1])
            _free_node(tree, node)
        elif node.count * 4 < node.capacity and parent.count > 1:
            _join_children(tree, parent, positions[level - 1] - (positions[level - 1] + 1 == parent.count))
        level -= 1
    while tree.writing.node.level and tree.writing.node.count == 1:
        node = tree.writing.node
        tree.writing.node = node_children(node)[0]
        _bury_node(tree, node)


# Take the slot of a key that is in the tree out of it.
cdef status_t _remove_slot(Tree* tree, const uint8_t* key, uint16_t key_length) noexcept nogil:
    cdef Node* path[TREE_DEPTH_MAX]
    cdef uint32_t positions[TREE_DEPTH_MAX]
    cdef uint32_t depth = 0
    cdef Node** place = &tree.writing.node
    cdef Node* node
    if not _reserve_way(tree):
        return NO_MEMORY
    while True:
        node = _writable(tree, place)
        if node == NULL:
            return NO_MEMORY
        path[depth] = node
        depth += 1
        if node.level == 0:
            break
        positions[depth - 1] = child_position(node, key, key_length)
        place = &node_children(node)[positions[depth - 1]]
    slot_remove(node, <uint32_t>leaf_find(node, key, key_length))
    _shrink_path(tree, path, positions, depth)
    return OK


cdef inline Entry* _behind(const Entry* entry) noexcept nogil:
    if <uint64_t>entry.previous & ENTRY_CUT:
        return NULL
    return entry.previous


# Everything behind `entry` dies, the oldest first, so that the chain is whole at every step. Links stay readable to
# whoever pinned a root before (entry_at_pinned). There is one version in a chain cut as soon as the floor passes it.
cdef status_t _bury_behind(Tree* tree, Entry* entry) noexcept nogil:
    cdef Entry* newer
    cdef Entry* oldest
    while _behind(entry) != NULL:
        if not _reserve_dead(tree, &tree.writing.dead, 1):
            return NO_MEMORY
        newer = entry
        oldest = _behind(entry)
        while _behind(oldest) != NULL:
            newer = oldest
            oldest = _behind(oldest)
        store_release(&newer.previous, <Entry*>(<uint64_t>oldest | ENTRY_CUT))
        _bury_entry(tree, oldest)
    return OK


cdef void tree_cut_chain(Tree* tree, Entry* entry, uint64_t floor) noexcept nogil:
    while entry != NULL and entry.mod_revision > floor:
        entry = _behind(entry)
    if entry != NULL:
        _bury_behind(tree, entry)


cdef status_t tree_remove(Tree* tree, const uint8_t* key, uint16_t key_length) noexcept nogil:
    cdef Entry* entry = tree_find(tree, key, key_length)
    cdef status_t status
    if entry == NULL:
        return NOT_FOUND
    if not entry.flags & ENTRY_TOMBSTONE:
        return broken(&tree.broken, BROKEN_TREE_REMOVED_LIVE, entry.mod_revision, tree.revision_max)
    status = _bury_behind(tree, entry)
    if status == OK:
        status = _remove_slot(tree, key, key_length)
    if status != OK:
        return status
    _bury_entry(tree, entry)
    return OK


# --- publishing and reclaiming ----------------------------------------------------------------------------------------

cdef status_t tree_publish(Tree* tree, uint64_t revision) noexcept nogil:
    cdef Root* newest = tree.published
    cdef Root* root
    if revision < tree.revision_max:
        return broken(&tree.broken, BROKEN_TREE_PUBLISHED_BACK, revision, tree.revision_max)
    if newest != NULL and revision < newest.revision:
        return broken(&tree.broken, BROKEN_TREE_PUBLISHED_BACK, revision, newest.revision)
    if tree.writing.count == 0 and (tree.writing.hash.low | tree.writing.hash.high) != 0:
        return broken(&tree.broken, BROKEN_TREE_EMPTY, tree.writing.hash.low, tree.writing.hash.high)
    if (newest != NULL and newest.node == tree.writing.node and newest.revision == revision
            and tree.writing.dead.first == NULL):
        return OK
    root = <Root*>slab_allocate(&tree.slab, sizeof(Root))
    if root == NULL:
        return NO_MEMORY
    tree.writing.revision = revision
    root[0] = tree.writing
    root.older = newest
    root.newer = NULL
    if newest == NULL:
        tree.oldest = root
    else:
        newest.newer = root
    root.dead.spare = NULL
    tree.writing.dead.first = NULL
    tree.writing.dead.final = NULL
    tree.writing.dead.count = 0
    tree.writing.number += 1
    store_shared(&tree.published, root)
    return OK


# A pin is first named in a slot and then counted, so the slots are read before the count:
#   1. a reader names R in its slot and sees that R still is the newest root;
#   2. the writer publishes S;
#   3. the writer looks at the slots. It finds R, or the reader has counted its pin and cleared the slot before;
#   4. the writer looks at the count, and then finds the pin there.
# A reader that names R after 3 sees that S is published, and names S instead.
cdef bint _is_held(Tree* tree, Root* root) noexcept nogil:
    cdef int slot
    if load_shared(&tree.entered) == root:
        return True
    for slot in range(TREE_PIN_SLOTS):
        if load_shared(&tree.pinning[slot]) == root:
            return True
    return load_shared(&root.pins) != 0


# Drop a root that nobody holds: what its successor no longer sees is free, unless an older root sees it; those go on
# waiting in the successor's list. Returns what is left of the budget; 0: call again.
cdef uint32_t _drop_root(Tree* tree, Root* root, uint32_t budget) noexcept nogil:
    cdef Root* newer = root.newer
    cdef Root* older = root.older
    cdef DeadBlock* block
    cdef Dead* item
    cdef uint64_t seen_by
    while newer.dead.first != NULL:
        if budget == 0:
            return 0
        budget -= 1
        block = newer.dead.first
        item = &block.items[block.first]
        if block.first + TUNE_DEAD_AHEAD < block.end:
            prefetch(<void*>block.items[block.first + TUNE_DEAD_AHEAD].object)
        if older != NULL:
            seen_by = older.revision if item.object & DEAD_KIND_MASK == DEAD_ENTRY else older.number
            if item.birth <= seen_by:
                if not _reserve_dead(tree, &root.dead, 1):
                    return 0
                _push_dead(&root.dead, item.object, item.birth)
                _pop_dead(tree, &newer.dead)
                continue
        _free_object(tree, item.object)
        _pop_dead(tree, &newer.dead)
    if newer.dead.spare != NULL:
        slab_free(&tree.slab, newer.dead.spare, sizeof(DeadBlock))
    newer.dead = root.dead
    newer.older = older
    if older == NULL:
        tree.oldest = newer
    else:
        older.newer = newer
    slab_free(&tree.slab, root, sizeof(Root))
    return budget


cdef void tree_reclaim(Tree* tree, uint32_t objects_max) noexcept nogil:
    cdef Root* root = tree.oldest
    cdef Root* newer
    while root != tree.published and objects_max:
        newer = root.newer
        if not _is_held(tree, root):
            objects_max = _drop_root(tree, root, objects_max)
        root = newer


# --- readers ----------------------------------------------------------------------------------------------------------

cdef const Root* tree_writer_root(Tree* tree) noexcept nogil:
    return &tree.writing


cdef const Root* tree_pin(Tree* tree) noexcept nogil:
    cdef Root* root = load_acquire(&tree.published)
    cdef Root* newest
    cdef uint32_t slot = 0
    while not swap_shared[const_root_t](&tree.pinning[slot], NULL, root):
        slot = (slot + 1) % TREE_PIN_SLOTS
        if slot == 0:
            give_way()
    newest = load_shared(&tree.published)
    while newest != root:
        root = newest
        store_shared[const_root_t](&tree.pinning[slot], root)
        newest = load_shared(&tree.published)
    add_shared[uint64_t](&root.pins, 1)
    store_shared[const_root_t](&tree.pinning[slot], NULL)
    return root


cdef void tree_unpin(Tree* tree, const Root* root) noexcept nogil:
    subtract_shared[uint64_t](&(<Root*>root).pins, 1)


cdef const Root* tree_enter(Tree* tree) noexcept nogil:
    cdef Root* root = load_acquire(&tree.published)
    cdef Root* newest
    while True:
        store_shared[const_root_t](&tree.entered, root)
        newest = load_shared(&tree.published)
        if newest == root:
            return root
        root = newest


cdef void tree_leave(Tree* tree) noexcept nogil:
    store_release[const_root_t](&tree.entered, NULL)


cdef uint64_t tree_pinned(const Root* root) noexcept nogil:
    return root.newer.dead.count if root.newer != NULL else 0


cdef uint64_t root_revision(const Root* root) noexcept nogil:
    return root.revision


cdef uint64_t root_count(const Root* root) noexcept nogil:
    return root.count


cdef inline Node* _leaf_of(const Root* root, const uint8_t* key, uint16_t key_length) noexcept nogil:
    cdef Node* node = root.node
    while node.level:
        node = node_children(node)[child_position(node, key, key_length)]
        node_prefetch(node)
    return node


cdef const Entry* root_find(const Root* root, const uint8_t* key, uint16_t key_length) noexcept nogil:
    cdef const Node* leaf = _leaf_of(root, key, key_length)
    cdef int position = leaf_find(leaf, key, key_length)
    if position < 0:
        return NULL
    return node_entries(leaf)[position]


# The cursor stands at path[level], perhaps behind its last slot: go to the first entry from there on.
cdef void _settle(Cursor* cursor, int32_t level) noexcept nogil:
    cdef Node* node
    while cursor.position[level] == (<Node*>cursor.path[level]).count:
        if level == 0:
            cursor.entry = NULL
            return
        level -= 1
        cursor.position[level] += 1
    while level + 1 < cursor.depth:
        node = node_children(<Node*>cursor.path[level])[cursor.position[level]]
        level += 1
        cursor.path[level] = node
        cursor.position[level] = 0
    cursor.entry = node_entries(<Node*>cursor.path[level])[cursor.position[level]]


cdef void cursor_seek(Cursor* cursor, const Root* root, const uint8_t* key, uint16_t key_length) noexcept nogil:
    cdef Node* node = root.node
    cdef int32_t level = 0
    cursor.root = root
    cursor.depth = node.level + 1
    while node.level:
        cursor.path[level] = node
        cursor.position[level] = <int32_t>child_position(node, key, key_length)
        node = node_children(node)[cursor.position[level]]
        level += 1
    cursor.path[level] = node
    cursor.position[level] = <int32_t>leaf_position(node, key, key_length)
    _settle(cursor, level)


cdef void cursor_next(Cursor* cursor) noexcept nogil:
    cdef int32_t level = cursor.depth - 1
    cursor.position[level] += 1
    if cursor.position[level] < (<Node*>cursor.path[level]).count:
        cursor.entry = node_entries(<Node*>cursor.path[level])[cursor.position[level]]
    else:
        _settle(cursor, level)


# Both cursors stand on the same entry: pass the largest subtree that holds it in both roots, or the entry alone.
cdef void _skip_shared(Cursor* older, Cursor* newer) noexcept nogil:
    cdef int32_t older_level = older.depth - 1
    cdef int32_t newer_level = newer.depth - 1
    if older.path[older_level] != newer.path[newer_level]:
        cursor_next(older)
        cursor_next(newer)
        return
    while older_level > 0 and newer_level > 0 and older.path[older_level - 1] == newer.path[newer_level - 1]:
        older_level -= 1
        newer_level -= 1
    older.position[older_level] = (<Node*>older.path[older_level]).count
    newer.position[newer_level] = (<Node*>newer.path[newer_level]).count
    _settle(older, older_level)
    _settle(newer, newer_level)


cdef status_t root_difference(const Root* older, const Root* newer, Vec[Difference]* changed, size_t changed_max,
                              const uint8_t* from_key, uint16_t from_length, bint* more) noexcept nogil:
    cdef Cursor left, right
    cdef Difference difference
    cdef int order
    cdef size_t end = changed.size + changed_max
    cursor_seek(&left, older, from_key, from_length)
    cursor_seek(&right, newer, from_key, from_length)
    more[0] = False
    while left.entry != NULL or right.entry != NULL:
        if left.entry == right.entry:
            _skip_shared(&left, &right)
            continue
        if changed.size == end:
            more[0] = True
            return OK
        if left.entry == NULL:
            order = 1
        elif right.entry == NULL:
            order = -1
        else:
            order = compare_bytes(entry_key(left.entry), left.entry.key_length,
                                  entry_key(right.entry), right.entry.key_length)
        difference.older = left.entry if order <= 0 else NULL
        difference.newer = right.entry if order >= 0 else NULL
        if not changed.push(difference):
            return NO_MEMORY
        if order <= 0:
            cursor_next(&left)
        if order >= 0:
            cursor_next(&right)
    return OK


# --- bulk -------------------------------------------------------------------------------------------------------------

cdef inline uint32_t _load_fill(const Tree* tree) noexcept nogil:
    cdef uint32_t free_slots = tree.fanout >> 4
    return tree.fanout - (free_slots if free_slots else 1)


# `child` becomes the rightmost node of the level below `level`; levels that are full get a new rightmost node.
cdef status_t _load_child(Tree* tree, uint32_t level, Separator* separator, Node* child) noexcept nogil:
    cdef Node* parent
    cdef Node* fresh
    while True:
        if level == TREE_DEPTH_MAX:
            return broken(&tree.broken, BROKEN_TREE_DEPTH, level, TREE_DEPTH_MAX)
        if level == tree.load_depth:
            parent = _new_node(tree, <uint8_t>level)
            if parent == NULL:
                return NO_MEMORY
            node_children(parent)[0] = tree.writing.node
            node_separators(parent)[0] = NULL
            parent.count = 1
            tree.writing.node = parent
            tree.load_spine[level] = parent
            tree.load_depth += 1
        parent = tree.load_spine[level]
        if parent.count < _load_fill(tree):
            break
        node_refresh(parent)
        fresh = _new_node(tree, <uint8_t>level)
        if fresh == NULL:
            return NO_MEMORY
        node_children(fresh)[0] = child
        node_separators(fresh)[0] = NULL
        fresh.count = 1
        tree.load_spine[level] = fresh
        child = fresh
        level += 1
    node_children(parent)[parent.count] = child
    node_separators(parent)[parent.count] = separator
    parent.count += 1
    return OK


cdef status_t tree_load_begin(Tree* tree) noexcept nogil:
    if tree.writing.node.level or tree.writing.node.count or tree.load_depth:
        return ALREADY
    if not _reserve_way(tree):
        return NO_MEMORY
    tree.load_spine[0] = _writable(tree, &tree.writing.node)
    if tree.load_spine[0] == NULL:
        return NO_MEMORY
    tree.load_depth = 1
    return OK


cdef status_t tree_load(Tree* tree, Entry* entry) noexcept nogil:
    cdef Node* leaf = tree.load_spine[0]
    cdef Entry* last
    cdef Separator* separator
    cdef status_t status
    if leaf.count:
        last = node_entries(leaf)[leaf.count - 1]
        if compare_bytes(entry_key(last), last.key_length, entry_key(entry), entry.key_length) >= 0:
            return BAD_FIELD
        if leaf.count == _load_fill(tree):
            node_refresh(leaf)
            separator = _separator_between(tree, last, entry)
            leaf = _new_node(tree, 0)
            if separator == NULL or leaf == NULL:
                return NO_MEMORY
            status = _load_child(tree, 1, separator, leaf)
            if status != OK:
                return status
            tree.load_spine[0] = leaf
    node_entries(leaf)[leaf.count] = entry
    leaf.count += 1
    _account(tree, NULL, entry)
    if entry.mod_revision > tree.revision_max:
        tree.revision_max = entry.mod_revision
    return OK


cdef status_t tree_load_end(Tree* tree, uint64_t revision) noexcept nogil:
    cdef uint32_t level
    for level in range(tree.load_depth):
        node_refresh(tree.load_spine[level])
    tree.load_depth = 0
    return tree_publish(tree, revision)


# --- numbers ----------------------------------------------------------------------------------------------------------

cdef uint64_t tree_count(const Tree* tree) noexcept nogil:
    return tree.writing.count


cdef uint64_t tree_bytes(const Tree* tree) noexcept nogil:
    return tree.slab.retained_bytes


cdef Hash128 tree_hash(const Tree* tree) noexcept nogil:
    return tree.writing.hash
