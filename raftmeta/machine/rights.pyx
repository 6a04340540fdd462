"""Rights as state: bodies.

A change is made on the state, then a new table is made of all of it and takes the place of the one before. That costs
time for all users at each change, and changes are rare. A table lives until its last holder dropped it.
"""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from raftmeta.machine.plan cimport compare_bytes
from raftmeta.machine.rights_state cimport (FIRST_NUMBER, FORMAT_GRANTS_BYTES_MAX, FORMAT_ITERATIONS_MAX,
                                            FORMAT_ITERATIONS_MIN, FORMAT_ROLES_MAX, FORMAT_ROLES_OF_USER_MAX,
                                            FORMAT_USERS_MAX, RIGHTS_ALL, RIGHTS_BIND, RIGHTS_DISABLE, RIGHTS_ENABLE,
                                            RIGHTS_CLAIM, RIGHTS_FOUND, RIGHTS_FOUND_AGAIN, RIGHTS_GRANT,
                                            RIGHTS_OF_KEYS, RIGHTS_REVOKE, RIGHTS_ROLE_PUT, RIGHTS_ROLE_REMOVE,
                                            RIGHTS_TOKEN_PUT, RIGHTS_TOKEN_REMOVE, RIGHTS_UNBIND, RIGHTS_USER_PUT,
                                            RIGHTS_USER_REMOVE, RIGHT_ADMIN, USER_FOUNDER,
                                            USER_ONE_TIME, FORMAT_TOKENS_MAX, FORMAT_TOKENS_OF_USER_MAX,
                                            FORMAT_TOKEN_TTL_MS_MAX, FOUNDER_NAME_BYTES, GrantHead, Role, Token,
                                            TokenAsked, User)
from raftmeta.machine.rights_table cimport seed_is_set, table_create, table_destroy
from raftmeta.machine.state_hash cimport hash_minus, hash_plus
from raftmeta.native.atomics cimport add_shared, give_way, load_acquire, store_release, subtract_shared, swap_shared
from raftmeta.native.containers cimport Map64
from raftmeta.native.intrinsics cimport Hash128, hash128
from raftmeta.status cimport (BAD_FIELD, BAD_LENGTH, COMMAND_INVALID, COMPARE_FAILED, NAME_UNKNOWN, NO_MEMORY, OK,
                              RIGHTS_LIMIT)
from raftmeta.wire.commands cimport KEY_BYTES_MAX, PRINCIPAL_BYTES_MAX, Bytes

cdef enum:
    # Keep the hashes of the parts apart.
    FORMAT_ITEM_SEED = 0x71947      # and the next two: one for each kind of item
    FORMAT_SESSION_SEED = 0x7194A
    FORMAT_LEASE_SEED = 0x7194B
    FORMAT_TOKEN_SEED = 0x7194C

cdef const char* FOUNDER_NAME = b"\0f"
cdef const char* ADMIN_ROLE = b"admin"

# The part of an owner that the state hash covers.
cdef packed struct OwnerImage:
    uint64_t id
    uint64_t owner


# --- life -------------------------------------------------------------------------------------------------------------
cdef void rights_release(Rights* rights) noexcept nogil:
    cdef size_t i
    for i in range(rights.users.size):
        rights.users.data[i].roles.release()
    for i in range(rights.roles.size):
        rights.roles.data[i].grants.release()
    rights.users.release()
    rights.roles.release()
    rights.tokens.release()
    rights.ended.release()
    rights.session_owners.release()
    rights.lease_owners.release()
    if rights.table != NULL:
        rights_drop(rights.table)

# The gate is held for a few instructions, and by the applying thread only when rights change.
cdef void _enter(Rights* rights) noexcept nogil:
    while not swap_shared[uint32_t](&rights.gate, 0, 1):
        give_way()

cdef RightsTable* rights_hold(Rights* rights) noexcept nogil:
    cdef RightsTable* table
    if load_acquire(&rights.table) == NULL:
        return NULL
    _enter(rights)
    table = rights.table
    add_shared[uint32_t](&table.holders, 1)
    store_release[uint32_t](&rights.gate, 0)
    return table

cdef void rights_drop(RightsTable* table) noexcept nogil:
    if subtract_shared[uint32_t](&table.holders, 1) == 0:
        table_destroy(table)

cdef status_t _show(Rights* rights) noexcept nogil:
    cdef RightsTable* before = rights.table
    cdef RightsTable* table = table_create(rights)
    if table == NULL:
        return NO_MEMORY
    _enter(rights)
    store_release(&rights.table, table)
    store_release[uint32_t](&rights.gate, 0)
    if before != NULL:
        rights_drop(before)
    return OK


