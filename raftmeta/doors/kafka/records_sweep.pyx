"""Record logs whose topic is gone: bodies."""

from libc.stdint cimport uint16_t, uint64_t
from libc.string cimport memcmp

from raftmeta.doors.desk.desk cimport desk_pin_newest
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport command_submit
from raftmeta.doors.kafka.records_topic cimport topic_log_is_lost, topic_logs_start
from raftmeta.doors.kafka.state cimport TASK_DROP
from raftmeta.machine.entry cimport ENTRY_RECORDS, ENTRY_TOMBSTONE, Entry, entry_key
from raftmeta.machine.tree cimport Cursor, cursor_next, cursor_seek
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport COMMAND_RECORDS, Bytes, command_clear
from raftmeta.wire.records cimport RECORDS_DROP, RecordsRequest, records_encode

cdef enum:
    SWEEP_NS = 1_000_000_000
    SWEPT_MAX = 64                  # logs in one go


cdef void _drop(KafkaDoor* door, const Bytes* key) noexcept nogil:
    cdef RecordsRequest request
    request.verb = RECORDS_DROP
    door.request.clear()
    if records_encode(key, &request, &door.request) != OK:
        return
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_RECORDS
    door.desk.command.name = key[0]
    door.desk.command.data = bytes_of(door.request.data, door.request.size)
    if command_submit(&door.desk, NULL, TASK_DROP, NULL, True, NULL) == OK:
        door.drops += 1


# The next log from the place of the sweep on; the place moves behind it. NULL: there is none.
cdef const Entry* _next(KafkaDoor* door) noexcept nogil:
    cdef Bytes start = topic_logs_start()
    cdef const Entry* entry
    cdef Cursor cursor
    if door.swept.size == 0 and not door.swept.append(start.data, start.length):
        return NULL
    cursor_seek(&cursor, door.desk.pinned, door.swept.data, <uint16_t>door.swept.size)
    while cursor.entry != NULL and cursor.entry.flags & ENTRY_TOMBSTONE:
        cursor_next(&cursor)
    entry = cursor.entry
    if entry == NULL or entry.key_length < start.length or memcmp(entry_key(entry), start.data, start.length) != 0:
        return NULL
    door.swept.clear()
    # All other keys of the log have a zero byte behind its own.
    return entry if door.swept.append(entry_key(entry), entry.key_length) and door.swept.push(1) else NULL


cdef void records_sweep(KafkaDoor* door) noexcept nogil:
    cdef const Entry* entry
    cdef Bytes key
    if not door.is_serving or door.drops or door.desk.base.now_ns - door.swept_ns < <uint64_t>SWEEP_NS:
        return
    door.swept_ns = door.desk.base.now_ns
    if desk_pin_newest(&door.desk) == 0:
        return
    for _ in range(SWEPT_MAX):
        entry = _next(door)
        if entry == NULL:
            door.swept.clear()
            return
        key = bytes_of(entry_key(entry), entry.key_length)
        if entry.flags & ENTRY_RECORDS and topic_log_is_lost(door, &key):
            _drop(door, &key)
