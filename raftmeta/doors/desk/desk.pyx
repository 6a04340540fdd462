"""The life of a desk: bodies.

It decides when the desk's session and watch are opened. It must never touch a Python object, take the GIL, or block in
anything but epoll.
"""

from libc.stddef cimport size_t
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.connections.turns cimport connections_prepare, connections_release, connections_wait
from raftmeta.doors.desk.rounds cimport round_done, rounds_submit
from raftmeta.doors.desk.state cimport (TASK_OF_DOOR, TASK_OPEN, TASK_ROUND, TASK_UNWATCH, TASK_WATCH, DeskTask,
                                        bytes_of)
from raftmeta.doors.desk.tasks cimport (desk_session_lost, desk_session_opened, desk_session_tend, sequence_done,
                                        submission_of, task_ask, task_create, task_free, task_of, task_submit,
                                        tasks_release)
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.engine.submission cimport SUBMIT_UNWATCH, SUBMIT_WATCH, Submission
from raftmeta.loop.loop cimport NodeStatus, loop_enter, loop_leave, loop_ring
from raftmeta.loop.tickets cimport (MAIL_TICKET, MAIL_WATCH, Ticket, WatchSignal, mailbox_abandon, mailbox_create,
                                    mailbox_take)
from raftmeta.machine.entry cimport ENTRY_TOMBSTONE
from raftmeta.machine.tree cimport root_find, root_revision, tree_pin, tree_unpin
from raftmeta.native.atomics cimport load_acquire, store_shared
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.status cimport OK, SESSION_UNKNOWN
from raftmeta.wire.commands cimport KEY_BYTES_MAX, command_init, command_release

cdef enum:
    PAUSE_MS = 5
    ENDING_NS = 200_000_000     # so long a desk waits at its end for the loop's last word about its watch


# --- life -------------------------------------------------------------------------------------------------------------
cdef bint desk_prepare(Desk* desk, const DeskRules* rules, Loop* loop, LoopReader reader, const DeskLimits* limits,
                       size_t connection_bytes) noexcept nogil:
    desk.rules = rules
    desk.loop = loop
    desk.reader = reader
    desk.desk_limits = limits[0]
    desk.base.audit = loop.transport.audit
    desk.base.local_listener = desk.base.epoll = desk.base.wake_fd = -1
    desk.next_sequence = desk.lowest = 1
    desk.started_ns = desk.leader_ns = boot_now_ns()
    command_init(&desk.command)
    desk.mailbox = mailbox_create(True)
    return desk.mailbox != NULL and connections_prepare(&desk.base, connection_bytes, desk.mailbox.event_fd)


cdef void desk_end(Desk* desk) noexcept nogil:
    cdef uint64_t until_ns = boot_now_ns() + ENDING_NS
    desk_unwatch(desk)
    loop_ring(desk.loop)
    while (desk.is_unwatching or desk.is_watching) and boot_now_ns() < until_ns:
        connections_wait(&desk.base, PAUSE_MS)
        desk.base.has_mail = True
        desk_take_mail(desk, desk_open_mail(desk))
        if desk.watch != NULL:
            desk_unwatch(desk)
            loop_ring(desk.loop)
    desk_unpin(desk)


cdef void desk_release(Desk* desk) noexcept nogil:
    if desk.mailbox != NULL:
        # Answers that came after the thread ended are of nobody.
        desk.base.has_mail = True
        desk_take_mail(desk, desk_open_mail(desk))
        mailbox_abandon(desk.mailbox)
    tasks_release(desk)
    command_release(&desk.command)
    connections_release(&desk.base)
    desk.payload.release()


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef void desk_look(Desk* desk, uint32_t needs_level) noexcept nogil:
    cdef NodeStatus status
    if desk.loop.status.read(&status):      # else it is being written: the one of before serves
        desk.status = status
        # The loop tells its status when it has posted the answers of what the status shows.
        desk.posted = status.machine.revision
    if desk.status.core.membership_index != desk.membership_index or desk.membership.count == 0:
        while not desk.loop.membership.read(&desk.membership):
            pass
        desk.membership_index = desk.status.core.membership_index
    if desk.status.engine_state != ENGINE_RUNNING or desk.status.core.leader == 0:
        return
    desk.leader_ns = desk.base.now_ns
    if desk.status.machine.feature_level >= needs_level or desk.session != 0:
        desk_session_tend(desk)


cdef bint desk_is_lonely(const Desk* desk, uint64_t for_ns) noexcept nogil:
    return desk.base.now_ns - desk.leader_ns > for_ns


cdef void _acknowledge(Desk* desk, WatchSignal* signal) noexcept nogil:
    store_shared(&signal.is_posted, <uint32_t>0)
    if signal != &desk.signal and desk.rules.woken != NULL:
        desk.rules.woken(desk, signal)


