# Protobuf's wire format, as far as etcd's messages need it (protobuf.dev/programming-guides/encoding).
#
# The reader is used on messages that were checked against the schema (schema.pxd): a field has the wire type of its
# kind. Still it never reads beyond the bytes that it has. The writer leaves out zeros and empty bytes, as proto3 does.
from libc.stddef cimport size_t
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memmove

from raftmeta.native.containers cimport Vec
from raftmeta.wire.commands cimport Bytes

cdef enum PbWire:
    PB_VARINT = 0
    PB_FIXED64 = 1
    PB_BYTES = 2
    PB_FIXED32 = 5

cdef enum:
    PB_VARINT_BYTES_MAX = 10

cdef struct PbReader:
    const uint8_t* at
    const uint8_t* end
    bint is_bad
    # The field that pb_next found.
    uint32_t field
    uint8_t wire
    uint64_t number             # of PB_VARINT
    Bytes bytes                 # of PB_BYTES

cdef inline PbReader pb_reader(const Bytes* message) noexcept nogil:
    cdef PbReader reader
    reader.at = message.data
    reader.end = message.data + message.length
    reader.is_bad = False
    reader.field = 0
    reader.wire = 0
    reader.number = 0
    reader.bytes.data = NULL
    reader.bytes.length = 0
    return reader

cdef inline uint64_t pb_varint(PbReader* reader) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int shift = 0
    while reader.at != reader.end and shift < 7 * PB_VARINT_BYTES_MAX:
        byte = reader.at[0]
        value |= <uint64_t>(byte & 0x7f) << shift
        reader.at += 1
        if not byte & 0x80:
            return value
        shift += 7
    reader.is_bad = True
    return 0

# The next field. False: there is none, or the message is bad.
cdef inline bint pb_next(PbReader* reader) noexcept nogil:
    cdef uint64_t tag
    cdef uint64_t length
    if reader.at == reader.end or reader.is_bad:
        return False
    tag = pb_varint(reader)
    reader.field = <uint32_t>(tag >> 3)
    reader.wire = <uint8_t>(tag & 7)
    reader.number = 0
    reader.bytes.data = NULL
    reader.bytes.length = 0
    if reader.is_bad or tag >> 32 or reader.field == 0:
        reader.is_bad = True
        return False
    if reader.wire == PB_VARINT:
        reader.number = pb_varint(reader)
        return not reader.is_bad
    if reader.wire == PB_BYTES:
        length = pb_varint(reader)
    elif reader.wire == PB_FIXED64:
        length = 8
    elif reader.wire == PB_FIXED32:
        length = 4
    else:
        reader.is_bad = True
        return False
    if reader.is_bad or length > <uint64_t>(reader.end - reader.at):
        reader.is_bad = True
        return False
    reader.bytes.data = reader.at
    reader.bytes.length = <uint32_t>length
    reader.at += length
    return True


# --- writing ----------------------------------------------------------------------------------------------------------
# False: no memory, and the bytes written before stand.
cdef inline bint pb_put_varint(Vec[uint8_t]* out, uint64_t value) noexcept nogil:
    cdef uint8_t[PB_VARINT_BYTES_MAX] bytes
    cdef size_t count = 0
    while value >= 0x80:
        bytes[count] = <uint8_t>(value | 0x80)
        count += 1
        value >>= 7
    bytes[count] = <uint8_t>value
    return out.append(bytes, count + 1)

cdef inline uint32_t pb_varint_length(uint64_t value) noexcept nogil:
    cdef uint32_t count = 1
    while value >= 0x80:
        count += 1
        value >>= 7
    return count

cdef inline bint pb_put_uint(Vec[uint8_t]* out, uint32_t field, uint64_t value) noexcept nogil:
    return value == 0 or (pb_put_varint(out, <uint64_t>field << 3 | PB_VARINT) and pb_put_varint(out, value))

cdef inline bint pb_put_int(Vec[uint8_t]* out, uint32_t field, int64_t value) noexcept nogil:
    return pb_put_uint(out, field, <uint64_t>value)

# Also where it is empty: an element of a list, or one of a oneof.
cdef inline bint pb_put_element(Vec[uint8_t]* out, uint32_t field, const Bytes* value) noexcept nogil:
    return (pb_put_varint(out, <uint64_t>field << 3 | PB_BYTES) and pb_put_varint(out, value.length)
            and (value.length == 0 or out.append(value.data, value.length)))

cdef inline bint pb_put_bytes(Vec[uint8_t]* out, uint32_t field, const Bytes* value) noexcept nogil:
    return value.length == 0 or pb_put_element(out, field, value)

# A message in a message begins; its fields follow, and then pb_end with what this one gave. 0: no memory.
cdef inline size_t pb_begin(Vec[uint8_t]* out, uint32_t field) noexcept nogil:
    if not pb_put_varint(out, <uint64_t>field << 3 | PB_BYTES) or not out.push(0):
        return 0
    return out.size

cdef inline bint pb_end(Vec[uint8_t]* out, size_t start) noexcept nogil:
    cdef size_t length
    cdef uint32_t more
    cdef uint64_t left
    cdef uint32_t i
    if start == 0:
        return False
    length = out.size - start
    more = pb_varint_length(length) - 1         # beyond the byte that pb_begin left for it
    if more:
        if not out.resize(out.size + more):
            return False
        memmove(out.data + start + more, out.data + start, length)
    left = length
    for i in range(more + 1):
        out.data[start - 1 + <size_t>i] = <uint8_t>(left & 0x7f | (0x80 if i < more else 0))
        left >>= 7
    return True
