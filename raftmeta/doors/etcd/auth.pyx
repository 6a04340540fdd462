"""The Auth service of etcd: bodies.

    permission of etcd    rights over the range                 a range of rights is told as
    READ                  read, watch                           READ if it has read
    WRITE                 write, lease                          WRITE if it has write
    READWRITE             all four                              READWRITE if it has both

Two callers that add the same user or role at the same time may both be told that they did.

Sources: etcd server/auth store.go for what each method decides, api/etcdserverpb rpc.proto, api/authpb auth.proto.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint16_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset, strlen

from raftmeta.connections.connections cimport connection_next_turn
from raftmeta.doors.desk.passwords cimport (PASSWORD_ITERATIONS, PASSWORD_SALT_BYTES, Salting, guesses_allow,
                                            is_private, salting_go, salting_proves, salting_secret)
from raftmeta.doors.desk.rounds cimport round_ask
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.desk.tasks cimport random_bytes
from raftmeta.doors.desk.users cimport Speaker, users_find, users_hold
from raftmeta.doors.etcd.access cimport access_allows
from raftmeta.doors.etcd.calls cimport (call_answer, call_command, call_end, call_fail, call_header, call_message,
                                        call_pin, call_reply, call_rest, call_wait)
from raftmeta.doors.etcd.protobuf cimport (PbReader, pb_begin, pb_end, pb_next, pb_put_bytes, pb_put_element,
                                           pb_put_uint, pb_reader)
from raftmeta.doors.etcd.schema cimport (
    MESSAGE_AUTH_DISABLE, MESSAGE_AUTH_ENABLE, MESSAGE_AUTH_STATUS, MESSAGE_ROLE_ADD, MESSAGE_ROLE_DELETE,
    MESSAGE_ROLE_GET, MESSAGE_ROLE_GRANT, MESSAGE_ROLE_LIST, MESSAGE_ROLE_REVOKE, MESSAGE_USER_ADD,
    MESSAGE_USER_CHANGE_PASSWORD, MESSAGE_USER_DELETE, MESSAGE_USER_GET, MESSAGE_USER_GRANT, MESSAGE_USER_LIST,
    MESSAGE_USER_REVOKE)
from raftmeta.doors.etcd.state cimport (CODE_FAILED_PRECONDITION, CODE_INVALID_ARGUMENT,
                                        CODE_RESOURCE_EXHAUSTED, ETCD_GUESS_SLOTS, EtcdGuesses)
from raftmeta.doors.etcd.tokens cimport TOKEN_TEXT_BYTES_MAX, token_write
from raftmeta.machine.plan cimport compare_bytes
from raftmeta.machine.rights cimport rights_drop
from raftmeta.machine.rights_state cimport (
    RIGHT_ADMIN, RIGHT_LEASE, RIGHT_READ, RIGHT_WATCH, RIGHT_WRITE, RIGHTS_BIND, RIGHTS_DISABLE, RIGHTS_ENABLE,
    RIGHTS_GRANT, RIGHTS_OF_KEYS, RIGHTS_REVOKE, RIGHTS_ROLE_PUT, RIGHTS_ROLE_REMOVE, RIGHTS_UNBIND, RIGHTS_USER_PUT,
    RIGHTS_USER_REMOVE, SEED_BYTES, GrantHead, RightsTable, RightsVerb, TableRole, TableUser, UserSecret)
from raftmeta.machine.rights_table cimport table_user
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64
from raftmeta.status cimport (AUTHENTICATION_FAILED, NAME_UNKNOWN, NO_MEMORY, OK, PERMISSION_DENIED, RIGHTS_LIMIT,
                              status_t)
from raftmeta.wire.commands cimport COMMAND_RIGHTS, KEY_BYTES_MAX, PRINCIPAL_BYTES_MAX, command_clear

cdef enum Next:
    NEXT_ANSWER = 0                 # the method is done
    NEXT_ENDED = 1                  # the call was ended
    NEXT_COMMAND = 2                # door.desk.command is what it needs
    NEXT_WORK = 3                   # a password is being salted

cdef enum PermissionType:
    PERMISSION_READ = 0
    PERMISSION_WRITE = 1
    PERMISSION_BOTH = 2

# A password at work: EtcdCall.data.
cdef struct Work:
    Salting salting
    UserSecret secret               # of Authenticate: what must be proved
    bint is_user                    # ... by a user that may
    bint is_done

# A permission as etcd names it.
cdef struct Permission:
    bint is_given
    uint32_t type
    Bytes key
    Bytes range_end

cdef const char* ROOT = b"root"


# --- messages ---------------------------------------------------------------------------------------------------------
cdef Bytes _text(const Bytes* message, uint32_t field) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef Bytes found = bytes_of(NULL, 0)
    while pb_next(&reader):
        if reader.field == field:
            found = reader.bytes
    return found


cdef bint _is_set(const Bytes* message, uint32_t field) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef bint found = False
    while pb_next(&reader):
        if reader.field == field:
            found = reader.number != 0
    return found


cdef Permission _permission(const Bytes* message) noexcept nogil:
    cdef PbReader reader = pb_reader(message)
    cdef PbReader inner
    cdef Permission found
    memset(&found, 0, sizeof(found))
    while pb_next(&reader):
        if reader.field != 2:
            continue
        found.is_given = True
        inner = pb_reader(&reader.bytes)
        while pb_next(&inner):
            if inner.field == 1:
                found.type = <uint32_t>inner.number
            elif inner.field == 2:
                found.key = inner.bytes
            elif inner.field == 3:
                found.range_end = inner.bytes
    return found


cdef inline bint _is_same(const Bytes* name, const uint8_t* other, size_t length) noexcept nogil:
    return name.length == length and memcmp(name.data, other, length) == 0


cdef inline bint _is_root(const Bytes* name) noexcept nogil:
    return _is_same(name, <const uint8_t*>ROOT, strlen(ROOT))


# --- the rights of now ------------------------------------------------------------------------------------------------
# Names that begin with a zero byte are no user's.
cdef const TableUser* _user(const RightsTable* table, const Bytes* name) noexcept nogil:
    if table == NULL or name.length == 0 or name.length > PRINCIPAL_BYTES_MAX or name.data[0] == 0:
        return NULL
    return table_user(table, name.data, name.length)


cdef const TableRole* _role(const RightsTable* table, const Bytes* name) noexcept nogil:
    cdef size_t i
    if table != NULL:
        for i in range(table.roles.size):
            if _is_same(name, table.roles.data[i].name, table.roles.data[i].name_length):
                return &table.roles.data[i]
    return NULL


cdef bint _is_bound(const RightsTable* table, const TableUser* user, const TableRole* role) noexcept nogil:
    cdef uint32_t i
    for i in range(user.role_count):
        if &table.roles.data[user.roles[i]] == role:
            return True
    return False


cdef inline bint _is_enabled(const RightsTable* table) noexcept nogil:
    return table != NULL and table.is_enabled


# The grant of a role at this place. False: there are no more.
cdef bint _next_grant(const TableRole* role, uint32_t* at, GrantHead* head, Bytes* start, Bytes* end) noexcept nogil:
    if at[0] >= role.grants.length:
        return False
    memcpy(head, role.grants.data + at[0], sizeof(GrantHead))
    at[0] += sizeof(GrantHead)
    start[0] = bytes_of(role.grants.data + at[0], head.start_length)
    end[0] = bytes_of(start.data + head.start_length, head.end_length)
    at[0] += <uint32_t>head.start_length + head.end_length
    return True


# The range of a permission, as rights have it; room: for the end of one key. False: it can hold no key.
cdef bint _range(const Bytes* key, const Bytes* range_end, uint8_t* room, Bytes* end) noexcept nogil:
    if key.length > KEY_BYTES_MAX or range_end.length > KEY_BYTES_MAX:
        return False
    end[0] = range_end[0]
    if range_end.length == 1 and range_end.data[0] == 0:
        end[0] = bytes_of(NULL, 0)
        return True
    if range_end.length == 0:
        if key.length == 0 or key.length == KEY_BYTES_MAX:
            return False
        memcpy(room, key.data, key.length)
        room[key.length] = 0
        end[0] = bytes_of(room, key.length + 1)
        return True
    return compare_bytes(key.data, key.length, range_end.data, range_end.length) < 0


# The rights of the role over exactly this range.
cdef uint8_t _granted(const TableRole* role, const Bytes* start, const Bytes* end) noexcept nogil:
    cdef GrantHead head
    cdef Bytes from_key, to_key
    cdef uint32_t at = 0
    while _next_grant(role, &at, &head, &from_key, &to_key):
        if _is_same(start, from_key.data, from_key.length) and _is_same(end, to_key.data, to_key.length):
            return head.rights & RIGHTS_OF_KEYS
    return 0


# --- what a method needs next -----------------------------------------------------------------------------------------
cdef Next _end(EtcdDoor* door, EtcdCall* call, int32_t code, const char* text) noexcept nogil:
    call_end(door, call, code, text)
    return NEXT_ENDED


# A verb about a user or role; data: in door.scratch.
cdef Next _command(EtcdDoor* door, RightsVerb verb, const Bytes* name) noexcept nogil:
    command_clear(&door.desk.command)
    door.desk.command.kind = COMMAND_RIGHTS
    door.desk.command.id = verb
    if name != NULL:
        door.desk.command.name = name[0]
    door.desk.command.data = bytes_of(door.scratch.data, door.scratch.size)
    return NEXT_COMMAND


cdef Next _plain(EtcdDoor* door, EtcdCall* call, RightsVerb verb, const Bytes* name, const Bytes* data) noexcept nogil:
    door.scratch.clear()
    if data != NULL and data.length and not door.scratch.append(data.data, data.length):
        call_fail(door, call, NO_MEMORY)
        return NEXT_ENDED
    return _command(door, verb, name)


cdef Next _grant(EtcdDoor* door, EtcdCall* call, RightsVerb verb, const Bytes* role, uint8_t rights,
                 const Bytes* start, const Bytes* end) noexcept nogil:
    cdef GrantHead head
    head.rights = rights
    head.start_length = <uint16_t>start.length
    head.end_length = <uint16_t>end.length
    door.scratch.clear()
    if (not door.scratch.append(<const uint8_t*>&head, sizeof(head))
            or not (start.length == 0 or door.scratch.append(start.data, start.length))
            or not (end.length == 0 or door.scratch.append(end.data, end.length))):
        call_fail(door, call, NO_MEMORY)
        return NEXT_ENDED
    return _command(door, verb, role)


# A role "root" as etcd has one: it may do everything. NEXT_ANSWER: it is there.
cdef Next _make_root(EtcdDoor* door, EtcdCall* call, const RightsTable* table) noexcept nogil:
    cdef Bytes name = bytes_of(<const uint8_t*>ROOT, strlen(ROOT))
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef const TableRole* role = _role(table, &name)
    if role == NULL:
        return _plain(door, call, RIGHTS_ROLE_PUT, &name, NULL)
    if not role.rights & RIGHT_ADMIN:
        return _grant(door, call, RIGHTS_GRANT, &name, RIGHT_ADMIN, &nothing, &nothing)
    return NEXT_ANSWER


cdef Next _enable(EtcdDoor* door, EtcdCall* call, const RightsTable* table) noexcept nogil:
    cdef Bytes name = bytes_of(<const uint8_t*>ROOT, strlen(ROOT))
    cdef const TableUser* user = _user(table, &name)
    cdef uint8_t[SEED_BYTES] seed
    cdef Bytes data = bytes_of(seed, SEED_BYTES)
    if _is_enabled(table):
        return NEXT_ANSWER
    if user == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: root user does not exist")
    if not user.rights & RIGHT_ADMIN:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: root user does not have root role")
    if not random_bytes(seed, SEED_BYTES):
        call_fail(door, call, NO_MEMORY)
        return NEXT_ENDED
    return _plain(door, call, RIGHTS_ENABLE, NULL, &data)


# The verifier of the password in the message, as the secret of the user.
cdef Next _set_password(EtcdDoor* door, EtcdCall* call, const Bytes* name, const Bytes* password) noexcept nogil:
    cdef Work* work = <Work*>call.data
    cdef UserSecret secret
    cdef Bytes data = bytes_of(<const uint8_t*>&secret, sizeof(secret))
    cdef Next next
    if work == NULL:
        if not is_private(&call.connection.base):
            return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: passwords are taken over TLS only")
        work = <Work*>calloc(1, sizeof(Work))
        call.data = work
        if work == NULL or not random_bytes(work.salting.salt, PASSWORD_SALT_BYTES):
            call_fail(door, call, NO_MEMORY)
            return NEXT_ENDED
        work.salting.iterations = PASSWORD_ITERATIONS
    if not work.is_done:
        work.is_done = salting_go(&work.salting, password)
        return NEXT_WORK
    salting_secret(&work.salting, &secret)
    next = _plain(door, call, RIGHTS_USER_PUT, name, &data)
    memset(&secret, 0, sizeof(secret))
    return next


cdef Next _put_without_password(EtcdDoor* door, EtcdCall* call, const Bytes* name) noexcept nogil:
    cdef UserSecret secret
    cdef Bytes data = bytes_of(<const uint8_t*>&secret, sizeof(secret))
    memset(&secret, 0, sizeof(secret))
    return _plain(door, call, RIGHTS_USER_PUT, name, &data)


cdef Next _user_add(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    cdef Bytes password = _text(message, 2)
    cdef Bytes options = _text(message, 3)
    if call.step:
        return NEXT_ANSWER
    if name.length == 0:
        return _end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: user name is empty")
    if name.length > PRINCIPAL_BYTES_MAX or name.data[0] == 0:
        return _end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: a user name has at most 64 bytes")
    if _user(table, &name) != NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: user name already exists")
    if _is_set(&options, 1):
        return _put_without_password(door, call, &name)
    return _set_password(door, call, &name, &password)


cdef Next _user_password(EtcdDoor* door, EtcdCall* call, const RightsTable* table,
                         const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    cdef Bytes password = _text(message, 2)
    cdef const TableUser* user = _user(table, &name)
    if call.step:
        return NEXT_ANSWER
    if user == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: user name not found")
    if user.secret.iterations == 0:
        return _put_without_password(door, call, &name)     # it stays one without
    return _set_password(door, call, &name, &password)


cdef Next _user_delete(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    if call.step:
        return NEXT_ANSWER
    if _is_enabled(table) and _is_root(&name):
        return _end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: invalid auth management")
    if _user(table, &name) == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: user name not found")
    return _plain(door, call, RIGHTS_USER_REMOVE, &name, NULL)


cdef Next _user_grant(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    cdef Bytes role_name = _text(message, 2)
    cdef const TableUser* user = _user(table, &name)
    cdef const TableRole* role = _role(table, &role_name)
    cdef Next next = NEXT_ANSWER
    if user == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: user name not found")
    if _is_root(&role_name):
        next = _make_root(door, call, table)
    elif role == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: role name not found")
    if next != NEXT_ANSWER or _is_bound(table, user, role):
        return next
    return _plain(door, call, RIGHTS_BIND, &name, &role_name)


cdef Next _user_revoke(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    cdef Bytes role_name = _text(message, 2)
    cdef const TableUser* user = _user(table, &name)
    cdef const TableRole* role = _role(table, &role_name)
    if call.step:
        return NEXT_ANSWER
    if _is_enabled(table) and _is_root(&name) and _is_root(&role_name):
        return _end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: invalid auth management")
    if user == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: user name not found")
    if role == NULL or not _is_bound(table, user, role):
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: role is not granted to the user")
    return _plain(door, call, RIGHTS_UNBIND, &name, &role_name)


cdef Next _role_add(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    cdef const TableRole* role = _role(table, &name)
    if name.length == 0:
        return _end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: role name is empty")
    if name.length > PRINCIPAL_BYTES_MAX or name.data[0] == 0:
        return _end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: a role name has at most 64 bytes")
    if call.step == 0 and role != NULL and (role.rights & RIGHT_ADMIN or not _is_root(&name)):
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: role name already exists")
    if _is_root(&name):
        return _make_root(door, call, table)
    return NEXT_ANSWER if call.step else _plain(door, call, RIGHTS_ROLE_PUT, &name, NULL)


cdef Next _role_delete(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    if call.step:
        return NEXT_ANSWER
    if _is_enabled(table) and _is_root(&name):
        return _end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: invalid auth management")
    if _role(table, &name) == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: role name not found")
    return _plain(door, call, RIGHTS_ROLE_REMOVE, &name, NULL)


# A permission takes the place of the one over the same range: first it gets what is missing.
cdef Next _role_grant(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    cdef Permission permission = _permission(message)
    cdef const TableRole* role = _role(table, &name)
    cdef uint8_t[KEY_BYTES_MAX + 1] room
    cdef uint8_t wanted = 0
    cdef uint8_t granted
    cdef Bytes end
    if not permission.is_given:
        return _end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: permission not given")
    if role == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: role name not found")
    if (not _range(&permission.key, &permission.range_end, room, &end)
            or permission.type > <uint32_t>PERMISSION_BOTH):
        return _end(door, call, CODE_INVALID_ARGUMENT, b"etcdserver: invalid auth management")
    if permission.type != PERMISSION_WRITE:
        wanted |= RIGHT_READ | RIGHT_WATCH
    if permission.type != PERMISSION_READ:
        wanted |= RIGHT_WRITE | RIGHT_LEASE
    granted = _granted(role, &permission.key, &end)
    if wanted & ~granted:
        return _grant(door, call, RIGHTS_GRANT, &name, wanted & ~granted, &permission.key, &end)
    if granted & ~wanted:
        return _grant(door, call, RIGHTS_REVOKE, &name, granted & ~wanted, &permission.key, &end)
    return NEXT_ANSWER


cdef Next _role_revoke(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    cdef Bytes key = _text(message, 2)
    cdef Bytes range_end = _text(message, 3)
    cdef const TableRole* role = _role(table, &name)
    cdef uint8_t[KEY_BYTES_MAX + 1] room
    cdef uint8_t granted = 0
    cdef Bytes end
    if call.step:
        return NEXT_ANSWER
    if role == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: role name not found")
    if _range(&key, &range_end, room, &end):
        granted = _granted(role, &key, &end)
    if granted == 0:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: permission is not granted to the role")
    return _grant(door, call, RIGHTS_REVOKE, &name, granted, &key, &end)


# A question about one user or role: it must be there, and who asks must be an admin, or have to do with it.
cdef Next _show(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef Bytes name = _text(message, 1)
    cdef bint is_user = call.handler.request == MESSAGE_USER_GET
    cdef const TableUser* speaker = users_find(table, &call.speaker) if _is_enabled(table) else NULL
    cdef const TableRole* role = _role(table, &name)
    cdef bint is_own = speaker != NULL and (speaker == _user(table, &name) if is_user
                                            else role != NULL and _is_bound(table, speaker, role))
    if not is_own and not access_allows(door, call, RIGHT_ADMIN, NULL, NULL):
        return NEXT_ENDED
    if is_user and _user(table, &name) == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: user name not found")
    if not is_user and role == NULL:
        return _end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: role name not found")
    return NEXT_ANSWER


cdef Next _next(EtcdDoor* door, EtcdCall* call, const RightsTable* table, const Bytes* message) noexcept nogil:
    cdef uint16_t method = call.handler.request
    if method == MESSAGE_USER_GET or method == MESSAGE_ROLE_GET:
        return _show(door, call, table, message)
    # Rights may be on by the time that the first entry is applied, and its caller is nobody then.
    if call.step == 0 and not access_allows(door, call, RIGHT_ADMIN, NULL, NULL):
        return NEXT_ENDED
    if method == MESSAGE_AUTH_ENABLE:
        return _enable(door, call, table)
    if method == MESSAGE_AUTH_DISABLE:
        return _plain(door, call, RIGHTS_DISABLE, NULL, NULL) if _is_enabled(table) else NEXT_ANSWER
    if method == MESSAGE_USER_ADD:
        return _user_add(door, call, table, message)
    if method == MESSAGE_USER_CHANGE_PASSWORD:
        return _user_password(door, call, table, message)
    if method == MESSAGE_USER_DELETE:
        return _user_delete(door, call, table, message)
    if method == MESSAGE_USER_GRANT:
        return _user_grant(door, call, table, message)
    if method == MESSAGE_USER_REVOKE:
        return _user_revoke(door, call, table, message)
    if method == MESSAGE_ROLE_ADD:
        return _role_add(door, call, table, message)
    if method == MESSAGE_ROLE_DELETE:
        return _role_delete(door, call, table, message)
    if method == MESSAGE_ROLE_GRANT:
        return _role_grant(door, call, table, message)
    if method == MESSAGE_ROLE_REVOKE:
        return _role_revoke(door, call, table, message)
    return NEXT_ANSWER              # AuthStatus and the lists


# --- answers ----------------------------------------------------------------------------------------------------------
cdef bint _put_name(Vec[uint8_t]* out, const uint8_t* name, uint32_t length) noexcept nogil:
    cdef Bytes text = bytes_of(name, length)
    return pb_put_element(out, 2, &text)


cdef bint _put_users(Vec[uint8_t]* out, const RightsTable* table) noexcept nogil:
    cdef size_t i
    for i in range(table.users.size):
        if table.users.data[i].name[0] != 0 and not _put_name(out, table.users.data[i].name,
                                                              table.users.data[i].name_length):
            return False
    return True


# All roles, or those of a user.
cdef bint _put_roles(Vec[uint8_t]* out, const RightsTable* table, const TableUser* user) noexcept nogil:
    cdef const TableRole* role
    cdef size_t i
    for i in range(table.roles.size):
        role = &table.roles.data[i]
        if (user == NULL or _is_bound(table, user, role)) and not _put_name(out, role.name, role.name_length):
            return False
    return True


cdef bint _put_permission(Vec[uint8_t]* out, uint32_t type, const Bytes* start, const Bytes* end) noexcept nogil:
    cdef uint8_t last = 0
    cdef Bytes range_end = end[0]
    cdef size_t place = pb_begin(out, 2)
    if end.length == 0:
        range_end = bytes_of(&last, 1)
    elif (end.length == start.length + 1 and end.data[start.length] == 0
          and memcmp(start.data, end.data, start.length) == 0):
        range_end = bytes_of(NULL, 0)
    return (place != 0 and pb_put_uint(out, 1, type) and pb_put_bytes(out, 2, start)
            and pb_put_bytes(out, 3, &range_end) and pb_end(out, place))


cdef bint _put_permissions(Vec[uint8_t]* out, const TableRole* role) noexcept nogil:
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes start, end
    cdef GrantHead head
    cdef uint32_t at = 0
    cdef uint32_t type
    if role.rights & RIGHT_ADMIN:
        return _put_permission(out, PERMISSION_BOTH, &nothing, &nothing)
    while _next_grant(role, &at, &head, &start, &end):
        if not head.rights & (RIGHT_READ | RIGHT_WRITE):
            continue
        type = PERMISSION_READ
        if head.rights & RIGHT_WRITE:
            type = PERMISSION_BOTH if head.rights & RIGHT_READ else PERMISSION_WRITE
        if not _put_permission(out, type, &start, &end):
            return False
    return True


cdef bint _put_answer(EtcdCall* call, const RightsTable* table, const Bytes* message, Vec[uint8_t]* out) noexcept nogil:
    cdef uint16_t method = call.handler.request
    cdef Bytes name = _text(message, 1)
    if method == MESSAGE_AUTH_STATUS:
        return (pb_put_uint(out, 2, _is_enabled(table))
                and pb_put_uint(out, 3, 1 + (table.revision if table != NULL else 0)))
    if table == NULL:
        return True
    if method == MESSAGE_USER_LIST:
        return _put_users(out, table)
    if method == MESSAGE_ROLE_LIST:
        return _put_roles(out, table, NULL)
    if method == MESSAGE_USER_GET:
        return _put_roles(out, table, _user(table, &name))
    return method != MESSAGE_ROLE_GET or _put_permissions(out, _role(table, &name))


# --- all but Authenticate ---------------------------------------------------------------------------------------------
cdef void _submit(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef status_t status = OK
    call_rest(call)
    if not call_command(door, call, 0, True, &status):
        call_fail(door, call, status)


cdef void _go_on(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef RightsTable* table = users_hold(&door.desk)
    cdef Bytes message = call_message(call)
    cdef Vec[uint8_t]* out
    cdef Next next = _next(door, call, table, &message)
    if next == NEXT_COMMAND:
        _submit(door, call)
    elif next == NEXT_WORK:
        call_wait(door, call)
        connection_next_turn(&door.desk.base, &call.connection.base)
    elif next == NEXT_ANSWER:
        out = call_reply(door)
        call_answer(door, call, call_header(door, out, door.desk.status.machine.revision)
                    and _put_answer(call, table, &message, out))
    if table != NULL:
        rights_drop(table)


# A user may ask for itself, so whether it may is decided behind the round.
cdef void auth_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    call.round = round_ask(&door.desk)
    call_wait(door, call)


cdef void auth_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    if call_pin(door, call):
        _go_on(door, call)


# The loop publishes the state before it answers, so the rights of now have the change.
cdef void auth_answered(EtcdDoor* door, EtcdCall* call, EtcdTask* task) noexcept nogil:
    cdef status_t status = task.base.ticket.status
    if status == RIGHTS_LIMIT:
        call_end(door, call, CODE_RESOURCE_EXHAUSTED, b"etcdserver: too many users, roles or permissions")
    elif status == NAME_UNKNOWN:
        call.step = 0               # somebody took it away in the meantime: its words for that follow
        _go_on(door, call)
    elif status != OK:
        call_fail(door, call, status)
    else:
        call.step = 1
        _go_on(door, call)


cdef void auth_closed(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    if call.data != NULL:
        memset(call.data, 0, sizeof(Work))
        free(call.data)
    call.data = NULL


# --- Authenticate -----------------------------------------------------------------------------------------------------
cdef EtcdGuesses* _guesses_of(EtcdDoor* door, const Bytes* name) noexcept nogil:
    return &door.guesses[hash64(0, name.data, name.length) % ETCD_GUESS_SLOTS]


# Whom the name means. A name that is no user's costs as much work as one that is. False: the call was ended.
cdef bint _begin(EtcdDoor* door, EtcdCall* call, const Bytes* name) noexcept nogil:
    cdef RightsTable* table = users_hold(&door.desk)
    cdef Work* work = <Work*>calloc(1, sizeof(Work))
    cdef const TableUser* user = _user(table, name)
    cdef bint is_enabled = _is_enabled(table)
    call.data = work
    if work != NULL:
        work.salting.iterations = PASSWORD_ITERATIONS
    if work != NULL and user != NULL and user.secret.iterations != 0:
        work.is_user = user.secret.flags == 0
        work.secret = user.secret
        work.salting.iterations = user.secret.iterations
        memcpy(work.salting.salt, user.secret.salt, PASSWORD_SALT_BYTES)
        call.number = table.revision
    if table != NULL:
        rights_drop(table)
    if not is_enabled:
        call_end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: authentication is not enabled")
        return False
    if work == NULL:
        call_fail(door, call, NO_MEMORY)
        return False
    return True


cdef void _refuse(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    door.counters.denied += 1
    call.status = AUTHENTICATION_FAILED
    call_end(door, call, CODE_INVALID_ARGUMENT,
             b"etcdserver: authentication failed, invalid user ID or password")


# The password is right.
cdef void _prove(EtcdDoor* door, EtcdCall* call, const Bytes* name) noexcept nogil:
    cdef RightsTable* table = users_hold(&door.desk)
    cdef uint8_t[TOKEN_TEXT_BYTES_MAX] text
    cdef Bytes token = bytes_of(text, 0)
    cdef Vec[uint8_t]* out = call_reply(door)
    cdef Speaker speaker
    memset(&speaker, 0, sizeof(speaker))
    speaker.name_length = <uint8_t>name.length
    memcpy(speaker.name, name.data, name.length)
    speaker.since = call.number
    if table != NULL:
        if table.has_seed:
            token.length = token_write(table.seed, &speaker, door.desk.status.machine.lease_ms, text)
        rights_drop(table)
    if token.length == 0:
        call_end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: the cluster's rights have no seed for tokens")
        return
    call.speaker = speaker          # for the audit trail
    call_answer(door, call, call_header(door, out, door.desk.status.machine.revision)
                and pb_put_bytes(out, 2, &token))


cdef void authenticate_message(EtcdDoor* door, EtcdCall* call, const Bytes* message) noexcept nogil:
    if not is_private(&call.connection.base):
        call.status = PERMISSION_DENIED
        call_end(door, call, CODE_FAILED_PRECONDITION, b"etcdserver: passwords are taken over TLS only")
        return
    auth_message(door, call, message)


cdef void authenticate_go(EtcdDoor* door, EtcdCall* call) noexcept nogil:
    cdef Bytes message = call_message(call)
    cdef Bytes name = _text(&message, 1)
    cdef Bytes password = _text(&message, 2)
    cdef EtcdGuesses* guesses = _guesses_of(door, &name)
    cdef Work* work
    if call.data == NULL and (not call_pin(door, call) or not _begin(door, call, &name)):
        return
    work = <Work*>call.data
    if not salting_go(&work.salting, &password):
        connection_next_turn(&door.desk.base, &call.connection.base)
    elif not guesses_allow(&guesses.count, &guesses.since_ns, door.desk.base.now_ns):
        _refuse(door, call)
    elif not work.is_user or not salting_proves(&work.salting, &work.secret):
        guesses.count += 1
        _refuse(door, call)
    else:
        _prove(door, call, &name)
