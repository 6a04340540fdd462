"""The nodes beside the model of znodes: bodies.

The checks that need no model come first: a mistake is then told by the rule that it breaks.
"""
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from raftmeta.machine.machine cimport (Grouping, machine_get, machine_lease, machine_range_shared,
                                       machine_session_result)
from raftmeta.machine.plan cimport is_live
from raftmeta.machine.entry cimport ENTRY_ZNODE, ZNODE_NULL_DATA, ZnodeMeta
from raftmeta.machine.tree cimport (Cursor, Entry, Root, cursor_next, cursor_seek, entry_key, tree_enter, tree_find,
                                    tree_leave)
from raftmeta.machine.znodes cimport ZnodeView, znode_allows, znode_stat, znode_view
from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.world_state cimport (VIOLATION_ZNODE_COUNTERS, VIOLATION_ZNODE_EPHEMERAL,
                                             VIOLATION_ZNODE_MODEL, VIOLATION_ZNODE_ORDER, VIOLATION_ZNODE_ORPHAN,
                                             VIOLATION_ZNODE_SEQUENCE, VIOLATION_ZNODE_ZXID, violate)
from raftmeta.sim.world.znodes_model cimport znodes_zxid
from raftmeta.sim.world.znodes_rules cimport rules_find, rules_is_plain, rules_may, rules_root_length
from raftmeta.sim.world.znodes_state cimport (SIM_CONTAINER, SIM_EPHEMERAL, SIM_OWNERS, SIM_TTL, SIM_ZNODE_KEY_MAX,
                                              SimZnode, SimZnodesModel)
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport Bytes, KeyView
from raftmeta.wire.msgpack cimport (MSGPACK_BIN8, Reader, read_array_max, read_bin, read_peek, read_uint, reader_over,
                                    unsigned_max)
from raftmeta.wire.znodes cimport Identity, ZnodeStat

cdef enum:
    SEEN_MAX = 256              # znodes below one root: far more than doors make
    WHOLE_MEAN = 16             # looks without a change between two whole ones
    KEY_MAX = 2 * SIM_ZNODE_KEY_MAX
    PERMISSIONS = 5             # kinds of them


# --- what a node has, by itself ---------------------------------------------------------------------------------------
cdef const Entry* _parent(SimNode* node, const Entry* entry, uint32_t root) noexcept nogil:
    cdef uint32_t cut = entry.key_length - 1
    while cut > root and entry_key(entry)[cut] != c'/':
        cut -= 1
    return tree_find(node.engine.machine.tree, entry_key(entry), <uint16_t>(cut if cut > root else root + 1))


cdef bint _is_znode(const Entry* entry) noexcept nogil:
    return is_live(entry) and entry.flags & ENTRY_ZNODE != 0


# I29, I32 of one znode.
cdef void _look(World* world, SimNode* node, const Entry* entry, const Entry* parent) noexcept nogil:
    cdef ZnodeView view
    cdef uint64_t ttl_ms, deadline_ms
    cdef uint32_t keys
    if not znode_view(entry, &view):
        violate(world, VIOLATION_ZNODE_MODEL, node.number, entry.mod_revision, 1)
    elif view.meta.kind == SIM_EPHEMERAL:
        if machine_lease(node.engine.machine, entry.lease, &ttl_ms, &deadline_ms, &keys) != OK:
            violate(world, VIOLATION_ZNODE_EPHEMERAL, node.number, entry.lease, entry.create_revision)
    if parent == entry:
        return
    if not _is_znode(parent) or not znode_view(parent, &view) or view.meta.kind == SIM_EPHEMERAL:
        violate(world, VIOLATION_ZNODE_ORPHAN, node.number, entry.create_revision, entry.mod_revision)


ctypedef const Entry* Seen


cdef uint32_t _place_of(const Seen* seen, uint32_t count, const Entry* entry) noexcept nogil:
    cdef uint32_t i
    for i in range(count):
        if seen[i] == entry:
            return i
    return count


