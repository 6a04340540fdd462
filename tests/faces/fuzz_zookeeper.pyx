"""The ZooKeeper door's protocol for fuzzers: every frame is decoded, walked, and made a command or a step of SASL."""
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.doors.zookeeper.auth cimport (ZkAuthSettings, ZkSasl, ZkSaslUser, ZkSpeaker, sasl_step, speaker_auth,
                                            speaker_init, speaker_release)
from raftmeta.doors.zookeeper.codec cimport (ZK_CONNECT_BYTES_MAX, ZK_LENGTH_BYTES, ZkAcl, ZkConnect, ZkRequest,
                                             ZkStrings, zk_acl_next, zk_connect_decode, zk_frame_look,
                                             zk_operation_next, zk_request_decode, zk_string_next)
from raftmeta.doors.zookeeper.four_letter cimport WORD_BYTES, WORD_NONE, four_letter_find
from raftmeta.doors.zookeeper.protocol cimport ZK_AUTH, ZK_IS_WRITE, ZK_OK, ZK_SASL, ZK_SYSTEM_ERROR
from raftmeta.doors.zookeeper.texts cimport text_of
from raftmeta.doors.zookeeper.translate cimport (ZkArena, zk_arena_init, zk_arena_release, zk_command_make,
                                                 zk_reply_refused)
from raftmeta.native.containers cimport Vec
from raftmeta.status cimport NO_MEMORY, OK, status_t
from raftmeta.wire.commands cimport Bytes, Command, command_encode, command_init, command_release

cdef enum:
    FRAME_BYTES_MAX = 1 << 20
    WATCH_VECTORS = 5

# What one connection keeps between its frames.
cdef struct Talk:
    ZkSpeaker speaker
    ZkSasl sasl
    ZkSaslUser user
    ZkAuthSettings settings
    ZkArena arena
    Command command
    Vec[uint8_t] out


cdef bint _walk_strings(ZkStrings strings) noexcept nogil:
    cdef uint32_t count = strings.count
    cdef Bytes one
    while zk_string_next(&strings, &one):
        count -= 1
    return count == 0 and strings.bytes.length == 0


cdef bint _walk_acls(ZkStrings entries) noexcept nogil:
    cdef uint32_t count = entries.count
    cdef ZkAcl one
    while zk_acl_next(&entries, &one):
        count -= 1
    return count == 0 and entries.bytes.length == 0


cdef bint _walk_vectors(const ZkRequest* request) noexcept nogil:
    cdef int i
    for i in range(WATCH_VECTORS):
        if not _walk_strings(request.watches[i]):
            return False
    return _walk_acls(request.acl)


cdef bint _walk(const ZkRequest* request) noexcept nogil:
    cdef ZkStrings left = request.operations
    cdef uint32_t count = left.count
    cdef ZkRequest one
    while zk_operation_next(&left, &one):
        count -= 1
        if not _walk_vectors(&one):
            return False
    return count == 0 and _walk_vectors(request)


cdef int _write(Talk* talk, const ZkRequest* request) noexcept nogil:
    cdef Bytes root = text_of(b"zookeeper")
    cdef uint32_t position = 0
    cdef status_t status
    cdef int32_t error = zk_command_make(request, &talk.speaker, 1, &root, True, &talk.arena, &talk.command, &position)
    cdef size_t total = 0
    talk.out.clear()
    if error == ZK_OK:
        status = command_encode(&talk.command, &talk.out)
        return 0 if status == OK or status == NO_MEMORY else ZOOKEEPER_COMMAND
    if error == ZK_SYSTEM_ERROR or zk_reply_refused(request, 1, error, position, &talk.out) != OK:
        return 0
    status = zk_frame_look(talk.out.data, talk.out.size, <uint32_t>talk.out.size, &total)
    return 0 if status == OK and total == talk.out.size else ZOOKEEPER_REFUSAL


cdef int _request(Talk* talk, const uint8_t* body, uint32_t length) noexcept nogil:
    cdef uint8_t[16] random
    cdef ZkRequest request
    if zk_request_decode(body, length, &request) != OK or request.error:
        return 0
    if not _walk(&request):
        return ZOOKEEPER_VECTOR
    if request.opcode == ZK_AUTH:
        speaker_auth(&talk.speaker, &talk.settings, &request.scheme, &request.data)
    elif request.opcode == ZK_SASL:
        memset(random, 0, sizeof(random))
        talk.out.clear()
        sasl_step(&talk.sasl, &talk.speaker, &talk.settings, &request.data, random, &talk.out)
    elif request.row.traits & ZK_IS_WRITE:
        return _write(talk, &request)
    return 0


cdef int _frames(Talk* talk, const uint8_t* data, size_t size) noexcept nogil:
    cdef ZkConnect connect
    cdef size_t at = 0
    cdef size_t total = 0
    cdef int wrong = 0
    if size >= WORD_BYTES and four_letter_find(data) != WORD_NONE:
        return 0
    if zk_frame_look(data, size, ZK_CONNECT_BYTES_MAX, &total) != OK:
        return 0
    if zk_connect_decode(data + ZK_LENGTH_BYTES, <uint32_t>(total - ZK_LENGTH_BYTES), &connect) != OK:
        return 0
    at = total
    while not wrong and zk_frame_look(data + at, size - at, FRAME_BYTES_MAX, &total) == OK:
        wrong = _request(talk, data + at + ZK_LENGTH_BYTES, <uint32_t>(total - ZK_LENGTH_BYTES))
        at += total
    return wrong


cdef int fuzz_zookeeper(const uint8_t* data, size_t size) noexcept nogil:
    cdef Talk talk
    cdef int wrong
    memset(<void*>&talk, 0, sizeof(talk))
    speaker_init(&talk.speaker)
    zk_arena_init(&talk.arena)
    command_init(&talk.command)
    talk.user.name = text_of(b"bob")
    talk.user.password = text_of(b"bobsecret")
    talk.settings.users = &talk.user
    talk.settings.user_count = 1
    talk.settings.super_digest = text_of(b"super:xQJmxLMiHGwaqBvst5y6rkB6HQs=")
    wrong = _frames(&talk, data, size)
    talk.out.release()
    command_release(&talk.command)
    zk_arena_release(&talk.arena)
    speaker_release(&talk.speaker)
    return wrong
