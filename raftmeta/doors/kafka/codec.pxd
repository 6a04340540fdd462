# The bytes of Kafka's messages: fields from a request, and fields of an answer.
#
# A handler reads its fields in the order of the protocol, and asks `version` where they differ. After a field that is
# not there, or is too long, `is_bad` holds and every further field is empty: a handler looks once, at the end. A count
# is never larger than the bytes that are left, so a loop over it is bounded by the frame.
#
# Flexible versions (KIP-482) have compact lengths, and tagged fields behind each structure: get_tags and put_tags stand
# at the end of each one, and do nothing in other versions.
#
# It decides nothing. Sources: Kafka's protocol guide; tests/kafka/schema has the pages that tests compare it with.
from libc.stddef cimport size_t
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen

from raftmeta.native.containers cimport Vec
from raftmeta.wire.windows cimport Bytes

cdef enum:
    KAFKA_LENGTH_BYTES = 4
    KAFKA_UUID_BYTES = 16
    VARINT_BYTES_MAX = 5

cdef struct KafkaReader:
    const uint8_t* at
    const uint8_t* end
    int16_t version
    bint is_flexible
    bint is_bad

cdef struct KafkaWriter:
    Vec[uint8_t]* out
    int16_t version
    bint is_flexible
    bint is_bad                 # no memory

# --- reading ----------------------------------------------------------------------------------------------------------
cdef inline uint64_t get_number(KafkaReader* reader, int width) noexcept nogil:
    cdef uint64_t value = 0
    cdef int i
    if reader.is_bad or reader.end - reader.at < width:
        reader.is_bad = True
        return 0
    for i in range(width):
        value = value << 8 | reader.at[i]
    reader.at += width
    return value

cdef inline bint get_bool(KafkaReader* reader) noexcept nogil:
    return get_number(reader, 1) != 0

cdef inline int8_t get_int8(KafkaReader* reader) noexcept nogil:
    return <int8_t>get_number(reader, 1)

cdef inline int16_t get_int16(KafkaReader* reader) noexcept nogil:
    return <int16_t>get_number(reader, 2)

cdef inline int32_t get_int32(KafkaReader* reader) noexcept nogil:
    return <int32_t>get_number(reader, 4)

cdef inline int64_t get_int64(KafkaReader* reader) noexcept nogil:
    return <int64_t>get_number(reader, 8)

# Unsigned, of 32 bits.
cdef inline uint32_t get_varint(KafkaReader* reader) noexcept nogil:
    cdef uint64_t value = 0
    cdef uint8_t byte
    cdef int i
    for i in range(VARINT_BYTES_MAX):
        byte = <uint8_t>get_number(reader, 1)
        value |= <uint64_t>(byte & 0x7F) << (7 * i)
        if byte < 0x80:
            break
    else:
        reader.is_bad = True
    if value > 0xFFFFFFFFULL:
        reader.is_bad = True
    return 0 if reader.is_bad else <uint32_t>value

# Bytes of this length; -1: null.
cdef inline Bytes _get_window(KafkaReader* reader, int64_t length) noexcept nogil:
    cdef Bytes window
    window.data = NULL
    window.length = 0
    if length < -1 or length > reader.end - reader.at:
        reader.is_bad = True
    if reader.is_bad or length < 0:
        return window
    window.data = reader.at
    window.length = <uint32_t>length
    reader.at += length
    return window

# data is NULL: null.
cdef inline Bytes get_text(KafkaReader* reader) noexcept nogil:
    if reader.is_flexible:
        return _get_window(reader, <int64_t>get_varint(reader) - 1)
    return _get_window(reader, get_int16(reader))

# The same of bytes and of records.
cdef inline Bytes get_bytes(KafkaReader* reader) noexcept nogil:
    if reader.is_flexible:
        return _get_window(reader, <int64_t>get_varint(reader) - 1)
    return _get_window(reader, get_int32(reader))

# Elements of the array that follows; -1: null.
cdef inline int32_t get_array(KafkaReader* reader) noexcept nogil:
    cdef int64_t count = <int64_t>get_varint(reader) - 1 if reader.is_flexible else <int64_t>get_int32(reader)
    if count < -1 or count > reader.end - reader.at:
        reader.is_bad = True
    return 0 if reader.is_bad else <int32_t>count

# KAFKA_UUID_BYTES; NULL: they are not there.
cdef inline const uint8_t* get_uuid(KafkaReader* reader) noexcept nogil:
    cdef Bytes window = _get_window(reader, KAFKA_UUID_BYTES)
    return window.data

