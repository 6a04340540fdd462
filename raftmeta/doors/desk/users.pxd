# Users at a door: who proved to be one, and what that user may do.
#
# It decides whether a proof still counts, and whether a user has rights over a range of keys. It never refuses a
# client: its door does, in the words of its protocol.
#
# A password that was changed since proves nobody any more. No change of rights makes a certificate old.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.connections.state cimport Connection
from raftmeta.doors.desk.state cimport Desk
from raftmeta.machine.rights_state cimport RightsTable, TableUser
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX, Bytes

# Who speaks.
cdef struct Speaker:
    uint8_t name_length             # 0: nobody proved anything
    uint8_t[PRINCIPAL_BYTES_MAX] name
    bint is_certified               # by a certificate
    uint64_t since                  # rights' revision that the password was proved under

# The rights of now, held; rights_drop gives them back. NULL: there never were any.
cdef RightsTable* users_hold(Desk* desk) noexcept nogil
# The name in the client's certificate, if it has one that names a client.
cdef void users_by_certificate(const Connection* connection, Speaker* speaker) noexcept nogil
# The user that it still is; NULL: none.
cdef const TableUser* users_find(const RightsTable* table, const Speaker* speaker) noexcept nogil
# Whether the user has each of these rights (machine/rights_state Right) over the keys [start, end), an empty end being
# that of the keyspace. start NULL: over any keys. user NULL: no.
cdef bint users_may(const TableUser* user, uint8_t rights, const Bytes* start, const Bytes* end) noexcept nogil
# The same while rights may be off. needs_rights: then nobody may do anything.
cdef bint users_speaker_may(Desk* desk, bint needs_rights, const Speaker* speaker, uint8_t rights, const Bytes* start,
                            const Bytes* end) noexcept nogil
# Whether a user has yet to be proved.
cdef bint users_must_prove(Desk* desk, bint needs_rights, const Speaker* speaker) noexcept nogil
# Once in a while: close the connections whose user has gone. *seen: rights' revision of the look before. speaker_of
# NULL: the connection stays.
cdef void users_look(Desk* desk, const Speaker* (*speaker_of)(const Connection* connection) noexcept nogil,
                     uint64_t* seen) noexcept nogil
