# The part of msgpack that raftmeta speaks: nil, booleans, integers, bin and arrays, in their shortest form only.
#
# Every value has one encoding, the one that the `msgpack` package writes with use_bin_type=True. The reader refuses
# every
# other, so two encodings never mean the same, and bytes can be compared, hashed and signed. There is no map, no str, no
# float and no ext. Nothing here allocates for what it reads: a bin is a window into the input.
#
#   pack_*    write to memory that the caller has reserved, return the next free byte (PACK_BYTES_MAX each)
#   write_*   the same at the end of a Vec, which grows; the first failure sticks in Writer.status
#   read_*    take one value; the first failure sticks in Reader.status, every later read gives 0 and no progress
#
# So a walker over a schema reads straight down and looks at the status once, at the end. Before it loops or allocates
# by
# a value it must look earlier (read_array_max bounds the value by the bytes that are left).
# Source: github.com/msgpack/msgpack, the format specification.
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy

from raftmeta.native.containers cimport Vec
from raftmeta.native.intrinsics cimport big64
from raftmeta.status cimport BAD_FIELD, BAD_LENGTH, NO_MEMORY, OK, status_t

cdef enum:
    PACK_BYTES_MAX = 9          # of one value without the bytes of a bin

cdef enum:
    MSGPACK_NIL = 0xc0
    MSGPACK_FALSE = 0xc2
    MSGPACK_TRUE = 0xc3
    MSGPACK_BIN8 = 0xc4
    MSGPACK_BIN16 = 0xc5
    MSGPACK_BIN32 = 0xc6
    MSGPACK_UINT8 = 0xcc
    MSGPACK_UINT16 = 0xcd
    MSGPACK_UINT32 = 0xce
    MSGPACK_UINT64 = 0xcf
    MSGPACK_INT8 = 0xd0
    MSGPACK_INT16 = 0xd1
    MSGPACK_INT32 = 0xd2
    MSGPACK_INT64 = 0xd3
    MSGPACK_ARRAY16 = 0xdc
    MSGPACK_ARRAY32 = 0xdd
    MSGPACK_FIXED_ARRAY = 0x90          # | count, at most 15
    MSGPACK_NEGATIVE_FIXED = 0xe0       # -32 .. -1

# Terms, indexes and revisions stay below 2^63, so that every signed reader of them is right as well.
cdef inline uint64_t number_max() noexcept nogil:
    return (<uint64_t>1 << 63) - 1

cdef inline uint64_t unsigned_max() noexcept nogil:
    return ~<uint64_t>0


# --- pack: into reserved memory ---------------------------------------------------------------------------------------
cdef inline uint8_t* _pack_big(uint8_t* at, uint8_t tag, uint64_t value, int width) noexcept nogil:
    at[0] = tag
    cdef int shift = 8 * width
    cdef int i
    for i in range(width):
        shift -= 8
        at[1 + i] = <uint8_t>(value >> shift)
    return at + 1 + width

cdef inline uint8_t* pack_uint(uint8_t* at, uint64_t value) noexcept nogil:
    if value < 0x80:
        at[0] = <uint8_t>value
        return at + 1
    if value <= 0xff:
        return _pack_big(at, MSGPACK_UINT8, value, 1)
    if value <= 0xffff:
        return _pack_big(at, MSGPACK_UINT16, value, 2)
    if value <= <uint64_t>(~<uint32_t>0):
        return _pack_big(at, MSGPACK_UINT32, value, 4)
    return _pack_big(at, MSGPACK_UINT64, value, 8)

cdef inline uint8_t* pack_int(uint8_t* at, int64_t value) noexcept nogil:
    if value >= 0:
        return pack_uint(at, <uint64_t>value)
    if value >= -32:
        at[0] = <uint8_t>value
        return at + 1
    if value == <int8_t>value:
        return _pack_big(at, MSGPACK_INT8, <uint64_t>value, 1)
    if value == <int16_t>value:
        return _pack_big(at, MSGPACK_INT16, <uint64_t>value, 2)
    if value == <int32_t>value:
        return _pack_big(at, MSGPACK_INT32, <uint64_t>value, 4)
    return _pack_big(at, MSGPACK_INT64, <uint64_t>value, 8)

cdef inline uint8_t* pack_byte(uint8_t* at, uint8_t value) noexcept nogil:
    at[0] = value
    return at + 1

cdef inline uint8_t* pack_bool(uint8_t* at, bint value) noexcept nogil:
    return pack_byte(at, MSGPACK_TRUE if value else MSGPACK_FALSE)

cdef inline uint8_t* pack_array(uint8_t* at, uint32_t count) noexcept nogil:
    if count < 16:
        return pack_byte(at, <uint8_t>(MSGPACK_FIXED_ARRAY | count))
    if count <= 0xffff:
        return _pack_big(at, MSGPACK_ARRAY16, count, 2)
    return _pack_big(at, MSGPACK_ARRAY32, count, 4)

