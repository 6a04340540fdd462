"""Clients of the simulated cluster and what they may see.

    I13  a linearizable read is served from a state that has every entry acknowledged to anybody before the read began;
         what a client saw never goes backwards; and some leader has proven since then that it leads
         (raftmeta/sim/world/read_proofs)
    I14  an add answers with the counter's new number: every acknowledged number is different, and at the end the
         counter stands between the acknowledged adds and the submitted ones; and nobody is told that an outcome is
         unknown, or a result gone, while node, membership and session live
    I15, I16  watches: raftmeta/sim/world/watches
    I17  leases: raftmeta/sim/world/leases
    I11, I14  commands of a user machine: raftmeta/sim/world/user_copies
    I24  what all of these show together: raftmeta/sim/world/witness
    I26  commands of principals: raftmeta/sim/world/principals, raftmeta/sim/world/rights_model
    I27-I33  requests for znodes: raftmeta/sim/world/doors, raftmeta/sim/world/znodes_model
    I34-I39  worker groups: raftmeta/sim/world/group_clients, raftmeta/sim/world/groups_check
    I45-I50  topics, offsets, record logs: raftmeta/sim/world/topic_clients, raftmeta/sim/world/topics_check
These clients live in the process of their node and use its session; sim/world/clients has those of other processes.
"""

from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport SUBMIT_READ, Submission, submission_create
from raftmeta.machine.machine cimport MachineStatus, machine_session_exists, machine_status
from raftmeta.native.intrinsics cimport next_random
from raftmeta.raft.types cimport index_t
from raftmeta.sim.world.calls cimport call_give_back, call_number, call_submit, call_take, calls_release
from raftmeta.sim.world.clients cimport clients_done, clients_release
from raftmeta.sim.world.doors cimport doors_done, doors_release
from raftmeta.sim.world.entries cimport entries_release
from raftmeta.sim.world.group_clients cimport group_clients_done
from raftmeta.sim.world.groups_check cimport groups_check, groups_release
from raftmeta.sim.world.leases cimport leases_drop, leases_forget, leases_granted, leases_refused, leases_want
from raftmeta.sim.world.principals cimport principals_done, principals_release
from raftmeta.sim.world.read_proofs cimport proofs_check
from raftmeta.sim.world.rights_model cimport rights_model_release
from raftmeta.sim.world.topic_clients cimport topic_clients_done
from raftmeta.sim.world.topics_check cimport topics_release
from raftmeta.sim.world.user_copies cimport copies_answered, copies_call, copies_fetched, copies_forget, copies_release
from raftmeta.sim.world.watches cimport watches_forget, watches_opened
from raftmeta.sim.world.witness cimport (witness_called, witness_counted, witness_done, witness_read, witness_refused,
                                         witness_release, witness_watches)
from raftmeta.sim.world.znodes_check cimport znodes_check
from raftmeta.sim.world.znodes_model cimport znodes_release
from raftmeta.sim.world.world_state cimport (CALL_ADD, CALL_CLIENT, CALL_DELETE, CALL_DOOR, CALL_GRANT, CALL_GROUP,
                                             CALL_PRINCIPAL, CALL_PUT, CALL_READ, CALL_TOPIC, CALL_USER, CALL_USER_DUMP,
                                             SIM_KEYS, SIM_WATCHES,
                                             VIOLATION_FATAL, VIOLATION_NO_MEMORY, VIOLATION_NOT_ONCE,
                                             VIOLATION_OUTCOME_LOST, VIOLATION_STALE_READ, SimCall, SimNode, SimWatch,
                                             World, violate)
from raftmeta.status cimport OK, OUTCOME_UNKNOWN, RESULT_EVICTED, status_t
from raftmeta.wire.commands cimport OP_ADD, OP_DELETE, OP_PUT, Op, command_encode_op, command_release

cdef enum:
    CALLS_OPEN_MAX = 16         # of one node's clients
    VALUE_BYTES_MAX = 200


# --- calls ------------------------------------------------------------------------------------------------------------
cdef void _submit_read(World* world, SimNode* node) noexcept nogil:
    cdef SimCall* call = call_take(world, node, CALL_READ)
    cdef Submission* submission = submission_create(SUBMIT_READ, 0)
    if call == NULL or submission == NULL:
        return
    submission.owner = call
    engine_submit(node.engine, submission)


