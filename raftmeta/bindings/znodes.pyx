"""Bodies of znodes.pxd.

The results of a request are told apart by their shape: nil, a stat of 68 bytes, or a path and a stat
(docs/formats.md "Znodes"). They have a reader of their own. An array of seven stats would be a key record to the reader
of other results.
"""
from cpython.bytes cimport PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memchr, memset

from raftmeta.bindings.commands cimport check_encoded, take_number, take_value
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK
from raftmeta.wire.msgpack cimport (MSGPACK_BIN8, MSGPACK_BIN32, Reader, number_max, read_array, read_array_max,
                                    read_bin, read_done, read_nil, read_peek, read_uint, reader_over)
from raftmeta.wire.windows cimport Bytes
from raftmeta.wire.znodes cimport (IDENTITIES_MAX, PERM_ALL, ZNODE_ACL_BYTES_MAX, ZNODE_CHECK, ZNODE_CREATE,
                                   ZNODE_DELETE, ZNODE_ROOT_BYTES_MAX, ZNODE_SET_ACL, ZNODE_SET_DATA, ZNODE_TTL,
                                   ZNODE_WIDTH_MAX, AclEntry, Identity, ZnodeOp, ZnodeStat, znode_acl_encode,
                                   znodes_encode)

import struct

from raftmeta import operations
from raftmeta.errors import InvalidArgument, InvariantBroken
from raftmeta.results import ZnodesReply

cdef enum:
    OPERATIONS_MAX = 10_000     # of one request (wire/znodes)
    TEXT_BYTES_MAX = 65_536     # of a path, a scheme or an id; the machine takes less

cdef object _Create = operations.ZnodeCreate
cdef object _Delete = operations.ZnodeDelete
cdef object _SetData = operations.ZnodeSetData
cdef object _SetAcl = operations.ZnodeSetAcl
cdef object _Check = operations.ZnodeCheck
cdef object _Created = operations.ZnodeCreated
cdef object _stat_of = operations.ZnodeStat._make
cdef object _STAT = struct.Struct("<QQQQiiiQiiQ")       # docs/formats.md "Znodes"
cdef dict _KINDS = {"persistent": 0, "ephemeral": 1, "container": 2, "ttl": 3}      # wire/znodes ZnodeKind
cdef tuple _OPEN = ((PERM_ALL, b"world", b"anyone"),)


cdef object _invalid(str field, str what):
    return InvalidArgument(f"{field}: {what}", field=field)


# --- arguments --------------------------------------------------------------------------------------------------------
cdef int take_root(object root, Bytes* into) except -1:
    take_value(root, "root", ZNODE_ROOT_BYTES_MAX, into)
    if into.length == 0:
        raise _invalid("root", "is empty")
    if memchr(into.data, c"/", into.length) != NULL or memchr(into.data, 0, into.length) != NULL:
        raise _invalid("root", "has a slash or a zero byte: the root of a tree of znodes holds neither")
    return 0

cdef int _take_version(object version, int32_t* into) except -1:
    if not isinstance(version, int) or isinstance(version, bool):
        raise _invalid("version", f"must be an int, not {type(version).__name__}")
    if not -0x80000000 <= version <= 0x7fffffff:
        raise _invalid("version", f"is {version}, must be a signed 32-bit number")
    into[0] = version
    return 0

cdef int _take_identity(object scheme, object id, Identity* into) except -1:
    take_value(scheme, "scheme", TEXT_BYTES_MAX, &into.scheme)
    return take_value(id, "id", TEXT_BYTES_MAX, &into.id)

cdef int _take_data(object data, uint32_t value_bytes_max, ZnodeOp* op) except -1:
    op.has_data = data is not None
    return take_value(data, "data", value_bytes_max, &op.data) if op.has_data else 0

cdef int _take_entries(tuple entries, Vec[AclEntry]* into) except -1:
    cdef AclEntry entry
    cdef uint64_t rights
    for given in entries:
        if not isinstance(given, (tuple, list)) or len(given) != 3:
            raise _invalid("acl", f"must have entries of rights, scheme and id, not {given!r:.60}")
        take_number(given[0], "acl", PERM_ALL, &rights)
        entry.perms = <uint32_t>rights
        _take_identity(given[1], given[2], &entry.who)
        if not into.push(entry):
            raise MemoryError
    return 0

# The bytes stay alive in `held`.
cdef int _take_acl(object acl, ZnodeOp* op, list held) except -1:
    cdef Vec[AclEntry] entries
    cdef Vec[uint8_t] out
    memset(<void*>&entries, 0, sizeof(entries))
    memset(<void*>&out, 0, sizeof(out))
    if not isinstance(acl, (tuple, list)):
        raise _invalid("acl", f"must be a tuple or a list, not {type(acl).__name__}")
    try:
        _take_entries(tuple(acl), &entries)
        if znode_acl_encode(entries.data, <uint32_t>entries.size, &out) != OK:
            raise _invalid("acl", f"takes more than {ZNODE_ACL_BYTES_MAX} bytes")
        held.append(PyBytes_FromStringAndSize(<const char*>out.data, <Py_ssize_t>out.size))
    finally:
        entries.release()
        out.release()
    op.has_acl = True
    return take_value(held[-1], "acl", ZNODE_ACL_BYTES_MAX, &op.acl)

