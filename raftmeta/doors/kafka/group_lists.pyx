"""Questions of operators about worker groups: bodies.

Sources: Apache Kafka 3.9 KafkaApis.scala and GroupCoordinator.scala (handleDescribeGroup, handleListGroups,
handleDeleteGroups).
"""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memcmp, memcpy, memset, strlen

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.access cimport access_change, access_group
from raftmeta.doors.kafka.audit cimport audit_names_group
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_bool, get_end, get_tags, get_text,
                                         put_array, put_bytes, put_int16, put_int32, put_tags, put_text,
                                         put_text_null, put_word)
from raftmeta.doors.kafka.consumer_state cimport consumer_group_state, consumer_group_word
from raftmeta.doors.kafka.group_state cimport (GroupWalk, group_find, group_key_of, group_next, group_root, group_walk,
                                               member_said)
from raftmeta.doors.kafka.protocol cimport (KAFKA_GROUP_AUTHORIZATION_FAILED, KAFKA_INVALID_GROUP_ID, KAFKA_OK)
from raftmeta.doors.kafka.reply cimport (error_of_status, put_throttle, reply_begin, reply_end, reply_fail,
                                         request_command, request_pin, request_reader, task_error)
from raftmeta.machine.entry cimport ENTRY_GROUP, ENTRY_TOMBSTONE, Entry, entry_key, entry_value
from raftmeta.machine.group_records cimport (GROUP_COMPLETING, GROUP_EMPTY, GROUP_PREPARING, GROUP_STABLE,
                                             GROUP_STATE_END, GroupRecord, MemberRecord, group_is_consumer, group_read)
from raftmeta.machine.tree cimport Cursor, cursor_next, cursor_seek
from raftmeta.status cimport OK, status_t
from raftmeta.wire.commands cimport COMMAND_GROUPS, KEY_BYTES_MAX, Bytes, command_clear
from raftmeta.wire.groups cimport GROUP_DELETE, GROUP_KEY_BYTES_MAX, GroupRequest, groups_encode

cdef enum:
    NOT_ASKED = -2147483648         # authorized operations
    VERSION_OF_STATES = 4           # of ListGroups
    VERSION_OF_TYPES = 5
    LIST_CLASSIC = 1                # types of groups
    LIST_CONSUMER = 2
    WAITS = 0x7FFF                  # in the place of a code: its command is on its way


cdef const char* NO_WORD = b""
cdef const char* DEAD = b"Dead"
cdef const char* EMPTY = b"Empty"
cdef const char* PREPARING = b"PreparingRebalance"
cdef const char* COMPLETING = b"CompletingRebalance"
cdef const char* STABLE = b"Stable"


cdef inline const char* _word(uint8_t state) noexcept nogil:
    if state == GROUP_EMPTY:
        return EMPTY
    if state == GROUP_PREPARING:
        return PREPARING
    if state == GROUP_COMPLETING:
        return COMPLETING
    return STABLE if state == GROUP_STABLE else DEAD


cdef inline bint _is_word(const Bytes* text, const char* word) noexcept nogil:
    return text.length == strlen(word) and memcmp(text.data, word, text.length) == 0


# Names of the request, in door.pairs.
cdef bint _read_names(KafkaDoor* door, KafkaReader* reader) noexcept nogil:
    cdef int32_t count = get_array(reader)
    door.pairs.clear()
    for _ in range(count):
        if not door.pairs.push(get_text(reader)):
            return False
    return True


