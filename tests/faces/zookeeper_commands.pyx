"""Requests of ZooKeeper to commands, results and nodes to answers, as Python functions for tests.

A request is the body of a frame. Errors are ZooKeeper's codes, statuses numbers of raftmeta/status.pxd.
"""
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from raftmeta.doors.zookeeper cimport codec, translate
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport OK, status_t
from raftmeta.wire.commands cimport Bytes, Command, command_encode, command_init, command_release
from raftmeta.wire.znodes cimport ZnodeStat
from tests.faces.zookeeper cimport Speaker

STAT_FIELDS = ("czxid", "mzxid", "ctime_ms", "mtime_ms", "version", "cversion", "aversion", "owner", "data_length",
               "children", "pzxid")


cdef bytes _taken(Vec[uint8_t]* out):
    taken = PyBytes_FromStringAndSize(<char*>out.data, <Py_ssize_t>out.size)
    out.release()
    return taken

cdef Vec[uint8_t] _empty() noexcept:
    cdef Vec[uint8_t] out
    memset(<void*>&out, 0, sizeof(out))
    return out

cdef const uint8_t* _start(const uint8_t[::1] view) noexcept:
    return &view[0] if view.shape[0] else NULL

cdef Bytes _window(bytes value):
    cdef Bytes window
    window.data = <const uint8_t*>PyBytes_AS_STRING(value)
    window.length = <uint32_t>PyBytes_GET_SIZE(value)
    return window

cdef ZnodeStat _stat(tuple values):
    cdef ZnodeStat stat
    (stat.czxid, stat.mzxid, stat.ctime_ms, stat.mtime_ms, stat.version, stat.cversion, stat.aversion, stat.owner,
     stat.data_length, stat.children, stat.pzxid) = values
    return stat


cdef codec.ZkRequest _decoded(bytes body) except *:
    cdef codec.ZkRequest request
    if codec.zk_request_decode(<const uint8_t*>body, <uint32_t>len(body), &request) != OK or request.error:
        raise ValueError(f"no request: {body.hex()}")
    return request


def command_make(bytes body, Speaker speaker not None, *, uint64_t owner=0, bytes root=b"zookeeper", has_ttl=True):
    cdef codec.ZkRequest request = _decoded(body)
    cdef translate.ZkArena arena
    cdef Command command
    cdef Vec[uint8_t] out = _empty()
    cdef Bytes window = _window(root)
    cdef uint32_t position = 0
    cdef status_t status = OK
    translate.zk_arena_init(&arena)
    command_init(&command)
    error = translate.zk_command_make(&request, &speaker.speaker, owner, &window, has_ttl, &arena, &command, &position)
    if error == 0:
        status = command_encode(&command, &out)
    command_release(&command)
    translate.zk_arena_release(&arena)
    if status != OK:
        raise ValueError(f"command_encode refused it with status {status}")
    return error, position, _taken(&out)


def reply_result(bytes body, const uint8_t[::1] result, uint64_t zxid=0):
    cdef codec.ZkRequest request = _decoded(body)
    cdef Vec[uint8_t] out = _empty()
    cdef uint64_t revision = 0
    status = translate.zk_reply_result(&request, _start(result), <uint32_t>result.shape[0], zxid, &revision, &out)
    return status, revision, _taken(&out)


def reply_refused(bytes body, uint64_t zxid, int32_t error, uint32_t position=0):
    cdef codec.ZkRequest request = _decoded(body)
    cdef Vec[uint8_t] out = _empty()
    if translate.zk_reply_refused(&request, zxid, error, position, &out) != OK:
        raise MemoryError
    return _taken(&out)


def read_body(bytes body, Speaker speaker not None, node):
    cdef codec.ZkRequest request = _decoded(body)
    cdef translate.ZkNode found
    cdef translate.ZkArena arena
    cdef Vec[uint8_t] out = _empty()
    memset(&found, 0, sizeof(found))
    if node is not None:
        data, acl, stat = node
        found.is_data_null = data is None
        found.data = _window(data or b"")
        found.acl = _window(acl)
        found.stat = _stat(stat)
    translate.zk_arena_init(&arena)
    error = translate.zk_read_body(&request, &found if node is not None else NULL, &speaker.speaker, &arena, &out)
    translate.zk_arena_release(&arena)
    return error, _taken(&out)


def founded_children(bytes path):
    cdef Bytes window = _window(path)
    cdef uint32_t position = 0
    names = []
    while translate.zk_founded_child(&window, position) != NULL:
        names.append(<bytes>translate.zk_founded_child(&window, position))
        position += 1
    return names


def founded_node(bytes path):
    cdef Bytes window = _window(path)
    cdef translate.ZkNode found
    if not translate.zk_node_find(NULL, &window, &found):
        return None
    return {name: value for name, value in found.stat.items()}


def config_text(list servers, uint64_t version):
    cdef translate.ZkServer* rows = <translate.ZkServer*>calloc(len(servers) + 1, sizeof(translate.ZkServer))
    cdef Vec[uint8_t] out = _empty()
    if rows == NULL:
        raise MemoryError
    for i, (address, is_observer) in enumerate(servers):
        rows[i].address = _window(address)
        rows[i].is_observer = is_observer
    status = translate.zk_config_text(rows, <uint32_t>len(servers), version, &out)
    free(rows)
    if status != OK:
        raise MemoryError
    return _taken(&out)


def who_am_i(Speaker speaker not None):
    cdef Vec[uint8_t] out = _empty()
    if translate.zk_who_am_i_body(&speaker.speaker, &out) != OK:
        raise MemoryError
    return _taken(&out)
