"""Changes on their way to ZooKeeper clients: bodies.

It decides which event a change is. An event is looked for in the table of watches first, so that a change that nobody
waits for costs its key alone. Rights are those of the node that changed, as in ZooKeeper since 3.9.2 (CVE-2024-23944).

Why no event is missed or late: a read is served at `position` and sets its watch in the same turn; what was enqueued up
to `position` was told before, and what comes later finds the watch.
"""

from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from raftmeta.connections.connections cimport connection_fail
from raftmeta.connections.state cimport CONNECTION_OPEN
from raftmeta.doors.desk.desk cimport desk_pin, desk_unwatch, desk_watch
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.zookeeper.auth cimport speaker_identities
from raftmeta.doors.zookeeper.codec cimport zk_event
from raftmeta.doors.zookeeper.output cimport connection_appended
from raftmeta.doors.zookeeper.protocol cimport (ZK_EVENT_CHILDREN_CHANGED, ZK_EVENT_CREATED, ZK_EVENT_DATA_CHANGED,
                                                ZK_EVENT_DELETED, ZK_READ, ZK_STATE_CONNECTED)
from raftmeta.doors.zookeeper.reads cimport reads_entry
from raftmeta.doors.zookeeper.session_keys cimport session_key_changed, session_key_id
from raftmeta.doors.zookeeper.state cimport ROOT_BYTES_MAX, ZkConnection
from raftmeta.doors.zookeeper.translate cimport zk_is_config
from raftmeta.doors.zookeeper.watch_table cimport (HEARS_ALWAYS, HEARS_ANY, HEARS_BELOW, HEARS_CHILDREN, HEARS_DATA,
                                                   watch_table_fire, watch_table_is_watched)
from raftmeta.machine.entry cimport ENTRY_ZNODE, Entry
from raftmeta.machine.watches cimport (WATCH_DELETE, WATCH_EVENTS, WATCH_LAGGED, WATCH_PROGRESS_MARK, WatchView,
                                       view_event, watch_look, watch_pass, watch_reached)
from raftmeta.machine.znodes cimport ZnodeView, znode_allows, znode_view
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport KEY_BYTES_MAX
from raftmeta.wire.msgpack cimport (Reader, number_max, read_array_max, read_bin, read_uint, reader_over)

cdef enum:
    EVENT_ELEMENTS_MAX = 3      # [type, record, previous | nil]
    RECORD_ELEMENTS_MAX = 8     # [key, value, create, mod, version, lease, flags, extension]
    VALUE_BYTES_MAX = 0x7FFFFFFF


# --- one event to one path's watchers ---------------------------------------------------------------------------------
# view NULL: nobody knows any more who may read the node.
cdef bint _may_hear(ZkDoor* door, const ZkConnection* connection, const ZnodeView* view) noexcept nogil:
    if view == NULL or view.acl.length == 0:
        return True
    door.arena.identities.clear()
    if speaker_identities(&connection.speaker, &door.arena.identities) != OK:
        return False
    return znode_allows(&view.acl, ZK_READ, door.arena.identities.data, <uint32_t>door.arena.identities.size)


cdef void _tell(ZkDoor* door, uint32_t place, uint64_t revision, int32_t type, const Bytes* path,
                const ZnodeView* view) noexcept nogil:
    cdef ZkConnection* connection = &door.connections[place]
    if connection.base.state != CONNECTION_OPEN or connection.event_mark == door.event_number:
        return
    connection.event_mark = door.event_number
    if not _may_hear(door, connection, view):
        return
    if zk_event(&connection.base.out, revision, type, ZK_STATE_CONNECTED, path.data, path.length) != OK:
        connection_fail(&door.desk.base, &connection.base)
        return
    connection.traffic.sent += 1
    door.traffic.sent += 1
    door.counters.events += 1
    connection_appended(door, connection)