# --- DescribeGroups ---------------------------------------------------------------------------------------------------
cdef bint _read_describe(KafkaDoor* door, const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    if not _read_names(door, &reader):
        return False
    if request.version >= 3:
        get_bool(&reader)
    get_tags(&reader)
    return get_end(&reader)


cdef void describe_groups_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    if _read_describe(door, request):
        request.round = round_ask(&door.desk)
    else:
        reply_fail(door, request)


cdef void _put_member(KafkaWriter* writer, const GroupRecord* group, const Bytes* id,
                      MemberRecord* member) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes said = nothing
    cdef bint is_stable = group.meta.state == GROUP_STABLE
    if is_stable:
        said = member_said(member, &group.protocol)
    put_text(writer, id)
    if writer.version >= 4:
        if member.instance.length == 0:
            member.instance.data = NULL
        put_text_null(writer, &member.instance)
    put_text(writer, &member.client)
    put_text(writer, &nothing)          # of the client's host, which no group keeps
    put_bytes(writer, &said)
    put_bytes(writer, &member.assignment)       # also while the next one is made
    put_tags(writer)


cdef void _put_group(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, const Bytes* name) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key = group_key_of(name, bytes)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef GroupRecord group
    cdef MemberRecord member
    cdef GroupWalk walk
    cdef Bytes id
    cdef uint32_t count = 0
    cdef int16_t code = KAFKA_OK
    cdef bint is_there = False
    audit_names_group(door, request, name)
    memset(&group, 0, sizeof(group))
    if key.length == 0:
        code = KAFKA_INVALID_GROUP_ID
    elif not access_group(door, request, &key, False):
        code = KAFKA_GROUP_AUTHORIZATION_FAILED
    else:
        is_there = group_find(door, &key, &group) and not group_is_consumer(&group)
        if not is_there:
            memset(&group, 0, sizeof(group))
    put_int16(writer, code)
    put_text(writer, name)
    put_word(writer, NO_WORD if code != KAFKA_OK else _word(group.meta.state if is_there else <uint8_t>GROUP_STATE_END))
    put_text(writer, &group.type)
    put_text(writer, &group.protocol if group.meta.state == GROUP_STABLE else &nothing)
    if is_there:
        group_walk(door, &key, &walk)
        while group_next(&walk, &id, &member):
            count += 1
    put_array(writer, count)
    if is_there:
        group_walk(door, &key, &walk)
        while group_next(&walk, &id, &member):
            _put_member(writer, &group, &id, &member)
    if writer.version >= 3:
        put_int32(writer, NOT_ASKED)
    put_tags(writer)


cdef void describe_groups_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaWriter writer
    cdef size_t i
    if not request_pin(door, request):
        return
    if not _read_describe(door, request):
        reply_fail(door, request)
        return
    writer = reply_begin(door, request)
    put_throttle(&writer, 1)
    put_array(&writer, <uint32_t>door.pairs.size)
    for i in range(door.pairs.size):
        _put_group(door, request, &writer, &door.pairs.data[i])
    put_tags(&writer)
    reply_end(door, request, &writer, KAFKA_OK)


# --- ListGroups -------------------------------------------------------------------------------------------------------
# States go into door.pairs. types: those that are asked for, of LIST_*.
cdef bint _read_list(KafkaDoor* door, const KafkaRequest* request, uint8_t* types) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef int32_t count
    cdef Bytes type
    types[0] = LIST_CLASSIC | LIST_CONSUMER
    door.pairs.clear()
    if request.version >= VERSION_OF_STATES and not _read_names(door, &reader):
        return False
    if request.version >= VERSION_OF_TYPES:
        count = get_array(&reader)
        if count > 0:
            types[0] = 0
        for _ in range(count):
            type = get_text(&reader)
            if _is_word(&type, b"classic") or _is_word(&type, b"Classic"):
                types[0] |= LIST_CLASSIC
            if _is_word(&type, b"consumer") or _is_word(&type, b"Consumer"):
                types[0] |= LIST_CONSUMER
    get_tags(&reader)
    return get_end(&reader)


cdef void list_groups_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t types
    if _read_list(door, request, &types):
        request.round = round_ask(&door.desk)
    else:
        reply_fail(door, request)


cdef bint _is_asked(const KafkaDoor* door, const char* state) noexcept nogil:
    cdef size_t i
    for i in range(door.pairs.size):
        if _is_word(&door.pairs.data[i], state):
            return True
    return door.pairs.size == 0


cdef const char* _state_of(KafkaDoor* door, const Bytes* key, const GroupRecord* group) noexcept nogil:
    if group_is_consumer(group):
        return consumer_group_word(consumer_group_state(door, key, group))
    return _word(group.meta.state)


# The next group at or behind the cursor. Members are passed by a seek. False: there are no more.
cdef bint _next_group(KafkaDoor* door, Cursor* cursor, Bytes* key, GroupRecord* group) noexcept nogil:
    cdef uint8_t[GROUP_KEY_BYTES_MAX + 1] behind
    cdef Bytes root = group_root()
    cdef const Entry* entry
    cdef Bytes value
    while cursor.entry != NULL:
        entry = cursor.entry
        if entry.key_length < root.length or memcmp(entry_key(entry), root.data, root.length) != 0:
            return False
        if not entry.flags & ENTRY_GROUP or entry.flags & ENTRY_TOMBSTONE or entry.key_length > GROUP_KEY_BYTES_MAX:
            cursor_next(cursor)
            continue
        key[0] = bytes_of(entry_key(entry), entry.key_length)
        memcpy(behind, key.data, key.length)
        behind[key.length] = 1
        cursor_seek(cursor, door.desk.pinned, behind, <uint16_t>(key.length + 1))
        value = bytes_of(entry_value(entry), entry.value_length)
        if group_read(&value, group):
            return True
    return False


# Those that are asked for. writer NULL: they are counted only.
cdef uint32_t _put_groups(KafkaDoor* door, KafkaRequest* request, uint8_t types, KafkaWriter* writer) noexcept nogil:
    cdef Bytes root = group_root()
    cdef GroupRecord group
    cdef Cursor cursor
    cdef Bytes key, name
    cdef const char* state
    cdef uint32_t count = 0
    cursor_seek(&cursor, door.desk.pinned, root.data, <uint16_t>root.length)
    while _next_group(door, &cursor, &key, &group):
        if not types & (LIST_CONSUMER if group_is_consumer(&group) else LIST_CLASSIC):
            continue
        state = _state_of(door, &key, &group)
        if not _is_asked(door, state) or not access_group(door, request, &key, False):
            continue
        count += 1
        if writer == NULL:
            continue
        name = bytes_of(key.data + root.length, key.length - root.length)
        put_text(writer, &name)
        put_text(writer, &group.type)
        if writer.version >= VERSION_OF_STATES:
            put_word(writer, state)
        if writer.version >= VERSION_OF_TYPES:
            put_word(writer, b"consumer" if group_is_consumer(&group) else b"classic")
        put_tags(writer)
    return count


cdef void list_groups_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaWriter writer
    cdef uint8_t types
    if not request_pin(door, request):
        return
    if not _read_list(door, request, &types):
        reply_fail(door, request)
        return
    writer = reply_begin(door, request)
    put_throttle(&writer, 1)
    put_int16(&writer, KAFKA_OK)
    put_array(&writer, _put_groups(door, request, types, NULL))
    _put_groups(door, request, types, &writer)
    request.is_denied = False           # a group that may not be seen is left out
    put_tags(&writer)
    reply_end(door, request, &writer, KAFKA_OK)


# --- DeleteGroups -----------------------------------------------------------------------------------------------------
cdef bint _read_delete(KafkaDoor* door, const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    if not _read_names(door, &reader):
        return False
    get_tags(&reader)
    return get_end(&reader)


cdef inline int16_t* _codes(KafkaRequest* request) noexcept nogil:
    return <int16_t*>request.texts.data


cdef void _answer_delete(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaWriter writer
    cdef int16_t first = KAFKA_OK
    cdef size_t i
    if not _read_delete(door, request):
        reply_fail(door, request)
        return
    writer = reply_begin(door, request)
    put_throttle(&writer, 0)
    put_array(&writer, <uint32_t>door.pairs.size)
    for i in range(door.pairs.size):
        put_text(&writer, &door.pairs.data[i])
        put_int16(&writer, _codes(request)[i])
        put_tags(&writer)
        first = _codes(request)[i] if first == KAFKA_OK else first
        audit_names_group(door, request, &door.pairs.data[i])
    put_tags(&writer)
    reply_end(door, request, &writer, first)


# One command. The code that answers it, or WAITS.
cdef int16_t _delete(KafkaDoor* door, KafkaRequest* request, uint32_t part) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key = group_key_of(&door.pairs.data[part], bytes)
    cdef GroupRequest asked
    cdef status_t status
    cdef int16_t code = access_change(door, request, &key)
    if code != KAFKA_OK:
        return code
    memset(&asked, 0, sizeof(GroupRequest))
    asked.verb = GROUP_DELETE
    door.request.clear()
    status = groups_encode(&asked, NULL, 0, &door.request)
    if status == OK:
        command_clear(&door.desk.command)
        door.desk.command.kind = COMMAND_GROUPS
        door.desk.command.name = key
        door.desk.command.data = bytes_of(door.request.data, door.request.size)
        if request_command(door, request, part, True, &status):
            return WAITS
    return error_of_status(status)


cdef void delete_groups_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint32_t i
    if not _read_delete(door, request) or not request.texts.resize(2 * door.pairs.size):
        reply_fail(door, request)
        return
    for i in range(<uint32_t>door.pairs.size):
        _codes(request)[i] = _delete(door, request, i)
    if request.tasks == 0:
        _answer_delete(door, request)


cdef void delete_groups_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    _codes(request)[task.part] = task_error(task)
    if request.tasks == 0:
        _answer_delete(door, request)
