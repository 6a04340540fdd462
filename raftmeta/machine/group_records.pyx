"""The values of a group's keys: bodies."""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memchr, memcpy, memset

from raftmeta.machine.consumer_records cimport consumer_is_sound
from raftmeta.wire.groups cimport GROUP_MEMBERS_MAX, groups_are_protocols


# Windows one behind the other; False: there are not so many bytes.
cdef inline bint _take(const Bytes* value, uint32_t* place, uint32_t length, Bytes* window) noexcept nogil:
    if length > value.length - place[0]:
        return False
    window.data = value.data + place[0]
    window.length = length
    place[0] += length
    return True

cdef bint group_read(const Bytes* value, GroupRecord* group) noexcept nogil:
    cdef uint32_t place = sizeof(GroupMeta)
    if value.length < sizeof(GroupMeta):
        return False
    memcpy(&group.meta, value.data, sizeof(GroupMeta))
    return (_take(value, &place, group.meta.type_length, &group.type)
            and _take(value, &place, group.meta.protocol_length, &group.protocol)
            and _take(value, &place, group.meta.leader_length, &group.leader) and place == value.length)

cdef bint member_read(const Bytes* value, MemberRecord* member) noexcept nogil:
    cdef uint32_t place = sizeof(MemberMeta)
    if value.length < sizeof(MemberMeta):
        return False
    memcpy(&member.meta, value.data, sizeof(MemberMeta))
    return (_take(value, &place, member.meta.instance_length, &member.instance)
            and _take(value, &place, member.meta.client_length, &member.client)
            and _take(value, &place, member.meta.protocols_length, &member.protocols)
            and _take(value, &place, member.meta.assignment_length, &member.assignment) and place == value.length)

cdef uint32_t group_length(const GroupRecord* group) noexcept nogil:
    return <uint32_t>sizeof(GroupMeta) + group.type.length + group.protocol.length + group.leader.length

cdef uint32_t member_length(const MemberRecord* member) noexcept nogil:
    return (<uint32_t>sizeof(MemberMeta) + member.instance.length + member.client.length + member.protocols.length
            + member.assignment.length)

cdef inline uint8_t* _put(uint8_t* at, const Bytes* window) noexcept nogil:
    if window.length:
        memcpy(at, window.data, window.length)
    return at + window.length

cdef void group_write(const GroupRecord* group, uint8_t* at) noexcept nogil:
    cdef GroupMeta meta = group.meta
    meta.type_length = <uint16_t>group.type.length
    meta.protocol_length = <uint16_t>group.protocol.length
    meta.leader_length = <uint16_t>group.leader.length
    memcpy(at, &meta, sizeof(GroupMeta))
    _put(_put(_put(at + sizeof(GroupMeta), &group.type), &group.protocol), &group.leader)

cdef void member_write(const MemberRecord* member, uint8_t* at) noexcept nogil:
    cdef MemberMeta meta = member.meta
    meta.instance_length = <uint16_t>member.instance.length
    meta.client_length = <uint16_t>member.client.length
    meta.protocols_length = member.protocols.length
    meta.assignment_length = member.assignment.length
    memset(meta.zero, 0, sizeof(meta.zero))
    memcpy(at, &meta, sizeof(MemberMeta))
    at = _put(_put(at + sizeof(MemberMeta), &member.instance), &member.client)
    _put(_put(at, &member.protocols), &member.assignment)

cdef bint _is_consumer_sound(const GroupRecord* group) noexcept nogil:
    return (group.meta.state == (GROUP_STABLE if group.meta.members else GROUP_EMPTY) and group.meta.pending == 0
            and group.meta.joined == 0 and group_target(group) <= group.meta.generation)

cdef bint group_is_sound(const uint8_t* value, uint32_t length, uint64_t lease, bint knows_consumers) noexcept nogil:
    cdef GroupRecord group
    cdef Bytes window
    window.data = value
    window.length = length
    if not group_read(&window, &group) or group.meta.state >= GROUP_STATE_END:
        return False
    if group_is_consumer(&group) and not (knows_consumers and _is_consumer_sound(&group)):
        return False
    # A timer runs exactly while members join, or the leader is awaited.
    if (group.meta.timer_ms != 0) != (lease != 0) or (lease != 0) != (
            group.meta.state == GROUP_PREPARING or group.meta.state == GROUP_COMPLETING):
        return False
    return (group.meta.members + group.meta.pending <= GROUP_MEMBERS_MAX
            and group.meta.joined <= group.meta.members)

cdef bint member_is_sound(const uint8_t* value, uint32_t length, uint64_t lease, bint knows_consumers) noexcept nogil:
    cdef MemberRecord member
    cdef Bytes window
    window.data = value
    window.length = length
    if (lease == 0 or not member_read(&window, &member)
            or not groups_are_protocols(&member.protocols, member.meta.protocols)):
        return False
    if member.meta.flags == MEMBER_IS_CONSUMER:
        return knows_consumers and consumer_is_sound(&member.protocols, &member.assignment)
    return member.meta.flags & ~<uint8_t>MEMBER_PENDING == 0

cdef bint group_of_member(const Bytes* key, Bytes* group) noexcept nogil:
    cdef const uint8_t* end = <const uint8_t*>memchr(key.data, 0, key.length)
    if end == NULL:
        return False
    group.data = key.data
    group.length = <uint32_t>(end - key.data)
    return True