# One event, once to each connection that watches it in one of the modes.
cdef void _fire(ZkDoor* door, uint64_t revision, int32_t type, const Bytes* path, uint8_t modes, uint8_t spent,
                const ZnodeView* view) noexcept nogil:
    cdef size_t i
    door.places.clear()
    if not watch_table_fire(&door.table, path, modes, spent, &door.places):
        # Who was to hear of it is not known for want of memory.
        for i in range(door.desk.base.limits.connections_max):
            connection_fail(&door.desk.base, &door.connections[i].base)
        return
    door.event_number += 1
    for i in range(door.places.size):
        _tell(door, door.places.data[i], revision, type, path, view)


cdef Bytes _parent_of(const Bytes* path) noexcept nogil:
    cdef Bytes parent = path[0]
    while parent.length and parent.data[parent.length - 1] != c'/':
        parent.length -= 1
    if parent.length > 1:
        parent.length -= 1
    return parent


cdef bint _view_at(ZkDoor* door, const Bytes* path, uint64_t revision, ZnodeView* view) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key
    key.data = bytes
    key.length = door.root_length + path.length
    if key.length > KEY_BYTES_MAX:
        return False
    memcpy(bytes, door.root, door.root_length)
    memcpy(bytes + door.root_length, path.data, path.length)
    return znode_view(reads_entry(door, &key, revision), view)


cdef void _fire_children(ZkDoor* door, const Bytes* path, uint64_t revision) noexcept nogil:
    cdef Bytes parent = _parent_of(path)
    cdef ZnodeView view
    cdef bint is_known
    if watch_table_is_watched(&door.table, &parent, HEARS_CHILDREN | HEARS_ALWAYS):
        # A parent that went in the same entry was readable by whom it let before.
        is_known = _view_at(door, &parent, revision, &view) or _view_at(door, &parent, revision - 1, &view)
        _fire(door, revision, ZK_EVENT_CHILDREN_CHANGED, &parent, HEARS_CHILDREN | HEARS_ALWAYS, HEARS_CHILDREN,
              &view if is_known else NULL)


# --- one change -------------------------------------------------------------------------------------------------------
# Nodes that ZooKeeper has from its first day: the command that makes them creates nothing that was not there before.
cdef bint _is_of_old(const Bytes* path) noexcept nogil:
    if path.length == 1:
        return True
    if path.length == 10:
        return memcmp(path.data, <const char*>b"/zookeeper", 10) == 0
    return (path.length == 16 and memcmp(path.data, <const char*>b"/zookeeper/quota", 16) == 0) or zk_is_config(path)


cdef void _put(ZkDoor* door, const Bytes* path, uint64_t revision) noexcept nogil:
    cdef ZnodeView view
    if not _view_at(door, path, revision, &view):
        return                      # a plain key
    if view.entry.create_revision == revision:
        if not _is_of_old(path):
            _fire(door, revision, ZK_EVENT_CREATED, path, HEARS_DATA | HEARS_ALWAYS | HEARS_BELOW, HEARS_DATA, &view)
            _fire_children(door, path, revision)
    elif view.meta.mzxid == revision:
        _fire(door, revision, ZK_EVENT_DATA_CHANGED, path, HEARS_DATA | HEARS_ALWAYS | HEARS_BELOW, HEARS_DATA, &view)


cdef void _delete(ZkDoor* door, const Bytes* path, uint64_t revision) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key
    cdef ZnodeView view
    cdef const Entry* before
    cdef bint is_known = _view_at(door, path, revision - 1, &view)
    if not is_known:
        key.data = bytes
        key.length = door.root_length + path.length
        memcpy(bytes, door.root, door.root_length)
        memcpy(bytes + door.root_length, path.data, path.length)
        before = reads_entry(door, &key, revision - 1)
        if before != NULL and not before.flags & ENTRY_ZNODE:
            return                  # a plain key
    _fire(door, revision, ZK_EVENT_DELETED, path, HEARS_ANY, HEARS_DATA | HEARS_CHILDREN, &view if is_known else NULL)
    _fire_children(door, path, revision)


