"""Members of consumer groups at the Kafka door: bodies.

Sources: KIP-848 and KIP-1082; Apache Kafka 4.x KafkaApis.scala and GroupCoordinatorService.java (which codes, and what
is checked first).
"""

from libc.stddef cimport size_t
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset, strlen

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.access cimport access_change, access_group
from raftmeta.doors.kafka.audit cimport audit_names_group
from raftmeta.doors.kafka.codec cimport (KAFKA_UUID_BYTES, KafkaReader, KafkaWriter, get_array, get_bool, get_end,
                                         get_int32, get_tags, get_text, get_uuid, put_array, put_int8, put_int16,
                                         put_int32, put_null_text, put_tags, put_text, put_text_null, put_uuid,
                                         put_word)
from raftmeta.doors.kafka.consumer_state cimport consumer_group_state, consumer_group_word
from raftmeta.doors.kafka.group_state cimport (GroupWalk, group_find, group_key_of, group_lost, group_member,
                                               group_next, group_walk)
from raftmeta.doors.kafka.keep cimport KEEP_SLACK_MS, keep_lease
from raftmeta.doors.kafka.protocol cimport (KAFKA_COORDINATOR_NOT_AVAILABLE, KAFKA_GROUP_AUTHORIZATION_FAILED,
                                            KAFKA_GROUP_ID_NOT_FOUND, KAFKA_GROUP_MAX_SIZE_REACHED,
                                            KAFKA_INVALID_GROUP_ID, KAFKA_INVALID_REGULAR_EXPRESSION,
                                            KAFKA_INVALID_REQUEST, KAFKA_OK, KAFKA_TOPIC_AUTHORIZATION_FAILED,
                                            KAFKA_UNSUPPORTED_ASSIGNOR)
from raftmeta.doors.kafka.quotas cimport quotas_have_room, quotas_heard, quotas_joined, quotas_left
from raftmeta.doors.kafka.reply cimport (error_of_status, put_throttle, reply_begin, reply_end, reply_fail,
                                         request_command, request_pin, request_reader, task_error, task_result)
from raftmeta.doors.kafka.state cimport KafkaDoor, KafkaRequest, KafkaTask
from raftmeta.doors.kafka.topic_state cimport topic_allows, topic_find, topic_find_id, topic_root
from raftmeta.machine.consumer_records cimport (CONSUMER_UNRELEASED, CONSUMER_UNREVOKED, ConsumerRecord, consumer_read,
                                                consumer_seen, consumer_words)
from raftmeta.machine.consumer_shares cimport (Share, shares_find, shares_length, shares_read, shares_sort,
                                               shares_split, shares_write)
from raftmeta.machine.entry cimport Entry
from raftmeta.machine.group_records cimport GroupRecord, MemberRecord, group_is_consumer, group_target
from raftmeta.machine.rights_state cimport RIGHT_READ
from raftmeta.machine.state cimport LEVEL_OF_CONSUMER_GROUPS
from raftmeta.machine.topic_records cimport TopicRecord
from raftmeta.native.containers cimport Vec
from raftmeta.security.audit_queue cimport AUDIT_GROUP_JOIN, AUDIT_GROUP_LEAVE
from raftmeta.status cimport OK, status_t
from raftmeta.wire.commands cimport COMMAND_GROUPS, KEY_BYTES_MAX, Bytes, command_clear
from raftmeta.wire.consumers cimport (CONSUMER_HAS_ASSIGNOR, CONSUMER_HAS_OWNED, CONSUMER_HAS_REBALANCE,
                                      CONSUMER_HAS_SUBSCRIPTION, CONSUMER_JOINS, CONSUMER_LEAVES,
                                      CONSUMER_PARTITIONS_MAX, CONSUMER_PAUSES, CONSUMER_TOPICS_MAX,
                                      CONSUMER_WANTS_ASSIGNMENT, ConsumerRequest, PartitionsOf, consumers_encode,
                                      partition_at, partitions_next, subscription_next)
from raftmeta.wire.groups cimport GROUP_ID_BYTES_MAX, GROUP_METADATA_BYTES_MAX, GROUP_NAME_BYTES_MAX
from raftmeta.wire.msgpack cimport Reader, read_array, read_bin, read_bool, read_int
from raftmeta.wire.topics cimport TOPIC_NAME_BYTES_MAX

