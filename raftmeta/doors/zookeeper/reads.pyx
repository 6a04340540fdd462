"""Reads of the ZooKeeper door: bodies.

Direct children are found without a scan of what is below them: behind a child that has children of its own, one seek
leads to the next. Source of checks and of watches that reads set: ZooKeeper 3.9 FinalRequestProcessor.java.
"""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, strlen

from raftmeta.doors.zookeeper.codec cimport (ZkStrings, zk_event, zk_operation_next, zk_result_error, zk_result_head,
                                             zk_results_end, zk_string_next, zk_vector_begin, zk_vector_end,
                                             zk_write_bytes, zk_write_int, zk_write_stat)
from raftmeta.doors.zookeeper.config cimport config_text
from raftmeta.doors.zookeeper.protocol cimport (ZK_BAD_ARGUMENTS, ZK_EVENT_CHILDREN_CHANGED, ZK_EVENT_CREATED,
                                                ZK_EVENT_DATA_CHANGED, ZK_EVENT_DELETED, ZK_EXISTS, ZK_GET_ACL,
                                                ZK_GET_ALL_CHILDREN_NUMBER, ZK_GET_CHILDREN, ZK_GET_CHILDREN2,
                                                ZK_GET_DATA, ZK_GET_EPHEMERALS, ZK_MULTI_READ, ZK_NO_NODE, ZK_OK,
                                                ZK_STATE_CONNECTED, ZK_SYSTEM_ERROR, ZK_UNIMPLEMENTED)
from raftmeta.doors.zookeeper.translate cimport (ZkNode, zk_founded_child, zk_is_config, zk_is_statistics, zk_may_read,
                                                 zk_node_find, zk_read_body, zk_statistics_text)
from raftmeta.doors.zookeeper.watch_table cimport (HEARS_ALWAYS, HEARS_BELOW, HEARS_CHILDREN, HEARS_DATA,
                                                   watch_table_add)
from raftmeta.machine.tree cimport cursor_next, cursor_seek, entry_at_pinned, entry_key, root_find
from raftmeta.machine.znodes cimport znode_view
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport KEY_BYTES_MAX
from raftmeta.wire.znodes cimport ZNODE_EPHEMERAL


# --- the root ---------------------------------------------------------------------------------------------------------
cdef const Entry* reads_entry(ZkDoor* door, const Bytes* key, uint64_t revision) noexcept nogil:
    if key.length > KEY_BYTES_MAX:
        return NULL
    return entry_at_pinned(root_find(door.desk.pinned, key.data, <uint16_t>key.length), revision)


# --- nodes ------------------------------------------------------------------------------------------------------------
cdef const Entry* _entry_of(ZkDoor* door, const Bytes* path) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key
    key.data = bytes
    key.length = door.root_length + path.length
    if key.length > KEY_BYTES_MAX:
        return NULL
    memcpy(bytes, door.root, door.root_length)
    if path.length:
        memcpy(bytes + door.root_length, path.data, path.length)
    return reads_entry(door, &key, door.position)


# The node's data is what stands in door.body.
cdef void _show_body(const ZkDoor* door, ZkNode* into) noexcept nogil:
    into.data.data = door.body.data
    into.data.length = <uint32_t>door.body.size
    into.is_data_null = False
    into.stat.data_length = <int32_t>door.body.size


# The top has a second name, which is empty (DataTree.java).
cdef inline Bytes _named(const Bytes* path) noexcept nogil:
    cdef Bytes top
    top.data = <const uint8_t*><const char*>b"/"
    top.length = 1
    return path[0] if path.length else top


cdef bint _find(ZkDoor* door, const Bytes* asked, ZkNode* into) noexcept nogil:
    cdef Bytes named = _named(asked)
    cdef const Bytes* path = &named
    if not zk_node_find(_entry_of(door, path), path, into):
        return False
    if zk_is_config(path):
        door.body.clear()
        config_text(door, &door.body)
        _show_body(door, into)
    return True


