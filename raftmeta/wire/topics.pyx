"""Requests for topics and offsets: bodies. A list is kept as the bytes that came, and walked again."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memset

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport BAD_FIELD, COMMAND_INVALID, NO_MEMORY, OK
from raftmeta.wire.groups cimport GROUP_ID_BYTES_MAX, GROUP_KEY_BYTES_MAX, GROUP_NAME_BYTES_MAX
from raftmeta.wire.msgpack cimport (Reader, Writer, read_array_max, read_bin, read_bool, read_done, read_fail, read_int,
                                    read_uint, reader_over, write_array, write_bin, write_bool, write_fail, write_int,
                                    write_room, write_uint, write_up_to, writer_at)

cdef enum:
    ANY_BYTES = 0x7fffffff
    PARTITION_MAX = 0x7fffffff
    EPOCH_MIN = -1
    CHANGE_ELEMENTS = 4


cdef inline uint32_t _elements_of(uint8_t verb) noexcept nogil:
    if verb == TOPICS_CREATE or verb == TOPICS_PARTITIONS or verb == OFFSETS_DELETE:
        return 3
    if verb == TOPICS_DELETE:
        return 2
    if verb == TOPICS_CONFIGS:
        return 4
    return 7 if verb == OFFSETS_COMMIT else 0

# Elements of one item in the list of this verb.
cdef inline uint32_t _item_elements(uint8_t verb) noexcept nogil:
    if verb == TOPICS_CREATE:
        return 4
    return 5 if verb == OFFSETS_COMMIT else 2

cdef inline void _read_bytes(Reader* reader, Bytes* bytes, uint32_t most) noexcept nogil:
    bytes.data = read_bin(reader, most, &bytes.length)

cdef inline bint _is_plain(const Bytes* key, uint32_t most) noexcept nogil:
    return 0 < key.length <= most and memchr(key.data, 0, key.length) == NULL

cdef inline int _order(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef int order = memcmp(left.data, right.data, min(left.length, right.length))
    return order if order != 0 else (left.length > right.length) - (left.length < right.length)

cdef inline int32_t _read_int32(Reader* reader, int64_t least) noexcept nogil:
    cdef int64_t value = read_int(reader)
    if value < least or value > PARTITION_MAX:
        read_fail(reader, BAD_FIELD)
        return 0
    return <int32_t>value

# Names ascend, so that none comes twice.
cdef void _read_configs(Reader* reader, Bytes* configs) noexcept nogil:
    cdef const uint8_t* start = reader.at
    cdef uint32_t count = read_array_max(reader, 2 * TOPIC_CONFIGS_MAX)
    cdef Bytes name, value, before
    cdef uint32_t i
    if count % 2:
        read_fail(reader, BAD_FIELD)
    before.data = NULL
    before.length = 0
    for i in range(count // 2):
        if reader.status != OK:
            return
        _read_bytes(reader, &name, TOPIC_CONFIG_BYTES_MAX)
        _read_bytes(reader, &value, TOPIC_CONFIG_BYTES_MAX)
        if reader.status == OK and (name.length == 0 or i > 0 and _order(&before, &name) >= 0):
            read_fail(reader, BAD_FIELD)
        before = name
    configs.data = start
    configs.length = <uint32_t>(reader.at - start)

cdef void _read_change(Reader* reader, TopicChange* change) noexcept nogil:
    change.kind = <uint8_t>read_uint(reader, TOPIC_CONFIG_SUBTRACT)
    _read_bytes(reader, &change.name, TOPIC_CONFIG_BYTES_MAX)
    _read_bytes(reader, &change.value, TOPIC_CONFIG_BYTES_MAX)
    _read_bytes(reader, &change.fallback, TOPIC_CONFIG_BYTES_MAX)

cdef void _read_changes(Reader* reader, Bytes* changes) noexcept nogil:
    cdef const uint8_t* start = reader.at
    cdef uint32_t count = read_array_max(reader, CHANGE_ELEMENTS * TOPIC_CHANGES_MAX)
    cdef TopicChange change
    cdef Bytes before
    cdef uint32_t i
    if count % CHANGE_ELEMENTS:
        read_fail(reader, BAD_FIELD)
    before.data = NULL
    before.length = 0
    for i in range(count // CHANGE_ELEMENTS):
        if reader.status != OK:
            return
        _read_change(reader, &change)
        if reader.status == OK and (change.name.length == 0 or i > 0 and _order(&before, &change.name) >= 0):
            read_fail(reader, BAD_FIELD)
        before = change.name
    changes.data = start
    changes.length = <uint32_t>(reader.at - start)

cdef void _read_item(Reader* reader, uint8_t verb, TopicItem* item) noexcept nogil:
    memset(item, 0, sizeof(TopicItem))
    _read_bytes(reader, &item.name, TOPIC_NAME_BYTES_MAX)
    if reader.status == OK and not _is_plain(&item.name, TOPIC_NAME_BYTES_MAX):
        read_fail(reader, BAD_FIELD)
    if verb == TOPICS_CREATE or verb == TOPICS_DELETE:
        _read_bytes(reader, &item.id, TOPIC_ID_BYTES)
        if reader.status == OK and item.id.length != TOPIC_ID_BYTES and (verb == TOPICS_CREATE or item.id.length):
            read_fail(reader, BAD_FIELD)
    if verb == TOPICS_CREATE or verb == TOPICS_PARTITIONS:
        item.partitions = read_int(reader)
    if verb == TOPICS_CREATE:
        _read_configs(reader, &item.configs)
    if verb == TOPICS_CONFIGS:
        _read_changes(reader, &item.changes)
    if verb == OFFSETS_COMMIT or verb == OFFSETS_DELETE:
        item.partition = <uint32_t>read_uint(reader, PARTITION_MAX)
    if verb == OFFSETS_COMMIT:
        item.offset = read_int(reader)
        item.epoch = _read_int32(reader, EPOCH_MIN)
        _read_bytes(reader, &item.metadata, ANY_BYTES)

cdef void _read_list(Reader* reader, TopicsRequest* request) noexcept nogil:
    cdef const uint8_t* start = reader.at
    cdef uint32_t each = _item_elements(request.verb)
    cdef uint32_t count = read_array_max(reader, each * TOPIC_ITEMS_MAX)
    cdef TopicItem item
    if count % each:
        read_fail(reader, BAD_FIELD)
    for _ in range(count // each):
        if reader.status != OK:
            return
        _read_item(reader, request.verb, &item)
    request.count = count // each
    request.list.data = start
    request.list.length = <uint32_t>(reader.at - start)

cdef void _read_group(Reader* reader, TopicsRequest* request) noexcept nogil:
    _read_bytes(reader, &request.group, GROUP_KEY_BYTES_MAX)
    if reader.status == OK and not _is_plain(&request.group, GROUP_KEY_BYTES_MAX):
        read_fail(reader, BAD_FIELD)

cdef status_t topics_decode(const Bytes* root, const Bytes* data, TopicsRequest* request) noexcept nogil:
    cdef Reader reader = reader_over(data.data, data.length)
    cdef uint32_t elements = read_array_max(&reader, 16)
    memset(request, 0, sizeof(TopicsRequest))
    request.verb = <uint8_t>read_uint(&reader, 0xff)
    if reader.status == OK and (_elements_of(request.verb) == 0 or not _is_plain(root, TOPIC_ROOT_BYTES_MAX)):
        return COMMAND_INVALID
    if elements != _elements_of(request.verb):
        read_fail(&reader, BAD_FIELD)
    if reader.status != OK:
        return reader.status
    if request.verb in (TOPICS_CREATE, TOPICS_PARTITIONS, TOPICS_CONFIGS):
        request.is_trial = read_bool(&reader)
        request.is_whole = read_bool(&reader) if request.verb == TOPICS_CONFIGS else False
    elif request.verb == OFFSETS_DELETE:
        _read_group(&reader, request)
    elif request.verb == OFFSETS_COMMIT:
        _read_group(&reader, request)
        request.generation = _read_int32(&reader, -1)
        _read_bytes(&reader, &request.member, GROUP_ID_BYTES_MAX)
        _read_bytes(&reader, &request.instance, GROUP_NAME_BYTES_MAX)
        request.retention_ms = read_uint(&reader, OFFSET_RETENTION_MS_MAX)
    _read_list(&reader, request)
    return read_done(&reader)


# --- encode -----------------------------------------------------------------------------------------------------------
cdef inline void _write_bytes(Writer* writer, const Bytes* bytes) noexcept nogil:
    write_bin(writer, bytes.data, bytes.length)

# msgpack as it is.
cdef void _write_list(Writer* writer, const Bytes* list) noexcept nogil:
    cdef uint8_t* at = write_room(writer, list.length)
    if at != NULL:
        _copy(at, list)
        write_up_to(writer, at + list.length)

cdef void _write_item(Writer* writer, uint8_t verb, const TopicItem* item) noexcept nogil:
    _write_bytes(writer, &item.name)
    if verb == TOPICS_CREATE or verb == TOPICS_DELETE:
        _write_bytes(writer, &item.id)
    if verb == TOPICS_CREATE or verb == TOPICS_PARTITIONS:
        write_int(writer, item.partitions)
    if verb == TOPICS_CREATE:
        _write_list(writer, &item.configs)
    if verb == TOPICS_CONFIGS:
        _write_list(writer, &item.changes)
    if verb == OFFSETS_COMMIT or verb == OFFSETS_DELETE:
        write_uint(writer, item.partition)
    if verb == OFFSETS_COMMIT:
        write_int(writer, item.offset)
        write_int(writer, item.epoch)
        _write_bytes(writer, &item.metadata)

cdef inline void _copy(uint8_t* at, const Bytes* bytes) noexcept nogil:
    cdef uint32_t i
    for i in range(bytes.length):
        at[i] = bytes.data[i]

cdef status_t topics_encode(const Bytes* root, const TopicsRequest* request, const TopicItem* items, uint32_t count,
                            Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Writer writer = writer_at(out)
    cdef TopicsRequest decoded
    cdef Bytes written
    cdef uint32_t i
    if _elements_of(request.verb) == 0 or count > TOPIC_ITEMS_MAX:
        return COMMAND_INVALID
    write_array(&writer, _elements_of(request.verb))
    write_uint(&writer, request.verb)
    if request.verb in (TOPICS_CREATE, TOPICS_PARTITIONS, TOPICS_CONFIGS):
        write_bool(&writer, request.is_trial)
        if request.verb == TOPICS_CONFIGS:
            write_bool(&writer, request.is_whole)
    elif request.verb == OFFSETS_DELETE or request.verb == OFFSETS_COMMIT:
        _write_bytes(&writer, &request.group)
    if request.verb == OFFSETS_COMMIT:
        write_int(&writer, request.generation)
        _write_bytes(&writer, &request.member)
        _write_bytes(&writer, &request.instance)
        write_uint(&writer, request.retention_ms)
    write_array(&writer, count * _item_elements(request.verb))
    for i in range(count):
        _write_item(&writer, request.verb, &items[i])
    if writer.status == OK:
        written.data = out.data + start
        written.length = <uint32_t>(out.size - start)
        write_fail(&writer, topics_decode(root, &written, &decoded))
    if writer.status != OK:
        out.size = start
    return writer.status


# --- lists ------------------------------------------------------------------------------------------------------------
# `place` counts bytes; the head of the array is passed at the first call.
cdef bint topics_next(const TopicsRequest* request, uint32_t* place, TopicItem* item) noexcept nogil:
    cdef const Bytes* items = &request.list
    cdef Reader reader = reader_over(items.data + place[0], items.length - place[0])
    if place[0] == 0:
        read_array_max(&reader, ANY_BYTES)
    if reader.status != OK or reader.at == reader.end:
        return False
    _read_item(&reader, request.verb, item)
    place[0] = <uint32_t>(reader.at - items.data)
    return reader.status == OK

cdef bint topics_are_configs(const Bytes* configs) noexcept nogil:
    cdef Reader reader = reader_over(configs.data, configs.length)
    cdef Bytes found
    _read_configs(&reader, &found)
    return read_done(&reader) == OK

cdef bint topics_next_config(const Bytes* configs, uint32_t* place, Bytes* name, Bytes* value) noexcept nogil:
    cdef Reader reader = reader_over(configs.data + place[0], configs.length - place[0])
    if place[0] == 0:
        read_array_max(&reader, ANY_BYTES)
    if reader.status != OK or reader.at == reader.end:
        return False
    _read_bytes(&reader, name, TOPIC_CONFIG_BYTES_MAX)
    _read_bytes(&reader, value, TOPIC_CONFIG_BYTES_MAX)
    place[0] = <uint32_t>(reader.at - configs.data)
    return reader.status == OK

cdef status_t topics_encode_configs(const Bytes* pairs, uint32_t count, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Writer writer = writer_at(out)
    cdef Bytes written
    cdef uint32_t i
    write_array(&writer, 2 * count)
    for i in range(2 * count):
        _write_bytes(&writer, &pairs[i])
    if writer.status != OK:
        return NO_MEMORY
    written.data = out.data + start
    written.length = <uint32_t>(out.size - start)
    if not topics_are_configs(&written):
        out.size = start
        return BAD_FIELD
    return OK

cdef bint topics_next_change(const Bytes* changes, uint32_t* place, TopicChange* change) noexcept nogil:
    cdef Reader reader = reader_over(changes.data + place[0], changes.length - place[0])
    if place[0] == 0:
        read_array_max(&reader, ANY_BYTES)
    if reader.status != OK or reader.at == reader.end:
        return False
    _read_change(&reader, change)
    place[0] = <uint32_t>(reader.at - changes.data)
    return reader.status == OK

cdef status_t topics_encode_changes(const TopicChange* changes, uint32_t count, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Writer writer = writer_at(out)
    cdef Reader reader
    cdef Bytes read
    cdef uint32_t i
    write_array(&writer, CHANGE_ELEMENTS * count)
    for i in range(count):
        write_uint(&writer, changes[i].kind)
        _write_bytes(&writer, &changes[i].name)
        _write_bytes(&writer, &changes[i].value)
        _write_bytes(&writer, &changes[i].fallback)
    if writer.status != OK:
        return NO_MEMORY
    reader = reader_over(out.data + start, out.size - start)
    _read_changes(&reader, &read)
    if read_done(&reader) != OK:
        out.size = start
        return BAD_FIELD
    return OK
