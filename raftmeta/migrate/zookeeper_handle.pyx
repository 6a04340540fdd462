"""The loops over all nodes of a ZooKeeper tree: they run a million times, and do what zookeeper_files and _tree say.

They decide nothing about a tree. They read the bytes of a node as a snapshot has it, big-endian: data with its length
(-1: none), number of the list of rights, stat (czxid mzxid ctime mtime version cversion aversion owner pzxid).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeASCII
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, memcpy, memset

from raftmeta.migrate.items import Item

cdef enum:
    STAT_BYTES = 60
    NODE_BYTES = 72             # length of the data, number of the list of rights, stat
    METADATA_BYTES = 400        # eight numbers of at most 20 digits, and their names
    SYSTEM_BYTES = 10

cdef const char* SYSTEM = b"/zookeeper"     # servers change what is below on their own
cdef object _Item = Item
cdef object _new_tuple = tuple.__new__
cdef uint32_t[8][256] _CRC

CONTAINER_OWNER = -(1 << 63)
cdef int64_t _CONTAINER_OWNER = CONTAINER_OWNER


cdef struct Stat:
    int64_t czxid
    int64_t mzxid
    int64_t ctime
    int64_t mtime
    int32_t version
    int32_t cversion
    int32_t aversion
    int64_t owner
    int64_t pzxid


# --- bytes ------------------------------------------------------------------------------------------------------------
cdef inline int32_t _int_at(const uint8_t* at) noexcept nogil:
    return <int32_t>((<uint32_t>at[0] << 24) | (<uint32_t>at[1] << 16) | (<uint32_t>at[2] << 8) | at[3])

cdef inline int64_t _long_at(const uint8_t* at) noexcept nogil:
    return (<int64_t>_int_at(at) << 32) | <uint32_t>_int_at(at + 4)

cdef inline void _read_stat(const uint8_t* at, Stat* into) noexcept nogil:
    into.czxid = _long_at(at)
    into.mzxid = _long_at(at + 8)
    into.ctime = _long_at(at + 16)
    into.mtime = _long_at(at + 24)
    into.version = _int_at(at + 32)
    into.cversion = _int_at(at + 36)
    into.aversion = _int_at(at + 40)
    into.owner = _long_at(at + 44)
    into.pzxid = _long_at(at + 52)

cdef inline bint _is_system(const char* path, Py_ssize_t length) noexcept nogil:
    return (length >= SYSTEM_BYTES and not memcmp(path, SYSTEM, SYSTEM_BYTES)
            and (length == SYSTEM_BYTES or path[SYSTEM_BYTES] == 47))

# The time of a TTL node, which stands in the place of its owner; 0: it is none.
cdef inline int64_t _ttl_ms(int64_t owner) noexcept nogil:
    return owner & <int64_t>0xffffffffff if (owner >> 40) & 0xffffff == 0xff0000 else 0

cdef inline bint _is_session(int64_t owner) noexcept nogil:
    return owner != 0 and owner != _CONTAINER_OWNER and not _ttl_ms(owner)


# --- CRC-32, as zlib has it: eight bytes at a time --------------------------------------------------------------------
cdef void _make_tables() noexcept:
    cdef uint32_t crc
    cdef int byte, _bit, table
    for byte in range(256):
        crc = byte
        for _bit in range(8):
            crc = (crc >> 1) ^ (0xedb88320 if crc & 1 else 0)
        _CRC[0][byte] = crc
    for table in range(1, 8):
        for byte in range(256):
            crc = _CRC[table - 1][byte]
            _CRC[table][byte] = (crc >> 8) ^ _CRC[0][crc & 0xff]

_make_tables()

cdef uint32_t _crc32(const uint8_t* at, Py_ssize_t length, uint32_t crc) noexcept nogil:
    crc = ~crc
    while length >= 8:
        crc ^= at[0] | (<uint32_t>at[1] << 8) | (<uint32_t>at[2] << 16) | (<uint32_t>at[3] << 24)
        crc = (_CRC[7][crc & 0xff] ^ _CRC[6][(crc >> 8) & 0xff] ^ _CRC[5][(crc >> 16) & 0xff] ^ _CRC[4][crc >> 24]
               ^ _CRC[3][at[4]] ^ _CRC[2][at[5]] ^ _CRC[1][at[6]] ^ _CRC[0][at[7]])
        at += 8
        length -= 8
    while length > 0:
        crc = (crc >> 8) ^ _CRC[0][(crc ^ at[0]) & 0xff]
        at += 1
        length -= 1
    return ~crc


cdef uint32_t _digest(bytes path, bytes record) except? 0xffffffff:
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(record)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(path)
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    cdef const uint8_t* stat = at + size - STAT_BYTES
    cdef uint32_t crc
    if size < NODE_BYTES:
        raise ValueError(f"a node of {size} bytes")
    if length > SYSTEM_BYTES and _is_system(PyBytes_AS_STRING(path), length):
        return 0
    crc = 0 if length == 1 else _crc32(<const uint8_t*>PyBytes_AS_STRING(path), length, 0)
    crc = _crc32(at + 4, size - NODE_BYTES, crc)
    crc = _crc32(stat, 16, crc)
    crc = _crc32(stat + 52, 8, crc)
    return _crc32(stat + 16, 36, crc)


def node_digest(bytes path not None, bytes record not None):
    """The share of one node in the digest: org.apache.zookeeper.server.DigestCalculator, version 2."""
    return _digest(path, record)


# --- snapshots --------------------------------------------------------------------------------------------------------
def whole_nodes(bytes buffer not None, Py_ssize_t position, Py_ssize_t most):
    """(rows, where they end): at most so many nodes that stand whole in the buffer, as (path, record).

    It stops before whatever is not one: the end of the nodes, or of the buffer, or damage.
    """
    cdef list rows = []
    cdef const uint8_t* data = <const uint8_t*>PyBytes_AS_STRING(buffer)
    cdef Py_ssize_t limit = PyBytes_GET_SIZE(buffer)
    cdef Py_ssize_t path_start, path_end, end
    cdef int32_t path_length, data_length
    if position < 0:
        raise ValueError(f"position {position}")
    while limit - position >= 4 and len(rows) < most:
        path_length = _int_at(data + position)
        path_start = position + 4
        path_end = path_start + path_length
        if path_length < 0 or limit - path_end < 4 or (path_length == 1 and data[path_start] == 47):
            break
        data_length = _int_at(data + path_end)
        end = path_end + NODE_BYTES + (data_length if data_length > 0 else 0)
        if data_length < -1 or end > limit:
            break
        rows.append((PyBytes_FromStringAndSize(<const char*>data + path_start, path_length),
                     PyBytes_FromStringAndSize(<const char*>data + path_end, end - path_end)))
        position = end
    return rows, position


def summed(list rows not None):
    """The facts that a tree needs of rows: (sum of their digests, (session, path) of ephemerals, numbers of rights)."""
    cdef object digest = 0
    cdef list owned = []
    cdef set rights = set()
    cdef bytes path, record
    cdef const uint8_t* end
    cdef int64_t owner
    cdef int64_t number
    cdef int64_t previous = 0
    cdef bint is_first = True
    for row in rows:
        path, record = <tuple>row
        digest += _digest(path, record)
        end = <const uint8_t*>PyBytes_AS_STRING(record) + PyBytes_GET_SIZE(record)
        owner = _long_at(end - 16)
        if owner and _is_session(owner):
            owned.append((owner, path))
        number = _long_at(end - STAT_BYTES - 8)
        if is_first or number != previous:
            rights.add(number)
            previous = number
            is_first = False
    return digest, owned, rights


# --- transactions -----------------------------------------------------------------------------------------------------
cdef inline void _put_int(uint8_t* at, int32_t number) noexcept nogil:
    cdef int position
    for position in range(4):
        at[position] = <uint8_t>((<uint32_t>number >> (24 - 8 * position)) & 0xff)

cdef inline void _put_long(uint8_t* at, int64_t number) noexcept nogil:
    _put_int(at, <int32_t>(number >> 32))
    _put_int(at + 4, <int32_t><uint32_t>number)


# Where a string, or data, ends that begins with its length; of length -1 it is empty.
cdef Py_ssize_t _end_of(const uint8_t* at, Py_ssize_t position, Py_ssize_t limit) except -1:
    cdef int32_t length
    if limit - position < 4:
        raise ValueError("it ends too early")
    length = _int_at(at + position)
    if length < -1 or length > limit - position - 4:
        raise ValueError(f"{length} bytes")
    return position + 4 + (length if length > 0 else 0)


def create_of(bytes body not None, Py_ssize_t position):
    """(path, data with its length, list of rights as its bytes, where that ends) of what a transaction creates.

    Raises ValueError: they make no sense.
    """
    cdef const uint8_t* at = <const uint8_t*>PyBytes_AS_STRING(body)
    cdef Py_ssize_t limit = PyBytes_GET_SIZE(body)
    cdef Py_ssize_t path_end, data_end, end
    cdef int32_t count
    if position < 0:
        raise ValueError(f"position {position}")
    path_end = _end_of(at, position, limit)
    data_end = _end_of(at, path_end, limit)
    if limit - data_end < 4:
        raise ValueError("it ends before the rights")
    count = _int_at(at + data_end)
    if count > limit:
        raise ValueError(f"{count} rights")
    end = data_end + 4
    while count > 0:
        end = _end_of(at, _end_of(at, end + 4, limit), limit)
        count -= 1
    return (PyBytes_FromStringAndSize(<const char*>at + position + 4, path_end - position - 4),
            PyBytes_FromStringAndSize(<const char*>at + path_end, data_end - path_end),
            PyBytes_FromStringAndSize(<const char*>at + data_end, end - data_end), end)


def new_record(bytes data not None, int64_t rights, int64_t zxid, int64_t time_ms, int64_t owner):
    """The record of a node that was just created. data: with its length. rights: the number of its list."""
    cdef Py_ssize_t length = PyBytes_GET_SIZE(data)
    cdef bytes record = PyBytes_FromStringAndSize(NULL, length + 8 + STAT_BYTES)
    cdef uint8_t* at = <uint8_t*>PyBytes_AS_STRING(record)
    memcpy(at, PyBytes_AS_STRING(data), length)
    at += length
    _put_long(at, rights)
    at += 8
    memset(at, 0, STAT_BYTES)
    _put_long(at, zxid)
    _put_long(at + 8, zxid)
    _put_long(at + 16, time_ms)
    _put_long(at + 24, time_ms)
    _put_long(at + 44, owner)
    _put_long(at + 52, zxid)
    return record


def children_of(bytes record not None):
    """(cversion, pzxid) of a node."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    cdef const uint8_t* stat = <const uint8_t*>PyBytes_AS_STRING(record) + size - STAT_BYTES
    if size < NODE_BYTES:
        raise ValueError(f"a node of {size} bytes")
    return _int_at(stat + 36), _long_at(stat + 52)