# --- below a node -----------------------------------------------------------------------------------------------------
cdef bint reads_begin_below(ZkDoor* door, const Bytes* path, Below* below) noexcept nogil:
    cdef uint32_t length = path.length
    if path.length == 1:
        length = 0              # the root's own slash is the one behind it
    if door.root_length + length + 1 > KEY_BYTES_MAX:
        return False
    memcpy(below.prefix, door.root, door.root_length)
    if length:
        memcpy(below.prefix + door.root_length, path.data, length)
    below.length = door.root_length + length
    below.prefix[below.length] = c'/'
    below.length += 1
    cursor_seek(&below.cursor, door.desk.pinned, below.prefix, <uint16_t>below.length)
    return True


cdef const Entry* reads_next_below(ZkDoor* door, Below* below, Bytes* name, ZnodeView* view) noexcept nogil:
    cdef const Entry* entry
    cdef const uint8_t* key
    while below.cursor.entry != NULL:
        entry = below.cursor.entry
        key = entry_key(entry)
        if entry.key_length < below.length or memcmp(key, below.prefix, below.length) != 0:
            return NULL
        cursor_next(&below.cursor)
        name.data = key + below.length
        name.length = entry.key_length - below.length
        entry = entry_at_pinned(entry, door.position)
        if name.length != 0 and znode_view(entry, view):
            return entry
    return NULL


cdef bint _has_slash(const Bytes* name, uint32_t* at) noexcept nogil:
    cdef uint32_t i
    for i in range(name.length):
        if name.data[i] == c'/':
            at[0] = i
            return True
    return False


# Behind all that is below the child whose name is the first `length` bytes of `name`.
cdef void _pass_below(ZkDoor* door, Below* below, const Bytes* name, uint32_t length) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX + 1] bound
    memcpy(bound, below.prefix, below.length)
    memcpy(bound + below.length, name.data, length)
    bound[below.length + length] = c'/' + 1
    cursor_seek(&below.cursor, door.desk.pinned, bound, <uint16_t>(below.length + length + 1))


# The names of all children; False: no memory.
cdef bint _write_children(ZkDoor* door, const Bytes* path, Vec[uint8_t]* out) noexcept nogil:
    cdef Below below
    cdef Bytes name
    cdef ZnodeView view
    cdef size_t at
    cdef uint32_t count = 0
    cdef uint32_t slash
    cdef const char* first
    cdef Bytes top
    if zk_vector_begin(out, &at) != OK:
        return False
    top.data = <const uint8_t*><const char*>b"/"
    top.length = 1
    if not znode_view(_entry_of(door, &top), &view):        # no command has made a tree yet
        first = zk_founded_child(path, count)
        while first != NULL:
            if zk_write_bytes(out, <const uint8_t*>first, <uint32_t>strlen(first)) != OK:
                return False
            count += 1
            first = zk_founded_child(path, count)
    elif reads_begin_below(door, path, &below):
        while reads_next_below(door, &below, &name, &view) != NULL:
            if _has_slash(&name, &slash):
                _pass_below(door, &below, &name, slash)
                continue
            if zk_write_bytes(out, name.data, name.length) != OK:
                return False
            count += 1
    zk_vector_end(out, at, count)
    return True


cdef int32_t _children(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                       Vec[uint8_t]* out) noexcept nogil:
    cdef Bytes named = _named(&request.path)
    cdef ZkNode node
    cdef int32_t error
    if not _find(door, &named, &node):
        return ZK_NO_NODE
    error = zk_may_read(request, &node, &connection.speaker, &door.arena)
    if error != ZK_OK:
        return error
    if not _write_children(door, &named, out):
        return ZK_SYSTEM_ERROR
    if request.opcode == ZK_GET_CHILDREN2 and zk_write_stat(out, &node.stat) != OK:
        return ZK_SYSTEM_ERROR
    return _watch(door, connection, request, HEARS_CHILDREN)


