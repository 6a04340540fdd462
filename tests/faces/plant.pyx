"""Commands that no caller of a node could make, for tests of real clusters; plant.pyi."""
from libc.stdint cimport uint8_t
from libc.string cimport memcpy

from raftmeta.engine.submission cimport SUBMIT_CLIENT_COMMAND, Submission, submission_create, submission_payload
from raftmeta.face.base cimport NodeBase
from raftmeta.loop.loop cimport loop_ring, loop_submit
from raftmeta.native.atomics cimport load_acquire


# A node proposes what its own callers submit as it comes: they encode it, and cannot encode this.
def plant(NodeBase node not None, bytes payload not None):
    cdef Submission* submission = submission_create(SUBMIT_CLIENT_COMMAND, len(payload))
    if submission == NULL:
        raise MemoryError
    memcpy(submission_payload(submission), <const uint8_t*>payload, len(payload))
    submission.arguments.command.is_urgent = True
    loop_submit(node.loop, submission)
    loop_ring(node.loop)


def session_of(NodeBase node not None):
    return load_acquire(&node.loop.session)
