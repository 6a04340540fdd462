"""The pool of calls: blocks that live as long as the world, so that a late answer never finds a freed call."""

from libc.stdint cimport int64_t, uint8_t, uint32_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.submission cimport SUBMIT_COMMAND, Submission, submission_create, submission_payload
from raftmeta.native.containers cimport Vec
from raftmeta.sim.world.world_state cimport CALL_ADD, VIOLATION_NO_MEMORY, SimCall, violate
from raftmeta.status cimport OK
from raftmeta.wire.msgpack cimport Reader, read_array, read_bool, read_int, read_uint, reader_over, unsigned_max

cdef enum:
    CALL_BLOCK = 256


cdef SimCall* call_take(World* world, SimNode* node, uint8_t kind) noexcept nogil:
    cdef SimCall* call
    cdef int i
    if world.free_calls == NULL:
        call = <SimCall*>calloc(CALL_BLOCK, sizeof(SimCall))
        if call == NULL or not world.call_blocks.push(call):
            violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
            return NULL
        for i in range(CALL_BLOCK):
            call[i].next_free = world.free_calls
            world.free_calls = &call[i]
    call = world.free_calls
    world.free_calls = call.next_free
    call.node = node.number
    call.life = node.life
    call.kind = kind
    call.called = world.counts.events + 1
    call.called_ns = world.now_ns
    call.floor_index = world.truth.acked_index
    call.floor_revision = world.truth.acked_revision
    node.calls_open += 1
    return call


cdef void call_submit(World* world, SimNode* node, SimCall* call) noexcept nogil:
    cdef Vec[uint8_t]* payload = &world.scratch
    cdef Submission* submission = submission_create(SUBMIT_COMMAND, payload.size)
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return
    submission.owner = call
    submission.arguments.command.session = call.session = node.engine.session.id
    submission.arguments.command.sequence = node.next_sequence
    memcpy(submission_payload(submission), payload.data, payload.size)
    if call.kind == CALL_ADD:
        world.truth.adds_submitted[call.key] += 1
    engine_submit(node.engine, submission)


cdef void call_give_back(World* world, SimCall* call) noexcept nogil:
    call.next_free = world.free_calls
    world.free_calls = call


cdef void calls_release(World* world) noexcept nogil:
    cdef size_t i
    for i in range(world.call_blocks.size):
        free(world.call_blocks.data[i])
    world.call_blocks.release()


cdef bint call_number(const uint8_t* body, uint32_t length, int64_t* number) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    read_array(&reader, 3)
    read_uint(&reader, unsigned_max())
    read_uint(&reader, unsigned_max())
    read_array(&reader, 2)
    read_bool(&reader)
    read_array(&reader, 1)
    number[0] = read_int(&reader)
    return reader.status == OK
