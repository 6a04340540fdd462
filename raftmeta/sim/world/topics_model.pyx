"""Topics and offsets by the rules of docs/kafka-topics.md: bodies."""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.machine.group_records cimport GROUP_COMPLETING, GROUP_EMPTY
from raftmeta.native.intrinsics cimport load64
from raftmeta.sim.world.groups_state cimport SimMember
from raftmeta.sim.world.groups_view cimport instance_of, view_holder, view_member
from raftmeta.sim.world.topics_state cimport SIM_PARTITIONS, SIM_TOPICS, SimOffset, SimOffsets, SimTopic
from raftmeta.wire.groups cimport (GROUP_FENCED_INSTANCE, GROUP_ID_NOT_FOUND, GROUP_ILLEGAL_GENERATION, GROUP_NON_EMPTY,
                                   GROUP_OK, GROUP_REBALANCE_IN_PROGRESS, GROUP_UNKNOWN_MEMBER)
from raftmeta.wire.topics cimport (OFFSET_METADATA_BYTES_MAX, OFFSET_METADATA_TOO_LARGE, TOPIC_EXISTS,
                                   TOPIC_INVALID_PARTITIONS, TOPIC_OK, TOPIC_PARTITIONS_MAX, TOPIC_UNKNOWN,
                                   TOPIC_UNKNOWN_ID, TOPICS_CREATE, TOPICS_DELETE)


# --- names ------------------------------------------------------------------------------------------------------------
cdef void _name(SimText* text, const char* name, uint32_t length, uint32_t number) noexcept nogil:
    memcpy(text.bytes, name, length)
    text.bytes[length] = <uint8_t>(c"0" + number)
    text.length = length + 1


cdef void topic_root(SimText* text) noexcept nogil:
    memcpy(text.bytes, b"topic/", 6)
    text.length = 6


cdef void topic_name(uint32_t topic, SimText* text) noexcept nogil:
    _name(text, b"t", 1, topic)


cdef void log_name(uint32_t log, SimText* text) noexcept nogil:
    _name(text, b"log-", 4, log)


cdef Bytes text_bytes(const SimText* text) noexcept nogil:
    cdef Bytes bytes
    bytes.data = &text.bytes[0]
    bytes.length = text.length
    return bytes


cdef uint32_t number_of(const Bytes* name) noexcept nogil:
    return <uint32_t>(name.data[name.length - 1] - c"0") if name.length else ~<uint32_t>0


cdef uint64_t _id_of(const Bytes* id) noexcept nogil:
    return load64(id.data) if id.length else <uint64_t>0


# --- topics -----------------------------------------------------------------------------------------------------------
cdef inline bint _may_have(int64_t partitions) noexcept nogil:
    return 0 < partitions <= TOPIC_PARTITIONS_MAX


cdef int64_t _make(SimTopic* topic, const TopicsRequest* request, const TopicItem* item,
                   uint64_t revision) noexcept nogil:
    if topic.exists:
        return TOPIC_EXISTS
    if not _may_have(item.partitions):
        return TOPIC_INVALID_PARTITIONS
    if not request.is_trial:
        topic.exists = True
        topic.id = _id_of(&item.id)
        topic.partitions = item.partitions
        topic.fence = revision
    return TOPIC_OK


cdef int64_t _end(SimTopic* topic, const TopicItem* item) noexcept nogil:
    if not topic.exists:
        return TOPIC_UNKNOWN_ID if item.id.length else TOPIC_UNKNOWN
    if item.id.length and _id_of(&item.id) != topic.id:
        return TOPIC_UNKNOWN_ID
    topic.exists = False
    return TOPIC_OK


cdef int64_t _extend(SimTopic* topic, const TopicsRequest* request, const TopicItem* item) noexcept nogil:
    if not topic.exists:
        return TOPIC_UNKNOWN
    if not _may_have(item.partitions) or item.partitions <= topic.partitions:
        return TOPIC_INVALID_PARTITIONS
    if not request.is_trial:
        topic.partitions = item.partitions
    return TOPIC_OK


