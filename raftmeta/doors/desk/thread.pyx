"""The thread of a door: bodies.

It decides how long a door sleeps and how long a client may leave what it was sent. It must never touch a Python object,
take the GIL, or block in anything but epoll.
"""

from libc.stdint cimport uint64_t

from raftmeta.connections.state cimport TUNE_READ_BYTES
from raftmeta.connections.turns cimport connections_close_all, connections_wait
from raftmeta.doors.desk.desk cimport desk_end, desk_open_mail, desk_take_mail, desk_unwatch
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.machine.watches cimport (WATCH_EVENTS, WATCH_PROGRESS_MARK, WatchView, watch_look, watch_pass,
                                       watch_reached)
from raftmeta.native.atomics cimport load_shared

cdef enum:
    TUNE_SWEEP_NS = 1_000_000_000
    UNREAD_NS = 30_000_000_000      # so long a client may leave what it was sent
    UNREAD_PRESSED_NS = 250_000_000     # the same while others wait for room
    LONGEST_WAIT_MS = 100
    PAUSE_MS = 5


# --- life -------------------------------------------------------------------------------------------------------------
cdef void thread_prepare(Desk* desk, Accounts* accounts, AuditProducer by, AuditPort port,
                         const ConnectionLimits* common, uint64_t frame_bytes_max, int listener) noexcept nogil:
    cdef ConnectionLimits* limits = &desk.base.limits
    desk.base.accounts = accounts
    desk.base.audit_by = by
    desk.base.audit_port = port
    desk.base.listener = listener
    limits[0] = common[0]
    limits.frame_bytes_max = frame_bytes_max
    limits.part_bytes_max = max(limits.bytes_under_way_max, frame_bytes_max + TUNE_READ_BYTES)
    limits.unread_ns = UNREAD_NS
    limits.unread_pressed_ns = UNREAD_PRESSED_NS
    limits.sweep_ns = TUNE_SWEEP_NS


cdef void thread_run(Desk* desk, door_sleep sleep_ms, door_turn turn) noexcept nogil:
    while not load_shared(&desk.base.is_closing):
        connections_wait(&desk.base, sleep_ms(desk))
        turn(desk)
    connections_close_all(&desk.base)
    desk_end(desk)


cdef void thread_over(Desk* desk) noexcept nogil:
    connections_close_all(&desk.base)
    if desk.mailbox != NULL:
        desk.base.has_mail = True
        desk_take_mail(desk, desk_open_mail(desk))


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef int thread_sleep_ms(const Desk* desk, bint is_serving) noexcept nogil:
    if desk.base.dirty.size != 0:
        return 0
    # Clients that wait until the door serves: nothing else rings when the node has a leader and applied enough.
    if desk.has_pause or (desk.base.waiting.size != 0 and not is_serving):
        return PAUSE_MS
    return LONGEST_WAIT_MS


cdef bint thread_can_serve(const Desk* desk, bint is_lonely) noexcept nogil:
    return (not is_lonely and desk.watch != NULL and desk.session != 0
            and desk.status.engine_state == ENGINE_RUNNING and not desk.status.core.is_removed)


cdef void thread_drain(Desk* desk) noexcept nogil:
    cdef WatchView view
    if desk.watch == NULL:
        return
    watch_reached(desk.watch)
    while watch_look(desk.watch, &view):
        if view.kind != WATCH_EVENTS and view.kind != WATCH_PROGRESS_MARK:
            desk.resume = 0
            watch_pass(desk.watch, &view)
            desk_unwatch(desk)
            return
        watch_pass(desk.watch, &view)


cdef uint64_t thread_memory(const Desk* desk) noexcept nogil:
    return desk.base.answer_bytes + desk.base.bytes_under_way + desk.base.part_bytes
