# Users, roles and their grants: what entries change, who owns sessions and leases, and what a dump holds of it.
#
#     rights_change       an entry changes users, roles, grants, tokens
#     rights_hold         the table that readers ask (machine/rights_table), on any thread
#
# Which command needs which right is decided elsewhere (machine/rights_decide). State while nothing was configured is
# nothing: no table, no bytes in a dump, no part of the state hash.
#
# Invariants: users and roles stand in the order of their names; numbers are unique and never used again; a user names
# only roles that exist; the table is that of `revision`. docs/decisions/rights.md.
from libc.stdint cimport uint8_t, uint32_t, uint64_t

from raftmeta.machine.rights_state cimport SEED_BYTES, Rights, RightsTable, UserSecret
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Command

cdef void rights_release(Rights* rights) noexcept nogil

# --- apply ------------------------------------------------------------------------------------------------------------
# A COMMAND_RIGHTS. NAME_UNKNOWN, RIGHTS_LIMIT, COMMAND_INVALID: nothing is changed. NO_MEMORY.
# COMPARE_FAILED: rights were configured before. RIGHTS_TOKEN_PUT: its lease has been granted.
cdef status_t rights_change(Rights* rights, const Command* command) noexcept nogil
# Whether a RIGHTS_TOKEN_PUT may be made: OK, NAME_UNKNOWN, RIGHTS_LIMIT, COMMAND_INVALID.
cdef status_t rights_check_token(Rights* rights, const Command* command) noexcept nogil
cdef bint rights_has_token(const Rights* rights, uint64_t id) noexcept nogil
# A zero byte and the id of a token: the name under which it speaks. `name` has TOKEN_NAME_BYTES.
cdef void rights_token_name(uint64_t id, uint8_t* name) noexcept nogil
# Who owns a session or lease: the number of a user, or OWNER_NODE; 0: nobody.
cdef uint64_t rights_session_owner(Rights* rights, uint64_t session) noexcept nogil
cdef uint64_t rights_lease_owner(Rights* rights, uint64_t lease) noexcept nogil
# False: no memory.
cdef bint rights_own_session(Rights* rights, uint64_t session, uint64_t owner) noexcept nogil
cdef bint rights_own_lease(Rights* rights, uint64_t lease, uint64_t owner) noexcept nogil
cdef void rights_session_ended(Rights* rights, uint64_t session) noexcept nogil
cdef void rights_lease_ended(Rights* rights, uint64_t lease) noexcept nogil
# Leases have ended: if tokens went with them, the table is made anew. NO_MEMORY.
cdef status_t rights_leases_ended(Rights* rights) noexcept nogil

# --- any thread -------------------------------------------------------------------------------------------------------
# The table of now, or NULL; whoever took one drops it.
cdef RightsTable* rights_hold(Rights* rights) noexcept nogil
cdef void rights_drop(RightsTable* table) noexcept nogil

# --- dump and load ----------------------------------------------------------------------------------------------------
cdef enum RightsItem:
    RIGHTS_ITEM_HEAD = 0
    RIGHTS_ITEM_ROLE = 1
    RIGHTS_ITEM_USER = 2
    RIGHTS_ITEM_TOKEN = 3

# FORMAT_: fields of the items; see docs/formats.md "Records of the state".
cdef packed struct RightsHeadImage:
    uint64_t revision
    uint64_t next_number
    uint64_t is_enabled
    uint8_t[SEED_BYTES] seed

# Then the name, then the grants.
cdef packed struct RoleImage:
    uint64_t number
    uint64_t name_length

# Then the name, then the numbers of its roles.
cdef packed struct UserImage:
    uint64_t number
    uint64_t since
    UserSecret secret
    uint64_t name_length

cdef packed struct TokenImage:
    uint64_t id
    uint64_t user
    uint64_t since
    UserSecret secret

# How many items there are; 0: nothing was ever configured. The head, roles by name, users by name, tokens by id.
cdef size_t rights_items(const Rights* rights) noexcept nogil
# Append the fields and texts of an item. False: no memory.
cdef bint rights_item(const Rights* rights, size_t position, RightsItem* kind, Vec[uint8_t]* out) noexcept nogil
# An item behind those before it. BAD_FIELD, BAD_LENGTH, NO_MEMORY.
cdef status_t rights_restore(Rights* rights, RightsItem kind, const uint8_t* bytes, uint32_t length) noexcept nogil
cdef status_t rights_restore_owner(Rights* rights, bint is_session, uint64_t id, uint64_t owner) noexcept nogil
# All items and owners have come: make the table. BAD_FIELD, NO_MEMORY.
cdef status_t rights_restored(Rights* rights) noexcept nogil
