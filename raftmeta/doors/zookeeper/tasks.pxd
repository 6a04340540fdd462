# Questions of the ZooKeeper door to the loop: tasks out, tickets back, and the door's own session with the cluster.
#
# A task is one request of a client, or the door's own wish. Its commands are of the door's session, whose sequences are
# dense. This module knows no kind of request: `kind` says whose module takes the answer (door.pyx).
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.doors.zookeeper.state cimport ZkConnection, ZkDoor, ZkTask
from raftmeta.engine.submission cimport Submission
from raftmeta.loop.tickets cimport Ticket
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes, Command

# connection NULL: the door's own. The bytes are copied. NULL: no memory.
cdef ZkTask* task_create(ZkDoor* door, ZkConnection* connection, uint8_t kind, const Bytes* frame,
                         const Bytes* payload) noexcept nogil
# Nobody waits for it any more, and its ticket is back or was never out.
cdef void task_free(ZkDoor* door, ZkTask* task) noexcept nogil
# NO_MEMORY: nothing was submitted.
cdef status_t task_submit(ZkDoor* door, ZkTask* task, const Submission* what) noexcept nogil
# The same of a task with a command: its payload, session and sequence.
cdef status_t task_submit_command(ZkDoor* door, ZkTask* task) noexcept nogil
# A ticket is back: the task that it belongs to, STAGE_DONE.
cdef ZkTask* task_of(ZkDoor* door, Ticket* ticket) noexcept nogil
# Let the ticket go, because the task is sent again.
cdef void task_drop_ticket(ZkTask* task) noexcept nogil
# All tasks with a ticket out: their tickets come to nobody. At the end.
cdef void tasks_release(ZkDoor* door) noexcept nogil
cdef Submission submission_of(uint8_t kind) noexcept nogil

# --- the door's session -----------------------------------------------------------------------------------------------
# The command of the task was answered, or is given up.
cdef void sequence_done(ZkDoor* door, const ZkTask* task) noexcept nogil
# Fill in session and sequence of door.command, encode it, and submit it as a task of this kind. frame, made: may be
# NULL. NO_MEMORY, and what command_encode says.
cdef status_t command_submit(ZkDoor* door, ZkConnection* connection, uint8_t kind, const Bytes* frame,
                             bint is_urgent, ZkTask** made) noexcept nogil
# Once a turn: open it, or once in a while renew it.
cdef void door_session_tend(ZkDoor* door) noexcept nogil
# TASK_OPEN is back. False: the session is gone, and another id is opened next.
cdef bint door_session_opened(ZkDoor* door, const ZkTask* task) noexcept nogil
# A command was told that the session has ended.
cdef void door_session_lost(ZkDoor* door) noexcept nogil
# `into` gets `length` unpredictable bytes. False: the system gives none.
cdef bint random_bytes(void* into, size_t length) noexcept nogil
