"""Members of worker groups at the Kafka door: bodies.

A request that waits is answered from the newest state, not from the first one that ends its wait: a member that is gone
by then is told 25, and one whose group prepares again is told so by its next request.

Sources: Apache Kafka 3.9 GroupCoordinator.scala and KafkaApis.scala (which codes), AbstractCoordinator.java (what
members rely on).
"""

from libc.stdint cimport int16_t, int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memset

from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.access cimport access_change, access_group
from raftmeta.doors.kafka.codec cimport (KafkaReader, KafkaWriter, get_array, get_bytes, get_end, get_int32, get_tags,
                                         get_text, put_array, put_bool, put_bytes, put_int16, put_int32, put_tags,
                                         put_text, put_text_null)
from raftmeta.doors.kafka.group_state cimport (GroupWalk, group_find, group_key_of, group_lost, group_member,
                                               group_next, group_walk, member_said)
from raftmeta.doors.kafka.keep cimport KEEP_SLACK_MS, keep_lease
from raftmeta.doors.kafka.protocol cimport (KAFKA_GROUP_AUTHORIZATION_FAILED, KAFKA_GROUP_MAX_SIZE_REACHED,
                                            KAFKA_ILLEGAL_GENERATION, KAFKA_INCONSISTENT_GROUP_PROTOCOL,
                                            KAFKA_INVALID_GROUP_ID, KAFKA_INVALID_REQUEST,
                                            KAFKA_INVALID_SESSION_TIMEOUT, KAFKA_MEMBER_ID_REQUIRED, KAFKA_OK,
                                            KAFKA_REBALANCE_IN_PROGRESS, KAFKA_UNKNOWN_MEMBER_ID)
from raftmeta.doors.kafka.quotas cimport quotas_have_room, quotas_heard, quotas_joined, quotas_left
from raftmeta.doors.kafka.reply cimport (error_of_status, put_throttle, reply_begin, reply_end, reply_fail,
                                         request_command, request_pin, request_reader, task_error, task_result)
from raftmeta.machine.entry cimport Entry
from raftmeta.machine.group_records cimport (GROUP_COMPLETING, GROUP_EMPTY, GROUP_PREPARING, GROUP_STABLE, GroupRecord,
                                             MemberRecord, group_is_consumer)
from raftmeta.status cimport OK, status_t
from raftmeta.wire.commands cimport COMMAND_GROUPS, KEY_BYTES_MAX, Bytes, command_clear
from raftmeta.wire.groups cimport (GROUP_ID_BYTES_MAX, GROUP_JOIN, GROUP_LEAVE, GROUP_MEMBERS_MAX,
                                   GROUP_NAME_BYTES_MAX, GROUP_PROTOCOLS_MAX, GROUP_SYNC, GROUP_TIME_MS_MAX,
                                   GroupRequest, groups_encode)
from raftmeta.wire.msgpack cimport Reader, read_array_max, read_bin, read_bool, read_int, read_uint

cdef enum:
    VERSION_OF_TWO_STEPS = 4        # of JoinGroup: KIP-394
    VERSION_OF_MANY = 3             # of LeaveGroup: it names members
    # machine/groups, the first element of an answer.
    ANSWER_WAITS = 1
    ANSWER_DONE = 2
    ANSWER_ID_REQUIRED = 3
    ANSWER_JOIN_ELEMENTS = 6
    ANYTHING = 0x7FFFFFFF
    # Steps of a request.
    STEP_ASKED = 0                  # its command is on its way
    STEP_LOOKS = 1                  # it waits for the state
    FLAG_SKIPS = 1                  # of a join: its leader is to assign nothing


# --- all of them ------------------------------------------------------------------------------------------------------
cdef inline bint _same(const Bytes* left, const Bytes* right) noexcept nogil:
    return left.length == right.length and (left.length == 0 or memcmp(left.data, right.data, left.length) == 0)


cdef inline Bytes _nothing() noexcept nogil:
    return bytes_of(NULL, 0)


