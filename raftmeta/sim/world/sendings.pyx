"""Commands of clients of other processes: bodies."""
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.engine.engine cimport engine_submit
from raftmeta.engine.submission cimport SUBMIT_CLIENT_COMMAND, Submission, submission_create, submission_payload
from raftmeta.machine.state cimport LEVEL_OF_RIGHTS
from raftmeta.sim.world.principals cimport principals_speak
from raftmeta.sim.world.world_state cimport VIOLATION_NO_MEMORY, violate


cdef uint32_t sending_submit(World* world, SimNode* node, const Vec[uint8_t]* bytes, SimCall* call, uint64_t session,
                             uint64_t sequence) noexcept nogil:
    cdef const Vec[uint8_t]* payload = bytes
    cdef Submission* submission
    if world.config.has_rights and node.engine.machine.feature_level >= LEVEL_OF_RIGHTS:
        if not principals_speak(bytes.data, bytes.size, &world.scratch):
            violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
            return 0
        payload = &world.scratch
    submission = submission_create(SUBMIT_CLIENT_COMMAND, payload.size)
    if submission == NULL:
        violate(world, VIOLATION_NO_MEMORY, node.number, 0, 0)
        return 0
    submission.owner = call
    submission.arguments.command.session = session
    submission.arguments.command.sequence = sequence
    memcpy(submission_payload(submission), payload.data, payload.size)
    engine_submit(node.engine, submission)
    return <uint32_t>1 << node.number
