"""Worker groups as the pinned state shows them: bodies."""

from libc.stdint cimport int16_t, uint8_t, uint16_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy

from raftmeta.doors.desk.desk cimport desk_find
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.kafka.protocol cimport KAFKA_FENCED_INSTANCE_ID, KAFKA_UNKNOWN_MEMBER_ID
from raftmeta.machine.entry cimport ENTRY_GROUP, ENTRY_MEMBER, ENTRY_TOMBSTONE, entry_key, entry_value
from raftmeta.machine.group_records cimport MEMBER_PENDING, group_read, member_read
from raftmeta.machine.tree cimport cursor_next, cursor_seek
from raftmeta.wire.groups cimport GROUP_ID_BYTES_MAX, GROUP_KEY_BYTES_MAX, groups_next

cdef enum:
    ROOT_BYTES = 7

# verbs/groups has the same.
cdef const char* ROOT = b"groups/"


cdef Bytes group_root() noexcept nogil:
    return bytes_of(<const uint8_t*>ROOT, ROOT_BYTES)


cdef Bytes group_key_of(const Bytes* group, uint8_t* into) noexcept nogil:
    if (group.length == 0 or ROOT_BYTES + group.length > GROUP_KEY_BYTES_MAX
            or memchr(group.data, 0, group.length) != NULL):
        return bytes_of(into, 0)
    memcpy(into, ROOT, ROOT_BYTES)
    memcpy(into + ROOT_BYTES, group.data, group.length)
    return bytes_of(into, ROOT_BYTES + group.length)


cdef bint group_find(KafkaDoor* door, const Bytes* key, GroupRecord* group) noexcept nogil:
    cdef const Entry* entry = desk_find(&door.desk, key)
    cdef Bytes value
    if entry == NULL or not entry.flags & ENTRY_GROUP:
        return False
    value = bytes_of(entry_value(entry), entry.value_length)
    return group_read(&value, group)


cdef const Entry* group_member(KafkaDoor* door, const Bytes* key, const Bytes* id, MemberRecord* member) noexcept nogil:
    cdef uint8_t[GROUP_KEY_BYTES_MAX + 1 + GROUP_ID_BYTES_MAX] bytes
    cdef const Entry* entry
    cdef Bytes whole, value
    if id.length == 0 or id.length > GROUP_ID_BYTES_MAX:
        return NULL
    memcpy(bytes, key.data, key.length)
    bytes[key.length] = 0
    memcpy(bytes + key.length + 1, id.data, id.length)
    whole = bytes_of(bytes, key.length + 1 + id.length)
    entry = desk_find(&door.desk, &whole)
    if entry == NULL or not entry.flags & ENTRY_MEMBER:
        return NULL
    value = bytes_of(entry_value(entry), entry.value_length)
    if not member_read(&value, member) or member.meta.flags & MEMBER_PENDING:
        return NULL
    return entry


cdef int16_t group_lost(KafkaDoor* door, const Bytes* key, const Bytes* instance) noexcept nogil:
    cdef MemberRecord member
    cdef GroupWalk walk
    cdef Bytes id
    if instance.length == 0:
        return KAFKA_UNKNOWN_MEMBER_ID
    group_walk(door, key, &walk)
    while group_next(&walk, &id, &member):
        if (member.instance.length == instance.length
                and memcmp(member.instance.data, instance.data, instance.length) == 0):
            return KAFKA_FENCED_INSTANCE_ID
    return KAFKA_UNKNOWN_MEMBER_ID


cdef void group_walk(KafkaDoor* door, const Bytes* key, GroupWalk* walk) noexcept nogil:
    memcpy(walk.prefix, key.data, key.length)
    walk.prefix[key.length] = 0
    walk.length = key.length + 1
    cursor_seek(&walk.cursor, door.desk.pinned, walk.prefix, <uint16_t>walk.length)


cdef bint group_next(GroupWalk* walk, Bytes* id, MemberRecord* member) noexcept nogil:
    cdef const Entry* entry
    cdef Bytes value
    while walk.cursor.entry != NULL:
        entry = walk.cursor.entry
        if entry.key_length <= walk.length or memcmp(entry_key(entry), walk.prefix, walk.length) != 0:
            return False
        cursor_next(&walk.cursor)
        if entry.flags & ENTRY_TOMBSTONE or not entry.flags & ENTRY_MEMBER:
            continue
        value = bytes_of(entry_value(entry), entry.value_length)
        if member_read(&value, member) and not member.meta.flags & MEMBER_PENDING:
            id[0] = bytes_of(entry_key(entry) + walk.length, entry.key_length - walk.length)
            return True
    return False


cdef Bytes member_said(const MemberRecord* member, const Bytes* protocol) noexcept nogil:
    cdef Bytes name, said
    cdef uint32_t place = 0
    while groups_next(&member.protocols, &place, &name, &said):
        if name.length == protocol.length and memcmp(name.data, protocol.data, protocol.length) == 0:
            return said
    return bytes_of(NULL, 0)
