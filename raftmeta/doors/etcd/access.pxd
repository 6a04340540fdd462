# Who speaks in a call of the etcd door, and what that user may do.
#
# A client proves a user by its certificate, or in each call by a token. While rights are on, every call needs a user,
# and a right over the keys that it names. While rights are off, everybody may do everything.
from libc.stdint cimport uint8_t

from raftmeta.doors.etcd.state cimport EtcdCall, EtcdConnection, EtcdDoor
from raftmeta.wire.commands cimport Bytes

# Whether the connection has yet to prove a user.
cdef bint access_must_prove(EtcdDoor* door, const EtcdConnection* connection) noexcept nogil
# The call came with a token.
cdef void access_by_token(EtcdDoor* door, EtcdCall* call, const Bytes* token) noexcept nogil
# Whether the user of the call has all of these rights (machine/rights_state Right) over the keys [start, end), an empty
# end being that of the keyspace. start NULL: over any keys. False: the call was ended.
cdef bint access_allows(EtcdDoor* door, EtcdCall* call, uint8_t rights, const Bytes* start,
                        const Bytes* end) noexcept nogil
# The same, and the call goes on.
cdef bint access_may(EtcdDoor* door, const EtcdCall* call, uint8_t rights, const Bytes* start,
                     const Bytes* end) noexcept nogil
# Once in a while: close connections whose user has gone.
cdef void access_look(EtcdDoor* door) noexcept nogil
