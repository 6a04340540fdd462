# Requests for znodes as msgpack: operations, identities, lists of rights, paths (docs/formats.md "Znodes").
#
# This module knows which bytes are a request, and which paths and lists of rights ZooKeeper would take. It knows no
# state: machine/znodes decides what an operation does. Numbers and codes are ZooKeeper's (KeeperException.Code,
# ZooDefs.Perms), so that a door hands them on as they are.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.windows cimport KEY_BYTES_MAX, Bytes

cdef enum:
    ZNODE_ROOT_BYTES_MAX = 64       # of the prefix that a tree's keys begin with; it holds no '/'
    ZNODE_ACL_BYTES_MAX = 65_536    # of one list of rights
    ZNODE_WIDTH_MAX = 20            # digits behind a sequential name
    IDENTITIES_MAX = 256            # of one request

# FORMAT_: numbers stand in the log.
cdef enum ZnodeOpKind:
    ZNODE_CREATE = 1
    ZNODE_DELETE = 2
    ZNODE_SET_DATA = 3
    ZNODE_SET_ACL = 4
    ZNODE_CHECK = 5

# FORMAT_: in commands and in every znode.
cdef enum ZnodeKind:
    ZNODE_PERSISTENT = 0
    ZNODE_EPHEMERAL = 1         # goes with the lease of its owner
    ZNODE_CONTAINER = 2         # goes some time after its last child went
    ZNODE_TTL = 3               # goes when it was not written for ttl_ms and has no children
    ZNODE_KIND_END = 4

# FORMAT_: rights on a znode (ZooDefs.Perms).
cdef enum ZnodePerms:
    PERM_READ = 1
    PERM_WRITE = 2
    PERM_CREATE = 4
    PERM_DELETE = 8
    PERM_ADMIN = 16
    PERM_ALL = 31

# FORMAT_: why an operation was refused: KeeperException.Code.
cdef enum ZnodeCode:
    ZNODE_OK = 0
    ZNODE_BAD_ARGUMENTS = -8
    ZNODE_NO_NODE = -101
    ZNODE_NO_AUTH = -102
    ZNODE_BAD_VERSION = -103
    ZNODE_NO_CHILDREN_FOR_EPHEMERALS = -108
    ZNODE_NODE_EXISTS = -110
    ZNODE_NOT_EMPTY = -111
    ZNODE_SESSION_EXPIRED = -112
    ZNODE_INVALID_ACL = -114

# Who asks, as ZooKeeper's Id: ("digest", "user:hash"), ("ip", "10.0.0.1"), ("super", ""). Not "world".
cdef struct Identity:
    Bytes scheme
    Bytes id

# One operation. Fields that its kind does not have are zero.
cdef struct ZnodeOp:
    uint8_t kind                # ZnodeOpKind
    uint8_t node_kind           # CREATE: ZnodeKind
    uint8_t width               # CREATE, sequential: digits of the number, at least
    bint is_sequential
    bint has_data               # False: null, which is not the same as empty
    bint has_acl                # CREATE; False: everybody may do everything
    int32_t version             # expected; -1: any
    uint64_t ttl_ms             # CREATE of ZNODE_TTL
    Bytes path                  # as asked; nothing is checked yet but its length (decode)
    Bytes key                   # the root and the path, in Command.znode_keys; empty: longer than KEY_BYTES_MAX
    Bytes data
    Bytes acl                   # the bytes of a list of rights, checked by znode_acl_check

# FORMAT_: what results tell of a znode: ZooKeeper's Stat, little-endian.
cdef packed struct ZnodeStat:
    uint64_t czxid
    uint64_t mzxid
    uint64_t ctime_ms
    uint64_t mtime_ms
    int32_t version
    int32_t cversion            # 2 x children created ever - children now, as ZooKeeper counts
    int32_t aversion
    uint64_t owner              # as ZooKeeper shows it: a session, the mark of a container, the mark and ttl, or 0
    int32_t data_length
    int32_t children
    uint64_t pzxid

# The list of rights at one place of msgpack bytes.
cdef struct AclEntry:
    uint32_t perms
    Identity who

# --- requests (called by wire/commands) -------------------------------------------------------------------------------
# Decode the `data` of a COMMAND_ZNODES; windows point into it and into `keys`. root: Command.name.
# BAD_FIELD, BAD_LENGTH: no node of ours wrote it. COMMAND_INVALID: a kind of operation that there is not. NO_MEMORY.
cdef status_t znodes_decode(const Bytes* root, const Bytes* data, bint* is_multi, Vec[Identity]* identities,
                            Vec[ZnodeOp]* ops, Vec[uint8_t]* keys) noexcept nogil
# The same without keeping anything: whether znodes_decode would take it.
cdef status_t znodes_check(const Bytes* root, const Bytes* data) noexcept nogil
# Append the `data` of a COMMAND_ZNODES to out; the keys of ops are not looked at. It refuses the same
# as znodes_decode, and then `out` stays as it was.
cdef status_t znodes_encode(bint is_multi, const Identity* identities, uint32_t identity_count, const ZnodeOp* ops,
                            uint32_t count, Vec[uint8_t]* out) noexcept nogil

# --- paths and lists of rights ----------------------------------------------------------------------------------------
# Whether ZooKeeper would take the path (PathUtils.validatePath). is_sequential: a number is still to follow.
cdef bint znode_path_check(const Bytes* path, bint is_sequential) noexcept nogil
# Bytes of the path of the parent; 1 for a child of the root, and for the root itself.
cdef uint32_t znode_parent_length(const Bytes* path) noexcept nogil
# Whether the bytes are a list of rights, not empty, with schemes that exist and without "auth", which whoever makes the
# request replaces (PrepRequestProcessor.fixupACL).
cdef bint znode_acl_check(const Bytes* acl) noexcept nogil
# Whether the list is the one that everybody has all rights by; nothing is stored for it.
cdef bint znode_acl_is_open(const Bytes* acl) noexcept nogil
# The next entry of a list that was checked; begin with *place = 0. False: there is no more.
cdef bint znode_acl_next(const Bytes* acl, uint32_t* place, AclEntry* entry) noexcept nogil
# Append a list of rights as stored.
cdef status_t znode_acl_encode(const AclEntry* entries, uint32_t count, Vec[uint8_t]* out) noexcept nogil
# Whether one of the identities has one of the rights by this list; an empty list allows everything
# (ZooKeeperServer.checkACL).
cdef bint znode_acl_allows(const Bytes* acl, uint8_t perms, const Identity* identities, uint32_t count) noexcept nogil
