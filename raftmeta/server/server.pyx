"""The clients' thread: everything that happens to them, one turn at a time.

    _clients_main   while not closing:
        connections_wait        connections, listeners, the mailbox
        _look_at_state          what the loop published, the leader that clients are told
        connections_look        bytes in: requests to the loop
        _take_mail              answers and signals of watches
        connections_go_on       one write for each connection; requests that waited for room
        loop_ring               once for everything submitted
        clients_sweep           once in a while: ages

It decides when to sleep. It must never touch a Python object, take the GIL, block in anything but epoll
(and in reading a piece of a backup that the kernel was told to read ahead), or hold the loop up: it meets the loop only
in the queue of submissions, its mailbox, and what the loop published.
"""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from raftmeta.connections.connections cimport connection_resume, connections_flush, connections_relieve
from raftmeta.connections.state cimport CONNECTION_OPEN, TUNE_READ_BYTES, Connections
from raftmeta.connections.turns cimport (connections_close_all, connections_close_in_child, connections_go_on,
                                         connections_look, connections_prepare, connections_release, connections_rest,
                                         connections_start, connections_stop, connections_wait)
from raftmeta.loop.loop cimport NodeStatus, loop_ring
from raftmeta.loop.tickets cimport MAIL_TICKET, Mail, Ticket, mailbox_abandon, mailbox_create, mailbox_take
from raftmeta.machine.watch_purse cimport pool_create, pool_drop
from raftmeta.native.atomics cimport load_acquire, load_shared, store_shared
from raftmeta.net.posix cimport close
from raftmeta.raft.membership cimport membership_position
from raftmeta.security.audit_queue cimport AUDIT_BY_CLIENTS, AUDIT_PORT_CLIENTS
from raftmeta.server.authentication cimport authentication_prepare
from raftmeta.server.connections cimport clients_remove, clients_rules, clients_sweep
from raftmeta.server.members cimport members_read
from raftmeta.server.output cimport connection_has_room
from raftmeta.server.requests cimport requests_done, requests_release, requests_tell_leader
from raftmeta.server.snapshots cimport snapshot_close
from raftmeta.server.state cimport VERSION_BYTES_MAX, ClientConnection, ClientWatch
from raftmeta.server.watches cimport watch_free, watch_news, watches_look
from raftmeta.wire.client_messages cimport CLIENT_BODY_BYTES_MAX, CLIENT_HEADER_BYTES
from raftmeta.wire.commands cimport command_init, command_release

cdef enum:
    TUNE_SWEEP_NS = 1_000_000_000
    LONGEST_WAIT_MS = 100       # how late a client hears of a new leader when nothing else happens
    FRAME_BYTES_MAX = CLIENT_HEADER_BYTES + CLIENT_BODY_BYTES_MAX
    ONE_REQUEST_BYTES = FRAME_BYTES_MAX + TUNE_READ_BYTES       # and what was read behind it: it always has room


# --- what the loop published ------------------------------------------------------------------------------------------
cdef void _look_at_state(ClientServer* server) noexcept nogil:
    cdef NodeStatus status
    cdef uint32_t place
    if not server.loop.status.read(&status):
        return                  # it is being replaced: what was seen last will do
    if status.core.is_removed and not server.status.core.is_removed:
        clients_remove(server)
    server.status = status
    if status.core.leader == server.leader_told:
        return
    members_read(server)
    if status.core.leader != 0 and membership_position(&server.membership, status.core.leader) < 0:
        return                  # its name comes with the membership, soon
    server.leader_told = status.core.leader
    for place in range(server.base.limits.connections_max):
        if server.connections[place].base.state == CONNECTION_OPEN:
            requests_tell_leader(server, &server.connections[place])


# --- a turn -----------------------------------------------------------------------------------------------------------
# One answer makes room for the next request of its connection.
cdef void _answer(ClientServer* server, Ticket* ticket) noexcept nogil:
    cdef ClientConnection* connection = requests_done(server, ticket)
    if connection != NULL and connection.base.received.size != 0 and connection_has_room(server, connection):
        connection_resume(&server.base, &connection.base)


