"""Requests of ZooKeeper to commands, results and entries to answers: bodies of translate.pxd.

Source: apache/zookeeper 3.9.5: PrepRequestProcessor.pRequest2Txn (checks of a request), AuthUtil.fixupACL,
EphemeralType, DataTree.processTxn (results of a multi that failed), FinalRequestProcessor (answers), QuorumMaj.toString
"""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, memset, strlen

from raftmeta.doors.zookeeper.auth cimport ZkSpeaker, auth_id_is_valid, speaker_identities
from raftmeta.doors.zookeeper.codec cimport (ZkAcl, ZkRequest, ZkStrings, zk_acl_next, zk_operation_next, zk_reply,
                                             zk_reply_begin, zk_reply_drop, zk_reply_end, zk_result_error,
                                             zk_result_head, zk_results_end, zk_vector_begin, zk_vector_end,
                                             zk_write_bytes, zk_write_int, zk_write_null, zk_write_stat)
from raftmeta.doors.zookeeper.protocol cimport (ZK_ADMIN, ZK_ALL, ZK_ANSWER_NOTHING, ZK_ANSWER_PATH,
                                                ZK_ANSWER_PATH_STAT, ZK_BAD_ARGUMENTS, ZK_CHECK,
                                                ZK_CREATE2, ZK_CREATE_CONTAINER, ZK_CREATE_TTL, ZK_DELETE, ZK_EPHEMERAL,
                                                ZK_EPHEMERAL_SEQUENTIAL, ZK_GET_ACL, ZK_GET_DATA,
                                                ZK_INVALID_ACL, ZK_MULTI, ZK_NO_AUTH, ZK_NO_NODE, ZK_OK, ZK_PERSISTENT,
                                                ZK_PERSISTENT_SEQUENTIAL, ZK_PERSISTENT_SEQUENTIAL_TTL,
                                                ZK_PERSISTENT_TTL, ZK_READ, ZK_RECONFIG, ZK_RECONFIG_DISABLED,
                                                ZK_RUNTIME_INCONSISTENCY, ZK_SESSION_EXPIRED, ZK_SET_ACL, ZK_SET_DATA,
                                                ZK_SYSTEM_ERROR, ZK_UNIMPLEMENTED)
from raftmeta.doors.zookeeper.texts cimport add_digits, add_number, add_text, add_word, text_equals, text_is, text_of
from raftmeta.machine.entry cimport ZNODE_NULL_DATA, Entry
from raftmeta.machine.znodes cimport ZnodeView, znode_allows, znode_founded, znode_stat, znode_view
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport (BAD_FIELD, COMMAND_INVALID, KEY_INVALID, LEASE_EXPIRED, NO_MEMORY, OK, PERMISSION_DENIED,
                              TOO_MANY_CHANGES, VALUE_TOO_LARGE, ZNODE_REFUSED, status_t)
from raftmeta.wire.commands cimport COMMAND_ZNODES, Bytes, Command, command_clear
from raftmeta.wire.msgpack cimport (Reader, number_max, read_array, read_bin, read_done, read_fail, read_int, read_nil,
                                    read_uint, reader_over)
from raftmeta.wire.windows cimport KEY_BYTES_MAX
from raftmeta.wire.znodes cimport (ZNODE_ACL_BYTES_MAX, ZNODE_CHECK, ZNODE_CONTAINER, ZNODE_CREATE, ZNODE_DELETE,
                                   ZNODE_EPHEMERAL, ZNODE_PERSISTENT, ZNODE_SET_ACL, ZNODE_SET_DATA, ZNODE_TTL,
                                   AclEntry, Identity, ZnodeOp, ZnodeStat, znode_acl_encode, znode_acl_next,
                                   znodes_encode)

cdef enum:
    SEQUENCE_DIGITS = 10                    # "%010d" of PrepRequestProcessor.pRequest2TxnCreate
    ACL_ENTRIES_MAX = 1_000                 # of one list; they are compared with one another
    RESULT_ELEMENTS = 3                     # status, revision, body
    STATUS_MAX = 127

# A longer time to live has no place beside the mark of a TTL node (EphemeralType.TTL).
cdef uint64_t TTL_MS_MAX = 0xffffffffff


cdef void zk_arena_init(ZkArena* arena) noexcept nogil:
    memset(<void*>arena, 0, sizeof(ZkArena))


