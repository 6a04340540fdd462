# Linux functions for sockets and waiting that Cython's own headers do not declare.
from libc.stdint cimport uint16_t, uint32_t, uint64_t

cdef extern from "<sys/socket.h>" nogil:
    ctypedef unsigned int socklen_t
    ctypedef unsigned short sa_family_t
    cdef struct sockaddr:
        sa_family_t sa_family
    cdef struct sockaddr_storage:
        sa_family_t ss_family
    enum: AF_INET
    enum: AF_INET6
    enum: SOCK_STREAM
    enum: SOCK_NONBLOCK
    enum: SOCK_CLOEXEC
    enum: SOL_SOCKET
    enum: SO_ERROR
    enum: SO_KEEPALIVE
    enum: SO_LINGER
    cdef struct linger:
        int l_onoff
        int l_linger
    enum: MSG_NOSIGNAL
    int socket(int domain, int type, int protocol)
    int connect(int fd, const sockaddr* address, socklen_t length)
    int accept4(int fd, sockaddr* address, socklen_t* length, int flags)
    int getsockopt(int fd, int level, int name, void* value, socklen_t* length)
    int setsockopt(int fd, int level, int name, const void* value, socklen_t length)
    ssize_t recv(int fd, void* into, size_t room, int flags)
    ssize_t sendmsg(int fd, const msghdr* message, int flags)
    cdef struct msghdr:
        void* msg_name
        socklen_t msg_namelen
        iovec* msg_iov
        size_t msg_iovlen

cdef extern from "<sys/uio.h>" nogil:
    cdef struct iovec:
        void* iov_base
        size_t iov_len

cdef extern from "<netinet/in.h>" nogil:
    enum: IPPROTO_TCP
    cdef struct in_addr:
        uint32_t s_addr
    cdef struct in6_addr:
        pass
    cdef struct sockaddr_in:
        sa_family_t sin_family
        uint16_t sin_port
        in_addr sin_addr
    cdef struct sockaddr_in6:
        sa_family_t sin6_family
        uint16_t sin6_port
        in6_addr sin6_addr
    uint16_t htons(uint16_t value)

cdef extern from "<netinet/tcp.h>" nogil:
    enum: TCP_NODELAY
    enum: TCP_KEEPIDLE
    enum: TCP_KEEPINTVL
    enum: TCP_KEEPCNT
    enum: TCP_USER_TIMEOUT

cdef extern from "<arpa/inet.h>" nogil:
    int inet_pton(int family, const char* text, void* into)

cdef extern from "<netdb.h>" nogil:
    cdef struct addrinfo:
        int ai_flags
        int ai_family
        int ai_socktype
        int ai_protocol
        socklen_t ai_addrlen
        sockaddr* ai_addr
        addrinfo* ai_next
    int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found)
    void freeaddrinfo(addrinfo* found)

cdef extern from "<sys/epoll.h>" nogil:
    cdef union epoll_data:
        uint64_t u64
    cdef struct epoll_event:
        uint32_t events
        epoll_data data
    enum: EPOLLIN
    enum: EPOLLOUT
    enum: EPOLLRDHUP
    enum: EPOLLHUP
    enum: EPOLLERR
    enum: EPOLL_CLOEXEC
    enum: EPOLL_CTL_ADD
    enum: EPOLL_CTL_DEL
    enum: EPOLL_CTL_MOD
    uint32_t EPOLLET "static_cast<uint32_t>(EPOLLET)"
    int epoll_create1(int flags)
    int epoll_ctl(int epoll, int verb, int fd, epoll_event* event)
    int epoll_wait(int epoll, epoll_event* events, int most, int timeout_ms)

cdef extern from "<sys/eventfd.h>" nogil:
    enum: EFD_CLOEXEC
    enum: EFD_NONBLOCK
    int eventfd(unsigned int initial, int flags)

cdef extern from "<unistd.h>" nogil:
    int close(int fd)
    ssize_t read(int fd, void* into, size_t length)
    ssize_t write(int fd, const void* bytes, size_t length)

cdef extern from "<fcntl.h>" nogil:
    enum: F_DUPFD_CLOEXEC
    int fcntl(int fd, int verb, int argument)
