"""The codec of HELLO: one form for peers and clients. It is the one body that is read from an unknown sender, so it has
the smallest cap (FRAME_HELLO_BYTES_MAX). It never changes its form: a later version says more after HELLO.
"""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memcpy, memset

from raftmeta.native.containers cimport Vec
from raftmeta.native.text cimport text_is_plain
from raftmeta.raft.genesis cimport BLANK, OBSERVING
from raftmeta.status cimport BAD_FIELD, BAD_VERSION, OK, status_t
from raftmeta.wire.msgpack cimport (Reader, Writer, number_max, read_array, read_bin, read_done, read_uint, reader_over,
                                    unsigned_max, write_array, write_bin, write_uint, writer_at)

cdef enum:
    ELEMENTS = 13
    STATUS_MAX = 127


cdef status_t hello_encode(const Hello* hello, Vec[uint8_t]* body) noexcept nogil:
    cdef size_t start = body.size
    cdef Writer writer = writer_at(body)
    cdef status_t status = _check(hello)
    if status != OK:
        return status
    write_array(&writer, ELEMENTS)
    write_uint(&writer, hello.purpose)
    write_uint(&writer, hello.version_min)
    write_uint(&writer, hello.version_max)
    write_uint(&writer, hello.genesis_state)
    write_uint(&writer, hello.cluster.low)
    write_uint(&writer, hello.cluster.high)
    write_uint(&writer, hello.id)
    write_uint(&writer, hello.boot)
    write_uint(&writer, hello.feature_level_max)
    write_bin(&writer, hello.name, hello.name_length)
    write_bin(&writer, hello.cluster_name, hello.cluster_name_length)
    write_bin(&writer, hello.address, hello.address_length)
    write_uint(&writer, hello.membership)
    if writer.status != OK:
        body.size = start
    return writer.status


cdef status_t hello_decode(const uint8_t* body, uint32_t length, Hello* hello) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    memset(hello, 0, sizeof(Hello))
    read_array(&reader, ELEMENTS)
    hello.purpose = <uint8_t>read_uint(&reader, 0xff)
    hello.version_min = <uint8_t>read_uint(&reader, 0xff)
    hello.version_max = <uint8_t>read_uint(&reader, 0xff)
    hello.genesis_state = <uint8_t>read_uint(&reader, 0xff)
    hello.cluster.low = read_uint(&reader, unsigned_max())
    hello.cluster.high = read_uint(&reader, unsigned_max())
    hello.id = read_uint(&reader, unsigned_max())
    hello.boot = read_uint(&reader, number_max())
    hello.feature_level_max = <uint32_t>read_uint(&reader, ~<uint32_t>0)
    hello.name_length = _read_text(&reader, hello.name, NAME_BYTES_MAX)
    hello.cluster_name_length = _read_text(&reader, hello.cluster_name, NAME_BYTES_MAX)
    hello.address_length = _read_text(&reader, hello.address, ADDRESS_BYTES_MAX)
    hello.membership = read_uint(&reader, number_max())
    if read_done(&reader) != OK:
        return reader.status
    return _check(hello)

cdef uint8_t _read_text(Reader* reader, uint8_t* into, uint8_t most) noexcept nogil:
    cdef uint32_t length
    cdef const uint8_t* data = read_bin(reader, most, &length)
    if length:
        memcpy(into, data, length)
    return <uint8_t>length

cdef status_t _check(const Hello* hello) noexcept nogil:
    if not 1 <= hello.version_min <= hello.version_max:
        return BAD_FIELD
    if hello.name_length > NAME_BYTES_MAX or not 1 <= hello.cluster_name_length <= NAME_BYTES_MAX:
        return BAD_FIELD
    # Names and addresses come from an unknown sender and are shown to people and written into logs, so they must be
    # text.
    if not (text_is_plain(hello.name, hello.name_length) and text_is_plain(hello.address, hello.address_length)
            and text_is_plain(hello.cluster_name, hello.cluster_name_length)):
        return BAD_FIELD
    if hello.boot > number_max() or hello.membership > number_max():
        return BAD_FIELD
    # A client is no member: it has no state, no boot number and no membership, and need not have a name.
    if hello.purpose == HELLO_CLIENT:
        return OK if not (hello.genesis_state or hello.boot or hello.membership) else BAD_FIELD
    if hello.purpose != HELLO_PEER or not hello.id or not hello.name_length:
        return BAD_FIELD
    return OK if BLANK <= hello.genesis_state <= OBSERVING else BAD_FIELD


cdef status_t hello_negotiate(const Hello* self, const Hello* peer, uint8_t* version) noexcept nogil:
    cdef uint8_t highest = min(self.version_max, peer.version_max)
    version[0] = 0
    if highest < self.version_min or highest < peer.version_min:
        return BAD_VERSION
    version[0] = highest
    return OK


cdef status_t refused_encode(status_t status, const uint8_t* text, uint32_t length, Vec[uint8_t]* body) noexcept nogil:
    cdef size_t start = body.size
    cdef Writer writer = writer_at(body)
    if not 0 < status <= STATUS_MAX or length > REFUSED_TEXT_BYTES_MAX:
        return BAD_FIELD
    write_array(&writer, 2)
    write_uint(&writer, <uint32_t>status)
    write_bin(&writer, text, length)
    if writer.status != OK:
        body.size = start
    return writer.status


cdef status_t refused_decode(const uint8_t* body, uint32_t length, status_t* status, const uint8_t** text,
                             uint32_t* text_length) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    read_array(&reader, 2)
    status[0] = <status_t>read_uint(&reader, STATUS_MAX)
    text[0] = read_bin(&reader, REFUSED_TEXT_BYTES_MAX, text_length)
    if read_done(&reader) == OK and status[0] == OK:
        return BAD_FIELD
    return reader.status