def with_children(bytes record not None, int32_t cversion, int64_t pzxid):
    """The record with these two."""
    cdef Py_ssize_t size = PyBytes_GET_SIZE(record)
    cdef bytes changed
    cdef uint8_t* stat
    if size < NODE_BYTES:
        raise ValueError(f"a node of {size} bytes")
    changed = PyBytes_FromStringAndSize(PyBytes_AS_STRING(record), size)
    stat = <uint8_t*>PyBytes_AS_STRING(changed) + size - STAT_BYTES
    _put_int(stat + 36, cversion)
    _put_long(stat + 52, pzxid)
    return changed


# --- items ------------------------------------------------------------------------------------------------------------
# A JSON object; what is as it mostly is, is left out: docs/migration.md says how.
cdef object _metadata(const Stat* stat, object rights, bint is_without_data):
    cdef char[METADATA_BYTES] text
    cdef int length = snprintf(text, METADATA_BYTES, b"{\"czxid\":%lld,\"ctime_ms\":%lld", <long long>stat.czxid,
                               <long long>stat.ctime)
    if stat.mzxid != stat.czxid:
        length += snprintf(text + length, METADATA_BYTES - length, b",\"mzxid\":%lld", <long long>stat.mzxid)
    if stat.mtime != stat.ctime:
        length += snprintf(text + length, METADATA_BYTES - length, b",\"mtime_ms\":%lld", <long long>stat.mtime)
    if stat.pzxid != stat.czxid:
        length += snprintf(text + length, METADATA_BYTES - length, b",\"pzxid\":%lld", <long long>stat.pzxid)
    if stat.version:
        length += snprintf(text + length, METADATA_BYTES - length, b",\"version\":%d", <int>stat.version)
    if stat.cversion:
        length += snprintf(text + length, METADATA_BYTES - length, b",\"cversion\":%d", <int>stat.cversion)
    if stat.aversion:
        length += snprintf(text + length, METADATA_BYTES - length, b",\"aversion\":%d", <int>stat.aversion)
    if _is_session(stat.owner):
        length += snprintf(text + length, METADATA_BYTES - length, b",\"session\":\"0x%llx\"",
                           <unsigned long long>stat.owner)
    elif stat.owner == _CONTAINER_OWNER:
        length += snprintf(text + length, METADATA_BYTES - length, b",\"container\":true")
    elif stat.owner:
        length += snprintf(text + length, METADATA_BYTES - length, b",\"ttl_ms\":%lld", <long long>_ttl_ms(stat.owner))
    if is_without_data:
        length += snprintf(text + length, METADATA_BYTES - length, b",\"data\":null")
    if not rights:
        length += snprintf(text + length, METADATA_BYTES - length, b"}")
        return PyUnicode_DecodeASCII(text, length, NULL)
    return f'{PyUnicode_DecodeASCII(text, length, NULL)},"acl":{rights}}}'


