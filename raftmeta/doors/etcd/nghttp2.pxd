# The part of nghttp2 that the etcd door uses: HTTP/2 of a server (RFC 9113), by bytes in and bytes out.
#
# Only http2.pyx calls these functions, and links the library.
from libc.stddef cimport size_t
from libc.stdint cimport int32_t, uint8_t, uint32_t, uint64_t

cdef extern from "<nghttp2/nghttp2.h>" nogil:
    enum:
        NGHTTP2_DATA
        NGHTTP2_HEADERS
        NGHTTP2_RST_STREAM
        NGHTTP2_FLAG_NONE
        NGHTTP2_FLAG_END_STREAM
        NGHTTP2_HCAT_REQUEST
        NGHTTP2_DATA_FLAG_EOF
        NGHTTP2_DATA_FLAG_NO_END_STREAM
        NGHTTP2_ERR_DEFERRED
        NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE
        NGHTTP2_ERR_CALLBACK_FAILURE
        NGHTTP2_NO_ERROR
        NGHTTP2_ENHANCE_YOUR_CALM
        NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS
        NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE
        NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE

    ctypedef struct nghttp2_session:
        pass
    ctypedef struct nghttp2_session_callbacks:
        pass
    ctypedef struct nghttp2_option:
        pass

    ctypedef struct nghttp2_frame_hd:
        size_t length
        int32_t stream_id
        uint8_t type
        uint8_t flags

    ctypedef struct nghttp2_headers:
        nghttp2_frame_hd hd
        int cat

    ctypedef union nghttp2_frame:
        nghttp2_frame_hd hd
        nghttp2_headers headers

    ctypedef struct nghttp2_nv:
        uint8_t* name
        uint8_t* value
        size_t namelen
        size_t valuelen
        uint8_t flags

    ctypedef union nghttp2_data_source:
        int fd
        void* ptr

    ctypedef ssize_t (*nghttp2_read "nghttp2_data_source_read_callback")(
        nghttp2_session* session, int32_t stream, uint8_t* into, size_t room, uint32_t* flags,
        nghttp2_data_source* source, void* user) noexcept nogil

    ctypedef struct nghttp2_data_provider:
        nghttp2_data_source source
        nghttp2_read read_callback

    ctypedef struct nghttp2_settings_entry:
        int32_t settings_id
        uint32_t value

    int nghttp2_session_callbacks_new(nghttp2_session_callbacks** callbacks)
    void nghttp2_session_callbacks_set_on_begin_headers_callback(
        nghttp2_session_callbacks* callbacks,
        int (*of)(nghttp2_session*, const nghttp2_frame*, void*) noexcept nogil)
    void nghttp2_session_callbacks_set_on_header_callback(
        nghttp2_session_callbacks* callbacks,
        int (*of)(nghttp2_session*, const nghttp2_frame*, const uint8_t*, size_t, const uint8_t*, size_t, uint8_t,
                  void*) noexcept nogil)
    void nghttp2_session_callbacks_set_on_frame_recv_callback(
        nghttp2_session_callbacks* callbacks,
        int (*of)(nghttp2_session*, const nghttp2_frame*, void*) noexcept nogil)
    void nghttp2_session_callbacks_set_on_frame_send_callback(
        nghttp2_session_callbacks* callbacks,
        int (*of)(nghttp2_session*, const nghttp2_frame*, void*) noexcept nogil)
    void nghttp2_session_callbacks_set_on_data_chunk_recv_callback(
        nghttp2_session_callbacks* callbacks,
        int (*of)(nghttp2_session*, uint8_t, int32_t, const uint8_t*, size_t, void*) noexcept nogil)
    void nghttp2_session_callbacks_set_on_stream_close_callback(
        nghttp2_session_callbacks* callbacks, int (*of)(nghttp2_session*, int32_t, uint32_t, void*) noexcept nogil)
    int nghttp2_option_new(nghttp2_option** option)
    void nghttp2_option_set_max_settings(nghttp2_option* option, size_t most)
    void nghttp2_option_set_max_outbound_ack(nghttp2_option* option, size_t most)
    void nghttp2_option_set_no_closed_streams(nghttp2_option* option, int is_set)
    int nghttp2_session_server_new2(nghttp2_session** session, const nghttp2_session_callbacks* callbacks, void* user,
                                    const nghttp2_option* option)
    void nghttp2_session_del(nghttp2_session* session)
    ssize_t nghttp2_session_mem_recv(nghttp2_session* session, const uint8_t* bytes, size_t length)
    ssize_t nghttp2_session_mem_send(nghttp2_session* session, const uint8_t** bytes)
    int nghttp2_session_want_read(nghttp2_session* session)
    int nghttp2_session_want_write(nghttp2_session* session)
    int nghttp2_session_terminate_session(nghttp2_session* session, uint32_t error)
    int nghttp2_session_set_local_window_size(nghttp2_session* session, uint8_t flags, int32_t stream, int32_t size)
    int nghttp2_session_resume_data(nghttp2_session* session, int32_t stream)
    void* nghttp2_session_get_stream_user_data(nghttp2_session* session, int32_t stream)
    int nghttp2_session_set_stream_user_data(nghttp2_session* session, int32_t stream, void* data)
    int nghttp2_submit_settings(nghttp2_session* session, uint8_t flags, const nghttp2_settings_entry* entries,
                                size_t count)
    int nghttp2_submit_response(nghttp2_session* session, int32_t stream, const nghttp2_nv* fields, size_t count,
                                const nghttp2_data_provider* provider)
    int nghttp2_submit_rst_stream(nghttp2_session* session, uint8_t flags, int32_t stream, uint32_t error)
    int nghttp2_submit_trailer(nghttp2_session* session, int32_t stream, const nghttp2_nv* fields, size_t count)
