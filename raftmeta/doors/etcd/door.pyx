"""The etcd door's thread: everything that happens to etcd's clients, one turn at a time.

    _turn
        desk_look               what the loop published: the leader, the members, the feature level
        connections_look        bytes in: calls begin
        desk_take_mail          answers of the loop go to the calls that asked
        connections_tell        what calls have to say goes to their transports
        connections_go_on       those that wait; one write for each connection
        desk_submit             read rounds; one ring for everything submitted

desk/thread calls it whenever there is something to do. This module decides when the door serves: while this node has a
cluster, a session and a watch, and knew a leader lately. It must never touch a Python object, take the GIL, or block in
anything but epoll.
"""

from libc.stdint cimport uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.connections.accounts cimport accounts_sweep
from raftmeta.connections.accounts_state cimport Accounts
from raftmeta.connections.connections cimport connections_sweep
from raftmeta.connections.turns cimport connections_go_on, connections_look, connections_rest, connections_start
from raftmeta.doors.desk.desk cimport (desk_is_lonely, desk_look, desk_open_mail, desk_prepare, desk_release,
                                       desk_submit, desk_take_mail, desk_unpin, desk_watch)
from raftmeta.doors.desk.state cimport Desk, DeskRules, DeskTask, bytes_of
from raftmeta.doors.desk.tasks cimport desk_session_lost, sequence_done, task_free
from raftmeta.doors.desk.thread cimport (thread_can_serve, thread_drain, thread_memory, thread_over, thread_prepare,
                                         thread_run, thread_sleep_ms)
from raftmeta.doors.etcd.access cimport access_look
from raftmeta.doors.etcd.calls cimport calls_answered, calls_release
from raftmeta.doors.etcd.connections cimport connections_expire_calls, connections_tell, etcd_rules
from raftmeta.doors.etcd.feeds cimport feeds_answered, feeds_release, feeds_woken
from raftmeta.doors.etcd.snapshot cimport snapshot_is_busy
from raftmeta.doors.etcd.state cimport (ETCD_MESSAGE_BYTES_MAX, TASK_CALL, TASK_FEED_CLOSE, TASK_FEED_OPEN,
                                        EtcdConnection, EtcdTask)
from raftmeta.doors.etcd.watches cimport watches_tend
from raftmeta.loop.loop cimport READER_ETCD
from raftmeta.machine.watch_purse cimport pool_create, pool_drop
from raftmeta.native.atomics cimport load_acquire
from raftmeta.net.posix cimport close
from raftmeta.security.audit_queue cimport AUDIT_BY_ETCD, AUDIT_PORT_ETCD
from raftmeta.status cimport SESSION_UNKNOWN
from raftmeta.wire.commands cimport KEY_BYTES_MAX, Bytes

cdef enum:
    LONELY_NS = 2_000_000_000       # without a leader for so long: clients are sent elsewhere
    LEVEL_ANY = 1


# --- what the loop published ------------------------------------------------------------------------------------------
# The desk asks read rounds while it has a watch. Nothing that stands behind all other keys concerns this door.
cdef void _watch(EtcdDoor* door) noexcept nogil:
    cdef uint8_t[KEY_BYTES_MAX] last
    cdef Bytes start
    cdef Bytes end
    memset(last, 0xff, sizeof(last))
    last[KEY_BYTES_MAX - 1] = 0
    start = bytes_of(last, KEY_BYTES_MAX - 1)
    end = bytes_of(last, KEY_BYTES_MAX)
    desk_watch(&door.desk, &start, &end)


cdef void _judge(EtcdDoor* door) noexcept nogil:
    _watch(door)
    door.is_lonely = desk_is_lonely(&door.desk, LONELY_NS) or door.desk.status.core.is_removed
    door.is_serving = thread_can_serve(&door.desk, door.is_lonely)


