"""The table of etcd's messages, for tests."""

from libc.stdint cimport uint8_t, uint32_t

from raftmeta.doors.etcd.schema cimport (NAMES_MAX, SCHEMA_MESSAGES_MAX, EtcdField, schema_check, schema_field,
                                         schema_fields, schema_name)
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
