"""One thread that turns host names into addresses.

It decides nothing about connections. It never touches the loop's state: questions and answers change hands as a whole.
The thread is detached and shares its block by a count of holders, because nothing can interrupt getaddrinfo.
"""

from libc.stdint cimport uint16_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from raftmeta.native.atomics cimport add_shared, load_shared, store_shared, subtract_shared
from raftmeta.native.threads cimport futex_wait, futex_wake, pthread_detach, pthread_t, thread_start
from raftmeta.net cimport posix
from raftmeta.status cimport NO_MEMORY, NOT_FOUND, OK, status_t

cdef enum:
    TUNE_IDLE_PAUSE_S = 60      # the bell always rings in between; the pause only bounds a lost wake-up


cdef Resolver* resolver_create(int wake_fd) noexcept nogil:
    cdef Resolver* resolver = <Resolver*>calloc(1, sizeof(Resolver))
    if resolver == NULL:
        return NULL
    resolver.holders = 1
    resolver.wake_fd = _duplicate(wake_fd)
    if resolver.wake_fd < 0:
        free(resolver)
        return NULL
    return resolver


cdef int _duplicate(int fd) noexcept nogil:
    return posix.fcntl(fd, posix.F_DUPFD_CLOEXEC, 0)


cdef void _free_list(Resolution* first) noexcept nogil:
    cdef Resolution* next
    while first != NULL:
        next = first.next
        free(first)
        first = next


cdef void _let_go(Resolver* resolver) noexcept nogil:
    if subtract_shared(&resolver.holders, <uint32_t>1) == 0:
        _free_list(resolver.asked.take())
        _free_list(resolver.answered.take())
        posix.close(resolver.wake_fd)
        free(resolver)


cdef void _look_up(Resolution* question) noexcept nogil:
    cdef posix.addrinfo hints
    cdef posix.addrinfo* found = NULL
    cdef posix.addrinfo* each
    cdef uint16_t port = posix.htons(question.port)
    question.count = 0
    memset(&hints, 0, sizeof(hints))
    hints.ai_socktype = posix.SOCK_STREAM
    if posix.getaddrinfo(question.host, NULL, &hints, &found) == 0:
        each = found
        while each != NULL and question.count < RESOLVED_MAX:
            if each.ai_family == posix.AF_INET or each.ai_family == posix.AF_INET6:
                memset(&question.addresses[question.count], 0, sizeof(question.addresses[0]))
                memcpy(&question.addresses[question.count].storage, each.ai_addr, each.ai_addrlen)
                question.addresses[question.count].length = each.ai_addrlen
                # sin_port and sin6_port stand at the same place (netinet/in.h), behind the family.
                (<posix.sockaddr_in*>&question.addresses[question.count].storage).sin_port = port
                question.count += 1
            each = each.ai_next
        posix.freeaddrinfo(found)
    question.status = OK if question.count > 0 else NOT_FOUND


cdef void* _resolver_main(void* argument) noexcept nogil:
    cdef Resolver* resolver = <Resolver*>argument
    cdef Resolution* question
    cdef Resolution* next
    cdef uint32_t seen
    cdef uint64_t one = 1
    while not load_shared(&resolver.is_closing):
        seen = load_shared(&resolver.bell)
        question = resolver.asked.take()
        if question == NULL:
            futex_wait(&resolver.bell, seen, <uint64_t>TUNE_IDLE_PAUSE_S * 1_000_000_000)
            continue
        while question != NULL:
            next = question.next
            if not load_shared(&resolver.is_closing):
                _look_up(question)
            resolver.answered.push(question)
            question = next
        posix.write(resolver.wake_fd, &one, sizeof(one))
    _let_go(resolver)
    return NULL


cdef status_t resolver_ask(Resolver* resolver, Resolution* question) noexcept nogil:
    cdef pthread_t thread
    if not resolver.has_thread:
        add_shared(&resolver.holders, <uint32_t>1)
        if thread_start(&thread, _resolver_main, resolver, b"raftmeta-names") != 0:
            subtract_shared(&resolver.holders, <uint32_t>1)
            free(question)
            return NO_MEMORY
        pthread_detach(thread)
        resolver.has_thread = True
    resolver.asked.push(question)
    add_shared(&resolver.bell, <uint32_t>1)
    futex_wake(&resolver.bell, 1)
    return OK


cdef Resolution* resolver_take(Resolver* resolver) noexcept nogil:
    return resolver.answered.take()


cdef void resolver_close(Resolver* resolver) noexcept nogil:
    store_shared(&resolver.is_closing, <uint32_t>1)
    add_shared(&resolver.bell, <uint32_t>1)
    futex_wake(&resolver.bell, 1)
    _let_go(resolver)