# All znodes below one root, in the order of keys. How many there are.
cdef uint32_t _walk(World* world, SimNode* node, const uint8_t* root_name, uint32_t root) noexcept nogil:
    cdef const Root* published = tree_enter(node.engine.machine.tree)
    cdef Seen[SEEN_MAX] seen
    cdef uint32_t[SEEN_MAX] children
    cdef Cursor cursor
    cdef ZnodeView view
    cdef uint32_t count = 0, i, place
    cursor_seek(&cursor, published, root_name, <uint16_t>root)
    while cursor.entry != NULL and count < <uint32_t>SEEN_MAX:
        if (cursor.entry.key_length < root
                or memcmp(entry_key(cursor.entry), root_name, root) != 0):
            break
        if _is_znode(cursor.entry):
            children[count] = 0
            seen[count] = cursor.entry
            count += 1
        cursor_next(&cursor)
    for i in range(count):
        _look(world, node, seen[i], _parent(node, seen[i], root - 1))
        place = _place_of(seen, count, _parent(node, seen[i], root - 1))
        if place < count and place != i:
            children[place] += 1
    for i in range(count):
        if znode_view(seen[i], &view) and view.meta.children != children[i]:
            violate(world, VIOLATION_ZNODE_COUNTERS, node.number, view.meta.children, children[i])
    tree_leave(node.engine.machine.tree)
    return count


# --- beside the model -------------------------------------------------------------------------------------------------
cdef void _missing(World* world, SimNode* node, const SimZnode* expected) noexcept nogil:
    if expected.is_sequential:
        violate(world, VIOLATION_ZNODE_SEQUENCE, node.number, expected.czxid, 0)
    elif expected.kind == SIM_EPHEMERAL:
        violate(world, VIOLATION_ZNODE_EPHEMERAL, node.number, expected.owner, expected.czxid)
    else:
        violate(world, VIOLATION_ZNODE_MODEL, node.number, expected.czxid, 2)


# The lease that keeps it, or none.
cdef void _compare_lease(World* world, SimNode* node, SimZnode* expected, const Entry* entry) noexcept nogil:
    cdef uint64_t ttl_ms = 0, deadline_ms = 0
    cdef uint32_t keys = 0
    cdef bint is_there = machine_lease(node.engine.machine, entry.lease, &ttl_ms, &deadline_ms, &keys) == OK
    if expected.kind == SIM_EPHEMERAL:
        if entry.lease != expected.owner:
            violate(world, VIOLATION_ZNODE_EPHEMERAL, node.number, entry.lease, expected.owner)
        return
    if (expected.deadline_ms != 0) != (entry.lease != 0 and is_there):
        violate(world, VIOLATION_ZNODE_MODEL, node.number, expected.deadline_ms, entry.lease)
        return
    if expected.deadline_ms == 0:
        return
    if (expected.lease != 0 and expected.lease != entry.lease) or deadline_ms != expected.deadline_ms:
        violate(world, VIOLATION_ZNODE_MODEL, node.number, deadline_ms, expected.deadline_ms)
    expected.lease = entry.lease


cdef void _compare(World* world, SimNode* node, SimZnode* expected) noexcept nogil:
    cdef const Entry* entry = tree_find(node.engine.machine.tree, expected.key, <uint16_t>expected.length)
    cdef const ZnodeMeta* meta
    cdef ZnodeView view
    if not znode_view(entry, &view):
        _missing(world, node, expected)
        return
    meta = view.meta
    if not (znodes_zxid(world, expected.czxid, entry.create_revision)
            and znodes_zxid(world, expected.mzxid, meta.mzxid) and znodes_zxid(world, expected.pzxid, meta.pzxid)
            and znodes_zxid(world, expected.touched, entry.mod_revision)):
        violate(world, VIOLATION_ZNODE_ZXID, node.number, entry.create_revision, meta.mzxid)
    if meta.creates != expected.creates or meta.children != expected.children:
        violate(world, VIOLATION_ZNODE_COUNTERS, node.number, meta.creates, expected.creates)
    if (meta.version != expected.version or meta.aversion != expected.aversion or meta.kind != expected.kind
            or (meta.flags & ZNODE_NULL_DATA != 0) != expected.is_null or meta.ttl_ms != expected.ttl_ms
            or meta.ctime_ms != expected.ctime_ms or meta.mtime_ms != expected.mtime_ms):
        violate(world, VIOLATION_ZNODE_MODEL, node.number, expected.czxid, <uint64_t>meta.version)
    if (view.data.length != expected.data_length or memcmp(view.data.data, &expected.data, view.data.length) != 0
            or view.acl.length != expected.list_length
            or memcmp(view.acl.data, expected.list, view.acl.length) != 0):
        violate(world, VIOLATION_ZNODE_MODEL, node.number, expected.czxid, view.data.length)
    _compare_lease(world, node, expected, entry)