cdef void zk_arena_release(ZkArena* arena) noexcept nogil:
    arena.acls.release()
    arena.entries.release()
    arena.identities.release()
    arena.request.release()


# --- lists of rights --------------------------------------------------------------------------------------------------
# Whether one of the first `count` entries of a request is this one (PrepRequestProcessor.removeDuplicates).
cdef bint _was_given(ZkStrings entries, uint32_t count, const ZkAcl* given) noexcept nogil:
    cdef ZkAcl other
    cdef uint32_t _place
    for _place in range(count):
        if not zk_acl_next(&entries, &other):
            return False
        if (other.perms == given.perms and text_equals(&other.scheme, &given.scheme)
                and text_equals(&other.id, &given.id)):
            return True
    return False


# `auth` stands for everybody whom the speaker proved to be; an address proves nothing, and `super` needs no right.
cdef int32_t _expand_auth(uint32_t perms, ZkArena* arena) noexcept nogil:
    cdef AclEntry entry
    cdef bint is_anybody = False
    cdef size_t i
    entry.perms = perms
    for i in range(arena.identities.size):
        entry.who = arena.identities.data[i]
        if text_is(&entry.who.scheme, b"ip") or text_is(&entry.who.scheme, b"super"):
            continue
        is_anybody = True
        if arena.entries.size > ACL_ENTRIES_MAX:
            return ZK_INVALID_ACL
        if not arena.entries.push(entry):
            return ZK_SYSTEM_ERROR
    return ZK_OK if is_anybody else ZK_INVALID_ACL


cdef int32_t _take_entry(const ZkAcl* given, ZkArena* arena) noexcept nogil:
    cdef AclEntry entry
    entry.perms = <uint32_t>given.perms & ZK_ALL
    entry.who.scheme = given.scheme
    entry.who.id = given.id
    if text_is(&given.scheme, b"auth"):
        return _expand_auth(entry.perms, arena)
    if not (text_is(&given.scheme, b"world") and text_is(&given.id, b"anyone")):
        if not auth_id_is_valid(&given.scheme, &given.id):
            return ZK_INVALID_ACL
    return ZK_OK if arena.entries.push(entry) else ZK_SYSTEM_ERROR


cdef bint _is_open(const Vec[AclEntry]* entries) noexcept nogil:
    return entries.size == 1 and entries.data.perms == ZK_ALL and text_is(&entries.data.who.scheme, b"world")


# AuthUtil.fixupACL. The window of `op` is a place in arena.acls until _place_acls, because the arena still grows.
cdef int32_t _take_acl(const ZkRequest* request, ZkArena* arena, ZnodeOp* op) noexcept nogil:
    cdef ZkStrings left = request.acl
    cdef ZkAcl given
    cdef int32_t error
    cdef uint32_t count = 0
    cdef size_t start = arena.acls.size
    arena.entries.clear()
    if left.count == 0 or left.count > ACL_ENTRIES_MAX:
        return ZK_INVALID_ACL
    while zk_acl_next(&left, &given):
        count += 1
        if _was_given(request.acl, count - 1, &given):
            continue
        error = _take_entry(&given, arena)
        if error != ZK_OK:
            return error
    op.has_acl = op.kind == ZNODE_SET_ACL or not _is_open(&arena.entries)
    if not op.has_acl:
        return ZK_OK
    if znode_acl_encode(arena.entries.data, <uint32_t>arena.entries.size, &arena.acls) != OK:
        return ZK_SYSTEM_ERROR
    if arena.acls.size - start > ZNODE_ACL_BYTES_MAX:
        return ZK_INVALID_ACL
    op.acl.data = <const uint8_t*>start
    op.acl.length = <uint32_t>(arena.acls.size - start)
    return ZK_OK


cdef void _place_acls(Command* command, const ZkArena* arena) noexcept nogil:
    cdef size_t i
    for i in range(command.znodes.size):
        if command.znodes.data[i].acl.length:
            command.znodes.data[i].acl.data = arena.acls.data + <size_t>command.znodes.data[i].acl.data


