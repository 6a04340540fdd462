# Rights as structs: users, roles and grants as replicated state, and the table that readers hold.
#
# Only machine/rights* change them. docs/formats.md has every byte, docs/decisions/rights.md what rights mean.
from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Map64, Vec
from raftmeta.native.intrinsics cimport Hash128
from raftmeta.wire.commands cimport PRINCIPAL_BYTES_MAX, Bytes

# FORMAT_: bits stand in commands and dumps.
cdef enum Right:
    RIGHT_READ = 1
    RIGHT_WRITE = 2
    RIGHT_WATCH = 4             # together with READ
    RIGHT_LEASE = 8             # keys may be attached to leases; over any range at all: leases may be granted
    RIGHT_MEMBER = 16           # these three are over all keys or not at all
    RIGHT_SNAPSHOT = 32
    RIGHT_ADMIN = 64            # everything

cdef enum:
    RIGHTS_ALL = 127
    RIGHTS_OF_KEYS = 15
    RIGHTS_OF_KEYS_COUNT = 4

# Replicated state depends on them: as FORMAT_.
cdef enum:
    FORMAT_USERS_MAX = 4096
    FORMAT_ROLES_MAX = 1024
    FORMAT_ROLES_OF_USER_MAX = 32
    FORMAT_GRANTS_BYTES_MAX = 1 << 16       # of one role
    FORMAT_TOKENS_MAX = 4096
    FORMAT_TOKENS_OF_USER_MAX = 64
    FORMAT_TOKEN_TTL_MS_MAX = 604_800_000   # seven days
    FORMAT_ITERATIONS_MIN = 4096            # RFC 7677
    FORMAT_ITERATIONS_MAX = 10_000_000

# FORMAT_: verbs of COMMAND_RIGHTS, in Command.id; `name` and `data` as said.
cdef enum RightsVerb:
    RIGHTS_ENABLE = 1           # data: empty, or a seed
    RIGHTS_DISABLE = 2
    RIGHTS_USER_PUT = 3         # name; data: UserSecret
    RIGHTS_USER_REMOVE = 4      # name
    RIGHTS_ROLE_PUT = 5         # name
    RIGHTS_ROLE_REMOVE = 6      # name
    RIGHTS_GRANT = 7            # name of a role; data: a GrantHead and its texts
    RIGHTS_REVOKE = 8           # as RIGHTS_GRANT: bits that are taken from the grant over exactly this range
    RIGHTS_BIND = 9             # name of a user; data: name of a role
    RIGHTS_UNBIND = 10
    RIGHTS_FOUND = 11           # only if nothing was ever configured. data: UserSecret of USER_FOUNDER, then a seed
    RIGHTS_FOUND_AGAIN = 12     # the same at any time; rights stay on or off as they are
    RIGHTS_CLAIM = 13           # name of the admin to be; data: UserSecret. The founder goes, and rights are on
    RIGHTS_TOKEN_PUT = 14       # name of a user (empty: who speaks); data: TokenAsked
    RIGHTS_TOKEN_REMOVE = 15    # data: its id

# FORMAT_: the secret of SCRAM-SHA-256 is the salted verifier (RFC 5802 3); the password never comes here.
cdef packed struct UserSecret:
    uint32_t flags              # UserFlags
    uint32_t iterations         # 0: no password, all that follows is zero
    uint8_t[16] salt
    uint8_t[32] stored_key
    uint8_t[32] server_key

cdef enum UserFlags:
    USER_ONE_TIME = 1           # may do nothing but put its own secret, without this flag
    USER_FOUNDER = 2            # may do nothing but RIGHTS_CLAIM; only the user of FOUNDER_NAME has it

# FORMAT_: names that begin with a zero byte are no user's. That of the founder has two bytes. A token speaks under its
# id: a zero byte, then 8 bytes, little-endian.
cdef enum:
    FOUNDER_NAME_BYTES = 2
    TOKEN_NAME_BYTES = 9
    SEED_BYTES = 32

