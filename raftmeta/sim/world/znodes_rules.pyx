"""ZooKeeper's rules over the model's tree: bodies.

One operation, in the order in which ZooKeeper looks:
    create   the owner's session; path; parent there; CREATE on it; number; no such key; parent no ephemeral
    delete   no special path; parent there; DELETE on it; there; version; no children
    set data there; WRITE; version
    set rights   a list; there; ADMIN; version of the rights
    check    there; READ; version
Sources: ZooKeeper 3.9 PrepRequestProcessor.pRequest2Txn, pRequest2TxnCreate; DataTree.
"""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy, memset

from raftmeta.sim.world.znodes_state cimport (SIM_CONTAINER, SIM_EPHEMERAL, SIM_TTL, SIM_ZNODE_KEY_MAX)
from raftmeta.wire.commands cimport Bytes
from raftmeta.wire.msgpack cimport Reader, read_array, read_array_max, read_bin, read_uint, reader_over, unsigned_max
from raftmeta.wire.znodes cimport (ZNODE_CHECK, ZNODE_CREATE, ZNODE_DELETE, ZNODE_SET_ACL, ZNODE_SET_DATA, Identity,
                                   ZnodeOp)

cdef enum:
    NO_NODE = -101
    NO_AUTH = -102
    BAD_VERSION_NUMBER = -103
    NO_CHILDREN_FOR_EPHEMERALS = -108
    NODE_EXISTS = -110
    TREE_BLOCKED = -3
    NOT_EMPTY = -111
    SESSION_EXPIRED = -112
    INVALID_LIST = -114
    BAD_ARGUMENTS = -8

cdef enum:
    PERM_READ = 1
    PERM_WRITE = 2
    PERM_CREATE = 4
    PERM_DELETE = 8
    PERM_ADMIN = 16

cdef enum:
    CONTAINER_MS = 60_000       # for which an empty container stays
    RIGHTS_MAX = 8              # entries of one list


# --- the tree ---------------------------------------------------------------------------------------------------------
cdef bint _same(const uint8_t* left, uint32_t left_length, const uint8_t* right, uint32_t right_length) noexcept nogil:
    return left_length == right_length and memcmp(left, right, left_length) == 0