cdef enum:
    VERSION_OF_OWN_IDS = 1          # of ConsumerGroupHeartbeat: KIP-1082, the member makes up its id
    VERSION_OF_TYPES = 1            # of ConsumerGroupDescribe
    ANSWER_ELEMENTS = 5             # of machine/consumer_groups
    ANYTHING = 0x7FFFFFFF
    NOT_ASKED = -2147483648         # authorized operations
    TYPE_CONSUMER = 1
    STEP_ASKED = 0                  # its command is on its way
    STEP_LOOKS = 1                  # it waits for the state

cdef const char* NO_WORD = b""
cdef const char* DEAD = b"Dead"
cdef const char* UNIFORM = b"uniform"
cdef const char* RANGE = b"range"

# A heartbeat as it was read. Its lists have memory of their own.
cdef struct Asked:
    Bytes group
    ConsumerRequest word            # windows point into the frame and into the lists
    bint has_names
    bint has_regex
    Vec[Bytes] names
    Vec[Share] owned
    Vec[uint8_t] subscription       # as the log has them
    Vec[uint8_t] partitions


cdef inline bint _same(const Bytes* left, const Bytes* right) noexcept nogil:
    return left.length == right.length and (left.length == 0 or memcmp(left.data, right.data, left.length) == 0)


cdef inline bint _is_word(const Bytes* text, const char* word) noexcept nogil:
    return text.length == strlen(word) and memcmp(text.data, word, text.length) == 0


# --- what is asked ----------------------------------------------------------------------------------------------------
cdef void _release(Asked* asked) noexcept nogil:
    asked.names.release()
    asked.owned.release()
    asked.subscription.release()
    asked.partitions.release()