# FORMAT_: a token is a user's right to speak that ends with a lease of this id, which nobody keeps alive.
cdef packed struct TokenAsked:
    uint64_t id                 # never 0
    uint64_t ttl_ms             # 1 .. FORMAT_TOKEN_TTL_MS_MAX
    UserSecret secret           # without flags, with a password

# FORMAT_: then the start, then the end (empty: behind the last key).
cdef packed struct GrantHead:
    uint8_t rights
    uint16_t start_length
    uint16_t end_length

cdef struct Role:
    uint64_t number
    uint8_t name_length
    uint8_t[PRINCIPAL_BYTES_MAX] name
    Vec[uint8_t] grants         # GrantHeads with their texts, in the order of start, then end; ranges are unique

cdef struct User:
    uint64_t number             # never 0 or OWNER_NODE
    uint64_t since              # rights' revision of its secret: who proved an earlier one is not believed
    UserSecret secret
    uint8_t name_length
    uint8_t[PRINCIPAL_BYTES_MAX] name
    Vec[uint64_t] roles         # numbers, ascending

cdef struct Token:
    uint64_t id                 # of its lease, too
    uint64_t user               # number
    uint64_t since              # rights' revision of its making
    UserSecret secret

cdef enum:
    OWNER_NODE = 1              # a session of a node itself
    FIRST_NUMBER = 2            # of users and roles

# --- the table: what readers hold. It never changes -------------------------------------------------------------------
# Keys [start, end) as windows into the table's arena. Those of one role and right ascend and do not touch.
cdef struct KeySpan:
    Bytes start
    Bytes end                   # empty: behind the last key

cdef struct TableRole:
    uint64_t number
    uint8_t name_length
    uint8_t[PRINCIPAL_BYTES_MAX] name
    Bytes grants                # as Role.grants, in the arena
    uint8_t rights              # granted over any range
    uint32_t[RIGHTS_OF_KEYS_COUNT] first    # in RightsTable.spans, by the right's position
    uint32_t[RIGHTS_OF_KEYS_COUNT] count

cdef struct RightsTable

cdef struct TableUser:
    const RightsTable* table
    uint64_t number
    uint64_t since
    UserSecret secret
    uint8_t name_length
    uint8_t[PRINCIPAL_BYTES_MAX] name
    uint8_t rights              # all that its roles grant over any range
    uint32_t role_count
    uint16_t[FORMAT_ROLES_OF_USER_MAX] roles    # in RightsTable.roles

cdef struct TableToken:
    uint64_t id
    uint64_t since
    const TableUser* user
    UserSecret secret

cdef struct RightsTable:
    uint32_t holders
    bint is_enabled
    uint64_t revision
    bint has_seed
    uint8_t[SEED_BYTES] seed
    Vec[TableToken] tokens      # by id
    Vec[TableUser] users        # by name
    Vec[TableRole] roles        # by name
    Vec[KeySpan] spans
    Vec[uint8_t] arena

# The refusal: the right that is missing, and for which keys. All zero: it is missing over all.
cdef struct Denial:
    uint8_t right
    bint is_key                 # for the key `start` alone
    Bytes start
    Bytes end                   # empty: behind the last key

cdef struct Rights:
    bint is_enabled
    uint64_t revision           # counts changes; 0: nothing was ever configured
    uint64_t next_number
    uint8_t[SEED_BYTES] seed    # makes up salts of users that do not exist; zero: none yet. Once set, it stays
    Vec[User] users             # by name, as the next
    Vec[Role] roles
    Vec[Token] tokens           # by id
    bint must_show              # tokens went with their leases, and the table still has them
    Vec[uint64_t] ended         # tokens that went since their leases were looked at
    Map64[uint64_t] session_owners      # numbers of users, or OWNER_NODE
    Map64[uint64_t] lease_owners
    Hash128 items_hash          # of users, roles and revision
    Hash128 hash                # with the owners; 0: nothing was ever configured
    RightsTable* table          # NULL: nothing was ever configured
    uint32_t gate               # held for the moment in which a table is held or replaced
