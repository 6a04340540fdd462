"""Clients with names and passwords: bodies."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport SUBMIT_CLIENT_COMMAND, Submission, submission_create, submission_payload
from raftmeta.machine.rights cimport rights_drop, rights_hold
from raftmeta.machine.rights_state cimport (RIGHT_ADMIN, RIGHTS_BIND, RIGHTS_CLAIM, RIGHTS_DISABLE, RIGHTS_ENABLE,
                                            RIGHTS_FOUND_AGAIN, RIGHTS_GRANT, RIGHTS_OF_KEYS, RIGHTS_REVOKE,
                                            RIGHTS_ROLE_PUT, RIGHTS_ROLE_REMOVE, RIGHTS_TOKEN_PUT,
                                            RIGHTS_TOKEN_REMOVE, RIGHTS_UNBIND, RIGHTS_USER_PUT, RIGHTS_USER_REMOVE,
                                            SEED_BYTES, USER_FOUNDER, GrantHead, RightsTable, TableUser, TokenAsked,
                                            UserSecret)
from raftmeta.machine.rights_table cimport table_token, table_user
from raftmeta.machine.state cimport LEVEL_OF_RIGHTS
from raftmeta.native.intrinsics cimport next_random
from raftmeta.sim.world.calls cimport call_take
from raftmeta.sim.world.rights_model cimport admin_name, client_name, rights_key, role_name, user_name
from raftmeta.sim.world.tokens_model cimport founder_name, token_name, tokens_count
from raftmeta.sim.world.world_state cimport (CALL_PRINCIPAL, FOUNDING_ASKED, FOUNDING_CLAIMED, FOUNDING_NONE,
                                             FOUNDING_SPEAKS, PROOF_FOUNDER, PROOF_PASSWORD, PROOF_TOKEN,
                                             SIM_RIGHTS_KEYS, SIM_RIGHTS_LEASES, SIM_RIGHTS_SESSIONS, SIM_ROLES,
                                             SIM_TOKENS, SIM_USERS, VIOLATION_FATAL, VIOLATION_NO_MEMORY, SimPrincipal,
                                             SimRightsModel, violate)
from raftmeta.status cimport (AUTHENTICATION_FAILED, OK, PERMISSION_DENIED, RESULT_EVICTED, SESSION_UNKNOWN)
from raftmeta.wire.commands cimport (COMMAND_KEYS, COMMAND_LEASE_GRANT, COMMAND_LEASE_KEEP_ALIVE,
                                     COMMAND_LEASE_REVOKE, COMMAND_RIGHTS, COMMAND_SESSION_OPEN, OP_DELETE, OP_PUT,
                                     OP_TXN, Bytes, Command, LeaseItem, Op, Txn, command_clear, command_encode,
                                     command_speak)
from raftmeta.wire.msgpack cimport number_max

cdef enum:
    RESULTS_MAX = 32            # below this the number stands in replicated results (raftmeta/status.pxd)
    SENDINGS_OPEN_MAX = 32
    SESSION_WINDOW = 16
    STEPS = 7                   # of the admin, until rights are on
    ITERATIONS = 4096
    TOKENS_MAX = SIM_TOKENS // 2    # beyond, no more are made: those under way have room
    TOKEN_TTL_MS_MAX = 1_000

cdef uint64_t FOREVER_MS = <uint64_t>1 << 40       # sessions and leases end when somebody ends them


cdef inline uint64_t _draw(World* world) noexcept nogil:
    return next_random(&world.random_rights)


# --- changes of rights ------------------------------------------------------------------------------------------------
cdef void _rights(Command* command, uint64_t verb, Bytes name, Bytes data) noexcept nogil:
    command.kind = COMMAND_RIGHTS
    command.id = verb
    command.name = name
    command.data = data

cdef Bytes _nothing() noexcept nogil:
    cdef Bytes empty
    empty.data = NULL
    empty.length = 0
    return empty

# The password stands in the salt: nobody here computes a hash.
cdef Bytes _secret(uint64_t password, uint8_t* into) noexcept nogil:
    cdef UserSecret* secret = <UserSecret*>into
    cdef Bytes data
    memset(secret, 0, sizeof(UserSecret))
    secret.iterations = ITERATIONS
    memcpy(secret.salt, &password, sizeof(password))
    data.data = into
    data.length = sizeof(UserSecret)
    return data

cdef Bytes _grant(uint8_t rights, uint32_t first, uint32_t end, uint8_t* into) noexcept nogil:
    cdef GrantHead* head = <GrantHead*>into
    cdef Bytes data
    cdef Bytes low = rights_key(first, into + sizeof(GrantHead))
    cdef Bytes high = rights_key(end, into + sizeof(GrantHead) + low.length)
    head.rights = rights
    head.start_length = <unsigned short>low.length
    head.end_length = <unsigned short>high.length
    data.data = into
    data.length = <uint32_t>sizeof(GrantHead) + low.length + high.length
    return data

cdef Bytes _admin_grant(uint8_t* into) noexcept nogil:
    cdef Bytes data
    memset(into, 0, sizeof(GrantHead))
    (<GrantHead*>into).rights = RIGHT_ADMIN
    data.data = into
    data.length = sizeof(GrantHead)
    return data

# A token of the user, new or under the id that its last one had.
cdef void _ask_token(World* world, SimPrincipal* principal, Command* command, Bytes name, uint8_t* into) noexcept nogil:
    cdef TokenAsked* asked = <TokenAsked*>into
    cdef uint64_t draw = _draw(world)
    cdef Bytes data
    if principal.token == 0 or draw & 1:
        principal.token = _draw(world) >> 2 | 1
    memset(asked, 0, sizeof(TokenAsked))
    asked.id = principal.token
    asked.ttl_ms = 1 + (draw >> 8) % TOKEN_TTL_MS_MAX
    asked.secret.iterations = ITERATIONS
    data.data = into
    data.length = sizeof(TokenAsked)
    _rights(command, RIGHTS_TOKEN_PUT, name, data)

# Something with the token of a principal: it ends, or somebody tries to keep it or to use its lease.
cdef bint _use_token(World* world, const SimPrincipal* principal, Command* command, uint8_t* into) noexcept nogil:
    cdef uint64_t choice = _draw(world) % 4
    cdef LeaseItem item
    cdef Bytes data
    memcpy(into, &principal.token, sizeof(uint64_t))
    data.data = into
    data.length = sizeof(uint64_t)
    if choice == 0:
        command.kind = COMMAND_LEASE_REVOKE
        command.id = principal.token
    elif choice == 1:
        _rights(command, RIGHTS_TOKEN_REMOVE, _nothing(), data)
    else:
        memset(&item, 0, sizeof(LeaseItem))
        item.lease = principal.token
        command.kind = COMMAND_LEASE_KEEP_ALIVE
        return command.leases.push(item)
    return True

# The secret of the founder, as a node makes it for an operator.
cdef void _ask_founder(SimPrincipal* boss, Command* command, uint8_t* into) noexcept nogil:
    cdef Bytes data = _secret(1, into)
    (<UserSecret*>into).flags = USER_FOUNDER
    memset(into + sizeof(UserSecret), 1, SEED_BYTES)
    data.length += SEED_BYTES
    boss.founding = FOUNDING_ASKED
    _rights(command, RIGHTS_FOUND_AGAIN, _nothing(), data)

# The admin sets rights up, while they are off.
cdef void _set_up(World* world, SimPrincipal* boss, Command* command, uint8_t* text, uint8_t* data) noexcept nogil:
    if boss.step == 0:
        boss.password = _draw(world)
        _rights(command, RIGHTS_USER_PUT, user_name(0, text), _secret(boss.password, data))
    elif boss.step == 1:
        _rights(command, RIGHTS_USER_PUT, client_name(), _secret(_draw(world), data))
    elif boss.step == 2:
        _rights(command, RIGHTS_ROLE_PUT, admin_name(), _nothing())
    elif boss.step == 3:
        _rights(command, RIGHTS_GRANT, admin_name(), _admin_grant(data))
    elif boss.step == 4:
        _rights(command, RIGHTS_BIND, user_name(0, text), admin_name())
    elif boss.step == 5:
        _rights(command, RIGHTS_BIND, client_name(), admin_name())
    else:
        _rights(command, RIGHTS_ENABLE, _nothing(), _nothing())

# Something that is granted, as the model knows it. Else any range.
cdef void _choose_range(World* world, uint32_t role, bint is_granted, uint32_t* first, uint32_t* end) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t ends = SIM_RIGHTS_KEYS + 1
    cdef uint32_t i, place
    first[0] = <uint32_t>draw % SIM_RIGHTS_KEYS
    end[0] = first[0] + 1 + <uint32_t>(draw >> 8) % (SIM_RIGHTS_KEYS - first[0])
    if not is_granted:
        return
    for i in range(ends * ends):
        place = <uint32_t>((draw >> 16) + i) % (ends * ends)
        if world.rights.roles[role].grants[place]:
            first[0] = place // ends
            end[0] = place % ends
            return

cdef bint _change_rights(World* world, Command* command, uint8_t* text, uint8_t* other, uint8_t* data) noexcept nogil:
    cdef SimPrincipal* boss = &world.principals[0]
    cdef uint64_t draw = _draw(world)
    cdef uint32_t user = 1 + <uint32_t>(draw >> 8) % (SIM_USERS - 1)
    cdef uint32_t role = <uint32_t>(draw >> 16) % SIM_ROLES
    cdef uint8_t bits = <uint8_t>(draw >> 24) & RIGHTS_OF_KEYS
    cdef uint32_t first, end
    cdef uint32_t choice = <uint32_t>draw % 16
    if not _is_full(&world.rights) and (draw >> 40 & 31 == 0 or (not world.rights.is_enabled and draw >> 32 & 1)):
        _ask_founder(boss, command, data)
    elif not world.rights.is_enabled:
        _rights(command, RIGHTS_ENABLE, _nothing(), _nothing())
    elif draw >> 45 & 7 == 0 and world.principals[user].token != 0:
        return _use_token(world, &world.principals[user], command, data)
    elif draw >> 45 & 7 == 1 and tokens_count(&world.rights) < TOKENS_MAX:
        _ask_token(world, &world.principals[user], command, user_name(user, text), data)
    elif choice == 0 or world.rights.users[user].number == 0:
        _rights(command, RIGHTS_USER_PUT, user_name(user, text), _secret(_draw(world), data))
    elif choice == 1:
        if draw >> 32 & 3 == 0:
            _rights(command, RIGHTS_USER_REMOVE, user_name(user, text), _nothing())
        else:
            _rights(command, RIGHTS_USER_PUT, user_name(0, text), _secret(_draw(world), data))
    elif choice == 2 and draw >> 32 & 7 == 0:
        _rights(command, RIGHTS_DISABLE, _nothing(), _nothing())
    elif choice == 3 and draw >> 32 & 3 == 0:
        _rights(command, RIGHTS_ROLE_REMOVE, role_name(role, text), _nothing())
    elif not world.rights.roles[role].exists:
        _rights(command, RIGHTS_ROLE_PUT, role_name(role, text), _nothing())
    elif choice < 9:
        _choose_range(world, role, False, &first, &end)
        _rights(command, RIGHTS_GRANT, role_name(role, text), _grant(bits if bits else 3, first, end, data))
    elif choice < 12:
        _choose_range(world, role, True, &first, &end)
        _rights(command, RIGHTS_REVOKE, role_name(role, text), _grant(bits if bits else 2, first, end, data))
    elif choice < 15:
        _rights(command, RIGHTS_BIND, user_name(user, text), role_name(role, other))
    else:
        _rights(command, RIGHTS_UNBIND, user_name(user, text), role_name(role, other))
    return True


# --- requests ---------------------------------------------------------------------------------------------------------
cdef void _fill_op(World* world, Op* op, uint8_t kind, uint64_t lease, uint8_t* key, uint64_t* value) noexcept nogil:
    memset(op, 0, sizeof(Op))
    op.kind = kind
    op.key = rights_key(<uint32_t>_draw(world) % SIM_RIGHTS_KEYS, key)
    if kind == OP_PUT:
        value[0] = _draw(world) | 1
        op.value.data = <const uint8_t*>value
        op.value.length = sizeof(uint64_t)
        op.lease = lease

# One operation, alone or in a nested transaction, or one of each.
cdef bint _txn(World* world, Command* command, uint8_t kind, uint64_t lease, uint32_t shape, uint8_t* keys,
               uint64_t* values) noexcept nogil:
    cdef Op op
    cdef Txn txn
    command.kind = COMMAND_KEYS
    memset(&txn, 0, sizeof(Txn))
    txn.then_count = 2 if shape == 2 else 1
    if not command.txns.push(txn):
        return False
    _fill_op(world, &op, kind, lease, keys, values)
    if shape != 1 and not command.ops.push(op):
        return False
    if shape == 0:
        return True
    memset(&op, 0, sizeof(Op))
    op.kind = OP_TXN
    op.txn = 1
    txn.then_first = shape
    txn.then_count = 1
    if not command.ops.push(op) or not command.txns.push(txn):
        return False
    _fill_op(world, &op, kind, lease, keys + 8, values + 1)
    return command.ops.push(op)

cdef bint _request(World* world, SimPrincipal* principal, uint32_t number, Command* command, uint8_t* text,
                   uint8_t* data, uint64_t* values) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t choice = <uint32_t>draw % 16
    cdef uint32_t shape = <uint32_t>(draw >> 8) % 3
    cdef uint64_t lease = principal.lease
    cdef const SimPrincipal* other
    if draw >> 48 & 15 == 0 and tokens_count(&world.rights) < TOKENS_MAX:
        _ask_token(world, principal, command, user_name(number, text) if draw >> 52 & 1 else _nothing(), data)
        return True
    other = &world.principals[1 + (draw >> 52) % (SIM_USERS - 1)]
    if draw >> 48 & 15 == 1 and other.token != 0:
        return _use_token(world, other, command, data)
    if choice < 7:
        return _txn(world, command, OP_PUT, 0, shape, data, values)
    if choice < 9:
        return _txn(world, command, OP_DELETE, 0, shape, data, values)
    if choice < 11 and (principal.lease == 0 or choice == 9) and not _is_full(&world.rights):
        principal.lease = draw >> 2 | 1
        command.kind = COMMAND_LEASE_GRANT
        command.id = principal.lease
        command.ttl_ms = FOREVER_MS
        return True
    if draw >> 16 & 7 == 0:         # at times that of another
        lease = world.principals[1 + number % (SIM_USERS - 1)].lease
    if choice < 14:
        return _txn(world, command, OP_PUT, lease, shape, data, values)
    if choice < 15 and lease != 0:
        command.kind = COMMAND_LEASE_REVOKE
        command.id = lease
        return True
    _rights(command, RIGHTS_USER_PUT, user_name(number, text), _secret(_draw(world), data))
    return True


# --- one command after the other --------------------------------------------------------------------------------------
cdef void _begin_session(World* world, SimPrincipal* principal, Command* command) noexcept nogil:
    principal.session = _draw(world) >> 2 | 1
    principal.sequence = 0
    principal.opens = True
    command.kind = COMMAND_SESSION_OPEN
    command.id = principal.session
    command.ttl_ms = FOREVER_MS
    command.window = SESSION_WINDOW

cdef bint _is_full(const SimRightsModel* model) noexcept nogil:
    return model.sessions[SIM_RIGHTS_SESSIONS - 8].id != 0 or model.leases[SIM_RIGHTS_LEASES - 8].id != 0

cdef void _next(World* world, SimPrincipal* principal, uint32_t number) noexcept nogil:
    cdef Command* command = &world.command
    cdef uint8_t[8] text
    cdef uint8_t[8] other
    cdef uint8_t[128] data
    cdef uint64_t[2] values
    cdef bint is_made = True
    command_clear(command)
    principal.opens = principal.is_answered = False
    if principal.session == 0 or (principal.step >= STEPS and _draw(world) % 64 == 0
                                  and not _is_full(&world.rights)):
        _begin_session(world, principal, command)
    elif number == 0 and principal.step < STEPS:
        _set_up(world, principal, command, text, data)
    elif principal.founding != FOUNDING_NONE:
        principal.founding = FOUNDING_CLAIMED
        principal.password = _draw(world)
        _rights(command, RIGHTS_CLAIM, user_name(0, text), _secret(principal.password, data))
    elif number == 0:
        is_made = _change_rights(world, command, text, other, data)
    else:
        is_made = _request(world, principal, number, command, text, data, values)
    if not principal.opens:
        principal.sequence += 1
        command.session = principal.session
        command.sequence = command.lowest_unanswered = principal.sequence
    principal.payload.clear()
    if not is_made or command_encode(command, &principal.payload) != OK:
        violate(world, VIOLATION_FATAL, 0, 12, principal.sequence)
    command_clear(command)


# --- sendings ---------------------------------------------------------------------------------------------------------
# As server/authentication does: the password is that of the node's own table. False: this node knows no such user, or
# another password. A client with an old password is told the new one by somebody; at times it takes a while.
cdef bint _prove_password(World* world, SimNode* node, SimPrincipal* principal, uint32_t number) noexcept nogil:
    cdef RightsTable* table = rights_hold(&node.engine.machine.rights)
    cdef const TableUser* user
    cdef uint8_t[8] text
    cdef Bytes name = user_name(number, text)
    cdef bint is_proven = False
    if table == NULL:
        return number == 0          # rights are being set up
    user = table_user(table, name.data, name.length)
    if user == NULL:
        is_proven = number == 0 and not table.is_enabled
    elif memcmp(user.secret.salt, &principal.password, sizeof(uint64_t)) == 0:
        is_proven = True
        principal.proven = table.revision
    elif _draw(world) & 1:
        principal.password = world.rights.users[number].password
    rights_drop(table)
    return is_proven

# False: this node knows no such token. It may be one that lags, or the token has ended.
cdef bint _prove_token(SimNode* node, SimPrincipal* principal) noexcept nogil:
    cdef RightsTable* table = rights_hold(&node.engine.machine.rights)
    cdef bint is_proven
    if table == NULL:
        return False
    is_proven = table_token(table, principal.token) != NULL
    if is_proven:
        principal.proven = table.revision
        principal.speaks = principal.token
    rights_drop(table)
    return is_proven

cdef bint _prove_founder(SimNode* node, SimPrincipal* principal) noexcept nogil:
    cdef RightsTable* table = rights_hold(&node.engine.machine.rights)
    cdef Bytes name = founder_name()
    cdef bint is_proven
    if table == NULL:
        return False
    is_proven = table_user(table, name.data, name.length) != NULL
    if is_proven:
        principal.proven = table.revision
    rights_drop(table)
    return is_proven

# The admin speaks for itself again.
cdef void _end_founding(SimPrincipal* principal) noexcept nogil:
    principal.founding = FOUNDING_NONE
    principal.session = principal.proven = 0
    principal.payload.clear()

cdef bint _prove(World* world, SimNode* node, SimPrincipal* principal, uint32_t number) noexcept nogil:
    principal.proof = PROOF_FOUNDER
    if principal.founding >= FOUNDING_SPEAKS:
        if _prove_founder(node, principal):
            return True
        if _draw(world) & 3 == 0:
            _end_founding(principal)        # no such founder, as far as one node knows
        return False
    principal.proof = PROOF_TOKEN
    if number != 0 and principal.token != 0 and _draw(world) & 3 and _prove_token(node, principal):
        return True
    principal.proof = PROOF_PASSWORD
    return _prove_password(world, node, principal, number)

# The founder was made: it speaks in a session of its own. It claimed: at times it tries once more.
cdef void _go_on_founding(World* world, SimPrincipal* principal) noexcept nogil:
    if not principal.is_answered:
        return
    if principal.founding == FOUNDING_ASKED:
        _end_founding(principal)
        principal.founding = FOUNDING_SPEAKS
    elif principal.founding == FOUNDING_CLAIMED and _draw(world) & 1:
        _end_founding(principal)

cdef uint32_t principals_act(World* world) noexcept nogil:
    cdef uint64_t draw = _draw(world)
    cdef uint32_t number = <uint32_t>draw % SIM_USERS
    cdef SimPrincipal* principal = &world.principals[number]
    cdef SimNode* node = &world.nodes[(draw >> 8) % world.config.nodes]
    if (not node.is_up or node.engine.state != ENGINE_RUNNING or node.paused_until_ns > world.now_ns
            or node.engine.machine.feature_level < LEVEL_OF_RIGHTS or node.calls_open >= SENDINGS_OPEN_MAX):
        return 0
    if number != 0 and world.principals[0].step < STEPS:
        return 0
    _go_on_founding(world, principal)
    if principal.proven == 0 and not _prove(world, node, principal, number):
        return 0
    if principal.payload.size == 0 or principal.is_answered:
        _next(world, principal, number)
    return _send(world, node, principal, number)

cdef uint32_t _send(World* world, SimNode* node, SimPrincipal* principal, uint32_t number) noexcept nogil:
    cdef uint8_t[16] text
    cdef Bytes name = user_name(number, text)
    cdef SimCall* call
    cdef Submission* submission
    if principal.proof == PROOF_TOKEN:
        name = token_name(principal.speaks, text)
    elif principal.proof == PROOF_FOUNDER:
        name = founder_name()
    world.scratch.clear()
    if command_speak(&name, principal.proven, principal.payload.data, <uint32_t>principal.payload.size,
                     &world.scratch) != OK:
        violate(world, VIOLATION_FATAL, node.number, 13, principal.sequence)
        return 0
    call = call_take(world, node, CALL_PRINCIPAL)
    submission = submission_create(SUBMIT_CLIENT_COMMAND, world.scratch.size)
    if call == NULL or submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return 0
    call.key = <uint8_t>number
    call.session = principal.session
    call.number = principal.sequence
    submission.owner = call
    submission.arguments.command.session = principal.session
    submission.arguments.command.sequence = principal.sequence
    memcpy(submission_payload(submission), world.scratch.data, world.scratch.size)
    engine_submit(node.engine, submission)
    return <uint32_t>1 << node.number


cdef void principals_done(World* world, SimNode* node, const SimCall* call, status_t status) noexcept nogil:
    cdef SimPrincipal* principal = &world.principals[call.key]
    if (principal.session != call.session or principal.sequence != call.number or principal.is_answered
            or principal.payload.size == 0):
        return
    if status == AUTHENTICATION_FAILED:
        world.counts.principals_unknown += 1
        principal.proven = 0        # the same command is sent again under another proof
        return
    if status == SESSION_UNKNOWN or (status == PERMISSION_DENIED and principal.opens):
        principal.session = 0
        principal.is_answered = True
        return
    if status >= RESULTS_MAX and status != PERMISSION_DENIED:
        return                      # this sending's fate
    principal.is_answered = True
    world.counts.principal_commands += 1
    world.counts.principals_denied += status == PERMISSION_DENIED
    world.counts.token_commands += principal.proof == PROOF_TOKEN
    if principal.proof == PROOF_TOKEN and _draw(world) & 7 == 0:
        principal.proven = 0        # the next command by the password, or by the token again
    if call.key == 0 and principal.step < STEPS and not principal.opens and status != RESULT_EVICTED:
        principal.step += 1
    if call.key != 0:
        principal.step = STEPS


cdef bint principals_speak(const uint8_t* payload, size_t length, Vec[uint8_t]* out) noexcept nogil:
    cdef Bytes name = client_name()
    out.clear()
    return command_speak(&name, number_max(), payload, <uint32_t>length, out) == OK


cdef void principals_release(World* world) noexcept nogil:
    cdef uint32_t number
    for number in range(SIM_USERS):
        world.principals[number].payload.release()
