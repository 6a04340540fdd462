"""The way out to a ZooKeeper client: bodies.

It decides how much one connection may have under way and unsent. It must never write to a socket.
"""

from raftmeta.connections.connections cimport connection_fail, connection_touch
from raftmeta.doors.zookeeper.state cimport TUNE_OUT_BYTES, TUNE_OUT_BYTES_MAX, TUNE_TASKS_MAX, TUNE_TASK_BYTES


cdef void connection_appended(ZkDoor* door, ZkConnection* connection) noexcept nogil:
    connection_touch(&door.desk.base, &connection.base)
    if connection.base.out.size - connection.base.out_offset > TUNE_OUT_BYTES_MAX:
        door.desk.base.counters.evicted += 1
        connection_fail(&door.desk.base, &connection.base)


cdef bint connection_is_full(const ZkConnection* connection) noexcept nogil:
    return connection.base.out.size - connection.base.out_offset >= TUNE_OUT_BYTES


cdef bint connection_may_answer(const ZkDoor* door, const ZkConnection* connection) noexcept nogil:
    return not connection_is_full(connection) and door.desk.base.answer_bytes < door.desk.base.limits.memory_max


cdef bint connection_has_room(const ZkDoor* door, const ZkConnection* connection) noexcept nogil:
    return (connection.base.paused_ns == 0
            and connection.task_count < TUNE_TASKS_MAX and connection.task_bytes < TUNE_TASK_BYTES
            and door.desk.base.bytes_under_way < door.desk.base.limits.bytes_under_way_max
            and door.writes < door.limits.writes_max and connection_may_answer(door, connection))
