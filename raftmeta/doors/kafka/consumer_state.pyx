"""Consumer groups as the pinned state shows them: bodies."""

from libc.stdint cimport int32_t, uint8_t

from raftmeta.doors.kafka.group_state cimport GroupWalk, group_next, group_walk
from raftmeta.machine.consumer_records cimport CONSUMER_STABLE, ConsumerRecord, consumer_read
from raftmeta.machine.group_records cimport MemberRecord, group_target


cdef const char* EMPTY = b"Empty"
cdef const char* ASSIGNING = b"Assigning"
cdef const char* RECONCILING = b"Reconciling"
cdef const char* STABLE = b"Stable"


cdef uint8_t consumer_group_state(KafkaDoor* door, const Bytes* key, const GroupRecord* group) noexcept nogil:
    cdef ConsumerRecord consumer
    cdef MemberRecord member
    cdef GroupWalk walk
    cdef Bytes id
    if group.meta.members == 0:
        return CONSUMER_GROUP_EMPTY
    if group_target(group) != group.meta.generation:
        return CONSUMER_GROUP_ASSIGNING
    group_walk(door, key, &walk)
    while group_next(&walk, &id, &member):
        if (not consumer_read(&member.assignment, &consumer) or consumer.meta.state != CONSUMER_STABLE
                or consumer.meta.epoch != <int32_t>group_target(group)):
            return CONSUMER_GROUP_RECONCILING
    return CONSUMER_GROUP_STABLE


cdef const char* consumer_group_word(uint8_t state) noexcept nogil:
    if state == CONSUMER_GROUP_EMPTY:
        return EMPTY
    if state == CONSUMER_GROUP_ASSIGNING:
        return ASSIGNING
    return RECONCILING if state == CONSUMER_GROUP_RECONCILING else STABLE
