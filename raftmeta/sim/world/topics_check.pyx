"""Topics, offsets and record logs by the committed log: bodies."""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free

from raftmeta.machine.entry cimport ENTRY_OFFSET, ENTRY_OFFSETS, ENTRY_TOPIC, entry_value
from raftmeta.machine.plan cimport is_live
from raftmeta.machine.record_reads cimport RecordLogView, record_log_fetch, record_log_view
from raftmeta.machine.topic_records cimport (OffsetKey, OffsetRecord, OffsetsMeta, TopicRecord, offset_key, offset_read,
                                             offsets_key, offsets_read, topic_key, topic_read)
from raftmeta.machine.tree cimport Entry, root_find, tree_enter, tree_leave
from raftmeta.machine.tree_state cimport Root
from raftmeta.native.intrinsics cimport hash64, load64
from raftmeta.sim.world.groups_state cimport SIM_GROUP_KEYS
from raftmeta.sim.world.groups_view cimport group_key, group_of_key
from raftmeta.sim.world.records_model cimport model_log_batches, model_log_bytes, model_records
from raftmeta.sim.world.topics_model cimport (log_name, model_commit, model_committer, model_delete, model_deleter,
                                              model_follow, model_topic, number_of, text_bytes, topic_name, topic_root)
from raftmeta.sim.world.topics_state cimport (SIM_LOGS, SIM_PARTITIONS, SIM_TOPIC_CLIENTS, SIM_TOPICS, SimLog,
                                              SimOffset, SimRecord, SimText, SimTopic, SimTopics, SimVerdict)
from raftmeta.sim.world.world_state cimport (VIOLATION_NO_MEMORY, VIOLATION_NOT_ONCE, VIOLATION_OFFSET,
                                             VIOLATION_RECORD_COMPACTED, VIOLATION_RECORD_KEPT,
                                             VIOLATION_RECORD_OFFSETS, VIOLATION_RECORD_TWICE, VIOLATION_TOPIC,
                                             SimViolation, violate)
from raftmeta.status cimport FENCED, OK
from raftmeta.wire.commands cimport (COMMAND_GROUPS, COMMAND_LEASE_EXPIRE, COMMAND_LEASE_REVOKE, COMMAND_RECORDS,
                                     COMMAND_TOPICS, Bytes, Command)
from raftmeta.wire.groups cimport GROUP_OK
from raftmeta.wire.msgpack cimport (Reader, read_array, read_array_max, read_bin, read_int, read_uint, reader_over,
                                    unsigned_max)
from raftmeta.wire.record_batches cimport BatchHeader, RecordView, batch_is_open, batch_next, batch_read
from raftmeta.wire.records cimport RECORDS_APPEND, RECORDS_OK, RecordsRequest, records_decode
from raftmeta.wire.topics cimport (OFFSETS_COMMIT, OFFSETS_DELETE, TOPIC_CONFIG_BYTES_MAX, TOPIC_ID_BYTES, TOPIC_OK,
                                   TOPICS_CREATE, TopicItem, topics_decode, topics_next)

cdef enum:
    LIST_MAX = 64
    VALUE_BYTES = 8             # of a record; behind it stands a byte: no headers

ctypedef const ApplyResult* Result


cdef inline SimTopics* _topics(World* world) noexcept nogil:
    return <SimTopics*>world.topics


# Behind the status and the revision.
cdef Reader _answer(Result result) noexcept nogil:
    cdef Reader reader = reader_over(result.body, result.length)
    read_array(&reader, 3)
    read_uint(&reader, unsigned_max())
    read_uint(&reader, unsigned_max())
    return reader


# --- requests for topics and offsets ----------------------------------------------------------------------------------
cdef int64_t _code_of_create(Reader* reader) noexcept nogil:
    cdef uint32_t length = 0
    cdef int64_t code
    read_array(reader, 4)
    code = read_int(reader)
    read_bin(reader, TOPIC_ID_BYTES, &length)
    read_uint(reader, unsigned_max())
    read_bin(reader, TOPIC_CONFIG_BYTES_MAX, &length)
    return code


