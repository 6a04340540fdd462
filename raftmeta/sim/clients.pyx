"""Clients that reach the cluster through any node, and what they may be told (thesis 6.3).

    I14  one command in flight: a counter that only this client changes moves by one for each, however many times and to
         however many nodes it was sent; and every sending that is answered gets the same answer
    I18b a lock's fence: a guarded write that was accepted carried the newest token of all that were accepted before
A client whose session is gone does not know what became of its last command: the counter may then be one higher for
each session that was lost so, and never more. Commands: add to the client's own counter; create the lock (the create
revision is the token), remove anybody's lock, add to the guarded counter under the token that the client believes in,
however old.
What it never does: wait, or look at a state directly; it knows what it was answered.
Sources: docs/invariants.md I14, "Fencing"; ARCHITECTURE "A client".
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy, memset

from raftmeta.native.intrinsics cimport hash64, next_random
from raftmeta.runtime.engine cimport engine_submit
from raftmeta.runtime.engine_state cimport ENGINE_RUNNING, SUBMIT_CLIENT_COMMAND, Submission
from raftmeta.sim.calls cimport call_number, call_take
from raftmeta.sim.world_state cimport (CALL_CLIENT, SIM_CLIENTS, VIOLATION_FATAL, VIOLATION_FENCE, VIOLATION_NO_MEMORY,
                                       VIOLATION_NOT_ONCE, SimClient, violate)
from raftmeta.status cimport KEY_EXISTS, OK, RESULT_EVICTED, SESSION_UNKNOWN
from raftmeta.wire.commands cimport (COMMAND_SESSION_OPEN, OP_ADD, OP_CREATE, OP_DELETE, Command, Fence, Op,
                                     command_encode, command_encode_op)

cdef enum:
    RESULTS_MAX = 32            # below this the number stands in replicated results (raftmeta/status.pxd)
    SENDINGS_OPEN_MAX = 8

cdef enum Wish:
    WISH_OPEN = 1               # a session
    WISH_COUNT
    WISH_LOCK
    WISH_UNLOCK
    WISH_GUARDED


# --- commands ---------------------------------------------------------------------------------------------------------
cdef void _open_session(World* world, SimClient* client) noexcept nogil:
    cdef Command* command = &world.command
    client.wish = WISH_OPEN
    client.session = next_random(&world.random_workload) >> 2 | 1
    client.sequence = 0
    command.kind = COMMAND_SESSION_OPEN
    command.session = command.sequence = command.lowest_unanswered = 0
    command.id = client.session
    command.ttl_ms = world.config.lease_ttl_ms
    command.window = 4
    client.payload.clear()
    if command_encode(command, &client.payload) != OK:
        violate(world, VIOLATION_FATAL, 0, 8, client.session)
    command.window = 0              # the scratch's other users have no such field


cdef void _choose(World* world, SimClient* client, Op* op, uint8_t* key, uint32_t number) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_workload) % 8
    if client.token == 0 and draw > 5:
        draw = 4                    # without a token there is nothing to guard
    memset(op, 0, sizeof(Op))
    op.kind = OP_ADD
    op.number = 1
    op.key.data = key
    op.key.length = 8
    client.wish = WISH_COUNT
    memcpy(key, b"client-a", 8)
    key[7] += <uint8_t> number
    if draw < 4:
        return
    if draw > 5:
        client.wish = WISH_GUARDED
        op.key.length = 7
        memcpy(key, b"guarded", 7)
        return
    client.wish = WISH_LOCK if draw == 4 else WISH_UNLOCK
    op.kind = OP_CREATE if draw == 4 else OP_DELETE
    op.number = 0
    op.key.length = 4
    memcpy(key, b"lock", 4)


cdef void _next_command(World* world, SimClient* client, uint32_t number) noexcept nogil:
    cdef Op op
    cdef Fence fence
    cdef uint8_t[8] key
    _choose(world, client, &op, key, number)
    fence.is_present = True
    fence.key.data = <const uint8_t*> b"lock"
    fence.key.length = 4
    fence.create_revision = client.token
    client.sequence += 1
    client.is_answered = False
    client.payload.clear()
    if command_encode_op(&op, client.session, client.sequence, client.sequence,
                         &fence if client.wish == WISH_GUARDED else NULL, &client.payload) != OK:
        violate(world, VIOLATION_FATAL, 0, 9, client.sequence)


# --- sendings ---------------------------------------------------------------------------------------------------------
cdef SimNode* _send(World* world, SimClient* client, uint32_t number) noexcept nogil:
    cdef SimNode* node = &world.nodes[next_random(&world.random_workload) % world.config.nodes]
    cdef SimCall* call
    cdef Submission* submission
    if (client.payload.size == 0 or not node.is_up or node.engine.state != ENGINE_RUNNING
            or node.paused_until_ns > world.now_ns or node.calls_open >= SENDINGS_OPEN_MAX * SIM_CLIENTS):
        return NULL
    call = call_take(world, node, CALL_CLIENT)
    submission = <Submission*> calloc(1, sizeof(Submission) + client.payload.size)
    if call == NULL or submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return NULL
    call.key = <uint8_t> number
    call.session = client.session
    call.number = client.sequence
    submission.kind = SUBMIT_CLIENT_COMMAND
    submission.owner = call
    submission.session = client.session
    submission.sequence = client.sequence
    submission.length = <uint32_t> client.payload.size
    memcpy(<uint8_t*> submission + sizeof(Submission), client.payload.data, client.payload.size)
    world.counts.sendings += 1
    engine_submit(node.engine, submission)
    return node


cdef SimNode* clients_act(World* world, uint32_t number) noexcept nogil:
    cdef SimClient* client = &world.clients[number]
    if client.silent_until_ns > world.now_ns:
        return NULL
    if next_random(&world.random_workload) % 512 == 0:     # until its session has expired
        client.silent_until_ns = world.now_ns + <uint64_t> world.config.lease_ttl_ms * 2_500_000
    if client.session == 0:
        _open_session(world, client)
    elif client.is_answered and next_random(&world.random_workload) % 8 != 0:
        _next_command(world, client, number)
    # Else what was sent is sent again: it got lost, or its answer did, or the client is only impatient.
    return _send(world, client, number)


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void _lose_session(World* world, SimClient* client) noexcept nogil:
    """Whatever the last command was, it may have been applied before the session ended."""
    world.counts.client_sessions_lost += 1
    client.unsure += client.wish == WISH_COUNT and not client.is_answered
    client.session = 0
    client.is_answered = False
    client.payload.clear()


cdef void _check_count(World* world, SimNode* node, SimClient* client, const uint8_t* body,
                       uint32_t length) noexcept nogil:
    cdef int64_t number
    if not call_number(body, length, &number):
        violate(world, VIOLATION_FATAL, node.number, 10, length)
    elif number < client.counted + 1 or number > client.counted + 1 + client.unsure:
        violate(world, VIOLATION_NOT_ONCE, node.number, <uint64_t> number, <uint64_t> client.counted)
    client.counted = number
    client.unsure = 0


cdef void _check_guarded(World* world, SimNode* node, const SimClient* client, uint64_t revision) noexcept nogil:
    """Of two accepted writes the later one has the later token, or the same (answers may come in any order)."""
    cdef bint is_later = revision > world.truth.guarded_revision
    world.counts.guarded += 1
    if ((is_later and client.token < world.truth.guarded_token)
            or (not is_later and client.token > world.truth.guarded_token)):
        violate(world, VIOLATION_FENCE, node.number, client.token, world.truth.guarded_token)
    if is_later:
        world.truth.guarded_revision = revision
        world.truth.guarded_token = client.token


cdef void _first_answer(World* world, SimNode* node, SimClient* client, status_t status, uint64_t revision,
                        const uint8_t* body, uint32_t length) noexcept nogil:
    client.is_answered = True
    client.answer_hash = hash64(<uint64_t> status, body, length)
    world.counts.client_commands += 1
    if client.wish == WISH_COUNT and status == OK:
        _check_count(world, node, client, body, length)
    elif client.wish == WISH_LOCK and status == OK:
        client.token = revision
    elif client.wish == WISH_LOCK and status != KEY_EXISTS:
        violate(world, VIOLATION_FATAL, node.number, 11, status)
    elif client.wish == WISH_GUARDED and status == OK:
        _check_guarded(world, node, client, revision)


cdef void clients_done(World* world, SimNode* node, const SimCall* call, status_t status, uint64_t revision,
                       const uint8_t* body, uint32_t length) noexcept nogil:
    cdef SimClient* client = &world.clients[call.key]
    if client.session != call.session or client.sequence != call.number:
        return                      # an answer to what the client has done with
    if status == SESSION_UNKNOWN:
        _lose_session(world, client)
    elif status == RESULT_EVICTED:
        violate(world, VIOLATION_NOT_ONCE, node.number, client.sequence, status)    # it was never said to be answered
    elif status >= RESULTS_MAX:
        return                      # this sending's fate; the command is sent again
    elif not client.is_answered:
        _first_answer(world, node, client, status, revision, body, length)
    elif client.sequence != 0 and client.answer_hash != hash64(<uint64_t> status, body, length):
        violate(world, VIOLATION_NOT_ONCE, node.number, client.sequence, status)


cdef void clients_release(World* world) noexcept nogil:
    cdef int number
    for number in range(SIM_CLIENTS):
        world.clients[number].payload.release()
