"""One turn of a thread with connections from outside: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, malloc

from raftmeta.connections.accounts cimport holdings_release
from raftmeta.connections.connections cimport (connection_close, connection_readable, connection_writable,
                                               connections_accept, connections_are_pressed, connections_drop_revoked,
                                               connections_expire, connections_flush, connections_wake)
from raftmeta.connections.state cimport (CONNECTION_FREE, TUNE_EVENTS_PER_WAIT, TUNE_READ_BYTES, Connection,
                                         connection_in)
from raftmeta.native.atomics cimport store_shared
from raftmeta.native.threads cimport boot_now_ns, thread_join, thread_start
from raftmeta.net cimport posix
from raftmeta.net.unbound cimport unbound_prepare, unbound_release
from raftmeta.security.contexts cimport tls_port_release, tls_port_take
from raftmeta.status cimport NO_MEMORY, OK

cdef extern from "<sys/resource.h>" nogil:
    ctypedef uint64_t rlim_t
    struct rlimit:
        rlim_t rlim_cur
    enum: RLIMIT_NOFILE
    int getrlimit(int resource, rlimit* limit)

cdef enum:
    ACCEPT_PAUSE_NS = 100_000_000
    TUNE_GRACE_SHARE = 8        # of hello_timeout_ns: so long nobody gives way to one of its own address
    TUNE_SWEEPS_OF_PRESSED = 4  # in unread_pressed_ns
    TUNE_DESCRIPTORS_KEPT = 128     # for links of peers and for files; of a small limit a quarter
    # Places of connections are below; epoll gives these back for the others.
    PLACE_WAKE = 0xFFFFFF1
    PLACE_MAIL = 0xFFFFFF2
    PLACE_LISTENER = 0xFFFFFF3
    PLACE_LOCAL_LISTENER = 0xFFFFFF4


# --- listeners --------------------------------------------------------------------------------------------------------
cdef bint _register(Connections* connections, int descriptor, uint32_t place) noexcept nogil:
    cdef posix.epoll_event event
    event.events = posix.EPOLLIN
    event.data.u64 = place
    return descriptor < 0 or posix.epoll_ctl(connections.epoll, posix.EPOLL_CTL_ADD, descriptor, &event) == 0


cdef bint _register_listeners(Connections* connections) noexcept nogil:
    return (_register(connections, connections.listener, PLACE_LISTENER)
            and _register(connections, connections.local_listener, PLACE_LOCAL_LISTENER))


# Without descriptors nobody is accepted for a while; a listener that stayed registered would not let us sleep.
cdef void _rest_listeners(Connections* connections) noexcept nogil:
    if connections.accept_ns == 0:
        return
    if not connections.is_resting:
        connections.is_resting = True
        posix.epoll_ctl(connections.epoll, posix.EPOLL_CTL_DEL, connections.listener, NULL)
        posix.epoll_ctl(connections.epoll, posix.EPOLL_CTL_DEL, connections.local_listener, NULL)
    elif connections.now_ns >= connections.accept_ns:
        connections.is_resting = not _register_listeners(connections)
        connections.accept_ns = 0 if not connections.is_resting else connections.now_ns + ACCEPT_PAUSE_NS


# --- a turn -----------------------------------------------------------------------------------------------------------
cdef void connections_wait(Connections* connections, int timeout_ms) noexcept nogil:
    connections.event_count = posix.epoll_wait(connections.epoll, connections.events, TUNE_EVENTS_PER_WAIT, timeout_ms)
    connections.now_ns = boot_now_ns()
    connections.turn_bytes = 0
    connections.handshake_steps = 0
    if tls_port_take(&connections.tls):
        connections_drop_revoked(connections)


cdef void _look_at_connection(Connections* connections, uint64_t tag, uint32_t events) noexcept nogil:
    cdef Connection* connection = connection_in(connections, <uint32_t>tag)
    cdef uint32_t generation = connection.generation
    if (generation & <uint32_t>0xFFFFFF) != <uint32_t>(tag >> 32) or connection.state == CONNECTION_FREE:
        return                  # an event of an earlier connection of this place
    if events & posix.EPOLLOUT:
        connection_writable(connections, connection)
    if connection.generation == generation and events & (posix.EPOLLIN | posix.EPOLLHUP | posix.EPOLLERR):
        connection_readable(connections, connection)


cdef void connections_look(Connections* connections) noexcept nogil:
    cdef uint32_t place
    cdef int i
    for i in range(connections.event_count):
        place = <uint32_t>connections.events[i].data.u64
        if place == PLACE_MAIL:
            connections.has_mail = True
        elif place == PLACE_LISTENER:
            connections_accept(connections, connections.listener)
        elif place == PLACE_LOCAL_LISTENER:
            connections_accept(connections, connections.local_listener)
        elif place < connections.limits.connections_max:
            _look_at_connection(connections, connections.events[i].data.u64, connections.events[i].events)


cdef void connections_go_on(Connections* connections) noexcept nogil:
    connections_wake(connections)
    connections_expire(connections)
    connections_flush(connections)


cdef bint connections_rest(Connections* connections) noexcept nogil:
    _rest_listeners(connections)
    connections.counters.unbound = connections.unbound.count
    connections.counters.tls = connections.tls.counters
    if connections.now_ns < connections.sweep_ns:
        return False
    connections.sweep_ns = connections.now_ns + (
        min(connections.limits.sweep_ns, connections.limits.unread_pressed_ns // TUNE_SWEEPS_OF_PRESSED)
        if connections_are_pressed(connections) else connections.limits.sweep_ns)
    return True


# --- life -------------------------------------------------------------------------------------------------------------
cdef uint64_t _descriptors_max() noexcept nogil:
    cdef rlimit limit
    if getrlimit(RLIMIT_NOFILE, &limit) != 0:
        return ~<uint64_t>0
    return limit.rlim_cur - min(<uint64_t>TUNE_DESCRIPTORS_KEPT, limit.rlim_cur // 4)


cdef bint connections_prepare(Connections* connections, size_t item_bytes, int mail_fd) noexcept nogil:
    cdef uint32_t count = connections.limits.connections_max
    cdef uint32_t i
    connections.item_bytes = item_bytes
    connections.mail_fd = mail_fd
    connections.descriptors_max = _descriptors_max()
    connections.epoll = posix.epoll_create1(posix.EPOLL_CLOEXEC)
    connections.wake_fd = posix.eventfd(0, posix.EFD_CLOEXEC | posix.EFD_NONBLOCK)
    connections.buffer = <uint8_t*>malloc(TUNE_READ_BYTES)
    connections.items = <uint8_t*>calloc(count, item_bytes)
    if (connections.epoll < 0 or connections.wake_fd < 0 or connections.buffer == NULL or connections.items == NULL
            or not connections.free.reserve(count)
            or not unbound_prepare(&connections.unbound, connections.limits.unbound_max,
                                   connections.limits.unbound_of_address_max,
                                   connections.limits.hello_timeout_ns // TUNE_GRACE_SHARE)):
        return False
    for i in range(count):      # a place that no connection used is not touched, and takes no memory
        connections.free.push(count - 1 - i)
    return (_register(connections, connections.wake_fd, PLACE_WAKE) and _register(connections, mail_fd, PLACE_MAIL)
            and _register_listeners(connections))


cdef status_t connections_start(Connections* connections, thread_body body, const char* name) noexcept nogil:
    tls_port_take(&connections.tls)
    connections.is_running = thread_start(&connections.thread, body, connections, name) == 0
    return OK if connections.is_running else NO_MEMORY


cdef void _close(int* descriptor) noexcept nogil:
    if descriptor[0] >= 0:
        posix.close(descriptor[0])
    descriptor[0] = -1


cdef bint connections_stop(Connections* connections, uint64_t timeout_ns) noexcept nogil:
    cdef uint64_t one = 1
    store_shared(&connections.is_closing, <uint32_t>1)
    posix.write(connections.wake_fd, &one, sizeof(one))
    if connections.is_running:
        connections.is_running = not thread_join(connections.thread, timeout_ns)
    if connections.is_running:
        return False
    connections_close_all(connections)
    _close(&connections.listener)
    _close(&connections.local_listener)
    return True


cdef void connections_close_all(Connections* connections) noexcept nogil:
    cdef uint32_t place
    if connections.items == NULL:
        return
    for place in range(connections.limits.connections_max):
        connection_close(connections, connection_in(connections, place))


cdef void connections_release(Connections* connections) noexcept nogil:
    tls_port_release(&connections.tls)
    unbound_release(&connections.unbound)
    _close(&connections.listener)
    _close(&connections.local_listener)
    _close(&connections.epoll)
    _close(&connections.wake_fd)
    holdings_release(&connections.holdings)
    connections.free.release()
    connections.dirty.release()
    connections.waiting.release()
    free(connections.items)
    free(connections.buffer)


cdef void connections_close_in_child(Connections* connections) noexcept nogil:
    cdef Connection* connection
    cdef uint32_t place
    for place in range(connections.limits.connections_max):
        connection = connection_in(connections, place)
        if connection.state != CONNECTION_FREE:
            _close(&connection.stream.fd)
    _close(&connections.listener)
    _close(&connections.local_listener)
    _close(&connections.epoll)
    _close(&connections.wake_fd)
    _close(&connections.mail_fd)