cdef void _judge_topics(World* world, SimGroups* groups, Result result) noexcept nogil:
    cdef SimTopics* topics = _topics(world)
    cdef Reader reader = _answer(result)
    cdef TopicItem item
    cdef uint32_t place = 0
    cdef int64_t code, expected
    if read_array_max(&reader, LIST_MAX) != topics.request.count:
        violate(world, VIOLATION_TOPIC, 0, groups.index, topics.request.count)
    while topics_next(&topics.request, &place, &item):
        expected = model_topic(topics, &topics.request, &item, result.revision)
        code = _code_of_create(&reader) if topics.request.verb == TOPICS_CREATE else read_int(&reader)
        if code != expected or reader.status != OK:
            violate(world, VIOLATION_TOPIC, 0, groups.index, <uint64_t>expected)
        if not topics.request.is_trial:
            world.counts.topics_made += expected == TOPIC_OK
        world.counts.topics_refused += expected != TOPIC_OK


# Whether it wrote an offset.
cdef bint _judge_commit(World* world, SimGroups* groups, uint32_t group, Result result) noexcept nogil:
    cdef SimTopics* topics = _topics(world)
    cdef Reader reader = _answer(result)
    cdef TopicItem item
    cdef uint32_t place = 0
    cdef int64_t of_group = model_committer(&topics.request, &topics.before[group])
    cdef int64_t expected
    cdef bint is_written = False
    if read_array_max(&reader, LIST_MAX) != topics.request.count:
        violate(world, VIOLATION_OFFSET, 0, groups.index, topics.request.count)
    while topics_next(&topics.request, &place, &item):
        expected = model_commit(topics, group, &item, of_group)
        if read_int(&reader) != expected or reader.status != OK:
            violate(world, VIOLATION_OFFSET, 0, groups.index, <uint64_t>expected)
        is_written = is_written or expected == TOPIC_OK
        world.counts.offsets_committed += expected == TOPIC_OK
        world.counts.offsets_refused += expected != TOPIC_OK
    return is_written


cdef void _judge_delete(World* world, SimGroups* groups, uint32_t group, Result result) noexcept nogil:
    cdef SimTopics* topics = _topics(world)
    cdef Reader reader = _answer(result)
    cdef TopicItem item
    cdef uint32_t place = 0
    cdef int64_t expected = model_deleter(&topics.before[group])
    read_array_max(&reader, LIST_MAX)
    if read_int(&reader) != expected:
        violate(world, VIOLATION_OFFSET, 0, groups.index, <uint64_t>expected)
    while expected == GROUP_OK and topics_next(&topics.request, &place, &item):
        if read_int(&reader) != model_delete(topics, group, &item) or reader.status != OK:
            violate(world, VIOLATION_OFFSET, 0, groups.index, item.partition)
        world.counts.offsets_deleted += 1


# --- requests for record logs -----------------------------------------------------------------------------------------
# The fence names a topic that is there. Nothing else may refuse a request as fenced.
cdef bint _is_fenced(World* world, const Command* command) noexcept nogil:
    cdef SimTopic* topic = &_topics(world).topics[number_of(&command.fence.key) % SIM_TOPICS]
    return command.kind == COMMAND_RECORDS and command.fence.is_present and (
        not topic.exists or command.fence.create_revision != topic.fence)


cdef SimViolation _wrong(const SimVerdict* verdict, uint64_t code) noexcept nogil:
    # A batch that stands there already, or must be refused, got a place all the same; or the other way round.
    if verdict.is_repeated or code != verdict.code:
        return VIOLATION_RECORD_TWICE
    return VIOLATION_RECORD_OFFSETS


cdef void _judge_records(World* world, SimGroups* groups, Result result) noexcept nogil:
    cdef SimTopics* topics = _topics(world)
    cdef Command* command = &groups.command
    cdef SimLog* log = &topics.logs[number_of(&command.name) % SIM_LOGS]
    cdef Reader reader = _answer(result)
    cdef RecordsRequest request
    cdef SimVerdict verdict
    cdef uint64_t code, number, start
    if records_decode(&command.name, &command.data, &request) != OK:
        return
    if not model_records(log, &request, groups.lease_ms, &world.counts, &verdict):
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)
        return
    read_array(&reader, 3)
    code = read_uint(&reader, unsigned_max())
    number = read_uint(&reader, unsigned_max())
    start = read_uint(&reader, unsigned_max())
    if code != verdict.code or number != verdict.number or start != verdict.start or reader.status != OK:
        violate(world, _wrong(&verdict, code), 0, groups.index, verdict.number)
    if request.verb == RECORDS_APPEND:
        world.counts.records_appended += verdict.code == RECORDS_OK and not verdict.is_repeated
        world.counts.records_repeated += verdict.is_repeated
        world.counts.records_refused += verdict.code != RECORDS_OK
    if (verdict.code != RECORDS_OK or verdict.is_repeated) and result.changed != 0:
        violate(world, VIOLATION_RECORD_TWICE, 0, groups.index, verdict.code)