cdef void _take_mail(ClientServer* server) noexcept nogil:
    cdef Mail* mail
    cdef Mail* next
    if not server.base.has_mail:
        return
    server.base.has_mail = False
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
    cdef Connections* base = &server.base
    while not load_shared(&base.is_closing):
        connections_wait(base, LONGEST_WAIT_MS if base.dirty.size == 0 else 0)
        _look_at_state(server)
        watches_look(server)
        connections_look(base)
        _take_mail(server)
        connections_go_on(base)
        connections_relieve(base, base.limits.memory_max // 2)
        server.counters.memory = base.answer_bytes + load_acquire(&server.pool.bytes)
        if server.memory_high < server.counters.memory:
            server.memory_high = server.counters.memory
        if server.has_submitted:
            server.has_submitted = False
            loop_ring(server.loop)
        if connections_rest(base):
            clients_sweep(server)
            connections_flush(base)
        server.counters.base = base.counters
        server.published.write(server.counters)
    connections_close_all(base)
    return NULL


# --- life -------------------------------------------------------------------------------------------------------------
cdef void _limit(ClientServer* server) noexcept nogil:
    server.base.limits.frame_bytes_max = FRAME_BYTES_MAX
    server.base.limits.part_bytes_max = server.base.limits.bytes_under_way_max + ONE_REQUEST_BYTES
    server.base.limits.unread_ns = server.base.limits.unread_pressed_ns = server.limits.idle_ns
    server.base.limits.sweep_ns = min(server.limits.idle_ns // 4, <uint64_t>TUNE_SWEEP_NS)


cdef bint _prepare(ClientServer* server) noexcept nogil:
    server.mailbox = mailbox_create(True)
    server.pool = pool_create(server.base.limits.memory_max // 2)
    if (server.mailbox == NULL or server.pool == NULL or not authentication_prepare(server)
            or not connections_prepare(&server.base, sizeof(ClientConnection), server.mailbox.event_fd)):
        return False
    server.connections = <ClientConnection*>server.base.items
    return True


cdef ClientServer* clients_create(Loop* loop, Accounts* accounts, const ConnectionLimits* common,
                                  const ClientLimits* limits, int listener, int local_listener, const uint8_t* address,
                                  uint8_t address_length, const uint8_t* version,
                                  uint8_t version_length) noexcept nogil:
    cdef ClientServer* server = <ClientServer*>calloc(1, sizeof(ClientServer))
    if server == NULL:
        close(listener)         # -1: there is none
        close(local_listener)
        return NULL
    server.loop = loop
    server.base.rules = clients_rules()
    server.base.accounts = accounts
    server.base.audit = loop.transport.audit
    server.base.audit_by = AUDIT_BY_CLIENTS
    server.base.audit_port = AUDIT_PORT_CLIENTS
    server.base.limits = common[0]
    server.limits = limits[0]
    _limit(server)
    server.base.listener = listener
    server.base.local_listener = local_listener
    server.base.epoll = server.base.wake_fd = -1
    server.address_length = address_length
    memcpy(server.address, address, address_length)
    server.version_length = min(version_length, <uint8_t>VERSION_BYTES_MAX)
    memcpy(server.version, version, server.version_length)
    command_init(&server.command)
    if not _prepare(server):
        clients_destroy(server)
        return NULL
    return server


cdef status_t clients_start(ClientServer* server) noexcept nogil:
    return connections_start(&server.base, _clients_main, b"raftmeta-server")


cdef bint clients_stop(ClientServer* server, uint64_t timeout_ns) noexcept nogil:
    return connections_stop(&server.base, timeout_ns)


cdef void clients_destroy(ClientServer* server) noexcept nogil:
    cdef ClientWatch* watch
    connections_close_all(&server.base)
    if server.mailbox != NULL:
        _end_mail(server)
    requests_release(server)
    while server.orphans != NULL:
        watch = server.orphans
        server.orphans = watch.next
        watch_free(watch)
    connections_release(&server.base)
    server.scratch.release()
    server.audit_note.release()
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


cdef void clients_counters(const ClientServer* server, ClientCounters* counters) noexcept nogil:
    while not server.published.read(counters):
        pass


cdef void clients_close_in_child(ClientServer* server) noexcept nogil:
    cdef uint32_t place
    for place in range(server.base.limits.connections_max):
        snapshot_close(&server.connections[place])
    connections_close_in_child(&server.base)