# --- writes -----------------------------------------------------------------------------------------------------------
# CreateMode.fromFlag, then EphemeralType.validateTTL.
cdef int32_t _take_mode(const ZkRequest* request, bint has_ttl, ZnodeOp* op) noexcept nogil:
    cdef int32_t mode = request.flags
    if mode < ZK_PERSISTENT or mode > ZK_PERSISTENT_SEQUENTIAL_TTL:
        return ZK_BAD_ARGUMENTS
    op.is_sequential = (mode == ZK_PERSISTENT_SEQUENTIAL or mode == ZK_EPHEMERAL_SEQUENTIAL
                        or mode == ZK_PERSISTENT_SEQUENTIAL_TTL)
    op.width = SEQUENCE_DIGITS if op.is_sequential else 0
    op.node_kind = ZNODE_PERSISTENT
    if mode == ZK_EPHEMERAL or mode == ZK_EPHEMERAL_SEQUENTIAL:
        op.node_kind = ZNODE_EPHEMERAL
    elif mode == ZK_PERSISTENT_TTL or mode == ZK_PERSISTENT_SEQUENTIAL_TTL:
        if not has_ttl:
            return ZK_UNIMPLEMENTED
        if request.opcode != ZK_CREATE_TTL or request.ttl_ms <= 0 or <uint64_t>request.ttl_ms > TTL_MS_MAX:
            return ZK_BAD_ARGUMENTS
        op.node_kind = ZNODE_TTL
        op.ttl_ms = <uint64_t>request.ttl_ms
    if request.opcode == ZK_CREATE_TTL and op.node_kind != ZNODE_TTL and request.ttl_ms >= 0:
        return ZK_BAD_ARGUMENTS
    # The request makes a container, whatever its mode; another request with that mode makes a plain node.
    if request.opcode == ZK_CREATE_CONTAINER and op.node_kind != ZNODE_TTL:
        op.node_kind = ZNODE_CONTAINER
    return ZK_OK


cdef uint8_t _kind_of(int32_t opcode) noexcept nogil:
    if opcode == ZK_DELETE:
        return ZNODE_DELETE
    if opcode == ZK_SET_DATA:
        return ZNODE_SET_DATA
    if opcode == ZK_SET_ACL:
        return ZNODE_SET_ACL
    return ZNODE_CHECK if opcode == ZK_CHECK else ZNODE_CREATE


cdef int32_t _take_operation(const ZkRequest* request, bint has_ttl, ZkArena* arena, Command* into) noexcept nogil:
    cdef ZnodeOp op
    cdef int32_t error = ZK_OK
    memset(&op, 0, sizeof(op))
    op.kind = _kind_of(request.opcode)
    op.path = request.path
    op.data = request.data
    op.has_data = not request.is_data_null
    op.version = request.version
    if op.path.length > KEY_BYTES_MAX:
        return ZK_BAD_ARGUMENTS
    if op.kind == ZNODE_CREATE:
        op.version = 0
        error = _take_mode(request, has_ttl, &op)
    elif op.kind != ZNODE_SET_DATA:
        op.has_data = False
    if error == ZK_OK and (op.kind == ZNODE_CREATE or op.kind == ZNODE_SET_ACL):
        error = _take_acl(request, arena, &op)
    if error == ZK_OK and not into.znodes.push(op):
        error = ZK_SYSTEM_ERROR
    return error


cdef int32_t _take_all(const ZkRequest* request, bint has_ttl, ZkArena* arena, Command* into,
                       uint32_t* position) noexcept nogil:
    cdef ZkStrings left = request.operations
    cdef ZkRequest operation
    cdef int32_t error
    if request.opcode != ZK_MULTI:
        return _take_operation(request, has_ttl, arena, into)
    into.is_multi = True
    while zk_operation_next(&left, &operation):
        error = _take_operation(&operation, has_ttl, arena, into)
        if error != ZK_OK:
            return error
        position[0] += 1
    return ZK_OK


# Servers as QuorumPeer.QuorumServer reads them: server.N=host:port:port, and more behind.
cdef bint _is_server(const uint8_t* text, uint32_t length) noexcept nogil:
    cdef uint32_t at = 7
    cdef uint32_t colons = 0
    if length < at or memcmp(text, b"server.", at) != 0:
        return False
    while at < length and c"0" <= text[at] <= c"9":
        at += 1
    if at == 7 or at == length or text[at] != c"=":
        return False
    while at < length and text[at] != c";":
        colons += text[at] == c":"
        at += 1
    return colons >= 2


