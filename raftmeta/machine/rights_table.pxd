# The table of rights: what readers on any thread ask. It never changes once it was made.
#
# Grants of a role are merged into spans that do not touch, so a question is a search by halves for each role of the
# user. A range may be covered by several roles together.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.rights_state cimport Rights, RightsTable, TableToken, TableUser
from raftmeta.wire.commands cimport Bytes

# Of the rights as they are, held once. NULL: no memory.
cdef RightsTable* table_create(const Rights* rights) noexcept nogil
# Whether these SEED_BYTES are not all zero.
cdef bint seed_is_set(const uint8_t* seed) noexcept nogil
cdef void table_destroy(RightsTable* table) noexcept nogil
# NULL: no such user.
cdef const TableUser* table_user(const RightsTable* table, const uint8_t* name, uint32_t length) noexcept nogil
# Of the name under which an entry speaks: the user, and *token if it is a token's. NULL: nobody.
cdef const TableUser* table_principal(const RightsTable* table, const uint8_t* name, uint32_t length,
                                      const TableToken** token) noexcept nogil
# NULL: no such token.
cdef const TableToken* table_token(const RightsTable* table, uint64_t id) noexcept nogil
# Whether the user has this right over all keys of [start, end), or with is_key over the key `start`. Nothing is asked
# of an empty range. Of a right that is over all keys or not at all the range does not count. user NULL: nobody.
cdef bint rights_allow(const TableUser* user, uint8_t right, const Bytes* start, const Bytes* end,
                       bint is_key) noexcept nogil
