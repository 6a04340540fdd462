"""JSON of etcd's gateway: bodies."""

from libc.stdint cimport uint8_t, uint16_t, uint32_t, uint64_t
from libc.stdio cimport snprintf
from libc.string cimport memcmp, strlen

from raftmeta.doors.etcd.protobuf cimport (PB_BYTES, PB_VARINT, PbReader, pb_begin, pb_end, pb_next, pb_put_varint,
                                           pb_reader)
from raftmeta.doors.etcd.schema cimport (KIND_BOOL, KIND_BYTES, KIND_ENUM, KIND_INT64, KIND_MESSAGE, KIND_STRING,
                                         KIND_UINT32, KIND_UINT64, EtcdField, schema_field, schema_fields, schema_name)
from raftmeta.status cimport BAD_FIELD, INCOMPLETE, NO_MEMORY, OK

cdef enum:
    NUMBER_TEXT_MAX = 32

# The rest of the input; the first failure stays.
cdef struct JsonReader:
    const uint8_t* at
    const uint8_t* end
    status_t status
    uint32_t depth
    Vec[uint8_t] text           # of the last string

cdef const char* ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


# --- the letters of JSON ----------------------------------------------------------------------------------------------
cdef void _fail(JsonReader* reader, status_t status) noexcept nogil:
    if reader.status == OK:
        reader.status = status
    reader.at = reader.end


# The next byte that is no space; 0: there is none.
cdef uint8_t _peek(JsonReader* reader) noexcept nogil:
    while reader.at < reader.end and (reader.at[0] == c' ' or 9 <= reader.at[0] <= 13):
        reader.at += 1
    if reader.at == reader.end:
        _fail(reader, INCOMPLETE)
        return 0
    return reader.at[0]


cdef bint _take(JsonReader* reader, uint8_t letter) noexcept nogil:
    if _peek(reader) != letter:
        return False
    reader.at += 1
    return True


cdef void _expect(JsonReader* reader, uint8_t letter) noexcept nogil:
    if not _take(reader, letter):
        _fail(reader, BAD_FIELD)


cdef void _word(JsonReader* reader, const char* word) noexcept nogil:
    cdef size_t length = strlen(word)
    cdef size_t left = <size_t>(reader.end - reader.at)
    if memcmp(reader.at, word, min(length, left)) != 0:
        _fail(reader, BAD_FIELD)
    elif left < length:
        _fail(reader, INCOMPLETE)
    else:
        reader.at += length


cdef int _hex(uint8_t letter) noexcept nogil:
    if c'0' <= letter <= c'9':
        return letter - c'0'
    letter |= 0x20
    return letter - c'a' + 10 if c'a' <= letter <= c'f' else -1


# The four digits of a \u.
cdef uint32_t _unit(JsonReader* reader) noexcept nogil:
    cdef uint32_t unit = 0
    cdef int i, digit
    if reader.end - reader.at < 4:
        _fail(reader, INCOMPLETE)
        return 0
    for i in range(4):
        digit = _hex(reader.at[i])
        if digit < 0:
            _fail(reader, BAD_FIELD)
            return 0
        unit = unit << 4 | <uint32_t>digit
    reader.at += 4
    return unit


cdef void _add(JsonReader* reader, uint8_t byte) noexcept nogil:
    if not reader.text.push(byte):
        _fail(reader, NO_MEMORY)


cdef void _add_code(JsonReader* reader, uint32_t code) noexcept nogil:
    if code < 0x80:
        _add(reader, <uint8_t>code)
    elif code < 0x800:
        _add(reader, <uint8_t>(0xC0 | code >> 6))
    elif code < 0x10000:
        _add(reader, <uint8_t>(0xE0 | code >> 12))
        _add(reader, <uint8_t>(0x80 | code >> 6 & 0x3F))
    else:
        _add(reader, <uint8_t>(0xF0 | code >> 18))
        _add(reader, <uint8_t>(0x80 | code >> 12 & 0x3F))
        _add(reader, <uint8_t>(0x80 | code >> 6 & 0x3F))
    if code >= 0x80:
        _add(reader, <uint8_t>(0x80 | code & 0x3F))


