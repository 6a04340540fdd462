"""Clients that reach the cluster through any node, and what they may be told (thesis 6.3).

    I14  a counter that only this client changes moves by one for each of its counts, however many times and to however
         many nodes they were sent; every sending that is answered gets the same answer; and no result is gone that the
         client has not said to have
    I18b a lock's fence: a guarded write that was accepted carried the newest token of all that were accepted before
A client has up to SimConfig.client_window commands under way, which are answered in any order. A client whose session
is gone does not know what became of those: the counter may then be higher by as many, and never more. Commands: add to
the client's own counter; create the lock (the create revision is the token), remove anybody's lock, add to the
guarded counter under the token that the client believes in, however old.
It must never wait, or look at a state directly; it knows what it was answered.
Sources: docs/invariants.md I14, "Fencing"; ARCHITECTURE "A client".
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport SUBMIT_CLIENT_COMMAND, Submission, submission_create, submission_payload
from raftmeta.machine.state cimport LEVEL_OF_RIGHTS
from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport hash64, next_random
from raftmeta.sim.world.calls cimport call_number, call_take
from raftmeta.sim.world.principals cimport principals_speak
from raftmeta.sim.world.world_state cimport (CALL_CLIENT, SIM_CLIENT_WINDOW, SIM_CLIENTS, VIOLATION_FATAL,
                                             VIOLATION_FENCE, VIOLATION_NO_MEMORY, VIOLATION_NOT_ONCE,
                                             VIOLATION_OUTCOME_LOST, SimClient, SimCommand, violate)
from raftmeta.status cimport KEY_EXISTS, OK, RESULT_EVICTED, SESSION_UNKNOWN
from raftmeta.wire.commands cimport (COMMAND_SESSION_OPEN, OP_ADD, OP_CREATE, OP_DELETE, Command, Fence, Op,
                                     command_encode, command_encode_op)

cdef enum:
    RESULTS_MAX = 32            # below this the number stands in replicated results (raftmeta/status.pxd)
    SENDINGS_OPEN_MAX = 8
    SESSION_WINDOW_MIN = 4      # results that the client's session keeps, at least
    COUNTERS = 0x80             # keys of these counters among the numbers of SimTruth.numbers

cdef enum Wish:
    WISH_OPEN = 1               # a session
    WISH_COUNT
    WISH_LOCK
    WISH_UNLOCK
    WISH_GUARDED


# --- commands ---------------------------------------------------------------------------------------------------------
cdef SimCommand* _place(World* world, SimClient* client, uint64_t sequence) noexcept nogil:
    return &client.commands[sequence % world.config.client_window]


cdef void _open_session(World* world, SimClient* client) noexcept nogil:
    cdef Command* command = &world.command
    cdef SimCommand* fresh = _place(world, client, 0)
    fresh.wish = WISH_OPEN
    fresh.is_answered = False
    fresh.sequence = 0
    client.session = next_random(&world.random_workload) >> 2 | 1
    client.sequence = 0
    client.told_answered = 1
    client.is_draining = True       # nothing else before there is a session
    command.kind = COMMAND_SESSION_OPEN
    command.session = command.sequence = command.lowest_unanswered = 0
    command.id = client.session
    command.ttl_ms = world.config.lease_ttl_ms
    command.window = max(<uint32_t>SESSION_WINDOW_MIN, world.config.client_window)
    fresh.payload.clear()
    if command_encode(command, &fresh.payload) != OK:
        violate(world, VIOLATION_FATAL, 0, 8, client.session)
    command.window = 0              # the scratch's other users have no such field


cdef void _choose(World* world, SimClient* client, SimCommand* fresh, Op* op, uint8_t* key,
                  uint32_t number) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_workload) % 8
    if client.token == 0 and draw > 5:
        draw = 4                    # without a token there is nothing to guard
    memset(op, 0, sizeof(Op))
    op.kind = OP_ADD
    op.number = 1
    op.key.data = key
    op.key.length = 8
    fresh.wish = WISH_COUNT
    memcpy(key, b"client-a", 8)
    key[7] += <uint8_t>number
    if draw < 4:
        return
    if draw > 5:
        fresh.wish = WISH_GUARDED
        op.key.length = 7
        memcpy(key, b"guarded", 7)
        return
    fresh.wish = WISH_LOCK if draw == 4 else WISH_UNLOCK
    op.kind = OP_CREATE if draw == 4 else OP_DELETE
    op.number = 0
    op.key.length = 4
    memcpy(key, b"lock", 4)


# Below it all are answered; `next` is about to be sent.
cdef uint64_t _lowest_unanswered(World* world, const SimClient* client, uint64_t next) noexcept nogil:
    cdef uint64_t lowest = next
    cdef uint32_t i
    for i in range(world.config.client_window):
        if client.commands[i].payload.size != 0 and not client.commands[i].is_answered:
            lowest = min(lowest, client.commands[i].sequence)
    return lowest


# In the place of the command that was answered as long ago as the window reaches.
cdef SimCommand* _next_command(World* world, SimClient* client, uint32_t number) noexcept nogil:
    cdef SimCommand* fresh = _place(world, client, client.sequence + 1)
    cdef Op op
    cdef Fence fence
    cdef uint8_t[8] key
    fresh.payload.clear()
    _choose(world, client, fresh, &op, key, number)
    fence.is_present = True
    fence.key.data = <const uint8_t*>b"lock"
    fence.key.length = 4
    fence.create_revision = fresh.token = client.token
    client.sequence += 1
    client.told_answered = _lowest_unanswered(world, client, client.sequence)
    world.counts.windows += client.told_answered < client.sequence
    fresh.sequence = client.sequence
    fresh.is_answered = False
    fresh.floor = client.highest
    client.issued += fresh.wish == WISH_COUNT
    if command_encode_op(&op, client.session, fresh.sequence, client.told_answered,
                         &fence if fresh.wish == WISH_GUARDED else NULL, &fresh.payload) != OK:
        violate(world, VIOLATION_FATAL, 0, 9, client.sequence)
    return fresh


# --- sendings ---------------------------------------------------------------------------------------------------------
# To any node: its bit, or none.
cdef uint32_t _send(World* world, SimClient* client, SimCommand* command, uint32_t number) noexcept nogil:
    cdef SimNode* node = &world.nodes[next_random(&world.random_workload) % world.config.nodes]
    cdef Vec[uint8_t]* payload = &command.payload
    cdef SimCall* call
    cdef Submission* submission
    cdef bint is_spoken
    if (command.payload.size == 0 or not node.is_up or node.engine.state != ENGINE_RUNNING
            or node.paused_until_ns > world.now_ns or node.calls_open >= SENDINGS_OPEN_MAX * SIM_CLIENTS):
        return 0
    is_spoken = world.config.has_rights and node.engine.machine.feature_level >= LEVEL_OF_RIGHTS
    if is_spoken and not principals_speak(payload.data, payload.size, &world.scratch):
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return 0
    if is_spoken:
        payload = &world.scratch
    call = call_take(world, node, CALL_CLIENT)
    submission = submission_create(SUBMIT_CLIENT_COMMAND, payload.size)
    if call == NULL or submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return 0
    call.key = <uint8_t>number
    call.session = client.session
    call.number = command.sequence
    submission.owner = call
    submission.arguments.command.session = client.session
    submission.arguments.command.sequence = command.sequence
    memcpy(submission_payload(submission), payload.data, payload.size)
    world.counts.sendings += 1
    engine_submit(node.engine, submission)
    return <uint32_t>1 << node.number


# The command whose place the next one takes is answered, and so are all if the client waits for them.
cdef bint _may_begin(World* world, SimClient* client) noexcept nogil:
    if client.session == 0:
        return False
    if not client.is_draining:
        return _lowest_unanswered(world, client, client.sequence + 1) + world.config.client_window > client.sequence + 1
    return _lowest_unanswered(world, client, client.sequence + 1) == client.sequence + 1


# Several commands at once, each to any node, or one sent again. At times the client waits until all are answered:
# then it knows where its counter stands.
cdef uint32_t _act_in_window(World* world, SimClient* client, uint32_t number) noexcept nogil:
    cdef uint32_t nodes = 0
    cdef uint64_t draw = next_random(&world.random_workload)
    cdef uint32_t i, _i
    if client.session == 0:
        _open_session(world, client)
    elif _may_begin(world, client) and draw & 3 != 0:
        client.is_draining = False
        for _i in range(1 + <uint32_t>(draw >> 8) % world.config.client_window):
            if _may_begin(world, client):
                nodes |= _send(world, client, _next_command(world, client, number), number)
        client.is_draining = draw >> 16 & 3 == 0
        return nodes
    for i in range(world.config.client_window):
        if (draw >> 24) % world.config.client_window == i or not client.commands[i].is_answered:
            nodes |= _send(world, client, &client.commands[i], number)
    return nodes


cdef uint32_t clients_act(World* world, uint32_t number) noexcept nogil:
    cdef SimClient* client = &world.clients[number]
    if client.silent_until_ns > world.now_ns:
        return 0
    if next_random(&world.random_workload) % 512 == 0:     # until its session has expired
        client.silent_until_ns = world.now_ns + <uint64_t>world.config.lease_ttl_ms * 2_500_000
    if world.config.client_window > 1:
        return _act_in_window(world, client, number)
    if client.session == 0:
        _open_session(world, client)
    elif client.commands[0].is_answered and next_random(&world.random_workload) % 8 != 0:
        _next_command(world, client, number)
    # Else what was sent is sent again: it got lost, or its answer did, or the client is only impatient.
    return _send(world, client, &client.commands[0], number)


# --- answers ----------------------------------------------------------------------------------------------------------
# Commands without an answer may have been applied before the session ended. Afterwards they certainly are not.
cdef void _lose_session(World* world, SimClient* client) noexcept nogil:
    cdef SimCommand* command
    cdef uint32_t i
    world.counts.client_sessions_lost += 1
    for i in range(world.config.client_window):
        command = &client.commands[i]
        client.unsure += command.payload.size != 0 and command.wish == WISH_COUNT and not command.is_answered
        command.is_answered = False
        command.payload.clear()
    client.session = 0


# No two counts are answered with one number.
cdef void _check_new(World* world, SimNode* node, uint32_t number, int64_t counted) noexcept nogil:
    cdef uint64_t* seen = world.truth.numbers.insert(<uint64_t>counted << 8 | <uint64_t>COUNTERS | number)
    if seen == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    elif seen[0] != 0:
        violate(world, VIOLATION_NOT_ONCE, node.number, number, <uint64_t>counted)
    else:
        seen[0] = 1


# Nothing is under way, and the last count of all was answered: the counter stands at its number.
cdef void _settle(World* world, SimNode* node, SimClient* client) noexcept nogil:
    if client.issued == 0 or client.highest <= client.known:
        return
    if client.highest < client.known + client.issued - client.unsure:
        violate(world, VIOLATION_NOT_ONCE, node.number, <uint64_t>client.highest, <uint64_t>client.known)
    client.known = client.highest
    client.issued = client.unsure = 0


cdef void _check_count(World* world, SimNode* node, SimClient* client, const SimCommand* command, uint32_t number,
                       const uint8_t* body, uint32_t length) noexcept nogil:
    cdef int64_t counted
    if not call_number(body, length, &counted):
        violate(world, VIOLATION_FATAL, node.number, 10, length)
        return
    if counted <= command.floor or counted > client.known + client.issued:
        violate(world, VIOLATION_NOT_ONCE, node.number, <uint64_t>counted, <uint64_t>client.known)
    _check_new(world, node, number, counted)
    client.highest = max(client.highest, counted)
    if _lowest_unanswered(world, client, client.sequence + 1) > client.sequence:
        _settle(world, node, client)


# Later accepted writes have later tokens, or the same one (answers may come in any order).
cdef void _check_guarded(World* world, SimNode* node, const SimCommand* command, uint64_t revision) noexcept nogil:
    cdef bint is_later = revision > world.truth.guarded_revision
    world.counts.guarded += 1
    if ((is_later and command.token < world.truth.guarded_token)
            or (not is_later and command.token > world.truth.guarded_token)):
        violate(world, VIOLATION_FENCE, node.number, command.token, world.truth.guarded_token)
    if is_later:
        world.truth.guarded_revision = revision
        world.truth.guarded_token = command.token


cdef void _first_answer(World* world, SimNode* node, SimClient* client, SimCommand* command, uint32_t number,
                        status_t status, uint64_t revision, const uint8_t* body, uint32_t length) noexcept nogil:
    command.is_answered = True
    command.answer_hash = hash64(<uint64_t>status, body, length)
    world.counts.client_commands += 1
    if command.wish == WISH_COUNT and status == OK:
        _check_count(world, node, client, command, number, body, length)
    elif command.wish == WISH_LOCK and status == OK:
        client.token = max(client.token, revision)
    elif command.wish == WISH_LOCK and status != KEY_EXISTS:
        violate(world, VIOLATION_FATAL, node.number, 11, status)
    elif command.wish == WISH_GUARDED and status == OK:
        _check_guarded(world, node, command, revision)


cdef void clients_done(World* world, SimNode* node, const SimCall* call, status_t status, uint64_t revision,
                       const uint8_t* body, uint32_t length) noexcept nogil:
    cdef SimClient* client = &world.clients[call.key]
    cdef SimCommand* command = _place(world, client, call.number)
    if client.session != call.session or command.sequence != call.number or command.payload.size == 0:
        return                      # an answer to what the client has done with
    if status == SESSION_UNKNOWN:
        _lose_session(world, client)
    elif status == RESULT_EVICTED:
        if call.number >= client.told_answered:         # it was never said to be answered
            violate(world, VIOLATION_OUTCOME_LOST, node.number, call.number, status)
    elif status >= RESULTS_MAX:
        return                      # this sending's fate; the command is sent again
    elif not command.is_answered:
        _first_answer(world, node, client, command, call.key, status, revision, body, length)
    elif command.sequence != 0 and command.answer_hash != hash64(<uint64_t>status, body, length):
        violate(world, VIOLATION_NOT_ONCE, node.number, command.sequence, status)


cdef void clients_release(World* world) noexcept nogil:
    cdef int number, i
    for number in range(SIM_CLIENTS):
        for i in range(SIM_CLIENT_WINDOW):
            world.clients[number].commands[i].payload.release()