# --- answers of the loop ----------------------------------------------------------------------------------------------
cdef void _answered(Desk* desk, DeskTask* base) noexcept nogil:
    if base.kind == TASK_CALL:
        calls_answered(<EtcdDoor*>desk, <EtcdTask*>base)
        return
    if base.kind == TASK_FEED_OPEN or base.kind == TASK_FEED_CLOSE:
        feeds_answered(<EtcdDoor*>desk, <EtcdTask*>base)
        task_free(desk, base)
        return
    sequence_done(desk, base)
    if base.ticket.status == SESSION_UNKNOWN and base.session == desk.session:
        desk_session_lost(desk)
    task_free(desk, base)


cdef DeskRules RULES
RULES.task_bytes = sizeof(EtcdTask)
RULES.sent = NULL
RULES.returned = NULL
RULES.answered = _answered
RULES.woken = feeds_woken


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef int _sleep_ms(const Desk* desk) noexcept nogil:
    return 0 if snapshot_is_busy(<const EtcdDoor*>desk) else thread_sleep_ms(desk, (<const EtcdDoor*>desk).is_serving)


cdef void _tell_counters(EtcdDoor* door) noexcept nogil:
    door.counters.waiting = door.desk.base.waiting.size
    door.counters.memory = load_acquire(&door.pool.bytes) + thread_memory(&door.desk)
    door.counters.base = door.desk.base.counters
    door.published.write(door.counters)


cdef void _turn(Desk* desk) noexcept nogil:
    cdef EtcdDoor* door = <EtcdDoor*>desk
    desk_look(&door.desk, LEVEL_ANY)
    _judge(door)
    door.desk.has_pause = False
    connections_look(&door.desk.base)
    desk_take_mail(&door.desk, desk_open_mail(&door.desk))
    thread_drain(&door.desk)
    desk_unpin(&door.desk)              # those who wait look at the state behind the answers
    if connections_rest(&door.desk.base):
        connections_sweep(&door.desk.base)
        accounts_sweep(&door.desk.base)
        access_look(door)
        connections_expire_calls(door)
    watches_tend(door)
    connections_tell(door)
    connections_go_on(&door.desk.base)
    desk_unpin(&door.desk)
    desk_submit(&door.desk)
    _tell_counters(door)


cdef void* _main(void* argument) noexcept nogil:
    thread_run(<Desk*>argument, _sleep_ms, _turn)
    return NULL


# --- life -------------------------------------------------------------------------------------------------------------
cdef EtcdDoor* etcd_create(Loop* loop, Accounts* accounts, const ConnectionLimits* common, const DeskLimits* desk,
                           const EtcdLimits* limits, int listener, const uint8_t* address,
                           uint8_t address_length) noexcept nogil:
    cdef EtcdDoor* door = <EtcdDoor*>calloc(1, sizeof(EtcdDoor))
    if door == NULL:
        close(listener)
        return NULL
    door.desk.base.rules = etcd_rules()
    # Frames are taken as they come, so `received` holds next to nothing.
    thread_prepare(&door.desk, accounts, AUDIT_BY_ETCD, AUDIT_PORT_ETCD, common, ETCD_MESSAGE_BYTES_MAX, listener)
    door.limits = limits[0]
    door.client_address_length = address_length
    memcpy(door.client_address, address, address_length)
    door.pool = pool_create(common.memory_max // 2)
    # The desk comes first: without it there is nothing that could be destroyed.
    if not desk_prepare(&door.desk, &RULES, loop, READER_ETCD, desk, sizeof(EtcdConnection)) or door.pool == NULL:
        etcd_destroy(door)
        return NULL
    door.connections = <EtcdConnection*>door.desk.base.items
    return door


cdef status_t etcd_start(EtcdDoor* door) noexcept nogil:
    return connections_start(&door.desk.base, _main, b"raftmeta-etcd")


cdef void etcd_destroy(EtcdDoor* door) noexcept nogil:
    thread_over(&door.desk)
    calls_release(door)
    desk_release(&door.desk)
    feeds_release(door)
    pool_drop(door.pool)
    door.reply.release()
    door.scratch.release()
    door.record.release()
    door.records.release()
    door.written.release()
    door.deleted.release()
    door.told.release()
    door.keyed.release()
    free(door)


cdef void etcd_counters(const EtcdDoor* door, EtcdCounters* counters) noexcept nogil:
    while not door.published.read(counters):
        pass