# Behind a \u: one unit, or the two of a surrogate pair. Half a pair is no text.
cdef void _escape_code(JsonReader* reader) noexcept nogil:
    cdef uint32_t code = _unit(reader)
    cdef uint32_t low
    if 0xD800 <= code < 0xDC00:
        _word(reader, b"\\u")
        low = _unit(reader)
        if reader.status == OK and not 0xDC00 <= low < 0xE000:
            _fail(reader, BAD_FIELD)
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
    elif 0xDC00 <= code < 0xE000:
        _fail(reader, BAD_FIELD)
    if reader.status == OK:
        _add_code(reader, code)


cdef void _escape(JsonReader* reader) noexcept nogil:
    cdef uint8_t letter
    if reader.at == reader.end:
        _fail(reader, INCOMPLETE)
        return
    letter = reader.at[0]
    reader.at += 1
    if letter == c'u':
        _escape_code(reader)
    elif letter == c'"' or letter == c'\\' or letter == c'/':
        _add(reader, letter)
    elif letter == c'n':
        _add(reader, 10)
    elif letter == c't':
        _add(reader, 9)
    elif letter == c'r':
        _add(reader, 13)
    elif letter == c'b':
        _add(reader, 8)
    elif letter == c'f':
        _add(reader, 12)
    else:
        _fail(reader, BAD_FIELD)


# A string, into reader.text.
cdef void _string(JsonReader* reader) noexcept nogil:
    cdef const uint8_t* start
    reader.text.clear()
    _expect(reader, c'"')
    while reader.status == OK:
        start = reader.at
        while reader.at < reader.end and reader.at[0] != c'"' and reader.at[0] != c'\\' and reader.at[0] >= 0x20:
            reader.at += 1
        if not reader.text.append(start, <size_t>(reader.at - start)):
            _fail(reader, NO_MEMORY)
        if reader.at == reader.end:
            _fail(reader, INCOMPLETE)
        elif reader.at[0] == c'"':
            reader.at += 1
            return
        elif reader.at[0] == c'\\':
            reader.at += 1
            _escape(reader)
        else:
            _fail(reader, BAD_FIELD)


cdef bint _is_of_number(uint8_t letter) noexcept nogil:
    return c'0' <= letter <= c'9' or letter == c'-' or letter == c'+' or letter == c'.' or (letter | 0x20) == c'e'


# A number's letters, into reader.text. One that the input ends with may go on.
cdef void _number(JsonReader* reader) noexcept nogil:
    reader.text.clear()
    _peek(reader)
    while reader.at < reader.end and _is_of_number(reader.at[0]):
        _add(reader, reader.at[0])
        reader.at += 1
    if reader.status == OK and reader.text.size == 0:
        _fail(reader, BAD_FIELD)
    elif reader.at == reader.end:
        _fail(reader, INCOMPLETE)


cdef void _deeper(JsonReader* reader) noexcept nogil:
    reader.depth += 1
    if reader.depth > JSON_DEPTH_MAX:
        _fail(reader, BAD_FIELD)


# Pass over a value that nobody wants.
cdef void _pass(JsonReader* reader) noexcept nogil:
    cdef uint8_t letter = _peek(reader)
    if letter == c'"':
        _string(reader)
    elif letter == c'{':
        _pass_all(reader, c'}', True)
    elif letter == c'[':
        _pass_all(reader, c']', False)
    elif letter == c't':
        _word(reader, b"true")
    elif letter == c'f':
        _word(reader, b"false")
    elif letter == c'n':
        _word(reader, b"null")
    else:
        _number(reader)


cdef void _pass_all(JsonReader* reader, uint8_t closing, bint has_names) noexcept nogil:
    reader.at += 1
    _deeper(reader)
    if _take(reader, closing):
        reader.depth -= 1
        return
    while reader.status == OK:
        if has_names:
            _peek(reader)
            _string(reader)
            _expect(reader, c':')
        _pass(reader)
        if _take(reader, closing):
            reader.depth -= 1
            return
        _expect(reader, c',')


