"""A model of docs/security.md "Rights": bodies.

One entry, in the order of docs/security.md and docs/decisions/rights.md:
  1. who speaks: the proof counts if the password has not changed since; else nothing is done while rights are on;
  2. a session is its owner's, and its command is done once;
  3. the rights of that place decide about the whole command;
  4. what is allowed is done.
"""
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.machine.plan cimport is_live
from raftmeta.machine.rights cimport rights_drop, rights_hold
from raftmeta.machine.rights_state cimport (RIGHT_LEASE, RIGHT_READ, RIGHT_WRITE, RIGHTS_BIND, RIGHTS_CLAIM,
                                            RIGHTS_DISABLE, RIGHTS_ENABLE, RIGHTS_FOUND, RIGHTS_FOUND_AGAIN,
                                            RIGHTS_GRANT, RIGHTS_OF_KEYS_COUNT, RIGHTS_ROLE_PUT, RIGHTS_ROLE_REMOVE,
                                            RIGHTS_TOKEN_PUT, RIGHTS_TOKEN_REMOVE, RIGHTS_UNBIND, RIGHTS_USER_PUT,
                                            RIGHTS_USER_REMOVE, GrantHead, RightsTable, UserSecret)
from raftmeta.machine.rights_table cimport rights_allow, table_user
from raftmeta.machine.tree cimport Entry, entry_value, tree_find
from raftmeta.native.intrinsics cimport next_random
from raftmeta.raft.types cimport ENTRY_COMMAND, Record
from raftmeta.sim.world.entries cimport entries_find
from raftmeta.sim.world.tokens_model cimport (founder_claims, founder_make, token_end, token_make, token_of,
                                              tokens_check, tokens_expire, tokens_of_user_end, tokens_speaker)
from raftmeta.sim.world.world_state cimport (SIM_RIGHTS_KEYS, SIM_RIGHTS_LEASES, SIM_RIGHTS_SESSIONS, SIM_ROLES,
                                             SIM_USERS, VIOLATION_RIGHTS, SimRightsLease,
                                             SimRightsModel, SimRightsSession, SimRole, SimToken, SimUser, violate)
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMMAND_LEASE_EXPIRE, COMMAND_LEASE_GRANT,
                                     COMMAND_LEASE_REVOKE, COMMAND_RIGHTS, COMMAND_SESSION_OPEN, OP_PUT, OP_TXN,
                                     SPEAKER_CLIENT, Command, Op, Txn, command_decode, command_release)

cdef enum:
    ADMIN_BIT = 1 << SIM_ROLES  # of SimUser.roles
    NOBODY = SIM_USERS
    ENDS = SIM_RIGHTS_KEYS + 1
    NOTHING = ~<uint32_t>0


# --- names ------------------------------------------------------------------------------------------------------------
cdef Bytes user_name(uint32_t user, uint8_t* into) noexcept nogil:
    cdef Bytes name
    name.data = into
    name.length = 4 if user == 0 else 2
    memcpy(into, b"boss" if user == 0 else b"u0", name.length)
    if user:
        into[1] += <uint8_t>user
    return name

cdef Bytes role_name(uint32_t role, uint8_t* into) noexcept nogil:
    cdef Bytes name
    name.data = into
    name.length = 2
    memcpy(into, b"r0", 2)
    into[1] += <uint8_t>role
    return name

cdef Bytes rights_key(uint32_t key, uint8_t* into) noexcept nogil:
    cdef Bytes name
    name.data = into
    name.length = 3
    memcpy(into, b"r/a", 3)
    into[2] += <uint8_t>key
    return name

cdef Bytes admin_name() noexcept nogil:
    cdef Bytes name
    name.data = <const uint8_t*>b"admin"
    name.length = 5
    return name

cdef Bytes client_name() noexcept nogil:
    cdef Bytes name
    name.data = <const uint8_t*>b"client"
    name.length = 6
    return name

cdef bint _is(const Bytes* left, Bytes right) noexcept nogil:
    return left.length == right.length and memcmp(left.data, right.data, right.length) == 0

cdef uint32_t _user_of(const Bytes* name) noexcept nogil:
    cdef uint8_t[8] text
    cdef uint32_t i
    for i in range(SIM_USERS):
        if _is(name, user_name(i, text)):
            return i
    return NOBODY

cdef uint32_t _role_of(const Bytes* name) noexcept nogil:
    cdef uint8_t[8] text
    cdef uint32_t i
    for i in range(SIM_ROLES):
        if _is(name, role_name(i, text)):
            return i
    return <uint32_t>SIM_ROLES if _is(name, admin_name()) else <uint32_t>NOTHING

