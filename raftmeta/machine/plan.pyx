"""The plan: bodies. Changes stand in the order of first touch, with an index in key order beside them."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memmove, memset

from raftmeta.machine.entry cimport ENTRY_ZNODE, entry_data_length, entry_meta
from raftmeta.machine.tree cimport (Cursor, cursor_next, cursor_seek, entry_key, entry_value, tree_find,
                                    tree_writer_root)
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, OK, TOO_MANY_CHANGES
from raftmeta.wire.commands cimport CHANGES_MAX


# --- views ------------------------------------------------------------------------------------------------------------
cdef void entry_view(const Entry* entry, KeyView* view) noexcept nogil:
    view.key.data = entry_key(entry)
    view.key.length = entry.key_length
    view.value.data = entry_value(entry)
    view.value.length = entry_data_length(entry)
    view.extension.data = view.value.data + view.value.length
    view.extension.length = entry.value_length - view.value.length
    view.create_revision = entry.create_revision
    view.mod_revision = entry.mod_revision
    view.version = entry.version
    view.lease = entry.lease
    view.flags = entry.flags

cdef void planned_view(const Planned* planned, KeyView* view) noexcept nogil:
    view.key = planned.key
    view.value = planned.value
    view.create_revision = planned.create_revision
    view.mod_revision = planned.mod_revision
    view.version = planned.version
    view.lease = planned.lease
    view.flags = planned.flags
    # No entry writes znodes and shows records: plan_view takes a znode that it shows from the tree.
    view.extension.data = NULL
    view.extension.length = 0


# --- life -------------------------------------------------------------------------------------------------------------
cdef void plan_release(Plan* plan) noexcept nogil:
    _forget_rooms(plan)
    plan.rooms.release()
    plan.changes.release()
    plan.znodes.release()
    plan.by_key.release()
    plan.scratch.release()

cdef void plan_clear(Plan* plan, Tree* tree, uint64_t revision) noexcept nogil:
    plan.tree = tree
    plan.revision = revision
    plan.changes_max = CHANGES_MAX
    plan.changes.clear()
    plan.znodes.clear()
    plan.by_key.clear()
    plan.scratch.clear()
    plan.groups = 0
    plan.made = 0
    if plan.rooms.size:
        _forget_rooms(plan)

cdef void _forget_rooms(Plan* plan) noexcept nogil:
    cdef size_t i
    for i in range(plan.rooms.size):
        free(plan.rooms.data[i])
    plan.rooms.clear()

cdef uint8_t* plan_room(Plan* plan, uint32_t length) noexcept nogil:
    cdef uint8_t* room = <uint8_t*>malloc(max(length, <uint32_t>1))
    if room != NULL and not plan.rooms.push(room):
        free(room)
        return NULL
    return room


# --- the index in key order -------------------------------------------------------------------------------------------
cdef inline Planned* _at(Plan* plan, size_t place) noexcept nogil:
    return &plan.changes.data[plan.by_key.data[place]]

cdef inline int _compare_at(Plan* plan, size_t place, const Bytes* key) noexcept nogil:
    cdef const Planned* planned = _at(plan, place)
    return compare_bytes(planned.key.data, planned.key.length, key.data, key.length)

# The first place in by_key whose key is not below `key`.
cdef size_t _lower_bound(Plan* plan, const Bytes* key) noexcept nogil:
    cdef size_t low = 0
    cdef size_t high = plan.by_key.size
    cdef size_t middle
    cdef int order
    # Ascending keys are the common case: ranges, and clients that sort.
    if high > 0:
        order = _compare_at(plan, high - 1, key)
        if order <= 0:
            return high if order else high - 1
    while low < high:
        middle = (low + high) // 2
        if _compare_at(plan, middle, key) < 0:
            low = middle + 1
        else:
            high = middle
    return low

cdef bint _insert(Plan* plan, size_t place, uint32_t position) noexcept nogil:
    cdef size_t behind = plan.by_key.size - place
    if not plan.by_key.push(position):
        return False
    if behind:
        memmove(plan.by_key.data + place + 1, plan.by_key.data + place, behind * sizeof(uint32_t))
        plan.by_key.data[place] = position
    return True


# --- one key ----------------------------------------------------------------------------------------------------------
cdef bint plan_view(Plan* plan, const Bytes* key, KeyView* view) noexcept nogil:
    cdef size_t place = _lower_bound(plan, key)
    cdef const Entry* entry
    if place < plan.by_key.size and _compare_at(plan, place, key) == 0:
        planned_view(_at(plan, place), view)
        return planned_is_live(_at(plan, place))
    entry = tree_find(plan.tree, key.data, <uint16_t>key.length)
    if not is_live(entry):
        return False
    entry_view(entry, view)
    return True

cdef Planned* plan_find(Plan* plan, const Bytes* key) noexcept nogil:
    cdef size_t place = _lower_bound(plan, key)
    return _at(plan, place) if place < plan.by_key.size and _compare_at(plan, place, key) == 0 else NULL

cdef status_t plan_touch(Plan* plan, const Bytes* key, Planned** planned) noexcept nogil:
    cdef size_t place = _lower_bound(plan, key)
    if place < plan.by_key.size and _compare_at(plan, place, key) == 0:
        planned[0] = _at(plan, place)
        return OK
    if plan.changes.size >= plan.changes_max:
        return TOO_MANY_CHANGES
    if not plan.changes.reserve(plan.changes.size + 1):
        return NO_MEMORY
    plan.changes.size += 1
    _as_found(plan, key, &plan.changes.back())
    if not _insert(plan, place, <uint32_t>plan.changes.size - 1):
        return NO_MEMORY
    planned[0] = &plan.changes.back()
    return OK

cdef void _as_found(Plan* plan, const Bytes* key, Planned* planned) noexcept nogil:
    cdef Entry* before = tree_find(plan.tree, key.data, <uint16_t>key.length)
    memset(planned, 0, sizeof(Planned))
    planned.key = key[0]
    planned.before = before
    if not is_live(before):
        planned.flags = ENTRY_TOMBSTONE
        return
    planned.value.data = entry_value(before)
    planned.value.length = entry_data_length(before)
    planned.create_revision = before.create_revision
    planned.mod_revision = before.mod_revision
    planned.version = before.version
    planned.lease = before.lease
    planned.flags = before.flags

cdef PlannedZnode* plan_znode(Plan* plan, Planned* planned) noexcept nogil:
    cdef PlannedZnode fresh
    if planned.znode:
        return &plan.znodes.data[planned.znode - 1]
    memset(&fresh, 0, sizeof(PlannedZnode))
    fresh.change = <uint32_t>(planned - plan.changes.data)
    if planned.flags & ENTRY_ZNODE:
        fresh.meta = entry_meta(planned.before)[0]
        fresh.acl.data = planned.value.data + planned.value.length
        fresh.acl.length = fresh.meta.acl_length
    if not plan.znodes.push(fresh):
        return NULL
    planned.znode = <uint32_t>plan.znodes.size
    return &plan.znodes.back()

cdef void plan_put(Plan* plan, Planned* planned, const Bytes* value, uint64_t lease, uint16_t flags) noexcept nogil:
    if not planned_is_live(planned):
        planned.create_revision = plan.revision
    # However often an entry writes a key, its version rises once.
    planned.version = 1 if planned.create_revision == plan.revision else planned.before.version + 1
    planned.mod_revision = plan.revision
    planned.value = value[0]
    planned.lease = lease
    planned.flags = flags

cdef void plan_delete(Plan* plan, Planned* planned) noexcept nogil:
    planned.create_revision = 0
    planned.version = 0
    planned.mod_revision = plan.revision
    planned.value.data = NULL
    planned.value.length = 0
    planned.lease = 0
    planned.flags = ENTRY_TOMBSTONE

cdef uint32_t plan_changes(Plan* plan) noexcept nogil:
    cdef uint32_t count = 0
    cdef size_t i
    for i in range(plan.changes.size):
        count += planned_is_change(&plan.changes.data[i])
    return count


# --- ranges -----------------------------------------------------------------------------------------------------------
cdef inline bint _is_before(const uint8_t* data, size_t length, const Bytes* end) noexcept nogil:
    return end.length == 0 or compare_bytes(data, length, end.data, end.length) < 0

# Where the next key of a range comes from.
cdef enum:
    FROM_TREE = 1
    FROM_PLAN = 2
    FROM_BOTH = 3
    NOTHING_LEFT = 4

# The tree and the plan are merged by key; where both have it, the plan holds.
cdef status_t plan_range(Plan* plan, const Bytes* key, const Bytes* end, uint32_t most, uint32_t count_max,
                         Vec[KeyView]* views, uint32_t* count) noexcept nogil:
    cdef size_t place = _lower_bound(plan, key)
    cdef int source = FROM_TREE
    cdef Cursor cursor
    cdef KeyView view
    count[0] = 0
    cursor_seek(&cursor, tree_writer_root(plan.tree), key.data, <uint16_t>key.length)
    while count[0] < count_max:
        if cursor.entry != NULL and not _is_before(entry_key(cursor.entry), cursor.entry.key_length, end):
            cursor.entry = NULL
        source = _source(plan, place, cursor.entry, end)
        if source == NOTHING_LEFT:
            break
        if source == FROM_TREE:
            entry_view(cursor.entry, &view)
        else:
            planned_view(_at(plan, place), &view)
            place += 1
        if source != FROM_PLAN:
            cursor_next(&cursor)
        if view.flags & ENTRY_TOMBSTONE:
            continue
        if count[0] < most and not views.push(view):
            return NO_MEMORY
        count[0] += 1
    return OK

cdef int _source(Plan* plan, size_t place, const Entry* entry, const Bytes* end) noexcept nogil:
    cdef const Planned* planned
    cdef int order
    if place == plan.by_key.size or not _is_before(_at(plan, place).key.data, _at(plan, place).key.length, end):
        return FROM_TREE if entry != NULL else NOTHING_LEFT
    if entry == NULL:
        return FROM_PLAN
    planned = _at(plan, place)
    order = compare_bytes(planned.key.data, planned.key.length, entry_key(entry), entry.key_length)
    if order == 0:
        return FROM_BOTH
    return FROM_PLAN if order < 0 else FROM_TREE
