"""Read rounds: bodies."""

from libc.stdint cimport uint64_t

from raftmeta.doors.zookeeper.state cimport TASK_ROUND, bytes_of
from raftmeta.doors.zookeeper.tasks cimport submission_of, task_create, task_free, task_submit
from raftmeta.engine.submission cimport SUBMIT_READ, Submission
from raftmeta.status cimport OK
from raftmeta.wire.commands cimport Bytes


cdef uint64_t round_ask(ZkDoor* door) noexcept nogil:
    door.wants_round = True
    return door.round + 1


cdef bint round_is_done(const ZkDoor* door, uint64_t round) noexcept nogil:
    return round <= door.round_done and door.position >= door.round_position


cdef void rounds_submit(ZkDoor* door) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_READ)
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef ZkTask* task
    if not door.wants_round or door.watch == NULL:
        return
    task = task_create(door, NULL, TASK_ROUND, &nothing, &nothing)
    if task == NULL:
        return
    task.round = door.round + 1
    if task_submit(door, task, &what) != OK:
        task_free(door, task)
        return
    door.round += 1
    door.wants_round = False


cdef void round_done(ZkDoor* door, const ZkTask* task) noexcept nogil:
    if task.round <= door.round_done:
        return
    if task.ticket.status != OK:
        door.wants_round = True     # a later round serves those who wait for this one, too
        return
    # The loop publishes its status before it answers.
    while not door.loop.status.read(&door.status):
        pass
    door.round_done = task.round
    door.round_position = door.status.machine.revision
