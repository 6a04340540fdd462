"""Read rounds: bodies."""

from libc.stdint cimport uint64_t

from raftmeta.doors.desk.state cimport TASK_ROUND
from raftmeta.doors.desk.tasks cimport submission_of, task_ask
from raftmeta.engine.submission cimport SUBMIT_READ, Submission
from raftmeta.status cimport OK


cdef uint64_t round_ask(Desk* desk) noexcept nogil:
    desk.wants_round = True
    return desk.round + 1


cdef bint round_is_done(const Desk* desk, uint64_t round, uint64_t revision) noexcept nogil:
    return round <= desk.round_done and revision >= desk.round_position


cdef void rounds_submit(Desk* desk) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_READ)
    cdef DeskTask* task
    if not desk.wants_round or desk.watch == NULL:
        return
    task = task_ask(desk, TASK_ROUND, &what)
    if task == NULL:
        return
    task.round = desk.round + 1
    desk.round += 1
    desk.wants_round = False


cdef void round_done(Desk* desk, const DeskTask* task) noexcept nogil:
    if task.round <= desk.round_done:
        return
    if task.ticket.status != OK:
        desk.wants_round = True     # a later round serves those who wait for this one, too
        return
    # The loop publishes its status before it answers.
    while not desk.loop.status.read(&desk.status):
        pass
    desk.round_done = task.round
    desk.round_position = desk.status.machine.revision
