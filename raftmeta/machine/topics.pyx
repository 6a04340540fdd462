"""Topics: bodies."""
from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.entry cimport ENTRY_TOPIC
from raftmeta.machine.plan cimport Planned, plan_delete, plan_put, plan_room, plan_touch, plan_view
from raftmeta.machine.topic_configs cimport topic_configs_change
from raftmeta.machine.topic_records cimport OffsetKey, topic_key, topic_length, topic_read, topic_write
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, OK
from raftmeta.wire.commands cimport KeyView, result_array, result_bytes, result_number, result_unsigned
from raftmeta.wire.topics cimport (TOPIC_EXISTS, TOPIC_ID_BYTES, TOPIC_INVALID_NAME, TOPIC_INVALID_PARTITIONS, TOPIC_OK,
                                   TOPIC_PARTITIONS_MAX, TOPIC_UNKNOWN, TOPIC_UNKNOWN_ID, TOPICS_CONFIGS, TOPICS_CREATE,
                                   TOPICS_DELETE, TopicItem, topics_next)


cdef bint topics_find(Machine* machine, const Bytes* root, const Bytes* name, TopicRecord* topic) noexcept nogil:
    cdef OffsetKey key
    cdef KeyView view
    return (topic_key(root, name, &key) and plan_view(&machine.plan, &key.bytes, &view)
            and view.flags & ENTRY_TOPIC and topic_read(&view.value, topic))

cdef status_t topics_run(Machine* machine, const TopicsRequest* request) noexcept nogil:
    cdef TopicItem item
    cdef uint32_t place = 0
    cdef status_t status = result_array(&machine.transaction.body, request.count)
    while status == OK and topics_next(request, &place, &item):
        if request.verb == TOPICS_CREATE:
            status = _create(machine, request, &item)
        elif request.verb == TOPICS_DELETE:
            status = _delete(machine, &item)
        elif request.verb == TOPICS_CONFIGS:
            status = _configure(machine, request, &item)
        else:
            status = _extend(machine, request, &item)
    return status

# The key stays where it is until the entry is done.
cdef status_t _touch(Machine* machine, const Bytes* name, Planned** planned) noexcept nogil:
    cdef OffsetKey key
    cdef Bytes stays
    cdef uint8_t* room
    topic_key(&machine.command.name, name, &key)
    room = plan_room(&machine.plan, key.bytes.length)
    if room == NULL:
        return NO_MEMORY
    memcpy(room, &key.room[0], key.bytes.length)
    stays.data = room
    stays.length = key.bytes.length
    return plan_touch(&machine.plan, &stays, planned)

cdef status_t _store(Machine* machine, const Bytes* name, const TopicRecord* topic) noexcept nogil:
    cdef Planned* planned = NULL
    cdef Bytes value
    cdef status_t status
    value.length = topic_length(topic)
    value.data = plan_room(&machine.plan, value.length)
    if value.data == NULL:
        return NO_MEMORY
    topic_write(topic, <uint8_t*>value.data)
    status = _touch(machine, name, &planned)
    if status == OK:
        plan_put(&machine.plan, planned, &value, 0, ENTRY_TOPIC)
    return status

cdef inline bint _may_have(int64_t partitions) noexcept nogil:
    return 0 < partitions <= TOPIC_PARTITIONS_MAX

# [code, id, partitions, configs]; of a refused one zeros but for the code.
cdef status_t _create(Machine* machine, const TopicsRequest* request, const TopicItem* item) noexcept nogil:
    cdef Vec[uint8_t]* body = &machine.transaction.body
    cdef TopicRecord topic
    cdef OffsetKey key
    cdef KeyView view
    cdef Bytes id
    cdef int code = TOPIC_OK
    cdef status_t status = OK
    memset(&topic, 0, sizeof(TopicRecord))
    if not topic_key(&machine.command.name, &item.name, &key):
        code = TOPIC_INVALID_NAME
    elif plan_view(&machine.plan, &key.bytes, &view):
        code = TOPIC_EXISTS if view.flags & ENTRY_TOPIC else TOPIC_INVALID_NAME
    elif not _may_have(item.partitions):
        code = TOPIC_INVALID_PARTITIONS
    if code == TOPIC_OK:
        memcpy(&topic.meta.id[0], item.id.data, TOPIC_ID_BYTES)
        topic.meta.partitions = <uint32_t>item.partitions
        topic.configs = item.configs
        if not request.is_trial:
            status = _store(machine, &item.name, &topic)
    id.data = &topic.meta.id[0]
    id.length = TOPIC_ID_BYTES
    if status == OK and (
            result_array(body, 4) != OK or result_number(body, code) != OK or result_bytes(body, &id) != OK
            or result_unsigned(body, topic.meta.partitions) != OK or result_bytes(body, &topic.configs) != OK):
        status = NO_MEMORY
    return status

# A code. An id that is not the topic's own names one that is gone.
cdef status_t _delete(Machine* machine, const TopicItem* item) noexcept nogil:
    cdef TopicRecord topic
    cdef Planned* planned = NULL
    cdef int code = TOPIC_OK
    cdef status_t status
    if not topics_find(machine, &machine.command.name, &item.name, &topic):
        code = TOPIC_UNKNOWN_ID if item.id.length else TOPIC_UNKNOWN
    elif item.id.length and memcmp(item.id.data, &topic.meta.id[0], TOPIC_ID_BYTES) != 0:
        code = TOPIC_UNKNOWN_ID
    if code == TOPIC_OK:
        status = _touch(machine, &item.name, &planned)
        if status != OK:
            return status
        plan_delete(&machine.plan, planned)
    return result_number(&machine.transaction.body, code)

# A code. Partitions only grow in number.
cdef status_t _extend(Machine* machine, const TopicsRequest* request, const TopicItem* item) noexcept nogil:
    cdef TopicRecord topic
    cdef int code = TOPIC_OK
    cdef status_t status
    if not topics_find(machine, &machine.command.name, &item.name, &topic):
        code = TOPIC_UNKNOWN
    elif not _may_have(item.partitions) or item.partitions <= topic.meta.partitions:
        code = TOPIC_INVALID_PARTITIONS
    if code == TOPIC_OK and not request.is_trial:
        topic.meta.partitions = <uint32_t>item.partitions
        status = _store(machine, &item.name, &topic)
        if status != OK:
            return status
    return result_number(&machine.transaction.body, code)

# A code.
cdef status_t _configure(Machine* machine, const TopicsRequest* request, const TopicItem* item) noexcept nogil:
    cdef Vec[uint8_t] configs
    cdef TopicRecord topic
    cdef int code = TOPIC_UNKNOWN
    cdef status_t status = OK
    memset(<void*>&configs, 0, sizeof(configs))
    if topics_find(machine, &machine.command.name, &item.name, &topic):
        status = topic_configs_change(&topic.configs, &item.changes, request.is_whole, &configs, &code)
    if status == OK and code == TOPIC_OK and not request.is_trial:
        topic.configs.data = configs.data
        topic.configs.length = <uint32_t>configs.size
        status = _store(machine, &item.name, &topic)
    configs.release()
    return result_number(&machine.transaction.body, code) if status == OK else status