# --- reads, as doors make them ----------------------------------------------------------------------------------------
cdef void _read_stat(World* world, SimNode* node, const SimZnode* expected) noexcept nogil:
    cdef const Entry* entry = tree_find(node.engine.machine.tree, expected.key, <uint16_t>expected.length)
    cdef ZnodeStat stat
    if not _is_znode(entry):
        _missing(world, node, expected)
        return
    znode_stat(entry, &stat)
    if (stat.cversion != <int32_t>(2 * expected.creates - expected.children)
            or stat.children != <int32_t>expected.children):
        violate(world, VIOLATION_ZNODE_COUNTERS, node.number, <uint64_t>stat.cversion, expected.creates)
    if (stat.version != expected.version or stat.data_length != <int32_t>expected.data_length
            or (expected.kind == SIM_EPHEMERAL and stat.owner != expected.owner)
            or (expected.kind == SIM_CONTAINER and stat.owner != <uint64_t>1 << 63)
            or (expected.kind == SIM_TTL and stat.owner != (<uint64_t>0xff << 56 | expected.ttl_ms))):
        violate(world, VIOLATION_ZNODE_MODEL, node.number, expected.czxid, stat.owner)


# The data that a reader of the store sees, and whom a door lets read it.
cdef void _read_data(World* world, SimNode* node, const SimZnode* expected, uint64_t draw) noexcept nogil:
    cdef uint8_t[4] name
    cdef uint8_t permission = <uint8_t>(1 << draw % PERMISSIONS)
    cdef Identity identity
    cdef ZnodeView view
    cdef KeyView record
    cdef Bytes key
    key.data = &expected.key[0]
    key.length = expected.length
    if machine_get(node.engine.machine, &key, 0, &record) != OK:
        _missing(world, node, expected)
        return
    if (record.value.length != expected.data_length
            or memcmp(record.value.data, &expected.data, record.value.length) != 0
            or record.extension.length != expected.list_length + sizeof(ZnodeMeta)):
        violate(world, VIOLATION_ZNODE_MODEL, node.number, expected.czxid, record.value.length)
    memcpy(name, b"u0:h", 4)
    name[1] += <uint8_t>((draw >> 8) % SIM_OWNERS)
    identity.scheme.data = <const uint8_t*>b"digest"
    identity.scheme.length = 6
    identity.id.data = name
    identity.id.length = 4
    if not znode_view(tree_find(node.engine.machine.tree, key.data, <uint16_t>key.length), &view):
        _missing(world, node, expected)
    elif znode_allows(&view.acl, permission, &identity, 1) != rules_may(expected, permission, &identity, 1):
        violate(world, VIOLATION_ZNODE_MODEL, node.number, expected.czxid, permission)