cdef int _take_create(object operation, uint32_t value_bytes_max, ZnodeOp* op, list held) except -1:
    cdef uint64_t digits
    kind = _KINDS.get(operation.kind) if isinstance(operation.kind, str) else None
    if kind is None:
        raise _invalid("kind", f"must be one of {', '.join(_KINDS)}, not {operation.kind!r}")
    op.node_kind = kind
    _take_data(operation.data, value_bytes_max, op)
    if operation.acl is not None:
        _take_acl(operation.acl, op, held)
    take_number(operation.digits, "digits", ZNODE_WIDTH_MAX, &digits)
    op.is_sequential = bool(operation.sequential)
    op.width = <uint8_t>digits if op.is_sequential else 0
    take_number(operation.ttl_ms, "ttl_ms", number_max(), &op.ttl_ms)
    if op.ttl_ms and op.node_kind != ZNODE_TTL:
        raise _invalid("ttl_ms", 'only a znode of the kind "ttl" has one')
    return 0

cdef int _take_operation(object operation, uint32_t value_bytes_max, ZnodeOp* op, list held) except -1:
    kind = type(operation)
    memset(op, 0, sizeof(ZnodeOp))
    if kind is _Create:
        op.kind = ZNODE_CREATE
        _take_create(operation, value_bytes_max, op, held)
    elif kind is _Delete:
        op.kind = ZNODE_DELETE
    elif kind is _SetData:
        op.kind = ZNODE_SET_DATA
        _take_data(operation.data, value_bytes_max, op)
    elif kind is _SetAcl:
        op.kind = ZNODE_SET_ACL
        _take_acl(_OPEN if operation.acl is None else operation.acl, op, held)
    elif kind is _Check:
        op.kind = ZNODE_CHECK
    else:
        raise _invalid("operation", f"{kind.__name__} is no operation on znodes")
    take_value(operation.path, "path", TEXT_BYTES_MAX, &op.path)
    return 0 if kind is _Create else _take_version(operation.version, &op.version)

cdef int _take_all(tuple given, uint32_t value_bytes_max, Vec[ZnodeOp]* ops, list held) except -1:
    cdef ZnodeOp op
    cdef Py_ssize_t i
    if len(given) > OPERATIONS_MAX:
        raise _invalid("operations", f"are {len(given)}, a request has at most {OPERATIONS_MAX}")
    for i in range(len(given)):
        try:
            _take_operation(given[i], value_bytes_max, &op, held)
        except InvalidArgument as error:
            raise InvalidArgument(f"operations[{i}].{error}", field=f"operations[{i}].{error.field}") from None
        if not ops.push(op):
            raise MemoryError
    return 0

cdef int _take_identities(tuple given, Vec[Identity]* into) except -1:
    cdef Identity who
    if len(given) > IDENTITIES_MAX:
        raise _invalid("identities", f"are {len(given)}, a request has at most {IDENTITIES_MAX}")
    for pair in given:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise _invalid("identities", f"must be pairs of scheme and id, not {pair!r:.60}")
        _take_identity(pair[0], pair[1], &who)
        if not into.push(who):
            raise MemoryError
    return 0

cdef bytes znodes_request(tuple asked, tuple identities, uint32_t value_bytes_max):
    cdef Vec[ZnodeOp] ops
    cdef Vec[Identity] who
    cdef Vec[uint8_t] out
    cdef list held = []
    memset(<void*>&ops, 0, sizeof(ops))
    memset(<void*>&who, 0, sizeof(who))
    memset(<void*>&out, 0, sizeof(out))
    try:
        _take_all(asked, value_bytes_max, &ops, held)
        _take_identities(identities, &who)
        check_encoded(znodes_encode(ops.size != 1, who.data, <uint32_t>who.size, ops.data, <uint32_t>ops.size, &out))
        return PyBytes_FromStringAndSize(<const char*>out.data, <Py_ssize_t>out.size)
    finally:
        ops.release()
        who.release()
        out.release()

cdef bint znodes_are_urgent(tuple asked):
    for operation in asked:
        if type(operation) is not _Delete and type(operation) is not _Check:
            return False
    return True


# --- results ----------------------------------------------------------------------------------------------------------
cdef bytes _read_bytes(Reader* reader):
    cdef uint32_t length
    cdef const uint8_t* data = read_bin(reader, ~<uint32_t>0, &length)
    _check(reader)
    return PyBytes_FromStringAndSize(<const char*>data, length)

cdef int _check(const Reader* reader) except -1:
    if reader.status != OK:
        raise InvariantBroken(f"a result of znodes cannot be read (status {reader.status})")
    return 0

cdef object _read_stat(Reader* reader):
    raw = _read_bytes(reader)
    if len(raw) != sizeof(ZnodeStat):
        raise InvariantBroken(f"a stat of {len(raw)} bytes")
    return _stat_of(_STAT.unpack(raw))

cdef object _read_one(Reader* reader):
    if read_nil(reader):
        return None
    if MSGPACK_BIN8 <= read_peek(reader) <= MSGPACK_BIN32:
        return _read_stat(reader)
    read_array(reader, 2)
    path = _read_bytes(reader).decode()
    return _Created(path, _read_stat(reader))

cdef object znodes_reply(uint64_t revision, uint64_t index, const uint8_t* data, size_t length):
    cdef Reader reader = reader_over(data, length)
    cdef uint32_t count, _
    read_array(&reader, 3)
    read_uint(&reader, 0xff)
    read_uint(&reader, number_max())
    count = read_array_max(&reader, OPERATIONS_MAX)
    _check(&reader)
    results = [_read_one(&reader) for _ in range(count)]
    read_done(&reader)
    _check(&reader)
    return ZnodesReply(results, revision, index)
