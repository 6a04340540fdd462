"""The part of a member's value that only members of consumer groups have: bodies."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.native.intrinsics cimport hash64
from raftmeta.wire.consumers cimport (CONSUMER_PAUSES, TOPIC_UUID_BYTES, partitions_are_sound, subscription_is_sound)
from raftmeta.wire.groups cimport groups_next


cdef bint consumer_read(const Bytes* assignment, ConsumerRecord* consumer) noexcept nogil:
    cdef uint64_t length = sizeof(ConsumerMeta)
    if assignment.length < sizeof(ConsumerMeta):
        return False
    memcpy(&consumer.meta, assignment.data, sizeof(ConsumerMeta))
    length += <uint64_t>consumer.meta.target_length + consumer.meta.assigned_length + consumer.meta.revoking_length
    if length != assignment.length:
        return False
    consumer.target.data = assignment.data + sizeof(ConsumerMeta)
    consumer.target.length = consumer.meta.target_length
    consumer.assigned.data = consumer.target.data + consumer.target.length
    consumer.assigned.length = consumer.meta.assigned_length
    consumer.revoking.data = consumer.assigned.data + consumer.assigned.length
    consumer.revoking.length = consumer.meta.revoking_length
    return True

cdef uint32_t consumer_length(const ConsumerRecord* consumer) noexcept nogil:
    return (<uint32_t>sizeof(ConsumerMeta) + consumer.target.length + consumer.assigned.length
            + consumer.revoking.length)

cdef inline uint8_t* _put(uint8_t* at, const Bytes* window) noexcept nogil:
    if window.length:
        memcpy(at, window.data, window.length)
    return at + window.length

cdef void consumer_write(const ConsumerRecord* consumer, uint8_t* at) noexcept nogil:
    cdef ConsumerMeta meta = consumer.meta
    meta.target_length = consumer.target.length
    meta.assigned_length = consumer.assigned.length
    meta.revoking_length = consumer.revoking.length
    memset(meta.zero, 0, sizeof(meta.zero))
    memcpy(at, &meta, sizeof(ConsumerMeta))
    _put(_put(_put(at + sizeof(ConsumerMeta), &consumer.target), &consumer.assigned), &consumer.revoking)

cdef void consumer_words(const Bytes* protocols, Bytes* assignor, Bytes* subscription) noexcept nogil:
    cdef uint32_t place = 0
    assignor.length = subscription.length = 0
    assignor.data = subscription.data = NULL
    groups_next(protocols, &place, assignor, subscription)

# The caller has looked through the form of the protocols.
cdef bint consumer_is_sound(const Bytes* protocols, const Bytes* assignment) noexcept nogil:
    cdef ConsumerRecord consumer
    cdef Bytes assignor, subscription
    consumer_words(protocols, &assignor, &subscription)
    return (consumer_read(assignment, &consumer) and subscription_is_sound(&subscription)
            and consumer.meta.state < CONSUMER_STATE_END and consumer.meta.epoch >= CONSUMER_PAUSES
            and (consumer.meta.revoking_length != 0) == (consumer.meta.state == CONSUMER_UNREVOKED)
            and partitions_are_sound(&consumer.target) and partitions_are_sound(&consumer.assigned)
            and partitions_are_sound(&consumer.revoking))

cdef uint64_t consumer_seen(uint64_t seen, const uint8_t* topic, uint32_t partitions) noexcept nogil:
    return hash64(hash64(seen, topic, TOPIC_UUID_BYTES), &partitions, sizeof(uint32_t))
