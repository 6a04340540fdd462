"""Topics and offsets as the pinned state shows them: bodies."""

from libc.stdint cimport int16_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from raftmeta.doors.desk.desk cimport desk_find, desk_pin_newest
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.access cimport access_allows
from raftmeta.doors.kafka.audit cimport audit_blocks
from raftmeta.doors.kafka.protocol cimport (KAFKA_COORDINATOR_NOT_AVAILABLE, KAFKA_OK, KAFKA_REQUEST_TIMED_OUT,
                                            KAFKA_TOPIC_AUTHORIZATION_FAILED)
from raftmeta.doors.kafka.reply cimport request_command
from raftmeta.machine.entry cimport ENTRY_OFFSET, ENTRY_TOMBSTONE, ENTRY_TOPIC, Entry, entry_key, entry_value
from raftmeta.machine.rights_state cimport RIGHT_READ, RIGHT_WRITE
from raftmeta.machine.topic_records cimport (offset_key, offset_read, offsets_key, topic_key, topic_read)
from raftmeta.machine.tree cimport cursor_next, cursor_seek
from raftmeta.status cimport OK, PERMISSION_DENIED
from raftmeta.wire.commands cimport COMMAND_TOPICS, KEY_BYTES_MAX, command_clear
from raftmeta.wire.topics cimport (TOPIC_ID_BYTES, TOPIC_NAME_BYTES_MAX, topics_encode, topics_next_config)

cdef enum:
    ROOT_BYTES = 13

cdef const char* ROOT = b"kafka-topics/"


# The prefix of all topics' keys: the root of every request for topics.
cdef Bytes topic_root() noexcept nogil:
    return bytes_of(<const uint8_t*>ROOT, ROOT_BYTES)


cdef bint topic_is_name(const Bytes* name) noexcept nogil:
    cdef uint8_t byte
    cdef uint32_t i
    if name.length == 0 or name.length > TOPIC_NAME_BYTES_MAX:
        return False
    if name.length <= 2 and name.data[0] == c"." and name.data[name.length - 1] == c".":
        return False
    for i in range(name.length):
        byte = name.data[i]
        if not (c"a" <= byte <= c"z" or c"A" <= byte <= c"Z" or c"0" <= byte <= c"9" or byte == c"."
                or byte == c"_" or byte == c"-"):
            return False
    return True


cdef inline bint _read(const Entry* entry, TopicRecord* topic) noexcept nogil:
    cdef Bytes value = bytes_of(entry_value(entry), entry.value_length)
    return entry.flags & ENTRY_TOPIC != 0 and topic_read(&value, topic)


cdef const Entry* topic_entry(KafkaDoor* door, const Bytes* name, OffsetKey* key, TopicRecord* topic) noexcept nogil:
    cdef Bytes root = topic_root()
    cdef const Entry* entry
    if name.length == 0 or name.length > TOPIC_NAME_BYTES_MAX or not topic_key(&root, name, key):
        return NULL
    entry = desk_find(&door.desk, &key.bytes)
    return entry if entry != NULL and _read(entry, topic) else NULL


cdef bint topic_find(KafkaDoor* door, const Bytes* name, TopicRecord* topic) noexcept nogil:
    cdef OffsetKey key
    return topic_entry(door, name, &key, topic) != NULL


# --- by id ------------------------------------------------------------------------------------------------------------
# Ids are random, so the first half of one is enough to find a name; the state says whether the topic still has that id.
cdef inline uint64_t _half(const uint8_t* id) noexcept nogil:
    cdef uint64_t half
    memcpy(&half, id, sizeof(half))
    return half


cdef void _note(KafkaDoor* door, const uint8_t* id, const Bytes* name) noexcept nogil:
    cdef uint32_t place = <uint32_t>door.topic_names.size
    cdef uint32_t* slot
    if not door.topic_names.push(<uint8_t>name.length) or not door.topic_names.append(name.data, name.length):
        door.topic_names.size = place
        return
    slot = door.topic_places.insert(_half(id))
    if slot != NULL:
        slot[0] = place


# An id is looked for among all topics once for each revision of the state, however many ask for ids that nothing has.
cdef bint _note_all(KafkaDoor* door) noexcept nogil:
    cdef uint64_t revision = desk_pin_newest(&door.desk)
    cdef TopicRecord topic
    cdef Cursor cursor
    cdef Bytes name
    if door.topics_seen == revision:
        return False
    door.topics_seen = revision
    door.topic_places.clear()
    door.topic_names.clear()
    topic_walk(door, &cursor)
    while topic_next(&cursor, &name, &topic):
        _note(door, &topic.meta.id[0], &name)
    return True


cdef bint _find_noted(KafkaDoor* door, const uint8_t* id, Bytes* name, TopicRecord* topic) noexcept nogil:
    cdef const uint32_t* place = door.topic_places.find(_half(id))
    cdef Bytes root = topic_root()
    cdef const Entry* entry
    cdef OffsetKey key
    if place == NULL:
        return False
    name[0] = bytes_of(door.topic_names.data + place[0] + 1, door.topic_names.data[place[0]])
    entry = topic_entry(door, name, &key, topic)
    if entry == NULL or memcmp(&topic.meta.id[0], id, TOPIC_ID_BYTES) != 0:
        return False
    name[0] = bytes_of(entry_key(entry) + root.length, entry.key_length - root.length)
    return True


