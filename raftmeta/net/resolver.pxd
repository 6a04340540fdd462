# Host names to addresses on a thread of its own: getaddrinfo may block for many seconds and never runs on the loop.
from libc.stdint cimport uint8_t, uint16_t, uint32_t

from raftmeta.native.threads cimport Handoff, pthread_t
from raftmeta.net.stream cimport SocketAddress
from raftmeta.status cimport status_t

cdef enum:
    RESOLVED_MAX = 4            # addresses of one name that are tried

cdef struct Resolution:
    Resolution* next
    uint32_t link               # link that asks
    uint32_t attempt            # attempt of that link: the answer to an earlier attempt is thrown away
    uint16_t port
    char[256] host              # ends with 0
    status_t status             # OK or NOT_FOUND
    uint32_t count
    SocketAddress[RESOLVED_MAX] addresses

# Lives until both sides have let go of it: a look-up that hangs must not hold up close().
cdef struct Resolver:
    Handoff[Resolution] asked
    Handoff[Resolution] answered
    uint32_t bell               # counts questions; the thread sleeps on it
    uint32_t is_closing
    uint32_t holders
    int wake_fd                 # eventfd of the loop, a duplicate of its own
    bint has_thread

cdef Resolver* resolver_create(int wake_fd) noexcept nogil          # NULL: no memory or no descriptor
# Takes over the question; the first one starts the thread. NO_MEMORY: no thread could be started.
cdef status_t resolver_ask(Resolver* resolver, Resolution* question) noexcept nogil
cdef Resolution* resolver_take(Resolver* resolver) noexcept nogil   # answers, in order; the caller frees them
cdef void resolver_close(Resolver* resolver) noexcept nogil
