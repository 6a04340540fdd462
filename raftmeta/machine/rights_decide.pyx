"""The decision: bodies. Operations and compares of nested transactions stand in the same arenas as those of the root,
so a walk over the arenas sees both branches at every depth."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.machine.leases cimport Lease, leases_find
from raftmeta.machine.rights cimport rights_lease_owner, rights_session_owner
from raftmeta.machine.rights_state cimport (OWNER_NODE, RIGHT_ADMIN, RIGHT_LEASE, RIGHT_READ, RIGHT_WRITE,
                                            RIGHTS_CLAIM, RIGHTS_TOKEN_PUT, RIGHTS_TOKEN_REMOVE, RIGHTS_USER_PUT,
                                            USER_FOUNDER, USER_ONE_TIME, TableToken, TableUser, UserSecret)
from raftmeta.machine.rights_table cimport rights_allow, table_principal, table_token, table_user
from raftmeta.machine.tree cimport Entry, entry_key
from raftmeta.status cimport AUTHENTICATION_FAILED, NOT_READY, OK, PERMISSION_DENIED
from raftmeta.wire.commands cimport (COMMAND_GROUPS, COMMAND_KEYS, COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE,
                                     COMMAND_LEASE_REVOKE, COMMAND_RECORDS, COMMAND_RIGHTS, COMMAND_SESSION_CLOSE,
                                     COMMAND_SESSION_OPEN, COMMAND_TOPICS, COMMAND_USER, COMMAND_ZNODES,
                                     COMPARE_OF_ALL, COMPARE_RANGE_EMPTY, KEY_BYTES_MAX, OP_DELETE_RANGE,
                                     OP_GET, OP_KEEP_VALUE, OP_KEY_FROM_RESULT, OP_PUT,
                                     OP_RANGE, OP_TXN, OP_WANT_PREVIOUS,
                                     SPEAKER_NODE, SPEAKER_NONE, Bytes, Compare, Op)
from raftmeta.wire.groups cimport GROUP_CONSUMER, GROUP_JOIN, groups_verb
from raftmeta.wire.topics cimport (OFFSETS_COMMIT, OFFSETS_DELETE, TOPIC_NAME_BYTES_MAX, TOPIC_ROOT_BYTES_MAX,
                                   TopicItem, TopicsRequest, topics_decode, topics_next)
from raftmeta.wire.znodes cimport ZNODE_CHECK, ZNODE_CREATE, ZNODE_EPHEMERAL, ZnodeOp


# --- who speaks -------------------------------------------------------------------------------------------------------
cdef status_t rights_know(Rights* rights, const Command* command, SpeakerOf* speaker) noexcept nogil:
    speaker.user = NULL
    speaker.token = NULL
    speaker.is_node = False
    if command.speaker == SPEAKER_NODE:
        speaker.is_node = True
        return OK
    if command.speaker == SPEAKER_NONE:
        return _know_silent(rights, command, speaker)
    speaker.user = table_principal(rights.table, command.principal.data, command.principal.length, &speaker.token)
    if speaker.user != NULL and _secret_since(speaker) > command.rights_revision:
        speaker.user = NULL     # it proved a secret that is not its own any more
    if speaker.user == NULL:
        return <status_t>AUTHENTICATION_FAILED if rights.is_enabled else OK
    return _know_session(rights, command, speaker)

# A token is gone by the time that the secret of its user is another one.
cdef inline uint64_t _secret_since(const SpeakerOf* speaker) noexcept nogil:
    return speaker.token.since if speaker.token != NULL else speaker.user.since

# A node speaks for itself without a session, or in one that it made known as its own. A client's command without a
# principal comes from a node that did not know yet that rights are on:
#     1. rights are enabled; a member that lags has not applied it,
#     2. it hands on the command of a client as it came, as it does while rights are off,
#     3. here that command must not pass for one of the node itself.
cdef status_t _know_silent(Rights* rights, const Command* command, SpeakerOf* speaker) noexcept nogil:
    cdef bint is_own = command.session == 0 or rights_session_owner(rights, command.session) == OWNER_NODE
    speaker.is_node = is_own or command.kind == COMMAND_SESSION_OPEN
    return <status_t>NOT_READY if rights.is_enabled and not speaker.is_node else OK

# Results that a session keeps belong to its owner. A session from before is taken over by the first who speaks in it:
# all that it keeps was answered while rights were off.
cdef status_t _know_session(Rights* rights, const Command* command, SpeakerOf* speaker) noexcept nogil:
    cdef uint64_t session = command.id if command.kind == COMMAND_SESSION_OPEN else command.session
    cdef uint64_t owner = rights_session_owner(rights, session)
    if owner == 0 or owner == speaker.user.number or not rights.is_enabled:
        return OK
    return PERMISSION_DENIED


# --- what it may do ---------------------------------------------------------------------------------------------------
cdef status_t rights_decide(Rights* rights, Leases* leases, const SpeakerOf* speaker, const Command* command,
                            Denial* denial) noexcept nogil:
    cdef const TableUser* user = speaker.user
    memset(denial, 0, sizeof(Denial))
    if speaker.is_node or command.kind == COMMAND_SESSION_OPEN:
        return OK
    if command.kind == COMMAND_SESSION_CLOSE and command.id == command.session:
        return OK
    if user.secret.flags & USER_FOUNDER:
        return OK if _is_verb(command, RIGHTS_CLAIM) else _deny(RIGHT_ADMIN, denial)
    # A token that could change rights could outlive itself.
    if speaker.token != NULL and command.kind == COMMAND_RIGHTS:
        return OK if _token_named(user, command) == speaker.token else _deny(RIGHT_ADMIN, denial)
    if command.kind == COMMAND_RIGHTS and _is_own_secret(user, command):
        return OK
    if user.secret.flags & USER_ONE_TIME:
        return _deny(RIGHT_ADMIN, denial)
    if command.kind == COMMAND_RIGHTS and (_is_for_itself(user, command) or _token_named(user, command) != NULL):
        return OK
    if user.rights & RIGHT_ADMIN:
        return OK
    if command.fence.is_present and not rights_allow(user, RIGHT_READ, &command.fence.key, NULL, True):
        return _deny_keys(RIGHT_READ, &command.fence.key, NULL, True, denial)
    if command.kind == COMMAND_KEYS:
        return _decide_keys(rights, leases, user, command, denial)
    if command.kind == COMMAND_USER:
        # A user machine counts as the key of its name.
        return _need(user, RIGHT_READ | RIGHT_WRITE, &command.name, NULL, True, denial)
    if command.kind == COMMAND_ZNODES:
        return _decide_znodes(rights, leases, user, command, denial)
    if command.kind == COMMAND_GROUPS:
        return _decide_group(rights, leases, user, command, denial)
    if command.kind == COMMAND_TOPICS:
        return _decide_topics(user, command, denial)
    if command.kind == COMMAND_RECORDS:
        return _decide_records(user, command, denial)
    if command.kind in (COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE, COMMAND_LEASE_REVOKE):
        return _decide_lease(rights, leases, user, command, denial)
    return _deny(RIGHT_ADMIN, denial)

cdef inline status_t _deny(uint8_t right, Denial* denial) noexcept nogil:
    denial.right = right
    return PERMISSION_DENIED

cdef status_t _deny_keys(uint8_t right, const Bytes* start, const Bytes* end, bint is_key,
                         Denial* denial) noexcept nogil:
    denial.right = right
    denial.is_key = is_key
    denial.start = start[0]
    if not is_key:
        denial.end = end[0]
    return PERMISSION_DENIED

# All of these rights; the lowest that is missing is told.
cdef status_t _need(const TableUser* user, uint8_t rights, const Bytes* start, const Bytes* end, bint is_key,
                    Denial* denial) noexcept nogil:
    cdef int position = 0
    while rights >> position:
        if rights >> position & 1 and not rights_allow(user, <uint8_t>(1 << position), start, end, is_key):
            return _deny_keys(<uint8_t>(1 << position), start, end, is_key, denial)
        position += 1
    return OK

cdef bint _is_own_secret(const TableUser* user, const Command* command) noexcept nogil:
    if command.id != RIGHTS_USER_PUT or command.data.length != sizeof(UserSecret):
        return False
    return (table_user(user.table, command.name.data, command.name.length) == user
            and (<const UserSecret*>command.data.data).flags == 0)

cdef inline bint _is_verb(const Command* command, uint64_t verb) noexcept nogil:
    return command.kind == COMMAND_RIGHTS and command.id == verb

# A token that it makes for itself.
cdef bint _is_for_itself(const TableUser* user, const Command* command) noexcept nogil:
    return _is_verb(command, RIGHTS_TOKEN_PUT) and (
        command.name.length == 0
        or table_user(user.table, command.name.data, command.name.length) == user)

# The token of the user that the command ends; NULL: it does something else, or names another's.
cdef const TableToken* _token_named(const TableUser* user, const Command* command) noexcept nogil:
    cdef const TableToken* token
    cdef uint64_t id
    if not _is_verb(command, RIGHTS_TOKEN_REMOVE) or command.data.length != sizeof(uint64_t):
        return NULL
    memcpy(&id, command.data.data, sizeof(id))
    token = table_token(user.table, id)
    return token if token != NULL and token.user == user else NULL

cdef status_t _decide_keys(Rights* rights, Leases* leases, const TableUser* user, const Command* command,
                           Denial* denial) noexcept nogil:
    cdef const Compare* compare
    cdef status_t status = OK
    cdef size_t i
    for i in range(command.compares.size):
        compare = &command.compares.data[i]
        status = _need(user, RIGHT_READ, &compare.key, &compare.end,
                       compare.target != COMPARE_RANGE_EMPTY and not compare.target & COMPARE_OF_ALL, denial)
        if status != OK:
            return status
    for i in range(command.ops.size):
        status = _decide_op(rights, leases, user, &command.ops.data[i], denial)
        if status != OK:
            break
    return status

# The rights that an operation needs over its keys. Only a plain put tells nothing about what was there.
cdef inline uint8_t _rights_of(const Op* op) noexcept nogil:
    if op.kind == OP_GET or op.kind == OP_RANGE:
        return RIGHT_READ
    if op.kind == OP_PUT and not op.flags & (OP_WANT_PREVIOUS | OP_KEEP_VALUE):
        return RIGHT_WRITE
    return RIGHT_READ | RIGHT_WRITE

cdef status_t _decide_op(Rights* rights, Leases* leases, const TableUser* user, const Op* op,
                         Denial* denial) noexcept nogil:
    cdef uint8_t needed = _rights_of(op)
    cdef status_t status
    if op.kind == OP_TXN:
        return OK               # what it holds stands in the same arena
    if op.lease != 0:           # its end shows by the revision whether the key was still attached
        needed |= RIGHT_LEASE | RIGHT_READ
    if op.flags & OP_KEY_FROM_RESULT:
        status = _need_numbered(user, needed, &op.key, denial)
    else:
        status = _need(user, needed, &op.key, &op.end, op.kind != OP_RANGE and op.kind != OP_DELETE_RANGE, denial)
    if status == OK and op.lease != 0 and _is_of_another(rights, leases, user, op.lease):
        status = _deny_keys(RIGHT_LEASE, &op.key, NULL, True, denial)
    return status

# A request for znodes tells about each of its keys. A key that is too long is refused later (machine/znodes).
cdef status_t _decide_znodes(Rights* rights, Leases* leases, const TableUser* user, const Command* command,
                             Denial* denial) noexcept nogil:
    cdef const ZnodeOp* op
    cdef uint8_t needed
    cdef status_t status = OK
    cdef size_t i
    if command.id != 0 and _is_of_another(rights, leases, user, command.id):
        return _deny(RIGHT_LEASE, denial)
    for i in range(command.znodes.size):
        op = &command.znodes.data[i]
        needed = RIGHT_READ if op.kind == ZNODE_CHECK else RIGHT_READ | RIGHT_WRITE
        if op.kind == ZNODE_CREATE and op.node_kind == ZNODE_EPHEMERAL:
            needed |= RIGHT_LEASE
        if op.key.length == 0:
            continue
        if op.is_sequential:
            status = _need_numbered(user, needed, &op.key, denial)
        else:
            status = _need(user, needed, &op.key, NULL, True, denial)
        if status != OK:
            break
    return status

# An append tells about the log by its offset. A log's keys are its own, and those behind a zero byte.
cdef status_t _decide_records(const TableUser* user, const Command* command, Denial* denial) noexcept nogil:
    return _need_behind(user, RIGHT_READ | RIGHT_WRITE, &command.name, denial)

# The key, and all keys that have a zero byte behind it.
cdef status_t _need_behind(const TableUser* user, uint8_t needed, const Bytes* key, Denial* denial) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX + 1] high
    cdef Bytes end
    memcpy(high, key.data, key.length)
    high[key.length] = 1
    end.data = high
    end.length = key.length + 1
    if _need(user, needed, key, &end, False, denial) == OK:
        return OK
    return _deny_keys(denial.right, key, NULL, True, denial)

# A group and its members are the keys from its own to the one behind all that have a zero byte there.
cdef status_t _decide_group(Rights* rights, Leases* leases, const TableUser* user, const Command* command,
                            Denial* denial) noexcept nogil:
    cdef uint8_t needed = RIGHT_READ | RIGHT_WRITE
    cdef status_t status
    if groups_verb(&command.data) == GROUP_JOIN or groups_verb(&command.data) == GROUP_CONSUMER and command.ttl_ms != 0:
        needed |= RIGHT_LEASE
    status = _need_behind(user, needed, &command.name, denial)
    if status != OK:
        return status
    return _deny(RIGHT_LEASE, denial) if _is_of_another(rights, leases, user, command.id) else OK

# Offsets stand behind their group, as members do; a topic counts as the key of its name. An offset tells of its topic.
cdef status_t _decide_topics(const TableUser* user, const Command* command, Denial* denial) noexcept nogil:
    cdef uint8_t[TOPIC_ROOT_BYTES_MAX + TOPIC_NAME_BYTES_MAX] room
    cdef uint8_t[KEY_BYTES_MAX + 1] high
    cdef TopicsRequest request
    cdef TopicItem item
    cdef Bytes key, end
    cdef uint32_t place = 0
    cdef bint has_group = False
    cdef uint8_t needed
    cdef status_t status = topics_decode(&command.name, &command.data, &request)
    has_group = request.verb == OFFSETS_COMMIT or request.verb == OFFSETS_DELETE
    needed = RIGHT_READ if has_group else RIGHT_READ | RIGHT_WRITE
    if has_group:
        memcpy(high, request.group.data, request.group.length)
        high[request.group.length] = 2
        end.data = high
        end.length = request.group.length + 1
        if _need(user, RIGHT_READ | RIGHT_WRITE, &request.group, &end, False, denial) != OK:
            return _deny_keys(denial.right, &request.group, NULL, True, denial)
    memcpy(room, command.name.data, command.name.length)
    key.data = room
    while status == OK and topics_next(&request, &place, &item):
        memcpy(&room[0] + command.name.length, item.name.data, item.name.length)
        key.length = command.name.length + item.name.length
        status = _need(user, needed, &key, NULL, True, denial)
    if status != OK:        # the key stands on the stack
        denial.start = command.name
    return status

# Twenty digits follow the key: they stand between '0' and the byte behind '9'.
cdef status_t _need_numbered(const TableUser* user, uint8_t needed, const Bytes* key, Denial* denial) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX + 1] low
    cdef uint8_t[KEY_BYTES_MAX + 1] high
    cdef Bytes start, end
    memcpy(low, key.data, key.length)
    memcpy(high, key.data, key.length)
    low[key.length] = 48
    high[key.length] = 58
    start.data = low
    end.data = high
    start.length = end.length = key.length + 1
    if _need(user, needed, &start, &end, False, denial) == OK:
        return OK
    return _deny_keys(denial.right, key, NULL, True, denial)


# --- leases -----------------------------------------------------------------------------------------------------------
cdef inline bint _is_of_another(Rights* rights, Leases* leases, const TableUser* user, uint64_t id) noexcept nogil:
    return leases_find(leases, id) != NULL and rights_lease_owner(rights, id) != user.number

# Its owner may do with a lease what it may do with the keys: to revoke it is to delete them.
cdef status_t _decide_lease(Rights* rights, Leases* leases, const TableUser* user, const Command* command,
                            Denial* denial) noexcept nogil:
    cdef size_t i
    if not user.rights & RIGHT_LEASE:
        return _deny(RIGHT_LEASE, denial)
    if command.kind == COMMAND_LEASE_GRANT:
        return OK
    for i in range(command.leases.size):
        if _is_of_another(rights, leases, user, command.leases.data[i].lease):
            return _deny(RIGHT_LEASE, denial)
    if command.kind == COMMAND_LEASE_KEEP_ALIVE:
        return OK
    if _is_of_another(rights, leases, user, command.id):
        return _deny(RIGHT_LEASE, denial)
    return _may_delete_all(leases, leases_find(leases, command.id), user, denial)

# No key is named: the order of a lease's keys is not that of other nodes.
cdef status_t _may_delete_all(Leases* leases, const Lease* lease, const TableUser* user,
                              Denial* denial) noexcept nogil:
    cdef const Entry* entry = lease.first if lease != NULL else NULL
    cdef Bytes key
    while entry != NULL:
        key.data = entry_key(entry)
        key.length = entry.key_length
        if not rights_allow(user, RIGHT_WRITE, &key, NULL, True):
            return _deny(RIGHT_WRITE, denial)
        entry = leases.attached.find(<uint64_t>entry).next
    return OK
