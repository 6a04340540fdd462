"""Clients of topics: bodies."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.machine.entry cimport ENTRY_TOPIC
from raftmeta.machine.plan cimport is_live
from raftmeta.machine.record_reads cimport RecordLogView, record_log_view
from raftmeta.machine.state cimport LEVEL_OF_TOPICS
from raftmeta.machine.tree cimport Entry, root_find, tree_enter, tree_leave
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.batches cimport SIM_BATCH_RECORDS, SimDraft, batch_make
from raftmeta.sim.world.calls cimport call_take
from raftmeta.sim.world.groups_state cimport SIM_GROUP_KEYS
from raftmeta.sim.world.groups_view cimport group_key
from raftmeta.sim.world.sendings cimport sending_submit
from raftmeta.sim.world.topics_check cimport topics_told
from raftmeta.sim.world.topics_model cimport log_name, number_of, text_bytes, topic_name, topic_root
from raftmeta.sim.world.topics_state cimport (SIM_LOGS, SIM_PARTITIONS, SIM_RECORD_KEYS, SIM_TEXT_MAX,
                                              SIM_TOPIC_CLIENTS, SIM_TOPIC_ITEMS, SIM_TOPICS, TOPIC_ASKS, TOPIC_OPENS,
                                              TOPIC_PRODUCES, SimText, SimTopicClient, SimTopics)
from raftmeta.sim.world.world_state cimport CALL_TOPIC, VIOLATION_FATAL, violate
from raftmeta.status cimport OK, RESULT_EVICTED, SESSION_UNKNOWN
from raftmeta.wire.commands cimport (COMMAND_RECORDS, COMMAND_SESSION_OPEN, COMMAND_TOPICS, command_clear,
                                     command_encode)
from raftmeta.wire.msgpack cimport Reader, read_array, read_uint, reader_over, unsigned_max
from raftmeta.wire.records cimport (RECORDS_APPEND, RECORDS_COMPACT, RECORDS_DELETE, RECORDS_DROP, RECORDS_OK,
                                    RECORDS_TO_END, RECORDS_TRIM, RecordsRequest, records_encode)
from raftmeta.wire.topics cimport (OFFSET_METADATA_BYTES_MAX, OFFSETS_COMMIT, OFFSETS_DELETE, TOPIC_ID_BYTES,
                                   TOPICS_CREATE, TOPICS_DELETE, TOPICS_PARTITIONS, TopicItem, TopicsRequest,
                                   topics_encode)

cdef enum:
    RESULTS_MAX = 32            # below this the number stands in replicated results (raftmeta/status.pxd)
    SENDINGS_OPEN_MAX = 48
    SESSION_WINDOW = 8
    SEQUENCES = 0x80000000
    BATCHES_MANY = 40           # of a log that is trimmed next
    RETENTION_MS = 3_000        # limits of time are below it
    TOMBSTONE_MS = 500          # ... of tombstones
    FENCE_BYTES_MAX = 2 * SIM_TEXT_MAX
    EPOCH_MAX = 30_000

cdef uint64_t FOREVER_MS = <uint64_t>1 << 40

# Where the bytes of one request stand until it is encoded.
cdef struct Texts:
    SimText root
    SimText log
    SimText[SIM_TOPIC_ITEMS] names
    uint64_t[2 * SIM_TOPIC_ITEMS] ids
    uint8_t[FENCE_BYTES_MAX] fence


cdef inline SimTopics* _topics(World* world) noexcept nogil:
    return <SimTopics*>world.topics

cdef inline uint64_t _draw(World* world) noexcept nogil:
    return next_random(&world.random_topics)

cdef inline Bytes _nothing() noexcept nogil:
    cdef Bytes nothing
    nothing.data = NULL
    nothing.length = 0
    return nothing


# --- topics and offsets -----------------------------------------------------------------------------------------------
cdef void _choose_name(World* world, TopicItem* item, SimText* text) noexcept nogil:
    topic_name(<uint32_t>_draw(world) % SIM_TOPICS, text)
    item.name = text_bytes(text)


cdef bint _encode(World* world, Command* command, const TopicsRequest* request, const TopicItem* items, uint32_t count,
                  Texts* texts) noexcept nogil:
    cdef Vec[uint8_t]* data = &_topics(world).scratch
    data.clear()
    topic_root(&texts.root)
    command.kind = COMMAND_TOPICS
    data.clear()
    if not data.append(&texts.root.bytes[0], texts.root.length):
        return False
    command.name = text_bytes(&texts.root)
    if topics_encode(&command.name, request, items, count, data) != OK:
        return False
    # The name stands in front of the request, as both must stay.
    command.name.data = data.data
    command.data.data = data.data + texts.root.length
    command.data.length = <uint32_t>(data.size - texts.root.length)
    return True


# Some ids name a topic that has gone, or none.
cdef bint _ask_topics(World* world, Command* command) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t count = 1 + <uint32_t>(draw >> 8) % (SIM_TOPIC_ITEMS - 1)
    cdef TopicItem[SIM_TOPIC_ITEMS] items
    cdef TopicsRequest request
    cdef Texts texts
    cdef uint32_t i
    memset(&request, 0, sizeof(TopicsRequest))
    memset(&items, 0, sizeof(items))
    memset(&texts.ids, 0, sizeof(texts.ids))
    request.verb = TOPICS_CREATE if draw & 7 < 5 else (TOPICS_DELETE if draw & 7 == 5 else TOPICS_PARTITIONS)
    request.is_trial = request.verb != TOPICS_DELETE and draw >> 16 & 7 == 0
    for i in range(count):
        _choose_name(world, &items[i], &texts.names[i])
        texts.ids[2 * i] = _draw(world) | 1
        if request.verb == TOPICS_DELETE and draw >> 20 & 7:
            texts.ids[2 * i] = _topics(world).topics[number_of(&items[i].name)].id if draw >> 20 & 1 else 0
        items[i].id.data = <const uint8_t*>&texts.ids[2 * i]
        items[i].id.length = TOPIC_ID_BYTES if texts.ids[2 * i] else 0
        items[i].partitions = <int64_t>(draw >> 32 + 4 * i & 15) % (SIM_PARTITIONS + 1)
        items[i].configs.data = <const uint8_t*>b"\x90"      # an empty array
        items[i].configs.length = 1
    return _encode(world, command, &request, items, count, &texts)


cdef bint topic_commit_make(World* world, Command* command, uint32_t group, int32_t generation, const Bytes* member,
                            const Bytes* instance) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t count = 1 + <uint32_t>(draw >> 8) % SIM_TOPIC_ITEMS
    cdef TopicItem[SIM_TOPIC_ITEMS] items
    cdef TopicsRequest request
    cdef Texts texts
    cdef uint32_t i
    memset(&request, 0, sizeof(TopicsRequest))
    memset(&items, 0, sizeof(items))
    request.verb = OFFSETS_COMMIT
    request.group = group_key(group)
    request.generation = generation
    request.member = member[0]
    request.instance = instance[0]
    request.retention_ms = (draw >> 16) % RETENTION_MS if draw & 1 else 0
    for i in range(count):
        _choose_name(world, &items[i], &texts.names[i])
        items[i].partition = <uint32_t>(draw >> 32 + 4 * i & 15) % SIM_PARTITIONS
        items[i].offset = <int64_t>(_draw(world) >> 8)
        items[i].epoch = <int32_t>(draw >> 48 & 7) - 1
        items[i].metadata.data = &_topics(world).metadata[0]
        items[i].metadata.length = <uint32_t>(draw >> 52 & 7)
        if draw >> 56 == 0:
            items[i].metadata.length = OFFSET_METADATA_BYTES_MAX + 1
    return _encode(world, command, &request, items, count, &texts)


cdef bint _delete_offsets(World* world, Command* command) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t count = 1 + <uint32_t>(draw >> 8) % SIM_TOPIC_ITEMS
    cdef TopicItem[SIM_TOPIC_ITEMS] items
    cdef TopicsRequest request
    cdef Texts texts
    cdef uint32_t i
    memset(&request, 0, sizeof(TopicsRequest))
    memset(&items, 0, sizeof(items))
    request.verb = OFFSETS_DELETE
    request.group = group_key(<uint32_t>draw % SIM_GROUP_KEYS)
    for i in range(count):
        _choose_name(world, &items[i], &texts.names[i])
        items[i].partition = <uint32_t>(draw >> 32 + 4 * i & 15) % SIM_PARTITIONS
    return _encode(world, command, &request, items, count, &texts)


# --- record logs ------------------------------------------------------------------------------------------------------
# The topic as some node shows it, as a fence: perhaps it has gone.
cdef void _fence(SimNode* node, Command* command, uint32_t topic, Texts* texts) noexcept nogil:
    cdef SimText prefix, name
    cdef const Entry* entry
    topic_root(&prefix)
    topic_name(topic, &name)
    memcpy(texts.fence, prefix.bytes, prefix.length)
    memcpy(texts.fence + prefix.length, name.bytes, name.length)
    command.fence.is_present = True
    command.fence.key.data = &texts.fence[0]
    command.fence.key.length = prefix.length + name.length
    entry = root_find(tree_enter(node.engine.machine.tree), command.fence.key.data, <uint16_t>command.fence.key.length)
    command.fence.create_revision = entry.create_revision if is_live(entry) and entry.flags & ENTRY_TOPIC else 1
    tree_leave(node.engine.machine.tree)


cdef void _look(SimNode* node, uint32_t log, RecordLogView* view) noexcept nogil:
    cdef SimText name
    cdef Bytes key
    log_name(log, &name)
    key = text_bytes(&name)
    record_log_view(tree_enter(node.engine.machine.tree), &key, view)
    tree_leave(node.engine.machine.tree)


# Log 0 is compacted, log 1 has limits, log 2 both, and log 3 keeps all; at times a log changes its mind.
cdef void _choose_policy(World* world, uint32_t log, RecordsRequest* request) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t policy = log if draw & 15 else <uint32_t>(draw >> 4)
    request.flags = <uint8_t>(policy + 1 & (RECORDS_COMPACT | RECORDS_DELETE))
    if request.flags & RECORDS_DELETE:
        request.retention_ms = (draw >> 8) % RETENTION_MS if draw >> 60 & 1 else 0
        request.records_max = 5 + (draw >> 24) % 40 if draw >> 61 & 1 else 0
        request.bytes_max = 300 + (draw >> 36) % 2_000 if draw >> 62 & 1 else 0
    if request.flags & RECORDS_COMPACT:
        request.tombstone_ms = (draw >> 48) % TOMBSTONE_MS


# A producer may say something wrong. Then it does not expect its batch to be there.
cdef void _choose_sequence(World* world, SimTopicClient* client, SimDraft* draft, uint32_t log) noexcept nogil:
    cdef uint64_t choice = _draw(world) % 32
    draft.epoch = client.epoch
    draft.first_sequence = client.next_sequence[log]
    client.wish = TOPIC_PRODUCES
    if choice < 4 and client.log == log and client.count != 0:
        draft.first_sequence = client.first_sequence
        draft.count = client.count          # the bytes of the batch are others, and nobody may see them
        client.wish = TOPIC_ASKS
    elif choice == 4:
        draft.first_sequence = (draft.first_sequence + 1) % SEQUENCES
        client.wish = TOPIC_ASKS
    elif choice == 5 and client.epoch > 0:
        draft.epoch -= 1
        client.wish = TOPIC_ASKS
    elif choice == 6:
        draft.producer = draft.epoch = -1
        draft.first_sequence = -1
        client.wish = TOPIC_ASKS
    elif choice == 7 and client.epoch < EPOCH_MAX:
        draft.epoch += 1
        draft.first_sequence = 1
        client.wish = TOPIC_ASKS
    elif choice == 8:
        draft.first_sequence = SEQUENCES - 2        # taken by a log that does not know the producer
    if client.wish == TOPIC_PRODUCES:
        client.log = log
        client.first_sequence = draft.first_sequence
        client.count = draft.count


cdef bint _encode_records(World* world, Command* command, const RecordsRequest* request, uint32_t log,
                          Texts* texts) noexcept nogil:
    cdef Vec[uint8_t]* data = &_topics(world).scratch
    log_name(log, &texts.log)
    data.clear()
    command.kind = COMMAND_RECORDS
    command.name = text_bytes(&texts.log)
    if records_encode(&command.name, request, data) != OK:
        return False
    command.data.data = data.data
    command.data.length = <uint32_t>data.size
    return True


cdef bint _produce(World* world, SimNode* node, SimTopicClient* client, uint32_t number, Command* command,
                   Texts* texts) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t log = <uint32_t>draw % SIM_LOGS
    cdef RecordsRequest request
    cdef SimDraft draft
    cdef uint32_t i
    memset(&request, 0, sizeof(RecordsRequest))
    memset(&draft, 0, sizeof(SimDraft))
    request.verb = RECORDS_APPEND
    _choose_policy(world, log, &request)
    draft.producer = number
    draft.count = 1 + <uint32_t>(draw >> 8) % SIM_BATCH_RECORDS
    _choose_sequence(world, client, &draft, log)
    draft.is_opaque = draw >> 16 & (63 if request.flags & RECORDS_COMPACT else 15) == 0
    for i in range(draft.count):
        client.values += 1
        draft.values[i] = 0 if draw >> 20 + 2 * i & 3 == 0 else <uint64_t>(number + 1) << 48 | client.values
        draft.keys[i] = <uint8_t>(c"a" + (draw >> 32 + 4 * i & 15) % SIM_RECORD_KEYS)
        if draw >> 48 + i & 1 and not request.flags & RECORDS_COMPACT:
            draft.keys[i] = 0
    if not batch_make(&draft, &_topics(world).batch):
        return False
    request.batch.data = _topics(world).batch.data
    request.batch.length = <uint32_t>_topics(world).batch.size
    if draw >> 56 & 3:
        _fence(node, command, log % SIM_TOPICS, texts)
    return _encode_records(world, command, &request, log, texts)


cdef bint _trim(World* world, SimNode* node, Command* command, uint32_t log, bint drops, Texts* texts) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef RecordsRequest request
    cdef RecordLogView view
    memset(&request, 0, sizeof(RecordsRequest))
    request.verb = RECORDS_DROP if drops else RECORDS_TRIM
    _look(node, log, &view)
    if not drops:
        request.offset = view.start + draw % (view.next - view.start + 2)
        if draw >> 32 & 7 == 0:
            request.offset = RECORDS_TO_END
    return _encode_records(world, command, &request, log, texts)


cdef bint _is_long(SimNode* node, uint32_t log) noexcept nogil:
    cdef RecordLogView view
    _look(node, log, &view)
    return view.batches > <uint32_t>BATCHES_MANY


# --- the next command -------------------------------------------------------------------------------------------------
cdef void _open(World* world, SimTopicClient* client, Command* command) noexcept nogil:
    client.session = _draw(world) >> 2 | 1
    client.sequence = client.judged = client.told = 0
    client.wish = TOPIC_OPENS
    command.kind = COMMAND_SESSION_OPEN
    command.id = client.session
    command.ttl_ms = FOREVER_MS
    command.window = SESSION_WINDOW


cdef bint _choose(World* world, SimNode* node, SimTopicClient* client, uint32_t number, Command* command,
                  Texts* texts) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t choice = <uint32_t>draw % 64
    cdef uint32_t log = <uint32_t>(draw >> 8) % SIM_LOGS
    cdef Bytes nothing = _nothing()
    client.wish = TOPIC_ASKS
    if choice < 3 or (choice < 32 and _is_long(node, log)):
        return _trim(world, node, command, log, False, texts)
    if choice == 3:
        return _trim(world, node, command, log, draw >> 16 & 1, texts)
    if choice < 38:
        return _produce(world, node, client, number, command, texts)
    if choice < 46:
        return _ask_topics(world, command)
    if choice < 49:
        return _delete_offsets(world, command)
    # Half of the commits are of the group that nobody is a member of.
    return topic_commit_make(world, command, 2 if draw >> 16 & 1 else <uint32_t>(draw >> 20 & 1),
                             -1 if draw >> 24 & 7 else <int32_t>(draw >> 28 & 3), &nothing, &nothing)


cdef void _next(World* world, SimNode* node, SimTopicClient* client, uint32_t number) noexcept nogil:
    cdef Command* command = &world.command
    cdef Texts texts
    cdef bint is_made = True
    command_clear(command)
    client.is_answered = False
    if client.session == 0:
        _open(world, client, command)
    else:
        client.sequence += 1
        command.session = client.session
        command.sequence = command.lowest_unanswered = client.sequence
        is_made = _choose(world, node, client, number, command, &texts)
        command.pointer = client.sequence - 1       # after it: answered long ago
    client.payload.clear()
    if not is_made or command_encode(command, &client.payload) != OK:
        violate(world, VIOLATION_FATAL, 0, 20, client.sequence)
    command_clear(command)


# --- sendings ---------------------------------------------------------------------------------------------------------
cdef SimNode* _some_node(World* world) noexcept nogil:
    cdef SimNode* node = &world.nodes[_draw(world) % world.config.nodes]
    if (not node.is_up or node.engine.state != ENGINE_RUNNING or node.paused_until_ns > world.now_ns
            or node.engine.machine.feature_level < LEVEL_OF_TOPICS or node.calls_open >= SENDINGS_OPEN_MAX):
        return NULL
    return node


cdef uint32_t _send(World* world, SimNode* node, SimTopicClient* client, uint32_t number) noexcept nogil:
    cdef SimCall* call = call_take(world, node, CALL_TOPIC)
    if call == NULL:
        return 0
    call.key = <uint8_t>number
    call.session = client.session
    call.number = client.sequence
    world.counts.topic_sendings += 1
    return sending_submit(world, node, &client.payload, call, client.session, client.sequence)


# It ends and comes back as another process, with a newer epoch; a command of its last life may still be on its way.
cdef void _strike(World* world, SimTopicClient* client) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    if draw & 511 == 0:
        client.silent_until_ns = world.now_ns + (draw >> 32) % 2_000_000_000
    if draw >> 16 & 511 == 0:
        client.session = 0
        client.payload.clear()
        _renew(client)


# A newer epoch, in which each log begins with the sequence 0.
cdef void _renew(SimTopicClient* client) noexcept nogil:
    client.epoch = (client.epoch + 1) % EPOCH_MAX
    client.count = 0
    memset(&client.next_sequence, 0, sizeof(client.next_sequence))


cdef uint32_t topic_clients_act(World* world) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t number = <uint32_t>draw % SIM_TOPIC_CLIENTS
    cdef SimTopicClient* client = &_topics(world).clients[number]
    cdef SimNode* node
    if client.silent_until_ns > world.now_ns:
        return 0
    _strike(world, client)
    node = _some_node(world)
    if node == NULL:
        return 0
    if client.payload.size == 0 or client.is_answered:
        _next(world, node, client, number)
    elif draw >> 16 & 1:
        return 0
    return _send(world, node, client, number)


# --- answers ----------------------------------------------------------------------------------------------------------
# Where the next batch for the log begins; a producer that was refused begins a newer epoch.
cdef void _produced(SimTopicClient* client, const uint8_t* body, uint32_t length) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef uint64_t code
    read_array(&reader, 3)
    read_uint(&reader, unsigned_max())
    read_uint(&reader, unsigned_max())
    read_array(&reader, 3)
    code = read_uint(&reader, unsigned_max())
    if code == RECORDS_OK:
        client.next_sequence[client.log] = (client.first_sequence + client.count) % SEQUENCES
    else:
        _renew(client)


cdef void topic_clients_done(World* world, SimNode* node, const SimCall* call, status_t status, const uint8_t* body,
                             uint32_t length) noexcept nogil:
    cdef SimTopicClient* client = &_topics(world).clients[call.key]
    if (client.session != call.session or client.sequence != call.number or client.is_answered
            or client.payload.size == 0 or status == SESSION_UNKNOWN):
        return                      # of an earlier life, known, or from where its session is not open yet
    if status >= RESULTS_MAX and status != RESULT_EVICTED:
        return                      # this sending's fate
    client.is_answered = True
    if status == RESULT_EVICTED or client.wish == TOPIC_OPENS:
        return
    topics_told(world, client, body, length)
    if status == OK and client.wish == TOPIC_PRODUCES:
        _produced(client, body, length)
