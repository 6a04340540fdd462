"""Passwords that clients send as they are: bodies."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.native.sha256 cimport are_equal_in_constant_time, hmac_sha256, sha256
from raftmeta.net.posix cimport sockaddr, sockaddr_storage, socklen_t
from raftmeta.net.stream cimport stream_is_secured

cdef extern from "<sys/socket.h>" nogil:
    enum: AF_INET
    enum: AF_INET6
    int getpeername(int fd, sockaddr* address, socklen_t* length)

cdef enum:
    TUNE_ITERATIONS = 2_048         # in one go
    TUNE_GUESSES_MAX = 10           # of one name at once
    TUNE_LEAK_NS = 1_000_000_000


cdef bint salting_go(Salting* salting, const Bytes* password) noexcept nogil:
    cdef uint8_t[PASSWORD_SALT_BYTES + 4] first
    cdef uint32_t left = TUNE_ITERATIONS
    cdef int i
    if salting.count == 0:
        memcpy(first, salting.salt, PASSWORD_SALT_BYTES)
        memset(first + PASSWORD_SALT_BYTES, 0, 4)
        first[PASSWORD_SALT_BYTES + 3] = 1
        hmac_sha256(password.data, password.length, first, PASSWORD_SALT_BYTES + 4, salting.last)
        memcpy(salting.sum, salting.last, PASSWORD_KEY_BYTES)
        salting.count = 1
    while left and salting.count < salting.iterations:
        hmac_sha256(password.data, password.length, salting.last, PASSWORD_KEY_BYTES, salting.last)
        for i in range(PASSWORD_KEY_BYTES):
            salting.sum[i] ^= salting.last[i]
        salting.count += 1
        left -= 1
    return salting.count >= salting.iterations


cdef void _stored_key(const Salting* salting, uint8_t* stored) noexcept nogil:
    cdef uint8_t[PASSWORD_KEY_BYTES] key
    hmac_sha256(salting.sum, PASSWORD_KEY_BYTES, b"Client Key", 10, key)
    sha256(key, PASSWORD_KEY_BYTES, stored)
    memset(key, 0, sizeof(key))


cdef bint salting_proves(const Salting* salting, const UserSecret* secret) noexcept nogil:
    cdef uint8_t[PASSWORD_KEY_BYTES] stored
    _stored_key(salting, stored)
    return are_equal_in_constant_time(stored, secret.stored_key, PASSWORD_KEY_BYTES)


cdef void salting_secret(const Salting* salting, UserSecret* secret) noexcept nogil:
    memset(secret, 0, sizeof(UserSecret))
    secret.iterations = salting.iterations
    memcpy(secret.salt, salting.salt, PASSWORD_SALT_BYTES)
    _stored_key(salting, secret.stored_key)
    hmac_sha256(salting.sum, PASSWORD_KEY_BYTES, b"Server Key", 10, secret.server_key)


cdef bint is_private(const Connection* connection) noexcept nogil:
    cdef sockaddr_storage storage
    cdef const uint8_t* bytes = <const uint8_t*>&storage
    cdef socklen_t length = sizeof(sockaddr_storage)
    cdef uint8_t[16] loopback
    if stream_is_secured(&connection.stream):
        return True
    memset(&storage, 0, sizeof(storage))
    if getpeername(connection.stream.fd, <sockaddr*>&storage, &length) != 0:
        return False
    if storage.ss_family == AF_INET:                # sockaddr_in: family, port, address
        return bytes[4] == 127
    if storage.ss_family != AF_INET6:
        return False
    memset(loopback, 0, 16)                         # sockaddr_in6: family, port, flow, address
    loopback[15] = 1
    return memcmp(bytes + 8, loopback, 16) == 0


cdef bint guesses_allow(uint32_t* count, uint64_t* since_ns, uint64_t now_ns) noexcept nogil:
    cdef uint64_t leaked = (now_ns - since_ns[0]) // TUNE_LEAK_NS
    if leaked >= count[0]:
        count[0] = 0
        since_ns[0] = now_ns
    else:
        count[0] -= <uint32_t>leaked
        since_ns[0] += leaked * TUNE_LEAK_NS
    return count[0] < TUNE_GUESSES_MAX
