"""HTTP/2 of the etcd door: bodies.

Sources: RFC 9113; gRPC over HTTP2 (grpc/doc PROTOCOL-HTTP2); nghttp2 1.52 nghttp2.h.
"""

from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memcpy, memset, strlen

from raftmeta.connections.connections cimport connection_prove, connection_touch
from raftmeta.doors.desk.state cimport bytes_of
from raftmeta.doors.etcd.access cimport access_by_token, access_must_prove
from raftmeta.doors.etcd.calls cimport (call_close, call_create, call_data, call_half_close, call_open, call_sent,
                                        calls_take_told)
from raftmeta.doors.etcd.nghttp2 cimport (
    NGHTTP2_DATA, NGHTTP2_DATA_FLAG_EOF, NGHTTP2_DATA_FLAG_NO_END_STREAM, NGHTTP2_ENHANCE_YOUR_CALM,
    NGHTTP2_ERR_CALLBACK_FAILURE, NGHTTP2_ERR_DEFERRED, NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE, NGHTTP2_FLAG_END_STREAM,
    NGHTTP2_FLAG_NONE, NGHTTP2_HCAT_REQUEST, NGHTTP2_HEADERS, NGHTTP2_NO_ERROR, NGHTTP2_RST_STREAM,
    NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE,
    NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, nghttp2_data_provider,
    nghttp2_data_source, nghttp2_frame, nghttp2_nv, nghttp2_option, nghttp2_option_new,
    nghttp2_option_set_max_outbound_ack, nghttp2_option_set_max_settings, nghttp2_option_set_no_closed_streams,
    nghttp2_session, nghttp2_session_callbacks, nghttp2_session_callbacks_new,
    nghttp2_session_callbacks_set_on_begin_headers_callback, nghttp2_session_callbacks_set_on_data_chunk_recv_callback,
    nghttp2_session_callbacks_set_on_frame_recv_callback, nghttp2_session_callbacks_set_on_frame_send_callback,
    nghttp2_session_callbacks_set_on_header_callback,
    nghttp2_session_callbacks_set_on_stream_close_callback, nghttp2_session_del, nghttp2_session_get_stream_user_data,
    nghttp2_session_mem_recv, nghttp2_session_mem_send, nghttp2_session_resume_data, nghttp2_session_server_new2,
    nghttp2_session_set_local_window_size, nghttp2_session_set_stream_user_data, nghttp2_session_terminate_session,
    nghttp2_session_want_read, nghttp2_session_want_write, nghttp2_settings_entry, nghttp2_submit_response,
    nghttp2_submit_rst_stream, nghttp2_submit_settings, nghttp2_submit_trailer)
from raftmeta.doors.etcd.state cimport (CODE_OK, CODE_UNIMPLEMENTED, ETCD_CALLS_MAX, ETCD_PATH_BYTES_MAX,
                                        TUNE_OUT_BYTES, EtcdCall)
from raftmeta.doors.etcd.table cimport handler_of
from raftmeta.wire.commands cimport Bytes

cdef enum:
    HEADER_LIST_BYTES_MAX = 16 * 1024
    HEADERS_MAX = 64                # of one call
    SETTINGS_MAX = 32               # of one frame
    ACKS_MAX = 1000                 # of settings and pings that wait to be sent
    STREAM_WINDOW_BYTES = 1 << 20
    CONNECTION_WINDOW_BYTES = 4 << 20
    RESETS_BURST = 2000             # streams that a client ends before they are answered, at once
    RESETS_PER_S = 200              # and on and on
    CODE_DIGITS = 2
    BATCH_BYTES_MAX = 1 << 20       # made for one connection in one go

# One connection.
cdef struct Http2:
    nghttp2_session* session
    EtcdDoor* door
    EtcdConnection* connection
    uint64_t resets                 # in the bucket
    uint64_t resets_ns              # when it was filled last
    uint32_t headers                # of the call whose head is being read


cdef inline bint _is(const uint8_t* bytes, size_t length, const char* word) noexcept nogil:
    return length == strlen(word) and memcmp(bytes, word, length) == 0


cdef inline bint _begins(const uint8_t* bytes, size_t length, const char* word) noexcept nogil:
    return length >= strlen(word) and memcmp(bytes, word, strlen(word)) == 0


