# Inside one node: where its arrays lie, how a key finds its place, how slots come and go. Leaves of machine/tree, pure.
#
# A search compares heads, eight bytes after the prefix that all keys of the node share, and follows a pointer to a
# whole key only where heads are equal. The prefix itself is not kept: it is the beginning of the node's first key. It
# is the longest common one after node_refresh and may be shorter later, never longer.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memmove

from raftmeta.machine.entry cimport Entry, entry_key
from raftmeta.machine.tree_state cimport TUNE_TREE_FANOUT, Node, Separator
from raftmeta.native.intrinsics cimport big_short
from raftmeta.native.prefetch cimport prefetch


cdef inline uint64_t* node_heads(const Node* node) noexcept nogil:
    return <uint64_t*>(<uint8_t*>node + sizeof(Node))


cdef inline Entry** node_entries(const Node* node) noexcept nogil:
    return <Entry**>(node_heads(node) + node.capacity)


cdef inline Node** node_children(const Node* node) noexcept nogil:
    return <Node**>(node_heads(node) + node.capacity)


# Of nodes above leaves: separators[i] stands between the children i - 1 and i; separators[0] is NULL.
cdef inline Separator** node_separators(const Node* node) noexcept nogil:
    return <Separator**>(node_heads(node) + 2 * node.capacity)


cdef inline size_t node_length(uint16_t capacity, uint8_t level) noexcept nogil:
    return sizeof(Node) + <size_t>capacity * (16 if level == 0 else 24)


cdef inline const uint8_t* separator_bytes(const Separator* separator) noexcept nogil:
    return <const uint8_t*>separator + sizeof(Separator)


# Ask for all heads and slots at once: a search would wait for their cache lines in turn, one behind the other.
cdef inline void node_prefetch(const Node* node) noexcept nogil:
    cdef const uint8_t* line = <const uint8_t*>node
    cdef const uint8_t* end = line + sizeof(Node) + 16 * TUNE_TREE_FANOUT
    while line < end:
        prefetch(line)
        line += 64


# Position of the first key of a node: children have a separator from the second on.
cdef inline uint32_t node_first(const Node* node) noexcept nogil:
    return 0 if node.level == 0 else 1


cdef inline const uint8_t* node_key(const Node* node, uint32_t position, uint32_t* length) noexcept nogil:
    cdef const Entry* entry
    if node.level == 0:
        entry = node_entries(node)[position]
        length[0] = entry.key_length
        return entry_key(entry)
    length[0] = node_separators(node)[position].length
    return separator_bytes(node_separators(node)[position])


# --- comparing --------------------------------------------------------------------------------------------------------

# Below, equal or above zero, as unsigned bytes; a key comes after its own beginning.
cdef inline int compare_bytes(const uint8_t* left, uint32_t left_length, const uint8_t* right,
                              uint32_t right_length) noexcept nogil:
    cdef uint32_t shorter = left_length if left_length < right_length else right_length
    cdef int order = memcmp(left, right, shorter) if shorter else 0     # an empty key may be NULL
    if order != 0:
        return order
    return (left_length > right_length) - (left_length < right_length)


cdef inline uint32_t common_length(const uint8_t* left, uint32_t left_length, const uint8_t* right,
                                   uint32_t right_length) noexcept nogil:
    cdef uint32_t shorter = left_length if left_length < right_length else right_length
    cdef uint32_t length = 0
    while length < shorter and left[length] == right[length]:
        length += 1
    return length


cdef inline uint64_t head_of(const uint8_t* key, uint32_t length, uint32_t prefix_length) noexcept nogil:
    return big_short(key + prefix_length, length - prefix_length) if length > prefix_length else 0


# Number of heads below `head`, without a branch that depends on the data.
cdef inline uint32_t heads_below(const uint64_t* heads, uint32_t count, uint64_t head) noexcept nogil:
    cdef const uint64_t* base = heads
    cdef uint32_t half
    if count == 0:
        return 0
    while count > 1:
        half = count >> 1
        base += half & (<uint32_t>0 - <uint32_t>(base[half - 1] < head))
        count -= half
    return <uint32_t>(base - heads) + <uint32_t>(base[0] < head)


