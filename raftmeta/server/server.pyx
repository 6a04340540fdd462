"""The clients' thread: everything that happens to them, one turn at a time.

    _clients_main   while not closing:
        epoll_wait              connections, listeners, the mailbox
        _look_at_state          what the loop published, the leader that clients are told
        connections ...         bytes in: requests to the loop
        _take_mail              answers and signals of watches
        connections_flush       one write for each connection; requests that waited for room
        loop_ring               once for everything submitted
        connections_sweep       once in a while: ages

It decides when to sleep. It must never touch a Python object, take the GIL, block in anything but epoll
(and in reading a piece of a backup that the kernel was told to read ahead), or hold the loop up: it meets the loop only
in the queue of submissions, its mailbox, and what the loop published.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from raftmeta.loop.loop cimport NodeStatus, loop_ring
from raftmeta.loop.tickets cimport MAIL_TICKET, Mail, Ticket, mailbox_abandon, mailbox_create, mailbox_take
from raftmeta.machine.watch_purse cimport pool_create, pool_drop
from raftmeta.native.atomics cimport load_acquire, load_shared, store_shared
from raftmeta.native.threads cimport boot_now_ns, thread_join, thread_start
from raftmeta.net cimport posix
from raftmeta.net.stream cimport stream_init
from raftmeta.raft.membership cimport membership_position
from raftmeta.security.audit_queue cimport AuditTrail
from raftmeta.security.contexts cimport tls_port_release, tls_port_take
from raftmeta.server.authentication cimport authentication_prepare
from raftmeta.server.connections cimport (connection_close, connection_readable, connection_resume, connection_writable,
                                          connections_accept, connections_drop_revoked, connections_expire,
                                          connections_flush, connections_relieve, connections_remove,
                                          connections_sweep, connections_wake)
from raftmeta.net.unbound cimport unbound_prepare, unbound_release
from raftmeta.server.output cimport connection_has_room
from raftmeta.server.quotas cimport quotas_release
from raftmeta.server.members cimport members_read
from raftmeta.server.requests cimport requests_done, requests_release, requests_tell_leader
from raftmeta.server.snapshots cimport snapshot_close
from raftmeta.server.state cimport CONNECTION_FREE, CONNECTION_OPEN, VERSION_BYTES_MAX, ClientWatch, Connection
from raftmeta.server.watches cimport watch_free, watch_news, watches_look
from raftmeta.status cimport NO_MEMORY, OK
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
    LONGEST_WAIT_MS = 100       # how late a client hears of a new leader when nothing else happens
    # Places of connections are below; epoll gives these back for the others.
    PLACE_WAKE = 0xFFFFFF1
    PLACE_MAIL = 0xFFFFFF2
    PLACE_LISTENER = 0xFFFFFF3
    PLACE_LOCAL_LISTENER = 0xFFFFFF4


# --- what the loop published ------------------------------------------------------------------------------------------
cdef void _look_at_state(ClientServer* server) noexcept nogil:
    cdef NodeStatus status
    cdef uint32_t place
    if not server.loop.status.read(&status):
        return                  # it is being replaced: what was seen last will do
    if status.core.is_removed and not server.status.core.is_removed:
        connections_remove(server)
    server.status = status
    if status.core.leader == server.leader_told:
        return
    members_read(server)
    if status.core.leader != 0 and membership_position(&server.membership, status.core.leader) < 0:
        return                  # its name comes with the membership, soon
    server.leader_told = status.core.leader
    for place in range(server.limits.connections_max):
        if server.connections[place].state == CONNECTION_OPEN:
            requests_tell_leader(server, &server.connections[place])


# --- listeners --------------------------------------------------------------------------------------------------------
cdef bint _register(ClientServer* server, int descriptor, uint32_t place) noexcept nogil:
    cdef posix.epoll_event event
    event.events = posix.EPOLLIN
    event.data.u64 = place
    return descriptor < 0 or posix.epoll_ctl(server.epoll, posix.EPOLL_CTL_ADD, descriptor, &event) == 0


# Without descriptors nobody is accepted for a while; a listener that stayed registered would not let us sleep.
cdef void _rest_listeners(ClientServer* server) noexcept nogil:
    if server.accept_ns == 0:
        return
    if not server.is_resting:
        server.is_resting = True
        posix.epoll_ctl(server.epoll, posix.EPOLL_CTL_DEL, server.listener, NULL)
        posix.epoll_ctl(server.epoll, posix.EPOLL_CTL_DEL, server.local_listener, NULL)
    elif server.now_ns >= server.accept_ns:
        server.is_resting = not (_register(server, server.listener, PLACE_LISTENER)
                                 and _register(server, server.local_listener, PLACE_LOCAL_LISTENER))
        server.accept_ns = 0 if not server.is_resting else server.now_ns + ACCEPT_PAUSE_NS


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef void _look_at_connection(ClientServer* server, uint64_t tag, uint32_t events) noexcept nogil:
    cdef Connection* connection = &server.connections[<uint32_t>tag]
    cdef uint32_t generation = connection.generation
    if (generation & <uint32_t>0xFFFFFF) != <uint32_t>(tag >> 32) or connection.state == CONNECTION_FREE:
        return                  # an event of an earlier connection of this place
    if events & posix.EPOLLOUT:
        connection_writable(server, connection)
    if connection.generation == generation and events & (posix.EPOLLIN | posix.EPOLLHUP | posix.EPOLLERR):
        connection_readable(server, connection)


cdef void _look_at_events(ClientServer* server, const posix.epoll_event* events, int count) noexcept nogil:
    cdef uint32_t place
    cdef int i
    for i in range(count):
        place = <uint32_t>events[i].data.u64
        if place == PLACE_MAIL:
            server.has_mail = True
        elif place == PLACE_LISTENER:
            connections_accept(server, server.listener)
        elif place == PLACE_LOCAL_LISTENER:
            connections_accept(server, server.local_listener)
        elif place < server.limits.connections_max:
            _look_at_connection(server, events[i].data.u64, events[i].events)


# One answer makes room for the next request of its connection.
cdef void _answer(ClientServer* server, Ticket* ticket) noexcept nogil:
    cdef Connection* connection = requests_done(server, ticket)
    if connection != NULL and connection.received.size != 0 and connection_has_room(server, connection):
        connection_resume(server, connection)


cdef void _take_mail(ClientServer* server) noexcept nogil:
    cdef Mail* mail
    cdef Mail* next
    if not server.has_mail:
        return
    server.has_mail = False
    mail = mailbox_take(server.mailbox)
    while mail != NULL:
        next = mail.next
        if mail.kind == MAIL_TICKET:
            _answer(server, <Ticket*>mail)
        else:
            store_shared(&(<ClientWatch*>mail).signal.is_posted, <uint32_t>0)
            watch_news(server, <ClientWatch*>mail)
        mail = next


cdef void* _clients_main(void* argument) noexcept nogil:
    cdef ClientServer* server = <ClientServer*>argument
    cdef posix.epoll_event[TUNE_EVENTS_PER_WAIT] events
    cdef int count
    while not load_shared(&server.is_closing):
        count = posix.epoll_wait(server.epoll, events, TUNE_EVENTS_PER_WAIT,
                                 LONGEST_WAIT_MS if server.dirty.size == 0 else 0)
        server.now_ns = boot_now_ns()
        server.turn_bytes = 0
        server.handshake_steps = 0
        if tls_port_take(&server.tls):
            connections_drop_revoked(server)
        _look_at_state(server)
        watches_look(server)
        _look_at_events(server, events, count)
        _take_mail(server)
        connections_expire(server)
        connections_wake(server)
        connections_flush(server)
        connections_relieve(server)
        server.counters.memory = server.answer_bytes + load_acquire(&server.pool.bytes)
        if server.memory_high < server.counters.memory:
            server.memory_high = server.counters.memory
        if server.has_submitted:
            server.has_submitted = False
            loop_ring(server.loop)
        _rest_listeners(server)
        if server.now_ns >= server.sweep_ns:
            server.sweep_ns = server.now_ns + min(server.limits.idle_ns // 4, <uint64_t>TUNE_SWEEP_NS)
            connections_sweep(server)
            connections_flush(server)
        server.counters.unbound = server.unbound.count
        server.counters.tls = server.tls.counters
        server.published.write(server.counters)
    _close_connections(server)      # here, where no signal can come: TLS says goodbye on the socket
    return NULL


# --- life -------------------------------------------------------------------------------------------------------------
cdef uint64_t _descriptors_max() noexcept nogil:
    cdef rlimit limit
    if getrlimit(RLIMIT_NOFILE, &limit) != 0:
        return ~<uint64_t>0
    return limit.rlim_cur - min(<uint64_t>TUNE_DESCRIPTORS_KEPT, limit.rlim_cur // 4)


cdef bint _prepare(ClientServer* server) noexcept nogil:
    cdef uint32_t count = server.limits.connections_max
    cdef uint32_t i
    server.descriptors_max = _descriptors_max()
    if not authentication_prepare(server) or not unbound_prepare(
            &server.unbound, server.limits.unbound_max, server.limits.unbound_of_address_max,
            server.limits.hello_timeout_ns // TUNE_GRACE_SHARE):
        return False
    server.epoll = posix.epoll_create1(posix.EPOLL_CLOEXEC)
    server.wake_fd = posix.eventfd(0, posix.EFD_CLOEXEC | posix.EFD_NONBLOCK)
    server.mailbox = mailbox_create(True)
    server.pool = pool_create(server.limits.memory_max // 2)
    server.buffer = <uint8_t*>malloc(TUNE_READ_BYTES)
    server.connections = <Connection*>calloc(count, sizeof(Connection))
    if (server.epoll < 0 or server.wake_fd < 0 or server.mailbox == NULL or server.buffer == NULL
            or server.connections == NULL or server.pool == NULL or not server.free.reserve(count)):
        return False
    for i in range(count):
        stream_init(&server.connections[i].stream)
        server.free.push(count - 1 - i)
    return (_register(server, server.wake_fd, PLACE_WAKE) and _register(server, server.mailbox.event_fd, PLACE_MAIL)
            and _register(server, server.listener, PLACE_LISTENER)
            and _register(server, server.local_listener, PLACE_LOCAL_LISTENER))


cdef ClientServer* clients_create(Loop* loop, const ClientLimits* limits, AuditTrail* audit, int listener,
                                  int local_listener, const uint8_t* address, uint8_t address_length,
                                  const uint8_t* version, uint8_t version_length) noexcept nogil:
    cdef ClientServer* server = <ClientServer*>calloc(1, sizeof(ClientServer))
    if server == NULL:
        _close(listener)
        _close(local_listener)
        return NULL
    server.loop = loop
    server.audit = audit
    server.limits = limits[0]
    server.listener = listener
    server.local_listener = local_listener
    server.epoll = server.wake_fd = -1
    server.address_length = address_length
    memcpy(server.address, address, address_length)
    server.version_length = min(version_length, <uint8_t>VERSION_BYTES_MAX)
    memcpy(server.version, version, server.version_length)
    command_init(&server.command)
    if not _prepare(server):
        clients_destroy(server)
        return NULL
    return server


cdef void _close_connections(ClientServer* server) noexcept nogil:
    cdef uint32_t place
    for place in range(server.limits.connections_max):
        connection_close(server, &server.connections[place])


cdef status_t clients_start(ClientServer* server) noexcept nogil:
    tls_port_take(&server.tls)
    server.is_running = thread_start(&server.thread, _clients_main, server, b"raftmeta-server") == 0
    return OK if server.is_running else NO_MEMORY


cdef bint clients_stop(ClientServer* server, uint64_t timeout_ns) noexcept nogil:
    cdef uint64_t one = 1
    store_shared(&server.is_closing, <uint32_t>1)
    posix.write(server.wake_fd, &one, sizeof(one))
    if server.is_running:
        server.is_running = not thread_join(server.thread, timeout_ns)
    if server.is_running:
        return False
    _close_connections(server)
    _close(server.listener)
    _close(server.local_listener)
    server.listener = server.local_listener = -1
    return True


cdef void clients_destroy(ClientServer* server) noexcept nogil:
    cdef ClientWatch* watch
    if server.connections != NULL:
        _close_connections(server)
    tls_port_release(&server.tls)
    if server.mailbox != NULL:
        _end_mail(server)
    requests_release(server)
    while server.orphans != NULL:
        watch = server.orphans
        server.orphans = watch.next
        watch_free(watch)
    _close(server.listener)
    _close(server.local_listener)
    _close(server.epoll)
    _close(server.wake_fd)
    free(server.connections)
    free(server.buffer)
    server.free.release()
    server.dirty.release()
    server.scratch.release()
    server.audit_note.release()
    unbound_release(&server.unbound)
    quotas_release(server)
    command_release(&server.command)
    pool_drop(server.pool)
    free(server)


# Answers that came after the thread ended: of watches that can be given back, and of requests of nobody.
cdef void _end_mail(ClientServer* server) noexcept nogil:
    cdef Mail* mail = mailbox_take(server.mailbox)
    cdef Mail* next
    while mail != NULL:
        next = mail.next
        if mail.kind == MAIL_TICKET:
            requests_done(server, <Ticket*>mail)
        mail = next
    mailbox_abandon(server.mailbox)


cdef void _close(int descriptor) noexcept nogil:
    if descriptor >= 0:
        posix.close(descriptor)


cdef void clients_counters(const ClientServer* server, ClientCounters* counters) noexcept nogil:
    while not server.published.read(counters):
        pass


cdef void clients_close_in_child(ClientServer* server) noexcept nogil:
    cdef uint32_t place
    for place in range(server.limits.connections_max):
        _close(server.connections[place].stream.fd)
        snapshot_close(&server.connections[place])
    _close(server.listener)
    _close(server.local_listener)
    _close(server.epoll)
    _close(server.wake_fd)
    _close(server.mailbox.event_fd)
