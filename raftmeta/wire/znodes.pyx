"""Requests for znodes: bodies.

One reader walks a request. It stores what it reads where there is somewhere to store it. So the encoder of commands
checks with it, and allocates nothing. Paths and lists of rights are not checked here: a refusal of one of them is an
answer like any other, in the order of the operations.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy, memset

from raftmeta.native.containers cimport Vec
from raftmeta.status cimport BAD_FIELD, COMMAND_INVALID, NO_MEMORY, OK, VALUE_TOO_LARGE
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array, read_array_max, read_bin, read_bool,
                                    read_done, read_fail, read_int, read_nil, read_uint, reader_over, write_array,
                                    write_bin, write_bool, write_fail, write_int, write_nil, write_uint, writer_at)

cdef enum:
    ZNODE_OPS_MAX = 10_000              # of one request
    ADDRESS_BYTES = 16                  # of an IPv6 address
    GROUPS = 8                          # of an IPv6 address


# --- requests ---------------------------------------------------------------------------------------------------------
cdef inline uint32_t _elements_of(uint8_t kind) noexcept nogil:
    if kind == ZNODE_CREATE:
        return 8
    if kind == ZNODE_SET_DATA or kind == ZNODE_SET_ACL:
        return 4
    return 3 if kind == ZNODE_DELETE or kind == ZNODE_CHECK else 0

cdef inline void _read_bytes(Reader* reader, Bytes* bytes) noexcept nogil:
    bytes.data = read_bin(reader, ~<uint32_t>0, &bytes.length)

cdef inline bint _read_some(Reader* reader, Bytes* bytes) noexcept nogil:
    bytes.data = NULL
    bytes.length = 0
    if read_nil(reader):
        return False
    _read_bytes(reader, bytes)
    return True

cdef void _read_op(Reader* reader, ZnodeOp* op) noexcept nogil:
    cdef uint32_t elements = read_array_max(reader, 16)
    cdef int64_t version
    memset(op, 0, sizeof(ZnodeOp))
    op.kind = <uint8_t>read_uint(reader, 0xff)
    if reader.status == OK and _elements_of(op.kind) == 0:
        read_fail(reader, COMMAND_INVALID)
    if elements != _elements_of(op.kind):
        read_fail(reader, BAD_FIELD)
    _read_bytes(reader, &op.path)
    if op.kind == ZNODE_CREATE:
        op.has_data = _read_some(reader, &op.data)
        op.has_acl = _read_some(reader, &op.acl)
        op.node_kind = <uint8_t>read_uint(reader, ZNODE_KIND_END - 1)
        op.is_sequential = read_bool(reader)
        op.width = <uint8_t>read_uint(reader, ZNODE_WIDTH_MAX)
        op.ttl_ms = read_uint(reader, number_max())
        if op.ttl_ms and op.node_kind != ZNODE_TTL or op.width and not op.is_sequential:
            read_fail(reader, BAD_FIELD)
        return
    if op.kind == ZNODE_SET_DATA:
        op.has_data = _read_some(reader, &op.data)
    elif op.kind == ZNODE_SET_ACL:
        op.has_acl = True
        _read_bytes(reader, &op.acl)
    version = read_int(reader)
    op.version = <int32_t>version
    if version != op.version:
        read_fail(reader, BAD_FIELD)

cdef void _read_identity(Reader* reader, Identity* who) noexcept nogil:
    read_array(reader, 2)
    _read_bytes(reader, &who.scheme)
    _read_bytes(reader, &who.id)

# `identities` and `ops` are NULL together: then nothing is kept.
cdef status_t _read_request(const Bytes* root, const Bytes* data, bint* is_multi, Vec[Identity]* identities,
                            Vec[ZnodeOp]* ops) noexcept nogil:
    cdef Reader reader = reader_over(data.data, data.length)
    cdef Identity who
    cdef ZnodeOp op
    cdef uint32_t count, _
    if not _is_root(root):
        return COMMAND_INVALID
    read_array(&reader, 3)
    is_multi[0] = read_bool(&reader)
    count = read_array_max(&reader, IDENTITIES_MAX)
    for _ in range(count):
        _read_identity(&reader, &who)
        if reader.status != OK:
            return reader.status
        if identities is not NULL and not identities.push(who):
            return NO_MEMORY
    count = read_array_max(&reader, ZNODE_OPS_MAX)
    if reader.status == OK and not is_multi[0] and count != 1:
        return BAD_FIELD
    for _ in range(count):
        _read_op(&reader, &op)
        if reader.status != OK:
            return reader.status
        if ops is not NULL and not ops.push(op):
            return NO_MEMORY
    return read_done(&reader)

# Trees do not overlap, because no root holds the separator of paths.
cdef bint _is_root(const Bytes* root) noexcept nogil:
    cdef uint32_t i
    if root.length == 0 or root.length > ZNODE_ROOT_BYTES_MAX:
        return False
    for i in range(root.length):
        if root.data[i] == c"/" or root.data[i] == 0:
            return False
    return True

cdef status_t znodes_decode(const Bytes* root, const Bytes* data, bint* is_multi, Vec[Identity]* identities,
                            Vec[ZnodeOp]* ops, Vec[uint8_t]* keys) noexcept nogil:
    cdef status_t status = _read_request(root, data, is_multi, identities, ops)
    return status if status != OK else _make_keys(root, ops, keys)

# Windows stay right because the room for all keys is there before the first.
cdef status_t _make_keys(const Bytes* root, Vec[ZnodeOp]* ops, Vec[uint8_t]* keys) noexcept nogil:
    cdef size_t bytes = 0
    cdef ZnodeOp* op
    cdef size_t i
    for i in range(ops.size):
        bytes += root.length + ops.data[i].path.length if _has_key(root, &ops.data[i]) else 0
    if not keys.reserve(bytes):
        return NO_MEMORY
    for i in range(ops.size):
        op = &ops.data[i]
        if not _has_key(root, op):
            continue
        op.key.data = keys.data + keys.size
        op.key.length = root.length + op.path.length
        memcpy(keys.data + keys.size, root.data, root.length)
        if op.path.length:
            memcpy(keys.data + keys.size + root.length, op.path.data, op.path.length)
        keys.size += op.key.length
    return OK

cdef inline bint _has_key(const Bytes* root, const ZnodeOp* op) noexcept nogil:
    return op.path.length <= KEY_BYTES_MAX - root.length

cdef status_t znodes_check(const Bytes* root, const Bytes* data) noexcept nogil:
    cdef bint is_multi = False
    return _read_request(root, data, &is_multi, NULL, NULL)

cdef void _write_some(Writer* writer, bint is_there, const Bytes* bytes) noexcept nogil:
    if is_there:
        write_bin(writer, bytes.data, bytes.length)
    else:
        write_nil(writer)

cdef void _write_op(Writer* writer, const ZnodeOp* op) noexcept nogil:
    if _elements_of(op.kind) == 0:
        write_fail(writer, COMMAND_INVALID)
        return
    write_array(writer, _elements_of(op.kind))
    write_uint(writer, op.kind)
    write_bin(writer, op.path.data, op.path.length)
    if op.kind == ZNODE_CREATE:
        if (op.node_kind >= ZNODE_KIND_END or op.width > ZNODE_WIDTH_MAX or op.width and not op.is_sequential
                or op.ttl_ms and op.node_kind != ZNODE_TTL or op.ttl_ms > number_max()):
            write_fail(writer, BAD_FIELD)
        _write_some(writer, op.has_data, &op.data)
        _write_some(writer, op.has_acl, &op.acl)
        write_uint(writer, op.node_kind)
        write_bool(writer, op.is_sequential)
        write_uint(writer, op.width)
        write_uint(writer, op.ttl_ms)
        return
    if op.kind == ZNODE_SET_DATA:
        _write_some(writer, op.has_data, &op.data)
    elif op.kind == ZNODE_SET_ACL:
        write_bin(writer, op.acl.data, op.acl.length)
    write_int(writer, op.version)

cdef status_t znodes_encode(bint is_multi, const Identity* identities, uint32_t identity_count, const ZnodeOp* ops,
                            uint32_t count, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Writer writer = writer_at(out)
    cdef uint32_t i
    if count > ZNODE_OPS_MAX or identity_count > IDENTITIES_MAX or not is_multi and count != 1:
        return BAD_FIELD
    write_array(&writer, 3)
    write_bool(&writer, is_multi)
    write_array(&writer, identity_count)
    for i in range(identity_count):
        write_array(&writer, 2)
        write_bin(&writer, identities[i].scheme.data, identities[i].scheme.length)
        write_bin(&writer, identities[i].id.data, identities[i].id.length)
    write_array(&writer, count)
    for i in range(count):
        _write_op(&writer, &ops[i])
    if writer.status != OK:
        out.size = start
    return writer.status


# --- paths ------------------------------------------------------------------------------------------------------------
# Bytes of the character at `at`, 0: PathUtils refuses it. Characters outside the basic plane are surrogates to Java,
# and surrogates are refused.
cdef uint32_t _character(const uint8_t* at, uint32_t left) noexcept nogil:
    cdef uint32_t code
    if at[0] < 0x80:
        return 0 if at[0] < 0x20 or at[0] == 0x7f else 1
    if 0xc2 <= at[0] <= 0xdf and left >= 2 and at[1] & 0xc0 == 0x80:
        code = (at[0] & 0x1f) << 6 | at[1] & 0x3f
        return 0 if code <= 0x9f else 2
    if at[0] & 0xf0 == 0xe0 and left >= 3 and at[1] & 0xc0 == 0x80 and at[2] & 0xc0 == 0x80:
        code = (at[0] & 0x0f) << 12 | (at[1] & 0x3f) << 6 | at[2] & 0x3f
        return 0 if code < 0x800 or 0xd800 <= code <= 0xf8ff or code >= 0xfff0 else 3
    return 0

# A name is not empty, not "." and not "..".
cdef inline bint _is_name(const uint8_t* name, uint32_t length) noexcept nogil:
    if length == 0:
        return False
    return not (name[0] == c"." and (length == 1 or length == 2 and name[1] == c"."))

cdef bint znode_path_check(const Bytes* path, bint is_sequential) noexcept nogil:
    cdef uint32_t name = 1          # where the name under way begins
    cdef uint32_t at = 1
    cdef uint32_t length
    if path.length == 0 or path.data[0] != c"/":
        return False
    if path.length == 1:
        return True
    while at < path.length:
        if path.data[at] == c"/":
            if not _is_name(path.data + name, at - name):
                return False
            name = at + 1
        length = _character(path.data + at, path.length - at)
        if length == 0:
            return False
        at += length
    # A number follows a sequential name, so any beginning of it is a name.
    return is_sequential or _is_name(path.data + name, at - name)

cdef uint32_t znode_parent_length(const Bytes* path) noexcept nogil:
    cdef uint32_t at = path.length
    while at > 0 and path.data[at - 1] != c"/":
        at -= 1
    return at - 1 if at > 1 else at


# --- lists of rights --------------------------------------------------------------------------------------------------
cdef inline bint _is(const Bytes* bytes, const char* text, uint32_t length) noexcept nogil:
    return bytes.length == length and memcmp(bytes.data, text, length) == 0

cdef inline bint _equal(const Bytes* left, const Bytes* right) noexcept nogil:
    return left.length == right.length and (left.length == 0 or memcmp(left.data, right.data, left.length) == 0)

cdef void _read_acl_entry(Reader* reader, AclEntry* entry) noexcept nogil:
    read_array(reader, 3)
    entry.perms = <uint32_t>read_uint(reader, PERM_ALL)
    _read_bytes(reader, &entry.who.scheme)
    _read_bytes(reader, &entry.who.id)

cdef bint _is_anyone(const Identity* who) noexcept nogil:
    return _is(&who.scheme, "world", 5) and _is(&who.id, "anyone", 6)

# isValid of the providers: Digest-, IP-, SASL- and X509AuthenticationProvider.
cdef bint _is_sound(const Identity* who) noexcept nogil:
    cdef uint8_t[ADDRESS_BYTES] address
    cdef uint32_t length, bits
    cdef uint32_t colons = 0
    cdef uint32_t i
    if _is_anyone(who):
        return True
    if _is(&who.scheme, "digest", 6):
        for i in range(who.id.length):
            colons += who.id.data[i] == c":"
        return colons == 1 and who.id.data[who.id.length - 1] != c":"
    if _is(&who.scheme, "ip", 2):
        return _address(&who.id, address, &length, &bits)
    return (_is(&who.scheme, "x509", 4) or _is(&who.scheme, "sasl", 4)) and who.id.length > 0

# A number of at most `digits` digits in this base that ends at `end` or before a byte that is no digit. -1: none there.
cdef int _number(const uint8_t** at, const uint8_t* end, int base, int digits) noexcept nogil:
    cdef int value = -1
    cdef int digit
    while at[0] < end and digits > 0:
        digit = at[0][0] - c"0"
        if base == 16 and (at[0][0] | 0x20) >= c"a":
            digit = (at[0][0] | 0x20) - c"a" + 10
        elif digit > 9:
            break                       # ":" stands behind "9"
        if digit < 0 or digit >= base:
            break
        value = max(value, 0) * base + digit
        at[0] += 1
        digits -= 1
    return value

cdef bint _address_4(const uint8_t* at, const uint8_t* end, uint8_t* address) noexcept nogil:
    cdef int number, part
    for part in range(4):
        if part and (at == end or at[0] != c"."):
            return False
        at += part != 0
        number = _number(&at, end, 10, 3)
        if number < 0 or number > 255:
            return False
        address[part] = <uint8_t>number
    return at == end

# RFC 4291 2.2: eight groups; "::" once for groups of zeros; the last two may be an IPv4 address.
cdef bint _address_6(const uint8_t* at, const uint8_t* end, uint8_t* address) noexcept nogil:
    cdef uint8_t[ADDRESS_BYTES] behind
    cdef const uint8_t* start
    cdef int filled = 0
    cdef int gap = -1
    cdef int number
    memset(behind, 0, ADDRESS_BYTES)
    if end - at >= 2 and at[0] == c":" and at[1] == c":":
        gap = 0
        at += 2
    while at < end and filled < GROUPS:
        start = at
        if filled <= GROUPS - 2 and _address_4(start, end, behind + 2 * filled):
            filled += 2
            at = end
            break
        number = _number(&at, end, 16, 4)
        if number < 0:
            return False
        behind[2 * filled] = <uint8_t>(number >> 8)
        behind[2 * filled + 1] = <uint8_t>number
        filled += 1
        if at == end:
            break
        if at[0] != c":" or end - at < 2:
            return False
        at += 1
        if at[0] == c":":
            if gap >= 0:
                return False
            gap = filled
            at += 1
    if at != end or (filled == GROUPS) == (gap >= 0):
        return False
    memset(address, 0, ADDRESS_BYTES)
    if gap < 0:
        gap = filled
    memcpy(address, behind, 2 * gap)
    memcpy(address + ADDRESS_BYTES - 2 * (filled - gap), behind + 2 * gap, 2 * (filled - gap))
    return True

# "10.0.0.0/8": the bytes of the address, and how many bits count. An address alone counts whole.
cdef bint _address(const Bytes* text, uint8_t* address, uint32_t* length, uint32_t* bits) noexcept nogil:
    cdef const uint8_t* end = text.data + text.length
    cdef const uint8_t* slash = text.data
    cdef int number
    while slash < end and slash[0] != c"/":
        slash += 1
    if _address_4(text.data, slash, address):
        length[0] = 4
    elif _address_6(text.data, slash, address):
        length[0] = ADDRESS_BYTES
    else:
        return False
    bits[0] = 8 * length[0]
    if slash == end:
        return True
    slash += 1
    number = _number(&slash, end, 10, 3)
    if number < 0 or slash != end or number > <int>bits[0]:
        return False
    bits[0] = <uint32_t>number
    return True

cdef bint _is_in_network(const Bytes* network, const Bytes* host) noexcept nogil:
    cdef uint8_t[ADDRESS_BYTES] wanted
    cdef uint8_t[ADDRESS_BYTES] asked
    cdef uint32_t length, bits, asked_length, asked_bits
    cdef uint8_t mask
    if not _address(network, wanted, &length, &bits) or not _address(host, asked, &asked_length, &asked_bits):
        return False
    if length != asked_length:
        return False
    if memcmp(wanted, asked, bits // 8) != 0:
        return False
    if bits % 8 == 0:
        return True
    mask = <uint8_t>(0xff << (8 - bits % 8))
    return wanted[bits // 8] & mask == asked[bits // 8] & mask

cdef bint znode_acl_check(const Bytes* acl) noexcept nogil:
    cdef Reader reader = reader_over(acl.data, acl.length)
    cdef AclEntry entry
    cdef uint32_t count, _
    if acl.length > ZNODE_ACL_BYTES_MAX:
        return False
    count = read_array_max(&reader, ZNODE_ACL_BYTES_MAX)
    for _ in range(count):
        _read_acl_entry(&reader, &entry)
        if reader.status != OK or not _is_sound(&entry.who):
            return False
    return count > 0 and read_done(&reader) == OK

cdef bint znode_acl_is_open(const Bytes* acl) noexcept nogil:
    cdef uint32_t place = 0
    cdef AclEntry entry
    if not znode_acl_next(acl, &place, &entry):
        return True
    return entry.perms == PERM_ALL and _is_anyone(&entry.who) and not znode_acl_next(acl, &place, &entry)

# `place` counts bytes; the head of the array is passed at the first call.
cdef bint znode_acl_next(const Bytes* acl, uint32_t* place, AclEntry* entry) noexcept nogil:
    cdef Reader reader = reader_over(acl.data + place[0], acl.length - place[0])
    if acl.length == 0:
        return False
    if place[0] == 0:
        read_array_max(&reader, ZNODE_ACL_BYTES_MAX)
    if reader.at == reader.end:
        return False
    _read_acl_entry(&reader, entry)
    place[0] = <uint32_t>(reader.at - acl.data)
    return reader.status == OK

cdef status_t znode_acl_encode(const AclEntry* entries, uint32_t count, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t start = out.size
    cdef Writer writer = writer_at(out)
    cdef uint32_t i
    write_array(&writer, count)
    for i in range(count):
        if entries[i].perms > PERM_ALL:
            write_fail(&writer, BAD_FIELD)
        write_array(&writer, 3)
        write_uint(&writer, entries[i].perms)
        write_bin(&writer, entries[i].who.scheme.data, entries[i].who.scheme.length)
        write_bin(&writer, entries[i].who.id.data, entries[i].who.id.length)
    if out.size - start > ZNODE_ACL_BYTES_MAX:
        write_fail(&writer, VALUE_TOO_LARGE)
    if writer.status != OK:
        out.size = start
    return writer.status

cdef bint _matches(const Identity* wanted, const Identity* who) noexcept nogil:
    if not _equal(&wanted.scheme, &who.scheme):
        return False
    if _is(&wanted.scheme, "ip", 2):
        return _is_in_network(&wanted.id, &who.id)
    return _equal(&wanted.id, &who.id)

cdef bint znode_acl_allows(const Bytes* acl, uint8_t perms, const Identity* identities, uint32_t count) noexcept nogil:
    cdef uint32_t place = 0
    cdef AclEntry entry
    cdef uint32_t i
    if acl.length == 0:
        return True
    for i in range(count):
        if _is(&identities[i].scheme, "super", 5):
            return True
    while znode_acl_next(acl, &place, &entry):
        if not entry.perms & perms:
            continue
        if _is_anyone(&entry.who):
            return True
        for i in range(count):
            if _matches(&entry.who, &identities[i]):
                return True
    return False