cdef bint topic_find_id(KafkaDoor* door, const uint8_t* id, Bytes* name, TopicRecord* topic) noexcept nogil:
    if id == NULL:
        return False
    return _find_noted(door, id, name, topic) or _note_all(door) and _find_noted(door, id, name, topic)


# --- all of them ------------------------------------------------------------------------------------------------------
cdef void topic_walk(KafkaDoor* door, Cursor* cursor) noexcept nogil:
    cdef Bytes root = topic_root()
    cursor_seek(cursor, door.desk.pinned, root.data, <uint16_t>root.length)


cdef bint topic_next(Cursor* cursor, Bytes* name, TopicRecord* topic) noexcept nogil:
    cdef Bytes root = topic_root()
    cdef const Entry* entry
    while cursor.entry != NULL:
        entry = cursor.entry
        if entry.key_length <= root.length or memcmp(entry_key(entry), root.data, root.length) != 0:
            return False
        cursor_next(cursor)
        if not entry.flags & ENTRY_TOMBSTONE and _read(entry, topic):
            name[0] = bytes_of(entry_key(entry) + root.length, entry.key_length - root.length)
            return True
    return False


cdef bint topic_config(const TopicRecord* topic, const Bytes* name, Bytes* value) noexcept nogil:
    cdef Bytes found
    cdef uint32_t place = 0
    while topics_next_config(&topic.configs, &place, &found, value):
        if found.length == name.length and memcmp(found.data, name.data, name.length) == 0:
            return True
    return False


cdef bint topic_allows(KafkaDoor* door, KafkaRequest* request, uint8_t rights, const Bytes* name) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX + 1] high
    cdef Bytes root = topic_root()
    cdef Bytes end
    cdef OffsetKey key
    if not topic_key(&root, name, &key):
        return False
    memcpy(high, &key.room[0], key.bytes.length)
    high[key.bytes.length] = 0
    end = bytes_of(high, key.bytes.length + 1)
    if request.connection != NULL and access_allows(door, request.connection, rights, &key.bytes, &end):
        return True
    request.is_denied = True
    return False


cdef int16_t topic_may_change(KafkaDoor* door, KafkaRequest* request, const Bytes* name) noexcept nogil:
    if audit_blocks(door):
        return KAFKA_COORDINATOR_NOT_AVAILABLE
    if topic_allows(door, request, RIGHT_READ | RIGHT_WRITE, name):
        return KAFKA_OK
    return KAFKA_TOPIC_AUTHORIZATION_FAILED


cdef int16_t topic_status_code(status_t status) noexcept nogil:
    if status == OK:
        return KAFKA_OK
    return KAFKA_TOPIC_AUTHORIZATION_FAILED if status == PERMISSION_DENIED else <int16_t>KAFKA_REQUEST_TIMED_OUT


# --- offsets ----------------------------------------------------------------------------------------------------------
# An offset names the topic that it was committed for.
cdef bint _is_alive(KafkaDoor* door, const OffsetRecord* offset) noexcept nogil:
    cdef TopicRecord topic
    return (topic_find(door, &offset.name, &topic)
            and memcmp(&topic.meta.id[0], &offset.meta.topic[0], TOPIC_ID_BYTES) == 0)


cdef bint offset_find(KafkaDoor* door, const Bytes* group, const Bytes* name, uint32_t partition,
                      OffsetRecord* offset) noexcept nogil:
    cdef const Entry* entry
    cdef OffsetKey key
    cdef Bytes value
    if not offset_key(group, name, partition, &key):
        return False
    entry = desk_find(&door.desk, &key.bytes)
    if entry == NULL or not entry.flags & ENTRY_OFFSET:
        return False
    value = bytes_of(entry_value(entry), entry.value_length)
    return offset_read(&value, offset) and _is_alive(door, offset)


cdef void offset_walk(KafkaDoor* door, const Bytes* group, OffsetKey* head, Cursor* cursor) noexcept nogil:
    offsets_key(group, head)
    cursor_seek(cursor, door.desk.pinned, &head.room[0], <uint16_t>head.bytes.length)


cdef bint offset_next(KafkaDoor* door, const OffsetKey* head, Cursor* cursor, OffsetRecord* offset) noexcept nogil:
    cdef const Entry* entry
    cdef Bytes value
    while cursor.entry != NULL:
        entry = cursor.entry
        if (entry.key_length < head.bytes.length
                or memcmp(entry_key(entry), &head.room[0], head.bytes.length) != 0):
            return False
        cursor_next(cursor)
        value = bytes_of(entry_value(entry), entry.value_length)
        if (not entry.flags & ENTRY_TOMBSTONE and entry.flags & ENTRY_OFFSET and offset_read(&value, offset)
                and _is_alive(door, offset)):
            return True
    return False


# --- commands ---------------------------------------------------------------------------------------------------------
cdef bint topics_command(KafkaDoor* door, KafkaRequest* request, const TopicsRequest* asked, const TopicItem* items,
                         uint32_t count, uint64_t after, status_t* status) noexcept nogil:
    cdef Bytes root = topic_root()
    door.request.clear()
    status[0] = topics_encode(&root, asked, items, count, &door.request)
    if status[0] != OK:
        return False
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_TOPICS
    door.desk.command.name = root
    door.desk.command.data = bytes_of(door.request.data, door.request.size)
    door.desk.command.pointer = after
    return request_command(door, request, 0, False, status)