cdef bint _is_number(const uint8_t* text, uint32_t length) noexcept nogil:
    cdef uint32_t at
    for at in range(length):
        if not c"0" <= text[at] <= c"9":
            return False
    return length != 0


# Servers, or their numbers, with commas or ends of lines between.
cdef bint _are_servers(const Bytes* text, bint are_numbers) noexcept nogil:
    cdef uint32_t start = 0
    cdef uint32_t at
    for at in range(text.length + 1):
        if at < text.length and text.data[at] != c"," and text.data[at] != c"\n":
            continue
        if at != start and not (_is_number(text.data + start, at - start) if are_numbers
                                else _is_server(text.data + start, at - start)):
            return False
        start = at + 1
    return True


cdef bint _is_super(const ZkSpeaker* speaker, ZkArena* arena) noexcept nogil:
    cdef size_t i
    if speaker_identities(speaker, &arena.identities) != OK:
        return False
    for i in range(arena.identities.size):
        if text_is(&arena.identities.data[i].scheme, b"super"):
            return True
    return False


# The members change by this project's own verbs only. ZooKeeper, too, refuses a request that cannot be read, and then
# one of somebody who may not write /zookeeper/config.
cdef int32_t _refuse_reconfig(const ZkRequest* request, const ZkSpeaker* speaker, ZkArena* arena) noexcept nogil:
    if not (_are_servers(&request.texts[0], False) and _are_servers(&request.texts[1], True)
            and _are_servers(&request.texts[2], False)):
        return ZK_BAD_ARGUMENTS
    return <int32_t>ZK_RECONFIG_DISABLED if _is_super(speaker, arena) else <int32_t>ZK_NO_AUTH


cdef int32_t zk_command_make(const ZkRequest* request, const ZkSpeaker* speaker, uint64_t owner, const Bytes* root,
                             bint has_ttl, ZkArena* arena, Command* into, uint32_t* position) noexcept nogil:
    cdef int32_t error
    cdef size_t i
    position[0] = 0
    if request.opcode == ZK_RECONFIG:
        return _refuse_reconfig(request, speaker, arena)
    command_clear(into)
    arena.acls.clear()
    into.kind = COMMAND_ZNODES
    into.id = owner
    into.name = root[0]
    if speaker_identities(speaker, &arena.identities) != OK:
        return ZK_SYSTEM_ERROR
    for i in range(arena.identities.size):
        if not into.identities.push(arena.identities.data[i]):
            return ZK_SYSTEM_ERROR
    error = _take_all(request, has_ttl, arena, into, position)
    if error != ZK_OK:
        return error
    _place_acls(into, arena)
    arena.request.clear()
    if znodes_encode(into.is_multi, into.identities.data, <uint32_t>into.identities.size, into.znodes.data,
                     <uint32_t>into.znodes.size, &arena.request) != OK:
        return ZK_SYSTEM_ERROR
    into.data.data = arena.request.data
    into.data.length = <uint32_t>arena.request.size
    return ZK_OK


# --- results of writes ------------------------------------------------------------------------------------------------
cdef bint _read_stat(Reader* reader, ZnodeStat* into) noexcept nogil:
    cdef uint32_t length
    cdef const uint8_t* bytes = read_bin(reader, sizeof(ZnodeStat), &length)
    if bytes == NULL or length != sizeof(ZnodeStat):
        read_fail(reader, BAD_FIELD)
        return False
    memcpy(into, bytes, sizeof(ZnodeStat))
    return True


# The result of one operation, as the answer of its request has it.
cdef status_t _write_operation(const ZkRequest* request, Reader* reader, Vec[uint8_t]* out) noexcept nogil:
    cdef uint8_t answer = request.row.answer
    cdef ZnodeStat stat
    cdef Bytes path
    if answer == ZK_ANSWER_NOTHING:
        if not read_nil(reader):
            read_fail(reader, BAD_FIELD)
        return reader.status
    if answer == ZK_ANSWER_PATH or answer == ZK_ANSWER_PATH_STAT:
        read_array(reader, 2)
        path.data = read_bin(reader, KEY_BYTES_MAX, &path.length)
        if reader.status != OK:
            return reader.status
        if zk_write_bytes(out, path.data, path.length) != OK:
            return NO_MEMORY
    if not _read_stat(reader, &stat):
        return reader.status
    return OK if answer == ZK_ANSWER_PATH else zk_write_stat(out, &stat)


