# Requests of ZooKeeper to commands of the machine, results and entries to answers. Pure.
#
# It decides which command a request is and how its result reads. The machine decides what the command does; a read is
# decided here, of the entry that its caller found, as FinalRequestProcessor decides it: does it exist, who may see it.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from raftmeta.doors.zookeeper.auth cimport ZkSpeaker
from raftmeta.doors.zookeeper.codec cimport ZkRequest
from raftmeta.machine.entry cimport Entry
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport status_t
from raftmeta.wire.commands cimport Bytes, Command
from raftmeta.wire.znodes cimport AclEntry, Identity, ZnodeStat

# The windows of a command point into this, besides the request; reused.
cdef struct ZkArena:
    Vec[uint8_t] acls                   # lists of rights in the stored form
    Vec[AclEntry] entries               # of one list
    Vec[Identity] identities
    Vec[uint8_t] request                # what Command.data shows

cdef void zk_arena_init(ZkArena* arena) noexcept nogil
cdef void zk_arena_release(ZkArena* arena) noexcept nogil

# --- writes -----------------------------------------------------------------------------------------------------------
# Make the command of a request with the trait ZK_IS_WRITE: kind, id = owner, name = root, data. The
# caller adds session, sequence, lowest_unanswered and pointer, and encodes it before request, speaker or arena change.
# has_ttl: nodes with a time to live are allowed (zookeeper.extendedTypesEnabled). *position: of the operation that is
# wrong, for zk_reply_refused.
# ZK_OK, or the error that the request is answered with at once: ZK_BAD_ARGUMENTS, ZK_INVALID_ACL, ZK_UNIMPLEMENTED,
# ZK_RECONFIG_DISABLED; ZK_SYSTEM_ERROR: no memory.
cdef int32_t zk_command_make(const ZkRequest* request, const ZkSpeaker* speaker, uint64_t owner, const Bytes* root,
                             bint has_ttl, ZkArena* arena, Command* into, uint32_t* position) noexcept nogil
# Append the whole reply to a write of the result of its command: [status, revision, body]. zxid: of the header, at
# least *revision; 0: the result's own. *revision: that of the result, at which events go out before it.
# BAD_FIELD: no result of such a command. Not an answer (NO_LEADER, OVERLOADED, SESSION_UNKNOWN, OUT_OF_ORDER and their
# like): returned, and nothing is appended. The caller sends the command again or closes the connection.
cdef status_t zk_reply_result(const ZkRequest* request, const uint8_t* result, uint32_t length, uint64_t zxid,
                              uint64_t* revision, Vec[uint8_t]* out) noexcept nogil
# The same of an error that was found before: of a multi, the operation at `position` has it.
cdef status_t zk_reply_refused(const ZkRequest* request, uint64_t zxid, int32_t error, uint32_t position,
                               Vec[uint8_t]* out) noexcept nogil

# --- reads ------------------------------------------------------------------------------------------------------------
# A znode as a reader sees it at one revision.
cdef struct ZkNode:
    Bytes data
    bint is_data_null
    Bytes acl                           # stored form; empty: everybody may do everything
    ZnodeStat stat

# The node of a path, of the newest entry of its key at the revision of the read; entry NULL: there is none. The nodes
# that every tree has are there before the first command made them (machine/znodes znode_founded). False: no such node.
cdef bint zk_node_find(const Entry* entry, const Bytes* path, ZkNode* into) noexcept nogil
# ... and these are their children until then: the name at this position, NULL: no more.
cdef const char* zk_founded_child(const Bytes* path, uint32_t position) noexcept nogil
# May this speaker read the node? ZK_OK, ZK_NO_AUTH; ZK_SYSTEM_ERROR: no memory. `exists` asks nobody.
cdef int32_t zk_may_read(const ZkRequest* request, const ZkNode* node, const ZkSpeaker* speaker,
                         ZkArena* arena) noexcept nogil
# Append the body of exists, getData or getACL; node NULL: there is none. ZK_OK, or the error that is the answer; with
# ZK_SYSTEM_ERROR there is no memory. An operation of a multiRead is such a request too: the caller writes its head
# (zk_result_head) before.
cdef int32_t zk_read_body(const ZkRequest* request, const ZkNode* node, const ZkSpeaker* speaker, ZkArena* arena,
                          Vec[uint8_t]* out) noexcept nogil
# getChildren and getChildren2: after zk_may_read, zk_vector_begin, zk_write_bytes for each name, zk_vector_end; then
# for getChildren2 zk_write_stat.

# whoAmI.
cdef status_t zk_who_am_i_body(const ZkSpeaker* speaker, Vec[uint8_t]* out) noexcept nogil

# --- /zookeeper/config ------------------------------------------------------------------------------------------------
cdef struct ZkServer:
    Bytes address                       # host:port of its peers' port
    bint is_observer

# Append the data of /zookeeper/config: one line for each server, then the version in hexadecimal digits.
cdef status_t zk_config_text(const ZkServer* servers, uint32_t count, uint64_t version,
                             Vec[uint8_t]* out) noexcept nogil
cdef bint zk_is_config(const Bytes* path) noexcept nogil

# --- /zookeeper/quota -------------------------------------------------------------------------------------------------
# Whether the path is that of a quota's statistics, and of which node they are; "/" of the whole tree.
cdef bint zk_is_statistics(const Bytes* path, Bytes* counted) noexcept nogil
# Append the data of such a node.
cdef status_t zk_statistics_text(int64_t nodes, int64_t data_bytes, Vec[uint8_t]* out) noexcept nogil
