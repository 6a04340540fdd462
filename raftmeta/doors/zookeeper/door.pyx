"""The ZooKeeper door's thread: everything that happens to ZooKeeper's clients, one turn at a time.

    _main   while not closing:
        epoll_wait              connections, the listener, the mailbox
        _look_at_state          what the loop published: the leader, the members, the feature level
        connections ...         bytes in: requests to the loop, reads at the position
        mailbox_take            answers of the loop; looked at only behind the events that came before them
        _take_news              events_drain: events to clients, and the position moves on
                                _take_mail: results, read rounds, sessions
        connections_wake        those that waited for a round or for the position
        connections_flush       one write for each connection
        sessions_keep_alive     once in a while
        loop_ring               once for everything submitted

It decides when to sleep, and when the door serves: while this node has a cluster with znodes, a session and a watch,
and knew a leader lately. It must never touch a Python object, take the GIL, or block in anything but epoll.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from raftmeta.doors.zookeeper.access cimport access_look
from raftmeta.doors.zookeeper.connections cimport (connection_close, connection_readable, connection_writable,
                                                   connections_accept, connections_drop_revoked,
                                                   connections_expire, connections_fail_all, connections_flush,
                                                   connections_sweep, connections_wake)
from raftmeta.doors.zookeeper.events cimport (events_closed, events_config, events_drain, events_end, events_opened,
                                              events_tend)
from raftmeta.doors.zookeeper.reads cimport reads_unpin
from raftmeta.doors.zookeeper.requests cimport requests_before, requests_done
from raftmeta.doors.zookeeper.rounds cimport round_done, rounds_submit
from raftmeta.doors.zookeeper.sessions cimport sessions_done, sessions_keep_alive
from raftmeta.doors.zookeeper.state cimport (ROOT_BYTES_MAX, SUPER_DIGEST_BYTES_MAX, TASK_CLOSE, TASK_CONNECT,
                                             TASK_KEEP_ALIVE, TASK_OPEN, TASK_ROUND, TASK_UNWATCH, TASK_WATCH,
                                             TASK_WRITE, ZK_FREE, ZkConnection, ZkSaslUser, ZkStop, ZkTask,
                                             connection_at)
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
from raftmeta.native.threads cimport boot_now_ns, thread_join, thread_start
from raftmeta.net cimport posix
from raftmeta.net.unbound cimport unbound_prepare, unbound_release
from raftmeta.security.contexts cimport tls_port_release, tls_port_take
from raftmeta.status cimport NO_MEMORY, OK, SESSION_UNKNOWN
from raftmeta.wire.commands cimport command_init, command_release

cdef extern from "<sys/resource.h>" nogil:
    ctypedef uint64_t rlim_t
    struct rlimit:
        rlim_t rlim_cur
    enum: RLIMIT_NOFILE
    int getrlimit(int resource, rlimit* limit)

cdef enum:
    TUNE_EVENTS_PER_WAIT = 256
    TUNE_READ_BYTES = 1 << 18
    TUNE_SWEEP_NS = 1_000_000_000
    ACCEPT_PAUSE_NS = 100_000_000
    TUNE_GRACE_SHARE = 8        # of hello_timeout_ns: so long nobody gives way to one of its own address
    TUNE_DESCRIPTORS_KEPT = 128     # for links of peers and for files; of a small limit a quarter
    LONGEST_WAIT_MS = 100
    PAUSE_MS = 5
    ENDING_NS = 200_000_000     # so long the door waits at its end for the loop's last word about its watch
    # Places of connections are below; epoll gives these back for the others.
    PLACE_WAKE = 0xFFFFFF1
    PLACE_MAIL = 0xFFFFFF2
    PLACE_LISTENER = 0xFFFFFF3


# --- what the loop published ------------------------------------------------------------------------------------------
# Without a leader for a tick, ZooKeeper's servers send their clients away: what they would read is old.
cdef void _judge(ZkDoor* door) noexcept nogil:
    cdef bint was_minority = door.is_minority
    cdef bint was_serving = door.is_serving
    if door.status.core.leader != 0 and door.status.engine_state == ENGINE_RUNNING:
        door.leader_ns = door.now_ns
    door.is_minority = door.now_ns - door.leader_ns > <uint64_t>door.limits.tick_ms * 1_000_000
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


# --- the listener -----------------------------------------------------------------------------------------------------
cdef bint _register(ZkDoor* door, int descriptor, uint32_t place) noexcept nogil:
    cdef posix.epoll_event event
    event.events = posix.EPOLLIN
    event.data.u64 = place
    return descriptor < 0 or posix.epoll_ctl(door.epoll, posix.EPOLL_CTL_ADD, descriptor, &event) == 0


# Without descriptors nobody is accepted for a while; a listener that stayed registered would not let us sleep.
cdef void _rest_listener(ZkDoor* door) noexcept nogil:
    if door.accept_ns == 0:
        return
    if not door.is_resting:
        door.is_resting = True
        posix.epoll_ctl(door.epoll, posix.EPOLL_CTL_DEL, door.listener, NULL)
    elif door.now_ns >= door.accept_ns:
        door.is_resting = not _register(door, door.listener, PLACE_LISTENER)
        door.accept_ns = 0 if not door.is_resting else door.now_ns + ACCEPT_PAUSE_NS


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef void _look_at_connection(ZkDoor* door, uint64_t tag, uint32_t events) noexcept nogil:
    cdef ZkConnection* connection = &door.connections[<uint32_t>tag]
    cdef uint32_t generation = connection.generation
    if (generation & <uint32_t>0xFFFFFF) != <uint32_t>(tag >> 32) or connection.state == ZK_FREE:
        return                  # an event of an earlier connection of this place
    if events & posix.EPOLLOUT:
        connection_writable(door, connection)
    if connection.generation == generation and events & (posix.EPOLLIN | posix.EPOLLHUP | posix.EPOLLERR):
        connection_readable(door, connection)


cdef void _look_at_events(ZkDoor* door, const posix.epoll_event* events, int count) noexcept nogil:
    cdef uint32_t place
    cdef int i
    for i in range(count):
        place = <uint32_t>events[i].data.u64
        if place == PLACE_MAIL:
            door.has_mail = True
        elif place == PLACE_LISTENER:
            connections_accept(door)
        elif place < door.limits.connections_max:
            _look_at_connection(door, events[i].data.u64, events[i].events)


cdef void _answer(ZkDoor* door, ZkTask* task) noexcept nogil:
    cdef ZkConnection* connection
    if task.kind == TASK_WRITE or task.kind == TASK_CLOSE:
        requests_done(door, task)
        return
    sequence_done(door, task)
    if task.kind == TASK_ROUND:
        round_done(door, task)
    elif task.kind == TASK_CONNECT:
        connection = connection_at(door, task.place, task.generation)
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
        connection = connection_at(door, stop.place, stop.generation)
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
    if not door.has_mail:
        return NULL
    door.has_mail = False
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
    if door.dirty.size != 0 or door.census.is_going:
        return 0
    # Clients that wait until the door serves: nothing else rings when the node has a leader and applied enough.
    if door.has_pause or (door.waiting.size != 0 and not door.is_serving):
        return PAUSE_MS
    return LONGEST_WAIT_MS


cdef void _tell_counters(ZkDoor* door) noexcept nogil:
    door.counters.sessions = door.sessions.size
    door.counters.watches = door.table.count
    door.counters.watched_paths = door.table.paths
    door.counters.memory = door.answer_bytes + door.bytes_under_way + door.part_bytes
    door.counters.tls = door.tls.counters
    door.published.write(door.counters)


cdef void _turn(ZkDoor* door, const posix.epoll_event* events, int count) noexcept nogil:
    cdef Mail* mail
    door.now_ns = boot_now_ns()
    door.turn_bytes = 0
    door.handshake_steps = 0
    if tls_port_take(&door.tls):
        connections_drop_revoked(door)
    _look_at_state(door)
    _look_at_events(door, events, count)
    mail = _open_mailbox(door)
    _take_news(door, mail)
    connections_wake(door)
    connections_expire(door)
    connections_flush(door)
    sessions_keep_alive(door)
    rounds_submit(door)
    census_go(door)
    reads_unpin(door)
    if door.has_submitted:
        door.has_submitted = False
        loop_ring(door.loop)
    _rest_listener(door)
    if door.now_ns >= door.sweep_ns:
        door.sweep_ns = door.now_ns + TUNE_SWEEP_NS
        connections_sweep(door)
        access_look(door)
    _tell_counters(door)


# The watch is given back while the loop still runs; its answer comes through the mailbox.
cdef void _end(ZkDoor* door) noexcept nogil:
    cdef posix.epoll_event[TUNE_EVENTS_PER_WAIT] events
    cdef uint64_t until_ns = boot_now_ns() + ENDING_NS
    cdef uint32_t place
    for place in range(door.limits.connections_max):
        connection_close(door, &door.connections[place])
    events_end(door)
    loop_ring(door.loop)
    while (door.is_unwatching or door.is_watching) and boot_now_ns() < until_ns:
        posix.epoll_wait(door.epoll, events, TUNE_EVENTS_PER_WAIT, PAUSE_MS)
        door.has_mail = True
        _take_mail(door, _open_mailbox(door))
        if door.watch != NULL:
            events_end(door)
            loop_ring(door.loop)
    reads_unpin(door)


cdef void* _main(void* argument) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>argument
    cdef posix.epoll_event[TUNE_EVENTS_PER_WAIT] events
    cdef int count
    while not load_shared(&door.is_closing):
        count = posix.epoll_wait(door.epoll, events, TUNE_EVENTS_PER_WAIT, _timeout_ms(door))
        _turn(door, events, count)
    _end(door)
    return NULL


# --- life -------------------------------------------------------------------------------------------------------------
cdef uint64_t _descriptors_max() noexcept nogil:
    cdef rlimit limit
    if getrlimit(RLIMIT_NOFILE, &limit) != 0:
        return ~<uint64_t>0
    return limit.rlim_cur - min(<uint64_t>TUNE_DESCRIPTORS_KEPT, limit.rlim_cur // 4)


cdef bint _prepare(ZkDoor* door) noexcept nogil:
    cdef uint32_t count = door.limits.connections_max
    cdef uint32_t i
    door.descriptors_max = _descriptors_max()
    if not unbound_prepare(&door.unbound, door.limits.unbound_max, door.limits.unbound_of_address_max,
                           door.limits.hello_timeout_ns // TUNE_GRACE_SHARE):
        return False
    door.epoll = posix.epoll_create1(posix.EPOLL_CLOEXEC)
    door.wake_fd = posix.eventfd(0, posix.EFD_CLOEXEC | posix.EFD_NONBLOCK)
    door.mailbox = mailbox_create(True)
    door.buffer = <uint8_t*>malloc(TUNE_READ_BYTES)
    door.connections = <ZkConnection*>calloc(count, sizeof(ZkConnection))
    if (door.epoll < 0 or door.wake_fd < 0 or door.mailbox == NULL or door.buffer == NULL
            or door.connections == NULL or not door.free.reserve(count)):
        return False
    for i in range(count):      # what no connection used is not touched, and takes no memory
        door.free.push(count - 1 - i)
    return (_register(door, door.wake_fd, PLACE_WAKE) and _register(door, door.mailbox.event_fd, PLACE_MAIL)
            and _register(door, door.listener, PLACE_LISTENER))


cdef uint32_t _port_of(const uint8_t* address, uint8_t length) noexcept nogil:
    cdef uint32_t port = 0
    cdef int i
    for i in range(length):
        port = 0 if address[i] == c':' else port * 10 + (address[i] - c'0') % 10
    return port


cdef ZkDoor* zookeeper_create(Loop* loop, const ZkLimits* limits, int listener, const uint8_t* address,
                              uint8_t address_length, const uint8_t* root, uint8_t root_length,
                              const uint8_t* folder, uint32_t folder_length) noexcept nogil:
    cdef ZkDoor* door = <ZkDoor*>calloc(1, sizeof(ZkDoor))
    if door == NULL or root_length > ROOT_BYTES_MAX:
        _close(listener)
        free(door)
        return NULL
    door.loop = loop
    door.limits = limits[0]
    door.listener = listener
    door.epoll = door.wake_fd = -1
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
    tls_port_take(&door.tls)
    door.is_running = thread_start(&door.thread, _main, door, b"raftmeta-zoo") == 0
    return OK if door.is_running else NO_MEMORY


cdef bint zookeeper_stop(ZkDoor* door, uint64_t timeout_ns) noexcept nogil:
    cdef uint64_t one = 1
    store_shared(&door.is_closing, <uint32_t>1)
    posix.write(door.wake_fd, &one, sizeof(one))
    if door.is_running:
        door.is_running = not thread_join(door.thread, timeout_ns)
    if door.is_running:
        return False
    _close(door.listener)
    door.listener = -1
    return True


cdef void zookeeper_destroy(ZkDoor* door) noexcept nogil:
    cdef uint32_t place
    if door.connections != NULL:
        for place in range(door.limits.connections_max):
            connection_close(door, &door.connections[place])
    tls_port_release(&door.tls)
    if door.mailbox != NULL:
        # Answers that came after the thread ended are of nobody.
        door.has_mail = True
        _take_mail(door, _open_mailbox(door))
        mailbox_abandon(door.mailbox)
    tasks_release(door)
    watch_table_release(&door.table)
    zk_arena_release(&door.arena)
    command_release(&door.command)
    unbound_release(&door.unbound)
    _close(door.listener)
    _close(door.epoll)
    _close(door.wake_fd)
    door.sessions.release()
    door.free.release()
    door.dirty.release()
    door.waiting.release()
    door.stops.release()
    door.places.release()
    door.heard.release()
    door.payload.release()
    door.body.release()
    door.folder.release()
    door.sasl_texts.release()
    door.sasl_users.release()
    free(door.connections)
    free(door.buffer)
    free(door)


cdef void _close(int descriptor) noexcept nogil:
    if descriptor >= 0:
        posix.close(descriptor)


cdef void zookeeper_counters(const ZkDoor* door, ZkCounters* counters) noexcept nogil:
    while not door.published.read(counters):
        pass


cdef void zookeeper_close_in_child(ZkDoor* door) noexcept nogil:
    cdef uint32_t place
    for place in range(door.limits.connections_max):
        if door.connections[place].state != ZK_FREE:
            _close(door.connections[place].stream.fd)
    _close(door.listener)
    _close(door.epoll)
    _close(door.wake_fd)
    _close(door.mailbox.event_fd)
