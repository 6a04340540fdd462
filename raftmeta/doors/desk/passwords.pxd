# Passwords that clients send as they are: their salted verifiers (RFC 5802 3), made a part at a time, and how often
# one may guess.
#
# A password is never kept: the caller has it in the request, and gives it for each part.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.state cimport Connection
from raftmeta.machine.rights_state cimport UserSecret
from raftmeta.wire.commands cimport Bytes

cdef enum:
    PASSWORD_KEY_BYTES = 32
    PASSWORD_SALT_BYTES = 16
    PASSWORD_ITERATIONS = 32_768    # of one that is set: as bindings/scram; and of a user that does not exist

# SaltedPassword (PBKDF2 of one block, RFC 8018 5.2) while it is made.
cdef struct Salting:
    uint8_t[PASSWORD_SALT_BYTES] salt
    uint32_t iterations             # in all
    uint32_t count                  # done
    uint8_t[PASSWORD_KEY_BYTES] last
    uint8_t[PASSWORD_KEY_BYTES] sum

# A part of the iterations, some 2 ms of work. True: salting.sum is the salted password.
cdef bint salting_go(Salting* salting, const Bytes* password) noexcept nogil
# Whether the salted password is that of the secret.
cdef bint salting_proves(const Salting* salting, const UserSecret* secret) noexcept nogil
# The verifier that a cluster keeps.
cdef void salting_secret(const Salting* salting, UserSecret* secret) noexcept nogil
# Nobody between can listen to the client: the connection is secured, or comes from this machine.
cdef bint is_private(const Connection* connection) noexcept nogil
# Failed proofs of one name: *count of them, of which one a second is forgotten. False: there were too many of late.
cdef bint guesses_allow(uint32_t* count, uint64_t* since_ns, uint64_t now_ns) noexcept nogil