def items_of(list rows not None, dict rights not None, bint has_ephemerals, dropped):
    """Items of (path, record) rows. rights: as JSON, by number; empty where all may do everything.

    Rows left out are counted in `dropped`: "nodes below /zookeeper", and unless has_ephemerals "ephemeral nodes".
    """
    cdef list found = []
    cdef bytes path, record
    cdef const uint8_t* at
    cdef Py_ssize_t size
    cdef int64_t number, holder
    cdef int32_t data_length
    cdef Py_ssize_t system = 0
    cdef Py_ssize_t ephemeral = 0
    cdef Stat stat
    for row in rows:
        path, record = <tuple>row
        size = PyBytes_GET_SIZE(record)
        if size < NODE_BYTES:
            raise ValueError(f"a node of {size} bytes")
        if _is_system(PyBytes_AS_STRING(path), PyBytes_GET_SIZE(path)):
            system += 1
            continue
        at = <const uint8_t*>PyBytes_AS_STRING(record)
        _read_stat(at + size - STAT_BYTES, &stat)
        holder = stat.owner if _is_session(stat.owner) else 0
        if holder and not has_ephemerals:
            ephemeral += 1
            continue
        number = _long_at(at + size - STAT_BYTES - 8)
        data_length = _int_at(at)
        found.append(_new_tuple(_Item, (
            path, PyBytes_FromStringAndSize(<const char*>at + 4, size - NODE_BYTES),
            _metadata(&stat, rights[number], data_length < 0), holder,
            stat.cversion if stat.cversion > 0 else None, False)))
    if system:
        dropped["nodes below /zookeeper"] = dropped.get("nodes below /zookeeper", 0) + system
    if ephemeral:
        dropped["ephemeral nodes"] = dropped.get("ephemeral nodes", 0) + ephemeral
    return found
