"""Offsets of groups: bodies."""
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memcmp, memcpy, memset

from raftmeta.machine.consumer_records cimport ConsumerRecord, consumer_read
from raftmeta.machine.entry cimport ENTRY_GROUP, ENTRY_MEMBER, ENTRY_OFFSET
from raftmeta.machine.group_offsets cimport offsets_head, offsets_store
from raftmeta.machine.group_records cimport (GROUP_COMPLETING, GROUP_EMPTY, MEMBER_PENDING, GroupRecord, MemberRecord,
                                             group_is_consumer, group_read, member_read)
from raftmeta.machine.groups cimport groups_make_empty
from raftmeta.machine.leases cimport Lease, leases_find, leases_renew
from raftmeta.machine.plan cimport (Planned, plan_delete, plan_put, plan_range, plan_room, plan_touch, plan_view)
from raftmeta.machine.topic_records cimport (OffsetKey, OffsetRecord, OffsetsMeta, TopicRecord, offset_key,
                                             offset_length, offset_write)
from raftmeta.machine.topics cimport topics_find, topics_run
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport COMMAND_INVALID, NO_MEMORY, OK
from raftmeta.wire.commands cimport CHANGES_MAX, KeyView, result_array, result_number
from raftmeta.wire.consumers cimport CONSUMER_STALE_EPOCH
from raftmeta.wire.groups cimport (GROUP_FENCED_INSTANCE, GROUP_ID_NOT_FOUND, GROUP_ILLEGAL_GENERATION,
                                   GROUP_INVALID_ID, GROUP_NON_EMPTY, GROUP_OK, GROUP_REBALANCE_IN_PROGRESS,
                                   GROUP_UNKNOWN_MEMBER, groups_next)
from raftmeta.wire.topics cimport (OFFSET_METADATA_BYTES_MAX, OFFSET_METADATA_TOO_LARGE, OFFSET_NO_ROOM,
                                   OFFSET_SUBSCRIBED, OFFSETS_COMMIT, OFFSETS_DELETE, TOPIC_ID_BYTES, TOPIC_OK,
                                   TOPIC_UNKNOWN, TopicItem, TopicsRequest, topics_decode, topics_next)
from raftmeta.wire.windows cimport KEY_BYTES_MAX, Bytes

cdef enum:
    OFFSETS_MAX = 10_000        # of one group: they go in one entry
    CONSUMER_VERSION_BYTES = 2  # of a subscription, before the number of its topics

# A group as a request for offsets finds it.
cdef struct Found:
    bint exists
    GroupRecord record
    uint64_t lease              # of the member that asks; 0: none asks
    int32_t epoch               # of a consumer group: that of the member


cdef inline bint _equal(const Bytes* left, const Bytes* right) noexcept nogil:
    return left.length == right.length and (left.length == 0 or memcmp(left.data, right.data, left.length) == 0)

cdef status_t offsets_run(Machine* machine) noexcept nogil:
    cdef TopicsRequest request
    if topics_decode(&machine.command.name, &machine.command.data, &request) != OK:
        return COMMAND_INVALID
    if request.verb == OFFSETS_COMMIT:
        return _commit(machine, &request)
    return _delete(machine, &request) if request.verb == OFFSETS_DELETE else topics_run(machine, &request)

# GROUP_OK, or GROUP_INVALID_ID: another key stands there.
cdef int _open(Machine* machine, const Bytes* group, Found* found) noexcept nogil:
    cdef KeyView view
    memset(found, 0, sizeof(Found))
    if not plan_view(&machine.plan, group, &view):
        return GROUP_OK
    if not view.flags & ENTRY_GROUP or not group_read(&view.value, &found.record):
        return GROUP_INVALID_ID
    found.exists = True
    return GROUP_OK


