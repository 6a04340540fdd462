"""The ZooKeeper door's thread: everything that happens to ZooKeeper's clients, one turn at a time.

    _main   while not closing:
        connections_wait        connections, the listener, the mailbox
        _look_at_state          what the loop published: the leader, the members, the feature level
        connections_look        bytes in: requests to the loop, reads at the position
        mailbox_take            answers of the loop; looked at only behind the events that came before them
        _take_news              events_drain: events to clients, and the position moves on
                                _take_mail: results, read rounds, sessions
        connections_go_on       those that waited for a round or for the position; one write for each connection
        sessions_keep_alive     once in a while
        loop_ring               once for everything submitted

It decides when to sleep, and when the door serves: while this node has a cluster with znodes, a session and a watch,
and knew a leader lately. It must never touch a Python object, take the GIL, or block in anything but epoll.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.connections.accounts cimport accounts_sweep
from raftmeta.connections.connections cimport connections_sweep
from raftmeta.connections.state cimport TUNE_READ_BYTES, ConnectionLimits, connection_at
from raftmeta.connections.turns cimport (connections_close_all, connections_close_in_child, connections_go_on,
                                         connections_look, connections_prepare, connections_release, connections_rest,
                                         connections_start, connections_stop, connections_wait)
from raftmeta.doors.zookeeper.access cimport access_look
from raftmeta.doors.zookeeper.connections cimport connections_fail_all, zookeeper_rules
from raftmeta.doors.zookeeper.events cimport (events_closed, events_config, events_drain, events_end, events_opened,
                                              events_tend)
from raftmeta.doors.zookeeper.reads cimport reads_unpin
from raftmeta.doors.zookeeper.requests cimport requests_before, requests_done
from raftmeta.doors.zookeeper.rounds cimport round_done, rounds_submit
from raftmeta.doors.zookeeper.sessions cimport sessions_done, sessions_keep_alive
from raftmeta.doors.zookeeper.state cimport (ROOT_BYTES_MAX, SUPER_DIGEST_BYTES_MAX, TASK_CLOSE, TASK_CONNECT,
                                             TASK_KEEP_ALIVE, TASK_OPEN, TASK_ROUND, TASK_UNWATCH, TASK_WATCH,
                                             TASK_WRITE, ZK_FRAME_BYTES_MAX, ZkConnection, ZkSaslUser, ZkStop, ZkTask)
from raftmeta.doors.zookeeper.tasks cimport (door_session_lost, door_session_opened, door_session_tend,
                                             sequence_done, task_free, task_of, tasks_release)
from raftmeta.doors.zookeeper.translate cimport zk_arena_init, zk_arena_release
from raftmeta.doors.zookeeper.watch_table cimport watch_table_init, watch_table_release
from raftmeta.doors.zookeeper.words cimport census_go
from raftmeta.engine.state cimport ENGINE_RUNNING
from raftmeta.loop.loop cimport NodeStatus, loop_ring
from raftmeta.loop.tickets cimport (MAIL_TICKET, Mail, Ticket, mailbox_abandon, mailbox_create, mailbox_take)
from raftmeta.machine.state cimport LEVEL_OF_ZNODES
from raftmeta.native.atomics cimport load_shared, store_shared
from raftmeta.native.threads cimport boot_now_ns
from raftmeta.net.posix cimport close
from raftmeta.security.audit_queue cimport AUDIT_BY_DOORS, AUDIT_PORT_ZOOKEEPER
from raftmeta.status cimport SESSION_UNKNOWN
from raftmeta.wire.commands cimport command_init, command_release

cdef enum:
    TUNE_SWEEP_NS = 1_000_000_000
    UNREAD_NS = 30_000_000_000  # so long a client may leave what it was sent
    UNREAD_PRESSED_NS = 1_000_000_000   # the same while others wait for room
    LONGEST_WAIT_MS = 100
    PAUSE_MS = 5
    ENDING_NS = 200_000_000     # so long the door waits at its end for the loop's last word about its watch


# --- what the loop published ------------------------------------------------------------------------------------------
# Without a leader for a tick, ZooKeeper's servers send their clients away: what they would read is old.
cdef void _judge(ZkDoor* door) noexcept nogil:
    cdef bint was_minority = door.is_minority
    cdef bint was_serving = door.is_serving
    if door.status.core.leader != 0 and door.status.engine_state == ENGINE_RUNNING:
        door.leader_ns = door.base.now_ns
    door.is_minority = door.base.now_ns - door.leader_ns > <uint64_t>door.limits.tick_ms * 1_000_000
    door.is_serving = (not door.is_minority and door.watch != NULL and door.session != 0
                       and door.status.machine.feature_level >= LEVEL_OF_ZNODES
                       and not door.status.core.is_removed)
    if door.is_minority and not was_minority:
        connections_fail_all(door, False, True)
    if was_minority and not door.is_minority:
        connections_fail_all(door, True, False)
    if was_serving and not door.is_serving and (door.session == 0 or door.status.core.is_removed):
        connections_fail_all(door, True, True)


cdef void _look_at_state(ZkDoor* door) noexcept nogil:
    cdef NodeStatus status
    if door.loop.status.read(&status):      # else it is being written: the one of before serves
        door.status = status
        # The loop tells its status when it has posted the answers of what the status shows.
        door.posted = status.machine.revision
    if door.status.core.membership_index != door.membership_index:
        while not door.loop.membership.read(&door.membership):
            pass
        if door.membership_index != door.status.core.membership_index and door.position != 0:
            events_config(door)
        door.membership_index = door.status.core.membership_index
    if door.membership.count == 0:
        while not door.loop.membership.read(&door.membership):
            pass
    if door.status.engine_state == ENGINE_RUNNING and door.status.core.leader != 0:
        if door.status.machine.feature_level >= LEVEL_OF_ZNODES or door.session != 0:
            door_session_tend(door)
    events_tend(door)
    _judge(door)


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef void _answer(ZkDoor* door, ZkTask* task) noexcept nogil:
    cdef ZkConnection* connection
    if task.kind == TASK_WRITE or task.kind == TASK_CLOSE:
        requests_done(door, task)
        return
    sequence_done(door, task)
    if task.kind == TASK_ROUND:
        round_done(door, task)
    elif task.kind == TASK_CONNECT:
        connection = <ZkConnection*>connection_at(&door.base, task.place, task.generation)
        if connection != NULL:
            sessions_done(door, connection, task)
    elif task.kind == TASK_KEEP_ALIVE:
        door.keep_alives -= 1
    elif task.kind == TASK_OPEN:
        if not door_session_opened(door, task):
            door_session_lost(door)
    elif task.kind == TASK_WATCH:
        events_opened(door, task)
    elif task.kind == TASK_UNWATCH:
        events_closed(door, task)
    if task.ticket.status == SESSION_UNKNOWN and task.session == door.session:
        door_session_lost(door)
    task_free(door, task)


# mail: taken before the events were.
cdef void _take_mail(ZkDoor* door, Mail* mail) noexcept nogil:
    cdef Mail* next
    while mail != NULL:
        next = mail.next
        if mail.kind == MAIL_TICKET:
            _answer(door, task_of(door, <Ticket*>mail))
        mail = next


# The position moves on, but stops in front of each write that a read waits for. Up to `posted` all such writes are
# known; beyond it one may still be under way (requests.pyx "Reads between writes").
cdef bint _advance(ZkDoor* door) noexcept nogil:
    cdef uint64_t until = door.posted if door.writes_behind != 0 else ~<uint64_t>0
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
        connection = <ZkConnection*>connection_at(&door.base, stop.place, stop.generation)
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
        _take_mail(door, mail)
    if not _advance(door):
        door.stops.clear()
        connections_fail_all(door, True, True)
    if not is_first:
        _take_mail(door, mail)


# The posted tickets, without signals of the watch. Signals are acknowledged before the items of the watch are taken, so
# that one that comes later rings again; from then on the loop may link the signal into the next list.
cdef Mail* _open_mailbox(ZkDoor* door) noexcept nogil:
    cdef Mail* first
    cdef Mail** at = &first
    cdef Mail* each
    cdef Mail* next
    if not door.base.has_mail:
        return NULL
    door.base.has_mail = False
    first = each = mailbox_take(door.mailbox)
    while each != NULL:
        next = each.next
        if each.kind == MAIL_TICKET:
            at = &each.next
        else:
            at[0] = next
            store_shared(&door.signal.is_posted, <uint32_t>0)
        each = next
    return first


cdef int _timeout_ms(const ZkDoor* door) noexcept nogil:
    if door.base.dirty.size != 0 or door.census.is_going:
        return 0
    # Clients that wait until the door serves: nothing else rings when the node has a leader and applied enough.
    if door.has_pause or (door.base.waiting.size != 0 and not door.is_serving):
        return PAUSE_MS
    return LONGEST_WAIT_MS


cdef void _tell_counters(ZkDoor* door) noexcept nogil:
    door.counters.sessions = door.sessions.size
    door.counters.watches = door.table.count
    door.counters.watched_paths = door.table.paths
    door.counters.memory = door.base.answer_bytes + door.base.bytes_under_way + door.base.part_bytes
    door.counters.base = door.base.counters
    door.published.write(door.counters)


cdef void _turn(ZkDoor* door) noexcept nogil:
    cdef Mail* mail
    _look_at_state(door)
    connections_look(&door.base)
    mail = _open_mailbox(door)
    _take_news(door, mail)
    door.has_pause = False
    connections_go_on(&door.base)
    sessions_keep_alive(door)
    rounds_submit(door)
    census_go(door)
    reads_unpin(door)
    if door.has_submitted:
        door.has_submitted = False
        loop_ring(door.loop)
    if connections_rest(&door.base):
        connections_sweep(&door.base)
        accounts_sweep(&door.base)
        access_look(door)
    _tell_counters(door)


# The watch is given back while the loop still runs; its answer comes through the mailbox.
cdef void _end(ZkDoor* door) noexcept nogil:
    cdef uint64_t until_ns = boot_now_ns() + ENDING_NS
    connections_close_all(&door.base)
    events_end(door)
    loop_ring(door.loop)
    while (door.is_unwatching or door.is_watching) and boot_now_ns() < until_ns:
        connections_wait(&door.base, PAUSE_MS)
        door.base.has_mail = True
        _take_mail(door, _open_mailbox(door))
        if door.watch != NULL:
            events_end(door)
            loop_ring(door.loop)
    reads_unpin(door)


cdef void* _main(void* argument) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>argument
    while not load_shared(&door.base.is_closing):
        connections_wait(&door.base, _timeout_ms(door))
        _turn(door)
    _end(door)
    return NULL


# --- life -------------------------------------------------------------------------------------------------------------
cdef bint _prepare(ZkDoor* door) noexcept nogil:
    door.mailbox = mailbox_create(True)
    if door.mailbox == NULL or not connections_prepare(&door.base, sizeof(ZkConnection), door.mailbox.event_fd):
        return False
    door.connections = <ZkConnection*>door.base.items
    return True


cdef void _limit(ZkDoor* door) noexcept nogil:
    door.base.limits.frame_bytes_max = ZK_FRAME_BYTES_MAX
    door.base.limits.part_bytes_max = max(door.base.limits.bytes_under_way_max,
                                          <uint64_t>(ZK_FRAME_BYTES_MAX + TUNE_READ_BYTES))
    door.base.limits.unread_ns = UNREAD_NS
    door.base.limits.unread_pressed_ns = UNREAD_PRESSED_NS
    door.base.limits.sweep_ns = TUNE_SWEEP_NS


cdef uint32_t _port_of(const uint8_t* address, uint8_t length) noexcept nogil:
    cdef uint32_t port = 0
    cdef int i
    for i in range(length):
        port = 0 if address[i] == c':' else port * 10 + (address[i] - c'0') % 10
    return port


cdef ZkDoor* zookeeper_create(Loop* loop, const ConnectionLimits* common, const ZkLimits* limits, int listener,
                              const uint8_t* address, uint8_t address_length, const uint8_t* root,
                              uint8_t root_length, const uint8_t* folder, uint32_t folder_length) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>calloc(1, sizeof(ZkDoor))
    if door == NULL or root_length > ROOT_BYTES_MAX:
        close(listener)
        free(door)
        return NULL
    door.loop = loop
    door.base.rules = zookeeper_rules()
    door.base.audit = loop.transport.audit
    door.base.audit_by = AUDIT_BY_DOORS
    door.base.audit_port = AUDIT_PORT_ZOOKEEPER
    door.base.limits = common[0]
    door.limits = limits[0]
    _limit(door)
    door.base.listener = listener
    door.base.local_listener = door.base.epoll = door.base.wake_fd = -1
    door.address_length = address_length
    memcpy(door.address, address, address_length)
    door.port = _port_of(address, address_length)
    door.root_length = root_length
    memcpy(door.root, root, root_length)
    door.next_sequence = door.lowest = 1
    door.started_ns = door.leader_ns = boot_now_ns()
    watch_table_init(&door.table, limits.watches_max)
    zk_arena_init(&door.arena)
    command_init(&door.command)
    if not door.folder.append(folder, folder_length) or not _prepare(door):
        zookeeper_destroy(door)
        return NULL
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
    return connections_start(&door.base, _main, b"raftmeta-zoo")


cdef bint zookeeper_stop(ZkDoor* door, uint64_t timeout_ns) noexcept nogil:
    return connections_stop(&door.base, timeout_ns)


cdef void zookeeper_destroy(ZkDoor* door) noexcept nogil:
    connections_close_all(&door.base)
    if door.mailbox != NULL:
        # Answers that came after the thread ended are of nobody.
        door.base.has_mail = True
        _take_mail(door, _open_mailbox(door))
        mailbox_abandon(door.mailbox)
    tasks_release(door)
    watch_table_release(&door.table)
    zk_arena_release(&door.arena)
    command_release(&door.command)
    connections_release(&door.base)
    door.sessions.release()
    door.stops.release()
    door.places.release()
    door.heard.release()
    door.payload.release()
    door.body.release()
    door.folder.release()
    door.sasl_texts.release()
    door.sasl_users.release()
    free(door)


cdef void zookeeper_counters(const ZkDoor* door, ZkCounters* counters) noexcept nogil:
    while not door.published.read(counters):
        pass


cdef void zookeeper_close_in_child(ZkDoor* door) noexcept nogil:
    connections_close_in_child(&door.base)