cdef void _change(ZkDoor* door, const uint8_t* bytes, size_t length, uint64_t revision) noexcept nogil:
    cdef Reader reader = reader_over(bytes, length)
    cdef Bytes key, path
    cdef Bytes parent
    cdef uint32_t value_length
    cdef uint64_t type, created, session
    read_array_max(&reader, EVENT_ELEMENTS_MAX)
    type = read_uint(&reader, number_max())
    read_array_max(&reader, RECORD_ELEMENTS_MAX)
    key.data = read_bin(&reader, KEY_BYTES_MAX, &key.length)
    read_bin(&reader, VALUE_BYTES_MAX, &value_length)
    created = read_uint(&reader, number_max())
    if reader.status != OK or key.length <= door.root_length or memcmp(key.data, door.root, door.root_length) != 0:
        return
    session = session_key_id(door, &key)
    if session != 0:
        session_key_changed(door, session, created, type == WATCH_DELETE)
        return
    path = bytes_of(key.data + door.root_length, key.length - door.root_length)
    if path.data[0] != c'/' or door.table.count == 0:
        return
    parent = _parent_of(&path)
    if (not watch_table_is_watched(&door.table, &path, HEARS_ANY)
            and not watch_table_is_watched(&door.table, &parent, HEARS_CHILDREN | HEARS_ALWAYS)):
        return
    if not desk_pin(&door.desk, revision):
        _missed(door)
    elif type == WATCH_DELETE:
        _delete(door, &path, revision)
    else:
        _put(door, &path, revision)


# The version that an event tells of is gone already, because history was cut up to the newest revision: whoever watches
# begins anew.
cdef void _missed(ZkDoor* door) noexcept nogil:
    cdef uint32_t place
    for place in range(door.desk.base.limits.connections_max):
        if door.connections[place].watches.first != NULL:
            connection_fail(&door.desk.base, &door.connections[place].base)


# --- the watch --------------------------------------------------------------------------------------------------------
# From "root-" to "root0": the sessions' keys and, with a slash behind the root, the tree.
cdef void events_tend(ZkDoor* door) noexcept nogil:
    cdef uint8_t[ROOT_BYTES_MAX + 1] low
    cdef uint8_t[ROOT_BYTES_MAX + 1] high
    cdef Bytes start = bytes_of(low, door.root_length + 1)
    cdef Bytes end = bytes_of(high, door.root_length + 1)
    memcpy(low, door.root, door.root_length)
    memcpy(high, door.root, door.root_length)
    low[door.root_length] = c'-'
    high[door.root_length] = c'0'
    desk_watch(&door.desk, &start, &end)


cdef bint events_drain(ZkDoor* door, uint64_t until) noexcept nogil:
    cdef WatchView view
    cdef uint64_t reached, length
    cdef uint32_t position, i
    cdef const uint8_t* event
    if door.desk.watch == NULL:
        return True
    reached = min(watch_reached(door.desk.watch), until)
    while watch_look(door.desk.watch, &view):
        if view.kind == WATCH_EVENTS:
            # One that was shown since waits, too: a read at the position must not be older than an event before it.
            if view.revision > reached:
                break
            for i in range(view.count):
                event = view_event(&view, i, &length, &position)
                _change(door, event, length, view.revision)
        elif view.kind != WATCH_PROGRESS_MARK:
            door.desk.resume = view.revision if view.kind == WATCH_LAGGED else 0
            if view.kind == WATCH_LAGGED and reached > door.position:
                door.position = reached
            watch_pass(door.desk.watch, &view)
            desk_unwatch(&door.desk)
            return view.kind == WATCH_LAGGED
        watch_pass(door.desk.watch, &view)
    if reached > door.position:
        door.position = reached
    return True


cdef void events_config(ZkDoor* door) noexcept nogil:
    cdef Bytes path = bytes_of(<const uint8_t*><const char*>b"/zookeeper/config", 17)
    _fire(door, door.position, ZK_EVENT_DATA_CHANGED, &path, HEARS_DATA | HEARS_ALWAYS | HEARS_BELOW, HEARS_DATA,
          NULL)