# --- who may commit ---------------------------------------------------------------------------------------------------
# GroupCoordinator.handleCommitOffsets, validateOffsetCommit and doCommitOffsets.
cdef int _may_commit(Machine* machine, const TopicsRequest* request, Found* found, status_t* status) noexcept nogil:
    cdef int code = _open(machine, &request.group, found)
    if code != GROUP_OK:
        return code
    if not found.exists:
        return GROUP_OK if request.generation < 0 else GROUP_ILLEGAL_GENERATION
    if request.generation < 0 and found.record.meta.state == GROUP_EMPTY:
        return GROUP_OK
    if request.generation < 0 and request.member.length == 0 and request.instance.length == 0:
        return GROUP_UNKNOWN_MEMBER
    code = _check_member(machine, request, found, status)
    if code != GROUP_OK:
        return code
    if group_is_consumer(&found.record):
        return <int>GROUP_OK if request.generation == found.epoch else <int>CONSUMER_STALE_EPOCH
    if request.generation < 0 or <uint32_t>request.generation != found.record.meta.generation:
        return GROUP_ILLEGAL_GENERATION
    return GROUP_REBALANCE_IN_PROGRESS if found.record.meta.state == GROUP_COMPLETING else GROUP_OK

# GroupCoordinator.validateCurrentMember. The member that asks is looked up by its key; only an instance that is not
# its own needs a look at all members.
cdef int _check_member(Machine* machine, const TopicsRequest* request, Found* found, status_t* status) noexcept nogil:
    cdef ConsumerRecord consumer
    cdef MemberRecord member
    cdef KeyView view
    cdef bint is_member = False
    cdef uint8_t[KEY_BYTES_MAX + 1] room
    cdef Bytes key
    # A consumer makes up its id itself. With a zero byte it could be the key of something else.
    if (0 < request.member.length <= KEY_BYTES_MAX - request.group.length - 1
            and memchr(request.member.data, 0, request.member.length) == NULL):
        memcpy(&room[0], request.group.data, request.group.length)
        room[request.group.length] = 0
        memcpy(&room[0] + request.group.length + 1, request.member.data, request.member.length)
        key.data = &room[0]
        key.length = request.group.length + 1 + request.member.length
        is_member = (plan_view(&machine.plan, &key, &view) and view.flags & ENTRY_MEMBER != 0
                     and member_read(&view.value, &member) and member.meta.flags & MEMBER_PENDING == 0)
    if is_member and (request.instance.length == 0 or _equal(&member.instance, &request.instance)):
        found.lease = view.lease
        if consumer_read(&member.assignment, &consumer):
            found.epoch = consumer.meta.epoch
        return GROUP_OK
    if request.instance.length == 0:
        return GROUP_UNKNOWN_MEMBER
    return GROUP_FENCED_INSTANCE if _is_held(machine, request, status) else GROUP_UNKNOWN_MEMBER

cdef status_t _scan_members(Machine* machine, const Bytes* group) noexcept nogil:
    cdef Vec[KeyView]* views = &machine.transaction.views
    cdef uint8_t[KEY_BYTES_MAX + 1] low
    cdef uint8_t[KEY_BYTES_MAX + 1] high
    cdef Bytes start, end
    cdef uint32_t count
    memcpy(&low[0], group.data, group.length)
    memcpy(&high[0], group.data, group.length)
    low[group.length] = 0
    high[group.length] = 1
    start.data = &low[0]
    end.data = &high[0]
    start.length = end.length = group.length + 1
    views.clear()
    return plan_range(&machine.plan, &start, &end, ~<uint32_t>0, ~<uint32_t>0, views, &count)

cdef bint _is_held(Machine* machine, const TopicsRequest* request, status_t* status) noexcept nogil:
    cdef const KeyView* view
    cdef MemberRecord member
    cdef size_t i
    status[0] = _scan_members(machine, &request.group)
    for i in range(machine.transaction.views.size):
        view = &machine.transaction.views.data[i]
        if (view.flags & ENTRY_MEMBER and member_read(&view.value, &member)
                and _equal(&member.instance, &request.instance)):
            return True
    return False


# --- commit -----------------------------------------------------------------------------------------------------------
# KafkaApis.handleOffsetCommitRequest: partitions that there are not are refused first, then all others together.
cdef status_t _commit(Machine* machine, const TopicsRequest* request) noexcept nogil:
    cdef OffsetsMeta head
    cdef OffsetsMeta before
    cdef Found found
    cdef status_t status = OK
    cdef int code = _may_commit(machine, request, &found, &status)
    cdef bint is_written = False
    if status == OK:
        status = result_array(&machine.transaction.body, request.count)
    offsets_head(machine, &request.group, &head)
    before = head
    head.retention_ms = request.retention_ms
    if status == OK:
        status = _write_all(machine, request, code, &head, &is_written)
    if status != OK or not is_written:
        return status
    if not found.exists:
        status = groups_make_empty(machine, &request.group)
    _renew(machine, found.lease)
    if status != OK or found.exists and found.record.meta.state != GROUP_EMPTY and (
            memcmp(&head, &before, sizeof(OffsetsMeta)) == 0):
        return status
    return offsets_store(machine, &request.group, &head,
                         not found.exists or found.record.meta.state == GROUP_EMPTY, True)