# The caller has reserved PACK_BYTES_MAX + length bytes.
cdef inline uint8_t* pack_bin(uint8_t* at, const uint8_t* data, uint32_t length) noexcept nogil:
    if length <= 0xff:
        at = _pack_big(at, MSGPACK_BIN8, length, 1)
    elif length <= 0xffff:
        at = _pack_big(at, MSGPACK_BIN16, length, 2)
    else:
        at = _pack_big(at, MSGPACK_BIN32, length, 4)
    if length:
        memcpy(at, data, length)
    return at + length


# --- write: at the end of a Vec ---------------------------------------------------------------------------------------
cdef struct Writer:
    Vec[uint8_t]* out
    status_t status             # OK or NO_MEMORY, or the caller's own verdict on its data

cdef inline Writer writer_at(Vec[uint8_t]* out) noexcept nogil:
    cdef Writer writer
    writer.out = out
    writer.status = OK
    return writer

cdef inline void write_fail(Writer* writer, status_t status) noexcept nogil:
    if writer.status == OK:
        writer.status = status

# Room for `length` more bytes, NULL: none, or an earlier failure. write_up_to takes what was packed there.
cdef inline uint8_t* write_room(Writer* writer, size_t length) noexcept nogil:
    if writer.status != OK:
        return NULL
    if not writer.out.reserve(writer.out.size + length):
        writer.status = NO_MEMORY
        return NULL
    return writer.out.data + writer.out.size

cdef inline void write_up_to(Writer* writer, const uint8_t* at) noexcept nogil:
    writer.out.size = <size_t>(at - writer.out.data)

cdef inline void write_uint(Writer* writer, uint64_t value) noexcept nogil:
    cdef uint8_t* at = write_room(writer, PACK_BYTES_MAX)
    if at is not NULL:
        write_up_to(writer, pack_uint(at, value))

cdef inline void write_int(Writer* writer, int64_t value) noexcept nogil:
    cdef uint8_t* at = write_room(writer, PACK_BYTES_MAX)
    if at is not NULL:
        write_up_to(writer, pack_int(at, value))

cdef inline void write_nil(Writer* writer) noexcept nogil:
    cdef uint8_t* at = write_room(writer, PACK_BYTES_MAX)
    if at is not NULL:
        write_up_to(writer, pack_byte(at, MSGPACK_NIL))

cdef inline void write_bool(Writer* writer, bint value) noexcept nogil:
    cdef uint8_t* at = write_room(writer, PACK_BYTES_MAX)
    if at is not NULL:
        write_up_to(writer, pack_bool(at, value))

cdef inline void write_array(Writer* writer, uint32_t count) noexcept nogil:
    cdef uint8_t* at = write_room(writer, PACK_BYTES_MAX)
    if at is not NULL:
        write_up_to(writer, pack_array(at, count))

cdef inline void write_bin(Writer* writer, const uint8_t* data, uint32_t length) noexcept nogil:
    cdef uint8_t* at = write_room(writer, PACK_BYTES_MAX + <size_t>length)
    if at is not NULL:
        write_up_to(writer, pack_bin(at, data, length))


# --- read: one value after another ------------------------------------------------------------------------------------
cdef struct Reader:
    const uint8_t* at
    const uint8_t* end
    status_t status             # OK, BAD_LENGTH: cut short or more than was asked, BAD_FIELD: a value of another kind

cdef inline Reader reader_over(const uint8_t* bytes, size_t length) noexcept nogil:
    cdef Reader reader
    reader.at = bytes
    reader.end = bytes + length
    reader.status = OK
    return reader

# Keep the first failure; nothing is left to read after it.
cdef inline void read_fail(Reader* reader, status_t status) noexcept nogil:
    if reader.status == OK:
        reader.status = status
    reader.at = reader.end

cdef inline size_t read_left(const Reader* reader) noexcept nogil:
    return <size_t>(reader.end - reader.at)

# The status of the whole: OK if everything was read and nothing is left over.
cdef inline status_t read_done(Reader* reader) noexcept nogil:
    if reader.at != reader.end:
        read_fail(reader, BAD_LENGTH)
    return reader.status

# The next tag byte without taking it; 0xc1 (never used in msgpack) at the end of the input.
cdef inline uint8_t read_peek(const Reader* reader) noexcept nogil:
    return reader.at[0] if reader.at != reader.end else <uint8_t>0xc1

