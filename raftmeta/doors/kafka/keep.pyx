"""Leases that the Kafka door keeps alive: bodies."""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memset

from raftmeta.doors.desk.tasks cimport command_submit
from raftmeta.doors.kafka.state cimport TASK_KEEP
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport COMMAND_LEASE_KEEP_ALIVE, LEASES_MAX, LeaseItem, command_clear

cdef enum:
    TUNE_PERIOD_NS = 250_000_000    # half of KEEP_SLACK_MS


cdef void keep_lease(KafkaDoor* door, uint64_t lease) noexcept nogil:
    cdef uint8_t* kept
    if lease != 0:
        kept = door.kept.insert(lease)
        if kept != NULL:
            kept[0] = 1


cdef void _send(KafkaDoor* door) noexcept nogil:
    if command_submit(&door.desk, NULL, TASK_KEEP, NULL, True, NULL) == OK:
        door.keeps += 1
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_KEEP_ALIVE


cdef void keep_go(KafkaDoor* door) noexcept nogil:
    cdef LeaseItem item
    cdef size_t place
    if door.desk.base.now_ns < door.keep_ns or door.keeps != 0 or not door.is_serving:
        return
    door.keep_ns = door.desk.base.now_ns + TUNE_PERIOD_NS
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_LEASE_KEEP_ALIVE
    keep_lease(door, door.broker_lease)
    memset(&item, 0, sizeof(LeaseItem))
    place = door.kept.next(0)
    while place != door.kept.end():
        item.lease = door.kept.key_at(place)
        if not door.desk.command.leases.push(item):
            return                  # no memory: what was heard is told with the next word
        if door.desk.command.leases.size == LEASES_MAX:
            _send(door)
        place = door.kept.next(place + 1)
    if door.desk.command.leases.size != 0:
        _send(door)
    door.kept.clear()