# Zero if the key begins with the node's prefix, otherwise on which side of all keys of the node it stands.
cdef inline int compare_prefix(const Node* node, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef uint32_t first_length
    cdef const uint8_t* first
    if node.prefix_length == 0:
        return 0
    first = node_key(node, node_first(node), &first_length)
    if length >= node.prefix_length:
        return memcmp(key, first, node.prefix_length)
    return -1 if length == 0 or memcmp(key, first, length) <= 0 else 1


# First position in [low, count) whose key is not below `key`, which shares the node's prefix.
cdef inline uint32_t _lower_bound(const Node* node, uint32_t low, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef const uint64_t* heads = node_heads(node)
    cdef uint64_t head = head_of(key, length, node.prefix_length)
    cdef uint32_t high = node.count
    cdef uint32_t middle, other_length
    cdef const uint8_t* other
    low += heads_below(heads + low, high - low, head)
    if low == high or heads[low] != head:
        return low
    if low + 1 == high or heads[low + 1] != head:
        high = low + 1
    elif head != ~<uint64_t>0:
        high = low + heads_below(heads + low, high - low, head + 1)
    while low < high:
        middle = (low + high) >> 1
        other = node_key(node, middle, &other_length)
        if compare_bytes(other, other_length, key, length) < 0:
            low = middle + 1
        else:
            high = middle
    return low


# First position of a leaf whose key is not below `key`.
cdef inline uint32_t leaf_position(const Node* leaf, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef int side = 0 if leaf.count == 0 else compare_prefix(leaf, key, length)
    if side != 0:
        return 0 if side < 0 else leaf.count
    return _lower_bound(leaf, 0, key, length)


# Position of exactly this key, -1: not here. The prefix is not compared: a key of this leaf has it, any other key fails
# the last comparison. This saves a look at the first entry, a cache miss in a large tree. *bound: where the key would
# stand, if it has the prefix.
cdef inline int leaf_search(const Node* leaf, const uint8_t* key, uint32_t length, uint32_t* bound) noexcept nogil:
    cdef const Entry* entry
    bound[0] = 0
    if length < leaf.prefix_length:
        return -1
    bound[0] = _lower_bound(leaf, 0, key, length)
    if bound[0] == leaf.count:
        return -1
    entry = node_entries(leaf)[bound[0]]
    if entry.key_length != length or memcmp(entry_key(entry), key, length) != 0:
        return -1
    return <int>bound[0]


cdef inline int leaf_find(const Node* leaf, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef uint32_t bound = 0
    return leaf_search(leaf, key, length, &bound)


# Where a key that leaf_search did not find would stand.
cdef inline uint32_t leaf_place(const Node* leaf, const uint8_t* key, uint32_t length, uint32_t bound) noexcept nogil:
    cdef int side = 0 if leaf.count == 0 else compare_prefix(leaf, key, length)
    if side != 0:
        return 0 if side < 0 else leaf.count
    return bound


# As leaf_find, in the slot `position` and the one behind it only, and for any key, of this leaf or not.
cdef inline int leaf_find_near(const Node* leaf, uint32_t position, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef uint32_t end = min(position + 2, <uint32_t>leaf.count)
    cdef uint64_t head
    cdef const Entry* entry
    if length < leaf.prefix_length:
        return -1
    head = head_of(key, length, leaf.prefix_length)
    while position < end:
        if node_heads(leaf)[position] == head:
            entry = node_entries(leaf)[position]
            if entry.key_length == length and memcmp(entry_key(entry), key, length) == 0:
                return <int>position
        position += 1
    return -1


# Whether any key, of this leaf or not, belongs between slot `position` and the one behind it. Then it is in no leaf.
cdef inline bint leaf_has_gap(const Node* leaf, uint32_t position, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef uint64_t head
    cdef const Entry* below
    cdef const Entry* above
    if position + 1 >= leaf.count or length < leaf.prefix_length:
        return False
    head = head_of(key, length, leaf.prefix_length)
    if head < node_heads(leaf)[position] or head > node_heads(leaf)[position + 1]:
        return False
    below = node_entries(leaf)[position]
    above = node_entries(leaf)[position + 1]
    return (compare_bytes(entry_key(below), below.key_length, key, length) < 0
            and compare_bytes(key, length, entry_key(above), above.key_length) < 0)


# The child in which the key belongs: the last one whose separator is not above it.
cdef inline uint32_t child_position(const Node* node, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef uint32_t position, other_length
    cdef const uint8_t* other
    cdef int side
    if node.count == 1:
        return 0
    side = compare_prefix(node, key, length)
    if side != 0:
        return 0 if side < 0 else node.count - 1
    position = _lower_bound(node, 1, key, length)
    if position < node.count and node_heads(node)[position] == head_of(key, length, node.prefix_length):
        other = node_key(node, position, &other_length)
        if compare_bytes(other, other_length, key, length) == 0:
            return position
    return position - 1


# --- slots ------------------------------------------------------------------------------------------------------------

cdef inline void _set_prefix(Node* node, uint32_t prefix_length) noexcept nogil:
    cdef uint32_t position, length
    cdef const uint8_t* key
    node.prefix_length = <uint16_t>prefix_length
    for position in range(node_first(node), node.count):
        key = node_key(node, position, &length)
        node_heads(node)[position] = head_of(key, length, prefix_length)


# Longest common prefix and all heads anew, after slots were moved.
cdef inline void node_refresh(Node* node) noexcept nogil:
    cdef uint32_t first = node_first(node)
    cdef uint32_t low_length, high_length
    cdef const uint8_t* low
    cdef const uint8_t* high
    if node.count <= first:
        node.prefix_length = 0
        return
    low = node_key(node, first, &low_length)
    high = node_key(node, node.count - 1, &high_length)
    _set_prefix(node, common_length(low, low_length, high, high_length))


# A gap at `position`; the caller fills the slot. The prefix shrinks to what the new key shares with it.
cdef inline void _open_slot(Node* node, uint32_t position, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef uint32_t first = node_first(node)
    cdef uint32_t shared = length
    cdef uint32_t first_length
    cdef const uint8_t* first_key
    cdef size_t behind = node.count - position
    if node.count > first:
        first_key = node_key(node, first, &first_length)
        shared = common_length(key, length, first_key, node.prefix_length)
    if shared != node.prefix_length:
        _set_prefix(node, shared)
    memmove(node_heads(node) + position + 1, node_heads(node) + position, behind * 8)
    memmove(node_children(node) + position + 1, node_children(node) + position, behind * 8)
    if node.level:
        memmove(node_separators(node) + position + 1, node_separators(node) + position, behind * 8)
    node_heads(node)[position] = head_of(key, length, shared)
    node.count += 1


cdef inline void leaf_insert(Node* leaf, uint32_t position, Entry* entry) noexcept nogil:
    _open_slot(leaf, position, entry_key(entry), entry.key_length)
    node_entries(leaf)[position] = entry


# `child` becomes the one right of `separator`; position is never 0.
cdef inline void child_insert(Node* node, uint32_t position, Separator* separator, Node* child) noexcept nogil:
    _open_slot(node, position, separator_bytes(separator), separator.length)
    node_children(node)[position] = child
    node_separators(node)[position] = separator


cdef inline void slot_remove(Node* node, uint32_t position) noexcept nogil:
    cdef size_t behind = node.count - position - 1
    memmove(node_heads(node) + position, node_heads(node) + position + 1, behind * 8)
    memmove(node_children(node) + position, node_children(node) + position + 1, behind * 8)
    if node.level:
        memmove(node_separators(node) + position, node_separators(node) + position + 1, behind * 8)
    node.count -= 1


# The slots of source from `from_position` on, behind those of target. Heads and prefix are then for node_refresh.
cdef inline void slots_move(Node* target, Node* source, uint32_t from_position) noexcept nogil:
    cdef size_t moved = source.count - from_position
    memcpy(node_heads(target) + target.count, node_heads(source) + from_position, moved * 8)
    memcpy(node_children(target) + target.count, node_children(source) + from_position, moved * 8)
    if target.level:
        memcpy(node_separators(target) + target.count, node_separators(source) + from_position, moved * 8)
    target.count += <uint16_t>moved
    source.count = <uint16_t>from_position