# --- answers to clients -----------------------------------------------------------------------------------------------
cdef void _compare_told(World* world, const SimTopicClient* client) noexcept nogil:
    if client.judged != client.told or client.judged != client.sequence or client.told == 0:
        return
    world.counts.topic_answers += 1
    if client.judged_hash != client.told_hash:
        violate(world, VIOLATION_NOT_ONCE, 0, client.sequence, client.session)


cdef void topics_told(World* world, SimTopicClient* client, const uint8_t* body, uint32_t length) noexcept nogil:
    client.told = client.sequence
    client.told_hash = hash64(0, body, length)
    _compare_told(world, client)


# An entry is judged when it is committed, and so before or after its client hears of it.
cdef void _note_judged(World* world, const Command* command, Result result) noexcept nogil:
    cdef SimTopicClient* client
    cdef uint32_t i
    for i in range(SIM_TOPIC_CLIENTS):
        client = &_topics(world).clients[i]
        if command.session != client.session or command.sequence != client.sequence or client.session == 0:
            continue
        client.judged = client.sequence
        client.judged_hash = hash64(0, result.body, result.length)
        _compare_told(world, client)


# --- keys beside the models -------------------------------------------------------------------------------------------
cdef Bytes _value(const Entry* entry) noexcept nogil:
    cdef Bytes value
    value.data = entry_value(entry)
    value.length = entry.value_length
    return value


# The entry of a key, if it has the flag and lives; else NULL.
cdef const Entry* _find(const Root* root, const Bytes* key, uint32_t flag) noexcept nogil:
    cdef const Entry* entry = root_find(root, key.data, <uint16_t>key.length)
    return entry if is_live(entry) and entry.flags & flag else NULL


cdef void _look_at_topic(World* world, uint32_t node, const Root* root, uint32_t number) noexcept nogil:
    cdef SimTopic* topic = &_topics(world).topics[number]
    cdef SimText prefix, name
    cdef Bytes root_name, topic_bytes, value
    cdef TopicRecord record
    cdef OffsetKey key
    cdef const Entry* entry
    topic_root(&prefix)
    topic_name(number, &name)
    root_name = text_bytes(&prefix)
    topic_bytes = text_bytes(&name)
    topic_key(&root_name, &topic_bytes, &key)
    entry = _find(root, &key.bytes, ENTRY_TOPIC)
    if topic.exists != (entry != NULL):
        violate(world, VIOLATION_TOPIC, node, number, topic.fence)
        return
    if entry == NULL:
        return
    value = _value(entry)
    if (not topic_read(&value, &record) or load64(&record.meta.id[0]) != topic.id or entry.lease != 0
            or record.meta.partitions != topic.partitions or entry.create_revision != topic.fence):
        violate(world, VIOLATION_TOPIC, node, number, topic.fence)


cdef bint _is_offset(const Entry* entry, const SimOffset* offset) noexcept nogil:
    cdef OffsetRecord record
    cdef Bytes value = _value(entry)
    return (offset_read(&value, &record) and load64(&record.meta.topic[0]) == offset.topic
            and record.meta.offset == offset.offset and record.meta.epoch == offset.epoch
            and record.metadata.length == offset.metadata_length and entry.lease == 0)