# Even keys are counters, odd ones hold values; half of these are never deleted (I24).
cdef void _fill_op(World* world, SimCall* call, Op* op, uint8_t* key, uint8_t* value) noexcept nogil:
    cdef uint64_t draw = next_random(&world.random_workload)
    memset(op, 0, sizeof(Op))
    memcpy(key, b"key-a", 5)
    call.key = <uint8_t>(draw % SIM_KEYS)
    key[4] += call.key
    op.key.data = key
    op.key.length = 5
    if draw >> 40 & 0x1FF == 0:     # the key that a watch of its own waits for (raftmeta/sim/world/watches)
        call.key = 1
        memcpy(key, b"quiet", 5)
    if call.key % 2 == 0:
        op.kind = OP_ADD
        op.number = 1
        call.kind = CALL_ADD
        call.floor_number = world.truth.add_highest[call.key]
    elif draw >> 8 & 7 == 0 and not witness_watches(call.key):
        op.kind = OP_DELETE
        call.kind = CALL_DELETE
    else:
        op.kind = OP_PUT
        call.kind = CALL_PUT
        call.number = draw
        if witness_watches(call.key):
            witness_called(world, call)
        memset(value, 0, VALUE_BYTES_MAX)
        memcpy(value, &draw, sizeof(draw))
        op.value.data = value
        op.value.length = <uint32_t>(8 + (draw >> 16) % (VALUE_BYTES_MAX - 8))


cdef void _submit_change(World* world, SimNode* node) noexcept nogil:
    cdef SimCall* call = call_take(world, node, CALL_PUT)
    cdef Op op
    cdef uint8_t[8] key
    cdef uint8_t[VALUE_BYTES_MAX] value
    if call == NULL:
        return
    _fill_op(world, call, &op, key, value)
    node.next_sequence += 1
    world.scratch.clear()
    if command_encode_op(&op, node.engine.session.id, node.next_sequence, node.engine.calls.own.base, NULL,
                         &world.scratch) != OK:
        violate(world, VIOLATION_FATAL, node.number, 3, node.next_sequence)
        return
    call_submit(world, node, call)


# A client without a lease asks for one; one that has one lets go of it now and then.
cdef void _submit_grant(World* world, SimNode* node) noexcept nogil:
    cdef SimCall* call
    if node.lease.id != 0:
        if next_random(&world.random_workload) % 16 == 0:
            leases_drop(world, node)
        return
    if not leases_want(world, node, node.next_sequence + 1):
        return
    call = call_take(world, node, CALL_GRANT)
    if call == NULL:
        return
    node.next_sequence += 1
    call_submit(world, node, call)


cdef void workload_call(World* world, SimNode* node) noexcept nogil:
    if node.engine.state != ENGINE_RUNNING or node.calls_open >= CALLS_OPEN_MAX:
        return
    if next_random(&world.random_workload) % 4 == 0:
        _submit_read(world, node)
    elif node.engine.session.id != 0 and next_random(&world.random_workload) % 64 == 0:
        _submit_grant(world, node)
    elif node.engine.session.id != 0 and not copies_call(world, node):
        _submit_change(world, node)


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void _check_add(World* world, SimNode* node, SimCall* call, const uint8_t* body, uint32_t length) noexcept nogil:
    cdef int64_t number
    cdef uint64_t* seen
    if not call_number(body, length, &number):
        violate(world, VIOLATION_FATAL, node.number, 4, length)
        return
    witness_counted(world, node, call, number)
    world.truth.adds_acked[call.key] += 1
    world.truth.add_highest[call.key] = max(world.truth.add_highest[call.key], number)
    seen = world.truth.numbers.insert(<uint64_t>number << 8 | call.key)
    if seen == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
    elif seen[0] != 0:
        violate(world, VIOLATION_NOT_ONCE, node.number, call.key, number)
    else:
        seen[0] = 1


cdef void _check_read(World* world, SimNode* node, SimCall* call) noexcept nogil:
    cdef MachineStatus machine
    machine_status(node.engine.machine, &machine)
    world.counts.reads += 1
    if node.engine.applying.applied < call.floor_index or machine.revision < call.floor_revision:
        violate(world, VIOLATION_STALE_READ, node.number, node.engine.applying.applied, call.floor_index)
    proofs_check(world, node, call.called_ns)
    witness_read(world, node, call)
    # Somebody knows the state that was read: a later read may not go back behind it.
    world.truth.acked_revision = max(world.truth.acked_revision, machine.revision)
    world.truth.acked_index = max(world.truth.acked_index, node.engine.applying.applied)