# --- names ------------------------------------------------------------------------------------------------------------
# The place of the first user (role) whose name is not before `name`.
cdef size_t _user_place(const Rights* rights, const Bytes* name) noexcept nogil:
    cdef size_t place = 0
    while place < rights.users.size and compare_bytes(rights.users.data[place].name,
                                                      rights.users.data[place].name_length, name.data,
                                                      name.length) < 0:
        place += 1
    return place

cdef size_t _role_place(const Rights* rights, const Bytes* name) noexcept nogil:
    cdef size_t place = 0
    while place < rights.roles.size and compare_bytes(rights.roles.data[place].name,
                                                      rights.roles.data[place].name_length, name.data,
                                                      name.length) < 0:
        place += 1
    return place

cdef User* _user(const Rights* rights, const Bytes* name) noexcept nogil:
    cdef size_t place = _user_place(rights, name)
    cdef User* user = rights.users.data + place
    if place < rights.users.size and compare_bytes(user.name, user.name_length, name.data, name.length) == 0:
        return user
    return NULL

cdef Role* _role(const Rights* rights, const Bytes* name) noexcept nogil:
    cdef size_t place = _role_place(rights, name)
    cdef Role* role = rights.roles.data + place
    if place < rights.roles.size and compare_bytes(role.name, role.name_length, name.data, name.length) == 0:
        return role
    return NULL

cdef inline bint _is_name(const Bytes* name) noexcept nogil:
    return 1 <= name.length <= PRINCIPAL_BYTES_MAX and name.data[0] != 0


# --- changes ----------------------------------------------------------------------------------------------------------
cdef status_t rights_change(Rights* rights, const Command* command) noexcept nogil:
    cdef status_t status
    if rights.next_number == 0:
        rights.next_number = FIRST_NUMBER
    status = _change(rights, command)
    if status != OK:
        return status
    rights.revision += 1
    if not _hash_items(rights):
        return NO_MEMORY
    return _show(rights)

cdef status_t _change(Rights* rights, const Command* command) noexcept nogil:
    if command.id == RIGHTS_ENABLE or command.id == RIGHTS_DISABLE:
        return _switch(rights, command)
    if command.id == RIGHTS_FOUND or command.id == RIGHTS_FOUND_AGAIN:
        return _found(rights, command)
    if command.id == RIGHTS_TOKEN_REMOVE:
        return _remove_token(rights, command)
    if not _is_name(&command.name):
        return COMMAND_INVALID
    if command.id == RIGHTS_CLAIM:
        return _claim(rights, command)
    if command.id == RIGHTS_TOKEN_PUT:
        return _put_token(rights, command)
    if command.id == RIGHTS_USER_PUT:
        return _put_user(rights, &command.name, &command.data)
    if command.id == RIGHTS_ROLE_PUT:
        return _put_role(rights, &command.name, &command.data)
    if command.id == RIGHTS_USER_REMOVE or command.id == RIGHTS_ROLE_REMOVE:
        return _remove(rights, command)
    if command.id == RIGHTS_GRANT or command.id == RIGHTS_REVOKE:
        return _change_grants(rights, command)
    if command.id == RIGHTS_BIND or command.id == RIGHTS_UNBIND:
        return _change_roles(rights, command)
    return COMMAND_INVALID

# Rights are turned on or off. The first seed stays.
cdef status_t _switch(Rights* rights, const Command* command) noexcept nogil:
    cdef bint is_on = command.id == RIGHTS_ENABLE
    if command.name.length or (command.data.length and (not is_on or command.data.length != SEED_BYTES)):
        return COMMAND_INVALID
    if command.data.length:
        _take_seed(rights, command.data.data)
    rights.is_enabled = is_on
    return OK

cdef void _take_seed(Rights* rights, const uint8_t* seed) noexcept nogil:
    if not seed_is_set(rights.seed):
        memcpy(rights.seed, seed, SEED_BYTES)

cdef bint _is_secret(const UserSecret* secret, uint32_t flags) noexcept nogil:
    cdef UserSecret none
    memset(&none, 0, sizeof(none))
    if secret.flags & ~flags:
        return False
    if secret.iterations == 0:
        none.flags = secret.flags
        return compare_bytes(<const uint8_t*>secret, sizeof(none), <const uint8_t*>&none, sizeof(none)) == 0
    return FORMAT_ITERATIONS_MIN <= secret.iterations <= FORMAT_ITERATIONS_MAX

