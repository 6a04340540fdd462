"""The codec of genesis messages. One form for all types: founding is rare, and one form is easier to trust."""
from libc.stdint cimport uint8_t, uint32_t
from libc.string cimport memset

from raftmeta.native.containers cimport Vec
from raftmeta.raft.genesis cimport GENESIS_FOUNDED, GENESIS_PROPOSE, GENESIS_REFUSE, GenesisMessage
from raftmeta.raft.membership cimport (MEMBERSHIP_BYTES_MAX, membership_decode, membership_encode,
                                       membership_is_plain_text)
from raftmeta.status cimport BAD_FIELD, OK, status_t
from raftmeta.wire.msgpack cimport (Reader, Writer, read_array, read_bin, read_done, read_nil, read_uint, reader_over,
                                    unsigned_max, write_array, write_bin, write_fail, write_nil, write_uint,
                                    writer_at)

cdef enum:
    ELEMENTS = 6


cdef status_t genesis_message_encode(const GenesisMessage* message, Vec[uint8_t]* body) noexcept nogil:
    cdef size_t start = body.size
    cdef Writer writer = writer_at(body)
    write_fail(&writer, _check(message))
    write_array(&writer, ELEMENTS)
    write_uint(&writer, message.type)
    write_uint(&writer, message.cluster_low)
    write_uint(&writer, message.cluster_high)
    write_uint(&writer, message.source)
    write_uint(&writer, message.target)
    if message.membership.count:
        _write_membership(&writer, message)
    else:
        write_nil(&writer)
    if writer.status != OK:
        body.size = start
    return writer.status

cdef void _write_membership(Writer* writer, const GenesisMessage* message) noexcept nogil:
    cdef Vec[uint8_t] encoded
    memset(&encoded, 0, sizeof(encoded))
    write_fail(writer, membership_encode(&message.membership, &encoded))
    write_bin(writer, encoded.data, <uint32_t>encoded.size)
    encoded.release()


cdef status_t genesis_message_decode(const uint8_t* body, uint32_t length, GenesisMessage* message) noexcept nogil:
    cdef Reader reader = reader_over(body, length)
    cdef const uint8_t* membership = NULL
    cdef uint32_t membership_length = 0
    cdef status_t status
    memset(message, 0, sizeof(GenesisMessage))
    read_array(&reader, ELEMENTS)
    message.type = <uint8_t>read_uint(&reader, 0xff)
    message.cluster_low = read_uint(&reader, unsigned_max())
    message.cluster_high = read_uint(&reader, unsigned_max())
    message.source = read_uint(&reader, unsigned_max())
    message.target = read_uint(&reader, unsigned_max())
    if not read_nil(&reader):
        membership = read_bin(&reader, MEMBERSHIP_BYTES_MAX, &membership_length)
    status = read_done(&reader)
    if status == OK and membership is not NULL:
        status = membership_decode(membership, membership_length, &message.membership)
    return _check(message) if status == OK else status

cdef status_t _check(const GenesisMessage* message) noexcept nogil:
    if not GENESIS_PROPOSE <= message.type <= GENESIS_REFUSE or not message.source or not message.target:
        return BAD_FIELD
    if (message.type == GENESIS_PROPOSE or message.type == GENESIS_FOUNDED) and not message.membership.count:
        return BAD_FIELD
    return OK if membership_is_plain_text(&message.membership, NULL) else BAD_FIELD