# A big-endian number of `width` bytes behind the tag. 0 and a failure when the input is too short.
cdef inline uint64_t _read_big(Reader* reader, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    if read_left(reader) < <size_t>(1 + width):
        read_fail(reader, BAD_LENGTH)
        return 0
    for i in range(width):
        value = value << 8 | reader.at[1 + i]
    reader.at += 1 + width
    return value

# The length behind a tag; it must be too large for the next shorter form.
cdef inline uint64_t _read_above(Reader* reader, int width, uint64_t floor) noexcept nogil:
    cdef uint64_t value = _read_big(reader, width)
    if value <= floor:
        read_fail(reader, BAD_FIELD)
        return 0
    return value

cdef inline uint64_t _read_long_uint(Reader* reader) noexcept nogil:
    cdef uint8_t tag = read_peek(reader)
    if tag == MSGPACK_UINT8:
        return _read_above(reader, 1, 0x7f)
    if tag == MSGPACK_UINT16:
        return _read_above(reader, 2, 0xff)
    if tag == MSGPACK_UINT32:
        return _read_above(reader, 4, 0xffff)
    if tag == MSGPACK_UINT64:
        return _read_above(reader, 8, ~<uint32_t>0)
    read_fail(reader, BAD_FIELD if reader.at != reader.end else BAD_LENGTH)
    return 0

# An unsigned integer of at most `most`.
cdef inline uint64_t read_uint(Reader* reader, uint64_t most) noexcept nogil:
    cdef uint64_t value
    if reader.at != reader.end and reader.at[0] < 0x80:
        value = reader.at[0]
        reader.at += 1
    else:
        value = _read_long_uint(reader)
    if value > most:
        read_fail(reader, BAD_FIELD)
        return 0
    return value

cdef inline int64_t read_int(Reader* reader) noexcept nogil:
    cdef uint8_t tag = read_peek(reader)
    cdef int64_t value
    cdef int64_t ceiling            # the greatest value of the next shorter form
    if tag >= MSGPACK_NEGATIVE_FIXED:
        reader.at += 1
        return <int8_t>tag
    if tag == MSGPACK_INT8:
        value, ceiling = <int8_t>_read_big(reader, 1), -33
    elif tag == MSGPACK_INT16:
        value, ceiling = <int16_t>_read_big(reader, 2), -129
    elif tag == MSGPACK_INT32:
        value, ceiling = <int32_t>_read_big(reader, 4), -32_769
    elif tag == MSGPACK_INT64:
        value, ceiling = <int64_t>_read_big(reader, 8), -2_147_483_649
    else:
        return <int64_t>read_uint(reader, number_max())
    if value > ceiling:
        read_fail(reader, BAD_FIELD)
        return 0
    return value

cdef inline bint read_bool(Reader* reader) noexcept nogil:
    cdef uint8_t tag = read_peek(reader)
    if tag != MSGPACK_TRUE and tag != MSGPACK_FALSE:
        read_fail(reader, BAD_FIELD if reader.at != reader.end else BAD_LENGTH)
        return False
    reader.at += 1
    return tag == MSGPACK_TRUE

# True if the next value is nil; takes it.
cdef inline bint read_nil(Reader* reader) noexcept nogil:
    if read_peek(reader) != MSGPACK_NIL:
        return False
    reader.at += 1
    return True

# The count of an array of at most `most` elements; each takes a byte or more, so the count is bounded by what is left.
cdef inline uint32_t read_array_max(Reader* reader, uint32_t most) noexcept nogil:
    cdef uint8_t tag = read_peek(reader)
    cdef uint64_t count
    if tag & 0xf0 == MSGPACK_FIXED_ARRAY:
        count = tag & 0x0f
        reader.at += 1
    elif tag == MSGPACK_ARRAY16:
        count = _read_above(reader, 2, 15)
    elif tag == MSGPACK_ARRAY32:
        count = _read_above(reader, 4, 0xffff)
    else:
        read_fail(reader, BAD_FIELD if reader.at != reader.end else BAD_LENGTH)
        return 0
    if count > most:
        read_fail(reader, BAD_FIELD)
        return 0
    if count > read_left(reader):
        read_fail(reader, BAD_LENGTH)
        return 0
    return <uint32_t>count

cdef inline void read_array(Reader* reader, uint32_t count) noexcept nogil:
    if read_array_max(reader, count) != count:
        read_fail(reader, BAD_FIELD)

# A bin of at most `most` bytes: a window into the input. NULL and 0 after a failure.
cdef inline const uint8_t* read_bin(Reader* reader, uint32_t most, uint32_t* length) noexcept nogil:
    cdef uint8_t tag = read_peek(reader)
    cdef const uint8_t* data
    cdef uint64_t wanted
    length[0] = 0
    if tag == MSGPACK_BIN8:
        wanted = _read_big(reader, 1)
    elif tag == MSGPACK_BIN16:
        wanted = _read_above(reader, 2, 0xff)
    elif tag == MSGPACK_BIN32:
        wanted = _read_above(reader, 4, 0xffff)
    else:
        read_fail(reader, BAD_FIELD if reader.at != reader.end else BAD_LENGTH)
        return NULL
    if wanted > most:
        read_fail(reader, BAD_FIELD)
        return NULL
    if wanted > read_left(reader):
        read_fail(reader, BAD_LENGTH)
        return NULL
    if reader.status != OK:
        return NULL
    data = reader.at
    reader.at += wanted
    length[0] = <uint32_t>wanted
    return data