cdef status_t _put_user(Rights* rights, const Bytes* name, const Bytes* data) noexcept nogil:
    cdef const UserSecret* secret = <const UserSecret*>data.data
    cdef User* user = _user(rights, name)
    if data.length != sizeof(UserSecret) or not _is_secret(secret, USER_ONE_TIME):
        return COMMAND_INVALID
    return _set_secret(rights, user, name, secret)

cdef status_t _set_secret(Rights* rights, User* user, const Bytes* name, const UserSecret* secret) noexcept nogil:
    cdef User fresh
    if user == NULL:
        if rights.users.size == FORMAT_USERS_MAX:
            return RIGHTS_LIMIT
        memset(&fresh, 0, sizeof(fresh))
        fresh.name_length = <uint8_t>name.length
        memcpy(fresh.name, name.data, name.length)
        fresh.number = _next_number(rights)
        user = _insert_user(rights, &fresh, _user_place(rights, name))
        if user == NULL:
            return NO_MEMORY
    user.secret = secret[0]
    user.since = rights.revision + 1
    return OK if _end_tokens(rights, user.number) else NO_MEMORY

# --- the founding -----------------------------------------------------------------------------------------------------
cdef Bytes _name_of(const char* text, uint32_t length) noexcept nogil:
    cdef Bytes name
    name.data = <const uint8_t*>text
    name.length = length
    return name

# The secret of the founder, in the place of the one before. At the founding of rights they are on at once, so that
# nobody but the founder and the nodes can do anything before there is an admin.
cdef status_t _found(Rights* rights, const Command* command) noexcept nogil:
    cdef const UserSecret* secret = <const UserSecret*>command.data.data
    cdef Bytes name = _name_of(FOUNDER_NAME, FOUNDER_NAME_BYTES)
    cdef status_t status
    if (command.name.length or command.data.length != sizeof(UserSecret) + SEED_BYTES
            or not _is_secret(secret, USER_FOUNDER) or secret.flags != USER_FOUNDER or secret.iterations == 0):
        return COMMAND_INVALID
    if command.id == RIGHTS_FOUND and rights.revision != 0:
        return COMPARE_FAILED
    status = _set_secret(rights, _user(rights, &name), &name, secret)
    if status != OK:
        return status
    _take_seed(rights, command.data.data + sizeof(UserSecret))
    rights.is_enabled = rights.is_enabled or command.id == RIGHTS_FOUND
    return OK

# The founder becomes an admin under a name and with a secret of its own, in one entry: its token counts once. Room for
# the user, the role and the grant is looked for first, so that a refusal changes nothing.
cdef status_t _claim(Rights* rights, const Command* command) noexcept nogil:
    cdef Bytes founder = _name_of(FOUNDER_NAME, FOUNDER_NAME_BYTES)
    cdef Bytes role = _name_of(ADMIN_ROLE, 5)
    cdef Bytes nothing = _name_of(NULL, 0)
    cdef GrantHead all_keys
    cdef const UserSecret* secret = <const UserSecret*>command.data.data
    cdef User* user = _user(rights, &command.name)
    cdef Role* held
    cdef status_t status
    if command.data.length != sizeof(UserSecret) or not _is_secret(secret, 0):
        return COMMAND_INVALID
    if _user(rights, &founder) == NULL:
        return NAME_UNKNOWN
    if user != NULL and user.roles.size == FORMAT_ROLES_OF_USER_MAX:
        return RIGHTS_LIMIT
    if _role(rights, &role) == NULL and rights.roles.size == FORMAT_ROLES_MAX:
        return RIGHTS_LIMIT
    held = _role(rights, &role)
    if held != NULL and held.grants.size + sizeof(GrantHead) > FORMAT_GRANTS_BYTES_MAX:
        return RIGHTS_LIMIT
    _remove_user(rights, _user(rights, &founder))
    all_keys.rights = RIGHT_ADMIN
    all_keys.start_length = all_keys.end_length = 0
    status = _set_secret(rights, _user(rights, &command.name), &command.name, secret)
    if status == OK:
        status = _put_role(rights, &role, &nothing)
    if status == OK:
        status = _add_grant(_role(rights, &role), <const uint8_t*>&all_keys, sizeof(GrantHead), True)
    if status == OK:
        status = _bind(_user(rights, &command.name), _role(rights, &role).number)
    rights.is_enabled = True
    return status


# --- tokens -----------------------------------------------------------------------------------------------------------
cdef size_t _token_place(const Rights* rights, uint64_t id) noexcept nogil:
    cdef size_t place = 0
    while place < rights.tokens.size and rights.tokens.data[place].id < id:
        place += 1
    return place

