"""The way out to a ZooKeeper client: bodies.

It decides how much one connection may have under way and unsent. It must never write to a socket.
"""

from libc.stdint cimport uint64_t

from raftmeta.doors.zookeeper.state cimport (TUNE_OUT_BYTES, TUNE_OUT_BYTES_MAX, TUNE_TASK_BYTES, TUNE_TASKS_MAX,
                                             ZK_CLOSING, ZK_FREE, place_of)


cdef void _mark_dirty(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    if not connection.is_dirty and door.dirty.push(place_of(door, connection)):
        connection.is_dirty = True


cdef void connection_count(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    cdef uint64_t bytes = connection.out.capacity
    door.answer_bytes += bytes - connection.counted
    connection.counted = bytes


cdef void connection_touch(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    connection_count(door, connection)
    if connection.out.size - connection.out_offset > TUNE_OUT_BYTES_MAX:
        door.counters.evicted += 1
        connection_fail(door, connection)
    _mark_dirty(door, connection)


cdef void connection_next_turn(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    connection.waits_for_turn = True
    _mark_dirty(door, connection)


cdef void connection_end(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    if connection.state == ZK_FREE:
        return
    connection.state = ZK_CLOSING
    _mark_dirty(door, connection)


cdef void connection_fail(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    if connection.state == ZK_FREE:
        return
    connection.out.clear()
    connection.out_offset = 0
    connection.is_blocked = False       # what the socket has taken is gone; what it has not, nobody waits for
    connection_end(door, connection)


cdef bint connection_may_answer(const ZkDoor* door, const ZkConnection* connection) noexcept nogil:
    return (connection.out.size - connection.out_offset < TUNE_OUT_BYTES
            and door.answer_bytes < door.limits.memory_max)


cdef bint connection_has_room(const ZkDoor* door, const ZkConnection* connection) noexcept nogil:
    return (connection.task_count < TUNE_TASKS_MAX and connection.task_bytes < TUNE_TASK_BYTES
            and door.bytes_under_way < door.limits.bytes_under_way_max and door.writes < door.limits.writes_max
            and connection_may_answer(door, connection))