cdef void _look_at_offsets(World* world, uint32_t node, const Root* root, uint32_t group) noexcept nogil:
    cdef SimTopics* topics = _topics(world)
    cdef SimOffset* offset
    cdef SimText name
    cdef OffsetsMeta head
    cdef OffsetKey key
    cdef Bytes group_name = group_key(group)
    cdef Bytes topic_bytes, value
    cdef const Entry* entry
    cdef uint32_t topic, partition
    cdef uint32_t count = 0
    for topic in range(SIM_TOPICS):
        topic_name(topic, &name)
        topic_bytes = text_bytes(&name)
        for partition in range(SIM_PARTITIONS):
            offset = &topics.groups[group].offsets[topic][partition]
            offset_key(&group_name, &topic_bytes, partition, &key)
            entry = _find(root, &key.bytes, ENTRY_OFFSET)
            count += offset.exists
            if offset.exists != (entry != NULL) or (entry != NULL and not _is_offset(entry, offset)):
                violate(world, VIOLATION_OFFSET, node, group, <uint64_t>offset.offset)
    offsets_key(&group_name, &key)
    entry = _find(root, &key.bytes, ENTRY_OFFSETS)
    if topics.groups[group].has_head != (entry != NULL):
        violate(world, VIOLATION_OFFSET, node, group, count)
        return
    if entry == NULL:
        return
    value = _value(entry)
    if (not offsets_read(&value, &head) or head.count != count
            or (entry.lease != 0) != (topics.groups[group].deadline_ms != 0)):
        violate(world, VIOLATION_OFFSET, node, group, count)


# One record or one opaque batch as a node has it: the model's next one, or what is wrong.
cdef SimViolation _compare_record(const SimLog* log, size_t place, const SimRecord* found) noexcept nogil:
    cdef const SimRecord* record
    if place >= log.records.size or found.offset < log.records.data[place].offset:
        return VIOLATION_RECORD_COMPACTED
    record = &log.records.data[place]
    if (found.offset != record.offset or found.base != record.base or found.last != record.last
            or found.key != record.key or found.value != record.value or found.is_opaque != record.is_opaque):
        return VIOLATION_RECORD_KEPT
    return <SimViolation>0


cdef bint _take(World* world, uint32_t node, uint32_t number, size_t* place, const SimRecord* found) noexcept nogil:
    cdef SimViolation what = _compare_record(&_topics(world).logs[number], place[0], found)
    place[0] += 1
    if what != 0:
        violate(world, what, node, number, found.offset)
    return what == 0


cdef void _look_into(World* world, uint32_t node, uint32_t number, const Bytes* batch, size_t* place) noexcept nogil:
    cdef BatchHeader header
    cdef RecordView view
    cdef SimRecord found
    cdef uint32_t at = 0
    batch_read(batch, &header)
    found.base = <uint64_t>header.base_offset
    found.last = found.base + <uint64_t>header.last_delta
    found.offset = found.base
    found.key = 0
    found.value = 0
    found.is_opaque = not batch_is_open(&header)
    if found.is_opaque:
        _take(world, node, number, place, &found)
        return
    while batch_next(batch, &at, &view):
        found.offset = found.base + <uint64_t>view.offset_delta
        found.key = view.key.data[0] if view.has_key else <uint8_t>0
        found.value = load64(view.whole.data + view.whole.length - 1 - VALUE_BYTES) if view.has_value else <uint64_t>0
        if not _take(world, node, number, place, &found):
            return


cdef void _look_at_log(World* world, uint32_t node, const Root* root, uint32_t number) noexcept nogil:
    cdef SimTopics* topics = _topics(world)
    cdef SimLog* log = &topics.logs[number]
    cdef RecordLogView view
    cdef BatchHeader header
    cdef SimText name
    cdef Bytes key, batch
    cdef size_t place = 0
    cdef size_t at = 0
    log_name(number, &name)
    key = text_bytes(&name)
    record_log_view(root, &key, &view)
    if view.start != log.start or view.next != log.next:
        violate(world, VIOLATION_RECORD_OFFSETS, node, number, log.next)
        return
    topics.fetched.clear()
    if record_log_fetch(root, &key, 0, ~<uint32_t>0, True, &topics.fetched) != OK:
        violate(world, VIOLATION_NO_MEMORY, node, 0, 0)
        return
    while at < topics.fetched.size:
        batch.data = topics.fetched.data + at
        batch.length = <uint32_t>(topics.fetched.size - at)
        batch_read(&batch, &header)
        batch.length = header.length
        _look_into(world, node, number, &batch, &place)
        at += header.length
    if place != log.records.size or view.bytes != model_log_bytes(log) or view.batches != model_log_batches(log):
        violate(world, VIOLATION_RECORD_KEPT, node, number, log.next)