cdef bint rights_has_token(const Rights* rights, uint64_t id) noexcept nogil:
    cdef size_t place = _token_place(rights, id)
    return place < rights.tokens.size and rights.tokens.data[place].id == id

cdef void rights_token_name(uint64_t id, uint8_t* name) noexcept nogil:
    name[0] = 0
    memcpy(name + 1, &id, sizeof(id))

cdef status_t rights_check_token(Rights* rights, const Command* command) noexcept nogil:
    cdef const TokenAsked* asked = <const TokenAsked*>command.data.data
    cdef UserSecret secret
    cdef User* user
    cdef size_t i, count
    if command.data.length != sizeof(TokenAsked) or not _is_name(&command.name):
        return COMMAND_INVALID
    secret = asked.secret
    if (asked.id == 0 or not 1 <= asked.ttl_ms <= FORMAT_TOKEN_TTL_MS_MAX or secret.iterations == 0
            or not _is_secret(&secret, 0)):
        return COMMAND_INVALID
    user = _user(rights, &command.name)
    if user == NULL:
        return NAME_UNKNOWN
    count = 0
    for i in range(rights.tokens.size):
        count += rights.tokens.data[i].user == user.number
    if rights.tokens.size == FORMAT_TOKENS_MAX or count == FORMAT_TOKENS_OF_USER_MAX:
        return RIGHTS_LIMIT
    return OK

cdef status_t _put_token(Rights* rights, const Command* command) noexcept nogil:
    cdef const TokenAsked* asked = <const TokenAsked*>command.data.data
    cdef status_t status = rights_check_token(rights, command)
    cdef Token token
    cdef size_t place
    if status != OK:
        return status
    token.id = asked.id
    token.user = _user(rights, &command.name).number
    token.since = rights.revision + 1
    token.secret = asked.secret
    place = _token_place(rights, token.id)
    if not rights.tokens.push(token):
        return NO_MEMORY
    memmove(rights.tokens.data + place + 1, rights.tokens.data + place,
            (rights.tokens.size - 1 - place) * sizeof(Token))
    rights.tokens.data[place] = token
    return OK

cdef void _drop_token(Rights* rights, size_t place) noexcept nogil:
    memmove(rights.tokens.data + place, rights.tokens.data + place + 1,
            (rights.tokens.size - 1 - place) * sizeof(Token))
    rights.tokens.pop()

cdef status_t _remove_token(Rights* rights, const Command* command) noexcept nogil:
    cdef uint64_t id
    cdef size_t place
    if command.name.length or command.data.length != sizeof(uint64_t):
        return COMMAND_INVALID
    memcpy(&id, command.data.data, sizeof(id))
    if not rights_has_token(rights, id):
        return NAME_UNKNOWN
    place = _token_place(rights, id)
    if not rights.ended.push(id):
        return NO_MEMORY
    _drop_token(rights, place)
    return OK

# All tokens of a user end. False: no memory.
cdef bint _end_tokens(Rights* rights, uint64_t user) noexcept nogil:
    cdef size_t place = 0
    while place < rights.tokens.size:
        if rights.tokens.data[place].user != user:
            place += 1
            continue
        if not rights.ended.push(rights.tokens.data[place].id):
            return False
        _drop_token(rights, place)
    return True


# --- users and roles --------------------------------------------------------------------------------------------------

cdef uint64_t _next_number(Rights* rights) noexcept nogil:
    rights.next_number += 1
    return rights.next_number - 1

cdef User* _insert_user(Rights* rights, const User* user, size_t place) noexcept nogil:
    if not rights.users.push(user[0]):
        return NULL
    memmove(rights.users.data + place + 1, rights.users.data + place,
            (rights.users.size - 1 - place) * sizeof(User))
    rights.users.data[place] = user[0]
    return rights.users.data + place

cdef status_t _put_role(Rights* rights, const Bytes* name, const Bytes* data) noexcept nogil:
    cdef Role fresh
    if data.length:
        return COMMAND_INVALID
    if _role(rights, name) != NULL:
        return OK
    if rights.roles.size == FORMAT_ROLES_MAX:
        return RIGHTS_LIMIT
    memset(&fresh, 0, sizeof(fresh))
    fresh.name_length = <uint8_t>name.length
    memcpy(fresh.name, name.data, name.length)
    fresh.number = _next_number(rights)
    return OK if _insert_role(rights, &fresh, _role_place(rights, name)) != NULL else NO_MEMORY

cdef Role* _insert_role(Rights* rights, const Role* role, size_t place) noexcept nogil:
    if not rights.roles.push(role[0]):
        return NULL
    memmove(rights.roles.data + place + 1, rights.roles.data + place,
            (rights.roles.size - 1 - place) * sizeof(Role))
    rights.roles.data[place] = role[0]
    return rights.roles.data + place