cdef int64_t model_topic(SimTopics* topics, const TopicsRequest* request, const TopicItem* item,
                         uint64_t revision) noexcept nogil:
    cdef SimTopic* topic = &topics.topics[number_of(&item.name) % SIM_TOPICS]
    if request.verb == TOPICS_CREATE:
        return _make(topic, request, item, revision)
    return _end(topic, item) if request.verb == TOPICS_DELETE else _extend(topic, request, item)


# --- offsets ----------------------------------------------------------------------------------------------------------
# The table of docs/kafka-topics.md "Offsets", read from top to bottom.
cdef int64_t model_committer(const TopicsRequest* request, SimGroupView* before) noexcept nogil:
    cdef SimMember* member = view_member(before, &request.member)
    cdef bint is_nobody = request.generation < 0
    if not before.exists:
        return GROUP_OK if is_nobody else GROUP_ILLEGAL_GENERATION
    if is_nobody and before.state == GROUP_EMPTY:
        return GROUP_OK
    if member == NULL or member.is_pending or (
            request.instance.length and instance_of(&request.instance) != member.instance):
        if request.instance.length and view_holder(before, instance_of(&request.instance)) != NULL:
            return GROUP_FENCED_INSTANCE
        return GROUP_UNKNOWN_MEMBER
    if is_nobody or <uint32_t>request.generation != before.generation:
        return GROUP_ILLEGAL_GENERATION
    return GROUP_REBALANCE_IN_PROGRESS if before.state == GROUP_COMPLETING else GROUP_OK


cdef int64_t model_commit(SimTopics* topics, uint32_t group, const TopicItem* item, int64_t code) noexcept nogil:
    cdef SimTopic* topic = &topics.topics[number_of(&item.name) % SIM_TOPICS]
    cdef SimOffset* offset = &topics.groups[group].offsets[number_of(&item.name) % SIM_TOPICS][
        item.partition % SIM_PARTITIONS]
    if not topic.exists or item.partition >= topic.partitions:
        return TOPIC_UNKNOWN
    if code != GROUP_OK:
        return code
    if item.metadata.length > <uint32_t>OFFSET_METADATA_BYTES_MAX:
        return OFFSET_METADATA_TOO_LARGE
    offset.exists = True
    offset.topic = topic.id
    offset.offset = item.offset
    offset.epoch = item.epoch
    offset.metadata_length = item.metadata.length
    return TOPIC_OK


# No worker group of a world has the type that reads topics.
cdef int64_t model_deleter(SimGroupView* before) noexcept nogil:
    if not before.exists:
        return GROUP_ID_NOT_FOUND
    return GROUP_OK if before.state == GROUP_EMPTY else GROUP_NON_EMPTY


cdef int64_t model_delete(SimTopics* topics, uint32_t group, const TopicItem* item) noexcept nogil:
    if not topics.topics[number_of(&item.name) % SIM_TOPICS].exists:
        return TOPIC_UNKNOWN
    topics.groups[group].offsets[number_of(&item.name) % SIM_TOPICS][item.partition % SIM_PARTITIONS].exists = False
    return TOPIC_OK


cdef void model_follow(SimTopics* topics, uint32_t group, SimGroupView* before, SimGroupView* after, bint is_committed,
                       uint64_t lease_ms) noexcept nogil:
    cdef SimOffsets* offsets = &topics.groups[group]
    if not after.exists:
        memset(offsets, 0, sizeof(SimOffsets))
        return
    if is_committed:
        offsets.has_head = True
        offsets.retention_ms = topics.request.retention_ms
    if not offsets.has_head or offsets.retention_ms == 0 or after.state != GROUP_EMPTY:
        offsets.deadline_ms = 0
    elif is_committed or offsets.deadline_ms == 0 or before.state != GROUP_EMPTY:
        offsets.deadline_ms = lease_ms + offsets.retention_ms
