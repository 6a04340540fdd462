"""The table of etcd's messages and the door's tokens, for tests."""

from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from raftmeta.doors.desk.passwords cimport guesses_allow
from raftmeta.doors.desk.users cimport Speaker
from raftmeta.doors.etcd.schema cimport (NAMES_MAX, SCHEMA_MESSAGES_MAX, EtcdField, schema_check, schema_field,
                                         schema_fields, schema_name)
from raftmeta.doors.etcd.tokens cimport TOKEN_TEXT_BYTES_MAX, token_read, token_write
from raftmeta.wire.commands cimport Bytes


def rows():
    """Each field as (message, number, name, kind, of, is_list), by the numbers of schema.pxd."""
    cdef uint32_t count = 0
    cdef const EtcdField* fields
    cdef uint32_t message
    cdef uint32_t i
    found = []
    for message in range(<uint32_t>SCHEMA_MESSAGES_MAX):
        fields = schema_fields(message, &count)
        for i in range(count):
            found.append((fields[i].message, fields[i].number, (<bytes>fields[i].name).decode(), fields[i].kind,
                          fields[i].of, bool(fields[i].is_list)))
    return found


def has_field(uint32_t message, uint32_t number):
    return schema_field(message, number) != NULL


def names():
    """The names of each enum's values."""
    cdef const char* name
    found = []
    for enum in range(1, NAMES_MAX):
        values = []
        for value in range(16):
            name = schema_name(enum, value)
            if name != NULL:
                values.append((<bytes>name).decode())
        found.append(values)
    return found


def is_message(uint32_t message, bytes data):
    """Whether the bytes are such a message."""
    cdef Bytes bytes_
    bytes_.data = <const uint8_t*>data
    bytes_.length = <uint32_t>len(data)
    return bool(schema_check(message, &bytes_))


def token(bytes seed, bytes name, uint64_t since, uint64_t now_ms):
    """A token for the user, made at this time of the lease clock."""
    cdef uint8_t[TOKEN_TEXT_BYTES_MAX] text
    cdef Speaker speaker
    cdef uint32_t length
    memset(&speaker, 0, sizeof(speaker))
    speaker.name_length = <uint8_t>len(name)
    memcpy(speaker.name, <const uint8_t*>name, len(name))
    speaker.since = since
    length = token_write(<const uint8_t*>seed, &speaker, now_ms, text)
    return (<char*>text)[:length]


def read_token(bytes seed, bytes text, uint64_t now_ms):
    """(name, since), or None: it counts for nothing."""
    cdef Speaker speaker
    cdef Bytes shown
    shown.data = <const uint8_t*>text
    shown.length = <uint32_t>len(text)
    if not token_read(<const uint8_t*>seed, &shown, now_ms, &speaker):
        return None
    return (<char*>speaker.name)[:speaker.name_length], speaker.since


def guesses(list times_ns):
    """Whether each of these wrong guesses of one name was looked at; one that was not does not count."""
    cdef uint32_t count = 0
    cdef uint64_t since_ns = 0
    told = []
    for now_ns in times_ns:
        is_allowed = guesses_allow(&count, &since_ns, now_ns)
        count += is_allowed
        told.append(is_allowed)
    return told