cdef status_t _remove(Rights* rights, const Command* command) noexcept nogil:
    cdef User* user = _user(rights, &command.name)
    cdef Role* role = _role(rights, &command.name)
    cdef size_t i
    if command.data.length:
        return COMMAND_INVALID
    if command.id == RIGHTS_USER_REMOVE:
        if user == NULL:
            return NAME_UNKNOWN
        return _remove_user(rights, user)
    if role == NULL:
        return NAME_UNKNOWN
    for i in range(rights.users.size):
        _unbind(&rights.users.data[i], role.number)
    role.grants.release()
    memmove(role, role + 1, <size_t>(rights.roles.data + rights.roles.size - role - 1) * sizeof(Role))
    rights.roles.pop()
    return OK

cdef status_t _remove_user(Rights* rights, User* user) noexcept nogil:
    if not _end_tokens(rights, user.number):
        return NO_MEMORY
    user.roles.release()
    memmove(user, user + 1, <size_t>(rights.users.data + rights.users.size - user - 1) * sizeof(User))
    rights.users.pop()
    return OK

cdef void _unbind(User* user, uint64_t role) noexcept nogil:
    cdef size_t i, kept
    kept = 0
    for i in range(user.roles.size):
        if user.roles.data[i] != role:
            user.roles.data[kept] = user.roles.data[i]
            kept += 1
    user.roles.size = kept

# Numbers of roles ascend, so that the same rights are the same bytes whatever the order of the changes.
cdef status_t _change_roles(Rights* rights, const Command* command) noexcept nogil:
    cdef User* user = _user(rights, &command.name)
    cdef Role* role = _role(rights, &command.data) if _is_name(&command.data) else NULL
    if user == NULL or role == NULL:
        return NAME_UNKNOWN
    if command.id == RIGHTS_BIND:
        return _bind(user, role.number)
    _unbind(user, role.number)
    return OK

cdef status_t _bind(User* user, uint64_t role) noexcept nogil:
    cdef size_t place
    _unbind(user, role)
    if user.roles.size == FORMAT_ROLES_OF_USER_MAX:
        return RIGHTS_LIMIT
    if not user.roles.push(role):
        return NO_MEMORY
    place = user.roles.size - 1
    while place > 0 and user.roles.data[place - 1] > role:
        user.roles.data[place] = user.roles.data[place - 1]
        place -= 1
    user.roles.data[place] = role
    return OK


# --- grants -----------------------------------------------------------------------------------------------------------
cdef inline size_t _grant_bytes(const uint8_t* grant) noexcept nogil:
    cdef const GrantHead* head = <const GrantHead*>grant
    return sizeof(GrantHead) + head.start_length + head.end_length

# Whether `length` bytes begin with a whole, sound grant.
cdef bint _is_grant(const uint8_t* grant, size_t length) noexcept nogil:
    cdef const GrantHead* head = <const GrantHead*>grant
    cdef const uint8_t* start = grant + sizeof(GrantHead)
    if length < sizeof(GrantHead) or length < _grant_bytes(grant):
        return False
    if head.rights == 0 or head.rights & ~<uint8_t>RIGHTS_ALL:
        return False
    if head.start_length > KEY_BYTES_MAX or head.end_length > KEY_BYTES_MAX:
        return False
    if head.rights & ~<uint8_t>RIGHTS_OF_KEYS and head.start_length + head.end_length:
        return False
    return head.end_length == 0 or compare_bytes(start, head.start_length, start + head.start_length,
                                                 head.end_length) < 0

cdef int _grant_order(const uint8_t* left, const uint8_t* right) noexcept nogil:
    cdef const GrantHead* a = <const GrantHead*>left
    cdef const GrantHead* b = <const GrantHead*>right
    cdef const uint8_t* left_start = left + sizeof(GrantHead)
    cdef const uint8_t* right_start = right + sizeof(GrantHead)
    cdef int order = compare_bytes(left_start, a.start_length, right_start, b.start_length)
    if order == 0:
        order = compare_bytes(left_start + a.start_length, a.end_length, right_start + b.start_length, b.end_length)
    return order

# The grants again, with the bits over this range added or taken.
cdef status_t _change_grants(Rights* rights, const Command* command) noexcept nogil:
    cdef Role* role = _role(rights, &command.name)
    cdef const uint8_t* asked = command.data.data
    if not _is_grant(asked, command.data.length) or command.data.length != _grant_bytes(asked):
        return COMMAND_INVALID
    if role == NULL:
        return NAME_UNKNOWN
    return _add_grant(role, asked, command.data.length, command.id == RIGHTS_GRANT)

