"""The ZooKeeper door's thread: everything that happens to ZooKeeper's clients, one turn at a time.

    _turn
        _look_at_state          what the loop published: the leader, the members, the feature level
        connections_look        bytes in: requests to the loop, reads at the position
        mailbox_take            answers of the loop; looked at only behind the events that came before them
        _take_news              events_drain: events to clients, and the position moves on
                                _take_mail: results, read rounds, sessions
        connections_sweep       once in a while, more often when the room is full: those that do not read
        connections_go_on       those that waited for a round, the position or room; one write for each connection
        sessions_keep_alive     once in a while
        loop_ring               once for everything submitted

desk/thread calls it whenever there is something to do. This module decides when the door serves: while this node has a
cluster with znodes, a session and a watch, and knew a leader lately. It must never touch a Python object, take the GIL,
or block in anything but epoll.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.connections.accounts cimport accounts_sweep
from raftmeta.connections.connections cimport connections_sweep
from raftmeta.connections.state cimport ConnectionLimits, connection_at
from raftmeta.connections.turns cimport (connections_close_all, connections_go_on, connections_look, connections_rest,
                                         connections_start)
from raftmeta.doors.desk.desk cimport (desk_is_lonely, desk_look, desk_open_mail, desk_prepare, desk_release,
                                       desk_submit, desk_take_mail, desk_unpin)
from raftmeta.doors.desk.state cimport STAGE_WAITS, Desk, DeskRules, DeskTask
from raftmeta.doors.desk.tasks cimport desk_session_lost, sequence_done, task_free
from raftmeta.doors.desk.thread cimport thread_memory, thread_prepare, thread_run, thread_sleep_ms
from raftmeta.doors.zookeeper.access cimport access_look
from raftmeta.doors.zookeeper.connections cimport connections_fail_all, zookeeper_rules
from raftmeta.doors.zookeeper.events cimport events_config, events_drain, events_tend
from raftmeta.doors.zookeeper.requests cimport requests_before, requests_done
from raftmeta.doors.zookeeper.sessions cimport sessions_done, sessions_keep_alive
from raftmeta.doors.zookeeper.state cimport (ROOT_BYTES_MAX, SUPER_DIGEST_BYTES_MAX, TASK_CLOSE, TASK_CONNECT,
                                             TASK_KEEP_ALIVE, TASK_WRITE, ZK_FRAME_BYTES_MAX, ZkConnection,
                                             ZkSaslUser, ZkStop, ZkTask)
from raftmeta.doors.zookeeper.translate cimport zk_arena_init, zk_arena_release
from raftmeta.doors.zookeeper.watch_table cimport watch_table_init, watch_table_release
from raftmeta.doors.zookeeper.words cimport census_go
from raftmeta.loop.loop cimport READER_DOORS
from raftmeta.loop.tickets cimport Mail
from raftmeta.machine.state cimport LEVEL_OF_ZNODES
from raftmeta.net.posix cimport close
from raftmeta.security.audit_queue cimport AUDIT_BY_DOORS, AUDIT_PORT_ZOOKEEPER
from raftmeta.status cimport SESSION_UNKNOWN

# --- what the loop published ------------------------------------------------------------------------------------------
# Without a leader for a tick, ZooKeeper's servers send their clients away: what they would read is old.
cdef void _judge(ZkDoor* door) noexcept nogil:
    cdef bint was_minority = door.is_minority
    cdef bint was_serving = door.is_serving
    door.is_minority = desk_is_lonely(&door.desk, <uint64_t>door.limits.tick_ms * 1_000_000)
    door.is_serving = (not door.is_minority and door.desk.watch != NULL and door.desk.session != 0
                       and door.desk.status.machine.feature_level >= LEVEL_OF_ZNODES
                       and not door.desk.status.core.is_removed)
    if door.is_minority and not was_minority:
        connections_fail_all(door, False, True)
    if was_minority and not door.is_minority:
        connections_fail_all(door, True, False)
    if was_serving and not door.is_serving and (door.desk.session == 0 or door.desk.status.core.is_removed):
        connections_fail_all(door, True, True)


cdef void _look_at_state(ZkDoor* door) noexcept nogil:
    desk_look(&door.desk, LEVEL_OF_ZNODES)
    if door.desk.membership_index != door.membership_index:
        if door.position != 0:
            events_config(door)
        door.membership_index = door.desk.membership_index
    events_tend(door)
    _judge(door)


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef void _answered(Desk* desk, DeskTask* base) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>desk
    cdef ZkTask* task = <ZkTask*>base
    cdef ZkConnection* connection
    if base.kind == TASK_WRITE or base.kind == TASK_CLOSE:
        requests_done(door, task)
        return
    sequence_done(desk, base)
    if base.kind == TASK_CONNECT:
        connection = <ZkConnection*>connection_at(&desk.base, base.place, base.generation)
        if connection != NULL:
            sessions_done(door, connection, task)
    elif base.kind == TASK_KEEP_ALIVE:
        door.keep_alives -= 1
    if base.ticket.status == SESSION_UNKNOWN and base.session == desk.session:
        desk_session_lost(desk)
    task_free(desk, base)


cdef void _sent(Desk* desk, DeskTask* base) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>desk
    cdef ZkTask* task = <ZkTask*>base
    cdef ZkConnection* connection
    if base.kind != TASK_WRITE:
        return
    if base.stage == STAGE_WAITS:       # and not sent again
        connection = <ZkConnection*>connection_at(&desk.base, base.place, base.generation)
        task.is_behind_read = connection != NULL and connection.reads != 0
    door.writes += 1
    door.writes_behind += task.is_behind_read


cdef void _returned(Desk* desk, DeskTask* base) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>desk
    if base.kind == TASK_WRITE:
        door.writes -= 1
        door.writes_behind -= (<ZkTask*>base).is_behind_read


cdef DeskRules RULES
RULES.task_bytes = sizeof(ZkTask)
RULES.sent = _sent
RULES.returned = _returned
RULES.answered = _answered
RULES.woken = NULL


# The position moves on, but stops in front of each write that a read waits for. Up to `posted` all such writes are
# known; beyond it one may still be under way (requests.pyx "Reads between writes").
cdef bint _advance(ZkDoor* door) noexcept nogil:
    cdef uint64_t until = door.desk.posted if door.writes_behind != 0 else ~<uint64_t>0
    cdef ZkConnection* connection
    cdef ZkStop stop
    cdef size_t passed = 0
    cdef bint is_sound = True
    while passed < door.stops.size and door.stops.data[passed].revision <= until:
        stop = door.stops.data[passed]
        is_sound = events_drain(door, stop.revision - 1)
        if not is_sound or door.position + 1 < stop.revision:
            until = stop.revision - 1       # the events are not there yet
            break
        connection = <ZkConnection*>connection_at(&door.desk.base, stop.place, stop.generation)
        if connection != NULL:
            requests_before(door, connection, stop.revision)
        passed += 1
    door.stops.drop_front(passed)
    return is_sound and events_drain(door, until)


# Where a read waits in front of a write, results are looked at first, because they say where to stop. Otherwise events
# are told first, so that results go out at once.
cdef void _take_news(ZkDoor* door, Mail* mail) noexcept nogil:
    cdef bint is_first = door.writes_behind != 0 or door.stops.size != 0
    if is_first:
        desk_take_mail(&door.desk, mail)
    if not _advance(door):
        door.stops.clear()
        connections_fail_all(door, True, True)
    if not is_first:
        desk_take_mail(&door.desk, mail)


cdef int _sleep_ms(const Desk* desk) noexcept nogil:
    cdef const ZkDoor* door = <const ZkDoor*>desk
    return 0 if door.census.is_going else thread_sleep_ms(desk, door.is_serving)


cdef void _tell_counters(ZkDoor* door) noexcept nogil:
    door.counters.sessions = door.sessions.size
    door.counters.watches = door.table.count
    door.counters.watched_paths = door.table.paths
    door.counters.memory = thread_memory(&door.desk)
    door.counters.base = door.desk.base.counters
    door.published.write(door.counters)


cdef void _turn(Desk* desk) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>desk
    cdef Mail* mail
    _look_at_state(door)
    connections_look(&door.desk.base)
    mail = desk_open_mail(&door.desk)
    _take_news(door, mail)
    door.desk.has_pause = False
    if connections_rest(&door.desk.base):
        connections_sweep(&door.desk.base)
        accounts_sweep(&door.desk.base)
        access_look(door)
    connections_go_on(&door.desk.base)
    sessions_keep_alive(door)
    census_go(door)
    desk_unpin(&door.desk)
    desk_submit(&door.desk)
    _tell_counters(door)


cdef void* _main(void* argument) noexcept nogil:
    thread_run(<Desk*>argument, _sleep_ms, _turn)
    return NULL


# --- life -------------------------------------------------------------------------------------------------------------
cdef uint32_t _port_of(const uint8_t* address, uint8_t length) noexcept nogil:
    cdef uint32_t port = 0
    cdef int i
    for i in range(length):
        port = 0 if address[i] == c':' else port * 10 + (address[i] - c'0') % 10
    return port


cdef ZkDoor* zookeeper_create(Loop* loop, Accounts* accounts, const ConnectionLimits* common, const DeskLimits* desk,
                              const ZkLimits* limits, int listener, const uint8_t* address, uint8_t address_length,
                              const uint8_t* root, uint8_t root_length, const uint8_t* folder,
                              uint32_t folder_length) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>calloc(1, sizeof(ZkDoor))
    if door == NULL or root_length > ROOT_BYTES_MAX:
        close(listener)
        free(door)
        return NULL
    door.desk.base.rules = zookeeper_rules()
    thread_prepare(&door.desk, accounts, AUDIT_BY_DOORS, AUDIT_PORT_ZOOKEEPER, common, ZK_FRAME_BYTES_MAX, listener)
    door.limits = limits[0]
    door.address_length = address_length
    memcpy(door.address, address, address_length)
    door.port = _port_of(address, address_length)
    door.root_length = root_length
    memcpy(door.root, root, root_length)
    watch_table_init(&door.table, limits.watches_max)
    zk_arena_init(&door.arena)
    if (not desk_prepare(&door.desk, &RULES, loop, READER_DOORS, desk, sizeof(ZkConnection))
            or not door.folder.append(folder, folder_length)):
        zookeeper_destroy(door)
        return NULL
    door.connections = <ZkConnection*>door.desk.base.items
    return door


cdef bint zookeeper_super_digest(ZkDoor* door, const uint8_t* digest, uint32_t length) noexcept nogil:
    if length > SUPER_DIGEST_BYTES_MAX:
        return False
    memcpy(door.super_digest, digest, length)
    door.auth.super_digest.data = door.super_digest
    door.auth.super_digest.length = length
    return True


cdef bint zookeeper_add_user(ZkDoor* door, const uint8_t* name, uint32_t name_length, const uint8_t* password,
                             uint32_t password_length) noexcept nogil:
    cdef ZkSaslUser user
    cdef uint8_t* texts
    cdef size_t i
    user.name.length = name_length
    user.password.length = password_length
    if (not door.sasl_texts.append(name, name_length) or not door.sasl_texts.append(password, password_length)
            or not door.sasl_users.push(user)):
        return False
    texts = door.sasl_texts.data            # the texts may have moved
    for i in range(door.sasl_users.size):
        door.sasl_users.data[i].name.data = texts
        texts += door.sasl_users.data[i].name.length
        door.sasl_users.data[i].password.data = texts
        texts += door.sasl_users.data[i].password.length
    door.auth.users = door.sasl_users.data
    door.auth.user_count = <uint32_t>door.sasl_users.size
    return True


cdef status_t zookeeper_start(ZkDoor* door) noexcept nogil:
    return connections_start(&door.desk.base, _main, b"raftmeta-zoo")


cdef void zookeeper_destroy(ZkDoor* door) noexcept nogil:
    connections_close_all(&door.desk.base)
    desk_release(&door.desk)
    watch_table_release(&door.table)
    zk_arena_release(&door.arena)
    door.sessions.release()
    door.stops.release()
    door.places.release()
    door.heard.release()
    door.body.release()
    door.folder.release()
    door.sasl_texts.release()
    door.sasl_users.release()
    free(door)


cdef void zookeeper_counters(const ZkDoor* door, ZkCounters* counters) noexcept nogil:
    while not door.published.read(counters):
        pass