# In the body of a multi all creates that tell a stat are ZK_CREATE2 (OpResult.CreateResult).
cdef inline int32_t _result_opcode(int32_t opcode) noexcept nogil:
    return ZK_CREATE2 if opcode == ZK_CREATE_CONTAINER or opcode == ZK_CREATE_TTL else opcode


cdef status_t _write_multi(const ZkRequest* request, Reader* reader, Vec[uint8_t]* out) noexcept nogil:
    cdef ZkStrings left = request.operations
    cdef ZkRequest operation
    cdef status_t status
    read_array(reader, left.count)
    while reader.status == OK and zk_operation_next(&left, &operation):
        if zk_result_head(out, _result_opcode(operation.opcode)) != OK:
            return NO_MEMORY
        status = _write_operation(&operation, reader, out)
        if status != OK:
            return status
    return reader.status if reader.status != OK else zk_results_end(out)


# Every operation has an error: 0 before the one that failed, and ZK_RUNTIME_INCONSISTENCY behind it.
cdef status_t _write_failed_multi(const ZkRequest* request, int32_t error, uint32_t position,
                                  Vec[uint8_t]* out) noexcept nogil:
    cdef uint32_t i
    for i in range(request.operations.count):
        if zk_result_error(out, ZK_OK if i < position else error if i == position else ZK_RUNTIME_INCONSISTENCY) != OK:
            return NO_MEMORY
    return zk_results_end(out)