cdef status_t _add_grant(Role* role, const uint8_t* asked, uint32_t length, bint is_granted) noexcept nogil:
    cdef size_t offset = 0
    cdef int order = -1
    while offset < role.grants.size and order < 0:
        order = _grant_order(role.grants.data + offset, asked)
        if order < 0:
            offset += _grant_bytes(role.grants.data + offset)
    if order == 0 and offset < role.grants.size:
        return _change_grant(role, offset, (<const GrantHead*>asked).rights, is_granted)
    if not is_granted:
        return OK
    if role.grants.size + length > FORMAT_GRANTS_BYTES_MAX:
        return RIGHTS_LIMIT
    if not role.grants.resize(role.grants.size + length):
        return NO_MEMORY
    memmove(role.grants.data + offset + length, role.grants.data + offset, role.grants.size - length - offset)
    memcpy(role.grants.data + offset, asked, length)
    return OK

cdef status_t _change_grant(Role* role, size_t offset, uint8_t rights, bint is_granted) noexcept nogil:
    cdef GrantHead* head = <GrantHead*>(role.grants.data + offset)
    cdef size_t bytes = _grant_bytes(role.grants.data + offset)
    if is_granted:
        head.rights |= rights
        return OK
    head.rights &= ~rights
    if head.rights == 0:
        memmove(role.grants.data + offset, role.grants.data + offset + bytes, role.grants.size - offset - bytes)
        role.grants.size -= bytes
    return OK


# --- owners -----------------------------------------------------------------------------------------------------------
cdef Hash128 _owner_hash(uint64_t seed, uint64_t id, uint64_t owner) noexcept nogil:
    cdef OwnerImage image
    image.id = id
    image.owner = owner
    return hash128(seed, &image, sizeof(OwnerImage))

cdef inline uint64_t _owner(Map64[uint64_t]* owners, uint64_t id) noexcept nogil:
    cdef uint64_t* owner = owners.find(id) if owners.size else NULL
    return owner[0] if owner != NULL else 0

cdef void _disown(Rights* rights, Map64[uint64_t]* owners, uint64_t seed, uint64_t id) noexcept nogil:
    cdef uint64_t owner = _owner(owners, id)
    if owner == 0:
        return
    rights.hash = hash_minus(rights.hash, _owner_hash(seed, id, owner))
    owners.erase(id)

cdef bint _own(Rights* rights, Map64[uint64_t]* owners, uint64_t seed, uint64_t id, uint64_t owner) noexcept nogil:
    cdef uint64_t* place
    _disown(rights, owners, seed, id)
    place = owners.insert(id)
    if place == NULL:
        return False
    place[0] = owner
    rights.hash = hash_plus(rights.hash, _owner_hash(seed, id, owner))
    return True

cdef uint64_t rights_session_owner(Rights* rights, uint64_t session) noexcept nogil:
    return _owner(&rights.session_owners, session)

cdef uint64_t rights_lease_owner(Rights* rights, uint64_t lease) noexcept nogil:
    return _owner(&rights.lease_owners, lease)

cdef bint rights_own_session(Rights* rights, uint64_t session, uint64_t owner) noexcept nogil:
    return _own(rights, &rights.session_owners, FORMAT_SESSION_SEED, session, owner)

cdef bint rights_own_lease(Rights* rights, uint64_t lease, uint64_t owner) noexcept nogil:
    return _own(rights, &rights.lease_owners, FORMAT_LEASE_SEED, lease, owner)

cdef void rights_session_ended(Rights* rights, uint64_t session) noexcept nogil:
    _disown(rights, &rights.session_owners, FORMAT_SESSION_SEED, session)

cdef void rights_lease_ended(Rights* rights, uint64_t lease) noexcept nogil:
    _disown(rights, &rights.lease_owners, FORMAT_LEASE_SEED, lease)
    if rights.tokens.size and rights_has_token(rights, lease):
        _drop_token(rights, _token_place(rights, lease))
        rights.must_show = True

cdef status_t rights_leases_ended(Rights* rights) noexcept nogil:
    if not rights.must_show:
        return OK
    rights.must_show = False
    rights.revision += 1
    return _show(rights) if _hash_items(rights) else NO_MEMORY


# --- items: what a dump and the state hash hold -----------------------------------------------------------------------
cdef size_t rights_items(const Rights* rights) noexcept nogil:
    return 1 + rights.roles.size + rights.users.size + rights.tokens.size if rights.revision else 0