# Which of the keys, or the end behind the last.
cdef uint32_t _key_of(const uint8_t* text, uint32_t length) noexcept nogil:
    if length != 3 or memcmp(text, b"r/", 2) != 0 or not c'a' <= text[2] <= c'a' + SIM_RIGHTS_KEYS:
        return NOTHING
    return text[2] - c'a'


# --- questions --------------------------------------------------------------------------------------------------------
cdef bint _may(const SimRightsModel* model, const SimUser* user, uint8_t right, uint32_t key) noexcept nogil:
    cdef uint32_t role, first, end
    if user.roles & ADMIN_BIT:
        return True
    for role in range(SIM_ROLES):
        if not user.roles >> role & 1:
            continue
        for first in range(key + 1):
            for end in range(key + 1, <uint32_t>ENDS):
                if model.roles[role].grants[first * ENDS + end] & right:
                    return True
    return False

cdef bint _may_anywhere(const SimRightsModel* model, const SimUser* user, uint8_t right) noexcept nogil:
    cdef uint32_t key
    for key in range(SIM_RIGHTS_KEYS):
        if _may(model, user, right, key):
            return True
    return False

cdef SimRightsLease* _lease(SimRightsModel* model, uint64_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(SIM_RIGHTS_LEASES):
        if model.leases[i].id == id:
            return &model.leases[i]
    return NULL

cdef SimRightsSession* _session(SimRightsModel* model, uint64_t id) noexcept nogil:
    cdef uint32_t i
    for i in range(SIM_RIGHTS_SESSIONS):
        if model.sessions[i].id == id:
            return &model.sessions[i]
    return NULL


# --- the decision -----------------------------------------------------------------------------------------------------
cdef bint _may_op(SimRightsModel* model, const SimUser* user, const Op* op) noexcept nogil:
    cdef uint32_t key = _key_of(op.key.data, op.key.length)
    cdef const SimRightsLease* lease
    if key == NOTHING:
        return False                # nobody but the admin has a right to other keys
    if not _may(model, user, RIGHT_WRITE, key):
        return False
    if op.kind == OP_PUT and op.lease == 0:
        return True
    if not _may(model, user, RIGHT_READ, key):
        return False
    if op.lease == 0:
        return True
    lease = _lease(model, op.lease)
    return _may(model, user, RIGHT_LEASE, key) and (lease == NULL or lease.owner == user.number)

# Both branches, at every depth.
cdef bint _may_txn(SimRightsModel* model, const SimUser* user, uint32_t place, int depth) noexcept nogil:
    cdef const Command* command = &model.command
    cdef const Txn* txn = &command.txns.data[place]
    cdef const Op* op
    cdef uint32_t i, number
    for i in range(txn.then_count + txn.else_count):
        number = txn.then_first + i if i < txn.then_count else txn.else_first + i - txn.then_count
        op = &command.ops.data[number]
        if op.kind == OP_TXN:
            if depth == 0 or not _may_txn(model, user, op.txn, depth - 1):
                return False
        elif not _may_op(model, user, op):
            return False
    return True

cdef bint _may_revoke(SimRightsModel* model, const SimUser* user, uint64_t id) noexcept nogil:
    cdef const SimRightsLease* lease = _lease(model, id)
    cdef uint32_t key
    if token_of(model, id) != NULL:
        return False                # the lease of a token is of no user
    if not _may_anywhere(model, user, RIGHT_LEASE):
        return False
    if lease == NULL:
        return True
    if lease.owner != user.number:
        return False
    for key in range(SIM_RIGHTS_KEYS):
        if model.keys[key].value and model.keys[key].lease == id and not _may(model, user, RIGHT_WRITE, key):
            return False
    return True

# A user makes tokens for itself, and ends its own.
cdef bint _is_own_token(SimRightsModel* model, const SimUser* user, uint32_t number) noexcept nogil:
    cdef const Command* command = &model.command
    cdef const SimToken* named
    if command.id == RIGHTS_TOKEN_PUT:
        return command.name.length == 0 or _user_of(&command.name) == number
    if command.id != RIGHTS_TOKEN_REMOVE:
        return False
    named = token_of(model, (<const uint64_t*>command.data.data)[0])
    return named != NULL and named.user == user.number

cdef bint _is_allowed(SimRightsModel* model, const SimUser* user, uint32_t number,
                      const SimToken* token) noexcept nogil:
    cdef const Command* command = &model.command
    if user == &model.founder:
        return command.kind == COMMAND_SESSION_OPEN or (command.kind == COMMAND_RIGHTS
                                                        and command.id == RIGHTS_CLAIM)
    if token != NULL and command.kind == COMMAND_RIGHTS:
        return command.id == RIGHTS_TOKEN_REMOVE and (<const uint64_t*>command.data.data)[0] == token.id
    if command.kind == COMMAND_RIGHTS and _is_own_token(model, user, number):
        return True
    if user.roles & ADMIN_BIT or command.kind == COMMAND_SESSION_OPEN:
        return True
    if command.kind == COMMAND_KEYS:
        return _may_txn(model, user, 0, 4)
    if command.kind == COMMAND_LEASE_GRANT:
        return _may_anywhere(model, user, RIGHT_LEASE)
    if command.kind == COMMAND_LEASE_REVOKE:
        return _may_revoke(model, user, command.id)
    return command.kind == COMMAND_RIGHTS and command.id == RIGHTS_USER_PUT and _user_of(&command.name) == number


# --- what is done -----------------------------------------------------------------------------------------------------
# One pass looks whether the leases are there, the other does it.
cdef bint _do_txn(SimRightsModel* model, uint32_t place, bint is_done) noexcept nogil:
    cdef const Command* command = &model.command
    cdef const Txn* txn = &command.txns.data[place]
    cdef const Op* op
    cdef uint32_t i, key
    for i in range(txn.then_first, txn.then_first + txn.then_count):
        op = &command.ops.data[i]
        if op.kind == OP_TXN:
            if not _do_txn(model, op.txn, is_done):
                return False
            continue
        key = _key_of(op.key.data, op.key.length)
        if op.lease != 0 and _lease(model, op.lease) == NULL:
            return False
        if key == NOTHING or not is_done:
            continue
        model.keys[key].value = 0
        model.keys[key].lease = op.lease
        if op.kind == OP_PUT:
            memcpy(&model.keys[key].value, op.value.data, sizeof(uint64_t))
    return True

cdef void _end_lease(SimRightsModel* model, uint64_t id) noexcept nogil:
    cdef SimRightsLease* lease = _lease(model, id)
    cdef uint32_t key
    if lease == NULL:
        return
    lease.id = 0
    for key in range(SIM_RIGHTS_KEYS):
        if model.keys[key].lease == id:
            model.keys[key].value = model.keys[key].lease = 0

# Another password ends the tokens.
cdef void _put_user(World* world, SimUser* user) noexcept nogil:
    cdef SimRightsModel* model = &world.rights
    if user.number == 0:
        model.next_number += 1
        user.number = model.next_number
    user.since = model.changes + 1
    memcpy(&user.password, (<const UserSecret*>model.command.data.data).salt, sizeof(uint64_t))
    tokens_of_user_end(world, user.number)

# False: it names something that does not exist; nothing was changed.
cdef bint _change_user(World* world, SimRightsModel* model, uint64_t verb) noexcept nogil:
    cdef const Command* command = &model.command
    cdef uint32_t number = _user_of(&command.name)
    cdef uint32_t role
    cdef SimUser* user
    if number == NOBODY:            # the user of all other clients: it comes, gets its role, and stays
        return verb == RIGHTS_USER_PUT or verb == RIGHTS_BIND
    user = &model.users[number]
    if verb == RIGHTS_USER_PUT:
        _put_user(world, user)
        return True
    if user.number == 0:
        return False
    if verb == RIGHTS_USER_REMOVE:
        tokens_of_user_end(world, user.number)
        memset(user, 0, sizeof(SimUser))
        return True
    role = _role_of(&command.data)
    if role == NOTHING or (role < SIM_ROLES and not model.roles[role].exists):
        return False
    if verb == RIGHTS_BIND:
        user.roles |= <uint32_t>1 << role
    else:
        user.roles &= ~(<uint32_t>1 << role)
    return True

cdef bint _change_role(SimRightsModel* model, uint64_t verb) noexcept nogil:
    cdef const Command* command = &model.command
    cdef const GrantHead* head = <const GrantHead*>command.data.data
    cdef uint32_t number = _role_of(&command.name)
    cdef uint32_t user, first, end
    cdef SimRole* role
    if number == <uint32_t>SIM_ROLES:
        return True                 # of admins: it is made and granted once
    role = &model.roles[number]
    if verb == RIGHTS_ROLE_PUT:
        role.exists = True
        return True
    if not role.exists:
        return False
    if verb == RIGHTS_ROLE_REMOVE:
        memset(role, 0, sizeof(SimRole))
        for user in range(SIM_USERS):
            model.users[user].roles &= ~(<uint32_t>1 << number)
        return True
    first = _key_of(command.data.data + sizeof(GrantHead), head.start_length)
    end = _key_of(command.data.data + sizeof(GrantHead) + head.start_length, head.end_length)
    if verb == RIGHTS_GRANT:
        role.grants[first * ENDS + end] |= head.rights
    else:
        role.grants[first * ENDS + end] &= ~head.rights
    return True

# The founder makes an admin of the name, and is gone.
cdef bint _claim(World* world, SimRightsModel* model) noexcept nogil:
    cdef SimUser* user = &model.users[_user_of(&model.command.name)]
    if not founder_claims(world):
        return False
    _put_user(world, user)
    user.roles |= ADMIN_BIT
    model.is_enabled = True
    return True

# An empty name is that of who speaks.
cdef bint _make_token(World* world, SimRightsModel* model, const SimUser* speaker) noexcept nogil:
    cdef uint32_t number = _user_of(&model.command.name)
    if model.command.name.length != 0:
        speaker = &model.users[number] if number != NOBODY else NULL
    return token_make(world, speaker)

cdef void _change(World* world, SimRightsModel* model, const SimUser* speaker) noexcept nogil:
    cdef uint64_t verb = model.command.id
    cdef bint is_changed = True
    if verb == RIGHTS_ENABLE or verb == RIGHTS_DISABLE:
        model.is_enabled = verb == RIGHTS_ENABLE
    elif verb in (RIGHTS_USER_PUT, RIGHTS_USER_REMOVE, RIGHTS_BIND, RIGHTS_UNBIND):
        is_changed = _change_user(world, model, verb)
    elif verb == RIGHTS_TOKEN_PUT:
        is_changed = _make_token(world, model, speaker)
    elif verb == RIGHTS_TOKEN_REMOVE:
        is_changed = token_end(world, (<const uint64_t*>model.command.data.data)[0])
    elif verb == RIGHTS_FOUND or verb == RIGHTS_FOUND_AGAIN:
        is_changed = founder_make(world)
    elif verb == RIGHTS_CLAIM:
        is_changed = _claim(world, model)
    else:
        is_changed = _change_role(model, verb)
    model.changes += is_changed
    world.counts.rights_changes += is_changed

cdef void _grant_lease(SimRightsModel* model, uint64_t owner) noexcept nogil:
    cdef SimRightsLease* free_place = _lease(model, 0)
    if _lease(model, model.command.id) != NULL:
        return
    if free_place == NULL:
        model.is_lost = True
        return
    free_place.id = model.command.id
    free_place.owner = owner

cdef void _do(World* world, SimRightsModel* model, const SimUser* user) noexcept nogil:
    cdef const Command* command = &model.command
    if command.kind == COMMAND_KEYS:
        if _do_txn(model, 0, False):
            _do_txn(model, 0, True)
    elif command.kind == COMMAND_LEASE_GRANT:
        _grant_lease(model, user.number if user != NULL else 0)
    elif command.kind == COMMAND_LEASE_REVOKE:
        _end_lease(model, command.id)
        if token_end(world, command.id):
            model.changes += 1
    elif command.kind == COMMAND_RIGHTS:
        _change(world, model, user)


# --- sessions ---------------------------------------------------------------------------------------------------------
cdef void _open(SimRightsModel* model, uint64_t owner) noexcept nogil:
    cdef SimRightsSession* session = _session(model, model.command.id)
    if session == NULL:
        session = _session(model, 0)
        if session == NULL:
            model.is_lost = True
            return
        session.id = model.command.id
        session.floor = 1
    if owner:
        session.owner = owner

# False: it was done before, its result is gone, or the session is not there.
cdef bint _is_new(SimRightsModel* model, SimRightsSession* session) noexcept nogil:
    cdef const Command* command = &model.command
    if session == NULL:
        return False
    session.floor = max(session.floor, command.lowest_unanswered)
    return command.sequence >= session.floor and command.sequence != session.done


# --- the log ----------------------------------------------------------------------------------------------------------
cdef void _take(World* world, SimRightsModel* model) noexcept nogil:
    cdef const Command* command = &model.command
    cdef bint opens = command.kind == COMMAND_SESSION_OPEN
    cdef uint32_t number = _user_of(&command.principal)
    cdef SimUser* user
    cdef SimToken* token = NULL
    cdef uint64_t since
    cdef SimRightsSession* session = _session(model, command.id if opens else command.session)
    cdef uint64_t owner
    if _is(&command.principal, client_name()):
        return                      # the user of all other clients, who touches nothing of this
    if number != NOBODY:
        user = &model.users[number]
    else:
        user = tokens_speaker(model, &command.principal, &token)
    since = token.since if token != NULL else user.since if user != NULL else 0
    if user != NULL and (user.number == 0 or since > command.rights_revision):
        user = token = NULL
    elif token != NULL:
        number = <uint32_t>(user - model.users)
    if user == NULL and model.is_enabled:
        return
    owner = user.number if user != NULL else 0
    if user != NULL and session != NULL:
        if model.is_enabled and session.owner != 0 and session.owner != owner:
            return
        if session.owner == 0 and not opens:
            session.owner = owner
    if not opens and not _is_new(model, session):
        return
    if not model.is_enabled or _is_allowed(model, user, number, token):
        _do(world, model, user)
    if opens:
        _open(model, owner)
    else:
        session.done = command.sequence


cdef void rights_model_take(World* world, index_t index, uint64_t chain) noexcept nogil:
    cdef SimRightsModel* model = &world.rights
    cdef const Record* record = entries_find(world, chain)
    if index != model.index + 1:
        model.is_lost = True
    model.index = index
    if record != NULL:
        model.lease_ms = max(model.lease_ms, record.lease_ms)
    if record == NULL or record.type != ENTRY_COMMAND or model.is_lost:
        return                      # no command: every committed command was on a disk before
    if command_decode(<const uint8_t*>record + sizeof(Record), record.length, &model.command) == OK:
        if model.command.speaker == SPEAKER_CLIENT:
            _take(world, model)
        elif model.command.kind == COMMAND_LEASE_EXPIRE:
            model.changes += tokens_expire(world)


# --- the nodes --------------------------------------------------------------------------------------------------------
cdef void _check_keys(World* world, SimNode* node) noexcept nogil:
    cdef SimRightsModel* model = &world.rights
    cdef uint8_t[8] text
    cdef const Entry* entry
    cdef uint64_t value, lease
    cdef uint32_t key
    cdef Bytes name
    for key in range(SIM_RIGHTS_KEYS):
        name = rights_key(key, text)
        entry = tree_find(node.engine.machine.tree, name.data, <uint16_t>name.length)
        value = lease = 0
        if is_live(entry):
            memcpy(&value, entry_value(entry), sizeof(value))
            lease = entry.lease
        if value != model.keys[key].value or lease != model.keys[key].lease:
            violate(world, VIOLATION_RIGHTS, node.number, key, value)

# One question of each user: the range and the right are drawn.
cdef void _check_user(World* world, SimNode* node, const RightsTable* table, uint32_t number) noexcept nogil:
    cdef SimRightsModel* model = &world.rights
    cdef uint64_t draw = next_random(&world.random_rights)
    cdef uint8_t right = <uint8_t>(1 << draw % RIGHTS_OF_KEYS_COUNT)
    cdef uint32_t first = <uint32_t>(draw >> 8) % SIM_RIGHTS_KEYS
    cdef uint32_t end = first + 1 + <uint32_t>(draw >> 16) % (SIM_RIGHTS_KEYS - first)
    cdef bint may = model.users[number].number != 0
    cdef uint8_t[8] low, high, text
    cdef Bytes name = user_name(number, text)
    cdef Bytes start = rights_key(first, low)
    cdef Bytes bound = rights_key(end, high)
    cdef uint32_t key
    for key in range(first, end):
        may = may and _may(model, &model.users[number], right, key)
    if rights_allow(table_user(table, name.data, name.length), right, &start, &bound, False) != may:
        violate(world, VIOLATION_RIGHTS, node.number, 1000 + number, right)
    may = model.users[number].number != 0 and _may(model, &model.users[number], right, first)
    if rights_allow(table_user(table, name.data, name.length), right, &start, NULL, True) != may:
        violate(world, VIOLATION_RIGHTS, node.number, 2000 + number, right)

cdef void rights_model_check(World* world, SimNode* node) noexcept nogil:
    cdef SimRightsModel* model = &world.rights
    cdef RightsTable* table
    cdef uint32_t user
    if model.is_lost or node.engine.applying.applied != model.index:
        return
    world.counts.rights_checks += 1
    _check_keys(world, node)
    table = rights_hold(&node.engine.machine.rights)
    if table == NULL:
        if model.changes:
            violate(world, VIOLATION_RIGHTS, node.number, 3000, model.changes)
        return
    if table.revision != model.changes or table.is_enabled != model.is_enabled:
        violate(world, VIOLATION_RIGHTS, node.number, 4000, table.revision)
    for user in range(SIM_USERS):
        _check_user(world, node, table, user)
    tokens_check(world, node, table)
    rights_drop(table)


cdef void rights_model_release(World* world) noexcept nogil:
    command_release(&world.rights.command)