cdef void _look_at_all(World* world, uint32_t node, const Root* root) noexcept nogil:
    cdef uint32_t i
    for i in range(SIM_TOPICS):
        _look_at_topic(world, node, root, i)
    for i in range(SIM_GROUP_KEYS):
        _look_at_offsets(world, node, root, i)
    for i in range(SIM_LOGS):
        _look_at_log(world, node, root, i)


cdef void topics_look(World* world, uint32_t node, Machine* machine) noexcept nogil:
    _look_at_all(world, node, tree_enter(machine.tree))
    tree_leave(machine.tree)
    world.counts.topic_checks += 1


# --- the log ----------------------------------------------------------------------------------------------------------
cdef void topics_begin(World* world) noexcept nogil:
    world.topics = calloc(1, sizeof(SimTopics))
    if world.topics == NULL:
        violate(world, VIOLATION_NO_MEMORY, 0, 0, 0)


cdef void topics_before(World* world, const SimGroups* groups) noexcept nogil:
    cdef uint32_t group
    for group in range(SIM_GROUP_KEYS):
        _topics(world).before[group] = groups.views[group]


cdef bint topics_are_due(World* world, uint32_t group, uint64_t lease_ms) noexcept nogil:
    cdef uint64_t deadline_ms = _topics(world).groups[group].deadline_ms if world.topics != NULL else 0
    return deadline_ms != 0 and deadline_ms <= lease_ms


# Judge its request. Whether it wrote offsets of a group: *group.
cdef bint _judge(World* world, SimGroups* groups, Result result, uint32_t* group) noexcept nogil:
    cdef SimTopics* topics = _topics(world)
    cdef Command* command = &groups.command
    cdef Bytes id
    cdef bint is_fenced = _is_fenced(world, command)
    if result.status not in (OK, FENCED):
        return False                # for its rights
    if is_fenced != (result.status == FENCED) or (is_fenced and result.changed != 0):
        violate(world, VIOLATION_TOPIC, 0, groups.index, command.fence.create_revision)
    world.counts.records_fenced += is_fenced
    if is_fenced:
        return False
    if command.kind == COMMAND_RECORDS:
        _judge_records(world, groups, result)
        return False
    if topics_decode(&command.name, &command.data, &topics.request) != OK:
        return False
    group[0] = group_of_key(&topics.request.group, &id)
    if topics.request.verb == OFFSETS_COMMIT:
        return _judge_commit(world, groups, group[0], result)
    if topics.request.verb == OFFSETS_DELETE:
        _judge_delete(world, groups, group[0], result)
    else:
        _judge_topics(world, groups, result)
    return False


cdef void topics_take(World* world, SimGroups* groups, const ApplyResult* result) noexcept nogil:
    cdef SimTopics* topics = _topics(world)
    cdef Command* command = &groups.command
    cdef uint32_t committed = SIM_GROUP_KEYS
    cdef uint32_t group
    cdef bint is_request = command.kind in (COMMAND_TOPICS, COMMAND_RECORDS) and not result.is_duplicate
    cdef bint is_written = is_request and _judge(world, groups, result, &committed)
    if is_request and (result.status == OK or result.status == FENCED):
        _note_judged(world, command, result)
    if result.changed == 0:
        return
    for group in range(SIM_GROUP_KEYS):
        if command.kind == COMMAND_LEASE_EXPIRE and topics.before[group].exists and not groups.views[group].exists:
            world.counts.offsets_timed_out += 1
        model_follow(topics, group, &topics.before[group], &groups.views[group], is_written and group == committed,
                     groups.lease_ms)
    if command.kind in (COMMAND_TOPICS, COMMAND_RECORDS, COMMAND_GROUPS, COMMAND_LEASE_EXPIRE, COMMAND_LEASE_REVOKE):
        topics_look(world, 0, groups.machine)


cdef void topics_release(World* world) noexcept nogil:
    cdef SimTopics* topics = _topics(world)
    cdef uint32_t i
    if topics == NULL:
        return
    for i in range(SIM_TOPIC_CLIENTS):
        topics.clients[i].payload.release()
    for i in range(SIM_LOGS):
        topics.logs[i].records.release()
    topics.scratch.release()
    topics.batch.release()
    topics.fetched.release()
    free(topics)
    world.topics = NULL