cdef inline bint _is_before(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef int order = memcmp(left.data, right.data, min(left.length, right.length))
    return order < 0 or order == 0 and left.length < right.length


cdef void _sift(Bytes* names, size_t at, size_t count) noexcept nogil:
    cdef size_t child
    cdef Bytes moved
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and _is_before(&names[child], &names[child + 1]):
            child += 1
        if not _is_before(&names[at], &names[child]):
            return
        moved = names[at]
        names[at] = names[child]
        names[child] = moved
        at = child


# In ascending order, and without doubles.
cdef void _sort_names(Vec[Bytes]* names) noexcept nogil:
    cdef size_t count = names.size
    cdef size_t kept = 0
    cdef size_t i
    cdef Bytes last
    for i in range(count // 2):
        _sift(names.data, count // 2 - 1 - i, count)
    while count > 1:
        count -= 1
        last = names.data[count]
        names.data[count] = names.data[0]
        names.data[0] = last
        _sift(names.data, 0, count)
    for i in range(names.size):
        if kept == 0 or not _same(&names.data[kept - 1], &names.data[i]):
            names.data[kept] = names.data[i]
            kept += 1
    names.resize(kept)


cdef inline void _put_big(uint8_t* at, uint32_t value, int width) noexcept nogil:
    cdef int i
    for i in range(width):
        at[i] = <uint8_t>(value >> (8 * (width - 1 - i)))


cdef bint _write_subscription(Asked* asked) noexcept nogil:
    cdef uint8_t[6] head
    cdef Bytes name
    cdef size_t i
    _put_big(head, 0, 2)
    _put_big(head + 2, <uint32_t>asked.names.size, 4)
    if not asked.subscription.append(head, 6):
        return False
    for i in range(asked.names.size):
        name = asked.names.data[i]
        _put_big(head, name.length, 2)
        if not asked.subscription.append(head, 2) or not asked.subscription.append(name.data, name.length):
            return False
    asked.word.subscription = bytes_of(asked.subscription.data, asked.subscription.size)
    return True


cdef bint _read_names(KafkaReader* reader, Asked* asked) noexcept nogil:
    cdef int32_t count = get_array(reader)
    cdef Bytes name
    asked.has_names = count >= 0
    for _ in range(count):
        name = get_text(reader)
        if name.length and not asked.names.push(name):
            return False
    if not asked.has_names:
        return True
    asked.word.has |= CONSUMER_HAS_SUBSCRIPTION
    _sort_names(&asked.names)
    return _write_subscription(asked)


cdef bint _read_owned(KafkaReader* reader, Asked* asked) noexcept nogil:
    cdef int32_t topics = get_array(reader)
    cdef int32_t count
    cdef const uint8_t* topic
    cdef Share share
    if topics < 0:
        return True
    asked.word.has |= CONSUMER_HAS_OWNED
    for _ in range(topics):
        topic = get_uuid(reader)
        count = get_array(reader)
        if topic != NULL:
            memcpy(share.topic, topic, KAFKA_UUID_BYTES)
        for _ in range(count):
            share.partition = <uint32_t>get_int32(reader)
            if topic == NULL or not asked.owned.push(share):
                return False
        get_tags(reader)
    shares_sort(&asked.owned)
    if not asked.partitions.resize(shares_length(asked.owned.data, asked.owned.size)):
        return False
    shares_write(asked.owned.data, asked.owned.size, asked.partitions.data)
    asked.word.owned = bytes_of(asked.partitions.data, asked.partitions.size)
    return True


# False: no memory, or the request cannot be read. The caller releases it.
cdef bint _read(KafkaDoor* door, const KafkaRequest* request, Asked* asked) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef ConsumerRequest* word = &asked.word
    cdef Bytes regex
    cdef int32_t rebalance_ms
    memset(<void*>asked, 0, sizeof(Asked))
    asked.group = get_text(&reader)
    word.member = get_text(&reader)
    word.epoch = get_int32(&reader)
    word.instance = get_text(&reader)
    get_text(&reader)               # rack
    rebalance_ms = get_int32(&reader)
    if rebalance_ms >= 0:
        word.has |= CONSUMER_HAS_REBALANCE
        word.rebalance_ms = <uint32_t>rebalance_ms
    if not _read_names(&reader, asked):
        return False
    if request.version >= VERSION_OF_OWN_IDS:
        regex = get_text(&reader)
        asked.has_regex = regex.length != 0
    word.assignor = get_text(&reader)
    if word.assignor.data != NULL:
        word.has |= CONSUMER_HAS_ASSIGNOR
    if not _read_owned(&reader, asked):
        return False
    get_tags(&reader)
    word.client = bytes_of(request.client.data, min(request.client.length, <uint32_t>GROUP_NAME_BYTES_MAX))
    word.root = topic_root()
    word.members_max = door.limits.members_max
    if word.epoch == CONSUMER_JOINS or word.has & CONSUMER_HAS_SUBSCRIPTION and word.has & CONSUMER_HAS_OWNED and (
            word.has & CONSUMER_HAS_REBALANCE):
        word.has |= CONSUMER_WANTS_ASSIGNMENT
    return get_end(&reader)


# GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid, and the limits of the log.
cdef int16_t _check(KafkaDoor* door, const KafkaRequest* request, const Asked* asked) noexcept nogil:
    cdef const ConsumerRequest* word = &asked.word
    if word.epoch < CONSUMER_PAUSES or word.epoch == CONSUMER_PAUSES and word.instance.length == 0:
        return KAFKA_INVALID_REQUEST
    if word.member.length == 0 and (request.version >= VERSION_OF_OWN_IDS or word.epoch != CONSUMER_JOINS):
        return KAFKA_INVALID_REQUEST
    if word.member.length > GROUP_ID_BYTES_MAX or word.instance.length > GROUP_NAME_BYTES_MAX or (
            word.member.length and memchr(word.member.data, 0, word.member.length) != NULL):
        return KAFKA_INVALID_REQUEST
    if word.epoch == CONSUMER_JOINS and (not word.has & CONSUMER_HAS_REBALANCE or not word.has & CONSUMER_HAS_OWNED
                                         or asked.owned.size or not asked.has_names and not asked.has_regex):
        return KAFKA_INVALID_REQUEST
    if asked.has_regex:
        return KAFKA_INVALID_REGULAR_EXPRESSION
    if word.assignor.length and not _is_word(&word.assignor, UNIFORM) and not _is_word(&word.assignor, RANGE):
        return KAFKA_UNSUPPORTED_ASSIGNOR
    if (asked.names.size > CONSUMER_TOPICS_MAX or asked.subscription.size + 16 > GROUP_METADATA_BYTES_MAX
            or asked.owned.size > CONSUMER_PARTITIONS_MAX):
        return KAFKA_INVALID_REQUEST
    return KAFKA_OK


cdef int16_t _check_names(KafkaDoor* door, KafkaRequest* request, const Asked* asked) noexcept nogil:
    cdef size_t i
    for i in range(asked.names.size):
        if asked.names.data[i].length > TOPIC_NAME_BYTES_MAX:
            return KAFKA_INVALID_REQUEST
        if not topic_allows(door, request, RIGHT_READ, &asked.names.data[i]):
            return KAFKA_TOPIC_AUTHORIZATION_FAILED
    return KAFKA_OK


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void _refuse(KafkaDoor* door, KafkaRequest* request, int16_t code) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    put_throttle(&writer, 0)
    put_int16(&writer, code)
    put_null_text(&writer)
    put_null_text(&writer)
    put_int32(&writer, 0)
    put_int32(&writer, 0)
    put_int8(&writer, -1)
    put_tags(&writer)
    reply_end(door, request, &writer, code)


cdef uint32_t _topics(const Bytes* list) noexcept nogil:
    cdef PartitionsOf found
    cdef uint32_t place = 0
    cdef uint32_t count = 0
    while partitions_next(list, &place, &found):
        count += 1
    return count


cdef void _put_partitions(KafkaWriter* writer, const PartitionsOf* found) noexcept nogil:
    cdef uint32_t i
    put_array(writer, found.count)
    for i in range(found.count):
        put_int32(writer, <int32_t>partition_at(found, i))
    put_tags(writer)


# assigned NULL: it is not told.
cdef void _answer(KafkaDoor* door, KafkaRequest* request, const Bytes* id, int32_t epoch,
                  const Bytes* assigned) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef PartitionsOf found
    cdef uint32_t place = 0
    put_throttle(&writer, 0)
    put_int16(&writer, KAFKA_OK)
    put_null_text(&writer)
    put_text(&writer, id)
    put_int32(&writer, epoch)
    put_int32(&writer, <int32_t>door.limits.consumer_beat_ms)
    put_int8(&writer, 1 if assigned != NULL else -1)
    if assigned != NULL:
        put_array(&writer, _topics(assigned))
        while partitions_next(assigned, &place, &found):
            put_uuid(&writer, found.topic)
            _put_partitions(&writer, &found)
        put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, KAFKA_OK)


# --- a heartbeat ------------------------------------------------------------------------------------------------------
cdef uint64_t _session_ms(const KafkaDoor* door) noexcept nogil:
    return <uint64_t>door.limits.consumer_session_ms + KEEP_SLACK_MS


cdef int16_t _submit(KafkaDoor* door, KafkaRequest* request, const Bytes* key,
                     const ConsumerRequest* word) noexcept nogil:
    cdef status_t status
    door.request.clear()
    status = consumers_encode(word, &door.request)
    if status == OK:
        command_clear(&door.desk.command)
        door.desk.command.kind = COMMAND_GROUPS
        door.desk.command.name = key[0]
        door.desk.command.ttl_ms = _session_ms(door) if word.epoch == CONSUMER_JOINS else <uint64_t>0
        door.desk.command.data = bytes_of(door.request.data, door.request.size)
        request.step = STEP_ASKED
        if request_command(door, request, 0, word.epoch != CONSUMER_JOINS, &status):
            return KAFKA_OK
    return error_of_status(status)


cdef int16_t _begin(KafkaDoor* door, KafkaRequest* request, const Asked* asked) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key = group_key_of(&asked.group, bytes)
    cdef int16_t code = access_change(door, request, &key)
    if code == KAFKA_OK and door.desk.status.machine.feature_level < LEVEL_OF_CONSUMER_GROUPS:
        code = KAFKA_COORDINATOR_NOT_AVAILABLE      # the level rises when the last node is of this version
    if code == KAFKA_OK:
        code = _check(door, request, asked)
    if code == KAFKA_OK:
        code = _check_names(door, request, asked)
    if code == KAFKA_OK and asked.word.epoch == CONSUMER_JOINS and not quotas_have_room(door, request.connection):
        code = KAFKA_GROUP_MAX_SIZE_REACHED
    if code != KAFKA_OK:
        return code
    if asked.word.epoch <= CONSUMER_JOINS:
        return _submit(door, request, &key, &asked.word)
    request.round = round_ask(&door.desk)
    request.step = STEP_LOOKS
    return KAFKA_OK


cdef void consumer_beat_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef Asked asked
    cdef int16_t code
    door.counters.heartbeats += 1
    if not _read(door, request, &asked):
        _release(&asked)
        reply_fail(door, request)
        return
    if asked.word.epoch == CONSUMER_JOINS:
        request.operation = AUDIT_GROUP_JOIN
    elif asked.word.epoch < 0:
        request.operation = AUDIT_GROUP_LEAVE
    code = _begin(door, request, &asked)
    _release(&asked)
    if code != KAFKA_OK:
        _refuse(door, request, code)


# The answer of the log: [code, id, epoch, whether the assignment is told, the assignment].
cdef void consumer_beat_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Reader reader
    cdef Bytes id, assigned
    cdef int64_t epoch
    cdef bint is_told
    cdef int16_t code = task_error(task)
    if code != KAFKA_OK:
        _refuse(door, request, code)
        return
    if not task_result(task, &reader):
        reply_fail(door, request)
        return
    read_array(&reader, ANSWER_ELEMENTS)
    code = <int16_t>read_int(&reader)
    id.data = read_bin(&reader, GROUP_ID_BYTES_MAX, &id.length)
    epoch = read_int(&reader)
    is_told = read_bool(&reader)
    assigned.data = read_bin(&reader, ANYTHING, &assigned.length)
    if reader.status != OK:
        reply_fail(door, request)
        return
    if code != KAFKA_OK or epoch == CONSUMER_LEAVES:
        quotas_left(door, &id)
    elif epoch >= CONSUMER_JOINS and request.connection != NULL:
        quotas_joined(door, request.connection, &id, _session_ms(door))
    if code != KAFKA_OK:
        _refuse(door, request, code)
    else:
        _answer(door, request, &id, <int32_t>epoch, &assigned if is_told else NULL)


# --- does it change anything? -----------------------------------------------------------------------------------------
cdef uint64_t _seen_now(KafkaDoor* door, const Bytes* subscription) noexcept nogil:
    cdef TopicRecord topic
    cdef Bytes name
    cdef uint32_t place = 0
    cdef uint64_t seen = 0
    while subscription_next(subscription, &place, &name):
        if topic_find(door, &name, &topic):
            seen = consumer_seen(seen, topic.meta.id, topic.meta.partitions)
    return seen


cdef bint _says_more(KafkaDoor* door, const Asked* asked, const MemberRecord* member, uint64_t seen) noexcept nogil:
    cdef Bytes assignor, subscription
    consumer_words(&member.protocols, &assignor, &subscription)
    if asked.word.has & CONSUMER_HAS_SUBSCRIPTION and not _same(&subscription, &asked.word.subscription):
        return True
    if asked.word.has & CONSUMER_HAS_ASSIGNOR and not _same(&assignor, &asked.word.assignor):
        return True
    if asked.word.has & CONSUMER_HAS_REBALANCE and asked.word.rebalance_ms != member.meta.rebalance_ms:
        return True
    return _seen_now(door, &subscription) != seen


# Whether it says that it gave all back, or its time for that is over.
cdef bint _has_revoked(KafkaDoor* door, const Asked* asked, const MemberRecord* member,
                       const ConsumerRecord* me) noexcept nogil:
    cdef Vec[Share] revoking
    cdef size_t i, place
    cdef bint owns = not asked.word.has & CONSUMER_HAS_OWNED
    memset(<void*>&revoking, 0, sizeof(revoking))
    owns = not shares_read(&me.revoking, &revoking) or owns
    for i in range(asked.owned.size):
        owns = owns or shares_find(&revoking, &asked.owned.data[i], &place)
    revoking.release()
    return not owns or door.desk.status.machine.lease_ms >= me.meta.since_ms + member.meta.rebalance_ms


# Whether a partition that it waits for is free. True, too, if there is no memory to find out.
cdef bint _can_take(KafkaDoor* door, const Bytes* key, const Bytes* id, const ConsumerRecord* me) noexcept nogil:
    cdef Vec[Share] target, assigned, both, awaited
    cdef bint can
    memset(<void*>&target, 0, sizeof(target))
    memset(<void*>&assigned, 0, sizeof(assigned))
    memset(<void*>&both, 0, sizeof(both))
    memset(<void*>&awaited, 0, sizeof(awaited))
    can = (not shares_read(&me.target, &target) or not shares_read(&me.assigned, &assigned)
           or not shares_split(&target, &assigned, &both, &awaited) or _is_one_free(door, key, id, &awaited))
    target.release()
    assigned.release()
    both.release()
    awaited.release()
    return can


cdef bint _is_one_free(KafkaDoor* door, const Bytes* key, const Bytes* id, const Vec[Share]* awaited) noexcept nogil:
    cdef Vec[Share] held
    cdef ConsumerRecord other
    cdef MemberRecord member
    cdef GroupWalk walk
    cdef Bytes name
    cdef size_t i, place
    cdef size_t free = awaited.size
    cdef bint has_memory = True
    memset(<void*>&held, 0, sizeof(held))
    group_walk(door, key, &walk)
    while has_memory and group_next(&walk, &name, &member):
        if _same(&name, id) or not consumer_read(&member.assignment, &other):
            continue
        held.clear()
        has_memory = shares_read(&other.assigned, &held) and shares_read(&other.revoking, &held)
        for i in range(held.size):
            if shares_find(awaited, &held.data[i], &place):
                free -= 1           # no partition stands in the lists of two members
    held.release()
    return not has_memory or free != 0


cdef bint _changes(KafkaDoor* door, const Bytes* key, const Asked* asked, const GroupRecord* group,
                   const MemberRecord* member, const ConsumerRecord* me) noexcept nogil:
    if group_target(group) != group.meta.generation or asked.word.epoch != me.meta.epoch:
        return True
    if _says_more(door, asked, member, me.meta.seen):
        return True
    if me.meta.state == CONSUMER_UNREVOKED:
        return _has_revoked(door, asked, member, me)
    if me.meta.epoch != <int32_t>group_target(group):
        return True
    return me.meta.state == CONSUMER_UNRELEASED and _can_take(door, key, &asked.word.member, me)


# KAFKA_OK: it is answered, or its command is on its way.
cdef int16_t _look(KafkaDoor* door, KafkaRequest* request, const Asked* asked) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key = group_key_of(&asked.group, bytes)
    cdef const Entry* entry
    cdef GroupRecord group
    cdef MemberRecord member
    cdef ConsumerRecord me
    if not group_find(door, &key, &group) or not group_is_consumer(&group):
        return KAFKA_GROUP_ID_NOT_FOUND
    entry = group_member(door, &key, &asked.word.member, &member)
    if entry == NULL or asked.word.instance.length and not _same(&asked.word.instance, &member.instance):
        return group_lost(door, &key, &asked.word.instance)
    if not consumer_read(&member.assignment, &me):
        return KAFKA_GROUP_ID_NOT_FOUND
    if _changes(door, &key, asked, &group, &member, &me):
        return _submit(door, request, &key, &asked.word)
    keep_lease(door, entry.lease)
    quotas_heard(door, &asked.word.member)
    _answer(door, request, &asked.word.member, me.meta.epoch,
            &me.assigned if asked.word.has & CONSUMER_WANTS_ASSIGNMENT else NULL)
    return KAFKA_OK


cdef void consumer_beat_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef Asked asked
    cdef int16_t code
    if request.step != STEP_LOOKS or not request_pin(door, request):
        return
    if not _read(door, request, &asked):
        _release(&asked)
        reply_fail(door, request)
        return
    code = _look(door, request, &asked)
    _release(&asked)
    if code != KAFKA_OK:
        _refuse(door, request, code)


# --- ConsumerGroupDescribe --------------------------------------------------------------------------------------------
# Names of groups, in door.pairs.
cdef bint _read_describe(KafkaDoor* door, const KafkaRequest* request) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef int32_t count = get_array(&reader)
    door.pairs.clear()
    for _ in range(count):
        if not door.pairs.push(get_text(&reader)):
            return False
    get_bool(&reader)
    get_tags(&reader)
    return get_end(&reader)


cdef void consumer_describe_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    if _read_describe(door, request):
        request.round = round_ask(&door.desk)
    else:
        reply_fail(door, request)


# The name of a topic: mostly one that the member subscribes to.
cdef Bytes _name_of(KafkaDoor* door, const Bytes* subscription, const uint8_t* id) noexcept nogil:
    cdef TopicRecord topic
    cdef Bytes name
    cdef uint32_t place = 0
    while subscription_next(subscription, &place, &name):
        if topic_find(door, &name, &topic) and memcmp(topic.meta.id, id, KAFKA_UUID_BYTES) == 0:
            return name
    return name if topic_find_id(door, id, &name, &topic) else bytes_of(NULL, 0)


cdef void _put_assignment(KafkaDoor* door, KafkaWriter* writer, const Bytes* subscription,
                          const Bytes* list) noexcept nogil:
    cdef PartitionsOf found
    cdef Bytes name
    cdef uint32_t place = 0
    put_array(writer, _topics(list))
    while partitions_next(list, &place, &found):
        name = _name_of(door, subscription, found.topic)
        put_uuid(writer, found.topic)
        put_text(writer, &name)
        _put_partitions(writer, &found)
    put_tags(writer)


cdef void _put_member(KafkaDoor* door, KafkaWriter* writer, const Bytes* id, MemberRecord* member) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes assignor, subscription, name
    cdef ConsumerRecord me
    cdef uint32_t place = 0
    cdef uint32_t count = 0
    if not consumer_read(&member.assignment, &me):
        memset(&me, 0, sizeof(ConsumerRecord))
    consumer_words(&member.protocols, &assignor, &subscription)
    if member.instance.length == 0:
        member.instance.data = NULL
    put_text(writer, id)
    put_text_null(writer, &member.instance)
    put_null_text(writer)               # of its rack, which no group keeps
    put_int32(writer, me.meta.epoch)
    put_text(writer, &member.client)
    put_text(writer, &nothing)          # of the client's host, the same
    while subscription_next(&subscription, &place, &name):
        count += 1
    put_array(writer, count)
    place = 0
    while subscription_next(&subscription, &place, &name):
        put_text(writer, &name)
    put_null_text(writer)
    _put_assignment(door, writer, &subscription, &me.assigned)
    _put_assignment(door, writer, &subscription, &me.target)
    if writer.version >= VERSION_OF_TYPES:
        put_int8(writer, TYPE_CONSUMER)
    put_tags(writer)


cdef void _put_group(KafkaDoor* door, KafkaRequest* request, KafkaWriter* writer, const Bytes* name) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Bytes key = group_key_of(name, bytes)
    cdef GroupRecord group
    cdef MemberRecord member
    cdef GroupWalk walk
    cdef Bytes id
    cdef uint32_t count = 0
    cdef int16_t code = KAFKA_OK
    memset(&group, 0, sizeof(group))
    if key.length == 0:
        code = KAFKA_INVALID_GROUP_ID
    elif not access_group(door, request, &key, False):
        code = KAFKA_GROUP_AUTHORIZATION_FAILED
    elif not group_find(door, &key, &group) or not group_is_consumer(&group):
        memset(&group, 0, sizeof(group))
        code = KAFKA_GROUP_ID_NOT_FOUND
    put_int16(writer, code)
    put_null_text(writer)
    put_text(writer, name)
    if code == KAFKA_OK:
        put_word(writer, consumer_group_word(consumer_group_state(door, &key, &group)))
    else:
        put_word(writer, DEAD if code == KAFKA_GROUP_ID_NOT_FOUND else NO_WORD)
    put_int32(writer, <int32_t>group.meta.generation)
    put_int32(writer, <int32_t>group_target(&group))
    put_text(writer, &group.protocol)
    if code == KAFKA_OK:
        group_walk(door, &key, &walk)
        while group_next(&walk, &id, &member):
            count += 1
    put_array(writer, count)
    if count:
        group_walk(door, &key, &walk)
        while group_next(&walk, &id, &member):
            _put_member(door, writer, &id, &member)
    put_int32(writer, NOT_ASKED)
    put_tags(writer)


cdef void consumer_describe_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef KafkaWriter writer
    cdef size_t i
    if not request_pin(door, request):
        return
    if not _read_describe(door, request):
        reply_fail(door, request)
        return
    writer = reply_begin(door, request)
    put_throttle(&writer, 0)
    put_array(&writer, <uint32_t>door.pairs.size)
    for i in range(door.pairs.size):
        audit_names_group(door, request, &door.pairs.data[i])
        _put_group(door, request, &writer, &door.pairs.data[i])
    put_tags(&writer)
    reply_end(door, request, &writer, KAFKA_OK)