cdef bint rights_item(const Rights* rights, size_t position, RightsItem* kind, Vec[uint8_t]* out) noexcept nogil:
    cdef RightsHeadImage head
    if position == 0:
        kind[0] = RIGHTS_ITEM_HEAD
        head.revision = rights.revision
        head.next_number = rights.next_number
        head.is_enabled = rights.is_enabled
        memcpy(head.seed, rights.seed, SEED_BYTES)
        return out.append(<const uint8_t*>&head, sizeof(head))
    if position <= rights.roles.size:
        kind[0] = RIGHTS_ITEM_ROLE
        return _role_item(&rights.roles.data[position - 1], out)
    position -= 1 + rights.roles.size
    if position < rights.users.size:
        kind[0] = RIGHTS_ITEM_USER
        return _user_item(&rights.users.data[position], out)
    kind[0] = RIGHTS_ITEM_TOKEN
    return _token_item(&rights.tokens.data[position - rights.users.size], out)

cdef bint _token_item(const Token* token, Vec[uint8_t]* out) noexcept nogil:
    cdef TokenImage image
    image.id = token.id
    image.user = token.user
    image.since = token.since
    image.secret = token.secret
    return out.append(<const uint8_t*>&image, sizeof(image))

cdef bint _role_item(const Role* role, Vec[uint8_t]* out) noexcept nogil:
    cdef RoleImage image
    image.number = role.number
    image.name_length = role.name_length
    return (out.append(<const uint8_t*>&image, sizeof(image)) and out.append(role.name, role.name_length)
            and out.append(role.grants.data, role.grants.size))

cdef bint _user_item(const User* user, Vec[uint8_t]* out) noexcept nogil:
    cdef UserImage image
    image.number = user.number
    image.since = user.since
    image.secret = user.secret
    image.name_length = user.name_length
    return (out.append(<const uint8_t*>&image, sizeof(image)) and out.append(user.name, user.name_length)
            and out.append(<const uint8_t*>user.roles.data, user.roles.size * sizeof(uint64_t)))

cdef inline uint64_t _seed_of(RightsItem kind) noexcept nogil:
    return FORMAT_TOKEN_SEED if kind == RIGHTS_ITEM_TOKEN else FORMAT_ITEM_SEED + <uint64_t>kind

cdef bint _hash_items(Rights* rights) noexcept nogil:
    cdef Vec[uint8_t] bytes
    cdef Hash128 total
    cdef RightsItem kind
    cdef size_t i
    cdef bint is_whole = True
    memset(&bytes, 0, sizeof(bytes))
    memset(&total, 0, sizeof(total))
    for i in range(rights_items(rights)):
        bytes.clear()
        if not rights_item(rights, i, &kind, &bytes):
            is_whole = False
            break
        total = hash_plus(total, hash128(_seed_of(kind), bytes.data, bytes.size))
    bytes.release()
    rights.hash = hash_plus(hash_minus(rights.hash, rights.items_hash), total)
    rights.items_hash = total
    return is_whole


