"""Reads: bodies.

A past read on another thread and a moving floor:
  1. The reader asks for revision R and walks the chain of a key towards it.
  2. COMPACT moves the floor beyond R; some time later the applying thread cuts the chain below the floor.
  3. The reader meets the cut, and takes the key for missing.
The floor is raised (released) before the first cut, and the reader looks at it (acquires) after its walk: whoever
could have met a cut sees a floor above R and answers COMPACTED.
A read at the revision of its root meets no cut: the root itself holds those versions.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy

from raftmeta.machine.plan cimport compare_bytes, entry_view, is_live
from raftmeta.machine.tree cimport (Cursor, Entry, cursor_next, cursor_seek, entry_at, entry_key, root_count, root_find,
                                    root_revision, tree_enter, tree_find, tree_leave, tree_pin, tree_unpin)
from raftmeta.machine.tree_state cimport Root
from raftmeta.native.atomics cimport load_acquire
from raftmeta.status cimport COMPACTED, FUTURE_REVISION, NO_MEMORY, NOT_FOUND, OK
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes, result_bytes, result_key


cdef status_t machine_get(Machine* machine, const Bytes* key, uint64_t revision, KeyView* view) noexcept nogil:
    cdef const Entry* entry
    if revision > machine.revision:
        return FUTURE_REVISION
    if revision != 0 and revision < machine.compacted:
        return COMPACTED
    # Even the newest is read at its revision: an entry under way has put some of the next one already.
    entry = entry_at(tree_find(machine.tree, key.data, <uint16_t>key.length), revision or machine.revision)
    if not is_live(entry):
        return NOT_FOUND
    entry_view(entry, view)
    return OK

cdef inline bint _fell_below_floor(Machine* machine, uint64_t at_revision) noexcept nogil:
    return at_revision != 0 and at_revision < load_acquire(&machine.readers_floor)

cdef status_t machine_get_shared(Machine* machine, const Bytes* key, uint64_t at_revision, Vec[uint8_t]* out,
                                 uint64_t* revision) noexcept nogil:
    cdef size_t start = out.size
    cdef const Root* root = tree_enter(machine.tree)
    cdef status_t status = NOT_FOUND
    cdef const Entry* entry
    cdef KeyView view
    revision[0] = root_revision(root)
    if at_revision > revision[0]:
        status = FUTURE_REVISION
    else:
        entry = entry_at(root_find(root, key.data, <uint16_t>key.length), at_revision or revision[0])
        if is_live(entry):
            entry_view(entry, &view)
            status = result_key(out, &view)
        if _fell_below_floor(machine, at_revision):
            out.resize(start)
            status = COMPACTED
    tree_leave(machine.tree)
    return status

cdef status_t machine_range_shared(Machine* machine, const Bytes* key, const Bytes* end, uint64_t at_revision,
                                   const Grouping* grouping, uint32_t limit, uint32_t bytes_max, bint keys_only,
                                   bint count_only, Vec[uint8_t]* out, uint64_t* count, bint* more,
                                   uint64_t* revision) noexcept nogil:
    cdef size_t start = out.size
    cdef const Root* root = tree_pin(machine.tree)
    cdef status_t status
    revision[0] = root_revision(root)
    count[0] = 0
    more[0] = False
    if at_revision > revision[0]:
        status = FUTURE_REVISION
    elif count_only:
        status = _count(root, key, end, at_revision or revision[0], grouping, count)
    else:
        status = _collect(root, key, end, at_revision or revision[0], grouping, limit, bytes_max, keys_only, out, count,
                          more)
    if status == OK and _fell_below_floor(machine, at_revision):
        status = COMPACTED
    if status != OK:
        out.resize(start)
        count[0] = 0
    tree_unpin(machine.tree, root)
    return status

# The version at `revision` of the next key of the range that has one; NULL: no more.
cdef const Entry* _next_live(Cursor* cursor, const Bytes* end, uint64_t revision) noexcept nogil:
    cdef const Entry* entry
    while cursor.entry != NULL:
        if end.length and compare_bytes(entry_key(cursor.entry), cursor.entry.key_length, end.data, end.length) >= 0:
            return NULL
        entry = entry_at(cursor.entry, revision)
        cursor_next(cursor)
        if is_live(entry):
            return entry
    return NULL

# Length of the beginning that makes the group of this key; 0: the key stands for itself.
cdef uint32_t _group_length(const Entry* entry, const Grouping* grouping) noexcept nogil:
    cdef const uint8_t* key = entry_key(entry)
    cdef const uint8_t* found
    cdef uint32_t length = grouping.delimiter.length
    cdef uint32_t at = grouping.skip
    if length == 0:
        return 0
    while at + length <= entry.key_length:
        found = <const uint8_t*>memchr(key + at, grouping.delimiter.data[0], entry.key_length - length - at + 1)
        if found == NULL:
            return 0
        at = <uint32_t>(found - key)
        if memcmp(found, grouping.delimiter.data, length) == 0:
            return at + length
        at += 1
    return 0

# Move the cursor, which stands behind `entry`, behind all keys that begin like it. A group of one key costs no seek.
cdef void _pass_group(Cursor* cursor, const Entry* entry, uint32_t length) noexcept nogil:
    cdef uint8_t bound[KEY_BYTES_MAX]
    cdef const uint8_t* key = entry_key(entry)
    if cursor.entry == NULL or cursor.entry.key_length < length or memcmp(entry_key(cursor.entry), key, length) != 0:
        return
    while length and key[length - 1] == 0xff:
        length -= 1
    if length == 0:
        cursor.entry = NULL         # no key is behind such a group
        return
    memcpy(bound, key, length)
    bound[length - 1] += 1
    cursor_seek(cursor, cursor.root, bound, <uint16_t>length)

cdef status_t _count(const Root* root, const Bytes* key, const Bytes* end, uint64_t revision, const Grouping* grouping,
                     uint64_t* count) noexcept nogil:
    cdef Cursor cursor
    cdef const Entry* entry
    cdef uint32_t group
    if grouping.delimiter.length == 0 and key.length == 0 and end.length == 0 and revision == root_revision(root):
        count[0] = root_count(root)
        return OK
    cursor_seek(&cursor, root, key.data, <uint16_t>key.length)
    entry = _next_live(&cursor, end, revision)
    while entry != NULL:
        group = _group_length(entry, grouping)
        if group:
            _pass_group(&cursor, entry, group)
        count[0] += 1
        entry = _next_live(&cursor, end, revision)
    return OK

cdef status_t _append(Vec[uint8_t]* out, const Entry* entry, uint32_t group, bint keys_only) noexcept nogil:
    cdef KeyView view
    cdef Bytes beginning
    if group:
        beginning.data = entry_key(entry)
        beginning.length = group
        return result_bytes(out, &beginning)
    entry_view(entry, &view)
    if keys_only:
        view.value.length = 0
        view.extension.length = 0
    return result_key(out, &view)

cdef status_t _collect(const Root* root, const Bytes* key, const Bytes* end, uint64_t revision,
                       const Grouping* grouping, uint32_t limit, uint32_t bytes_max, bint keys_only, Vec[uint8_t]* out,
                       uint64_t* count, bint* more) noexcept nogil:
    cdef size_t start = out.size
    cdef Cursor cursor
    cdef uint32_t group
    cursor_seek(&cursor, root, key.data, <uint16_t>key.length)
    cdef const Entry* entry = _next_live(&cursor, end, revision)
    while entry != NULL:
        if limit and count[0] == limit or count[0] and out.size - start >= bytes_max:
            more[0] = True
            return OK
        group = _group_length(entry, grouping)
        if group:
            _pass_group(&cursor, entry, group)
        if _append(out, entry, group, keys_only) != OK:
            return NO_MEMORY
        count[0] += 1
        entry = _next_live(&cursor, end, revision)
    return OK