# A commit shows that its member lives (GroupCoordinator.doCommitOffsets).
cdef void _renew(Machine* machine, uint64_t id) noexcept nogil:
    cdef Lease* lease = leases_find(&machine.leases, id) if id != 0 else NULL
    if lease != NULL:
        leases_renew(&machine.leases, lease, machine.lease_ms)

# code: of the group. Most partitions of a request are of one topic, which is sought once.
cdef status_t _write_all(Machine* machine, const TopicsRequest* request, int code, OffsetsMeta* head,
                         bint* is_written) noexcept nogil:
    cdef TopicItem item
    cdef TopicRecord topic
    cdef Bytes name
    cdef uint32_t place = 0
    cdef int told
    cdef bint is_there = False
    cdef status_t status = OK
    name.data = NULL
    name.length = 0
    memset(&topic, 0, sizeof(TopicRecord))
    while status == OK and topics_next(request, &place, &item):
        if not _equal(&name, &item.name):
            name = item.name
            is_there = topics_find(machine, &machine.command.name, &name, &topic)
        if not is_there or item.partition >= topic.meta.partitions:
            told = TOPIC_UNKNOWN
        elif code != GROUP_OK:
            told = code
        elif item.metadata.length > OFFSET_METADATA_BYTES_MAX:
            told = OFFSET_METADATA_TOO_LARGE
        else:
            told = _write(machine, request, &item, &topic, head, &status)
        is_written[0] = is_written[0] or told == TOPIC_OK
        if status == OK:
            status = result_number(&machine.transaction.body, told)
    return status

cdef int _write(Machine* machine, const TopicsRequest* request, const TopicItem* item, const TopicRecord* topic,
                OffsetsMeta* head, status_t* status) noexcept nogil:
    cdef Planned* planned = NULL
    cdef OffsetRecord offset
    cdef OffsetKey key
    cdef KeyView view
    cdef Bytes stays, value
    if not offset_key(&request.group, &item.name, item.partition, &key):
        return OFFSET_NO_ROOM
    if not plan_view(&machine.plan, &key.bytes, &view):
        if head.count >= OFFSETS_MAX:
            return OFFSET_NO_ROOM
        head.count += 1
    elif not view.flags & ENTRY_OFFSET:
        return OFFSET_NO_ROOM
    memcpy(&offset.meta.topic[0], &topic.meta.id[0], TOPIC_ID_BYTES)
    offset.meta.offset = item.offset
    offset.meta.epoch = item.epoch
    offset.meta.partition = item.partition
    offset.name = item.name
    offset.metadata = item.metadata
    value.length = offset_length(&offset)
    value.data = plan_room(&machine.plan, value.length + key.bytes.length)
    if value.data == NULL:
        status[0] = NO_MEMORY
        return TOPIC_OK
    offset_write(&offset, <uint8_t*>value.data)
    stays.data = value.data + value.length
    stays.length = key.bytes.length
    memcpy(<uint8_t*>stays.data, &key.room[0], key.bytes.length)
    machine.plan.changes_max = 2 * CHANGES_MAX
    status[0] = plan_touch(&machine.plan, &stays, &planned)
    if status[0] == OK:
        plan_put(&machine.plan, planned, &value, 0, ENTRY_OFFSET)
    return TOPIC_OK