# --- load -------------------------------------------------------------------------------------------------------------
cdef status_t rights_restore(Rights* rights, RightsItem kind, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef const RightsHeadImage* head = <const RightsHeadImage*>bytes
    if kind == RIGHTS_ITEM_ROLE:
        return _restore_role(rights, bytes, length)
    if kind == RIGHTS_ITEM_USER:
        return _restore_user(rights, bytes, length)
    if kind == RIGHTS_ITEM_TOKEN:
        return _restore_token(rights, bytes, length)
    if length != sizeof(RightsHeadImage):
        return BAD_LENGTH
    if rights.revision != 0 or head.revision == 0 or head.next_number < FIRST_NUMBER or head.is_enabled > 1:
        return BAD_FIELD
    rights.revision = head.revision
    rights.next_number = head.next_number
    rights.is_enabled = head.is_enabled != 0
    memcpy(rights.seed, head.seed, SEED_BYTES)
    return OK

# The name behind an item's fields, and what follows it.
cdef bint _texts(const uint8_t* bytes, uint32_t length, uint32_t fields, uint64_t name_length, Bytes* name,
                 Bytes* rest) noexcept nogil:
    if name_length == 0 or name_length > PRINCIPAL_BYTES_MAX or length < fields + name_length:
        return False
    name.data = bytes + fields
    name.length = <uint32_t>name_length
    rest.data = name.data + name.length
    rest.length = length - fields - name.length
    return True

cdef status_t _restore_role(Rights* rights, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef const RoleImage* image = <const RoleImage*>bytes
    cdef Bytes name, grants
    cdef Role role
    if not _texts(bytes, length, sizeof(RoleImage), image.name_length, &name, &grants):
        return BAD_LENGTH
    if (rights.roles.size == FORMAT_ROLES_MAX or _role_place(rights, &name) != rights.roles.size
            or image.number < FIRST_NUMBER or image.number >= rights.next_number
            or not _are_grants(&grants)):
        return BAD_FIELD
    memset(&role, 0, sizeof(role))
    role.number = image.number
    role.name_length = <uint8_t>name.length
    memcpy(role.name, name.data, name.length)
    if not role.grants.append(grants.data, grants.length) or not rights.roles.push(role):
        role.grants.release()
        return NO_MEMORY
    return OK

cdef bint _are_grants(const Bytes* grants) noexcept nogil:
    cdef size_t before = 0
    cdef size_t offset = 0
    if grants.length > FORMAT_GRANTS_BYTES_MAX:
        return False
    while offset < grants.length:
        if not _is_grant(grants.data + offset, grants.length - offset):
            return False
        if offset and _grant_order(grants.data + before, grants.data + offset) >= 0:
            return False
        before = offset
        offset += _grant_bytes(grants.data + offset)
    return True

cdef status_t _restore_user(Rights* rights, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef const UserImage* image = <const UserImage*>bytes
    cdef UserSecret secret = image.secret
    cdef Bytes name, roles
    cdef User user
    if not _texts(bytes, length, sizeof(UserImage), image.name_length, &name, &roles):
        return BAD_LENGTH
    if name.data[0] == 0 and (name.length != FOUNDER_NAME_BYTES or name.data[1] != c'f' or secret.flags == 0):
        return BAD_FIELD
    if (rights.users.size == FORMAT_USERS_MAX or _user_place(rights, &name) != rights.users.size
            or image.number < FIRST_NUMBER or image.number >= rights.next_number or image.since > rights.revision
            or not _is_secret(&secret, USER_FOUNDER if name.data[0] == 0 else USER_ONE_TIME)
            or not _are_roles(rights, &roles)):
        return BAD_FIELD
    memset(&user, 0, sizeof(user))
    user.number = image.number
    user.since = image.since
    user.secret = image.secret
    user.name_length = <uint8_t>name.length
    memcpy(user.name, name.data, name.length)
    if (not user.roles.append(<const uint64_t*>roles.data, roles.length // sizeof(uint64_t))
            or not rights.users.push(user)):
        user.roles.release()
        return NO_MEMORY
    return OK

# Tokens come by id, each of a user that is there.
cdef status_t _restore_token(Rights* rights, const uint8_t* bytes, uint32_t length) noexcept nogil:
    cdef const TokenImage* image = <const TokenImage*>bytes
    cdef UserSecret secret
    cdef Token token
    cdef size_t i
    if length != sizeof(TokenImage):
        return BAD_LENGTH
    secret = image.secret
    if (rights.tokens.size == FORMAT_TOKENS_MAX or image.id == 0 or image.since > rights.revision
            or (rights.tokens.size and rights.tokens.back().id >= image.id)
            or secret.iterations == 0 or not _is_secret(&secret, 0)):
        return BAD_FIELD
    for i in range(rights.users.size):
        if rights.users.data[i].number == image.user:
            break
    else:
        return BAD_FIELD
    token.id = image.id
    token.user = image.user
    token.since = image.since
    token.secret = secret
    return OK if rights.tokens.push(token) else NO_MEMORY

cdef bint _are_roles(const Rights* rights, const Bytes* roles) noexcept nogil:
    cdef const uint64_t* numbers = <const uint64_t*>roles.data
    cdef size_t count = roles.length // sizeof(uint64_t)
    cdef size_t i, j
    if roles.length % sizeof(uint64_t) or count > FORMAT_ROLES_OF_USER_MAX:
        return False
    for i in range(count):
        if i and numbers[i] <= numbers[i - 1]:
            return False
        for j in range(rights.roles.size):
            if rights.roles.data[j].number == numbers[i]:
                break
        else:
            return False
    return True

cdef status_t rights_restore_owner(Rights* rights, bint is_session, uint64_t id, uint64_t owner) noexcept nogil:
    cdef bint is_kept
    if rights.revision == 0 or id == 0 or owner == 0 or owner >= rights.next_number:
        return BAD_FIELD
    if is_session:
        is_kept = rights_own_session(rights, id, owner)
    else:
        is_kept = rights_own_lease(rights, id, owner)
    return OK if is_kept else NO_MEMORY

cdef status_t rights_restored(Rights* rights) noexcept nogil:
    if rights.revision == 0:
        return OK
    if not _hash_items(rights):
        return NO_MEMORY
    return _show(rights)