# A command's fate is lost with its node, its membership or its session, and with nothing else: while the session
# lives it keeps the result of each command that was not said to be answered (thesis 6.3).
cdef void _check_unknown(World* world, SimNode* node, const SimCall* call, status_t status) noexcept nogil:
    if node.is_cut or node.engine.state != ENGINE_RUNNING or node.engine.standing.was_removed:
        return
    if status == RESULT_EVICTED or machine_session_exists(node.engine.machine, call.session):
        violate(world, VIOLATION_OUTCOME_LOST, node.number, call.session, status)


cdef void _check_command(World* world, SimNode* node, SimCall* call, status_t status, uint64_t revision, index_t index,
                         const uint8_t* body, uint32_t length) noexcept nogil:
    if status == OUTCOME_UNKNOWN or status == RESULT_EVICTED:
        world.counts.unknown += 1
        _check_unknown(world, node, call, status)
        if call.kind == CALL_GRANT:
            leases_refused(node)
    elif status == OK:
        world.counts.acknowledged += 1
        world.truth.answered_index = max(world.truth.answered_index, index)
        world.truth.acked_index = max(world.truth.acked_index, index)
        world.truth.acked_revision = max(world.truth.acked_revision, revision)
        if call.kind == CALL_ADD:
            _check_add(world, node, call, body, length)
        elif call.kind == CALL_GRANT:
            leases_granted(world, node, index)
        elif call.kind == CALL_PUT and witness_watches(call.key):
            witness_done(world, node, call)
    else:
        world.counts.refused += 1
        if call.kind == CALL_ADD:
            world.truth.adds_submitted[call.key] -= 1       # certainly not applied: it must not show
        elif call.kind == CALL_PUT and witness_watches(call.key):
            witness_refused(world, call)
        elif call.kind == CALL_GRANT:
            leases_refused(node)


cdef void workload_done(World* world, SimNode* node, void* owner, status_t status, uint64_t revision, index_t index,
                        const uint8_t* body, uint32_t length) noexcept nogil:
    cdef SimCall* call
    cdef SimWatch* watch
    watch = <SimWatch*>owner
    if watch >= &node.watches[0] and watch < &node.watches[0] + SIM_WATCHES:
        watches_opened(watch, status, body)
        return
    if owner == &node.copy:
        copies_fetched(world, node, status, body, length)
        return
    call = <SimCall*>owner
    node.calls_open -= 1
    if call.kind == CALL_CLIENT:
        clients_done(world, node, call, status, revision, body, length)
    elif call.kind == CALL_PRINCIPAL:
        principals_done(world, node, call, status)
    elif call.kind == CALL_DOOR:
        doors_done(world, node, call, status, revision, body, length)
    elif call.kind == CALL_GROUP:
        group_clients_done(world, node, call, status, body, length)
    elif call.kind == CALL_TOPIC:
        topic_clients_done(world, node, call, status, body, length)
    elif call.kind == CALL_USER or call.kind == CALL_USER_DUMP:
        if status == OUTCOME_UNKNOWN or status == RESULT_EVICTED:
            _check_unknown(world, node, call, status)
        copies_answered(world, node, call, status, body, length)
    elif call.kind != CALL_READ:
        _check_command(world, node, call, status, revision, index, body, length)
    elif status == OK:
        _check_read(world, node, call)
    else:
        world.counts.reads_refused += 1
    call_give_back(world, call)


cdef void workload_forget_node(World* world, SimNode* node) noexcept nogil:
    leases_forget(node)
    watches_forget(node)
    copies_forget(node)


# --- the end ----------------------------------------------------------------------------------------------------------
cdef void workload_final(World* world) noexcept nogil:
    cdef int key
    cdef uint32_t number
    if world.config.has_znodes:
        for number in range(world.config.nodes):
            world.znodes.checked = 0
            if world.nodes[number].is_up and world.nodes[number].engine.state == ENGINE_RUNNING:
                znodes_check(world, &world.nodes[number])
    for number in range(world.config.nodes if world.groups != NULL else 0):
        if world.nodes[number].is_up and world.nodes[number].engine.state == ENGINE_RUNNING:
            groups_check(world, &world.nodes[number])
    for key in range(0, SIM_KEYS, 2):
        if <uint64_t>world.truth.add_highest[key] > world.truth.adds_submitted[key]:
            violate(world, VIOLATION_NOT_ONCE, 0, key, world.truth.add_highest[key])


cdef void workload_release(World* world) noexcept nogil:
    calls_release(world)
    witness_release(world)
    copies_release(world)
    clients_release(world)
    principals_release(world)
    rights_model_release(world)
    doors_release(world)
    znodes_release(world)
    groups_release(world)
    topics_release(world)
    entries_release(world)
    command_release(&world.command)