# Tagged fields that nobody here knows.
cdef inline void get_tags(KafkaReader* reader) noexcept nogil:
    cdef uint32_t left
    if not reader.is_flexible:
        return
    left = get_varint(reader)
    while left and not reader.is_bad:
        get_varint(reader)
        _get_window(reader, get_varint(reader))
        left -= 1

# Whether the request was read whole: nothing is missing, and nothing is left.
cdef inline bint get_end(KafkaReader* reader) noexcept nogil:
    return not reader.is_bad and reader.at == reader.end

# --- writing ----------------------------------------------------------------------------------------------------------
cdef inline void put_raw(KafkaWriter* writer, const uint8_t* bytes, size_t length) noexcept nogil:
    if length and not writer.out.append(bytes, length):
        writer.is_bad = True

cdef inline void put_number(KafkaWriter* writer, uint64_t value, int width) noexcept nogil:
    cdef uint8_t[8] bytes
    cdef int i
    for i in range(width):
        bytes[i] = <uint8_t>(value >> (8 * (width - 1 - i)))
    put_raw(writer, bytes, width)

cdef inline void put_bool(KafkaWriter* writer, bint value) noexcept nogil:
    put_number(writer, 1 if value else 0, 1)

cdef inline void put_int8(KafkaWriter* writer, int8_t value) noexcept nogil:
    put_number(writer, <uint64_t>value, 1)

cdef inline void put_int16(KafkaWriter* writer, int16_t value) noexcept nogil:
    put_number(writer, <uint64_t>value, 2)

cdef inline void put_int32(KafkaWriter* writer, int32_t value) noexcept nogil:
    put_number(writer, <uint64_t>value, 4)

cdef inline void put_int64(KafkaWriter* writer, int64_t value) noexcept nogil:
    put_number(writer, <uint64_t>value, 8)

cdef inline void put_varint(KafkaWriter* writer, uint32_t value) noexcept nogil:
    cdef uint8_t[VARINT_BYTES_MAX] bytes
    cdef int count = 0
    while value >= 0x80:
        bytes[count] = <uint8_t>(value & 0x7F | 0x80)
        value >>= 7
        count += 1
    bytes[count] = <uint8_t>value
    put_raw(writer, bytes, count + 1)

# length -1: null. width: of the length before flexible versions.
cdef inline void _put_length(KafkaWriter* writer, int64_t length, int width) noexcept nogil:
    if writer.is_flexible:
        put_varint(writer, <uint32_t>(length + 1))
    else:
        put_number(writer, <uint64_t>length, width)

# Text that may be null: its data is NULL then. Longer text than a length can say is cut.
cdef inline void put_text_null(KafkaWriter* writer, const Bytes* text) noexcept nogil:
    cdef uint32_t length = min(text.length, <uint32_t>0x7FFF)
    _put_length(writer, -1 if text.data == NULL else <int64_t>length, 2)
    put_raw(writer, text.data, length)

cdef inline void put_text(KafkaWriter* writer, const Bytes* text) noexcept nogil:
    cdef uint32_t length = min(text.length, <uint32_t>0x7FFF)
    _put_length(writer, length, 2)
    put_raw(writer, text.data, length)

cdef inline void put_word(KafkaWriter* writer, const char* word) noexcept nogil:
    cdef size_t length = strlen(word)
    _put_length(writer, <int64_t>length, 2)
    put_raw(writer, <const uint8_t*>word, length)

cdef inline void put_null_text(KafkaWriter* writer) noexcept nogil:
    _put_length(writer, -1, 2)

# The same of bytes and of records.
cdef inline void put_bytes(KafkaWriter* writer, const Bytes* bytes) noexcept nogil:
    _put_length(writer, bytes.length, 4)
    put_raw(writer, bytes.data, bytes.length)

cdef inline void put_null_bytes(KafkaWriter* writer) noexcept nogil:
    _put_length(writer, -1, 4)

cdef inline void put_array(KafkaWriter* writer, uint32_t count) noexcept nogil:
    _put_length(writer, count, 4)

cdef inline void put_null_array(KafkaWriter* writer) noexcept nogil:
    _put_length(writer, -1, 4)

# NULL: all zero.
cdef inline void put_uuid(KafkaWriter* writer, const uint8_t* uuid) noexcept nogil:
    if uuid != NULL:
        put_raw(writer, uuid, KAFKA_UUID_BYTES)
        return
    put_number(writer, 0, 8)
    put_number(writer, 0, 8)

# The end of a structure without tagged fields.
cdef inline void put_tags(KafkaWriter* writer) noexcept nogil:
    if writer.is_flexible:
        put_number(writer, 0, 1)