# Put `data` of the command together from the request and door.pairs, and submit it. False: *code says why not.
cdef bint _command(KafkaDoor* door, KafkaRequest* request, const Bytes* key, const GroupRequest* asked, uint64_t ttl_ms,
                   bint is_urgent, int16_t* code) noexcept nogil:
    cdef status_t status
    door.request.clear()
    status = groups_encode(asked, door.pairs.data, <uint32_t>(door.pairs.size // 2), &door.request)
    if status == OK:
        command_clear(&door.desk.command)
        door.desk.command.kind = COMMAND_GROUPS
        door.desk.command.name = key[0]
        door.desk.command.ttl_ms = ttl_ms
        door.desk.command.data = bytes_of(door.request.data, door.request.size)
        if request_command(door, request, 0, is_urgent, &status):
            return True
    code[0] = error_of_status(status)
    return False


# Which group, member and generation a request names, and what the state says of them.
cdef struct Asked:
    Bytes group
    Bytes member
    Bytes instance
    int32_t generation


# The checks of docs/groups.md "Checks", from the member on. KAFKA_OK: *entry is the member, and *group its group.
cdef int16_t _check(KafkaDoor* door, const Bytes* key, const Asked* asked, GroupRecord* group, MemberRecord* member,
                    const Entry** entry) noexcept nogil:
    if not group_find(door, key, group) or group_is_consumer(group):
        return KAFKA_UNKNOWN_MEMBER_ID
    entry[0] = group_member(door, key, &asked.member, member)
    if entry[0] == NULL or (asked.instance.length and not _same(&asked.instance, &member.instance)):
        return group_lost(door, key, &asked.instance)
    keep_lease(door, entry[0].lease)
    quotas_heard(door, &asked.member)
    return KAFKA_OK


# --- JoinGroup --------------------------------------------------------------------------------------------------------
cdef struct JoinAsked:
    Bytes group
    Bytes member
    Bytes instance
    Bytes type
    int32_t session_ms
    int32_t rebalance_ms
    int32_t protocols               # -1: null


# Names and metadata go into door.pairs. False: no memory, or the request cannot be read.
cdef bint _read_join(KafkaDoor* door, const KafkaRequest* request, JoinAsked* asked) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    memset(asked, 0, sizeof(JoinAsked))
    asked.group = get_text(&reader)
    asked.session_ms = get_int32(&reader)
    asked.rebalance_ms = get_int32(&reader) if request.version >= 1 else asked.session_ms
    asked.member = get_text(&reader)
    if request.version >= 5:
        asked.instance = get_text(&reader)
    asked.type = get_text(&reader)
    asked.protocols = get_array(&reader)
    door.pairs.clear()
    for _ in range(asked.protocols):
        if not door.pairs.push(get_text(&reader)) or not door.pairs.push(get_bytes(&reader)):
            return False
        get_tags(&reader)
    if request.version >= 8:
        get_text(&reader)
    get_tags(&reader)
    return get_end(&reader)


# An answer without a generation. id: that the member may join with.
cdef void _refuse_join(KafkaDoor* door, KafkaRequest* request, int16_t code, const Bytes* id) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef Bytes nothing = _nothing()
    put_throttle(&writer, 2)
    put_int16(&writer, code)
    put_int32(&writer, -1)
    if request.version >= 7:
        put_text_null(&writer, &nothing)
        put_text_null(&writer, &nothing)
    else:
        put_text(&writer, &nothing)
    put_text(&writer, &nothing)
    if request.version >= 9:
        put_bool(&writer, False)
    put_text(&writer, id)
    put_array(&writer, 0)
    put_tags(&writer)
    reply_end(door, request, &writer, code)


cdef int16_t _check_join(KafkaDoor* door, KafkaRequest* request, const JoinAsked* asked,
                         const Bytes* key) noexcept nogil:
    cdef int16_t code = access_change(door, request, key)
    if code != KAFKA_OK:
        return code
    if not <int32_t>door.limits.session_min_ms <= asked.session_ms <= <int32_t>door.limits.session_max_ms:
        return KAFKA_INVALID_SESSION_TIMEOUT
    if asked.member.length > GROUP_ID_BYTES_MAX:
        return KAFKA_UNKNOWN_MEMBER_ID
    if asked.protocols > GROUP_PROTOCOLS_MAX or asked.type.length == 0:
        return KAFKA_INCONSISTENT_GROUP_PROTOCOL
    if asked.instance.length > GROUP_NAME_BYTES_MAX or asked.rebalance_ms < 0:
        return KAFKA_INVALID_REQUEST
    if asked.member.length == 0 and not quotas_have_room(door, request.connection):
        return KAFKA_GROUP_MAX_SIZE_REACHED
    return KAFKA_OK


cdef void join_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef JoinAsked asked
    cdef GroupRequest join
    cdef Bytes key
    cdef int16_t code
    if not _read_join(door, request, &asked):
        reply_fail(door, request)
        return
    door.counters.joins += 1
    key = group_key_of(&asked.group, bytes)
    code = _check_join(door, request, &asked, &key)
    memset(&join, 0, sizeof(GroupRequest))
    join.verb = GROUP_JOIN
    join.member = asked.member
    join.instance = asked.instance
    join.client = bytes_of(request.client.data, min(request.client.length, <uint32_t>GROUP_NAME_BYTES_MAX))
    join.type = asked.type
    join.rebalance_ms = <uint32_t>asked.rebalance_ms
    join.initial_ms = door.limits.initial_delay_ms
    join.members_max = door.limits.members_max
    join.must_know = request.version >= VERSION_OF_TWO_STEPS
    if code != KAFKA_OK or not _command(door, request, &key, &join, <uint64_t>asked.session_ms + KEEP_SLACK_MS, False,
                                        &code):
        _refuse_join(door, request, code, &asked.member)


# The answer of the log: [what follows, id, generation, leader, protocol, skips].
cdef void join_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef JoinAsked asked
    cdef Reader reader
    cdef Bytes id
    cdef uint64_t what
    cdef uint32_t length
    cdef int16_t code = task_error(task)
    if not _read_join(door, request, &asked):
        reply_fail(door, request)
        return
    if code != KAFKA_OK:
        _refuse_join(door, request, code, &asked.member)
        return
    if not task_result(task, &reader):
        reply_fail(door, request)
        return
    read_array_max(&reader, ANSWER_JOIN_ELEMENTS)
    what = read_uint(&reader, ANSWER_ID_REQUIRED)
    id.data = read_bin(&reader, GROUP_ID_BYTES_MAX, &id.length)
    request.number = read_uint(&reader, GROUP_TIME_MS_MAX)
    read_bin(&reader, ANYTHING, &length)
    read_bin(&reader, ANYTHING, &length)
    request.flags = FLAG_SKIPS if read_bool(&reader) else 0
    request.texts.clear()
    if reader.status != OK or not request.texts.append(id.data, id.length):
        reply_fail(door, request)
        return
    quotas_joined(door, request.connection, &id, <uint64_t>asked.session_ms + KEEP_SLACK_MS)
    if what == ANSWER_ID_REQUIRED:
        _refuse_join(door, request, KAFKA_MEMBER_ID_REQUIRED, &id)
        return
    request.revision = task.base.ticket.revision
    request.step = STEP_LOOKS


cdef void _answer_join(KafkaDoor* door, KafkaRequest* request, const Bytes* key, const Bytes* id,
                       const GroupRecord* group) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef bint is_leader = _same(id, &group.leader)
    cdef MemberRecord member
    cdef GroupWalk walk
    cdef Bytes other, said
    cdef uint32_t count = 0
    put_throttle(&writer, 2)
    put_int16(&writer, KAFKA_OK)
    put_int32(&writer, <int32_t>group.meta.generation)
    if request.version >= 7:
        put_text_null(&writer, &group.type)
    put_text(&writer, &group.protocol)
    put_text(&writer, &group.leader)
    if request.version >= 9:
        put_bool(&writer, request.flags & FLAG_SKIPS)
    put_text(&writer, id)
    if is_leader:
        group_walk(door, key, &walk)
        while group_next(&walk, &other, &member):
            count += 1
    put_array(&writer, count)
    if is_leader:
        group_walk(door, key, &walk)
        while group_next(&walk, &other, &member):
            said = member_said(&member, &group.protocol)
            put_text(&writer, &other)
            if request.version >= 5:
                if member.instance.length == 0:
                    member.instance.data = NULL
                put_text_null(&writer, &member.instance)
            put_bytes(&writer, &said)
            put_tags(&writer)
    put_tags(&writer)
    reply_end(door, request, &writer, KAFKA_OK)


cdef void join_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef KafkaReader reader = request_reader(request)
    cdef const Entry* entry = NULL
    cdef GroupRecord group
    cdef MemberRecord member
    cdef JoinAsked join
    cdef Asked asked
    cdef Bytes key
    cdef int16_t code
    if request.step != STEP_LOOKS or not request_pin(door, request):
        return
    memset(&asked, 0, sizeof(Asked))
    asked.group = get_text(&reader)
    asked.member = bytes_of(request.texts.data, request.texts.size)
    key = group_key_of(&asked.group, bytes)
    code = _check(door, &key, &asked, &group, &member, &entry)
    if code == KAFKA_OK and group.meta.generation < request.number:
        door.counters.waiting += 1
        return
    if code != KAFKA_OK:
        if not _read_join(door, request, &join):
            reply_fail(door, request)
            return
        code = group_lost(door, &key, &join.instance)
        _refuse_join(door, request, code, &asked.member)
        return
    _answer_join(door, request, &key, &asked.member, &group)


# --- SyncGroup --------------------------------------------------------------------------------------------------------
cdef struct SyncAsked:
    Asked base
    Bytes type
    Bytes protocol
    int32_t assignments


# Ids and assignments go into door.pairs.
cdef bint _read_sync(KafkaDoor* door, const KafkaRequest* request, SyncAsked* asked) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    memset(asked, 0, sizeof(SyncAsked))
    asked.base.group = get_text(&reader)
    asked.base.generation = get_int32(&reader)
    asked.base.member = get_text(&reader)
    if request.version >= 3:
        asked.base.instance = get_text(&reader)
    if request.version >= 5:
        asked.type = get_text(&reader)
        asked.protocol = get_text(&reader)
    asked.assignments = get_array(&reader)
    door.pairs.clear()
    for _ in range(asked.assignments):
        if not door.pairs.push(get_text(&reader)) or not door.pairs.push(get_bytes(&reader)):
            return False
        get_tags(&reader)
    get_tags(&reader)
    return get_end(&reader)


cdef bint _is_before(const Bytes* left, const Bytes* right) noexcept nogil:
    cdef int order = memcmp(left.data, right.data, min(left.length, right.length))
    return order < 0 or order == 0 and left.length < right.length


# Heap order of the pairs from `at` on, of the first `count` pairs.
cdef void _sift(Bytes* pairs, size_t at, size_t count) noexcept nogil:
    cdef size_t child
    cdef Bytes name, value
    while 2 * at + 1 < count:
        child = 2 * at + 1
        if child + 1 < count and _is_before(&pairs[2 * child], &pairs[2 * child + 2]):
            child += 1
        if not _is_before(&pairs[2 * at], &pairs[2 * child]):
            return
        name = pairs[2 * at]
        value = pairs[2 * at + 1]
        pairs[2 * at] = pairs[2 * child]
        pairs[2 * at + 1] = pairs[2 * child + 1]
        pairs[2 * child] = name
        pairs[2 * child + 1] = value
        at = child


# Members ascend in a command. If the leader names a member twice, one of both assignments is taken.
cdef void _order_pairs(KafkaDoor* door) noexcept nogil:
    cdef Bytes* pairs = door.pairs.data
    cdef size_t count = door.pairs.size // 2
    cdef size_t left = count
    cdef size_t kept = 0
    cdef size_t i
    cdef Bytes name, value
    for i in range(count // 2):
        _sift(pairs, count // 2 - 1 - i, count)
    while left > 1:
        left -= 1
        name = pairs[0]
        value = pairs[1]
        pairs[0] = pairs[2 * left]
        pairs[1] = pairs[2 * left + 1]
        pairs[2 * left] = name
        pairs[2 * left + 1] = value
        _sift(pairs, 0, left)
    for i in range(count):
        if pairs[2 * i].length == 0 or pairs[2 * i].length > GROUP_ID_BYTES_MAX or (
                kept and _same(&pairs[2 * i], &pairs[2 * kept - 2])):
            continue
        pairs[2 * kept] = pairs[2 * i]
        pairs[2 * kept + 1] = pairs[2 * i + 1]
        kept += 1
    door.pairs.resize(2 * kept)


cdef void _answer_sync(KafkaDoor* door, KafkaRequest* request, int16_t code, const GroupRecord* group,
                       const Bytes* assignment) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef Bytes nothing = _nothing()
    put_throttle(&writer, 1)
    put_int16(&writer, code)
    if request.version >= 5:
        put_text_null(&writer, &group.type if group != NULL else &nothing)
        put_text_null(&writer, &group.protocol if group != NULL else &nothing)
    put_bytes(&writer, assignment if assignment != NULL else &nothing)
    put_tags(&writer)
    reply_end(door, request, &writer, code)


# The leader's assignments. door.pairs has them.
cdef bint _assign(KafkaDoor* door, KafkaRequest* request, const SyncAsked* asked, const Bytes* key,
                  int16_t* code) noexcept nogil:
    cdef GroupRequest sync
    if asked.assignments > GROUP_MEMBERS_MAX:
        code[0] = KAFKA_INVALID_REQUEST
        return False
    _order_pairs(door)
    memset(&sync, 0, sizeof(GroupRequest))
    sync.verb = GROUP_SYNC
    sync.member = asked.base.member
    sync.instance = asked.base.instance
    sync.type = asked.type
    sync.protocol = asked.protocol
    sync.generation = <uint32_t>asked.base.generation
    request.step = STEP_ASKED
    return _command(door, request, key, &sync, 0, True, code)


cdef void sync_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef SyncAsked asked
    cdef Bytes key
    cdef int16_t code
    if not _read_sync(door, request, &asked):
        reply_fail(door, request)
        return
    key = group_key_of(&asked.base.group, bytes)
    code = access_change(door, request, &key)
    if code != KAFKA_OK:
        _answer_sync(door, request, code, NULL, NULL)
        return
    if asked.base.member.length == 0 or asked.base.member.length > GROUP_ID_BYTES_MAX:
        code = KAFKA_UNKNOWN_MEMBER_ID
    elif asked.base.generation < 0:
        code = KAFKA_ILLEGAL_GENERATION
    elif asked.assignments > 0:
        if _assign(door, request, &asked, &key, &code):
            return
    else:
        request.round = round_ask(&door.desk)
        request.step = STEP_LOOKS
        return
    _answer_sync(door, request, code, NULL, NULL)


cdef void sync_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef int16_t code = task_error(task)
    if code != KAFKA_OK:
        _answer_sync(door, request, code, NULL, NULL)
        return
    request.revision = task.base.ticket.revision
    request.step = STEP_LOOKS


cdef int16_t _check_sync(const SyncAsked* asked, const GroupRecord* group) noexcept nogil:
    if asked.base.generation != <int32_t>group.meta.generation:
        return KAFKA_ILLEGAL_GENERATION
    if (asked.type.length and not _same(&asked.type, &group.type)
            or asked.protocol.length and not _same(&asked.protocol, &group.protocol)):
        return KAFKA_INCONSISTENT_GROUP_PROTOCOL
    if group.meta.state == GROUP_EMPTY:
        return KAFKA_UNKNOWN_MEMBER_ID
    return KAFKA_REBALANCE_IN_PROGRESS if group.meta.state == GROUP_PREPARING else <int16_t>KAFKA_OK


cdef void sync_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef const Entry* entry = NULL
    cdef GroupRecord group
    cdef MemberRecord member
    cdef SyncAsked asked
    cdef Bytes key
    cdef int16_t code
    if request.step != STEP_LOOKS or not request_pin(door, request):
        return
    if not _read_sync(door, request, &asked):
        reply_fail(door, request)
        return
    key = group_key_of(&asked.base.group, bytes)
    code = _check(door, &key, &asked.base, &group, &member, &entry)
    if code == KAFKA_OK:
        code = _check_sync(&asked, &group)
        # It was looked at before: then the generation has passed while it waited.
        if code == KAFKA_ILLEGAL_GENERATION and request.flags:
            code = KAFKA_REBALANCE_IN_PROGRESS
    if code == KAFKA_OK and group.meta.state == GROUP_COMPLETING:
        request.flags = 1
        if request.revision == 0 and _same(&asked.base.member, &group.leader):
            if not _assign(door, request, &asked, &key, &code):     # a leader that assigns nothing to anybody
                _answer_sync(door, request, code, NULL, NULL)
            return
        door.counters.waiting += 1
        return
    if code == KAFKA_OK and group.meta.state == GROUP_STABLE:
        _answer_sync(door, request, code, &group, &member.assignment)
    else:
        _answer_sync(door, request, code, NULL, NULL)


# --- Heartbeat --------------------------------------------------------------------------------------------------------
cdef bint _read_heartbeat(const KafkaRequest* request, Asked* asked) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    memset(asked, 0, sizeof(Asked))
    asked.group = get_text(&reader)
    asked.generation = get_int32(&reader)
    asked.member = get_text(&reader)
    if request.version >= 3:
        asked.instance = get_text(&reader)
    get_tags(&reader)
    return get_end(&reader)


cdef void _answer_heartbeat(KafkaDoor* door, KafkaRequest* request, int16_t code) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    put_throttle(&writer, 1)
    put_int16(&writer, code)
    put_tags(&writer)
    reply_end(door, request, &writer, code)


cdef void heartbeat_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef Asked asked
    cdef Bytes key
    if not _read_heartbeat(request, &asked):
        reply_fail(door, request)
        return
    door.counters.heartbeats += 1
    key = group_key_of(&asked.group, bytes)
    if key.length == 0:
        _answer_heartbeat(door, request, KAFKA_INVALID_GROUP_ID)
    elif not access_group(door, request, &key, True):
        _answer_heartbeat(door, request, KAFKA_GROUP_AUTHORIZATION_FAILED)
    else:
        request.round = round_ask(&door.desk)


cdef void heartbeat_go(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef const Entry* entry = NULL
    cdef GroupRecord group
    cdef MemberRecord member
    cdef Asked asked
    cdef Bytes key
    cdef int16_t code
    if not request_pin(door, request):
        return
    if not _read_heartbeat(request, &asked):
        reply_fail(door, request)
        return
    key = group_key_of(&asked.group, bytes)
    code = _check(door, &key, &asked, &group, &member, &entry)
    if code == KAFKA_OK and asked.generation != <int32_t>group.meta.generation:
        code = KAFKA_ILLEGAL_GENERATION
    if code == KAFKA_OK and group.meta.state == GROUP_EMPTY:
        code = KAFKA_UNKNOWN_MEMBER_ID
    if code == KAFKA_OK and group.meta.state == GROUP_PREPARING:
        code = KAFKA_REBALANCE_IN_PROGRESS
    _answer_heartbeat(door, request, code)


# --- LeaveGroup -------------------------------------------------------------------------------------------------------
# Ids and instances go into door.pairs.
cdef bint _read_leave(KafkaDoor* door, const KafkaRequest* request, Bytes* group) noexcept nogil:
    cdef KafkaReader reader = request_reader(request)
    cdef Bytes nothing = _nothing()
    cdef int32_t count
    door.pairs.clear()
    group[0] = get_text(&reader)
    if request.version < VERSION_OF_MANY:
        return door.pairs.push(get_text(&reader)) and door.pairs.push(nothing) and get_end(&reader)
    count = get_array(&reader)
    for _ in range(count):
        if not door.pairs.push(get_text(&reader)) or not door.pairs.push(get_text(&reader)):
            return False
        if request.version >= 5:
            get_text(&reader)
        get_tags(&reader)
    get_tags(&reader)
    return get_end(&reader)


# results: at the codes of the members, one for each; NULL: there are none.
cdef void _answer_leave(KafkaDoor* door, KafkaRequest* request, int16_t code, Reader* results) noexcept nogil:
    cdef KafkaWriter writer = reply_begin(door, request)
    cdef size_t i
    cdef size_t count = door.pairs.size // 2
    cdef int16_t one
    cdef Bytes* pair
    if request.version < VERSION_OF_MANY and results != NULL:
        read_array_max(results, 1)
        code = <int16_t>read_int(results)
        if code == KAFKA_OK:
            quotas_left(door, &door.pairs.data[0])
    put_throttle(&writer, 1)
    put_int16(&writer, code)
    if request.version >= VERSION_OF_MANY:
        if results == NULL:
            count = 0
        else:
            read_array_max(results, <uint32_t>count)
        put_array(&writer, <uint32_t>count)
        for i in range(count):
            pair = &door.pairs.data[2 * i]
            put_text(&writer, &pair[0])
            put_text_null(&writer, &pair[1])
            one = <int16_t>read_int(results)
            if one == KAFKA_OK:
                quotas_left(door, &pair[0])
            put_int16(&writer, one)
            put_tags(&writer)
    put_tags(&writer)
    if results != NULL and results.status != OK:
        reply_fail(door, request)
        return
    reply_end(door, request, &writer, code)


cdef void leave_begin(KafkaDoor* door, KafkaRequest* request) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] bytes
    cdef GroupRequest leave
    cdef Bytes group, key
    cdef int16_t code
    if not _read_leave(door, request, &group):
        reply_fail(door, request)
        return
    key = group_key_of(&group, bytes)
    memset(&leave, 0, sizeof(GroupRequest))
    leave.verb = GROUP_LEAVE
    code = access_change(door, request, &key)
    if code == KAFKA_OK and _command(door, request, &key, &leave, 0, True, &code):
        return
    _answer_leave(door, request, code, NULL)


cdef void leave_answered(KafkaDoor* door, KafkaRequest* request, KafkaTask* task) noexcept nogil:
    cdef Reader results
    cdef Bytes group
    cdef int16_t code = task_error(task)
    if not _read_leave(door, request, &group):
        reply_fail(door, request)
    elif code != KAFKA_OK:
        _answer_leave(door, request, code, NULL)
    elif task_result(task, &results):
        _answer_leave(door, request, code, &results)
    else:
        reply_fail(door, request)