# --- delete -----------------------------------------------------------------------------------------------------------
# [code of the group, code, ...] (GroupCoordinator.handleDeleteOffsets). A group without members ends with its last
# offset.
cdef status_t _delete(Machine* machine, const TopicsRequest* request) noexcept nogil:
    cdef Vec[uint8_t]* body = &machine.transaction.body
    cdef OffsetsMeta head
    cdef Found found
    cdef bint is_consumer
    cdef bint has_removed = False
    cdef status_t status
    cdef int code = _open(machine, &request.group, &found)
    if code == GROUP_OK and not found.exists:
        code = GROUP_ID_NOT_FOUND
    is_consumer = found.record.type.length == 8 and memcmp(found.record.type.data, b"consumer", 8) == 0
    if code == GROUP_OK and found.record.meta.state != GROUP_EMPTY and not is_consumer:
        code = GROUP_NON_EMPTY
    if code != GROUP_OK:
        status = result_array(body, 1)
        return result_number(body, code) if status == OK else status
    status = _scan_members(machine, &request.group)
    if status != OK or result_array(body, 1 + request.count) != OK or result_number(body, GROUP_OK) != OK:
        return NO_MEMORY
    offsets_head(machine, &request.group, &head)
    status = _delete_all(machine, request, &found, &head, &has_removed)
    if status != OK:
        return status
    if not has_removed:
        return OK
    return offsets_store(machine, &request.group, &head, found.record.meta.state == GROUP_EMPTY, False)

cdef status_t _delete_all(Machine* machine, const TopicsRequest* request, const Found* found, OffsetsMeta* head,
                          bint* has_removed) noexcept nogil:
    cdef TopicItem item
    cdef TopicRecord topic
    cdef uint32_t place = 0
    cdef int told
    cdef status_t status = OK
    machine.plan.changes_max = 2 * CHANGES_MAX
    while status == OK and topics_next(request, &place, &item):
        if not topics_find(machine, &machine.command.name, &item.name, &topic):
            told = TOPIC_UNKNOWN
        elif found.record.meta.state != GROUP_EMPTY and _is_subscribed(machine, found, &item.name):
            told = OFFSET_SUBSCRIBED
        else:
            told = TOPIC_OK
            status = _remove(machine, request, &item, head, has_removed)
        if status == OK:
            status = result_number(&machine.transaction.body, told)
    return status

cdef status_t _remove(Machine* machine, const TopicsRequest* request, const TopicItem* item, OffsetsMeta* head,
                      bint* has_removed) noexcept nogil:
    cdef Planned* planned = NULL
    cdef OffsetKey key
    cdef KeyView view
    cdef status_t status
    if (not offset_key(&request.group, &item.name, item.partition, &key)
            or not plan_view(&machine.plan, &key.bytes, &view) or not view.flags & ENTRY_OFFSET):
        return OK
    status = plan_touch(&machine.plan, &view.key, &planned)
    if status == OK:
        plan_delete(&machine.plan, planned)
        head.count -= 1
        has_removed[0] = True
    return status

# Whether a member reads the topic, by what it says under the protocol of the group (GroupMetadata.isSubscribedToTopic).
# Members of a group that has no protocol yet may read anything, and so may those who say it in another form.
cdef bint _is_subscribed(Machine* machine, const Found* found, const Bytes* topic) noexcept nogil:
    cdef const KeyView* view
    cdef MemberRecord member
    cdef Bytes name, said
    cdef uint32_t place
    cdef size_t i
    if found.record.protocol.length == 0 and not group_is_consumer(&found.record):
        return True
    for i in range(machine.transaction.views.size):
        view = &machine.transaction.views.data[i]
        if (not view.flags & ENTRY_MEMBER or not member_read(&view.value, &member)
                or member.meta.flags & MEMBER_PENDING):
            continue
        place = 0
        while groups_next(&member.protocols, &place, &name, &said):
            if not group_is_consumer(&found.record) and not _equal(&name, &found.record.protocol):
                continue
            if _names_topic(&said, topic):
                return True
    return False

cdef inline int32_t _big32(const uint8_t* at) noexcept nogil:
    return <int32_t>(<uint32_t>at[0] << 24 | <uint32_t>at[1] << 16 | <uint32_t>at[2] << 8 | at[3])

# ConsumerProtocol.deserializeSubscription of version 0, with which all versions begin: a version, and the topics.
cdef bint _names_topic(const Bytes* said, const Bytes* topic) noexcept nogil:
    cdef uint32_t at = CONSUMER_VERSION_BYTES + 4
    cdef int32_t left
    cdef Bytes name
    if said.length < at:
        return True
    left = _big32(said.data + CONSUMER_VERSION_BYTES)
    while left > 0:
        if said.length - at < 2:
            return True
        name.length = <uint32_t>said.data[at] << 8 | said.data[at + 1]
        if name.length > said.length - at - 2:
            return True
        name.data = said.data + at + 2
        if _equal(&name, topic):
            return True
        at += 2 + name.length
        left -= 1
    return left < 0