cdef Mail* desk_open_mail(Desk* desk) noexcept nogil:
    cdef Mail* first
    cdef Mail** at = &first
    cdef Mail* each
    cdef Mail* next
    if not desk.base.has_mail:
        return NULL
    desk.base.has_mail = False
    first = each = mailbox_take(desk.mailbox)
    while each != NULL:
        next = each.next
        if each.kind == MAIL_TICKET:
            at = &each.next
        else:
            at[0] = next
            _acknowledge(desk, <WatchSignal*>each)
        each = next
    return first


cdef void _answer(Desk* desk, DeskTask* task) noexcept nogil:
    if task.kind >= TASK_OF_DOOR:
        desk.rules.answered(desk, task)
        return
    if task.kind == TASK_ROUND:
        round_done(desk, task)
    elif task.kind == TASK_OPEN:
        if not desk_session_opened(desk, task):
            desk_session_lost(desk)
    elif task.kind == TASK_WATCH:
        desk.is_watching = False
        if task.ticket.status == OK:
            memcpy(&desk.watch, task.ticket.body, sizeof(desk.watch))
    elif task.kind == TASK_UNWATCH:
        # A node that has stopped gives the watch back itself; the signal lives as long as the door.
        desk.is_unwatching = task.ticket.status != OK
    sequence_done(desk, task)
    if task.ticket.status == SESSION_UNKNOWN and task.session == desk.session:
        desk_session_lost(desk)
    task_free(desk, task)


cdef void desk_take_mail(Desk* desk, Mail* mail) noexcept nogil:
    cdef Mail* next
    while mail != NULL:
        next = mail.next
        if mail.kind == MAIL_TICKET:
            _answer(desk, task_of(desk, <Ticket*>mail))
        mail = next


cdef void desk_submit(Desk* desk) noexcept nogil:
    rounds_submit(desk)
    if desk.has_submitted:
        desk.has_submitted = False
        loop_ring(desk.loop)


# --- changes ----------------------------------------------------------------------------------------------------------
cdef void desk_watch(Desk* desk, const Bytes* start, const Bytes* end) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_WATCH)
    cdef uint8_t[2 * KEY_BYTES_MAX] range_bytes
    cdef Bytes nothing = bytes_of(NULL, 0)
    cdef Bytes payload
    cdef DeskTask* task
    if (desk.watch != NULL or desk.is_watching or desk.is_unwatching
            or desk.status.engine_state != ENGINE_RUNNING):
        return
    memcpy(range_bytes, start.data, start.length)
    memcpy(range_bytes + start.length, end.data, end.length)
    payload = bytes_of(range_bytes, start.length + end.length)
    task = task_create(desk, NULL, TASK_WATCH, &nothing, &payload)
    if task == NULL:
        return
    desk.signal.mail.kind = MAIL_WATCH
    desk.signal.mailbox = desk.mailbox
    what.arguments.watch.handle = &desk.signal
    what.arguments.watch.start_revision = desk.resume
    what.arguments.watch.key_length = start.length
    if task_submit(desk, task, &what) == OK:
        desk.is_watching = True
    else:
        task_free(desk, task)


cdef void desk_unwatch(Desk* desk) noexcept nogil:
    cdef Submission what = submission_of(SUBMIT_UNWATCH)
    if desk.watch == NULL:
        return
    what.arguments.unwatch.watch = desk.watch
    if task_ask(desk, TASK_UNWATCH, &what) != NULL:
        desk.is_unwatching = True
        desk.watch = NULL


# --- the state --------------------------------------------------------------------------------------------------------
cdef bint _pin(Desk* desk) noexcept nogil:
    desk.machine = loop_enter(desk.loop, desk.reader)
    if desk.machine == NULL:
        loop_leave(desk.loop, desk.reader)
        return False
    desk.pinned = tree_pin(desk.machine.tree)
    return True


cdef bint desk_pin(Desk* desk, uint64_t revision) noexcept nogil:
    if desk.pinned != NULL and root_revision(desk.pinned) >= revision:
        return True
    desk_unpin(desk)
    if not _pin(desk):
        return False
    # A root that was pinned while the floor was not above a revision shows that revision as long as it is pinned.
    if root_revision(desk.pinned) >= revision and load_acquire(&desk.machine.readers_floor) <= revision:
        return True
    desk_unpin(desk)
    return False


cdef uint64_t desk_pin_newest(Desk* desk) noexcept nogil:
    if desk.pinned == NULL and not _pin(desk):
        return 0
    return root_revision(desk.pinned)


cdef void desk_unpin(Desk* desk) noexcept nogil:
    if desk.pinned == NULL:
        return
    tree_unpin(desk.machine.tree, desk.pinned)
    loop_leave(desk.loop, desk.reader)
    desk.pinned = NULL
    desk.machine = NULL


cdef const Entry* desk_find(const Desk* desk, const Bytes* key) noexcept nogil:
    cdef const Entry* entry
    if key.length > KEY_BYTES_MAX:
        return NULL
    entry = root_find(desk.pinned, key.data, <uint16_t>key.length)
    if entry == NULL or entry.flags & ENTRY_TOMBSTONE:
        return NULL
    return entry