# The names directly below a znode, found without a look at what is below them.
cdef void _read_children(World* world, SimNode* node, const SimZnode* parent) noexcept nogil:
    cdef SimZnodesModel* model = &world.znodes
    cdef uint8_t[KEY_MAX] low
    cdef uint8_t[KEY_MAX] high
    cdef uint8_t slash = c'/'
    cdef Bytes start, end
    cdef Grouping grouping
    cdef Reader reader
    cdef uint64_t count = 0, revision = 0
    cdef uint32_t length = 0, elements, found = 0
    cdef bint more = False
    cdef const uint8_t* key
    cdef const SimZnode* child
    memcpy(low, parent.key, parent.length)
    start.data = low
    start.length = parent.length
    if parent.length != rules_root_length(parent.key, parent.length) + 1:
        low[parent.length] = c'/'
        start.length += 1
    memcpy(high, low, start.length)
    high[start.length - 1] += 1
    end.data = high
    end.length = start.length
    grouping.delimiter.data = &slash
    grouping.delimiter.length = 1
    grouping.skip = start.length
    model.scratch.clear()
    if machine_range_shared(node.engine.machine, &start, &end, 0, &grouping, 0, 1 << 20, True, False, &model.scratch,
                            &count, &more, &revision) != OK:
        return
    reader = reader_over(model.scratch.data, model.scratch.size)
    while reader.status == OK and reader.at != reader.end:
        if read_peek(&reader) == MSGPACK_BIN8:      # all that is below one of them
            read_bin(&reader, KEY_MAX, &length)
            continue
        elements = read_array_max(&reader, 8)
        key = read_bin(&reader, KEY_MAX, &length)
        child = rules_find(model, key, length) if key != NULL else NULL
        found += child != NULL and child != parent
        if key == NULL or (child == NULL and not rules_is_plain(model, key, length)):
            violate(world, VIOLATION_ZNODE_MODEL, node.number, parent.czxid, 3)
            return
        read_bin(&reader, 1, &length)
        for _i in range(2, elements):
            if read_peek(&reader) == MSGPACK_BIN8:
                read_bin(&reader, KEY_MAX + 64, &length)
            else:
                read_uint(&reader, unsigned_max())
    if reader.status != OK or found != parent.children:
        violate(world, VIOLATION_ZNODE_COUNTERS, node.number, found, parent.children)


# --- a look -----------------------------------------------------------------------------------------------------------
# I31: what came before its turn was not done, and the session keeps nothing of it.
cdef void _check_refused(World* world, SimNode* node) noexcept nogil:
    cdef SimZnodesModel* model = &world.znodes
    cdef const uint8_t* body
    cdef uint32_t length
    cdef uint64_t revision
    if model.refused_session == 0:
        return
    if machine_session_result(node.engine.machine, model.refused_session, model.refused_sequence, &body, &length,
                              &revision) == OK:
        violate(world, VIOLATION_ZNODE_ORDER, node.number, model.refused_sequence, revision)


cdef void _check_whole(World* world, SimNode* node) noexcept nogil:
    cdef SimZnodesModel* model = &world.znodes
    cdef uint64_t ttl_ms, deadline_ms
    cdef uint32_t keys, count
    cdef size_t i
    count = _walk(world, node, <const uint8_t*>b"z/", 2) + _walk(world, node, <const uint8_t*>b"zookeeper/", 10)
    for i in range(model.nodes.size):
        _compare(world, node, &model.nodes.data[i])
    if count != model.nodes.size:
        violate(world, VIOLATION_ZNODE_MODEL, node.number, count, model.nodes.size)
    for i in range(model.ended.size):
        if machine_lease(node.engine.machine, model.ended.data[i], &ttl_ms, &deadline_ms, &keys) == OK:
            violate(world, VIOLATION_ZNODE_MODEL, node.number, model.ended.data[i], deadline_ms)
    model.ended.clear()
    model.checked = model.index
    world.counts.znode_checks += 1


cdef void znodes_check(World* world, SimNode* node) noexcept nogil:
    cdef SimZnodesModel* model = &world.znodes
    cdef uint64_t draw
    if (model.is_lost or node.engine.applying.applied != model.index
            or node.engine.applying.published != model.index):
        return
    draw = next_random(&world.random_znodes)
    _check_refused(world, node)
    if model.checked < model.changed or draw % WHOLE_MEAN == 0:
        _check_whole(world, node)
    if model.nodes.size != 0:
        _read_stat(world, node, &model.nodes.data[(draw >> 8) % model.nodes.size])
        _read_data(world, node, &model.nodes.data[(draw >> 20) % model.nodes.size], draw >> 44)
        _read_children(world, node, &model.nodes.data[(draw >> 32) % model.nodes.size])
        world.counts.znode_reads += 1
