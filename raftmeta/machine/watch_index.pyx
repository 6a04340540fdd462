"""Which watches see a key. The first page of watch_index.pxd says what it decides."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy

from raftmeta.machine.tree_node cimport compare_bytes
from raftmeta.native.intrinsics cimport hash64
from raftmeta.status cimport NO_MEMORY, OK


cdef inline const uint8_t* _key(const WatchGroup* group) noexcept nogil:
    return <const uint8_t*>group + sizeof(WatchGroup)


cdef inline const uint8_t* _end(const WatchGroup* group) noexcept nogil:
    return _key(group) + group.key_length


# Whether [key, end) holds the key alone: nothing stands between a key and itself with a zero byte behind it.
cdef inline bint _is_single(const uint8_t* key, uint32_t key_length, const uint8_t* end,
                            uint32_t end_length) noexcept nogil:
    return end_length == key_length + 1 and end[key_length] == 0 and memcmp(key, end, key_length) == 0


cdef WatchGroup* _new_group(const uint8_t* key, uint32_t key_length, const uint8_t* end, uint32_t end_length,
                            uint64_t hash) noexcept nogil:
    cdef WatchGroup* group = <WatchGroup*>calloc(1, sizeof(WatchGroup) + key_length + end_length)
    if group == NULL:
        return NULL
    group.hash = hash
    group.farthest = group
    group.key_length = key_length
    group.end_length = end_length
    group.is_single = _is_single(key, key_length, end, end_length)
    if key_length:
        memcpy(<uint8_t*>_key(group), key, key_length)
    if end_length:
        memcpy(<uint8_t*>_end(group), end, end_length)
    return group


cdef void _free_group(WatchGroup* group) noexcept nogil:
    group.members.release()
    free(group)


# --- ranges -----------------------------------------------------------------------------------------------------------

cdef inline bint _reaches_farther(const WatchGroup* left, const WatchGroup* right) noexcept nogil:
    if left.end_length == 0 or right.end_length == 0:
        return left.end_length == 0
    return compare_bytes(_end(left), left.end_length, _end(right), right.end_length) > 0


cdef inline void _refresh(WatchGroup* group) noexcept nogil:
    group.farthest = group
    if group.left != NULL and _reaches_farther(group.left.farthest, group.farthest):
        group.farthest = group.left.farthest
    if group.right != NULL and _reaches_farther(group.right.farthest, group.farthest):
        group.farthest = group.right.farthest


cdef int _compare(const WatchGroup* group, const uint8_t* key, uint32_t key_length, const uint8_t* end,
                  uint32_t end_length) noexcept nogil:
    cdef int order = compare_bytes(_key(group), group.key_length, key, key_length)
    if order != 0:
        return order
    return compare_bytes(_end(group), group.end_length, end, end_length)


# Groups below `pivot` go to *lower, the others to *upper.
cdef void _split(WatchGroup* root, const WatchGroup* pivot, WatchGroup** lower, WatchGroup** upper) noexcept nogil:
    if root == NULL:
        lower[0] = NULL
        upper[0] = NULL
    elif _compare(root, _key(pivot), pivot.key_length, _end(pivot), pivot.end_length) < 0:
        _split(root.right, pivot, &root.right, upper)
        lower[0] = root
        _refresh(root)
    else:
        _split(root.left, pivot, lower, &root.left)
        upper[0] = root
        _refresh(root)


# All of lower stands before all of upper.
cdef WatchGroup* _merge(WatchGroup* lower, WatchGroup* upper) noexcept nogil:
    if lower == NULL:
        return upper
    if upper == NULL:
        return lower
    if lower.hash >= upper.hash:
        lower.right = _merge(lower.right, upper)
        _refresh(lower)
        return lower
    upper.left = _merge(lower, upper.left)
    _refresh(upper)
    return upper


cdef WatchGroup* _insert(WatchGroup* root, WatchGroup* fresh) noexcept nogil:
    if root == NULL:
        return fresh
    if fresh.hash > root.hash:
        _split(root, fresh, &fresh.left, &fresh.right)
        _refresh(fresh)
        return fresh
    if _compare(root, _key(fresh), fresh.key_length, _end(fresh), fresh.end_length) < 0:
        root.right = _insert(root.right, fresh)
    else:
        root.left = _insert(root.left, fresh)
    _refresh(root)
    return root


cdef WatchGroup* _without(WatchGroup* root, WatchGroup* gone) noexcept nogil:
    if root == gone:
        return _merge(gone.left, gone.right)
    if _compare(root, _key(gone), gone.key_length, _end(gone), gone.end_length) < 0:
        root.right = _without(root.right, gone)
    else:
        root.left = _without(root.left, gone)
    _refresh(root)
    return root


cdef inline bint _ends_after(const WatchGroup* group, const uint8_t* key, uint32_t key_length) noexcept nogil:
    return group.end_length == 0 or compare_bytes(_end(group), group.end_length, key, key_length) > 0


cdef status_t _find_ranges(WatchGroup* root, const uint8_t* key, uint32_t key_length,
                           Vec[WatchGroup*]* groups) noexcept nogil:
    cdef status_t status
    while root != NULL:
        if not _ends_after(root.farthest, key, key_length):
            return OK           # no range of this subtree reaches the key
        status = _find_ranges(root.left, key, key_length, groups)
        if status != OK:
            return status
        if compare_bytes(_key(root), root.key_length, key, key_length) > 0:
            return OK           # this one and all on its right begin after the key
        if _ends_after(root, key, key_length) and not groups.push(root):
            return NO_MEMORY
        root = root.right
    return OK


# --- both -------------------------------------------------------------------------------------------------------------

cdef WatchGroup* _range_group(WatchIndex* index, const uint8_t* key, uint32_t key_length, const uint8_t* end,
                              uint32_t end_length) noexcept nogil:
    cdef WatchGroup* group = index.ranges
    cdef int order
    while group != NULL:
        order = _compare(group, key, key_length, end, end_length)
        if order == 0:
            return group
        group = group.right if order < 0 else group.left
    group = _new_group(key, key_length, end, end_length, hash64(hash64(0, end, end_length), key, key_length))
    if group != NULL:
        index.ranges = _insert(index.ranges, group)
    return group


cdef WatchGroup* _find_single(WatchIndex* index, const uint8_t* key, uint32_t key_length, uint64_t hash) noexcept nogil:
    cdef WatchGroup** first = index.singles.find(hash)
    cdef WatchGroup* group = first[0] if first != NULL else NULL
    while group != NULL and compare_bytes(_key(group), group.key_length, key, key_length) != 0:
        group = group.same_hash
    return group


cdef WatchGroup* watch_index_group(WatchIndex* index, const uint8_t* key, uint32_t key_length, const uint8_t* end,
                                   uint32_t end_length) noexcept nogil:
    cdef uint64_t hash = hash64(0, key, key_length)
    cdef WatchGroup* group
    cdef WatchGroup** first
    if not _is_single(key, key_length, end, end_length):
        return _range_group(index, key, key_length, end, end_length)
    group = _find_single(index, key, key_length, hash)
    if group != NULL:
        return group
    group = _new_group(key, key_length, end, end_length, hash)
    if group == NULL:
        return NULL
    first = index.singles.insert(hash)
    if first == NULL:
        _free_group(group)
        return NULL
    group.same_hash = first[0]
    first[0] = group
    return group


cdef void watch_index_remove(WatchIndex* index, WatchGroup* group) noexcept nogil:
    cdef WatchGroup** place
    if not group.is_single:
        index.ranges = _without(index.ranges, group)
    else:
        place = index.singles.find(group.hash)
        if place[0] == group and group.same_hash == NULL:
            index.singles.erase(group.hash)
        else:
            while place[0] != group:
                place = &place[0].same_hash
            place[0] = group.same_hash
    _free_group(group)


cdef status_t watch_index_find(WatchIndex* index, const uint8_t* key, uint32_t key_length,
                               Vec[WatchGroup*]* groups) noexcept nogil:
    cdef WatchGroup* group = NULL
    if index.singles.size:
        group = _find_single(index, key, key_length, hash64(0, key, key_length))
    if group != NULL and not groups.push(group):
        return NO_MEMORY
    return _find_ranges(index.ranges, key, key_length, groups)


cdef void _free_ranges(WatchGroup* root) noexcept nogil:
    if root != NULL:
        _free_ranges(root.left)
        _free_ranges(root.right)
        _free_group(root)


cdef void watch_index_release(WatchIndex* index) noexcept nogil:
    cdef size_t position = index.singles.next(0)
    cdef WatchGroup* group
    cdef WatchGroup* following
    while position != index.singles.end():
        group = index.singles.value_at(position)
        while group != NULL:
            following = group.same_hash
            _free_group(group)
            group = following
        position = index.singles.next(position + 1)
    index.singles.release()
    _free_ranges(index.ranges)
    index.ranges = NULL