cdef inline EtcdCall* _call_of(nghttp2_session* session, int32_t stream) noexcept nogil:
    return <EtcdCall*>nghttp2_session_get_stream_user_data(session, stream)


# --- what nghttp2 tells -----------------------------------------------------------------------------------------------
cdef int _on_begin(nghttp2_session* session, const nghttp2_frame* frame, void* user) noexcept nogil:
    cdef Http2* http2 = <Http2*>user
    cdef EtcdCall* call
    if frame.hd.type != NGHTTP2_HEADERS or frame.headers.cat != NGHTTP2_HCAT_REQUEST:
        return 0                    # trailers
    call = call_create(http2.door, http2.connection)
    if call == NULL:
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
    call.stream = frame.hd.stream_id
    nghttp2_session_set_stream_user_data(session, call.stream, call)
    http2.headers = 0
    return 0


cdef int _on_header(nghttp2_session* session, const nghttp2_frame* frame, const uint8_t* name, size_t name_length,
                    const uint8_t* value, size_t value_length, uint8_t flags, void* user) noexcept nogil:
    cdef Http2* http2 = <Http2*>user
    cdef EtcdCall* call = _call_of(session, frame.hd.stream_id)
    cdef Bytes token
    if call == NULL or frame.headers.cat != NGHTTP2_HCAT_REQUEST:
        return 0
    http2.headers += 1
    if http2.headers > HEADERS_MAX:
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
    if _is(name, name_length, b":path"):
        call.path_length = <uint8_t>min(value_length, <size_t>ETCD_PATH_BYTES_MAX + 1)
        memcpy(call.path, value, min(value_length, <size_t>ETCD_PATH_BYTES_MAX))
    elif _is(name, name_length, b"content-type"):
        call.is_grpc = _begins(value, value_length, b"application/grpc")
    elif _is(name, name_length, b"token") or _is(name, name_length, b"authorization"):
        token = bytes_of(value, value_length)
        access_by_token(http2.door, call, &token)
    return 0


# A head is whole, or a client has ended its side.
cdef int _on_frame(nghttp2_session* session, const nghttp2_frame* frame, void* user) noexcept nogil:
    cdef Http2* http2 = <Http2*>user
    cdef EtcdCall* call
    if http2.connection.base.unbound != 0 and not access_must_prove(http2.door, http2.connection):
        connection_prove(&http2.door.desk.base, &http2.connection.base)
    if frame.hd.type == NGHTTP2_RST_STREAM:
        return 0 if _may_reset(http2) else <int>NGHTTP2_ERR_CALLBACK_FAILURE
    if frame.hd.type != NGHTTP2_HEADERS and frame.hd.type != NGHTTP2_DATA:
        return 0
    call = _call_of(session, frame.hd.stream_id)
    if call == NULL:
        return 0
    if frame.hd.type == NGHTTP2_HEADERS and frame.headers.cat == NGHTTP2_HCAT_REQUEST:
        if call.is_grpc:
            call_open(http2.door, call, handler_of(call.path, call.path_length))
        else:
            call_open(http2.door, call, NULL)
    if frame.hd.flags & NGHTTP2_FLAG_END_STREAM:
        call_half_close(http2.door, call)
    return 0


# A client that opens streams and resets them costs work for nothing (CVE-2023-44487).
cdef bint _may_reset(Http2* http2) noexcept nogil:
    cdef uint64_t passed_ns = http2.door.desk.base.now_ns - http2.resets_ns
    cdef uint64_t gone = passed_ns // 1_000_000 * RESETS_PER_S // 1000
    if gone:
        http2.resets -= min(gone, http2.resets)
        http2.resets_ns = http2.door.desk.base.now_ns
    http2.resets += 1
    return http2.resets <= RESETS_BURST


cdef int _on_data(nghttp2_session* session, uint8_t flags, int32_t stream, const uint8_t* bytes, size_t length,
                  void* user) noexcept nogil:
    cdef EtcdCall* call = _call_of(session, stream)
    if call != NULL:
        call_data((<Http2*>user).door, call, bytes, <uint32_t>length)
    return 0


