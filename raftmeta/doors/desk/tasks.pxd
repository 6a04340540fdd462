# Questions of a door to the loop: tasks out, tickets back, and the desk's own session with the cluster.
#
# A task is one request of a client, or the desk's own wish. Its commands are of the desk's session, whose sequences are
# dense. This module knows no kind of request: the kind of a task says whose module takes the answer (mail.pyx).
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.state cimport Connection
from raftmeta.doors.desk.state cimport Desk, DeskTask
from raftmeta.engine.submission cimport Submission
from raftmeta.loop.tickets cimport Ticket
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes, Command

# connection NULL: the desk's own. The bytes are copied. NULL: no memory.
cdef DeskTask* task_create(Desk* desk, Connection* connection, uint8_t kind, const Bytes* frame,
                           const Bytes* payload) noexcept nogil
# Nobody waits for it any more, and its ticket is back or was never out.
cdef void task_free(Desk* desk, DeskTask* task) noexcept nogil
# NO_MEMORY: nothing was submitted.
cdef status_t task_submit(Desk* desk, DeskTask* task, const Submission* what) noexcept nogil
# The same of a task with a command: its payload, session and sequence.
cdef status_t task_submit_command(Desk* desk, DeskTask* task) noexcept nogil
# A task without bytes of its own, submitted. NULL: no memory.
cdef DeskTask* task_ask(Desk* desk, uint8_t kind, const Submission* what) noexcept nogil
# A ticket is back: the task that it belongs to, STAGE_DONE.
cdef DeskTask* task_of(Desk* desk, Ticket* ticket) noexcept nogil
# Let the ticket go, because the task is sent again.
cdef void task_drop_ticket(DeskTask* task) noexcept nogil
# All tasks with a ticket out: their tickets come to nobody. At the end.
cdef void tasks_release(Desk* desk) noexcept nogil
cdef Submission submission_of(uint8_t kind) noexcept nogil

# --- the desk's session -----------------------------------------------------------------------------------------------
# The command of the task was answered, or is given up.
cdef void sequence_done(Desk* desk, const DeskTask* task) noexcept nogil
# Fill in session and sequence of desk.command, encode it, and submit it as a task of this kind. frame, made: may be
# NULL. NO_MEMORY, and what command_encode says.
cdef status_t command_submit(Desk* desk, Connection* connection, uint8_t kind, const Bytes* frame, bint is_urgent,
                             DeskTask** made) noexcept nogil
# Once a turn: open it, or renew it once in a while, and when rights are configured.
cdef void desk_session_tend(Desk* desk) noexcept nogil
# TASK_OPEN is back. False: the session is gone, and another id is opened next.
cdef bint desk_session_opened(Desk* desk, const DeskTask* task) noexcept nogil
# A command was told that the session has ended.
cdef void desk_session_lost(Desk* desk) noexcept nogil
# `into` gets `length` unpredictable bytes. False: the system gives none.
cdef bint random_bytes(void* into, size_t length) noexcept nogil