# --- values of fields -------------------------------------------------------------------------------------------------
cdef void _put_number(JsonReader* reader, Vec[uint8_t]* out, const EtcdField* field, uint64_t value) noexcept nogil:
    if reader.status == OK and not (pb_put_varint(out, <uint64_t>field.number << 3 | PB_VARINT)
                                    and pb_put_varint(out, value)):
        _fail(reader, NO_MEMORY)


cdef int _six(uint8_t letter) noexcept nogil:
    if c'A' <= letter <= c'Z':
        return letter - c'A'
    if c'a' <= letter <= c'z':
        return letter - c'a' + 26
    if c'0' <= letter <= c'9':
        return letter - c'0' + 52
    if letter == c'+' or letter == c'-':
        return 62
    return 63 if letter == c'/' or letter == c'_' else -1


# reader.text as base64, of either alphabet, padded or not.
cdef void _base64(JsonReader* reader, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t length = reader.text.size
    cdef uint32_t bits = 0
    cdef size_t i
    cdef int six
    while length and reader.text.data[length - 1] == c'=':
        length -= 1
    if reader.text.size - length > 2 or length % 4 == 1 or (length != reader.text.size and reader.text.size % 4):
        _fail(reader, BAD_FIELD)
        return
    for i in range(length):
        six = _six(reader.text.data[i])
        if six < 0:
            _fail(reader, BAD_FIELD)
            return
        bits = bits << 6 | <uint32_t>six
        if i % 4 and not out.push(<uint8_t>(bits >> (6 - 2 * (i % 4)))):
            _fail(reader, NO_MEMORY)
            return


# reader.text as a whole number. Its bits: a negative one is that of its two's complement.
cdef uint64_t _whole(JsonReader* reader, bint is_signed, uint64_t most) noexcept nogil:
    cdef bint is_negative = reader.text.size != 0 and reader.text.data[0] == c'-'
    cdef uint64_t number = 0
    cdef uint64_t digit
    cdef size_t i
    if reader.text.size == <size_t>is_negative or (is_negative and not is_signed):
        _fail(reader, BAD_FIELD)
        return 0
    for i in range(<size_t>is_negative, reader.text.size):
        if not c'0' <= reader.text.data[i] <= c'9':
            _fail(reader, BAD_FIELD)
            return 0
        digit = reader.text.data[i] - c'0'
        if number > (most + is_negative - digit) // 10:
            _fail(reader, BAD_FIELD)
            return 0
        number = number * 10 + digit
    return ~number + 1 if is_negative else number


cdef void _integer(JsonReader* reader, Vec[uint8_t]* out, const EtcdField* field) noexcept nogil:
    cdef uint64_t most = ~<uint64_t>0
    if _peek(reader) == c'"':
        _string(reader)
    else:
        _number(reader)
    if field.kind == KIND_INT64:
        most >>= 1
    elif field.kind == KIND_UINT32:
        most >>= 32
    if reader.status == OK:
        _put_number(reader, out, field, _whole(reader, field.kind == KIND_INT64, most))


cdef void _enum(JsonReader* reader, Vec[uint8_t]* out, const EtcdField* field) noexcept nogil:
    cdef const char* name
    cdef uint32_t value = 0
    if _peek(reader) != c'"':
        _number(reader)
        if reader.status == OK:
            _put_number(reader, out, field, _whole(reader, False, 0x7FFFFFFF))
        return
    _string(reader)
    name = schema_name(field.of, value)
    while reader.status == OK and name != NULL:
        if strlen(name) == reader.text.size and memcmp(name, reader.text.data, reader.text.size) == 0:
            _put_number(reader, out, field, value)
            return
        value += 1
        name = schema_name(field.of, value)
    _fail(reader, BAD_FIELD)


cdef void _text(JsonReader* reader, Vec[uint8_t]* out, bint is_base64) noexcept nogil:
    _peek(reader)
    _string(reader)
    if reader.status != OK:
        return
    if is_base64:
        _base64(reader, out)
    elif not out.append(reader.text.data, reader.text.size):
        _fail(reader, NO_MEMORY)


cdef void _value(JsonReader* reader, Vec[uint8_t]* out, const EtcdField* field) noexcept nogil:
    cdef size_t start
    cdef bint is_true
    if field.kind == KIND_BOOL:
        is_true = _peek(reader) == c't'
        _word(reader, b"true" if is_true else b"false")
        _put_number(reader, out, field, is_true)
    elif field.kind == KIND_ENUM:
        _enum(reader, out, field)
    elif field.kind == KIND_MESSAGE or field.kind == KIND_BYTES or field.kind == KIND_STRING:
        start = pb_begin(out, field.number)
        if field.kind == KIND_MESSAGE:
            _object(reader, out, field.of)
        else:
            _text(reader, out, field.kind == KIND_BYTES)
        if reader.status == OK and not pb_end(out, start):
            _fail(reader, NO_MEMORY)
    else:
        _integer(reader, out, field)


cdef void _list(JsonReader* reader, Vec[uint8_t]* out, const EtcdField* field) noexcept nogil:
    _expect(reader, c'[')
    _deeper(reader)
    if _take(reader, c']'):
        reader.depth -= 1
        return
    while reader.status == OK:
        _peek(reader)
        _value(reader, out, field)
        if _take(reader, c']'):
            reader.depth -= 1
            return
        _expect(reader, c',')


# Whether reader.text is the field's name, or that in camel case.
cdef bint _is_named(const JsonReader* reader, const char* name) noexcept nogil:
    cdef size_t i = 0
    cdef uint8_t letter
    if strlen(name) == reader.text.size and memcmp(name, reader.text.data, reader.text.size) == 0:
        return True
    while name[0]:
        letter = <uint8_t>name[0]
        name += 1
        if letter == c'_' and c'a' <= <uint8_t>name[0] <= c'z':
            letter = <uint8_t>name[0] - 0x20
            name += 1
        if i == reader.text.size or reader.text.data[i] != letter:
            return False
        i += 1
    return i == reader.text.size


cdef const EtcdField* _field_named(const JsonReader* reader, uint16_t message) noexcept nogil:
    cdef uint32_t count
    cdef const EtcdField* fields = schema_fields(message, &count)
    cdef uint32_t i
    for i in range(count):
        if _is_named(reader, fields[i].name):
            return &fields[i]
    return NULL


cdef void _object(JsonReader* reader, Vec[uint8_t]* out, uint16_t message) noexcept nogil:
    cdef const EtcdField* field
    _expect(reader, c'{')
    _deeper(reader)
    if _take(reader, c'}'):
        reader.depth -= 1
        return
    while reader.status == OK:
        _peek(reader)
        _string(reader)
        field = _field_named(reader, message) if reader.status == OK else NULL
        _expect(reader, c':')
        if field == NULL or _peek(reader) == c'n':
            _pass(reader)
        elif field.is_list:
            _list(reader, out, field)
        else:
            _value(reader, out, field)
        if _take(reader, c'}'):
            reader.depth -= 1
            return
        _expect(reader, c',')


cdef status_t json_to_message(uint16_t message, const uint8_t* bytes, size_t length, size_t* used,
                              Vec[uint8_t]* out) noexcept nogil:
    cdef JsonReader reader
    cdef size_t start = out.size
    reader.at = bytes
    reader.end = bytes + length
    reader.status = OK
    reader.depth = 0
    reader.text.data = NULL
    reader.text.size = reader.text.capacity = 0
    _peek(&reader)
    if reader.status == OK:
        _object(&reader, out, message)
    used[0] = <size_t>(reader.at - bytes)
    reader.text.release()
    if reader.status != OK:
        out.size = start
    return reader.status


# --- messages as JSON -------------------------------------------------------------------------------------------------
cdef bint _write(Vec[uint8_t]* out, const char* text) noexcept nogil:
    return out.append(<const uint8_t*>text, strlen(text))


cdef bint json_text(const uint8_t* text, size_t length, Vec[uint8_t]* out) noexcept nogil:
    cdef char[8] escape
    cdef size_t i
    if not out.push(c'"'):
        return False
    for i in range(length):
        if text[i] == c'"' or text[i] == c'\\':
            if not out.push(c'\\'):
                return False
        if text[i] < 0x20:
            snprintf(escape, sizeof(escape), b"\\u%04x", <unsigned int>text[i])
            if not _write(out, escape):
                return False
        elif not out.push(text[i]):
            return False
    return out.push(c'"')


cdef bint _write_base64(const uint8_t* bytes, size_t length, Vec[uint8_t]* out) noexcept nogil:
    cdef size_t groups = (length + 2) // 3
    cdef size_t at = out.size + 1
    cdef uint32_t bits
    cdef size_t i, j, here
    if not out.resize(out.size + 4 * groups + 2):
        return False
    out.data[at - 1] = c'"'
    out.data[out.size - 1] = c'"'
    for i in range(groups):
        here = min(length - 3 * i, <size_t>3)
        bits = 0
        for j in range(3):
            bits = bits << 8 | (bytes[3 * i + j] if j < here else 0)
        for j in range(4):
            out.data[at + j] = <uint8_t>ALPHABET[bits >> (18 - 6 * j) & 0x3F] if j <= here else c'='
        at += 4
    return True


cdef bint _write_number(const EtcdField* field, uint64_t value, Vec[uint8_t]* out) noexcept nogil:
    cdef char[NUMBER_TEXT_MAX] text
    if field.kind == KIND_INT64:
        snprintf(text, sizeof(text), b"\"%ld\"", <long>value)
    elif field.kind == KIND_UINT64:
        snprintf(text, sizeof(text), b"\"%lu\"", <unsigned long>value)
    else:
        snprintf(text, sizeof(text), b"%lu", <unsigned long>value)
    return _write(out, text)


cdef status_t _write_value(const EtcdField* field, const PbReader* found, Vec[uint8_t]* out) noexcept nogil:
    cdef const char* name
    if found.wire != (<int>PB_BYTES if field.kind in (KIND_MESSAGE, KIND_BYTES, KIND_STRING) else <int>PB_VARINT):
        return BAD_FIELD
    if field.kind == KIND_MESSAGE:
        return message_to_json(field.of, &found.bytes, out)
    if field.kind == KIND_BYTES:
        return OK if _write_base64(found.bytes.data, found.bytes.length, out) else NO_MEMORY
    if field.kind == KIND_STRING:
        return OK if json_text(found.bytes.data, found.bytes.length, out) else NO_MEMORY
    if field.kind == KIND_BOOL:
        return OK if _write(out, b"true" if found.number else b"false") else NO_MEMORY
    name = schema_name(field.of, <uint32_t>found.number) if field.kind == KIND_ENUM else NULL
    if name != NULL:
        return OK if json_text(<const uint8_t*>name, strlen(name), out) else NO_MEMORY
    return OK if _write_number(field, found.number, out) else NO_MEMORY


# Elements of a list stand in a row, as every encoder writes them.
cdef status_t message_to_json(uint16_t message, const Bytes* bytes, Vec[uint8_t]* out) noexcept nogil:
    cdef PbReader reader = pb_reader(bytes)
    cdef const EtcdField* field
    cdef uint32_t listed = 0    # number of the list that is open
    cdef bint is_first = True
    cdef bint is_sound = out.push(c'{')
    cdef status_t status
    while pb_next(&reader):
        field = schema_field(message, reader.field)
        if field == NULL:
            continue
        if listed != 0 and listed != field.number:
            is_sound = is_sound and out.push(c']')
            listed = 0
        if not is_first:
            is_sound = is_sound and out.push(c',')
        if listed == 0:
            is_sound = (is_sound and json_text(<const uint8_t*>field.name, strlen(field.name), out)
                        and out.push(c':') and (not field.is_list or out.push(c'[')))
            listed = field.number if field.is_list else 0
        is_first = False
        status = _write_value(field, &reader, out) if is_sound else NO_MEMORY
        if status != OK:
            return status
    if reader.is_bad:
        return BAD_FIELD
    if listed != 0:
        is_sound = is_sound and out.push(c']')
    return OK if is_sound and out.push(c'}') else NO_MEMORY