cdef status_t zk_reply_refused(const ZkRequest* request, uint64_t zxid, int32_t error, uint32_t position,
                               Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start
    if request.opcode != ZK_MULTI:
        return zk_reply(out, request.xid, zxid, error)
    if zk_reply_begin(out, &start) != OK or _write_failed_multi(request, error, position, out) != OK:
        zk_reply_drop(out, start)
        return NO_MEMORY
    zk_reply_end(out, start, request.xid, zxid, ZK_OK)
    return OK


# The code that a client of ZooKeeper is told; ZK_OK: the status is no answer.
cdef int32_t _error_of(status_t status) noexcept nogil:
    if status == LEASE_EXPIRED:
        return ZK_SESSION_EXPIRED
    if status == PERMISSION_DENIED:
        return ZK_NO_AUTH
    if status == COMMAND_INVALID:
        return ZK_UNIMPLEMENTED             # a member of the cluster is too old for znodes
    if status == KEY_INVALID or status == VALUE_TOO_LARGE or status == TOO_MANY_CHANGES:
        return ZK_BAD_ARGUMENTS
    return ZK_OK


cdef status_t _reply_made(const ZkRequest* request, Reader* reader, uint64_t zxid, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start
    cdef status_t status
    if zk_reply_begin(out, &start) != OK:
        return NO_MEMORY
    if request.opcode == ZK_MULTI:
        status = _write_multi(request, reader, out)
    else:
        read_array(reader, 1)
        status = reader.status
        if status == OK:
            status = _write_operation(request, reader, out)
    if status == OK:
        status = read_done(reader)
    if status != OK:
        zk_reply_drop(out, start)
        return status
    zk_reply_end(out, start, request.xid, zxid, ZK_OK)
    return OK


cdef status_t zk_reply_result(const ZkRequest* request, const uint8_t* result, uint32_t length, uint64_t zxid,
                              uint64_t* revision, Vec[uint8_t]* out) noexcept nogil:
    cdef Reader reader = reader_over(result, length)
    cdef status_t status
    cdef uint32_t position
    cdef int32_t error
    revision[0] = 0
    read_array(&reader, RESULT_ELEMENTS)
    status = <status_t>read_uint(&reader, STATUS_MAX)
    revision[0] = read_uint(&reader, number_max())
    if reader.status != OK:
        return BAD_FIELD
    if zxid < revision[0]:
        zxid = revision[0]
    if status == OK:
        status = _reply_made(request, &reader, zxid, out)
        return status if status == OK or status == NO_MEMORY else BAD_FIELD
    if status == ZNODE_REFUSED:
        read_array(&reader, 2)
        position = <uint32_t>read_uint(&reader, ~<uint32_t>0)
        error = <int32_t>read_int(&reader)
        if read_done(&reader) != OK or error == ZK_OK:
            return BAD_FIELD
        return zk_reply_refused(request, zxid, error, position, out)
    error = _error_of(status)
    return zk_reply_refused(request, zxid, error, 0, out) if error != ZK_OK else status


# --- reads ------------------------------------------------------------------------------------------------------------
cdef bint zk_node_find(const Entry* entry, const Bytes* path, ZkNode* into) noexcept nogil:
    cdef ZnodeView view
    memset(into, 0, sizeof(ZkNode))
    # Otherwise the key would be that of another root, whose name begins with this one's.
    if path.length == 0 or path.data[0] != c"/":
        return False
    if entry != NULL and znode_view(entry, &view):
        into.data = view.data
        into.is_data_null = view.data.length == 0 and view.meta.flags & ZNODE_NULL_DATA
        into.acl = view.acl
        znode_stat(entry, &into.stat)
        return True
    return znode_founded(path, &into.stat)


cdef const char* zk_founded_child(const Bytes* path, uint32_t position) noexcept nogil:
    if text_is(path, b"/") and position == 0:
        return b"zookeeper"
    if text_is(path, b"/zookeeper") and position == 0:
        return b"config"
    if text_is(path, b"/zookeeper") and position == 1:
        return b"quota"
    return NULL


cdef int32_t _allows(const ZkNode* node, uint8_t perms, const ZkSpeaker* speaker, ZkArena* arena) noexcept nogil:
    if node.acl.length == 0:
        return ZK_OK
    if speaker_identities(speaker, &arena.identities) != OK:
        return ZK_SYSTEM_ERROR
    if znode_allows(&node.acl, perms, arena.identities.data, <uint32_t>arena.identities.size):
        return ZK_OK
    return ZK_NO_AUTH


cdef int32_t zk_may_read(const ZkRequest* request, const ZkNode* node, const ZkSpeaker* speaker,
                         ZkArena* arena) noexcept nogil:
    return _allows(node, ZK_READ | ZK_ADMIN if request.opcode == ZK_GET_ACL else ZK_READ, speaker, arena)


# An id of a digest without its hash.
cdef Bytes _hidden(const Bytes* id, Vec[uint8_t]* scratch) noexcept nogil:
    cdef Bytes shown = id[0]
    cdef uint32_t length = 0
    while length < id.length and id.data[length] != c":":
        length += 1
    if length == id.length:
        return shown
    scratch.clear()
    if scratch.append(id.data, length) and add_word(scratch, b":x"):
        shown.data = scratch.data
        shown.length = <uint32_t>scratch.size
    else:
        shown.length = 0
    return shown


cdef bint _write_acl_entry(const AclEntry* entry, bint is_admin, ZkArena* arena, Vec[uint8_t]* out) noexcept nogil:
    cdef Bytes id = entry.who.id
    if not is_admin and text_is(&entry.who.scheme, b"digest"):
        id = _hidden(&entry.who.id, &arena.acls)
    return (zk_write_int(out, <int32_t>entry.perms) == OK
            and zk_write_bytes(out, entry.who.scheme.data, entry.who.scheme.length) == OK
            and zk_write_bytes(out, id.data, id.length) == OK)


cdef bint _write_acl(const ZkNode* node, bint is_admin, ZkArena* arena, Vec[uint8_t]* out) noexcept nogil:
    cdef AclEntry entry
    cdef uint32_t place = 0
    cdef uint32_t count = 0
    cdef size_t at
    if zk_vector_begin(out, &at) != OK:
        return False
    if node.acl.length == 0:
        entry.perms = ZK_ALL
        entry.who.scheme = text_of(b"world")
        entry.who.id = text_of(b"anyone")
        count = 1
        if not _write_acl_entry(&entry, True, arena, out):
            return False
    while znode_acl_next(&node.acl, &place, &entry):
        count += 1
        if not _write_acl_entry(&entry, is_admin, arena, out):
            return False
    zk_vector_end(out, at, count)
    return True


cdef int32_t zk_read_body(const ZkRequest* request, const ZkNode* node, const ZkSpeaker* speaker, ZkArena* arena,
                          Vec[uint8_t]* out) noexcept nogil:
    cdef int32_t error
    if node == NULL:
        return ZK_NO_NODE
    error = zk_may_read(request, node, speaker, arena)
    if error != ZK_OK:
        return error
    if request.opcode == ZK_GET_ACL:
        error = _allows(node, ZK_ADMIN, speaker, arena)
        if error == ZK_SYSTEM_ERROR or not _write_acl(node, error == ZK_OK, arena, out):
            return ZK_SYSTEM_ERROR
    elif request.opcode == ZK_GET_DATA:
        if node.is_data_null:
            if zk_write_null(out) != OK:
                return ZK_SYSTEM_ERROR
        elif zk_write_bytes(out, node.data.data, node.data.length) != OK:
            return ZK_SYSTEM_ERROR
    return ZK_OK if zk_write_stat(out, &node.stat) == OK else ZK_SYSTEM_ERROR


cdef status_t zk_who_am_i_body(const ZkSpeaker* speaker, Vec[uint8_t]* out) noexcept nogil:
    cdef Vec[Identity] identities
    cdef Bytes user
    cdef uint32_t length
    cdef size_t i
    cdef bint is_written
    memset(<void*>&identities, 0, sizeof(identities))
    is_written = speaker_identities(speaker, &identities) == OK
    is_written = is_written and zk_write_int(out, <int32_t>identities.size) == OK
    for i in range(identities.size):
        user = identities.data[i].id
        if text_is(&identities.data[i].scheme, b"digest"):
            length = 0
            while length < user.length and user.data[length] != c":":
                length += 1
            user.length = length
        is_written = (is_written and zk_write_bytes(out, identities.data[i].scheme.data,
                                                    identities.data[i].scheme.length) == OK
                      and zk_write_bytes(out, user.data, user.length) == OK)
    identities.release()
    return OK if is_written else NO_MEMORY


# --- /zookeeper/config ------------------------------------------------------------------------------------------------
cdef bint zk_is_config(const Bytes* path) noexcept nogil:
    return text_is(path, b"/zookeeper/config")


# The port behind the last colon.
cdef Bytes _port_of(const Bytes* address) noexcept nogil:
    cdef Bytes port = address[0]
    cdef uint32_t at = address.length
    while at and address.data[at - 1] != c":":
        at -= 1
    port.data = address.data + at
    port.length = address.length - at
    return port


# A server has one port for what ZooKeeper has two for. No client's address stands there: Curator would connect to those
# that it finds there and to no other.
cdef status_t zk_config_text(const ZkServer* servers, uint32_t count, uint64_t version,
                             Vec[uint8_t]* out) noexcept nogil:
    cdef Bytes port
    cdef uint32_t i
    for i in range(count):
        port = _port_of(&servers[i].address)
        if not (add_word(out, b"server.") and add_number(out, i + 1) and add_word(out, b"=")
                and add_text(out, &servers[i].address) and add_word(out, b":") and add_text(out, &port)
                and (add_word(out, b":observer\n") if servers[i].is_observer
                     else add_word(out, b":participant\n"))):
            return NO_MEMORY
    return OK if add_word(out, b"version=") and add_digits(out, version, 16) else NO_MEMORY


# Quotas.java of 3.9: /zookeeper/quota, the path of the node, /zookeeper_stats.
cdef bint zk_is_statistics(const Bytes* path, Bytes* counted) noexcept nogil:
    cdef const char* head = b"/zookeeper/quota"
    cdef const char* tail = b"/zookeeper_stats"
    cdef uint32_t head_bytes = <uint32_t>strlen(head)
    cdef uint32_t tail_bytes = <uint32_t>strlen(tail)
    if (path.length < head_bytes + tail_bytes or memcmp(path.data, head, head_bytes) != 0
            or memcmp(path.data + path.length - tail_bytes, tail, tail_bytes) != 0):
        return False
    counted.data = path.data + head_bytes
    counted.length = path.length - head_bytes - tail_bytes
    if counted.length == 0:
        counted.length = 1          # the slash that comes next
    return counted.data[0] == c"/"


# StatsTrack.toString.
cdef status_t zk_statistics_text(int64_t nodes, int64_t data_bytes, Vec[uint8_t]* out) noexcept nogil:
    if (add_word(out, b"count=") and add_number(out, nodes) and add_word(out, b",bytes=")
            and add_number(out, data_bytes)):
        return OK
    return NO_MEMORY