# The last word of a call is sent. A client that has more to say is told that nobody listens (RFC 9113 8.1).
cdef int _on_sent(nghttp2_session* session, const nghttp2_frame* frame, void* user) noexcept nogil:
    cdef EtcdCall* call
    if frame.hd.type == NGHTTP2_HEADERS and frame.hd.flags & NGHTTP2_FLAG_END_STREAM:
        call = _call_of(session, frame.hd.stream_id)
        if call != NULL and not call.is_half_closed:
            nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame.hd.stream_id, NGHTTP2_NO_ERROR)
    return 0


cdef int _on_close(nghttp2_session* session, int32_t stream, uint32_t error, void* user) noexcept nogil:
    cdef EtcdCall* call = _call_of(session, stream)
    if call != NULL:
        nghttp2_session_set_stream_user_data(session, stream, NULL)
        call_close((<Http2*>user).door, call)
    return 0


cdef nghttp2_session_callbacks* CALLBACKS = NULL
cdef nghttp2_option* OPTIONS = NULL


# Without memory there are none, and no connection is opened.
cdef void _prepare() noexcept nogil:
    global CALLBACKS, OPTIONS
    if nghttp2_session_callbacks_new(&CALLBACKS) != 0 or nghttp2_option_new(&OPTIONS) != 0:
        return
    nghttp2_session_callbacks_set_on_begin_headers_callback(CALLBACKS, _on_begin)
    nghttp2_session_callbacks_set_on_header_callback(CALLBACKS, _on_header)
    nghttp2_session_callbacks_set_on_frame_recv_callback(CALLBACKS, _on_frame)
    nghttp2_session_callbacks_set_on_frame_send_callback(CALLBACKS, _on_sent)
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(CALLBACKS, _on_data)
    nghttp2_session_callbacks_set_on_stream_close_callback(CALLBACKS, _on_close)
    nghttp2_option_set_max_settings(OPTIONS, SETTINGS_MAX)
    nghttp2_option_set_max_outbound_ack(OPTIONS, ACKS_MAX)
    nghttp2_option_set_no_closed_streams(OPTIONS, 1)


_prepare()