# All nodes below, not only its children.
cdef int32_t _count_below(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                          Vec[uint8_t]* out) noexcept nogil:
    cdef ZkNode node
    cdef Below below
    cdef Bytes name
    cdef ZnodeView view
    cdef int32_t count = 0
    cdef int32_t error
    if not _find(door, &request.path, &node):
        return ZK_NO_NODE
    error = zk_may_read(request, &node, &connection.speaker, &door.arena)
    if error != ZK_OK:
        return error
    if reads_begin_below(door, &request.path, &below):
        while reads_next_below(door, &below, &name, &view) != NULL:
            count += 1
    return ZK_OK if zk_write_int(out, count) == OK else ZK_SYSTEM_ERROR


# The session's own, whose paths begin with that of the request. All such paths are walked: an operator asks this.
cdef int32_t _ephemerals(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                         Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Below below
    cdef Bytes name, top
    cdef ZnodeView view
    cdef const Entry* entry
    cdef const uint8_t* path
    cdef uint32_t length
    cdef size_t at
    cdef uint32_t count = 0
    if zk_vector_begin(out, &at) != OK:
        return ZK_SYSTEM_ERROR
    top.data = <const uint8_t*><const char*>b"/"
    top.length = 1
    reads_begin_below(door, &top, &below)
    if request.path.length > 1 and request.path.data[0] == c'/' and request.path.length < KEY_BYTES_MAX - below.length:
        # The first key with that prefix; `below` stays the whole tree.
        memcpy(bytes, below.prefix, below.length)
        memcpy(bytes + below.length, request.path.data + 1, request.path.length - 1)
        cursor_seek(&below.cursor, door.desk.pinned, bytes, <uint16_t>(below.length + request.path.length - 1))
    entry = reads_next_below(door, &below, &name, &view)
    while entry != NULL:
        path = entry_key(entry) + door.root_length
        length = entry.key_length - door.root_length
        if length < request.path.length or memcmp(path, request.path.data, request.path.length) != 0:
            if memcmp(path, request.path.data, min(length, request.path.length)) > 0:
                break               # behind all of them
        elif entry.lease == connection.session and view.meta.kind == ZNODE_EPHEMERAL:
            if zk_write_bytes(out, path, length) != OK:
                return ZK_SYSTEM_ERROR
            count += 1
        entry = reads_next_below(door, &below, &name, &view)
    zk_vector_end(out, at, count)
    return ZK_OK


# The statistics of a quota. ZooKeeper writes them at each change (DataTree.updateQuotaStat); here they are counted when
# they are asked for, so a change costs nothing more. The walk is that of _count_below: an operator asks this.
cdef void _show_statistics(ZkDoor* door, const Bytes* path, ZkNode* into) noexcept nogil:
    cdef Below below
    cdef Bytes name
    cdef ZnodeView view
    cdef int64_t nodes = 0
    cdef int64_t data_bytes = 0
    if znode_view(_entry_of(door, path), &view):
        nodes = 1
        data_bytes = view.data.length
        if reads_begin_below(door, path, &below):
            while reads_next_below(door, &below, &name, &view) != NULL:
                nodes += 1
                data_bytes += view.data.length
    door.body.clear()
    zk_statistics_text(nodes, data_bytes, &door.body)
    _show_body(door, into)


# --- requests ---------------------------------------------------------------------------------------------------------
cdef int32_t _watch(ZkDoor* door, ZkConnection* connection, const ZkRequest* request, uint8_t mode) noexcept nogil:
    if not request.is_watching:
        return ZK_OK
    if watch_table_add(&door.table, &connection.watches, connection.base.place, &request.path, mode) != OK:
        return ZK_SYSTEM_ERROR
    return ZK_OK


cdef int32_t _one(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                  bint is_alone, Vec[uint8_t]* out) noexcept nogil:
    cdef ZkNode node
    cdef Bytes counted
    cdef bint is_there
    cdef int32_t error
    if (request.opcode == ZK_EXISTS and request.path.length
            and memchr(request.path.data, 0, request.path.length) != NULL):
        return ZK_BAD_ARGUMENTS
    is_there = _find(door, &request.path, &node)
    if is_there and is_alone and zk_is_statistics(&request.path, &counted):
        _show_statistics(door, &counted, &node)
    error = zk_read_body(request, &node if is_there else NULL, &connection.speaker, &door.arena, out)
    # As in ZooKeeper, who asks whether a node exists hears of it also if it does not.
    if error == ZK_OK and request.opcode != ZK_GET_ACL or error == ZK_NO_NODE and request.opcode == ZK_EXISTS:
        if _watch(door, connection, request, HEARS_DATA) != ZK_OK:
            return ZK_SYSTEM_ERROR
    return error


cdef int32_t _many(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                   Vec[uint8_t]* out) noexcept nogil:
    cdef ZkStrings operations = request.operations
    cdef ZkRequest one
    cdef size_t start
    cdef int32_t error
    while zk_operation_next(&operations, &one):
        start = out.size
        if zk_result_head(out, one.opcode) != OK:
            return ZK_SYSTEM_ERROR
        error = _serve(door, connection, &one, False, out)
        if error != ZK_OK:
            out.size = start
            if error == ZK_SYSTEM_ERROR or zk_result_error(out, error) != OK:
                return ZK_SYSTEM_ERROR
    return ZK_OK if zk_results_end(out) == OK else ZK_SYSTEM_ERROR


# is_alone: not one of the thousands of a multiRead, which would each walk over the tree.
cdef int32_t _serve(ZkDoor* door, ZkConnection* connection, const ZkRequest* request, bint is_alone,
                    Vec[uint8_t]* out) noexcept nogil:
    if request.opcode in (ZK_EXISTS, ZK_GET_DATA, ZK_GET_ACL):
        return _one(door, connection, request, is_alone, out)
    if request.opcode in (ZK_GET_CHILDREN, ZK_GET_CHILDREN2):
        return _children(door, connection, request, out)
    if request.opcode == ZK_GET_ALL_CHILDREN_NUMBER:
        return _count_below(door, connection, request, out)
    if request.opcode == ZK_GET_EPHEMERALS:
        return _ephemerals(door, connection, request, out)
    if request.opcode == ZK_MULTI_READ:
        return _many(door, connection, request, out)
    return ZK_UNIMPLEMENTED


cdef int32_t reads_serve(ZkDoor* door, ZkConnection* connection, const ZkRequest* request,
                         Vec[uint8_t]* out) noexcept nogil:
    return _serve(door, connection, request, True, out)


# --- watches of a client that comes back ------------------------------------------------------------------------------
# The event that the client missed, 0: none, and the watch is set. kind: position in ZkRequest.watches.
cdef int32_t _missed(bint is_there, const ZkNode* node, uint32_t kind, uint64_t seen) noexcept nogil:
    if kind == 1:
        return <int32_t>ZK_EVENT_CREATED if is_there else 0
    if kind >= 3:
        return 0
    if not is_there:
        return ZK_EVENT_DELETED
    if kind == 0:
        return <int32_t>ZK_EVENT_DATA_CHANGED if node.stat.mzxid > seen else 0
    return <int32_t>ZK_EVENT_CHILDREN_CHANGED if node.stat.pzxid > seen else 0


cdef inline uint8_t _mode_of(uint32_t kind) noexcept nogil:
    if kind <= 1:
        return HEARS_DATA
    if kind == 2:
        return HEARS_CHILDREN
    return HEARS_ALWAYS if kind == 3 else HEARS_BELOW


cdef int32_t reads_set_watches(ZkDoor* door, ZkConnection* connection, const ZkRequest* request) noexcept nogil:
    cdef ZkStrings strings
    cdef Bytes path
    cdef ZkNode node
    cdef uint32_t kind
    cdef int32_t event
    cdef bint is_there
    for kind in range(5):
        strings = request.watches[kind]
        while zk_string_next(&strings, &path):
            is_there = _find(door, &path, &node)
            event = _missed(is_there, &node, kind, request.zxid)
            if event != 0:
                # As ZooKeeper: such an event names no change of its own.
                if zk_event(&connection.base.out, ~<uint64_t>0, event, ZK_STATE_CONNECTED, path.data,
                            path.length) != OK:
                    return ZK_SYSTEM_ERROR
            elif watch_table_add(&door.table, &connection.watches, connection.base.place, &path,
                                 _mode_of(kind)) != OK:
                return ZK_SYSTEM_ERROR
    return ZK_OK