cdef SimZnode* rules_find(SimZnodesModel* model, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef size_t i
    for i in range(model.nodes.size):
        if _same(model.nodes.data[i].key, model.nodes.data[i].length, key, length):
            return &model.nodes.data[i]
    return NULL


cdef SimOwnerLease* rules_lease(SimZnodesModel* model, uint64_t id) noexcept nogil:
    cdef size_t i
    for i in range(model.leases.size):
        if model.leases.data[i].id == id:
            return &model.leases.data[i]
    return NULL


cdef uint32_t rules_root_length(const uint8_t* key, uint32_t length) noexcept nogil:
    cdef uint32_t i = 0
    while i < length and key[i] != c'/':
        i += 1
    return i


# The znode above; NULL: none. That of a root is the root.
cdef SimZnode* _parent(SimZnodesModel* model, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef uint32_t root = rules_root_length(key, length)
    cdef uint32_t cut = length - 1
    while cut > root and key[cut] != c'/':
        cut -= 1
    return rules_find(model, key, cut if cut > root else root + 1)


cdef bint rules_is_plain(SimZnodesModel* model, const uint8_t* key, uint32_t length) noexcept nogil:
    cdef size_t i
    for i in range(model.plain.size):
        if _same(model.plain.data[i].key, model.plain.data[i].length, key, length):
            return True
    return False


# --- rights -----------------------------------------------------------------------------------------------------------
cdef bint _is_text(const uint8_t* data, uint32_t length, const char* text, uint32_t text_length) noexcept nogil:
    return _same(data, length, <const uint8_t*>text, text_length)


cdef bint _has_identity(const Identity* identities, size_t count, const uint8_t* scheme, uint32_t scheme_length,
                        const uint8_t* name, uint32_t name_length) noexcept nogil:
    cdef const Identity* identity
    cdef size_t i
    for i in range(count):
        identity = &identities[i]
        if (_same(identity.scheme.data, identity.scheme.length, scheme, scheme_length)
                and _same(identity.id.data, identity.id.length, name, name_length)):
            return True
    return False


cdef bint _may(const SimZnode* node, uint32_t permission, const Command* command) noexcept nogil:
    return rules_may(node, permission, command.identities.data, command.identities.size)


cdef bint rules_may(const SimZnode* node, uint32_t permission, const Identity* identities, size_t count) noexcept nogil:
    cdef Reader reader = reader_over(node.list, node.list_length)
    cdef uint32_t entries, scheme_length = 0, name_length = 0
    cdef const uint8_t* scheme
    cdef const uint8_t* name
    cdef uint64_t given
    if node.list_length == 0 or _has_identity(identities, count, <const uint8_t*>b"super", 5, NULL, 0):
        return True
    entries = read_array_max(&reader, RIGHTS_MAX)
    for _i in range(entries):
        read_array(&reader, 3)
        given = read_uint(&reader, unsigned_max())
        scheme = read_bin(&reader, SIM_ZNODE_KEY_MAX, &scheme_length)
        name = read_bin(&reader, SIM_ZNODE_KEY_MAX, &name_length)
        if not given & permission:
            continue
        if _is_text(scheme, scheme_length, b"world", 5) and _is_text(name, name_length, b"anyone", 6):
            return True
        if _has_identity(identities, count, scheme, scheme_length, name, name_length):
            return True
    return False


# --- comings and goings -----------------------------------------------------------------------------------------------
# The lease that a znode has for itself, while it has one, must be gone when the znode is without it.
cdef void _stop_time(SimZnodesModel* model, SimZnode* node) noexcept nogil:
    if node.deadline_ms != 0 and node.lease != 0:
        model.ended.push(node.lease)
    node.deadline_ms = node.lease = 0


# A TTL node always has a lease, a container while it had children and has none. The time begins anew with a write of
# the data and with the loss of the last child; what counts is how the entry leaves them.
cdef void rules_settle(SimZnodesModel* model, SimPlace place) noexcept nogil:
    cdef SimZnode* node
    cdef uint64_t time_ms
    cdef bint is_empty
    cdef size_t i
    for i in range(model.nodes.size):
        node = &model.nodes.data[i]
        if node.touched != place.index or (node.kind != SIM_TTL and node.kind != SIM_CONTAINER):
            continue
        is_empty = node.children == 0
        time_ms = node.ttl_ms if node.kind == SIM_TTL else CONTAINER_MS
        if node.kind == SIM_CONTAINER and (node.creates == 0 or not is_empty):
            _stop_time(model, node)
        elif node.deadline_ms == 0 or node.mzxid == place.index or (node.pzxid == place.index and is_empty):
            node.deadline_ms = model.lease_ms + time_ms


cdef void _child_came(SimZnode* parent, SimPlace place) noexcept nogil:
    parent.creates += 1
    parent.children += 1
    parent.pzxid = parent.touched = place.index


cdef void _remove(SimZnodesModel* model, SimZnode* node, SimPlace place) noexcept nogil:
    cdef SimZnode* parent = _parent(model, node.key, node.length)
    _stop_time(model, node)
    if parent != NULL:
        parent.children -= 1
        parent.pzxid = parent.touched = place.index
    node[0] = model.nodes.back()
    model.nodes.pop()
    model.changed = place.index


cdef void _begin_node(SimZnode* node, SimPlace place) noexcept nogil:
    node.czxid = node.mzxid = node.pzxid = node.touched = place.index
    node.ctime_ms = node.mtime_ms = place.wall_ms


# --- the znodes that every root has -----------------------------------------------------------------------------------
# Nobody created them: no zxid, no time, and their parents do not count them as created. NULL: a plain key is there.
cdef SimZnode* _found(SimZnodesModel* model, const Bytes* root, const char* path, uint32_t length, uint32_t children,
                      SimPlace place) noexcept nogil:
    cdef SimZnode node
    memset(&node, 0, sizeof(SimZnode))
    memcpy(node.key, root.data, root.length)
    memcpy(node.key + root.length, path, length)
    node.length = root.length + length
    node.children = children
    node.is_founded = True
    node.czxid = node.touched = place.index
    if rules_is_plain(model, node.key, node.length) or not model.nodes.push(node):
        return NULL
    return &model.nodes.back()


cdef bint _found_root(SimZnodesModel* model, const Bytes* root, SimPlace place) noexcept nogil:
    cdef SimZnode* config
    if (_found(model, root, b"/", 1, 1, place) == NULL or _found(model, root, b"/zookeeper", 10, 2, place) == NULL
            or _found(model, root, b"/zookeeper/quota", 16, 0, place) == NULL):
        return False
    config = _found(model, root, b"/zookeeper/config", 17, 0, place)
    if config == NULL:
        return False
    config.aversion = -1            # everybody reads it, and nobody else does anything (DataTree.addConfigNode)
    config.list_length = 18
    memcpy(config.list, b"\x91\x93\x01\xc4\x05world\xc4\x06anyone", 18)
    model.changed = place.index
    return True


# --- operations -------------------------------------------------------------------------------------------------------
cdef void _take_data(SimZnode* node, const ZnodeOp* op) noexcept nogil:
    node.is_null = not op.has_data
    node.data = 0
    node.data_length = op.data.length
    memcpy(&node.data, op.data.data, min(op.data.length, <uint32_t>sizeof(uint64_t)))


# That everybody may do everything is said by no list.
cdef void _take_list(SimZnode* node, const Bytes* acl) noexcept nogil:
    node.list_length = acl.length
    memcpy(node.list, acl.data, acl.length)
    if _is_text(node.list, node.list_length, b"\x91\x93\x1f\xc4\x05world\xc4\x06anyone", 18):
        node.list_length = 0


cdef int32_t _create(SimZnodesModel* model, const Command* command, const ZnodeOp* op, SimPlace place,
                     SimZnodeAnswer* answer) noexcept nogil:
    cdef SimZnode* node = &answer.node
    cdef SimZnode* parent = _parent(model, node.key, node.length)
    if parent == NULL:
        return NO_NODE
    if not _may(parent, PERM_CREATE, command):
        return NO_AUTH
    if op.is_sequential:
        node.length += snprintf(<char*>node.key + node.length, SIM_ZNODE_KEY_MAX - node.length, b"%0*d",
                                <int>op.width, <int>parent.creates)
    answer.is_sequential = op.is_sequential
    answer.parent = parent.czxid
    if rules_find(model, node.key, node.length) != NULL or rules_is_plain(model, node.key, node.length):
        return NODE_EXISTS
    if parent.kind == SIM_EPHEMERAL:
        return NO_CHILDREN_FOR_EPHEMERALS
    _child_came(parent, place)
    _begin_node(node, place)
    _take_data(node, op)
    _take_list(node, &op.acl)
    node.is_sequential = op.is_sequential
    node.kind = op.node_kind
    if node.kind == SIM_EPHEMERAL:
        node.owner = command.id
    elif node.kind == SIM_TTL:
        node.ttl_ms = op.ttl_ms
    model.nodes.push(node[0])
    model.changed = place.index
    return 0


cdef bint _is_special(const SimZnode* node, uint32_t root) noexcept nogil:
    cdef const uint8_t* path = node.key + root
    cdef uint32_t length = node.length - root
    return (length == 1 or _is_text(path, length, b"/zookeeper", 10) or _is_text(path, length, b"/zookeeper/quota", 16)
            or _is_text(path, length, b"/zookeeper/config", 17))


cdef int32_t _delete(SimZnodesModel* model, const Command* command, const ZnodeOp* op, SimPlace place,
                     const SimZnodeAnswer* answer) noexcept nogil:
    cdef SimZnode* parent = _parent(model, answer.node.key, answer.node.length)
    cdef SimZnode* node = rules_find(model, answer.node.key, answer.node.length)
    if _is_special(&answer.node, command.name.length):
        return BAD_ARGUMENTS
    if parent == NULL:
        return NO_NODE
    if not _may(parent, PERM_DELETE, command):
        return NO_AUTH
    if node == NULL:
        return NO_NODE
    if op.version != -1 and op.version != node.version:
        return BAD_VERSION_NUMBER
    if node.children != 0:
        return NOT_EMPTY
    _remove(model, node, place)
    return 0


# Set data, set rights, check.
cdef int32_t _touch(SimZnodesModel* model, const Command* command, const ZnodeOp* op, SimPlace place,
                    SimZnodeAnswer* answer) noexcept nogil:
    cdef SimZnode* node = rules_find(model, answer.node.key, answer.node.length)
    cdef uint32_t permission = PERM_READ
    if op.kind == ZNODE_SET_DATA:
        permission = PERM_WRITE
    elif op.kind == ZNODE_SET_ACL:
        permission = PERM_ADMIN
    if op.kind == ZNODE_SET_ACL and op.acl.length == 0:
        return INVALID_LIST
    if node == NULL:
        return NO_NODE
    if not _may(node, permission, command):
        return NO_AUTH
    if op.version != -1 and op.version != (node.aversion if op.kind == ZNODE_SET_ACL else node.version):
        return BAD_VERSION_NUMBER
    if op.kind == ZNODE_SET_DATA:
        _take_data(node, op)
        node.version += 1
        node.mzxid = place.index
        node.mtime_ms = place.wall_ms
    elif op.kind == ZNODE_SET_ACL:
        _take_list(node, &op.acl)
        node.aversion += 1
    if op.kind != ZNODE_CHECK:
        node.touched = model.changed = place.index
    answer.node = node[0]
    return 0


cdef int32_t _operate(SimZnodesModel* model, const Command* command, const ZnodeOp* op, SimPlace place) noexcept nogil:
    cdef SimZnodeAnswer answer
    cdef int32_t code
    memset(&answer, 0, sizeof(SimZnodeAnswer))
    answer.kind = op.kind
    answer.node.length = command.name.length + op.path.length
    memcpy(answer.node.key, command.name.data, command.name.length)
    memcpy(answer.node.key + command.name.length, op.path.data, op.path.length)
    if op.kind == ZNODE_CREATE:
        code = _create(model, command, op, place, &answer)
    elif op.kind == ZNODE_DELETE:
        code = _delete(model, command, op, place, &answer)
    else:
        code = _touch(model, command, op, place, &answer)
    if code == 0 and not model.answers.push(answer):
        model.is_lost = True
    return code


# --- a request --------------------------------------------------------------------------------------------------------
cdef int32_t rules_request(SimZnodesModel* model, const Command* command, SimPlace place,
                           uint32_t* position) noexcept nogil:
    cdef size_t ended = model.ended.size
    cdef index_t changed = model.changed
    cdef int32_t code = 0
    cdef size_t i
    position[0] = 0
    model.answers.clear()
    if command.id != 0 and rules_lease(model, command.id) == NULL:
        return SESSION_EXPIRED
    model.before.clear()
    if not model.before.append(model.nodes.data, model.nodes.size):
        model.is_lost = True
        return 0
    if not _is_founded(model, &command.name) and not _found_root(model, &command.name, place):
        code = TREE_BLOCKED
    for i in range(command.znodes.size if code == 0 else 0):
        code = _operate(model, command, &command.znodes.data[i], place)
        if code != 0:
            position[0] = <uint32_t>i
            break
    if code != 0:
        model.nodes.clear()
        model.nodes.append(model.before.data, model.before.size)
        model.ended.size = ended
        model.changed = changed
    else:
        rules_settle(model, place)
    return code


cdef bint _is_founded(SimZnodesModel* model, const Bytes* root) noexcept nogil:
    cdef uint8_t[SIM_ZNODE_KEY_MAX] key
    memcpy(key, root.data, root.length)
    key[root.length] = c'/'
    return rules_find(model, key, root.length + 1) != NULL


# --- what time ends ---------------------------------------------------------------------------------------------------
cdef void rules_end_lease(SimZnodesModel* model, uint64_t id, SimPlace place) noexcept nogil:
    cdef SimOwnerLease* lease = rules_lease(model, id)
    cdef size_t i = 0
    while i < model.nodes.size:
        if model.nodes.data[i].kind == SIM_EPHEMERAL and model.nodes.data[i].owner == id:
            _remove(model, &model.nodes.data[i], place)     # another one stands in its place now
        else:
            i += 1
    if lease != NULL:
        lease[0] = model.leases.back()
        model.leases.pop()


cdef void rules_end_time(SimZnodesModel* model, SimZnode* node, SimPlace place) noexcept nogil:
    cdef size_t i
    for i in range(model.before.size):
        if (_same(model.before.data[i].key, model.before.data[i].length, node.key, node.length)
                and model.before.data[i].children != 0):
            node.deadline_ms = model.lease_ms + node.ttl_ms
            return
    _remove(model, node, place)