# --- a connection -----------------------------------------------------------------------------------------------------
cdef bint http2_open(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef Http2* http2 = <Http2*>calloc(1, sizeof(Http2))
    cdef nghttp2_settings_entry[3] settings
    if http2 == NULL or CALLBACKS == NULL or OPTIONS == NULL:
        free(http2)
        return False
    http2.door = door
    http2.connection = connection
    http2.resets_ns = door.desk.base.now_ns
    if nghttp2_session_server_new2(&http2.session, CALLBACKS, http2, OPTIONS) != 0:
        free(http2)
        return False
    connection.session = http2
    settings[0].settings_id = NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
    settings[0].value = ETCD_CALLS_MAX
    settings[1].settings_id = NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE
    settings[1].value = STREAM_WINDOW_BYTES
    settings[2].settings_id = NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE
    settings[2].value = HEADER_LIST_BYTES_MAX
    return (nghttp2_submit_settings(http2.session, NGHTTP2_FLAG_NONE, settings, 3) == 0
            and nghttp2_session_set_local_window_size(http2.session, NGHTTP2_FLAG_NONE, 0,
                                                      CONNECTION_WINDOW_BYTES) == 0)


cdef bint http2_take(EtcdDoor* door, EtcdConnection* connection, const uint8_t* bytes, size_t length) noexcept nogil:
    cdef Http2* http2 = <Http2*>connection.session
    cdef ssize_t taken = nghttp2_session_mem_recv(http2.session, bytes, length)
    if taken == <ssize_t>length:
        return http2_send(door, connection)
    if taken == NGHTTP2_ERR_CALLBACK_FAILURE:       # only too many resets do that
        nghttp2_session_terminate_session(http2.session, NGHTTP2_ENHANCE_YOUR_CALM)
    http2_send(door, connection)
    return False


# Its calls went before: their streams are not told.
cdef void http2_close(EtcdConnection* connection) noexcept nogil:
    cdef Http2* http2 = <Http2*>connection.session
    if http2 == NULL:
        return
    nghttp2_session_del(http2.session)
    free(http2)
    connection.session = NULL


# --- answers ----------------------------------------------------------------------------------------------------------
cdef void _field(nghttp2_nv* field, const char* name, const char* value, size_t length) noexcept nogil:
    field.name = <uint8_t*>name
    field.namelen = strlen(name)
    field.value = <uint8_t*>value
    field.valuelen = length
    field.flags = 0


# grpc-status, and grpc-message where there is one. How many fields that makes.
cdef size_t _status_fields(const EtcdCall* call, char* digits, nghttp2_nv* fields) noexcept nogil:
    cdef size_t length = 1 if call.code < 10 else CODE_DIGITS
    digits[0] = <char>(48 + (call.code if call.code < 10 else call.code // 10))
    digits[1] = <char>(48 + call.code % 10)
    _field(&fields[0], b"grpc-status", digits, length)
    if call.text == NULL:
        return 1
    _field(&fields[1], b"grpc-message", call.text, strlen(call.text))
    return 2


cdef ssize_t _read(nghttp2_session* session, int32_t stream, uint8_t* into, size_t room, uint32_t* flags,
                   nghttp2_data_source* source, void* user) noexcept nogil:
    cdef EtcdCall* call = <EtcdCall*>source.ptr
    cdef nghttp2_nv[2] fields
    cdef char[CODE_DIGITS] digits
    cdef size_t length = min(room, call.out.size - call.out_offset)
    if length:
        memcpy(into, call.out.data + call.out_offset, length)
        call_sent((<Http2*>user).door, call, <uint32_t>length)
    if call.out.size == 0 and call.is_done:
        flags[0] |= <uint32_t>NGHTTP2_DATA_FLAG_EOF | <uint32_t>NGHTTP2_DATA_FLAG_NO_END_STREAM
        if nghttp2_submit_trailer(session, stream, fields, _status_fields(call, digits, fields)) != 0:
            return NGHTTP2_ERR_CALLBACK_FAILURE
        return length
    if length == 0:
        call.is_deferred = True
        return NGHTTP2_ERR_DEFERRED
    return length


# The head of an answer; of one that has nothing but a status, all of it.
cdef bint _head(Http2* http2, EtcdCall* call) noexcept nogil:
    cdef nghttp2_nv[5] fields
    cdef char[CODE_DIGITS] digits
    cdef nghttp2_data_provider provider
    cdef size_t count = 2
    memset(&provider, 0, sizeof(provider))
    call.is_headed = True
    if not call.is_grpc:
        _field(&fields[0], b":status", b"415", 3)
        return nghttp2_submit_response(http2.session, call.stream, fields, 1, NULL) == 0
    _field(&fields[0], b":status", b"200", 3)
    _field(&fields[1], b"content-type", b"application/grpc", 16)
    if call.is_done and call.out.size == 0 and call.code != CODE_OK:
        if call.code == CODE_UNIMPLEMENTED:     # perhaps for a compressed message: this is all that is read
            _field(&fields[2], b"grpc-accept-encoding", b"identity", 8)
            count += 1
        count += _status_fields(call, digits, &fields[count])
        return nghttp2_submit_response(http2.session, call.stream, fields, count, NULL) == 0
    provider.source.ptr = call
    provider.read_callback = _read
    return nghttp2_submit_response(http2.session, call.stream, fields, count, &provider) == 0


cdef bint http2_send(EtcdDoor* door, EtcdConnection* connection) noexcept nogil:
    cdef Http2* http2 = <Http2*>connection.session
    cdef EtcdCall* call = calls_take_told(connection)
    cdef const uint8_t* bytes = NULL
    cdef ssize_t length = 1
    cdef size_t made = 0
    while call != NULL:
        if not call.is_headed:
            if not _head(http2, call):
                return False
        elif call.is_deferred:
            call.is_deferred = False
            nghttp2_session_resume_data(http2.session, call.stream)
        call = calls_take_told(connection)
    while connection.base.out.size - connection.base.out_offset < TUNE_OUT_BYTES and made < BATCH_BYTES_MAX:
        length = nghttp2_session_mem_send(http2.session, &bytes)
        if length <= 0:
            break
        if not connection.base.out.append(bytes, <size_t>length):
            return False
        made += <size_t>length
    if made:
        door.desk.base.turn_bytes += made
        connection_touch(&door.desk.base, &connection.base)
    if length < 0:
        return False
    return nghttp2_session_want_read(http2.session) != 0 or nghttp2_session_want_write(http2.session) != 0
